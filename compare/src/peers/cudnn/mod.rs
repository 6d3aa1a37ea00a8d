//! cuDNN 9, through both of its interfaces.

mod backend;
mod described;
mod engines;
mod graph;
mod library;
pub(crate) mod operators;
mod provider;
mod single_calls;

pub(crate) use library::Cudnn;
pub use provider::CudnnProvider;

use crate::measure::{Set, Tried};
use crate::options::Options;
use crate::timing::Clock;
use oxidnn::ops::conv::{ConvPass, ConvProblem};
use std::ffi::c_void;

/// Addresses of x, w and y, or of their gradients, in every pass.
fn x_w_y(problem: &ConvProblem, set: &Set) -> [*mut c_void; 3] {
    let input = |i: usize| set.inputs[i].0.span().address() as *mut c_void;
    let output = set.their_address() as *mut c_void;
    match problem.conv_pass() {
        ConvPass::Fprop => [input(0), input(1), output],
        ConvPass::Dgrad => [output, input(1), input(0)],
        ConvPass::Wgrad => [input(0), output, input(1)],
    }
}

/// Candidates of the quick search that make the older interface's slow find unnecessary.
const ENOUGH: usize = 3;

/// Every candidate of both interfaces with its time, or only the `known` best one; best first, and what went wrong on
/// the way.
pub(crate) fn search<'a>(
    cudnn: &'a Cudnn,
    problem: &ConvProblem,
    sets: &[Set],
    clock: &Clock<'_>,
    options: &Options,
    known: Option<&str>,
) -> (Vec<Tried<'a>>, Vec<String>) {
    let (mut tried, mut notes) = (Vec::new(), Vec::new());
    match graph::search(cudnn, problem, sets, clock, options, known) {
        Ok((found, dropped)) => {
            tried.extend(found);
            notes.extend(dropped);
        }
        Err(e) => notes.push(format!("cuDNN graph: {e:#}")),
    }
    let is_known = known.is_some() && !tried.is_empty();
    let is_enough = options.quick && tried.len() >= ENOUGH;
    if !is_known && !is_enough {
        let best = tried.iter().map(|tried| tried.us).fold(f64::INFINITY, f64::min);
        match single_calls::search(cudnn, problem, sets, clock, best) {
            Ok((found, dropped)) => {
                tried.extend(found);
                notes.extend(dropped);
            }
            Err(e) => notes.push(format!("cuDNN find: {e:#}")),
        }
    }
    tried.sort_by(|a, b| a.us.total_cmp(&b.us));
    (tried, notes)
}
