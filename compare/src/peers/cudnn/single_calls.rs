//! The older interface: one call a convolution, algorithms by number, found by trying all.

use super::described::{DEFAULT_MATH, Described, FMA_MATH, TENSOR_OP_MATH, algorithm_names, math_of};
use super::library::{Cudnn, Performance};
use super::x_w_y;
use crate::measure::{Call, Set, Tried, trial};
use crate::timing::Clock;
use anyhow::Result;
use oxidnn::ops::conv::{ConvPass, ConvProblem};
use std::ffi::c_int;
use std::rc::Rc;

/// How many of the algorithms that were found are timed in graphs.
const CLOSER: usize = 3;

/// Runs every algorithm; those that worked, best first.
fn find(cudnn: &Cudnn, described: &Described, problem: &ConvProblem, set: &Set) -> Result<Vec<Performance>> {
    let f = &cudnn.functions;
    let [x, w, y] = x_w_y(problem, set);
    let mut results = [Performance::default(); 16];
    let mut n = 0;
    let (find, operands) = match problem.conv_pass() {
        ConvPass::Fprop => (f.find_fprop, [described.x, x, described.w, w, described.conv, described.y, y]),
        ConvPass::Dgrad => (f.find_dgrad, [described.w, w, described.y, y, described.conv, described.x, x]),
        ConvPass::Wgrad => (f.find_wgrad, [described.x, x, described.y, y, described.conv, described.w, w]),
    };
    let [a, a_at, b, b_at, conv, c, c_at] = operands;
    let (workspace, bytes) = (cudnn.workspace_address(), cudnn.workspace.len_bytes());
    let (room, place) = (results.len() as c_int, results.as_mut_ptr());
    // SAFETY: descriptors and memory are this problem's; `place` has room for so many results; the workspace is
    // good for so many bytes.
    let status = unsafe { find(cudnn.handle, a, a_at, b, b_at, conv, c, c_at, room, &mut n, place, workspace, bytes) };
    cudnn.check("find", status)?;
    let mut worked: Vec<Performance> = results[..n.clamp(0, room) as usize].to_vec();
    worked.retain(|result| result.status == 0);
    Ok(worked)
}

struct SingleCall<'a> {
    cudnn: &'a Cudnn,
    described: Rc<Described>,
    problem: ConvProblem,
    found: Performance,
}

impl Call for SingleCall<'_> {
    fn name(&self) -> String {
        let Performance { algorithm, math, determinism, .. } = self.found;
        let names = algorithm_names(self.problem.conv_pass());
        let name = names.get(algorithm as usize).map_or(algorithm.to_string(), |&name| name.to_owned());
        let math = if math == TENSOR_OP_MATH { "" } else { "+no_tensor_core" };
        let repeatable = if determinism == 1 { "" } else { "+nondeterministic" };
        format!("find:{name}{math}{repeatable}")
    }

    fn workspace_bytes(&self) -> u64 {
        self.found.workspace_bytes as u64
    }

    fn queue(&self, set: &Set) -> Result<()> {
        let workspace = (self.cudnn.workspace_address(), self.cudnn.workspace.len_bytes());
        let what = (self.problem.conv_pass(), self.found.algorithm);
        self.described.run(what, x_w_y(&self.problem, set), workspace, (1.0, 0.0))
    }
}

/// Finds, and times the best in graphs.
pub(super) fn search<'a>(
    cudnn: &'a Cudnn,
    problem: &ConvProblem,
    sets: &[Set],
    clock: &Clock<'_>,
    mut best: f64,
) -> Result<(Vec<Tried<'a>>, Vec<String>)> {
    let math = math_of(problem);
    let described = Described::new(cudnn, problem, math)?;
    let mut found = find(cudnn, &described, problem, &sets[0])?;
    clock.stream().synchronize()?;
    if math == FMA_MATH {
        // What is reported as the default math may use TF32 under descriptors that say so.
        found.retain(|result| result.math == FMA_MATH || result.math == DEFAULT_MATH);
        found.iter_mut().for_each(|result| result.math = FMA_MATH);
    }
    found.sort_by(|a, b| a.milliseconds.total_cmp(&b.milliseconds));
    // An algorithm is reported once with and once without tensor cores: each needs descriptors that say so.
    let mut variants = vec![(math, Rc::new(described))];
    let (mut tried, mut notes) = (Vec::new(), Vec::new());
    for result in found.into_iter().take(CLOSER) {
        let known = variants.iter().find(|(math, _)| *math == result.math).map(|(_, described)| described.clone());
        let described = match known {
            Some(described) => described,
            None => {
                let described = Rc::new(Described::new(cudnn, problem, result.math)?);
                variants.push((result.math, described.clone()));
                described
            }
        };
        let call = SingleCall { cudnn, described, problem: problem.clone(), found: result };
        match trial(&call, sets, clock, best) {
            Ok(us) => {
                best = best.min(us);
                tried.push(Tried { call: Box::new(call), us });
            }
            Err(e) => notes.push(format!("{}: {e:#}", call.name())),
        }
    }
    Ok((tried, notes))
}
