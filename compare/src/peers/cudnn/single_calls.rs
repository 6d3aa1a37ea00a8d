//! The older interface: one call a convolution, algorithms by number, found by trying all.

use super::library::{Cudnn, P, Performance};
use super::x_w_y;
use crate::measure::{Call, Set, Tried, trial};
use crate::timing::Clock;
use anyhow::{Result, bail};
use oxidnn::ops::conv::{ConvAxis, ConvMode, ConvPass, ConvProblem};
use oxidnn::{DType, Math, TensorDesc};
use std::ffi::c_int;
use std::rc::Rc;

/// `cudnnMathType_t`.
const DEFAULT_MATH: c_int = 0;
const TENSOR_OP_MATH: c_int = 1;
/// Multiply-adds in f32 and nothing else: the default allows TF32.
const FMA_MATH: c_int = 3;
/// `CUDNN_CROSS_CORRELATION`; a convolution is 0.
const CROSS_CORRELATION: c_int = 1;
/// `CUDNN_DATA_FLOAT`, the type of sums.
const SUMS: c_int = 0;
/// `cudnnTensorFormat_t`.
const NCHW: c_int = 0;
const NHWC: c_int = 1;

/// How many of the algorithms that were found are timed in graphs.
const CLOSER: usize = 3;

/// Descriptors of one problem.
struct Described<'a> {
    cudnn: &'a Cudnn,
    x: P,
    w: P,
    y: P,
    conv: P,
}

/// Makes one descriptor, or says why not.
pub(super) fn created(cudnn: &Cudnn, create: unsafe extern "C" fn(*mut P) -> c_int) -> Result<P> {
    let mut descriptor = std::ptr::null_mut();
    // SAFETY: `descriptor` is a place for a handle.
    cudnn.check("creating a descriptor", unsafe { create(&mut descriptor) })?;
    Ok(descriptor)
}

/// Numbers as the interface takes them.
pub(super) fn ints(values: impl IntoIterator<Item = i64>) -> Result<Vec<c_int>> {
    values.into_iter().map(|value| Ok(c_int::try_from(value)?)).collect()
}

impl<'a> Described<'a> {
    fn new(cudnn: &'a Cudnn, problem: &ConvProblem, math: c_int) -> Result<Self> {
        let f = &cudnn.functions;
        let mut described = Described {
            cudnn,
            x: std::ptr::null_mut(),
            w: std::ptr::null_mut(),
            y: std::ptr::null_mut(),
            conv: std::ptr::null_mut(),
        };
        described.x = created(cudnn, f.tensor_create)?;
        described.y = created(cudnn, f.tensor_create)?;
        described.w = created(cudnn, f.filter_create)?;
        described.conv = created(cudnn, f.conv_create)?;
        let dtype = Cudnn::data_type(problem.x().dtype());
        for (descriptor, desc) in [(described.x, problem.x()), (described.y, problem.y())] {
            let (dims, strides) = (ints(desc.dims().iter().copied())?, ints(desc.strides().iter().copied())?);
            let rank = dims.len() as c_int;
            // SAFETY: the descriptor was just made; both lists have `rank` numbers.
            let status = unsafe { (f.tensor_set)(descriptor, dtype, rank, dims.as_ptr(), strides.as_ptr()) };
            cudnn.check("cudnnSetTensorNdDescriptor", status)?;
        }
        let dims = ints(problem.w().dims().iter().copied())?;
        let format = filter_format(problem.w())?;
        // SAFETY: as above.
        let status = unsafe { (f.filter_set)(described.w, dtype, format, dims.len() as c_int, dims.as_ptr()) };
        cudnn.check("cudnnSetFilterNdDescriptor", status)?;
        let list = |value: fn(&ConvAxis) -> i64| ints(problem.axes().iter().map(value));
        let (padding, stride) = (list(|axis| axis.padding)?, list(|axis| axis.stride)?);
        let dilation = list(|axis| axis.dilation)?;
        if problem.axes().iter().any(|axis| axis.padding != axis.padding_end) {
            bail!("expected the same padding at both ends");
        }
        let mode = if problem.mode() == ConvMode::CrossCorrelation { CROSS_CORRELATION } else { 0 };
        let (rank, groups) = (padding.len() as c_int, c_int::try_from(problem.groups())?);
        // SAFETY: the descriptor was just made; the lists have `rank` numbers each.
        let statuses = unsafe {
            [
                (f.conv_set)(described.conv, rank, padding.as_ptr(), stride.as_ptr(), dilation.as_ptr(), mode, SUMS),
                (f.conv_set_groups)(described.conv, groups),
                (f.conv_set_math)(described.conv, math),
            ]
        };
        for status in statuses {
            cudnn.check("setting the convolution's descriptor", status)?;
        }
        Ok(described)
    }

