//! f32 convolution on Hopper's 16-bit tensor cores, with the error of f32 arithmetic: every element is the sum of three
//! bf16 numbers, and six of the nine products of parts are summed, or of two f16 numbers with a scale, and three of four
//! are; see [`kernel_abi::ops::conv::f32_wgmma`].
//!
//! Images are gathered as [`im2col_wgmma`] does it, in f32, and taken apart inside the kernels; a small kernel takes the
//! filter apart into three before. Images that the copy engine cannot gather, since their channels are not contiguous or their
//! strides no multiples of 16 bytes, are first copied to channels-last; those of few channels with a filter's row and
//! the channels as one. Results may lie anyhow.
//!
//! Images that can be gathered as they lie need no workspace: then the filter may be taken apart inside the kernels too,
//! into two, and `wgrad`'s sums be shared by a cluster's blocks; where x cannot be gathered, they read it themselves.
//!
//! [`im2col_wgmma`]: super::im2col_wgmma

mod cluster;
mod direct;
mod gather;
mod images;
mod wgrad;
mod windows;

pub(super) use cluster::Cluster;
pub(super) use direct::Direct;
pub(super) use gather::{Gather, Product};
pub(super) use wgrad::Wgrad;

use super::{ConvPass, ConvProblem};
use crate::driver::Function;
use crate::launch::{LaunchConfig, launch, linear_grid};
use crate::select::{Refusal, check_hopper};
use crate::{Context, DType, Error, Problem, Stream};

macro_rules! symbols {
    ($(($symbol:ident, $name:ident, $params:ident)),* $(,)?) => {
        [$((stringify!($name), stringify!($symbol))),*]
    };
}

/// The kernels around the products: what they do and their symbols.
const SIDE: [(&str, &str); 4] = kernel_abi::conv_bf16x3_side_kernels!(symbols);

/// The symbol of the kernel that does this.
fn side(name: &str) -> &'static str {
    SIDE.iter().find(|row| row.0 == name).expect("the kernel list has a row for each").1
}

/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;

/// Launching and ending a kernel more.
const LAUNCH_US: f64 = 2.5;

/// Refuses what the kernels of neither pass take.
fn check(problem: &ConvProblem, context: &Context) -> Result<(), Refusal> {
    check_hopper(context)?;
    check_problem(problem)
}

/// Refuses types and sizes.
fn check_problem(problem: &ConvProblem) -> Result<(), Refusal> {
    const MOST: i64 = i32::MAX as i64;
    /// Elements of a filter, so that those of its parts can be counted.
    const MOST_OF_FILTER: i64 = 1 << 38;
    /// As the copy engine's.
    const MOST_STRIDE: i64 = 8;
    let dtype = problem.x().dtype();
    if dtype != DType::F32 {
        return Err(Refusal::new(format!("has kernels for f32, the element type is {dtype}")));
    }
    if problem.w().n_elems() > MOST_OF_FILTER {
        let given = problem.w().n_elems();
        return Err(Refusal::new(format!("takes filters of up to {MOST_OF_FILTER} elements, given {given}")));
    }
    if let Some(axis) = problem.axes().iter().find(|axis| axis.stride > MOST_STRIDE) {
        return Err(Refusal::new(format!("takes strides up to {MOST_STRIDE}, given {}", axis.stride)));
    }
    for (name, desc) in [("x", problem.x()), ("w", problem.w()), ("y", problem.y())] {
        let positions = desc.n_elems() / desc.dims()[1];
        for extent in desc.dims().iter().copied().chain([positions]) {
            if extent > MOST {
                return Err(Refusal::new(format!("counts up to {MOST} positions, {name} has {extent}")));
            }
        }
    }
    Ok(())
}

/// Refuses groups whose channels do not all begin at multiples of 16 bytes: the copy engine ends with an illegal
/// instruction where the address it reads from, coordinates applied, is none.
fn check_groups(name: &str, groups: i64, channels: i64, multiple: i64) -> Result<(), Refusal> {
    if groups == 1 || channels % multiple == 0 {
        return Ok(());
    }
    Err(Refusal::new(format!(
        "takes groups of multiples of {multiple} channels, {name} has {groups} groups of {channels}"
    )))
}

/// Queues a kernel of one thread for each of `n` things.
fn launch_linear<T: crate::launch::KernelParams>(
    function: &Function,
    stream: &Stream,
    n: i64,
    params: &T,
) -> Result<(), Error> {
    let stream = stream.gpu_stream_for(function.name())?;
    let config = LaunchConfig { programmatic: true, ..linear_grid(n, 256) };
    launch(function, &config, stream, params)
}

/// Refuses an address that a tensor map cannot hold.
fn check_address(name: &'static str, address: u64) -> Result<(), Error> {
    const ALIGN: u64 = super::im2col_wgmma::ALIGN_BYTES;
    if address.is_multiple_of(ALIGN) {
        return Ok(());
    }
    let reason = format!(
        "expected an address that is a multiple of {ALIGN} for this algorithm (naive takes any), given \
         {address:#x}"
    );
    Err(Error::bad(ConvProblem::OP, name, reason))
}

/// The distance between neighbouring taps when all lie one behind the other.
fn taps_in_a_row(taps: [i64; 3], strides: [i64; 3]) -> Option<i64> {
    let mut innermost = None;
    let mut expected = None;
    for (&taps, &stride) in taps.iter().zip(&strides).rev().filter(|(taps, _)| **taps > 1) {
        if expected.is_some_and(|expected| expected != stride) {
            return None;
        }
        innermost.get_or_insert(stride);
        expected = Some(stride * taps);
    }
    Some(innermost.unwrap_or(0))
}

/// The name of the tensor that is gathered.
fn read_name(problem: &ConvProblem) -> &'static str {
    if problem.conv_pass() == ConvPass::Dgrad { "dy" } else { "x" }
}

#[cfg(test)]
mod tests;
