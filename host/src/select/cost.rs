//! Estimates shared by several algorithms. They sort candidates; they promise nothing.

use crate::{Context, Problem};

/// Time from a launch to the kernel's end when there is nothing to do.
pub(crate) const LAUNCH_US: f64 = 3.0;

/// Factor on the estimates of methods that were not held against times of `compare` yet: they are chosen where they
/// should be far ahead, and do not take the place of timed ones by a guess.
pub(crate) const UNTIMED: f64 = 2.0;

/// A kernel bound by memory traffic that touches every operand once.
pub(crate) fn streaming_us<P: Problem>(problem: &P, context: &Context) -> f64 {
    LAUNCH_US + problem.bytes() / context.info().bytes_per_us
}

/// A kernel with one thread an element that computes the place of each in every operand.
pub(crate) fn one_by_one_us<P: Problem>(problem: &P, context: &Context) -> f64 {
    /// Share of the memory's rate.
    const MEMORY_SHARE: f64 = 0.3;
    LAUNCH_US + problem.bytes() / (MEMORY_SHARE * context.info().bytes_per_us)
}

/// A kernel bound by scalar arithmetic, at `share` of the device's plain rate.
pub(crate) fn scalar_us<P: Problem>(problem: &P, context: &Context, share: f64) -> f64 {
    streaming_us(problem, context).max(LAUNCH_US + problem.flops() / (context.info().flops_per_us * share))
}

/// A kernel bound by memory traffic of so many bytes in so many blocks: few of them do not keep the memory busy.
pub(crate) fn blocks_us(bytes: f64, blocks: i64, context: &Context) -> f64 {
    /// What a multiprocessor moves by itself, as a share of what all of them are given.
    const ALONE: f64 = 2.5;
    let info = context.info();
    let busy = (blocks as f64 * ALONE / info.n_units as f64).min(1.0);
    LAUNCH_US + bytes / (info.bytes_per_us * busy)
}