    /// Runs every algorithm; those that worked, best first.
    fn find(&self, problem: &ConvProblem, set: &Set) -> Result<Vec<Performance>> {
        let f = &self.cudnn.functions;
        let [x, w, y] = x_w_y(problem, set);
        let mut results = [Performance::default(); 16];
        let mut n = 0;
        let (find, operands) = match problem.conv_pass() {
            ConvPass::Fprop => (f.find_fprop, [self.x, x, self.w, w, self.conv, self.y, y]),
            ConvPass::Dgrad => (f.find_dgrad, [self.w, w, self.y, y, self.conv, self.x, x]),
            ConvPass::Wgrad => (f.find_wgrad, [self.x, x, self.y, y, self.conv, self.w, w]),
        };
        let [a, a_at, b, b_at, conv, c, c_at] = operands;
        let (workspace, bytes) = (self.cudnn.workspace_address(), self.cudnn.workspace.len_bytes());
        let (room, place) = (results.len() as c_int, results.as_mut_ptr());
        // SAFETY: descriptors and memory are this problem's; `place` has room for so many results; the workspace is
        // good for so many bytes.
        let status =
            unsafe { find(self.cudnn.handle, a, a_at, b, b_at, conv, c, c_at, room, &mut n, place, workspace, bytes) };
        self.cudnn.check("find", status)?;
        let mut worked: Vec<Performance> = results[..n.clamp(0, room) as usize].to_vec();
        worked.retain(|result| result.status == 0);
        Ok(worked)
    }
}

impl Drop for Described<'_> {
    fn drop(&mut self) {
        let f = &self.cudnn.functions;
        // SAFETY: nobody else has the descriptors; null is refused without harm.
        let _ = unsafe {
            [
                (f.tensor_destroy)(self.x),
                (f.tensor_destroy)(self.y),
                (f.filter_destroy)(self.w),
                (f.conv_destroy)(self.conv),
            ]
        };
    }
}

/// Filters have no strides in this interface.
fn filter_format(w: &TensorDesc) -> Result<c_int> {
    if w.is_packed() {
        Ok(NCHW)
    } else if w.is_channels_last() {
        Ok(NHWC)
    } else {
        bail!("expected a filter without gaps, given {w}")
    }
}

struct SingleCall<'a> {
    described: Rc<Described<'a>>,
    problem: ConvProblem,
    found: Performance,
}

impl Call for SingleCall<'_> {
    fn name(&self) -> String {
        let Performance { algorithm, math, determinism, .. } = self.found;
        let names: &[&str] = match self.problem.conv_pass() {
            ConvPass::Fprop => &[
                "implicit_gemm",
                "implicit_precomp_gemm",
                "gemm",
                "direct",
                "fft",
                "fft_tiling",
                "winograd",
                "winograd_nonfused",
            ],
            ConvPass::Dgrad => &["algo_0", "algo_1", "fft", "fft_tiling", "winograd", "winograd_nonfused"],
            ConvPass::Wgrad => &["algo_0", "algo_1", "fft", "algo_3", "winograd", "winograd_nonfused", "fft_tiling"],
        };
        let name = names.get(algorithm as usize).map_or(algorithm.to_string(), |&name| name.to_owned());
        let math = if math == TENSOR_OP_MATH { "" } else { "+no_tensor_core" };
        let repeatable = if determinism == 1 { "" } else { "+nondeterministic" };
        format!("find:{name}{math}{repeatable}")
    }

    fn workspace_bytes(&self) -> u64 {
        self.found.workspace_bytes as u64
    }

    fn queue(&self, set: &Set) -> Result<()> {
        let Described { cudnn, x, w, y, conv, .. } = *self.described;
        let f = &cudnn.functions;
        let [x_at, w_at, y_at] = x_w_y(&self.problem, set);
        let (run, operands, (c, c_at)) = match self.problem.conv_pass() {
            ConvPass::Fprop => (f.fprop, [x, x_at, w, w_at], (y, y_at)),
            ConvPass::Dgrad => (f.dgrad, [w, w_at, y, y_at], (x, x_at)),
            ConvPass::Wgrad => (f.wgrad, [x, x_at, y, y_at], (w, w_at)),
        };
        let [a, a_at, b, b_at] = operands;
        let (alpha, beta) = (1.0f32, 0.0f32);
        let (algorithm, workspace, bytes) =
            (self.found.algorithm, cudnn.workspace_address(), cudnn.workspace.len_bytes());
        // SAFETY: descriptors and memory are this problem's; both scalars are read during the call.
        let status =
            unsafe { run(cudnn.handle, &alpha, a, a_at, b, b_at, conv, algorithm, workspace, bytes, &beta, c, c_at) };
        cudnn.check("convolution", status)
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
    let math = match (problem.x().dtype(), problem.math()) {
        (DType::F32, Math::Full | Math::Winograd4x4) => FMA_MATH,
        (DType::F32, Math::Tf32) => DEFAULT_MATH,
        _ => TENSOR_OP_MATH,
    };
    let described = Described::new(cudnn, problem, math)?;
    let mut found = described.find(problem, &sets[0])?;
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
        let call = SingleCall { described, problem: problem.clone(), found: result };
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
