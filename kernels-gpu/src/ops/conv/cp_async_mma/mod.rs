//! Convolution as a matrix product whose operands are gathered by `cp.async`, on the portable tensor cores. Any number
//! of channels, groups, taps, any stride, dilation and padding.
//!
//! | pass | rows | columns | sum over |
//! | --- | --- | --- | --- |
//! | `fprop` | pixels of y | k | taps, c |
//! | `dgrad` | pixels of dx of one class | c | those taps that the class meets, k |
//! | `wgrad` | k | taps, c | pixels of y: a slab |
//!
//! Grid: one block a tile of 128 × 128 or 64 × 64 of one group, class or slab. Block: 256 or 128 threads. Shared
//! memory: dynamic, `CpAsyncTile::smem_bytes`: a table of taps, a table of pixels, and a ring of stages. A thread's
//! copies are of `V` elements, the most that divides the channels of a group; the address of each comes from adding
//! an entry of the table of pixels and one of that of taps. Single elements go through registers, since `cp.async` has
//! no copy of 2 bytes.

mod forward;
mod gather;
mod product;
mod wgrad;

pub(super) use forward::{dgrad, fprop};
pub(super) use wgrad::wgrad;

use cuda_std::cp_async;
use cuda_std::thread::{lanes_below, sync_threads, thread_idx_x};
use cuda_std::{shared, warp};
use kernel_abi::ops::conv::cp_async_mma::{CP_ASYNC_ENTRY_BYTES, CP_ASYNC_STAGES, CpAsyncMmaParams};

/// A position that is in no tensor, whatever tap is added to it.
const NOWHERE: i32 = i32::MIN / 2;

#[inline(always)]
fn div_rem(a: u32, b: u32) -> (u32, u32) {
    // SAFETY: numbers of tiles, classes and extents are at least 1.
    let quotient = unsafe { core::intrinsics::unchecked_div(a, b) };
    (quotient, a - quotient * b)
}

/// An index taken apart by three extents, outermost first; the rest stands before them.
#[inline(always)]
fn split(index: u32, extents: [u32; 3]) -> [u32; 4] {
    let (rest, w) = div_rem(index, extents[2]);
    let (rest, h) = div_rem(rest, extents[1]);
    let (rest, d) = div_rem(rest, extents[0]);
    [rest, d, h, w]
}

/// Position along the pixels of an image of the source; may be negative.
#[inline(always)]
fn along(p: &CpAsyncMmaParams, at: [i32; 3]) -> i32 {
    (at[0] * p.source_extents[1] as i32 + at[1]) * p.source_extents[2] as i32 + at[2]
}

/// Fills the table of taps at `base` with those that a class meets, in the filter's order, and tells how many those
/// are: what to add to a pixel's position, and which filter element it is.
///
/// # Safety
/// `base` is shared memory for all taps. All threads call it; the first warp writes, and all synchronize.
#[inline(always)]
unsafe fn fill_taps(p: &CpAsyncMmaParams, base: u32, is_dgrad: bool, class: [u32; 3]) -> u32 {
    let lane = thread_idx_x() % 32;
    let mut count = 0;
    let mut first = 0;
    // Every warp counts, the first one writes.
    while first < p.taps() {
        let element = first + lane;
        let tap = if p.flip != 0 { p.taps() - 1 - element } else { element };
        let [_, t, r, s] = split(tap, p.filter_extents);
        let tap = [t, r, s];
        let mut met = element < p.taps();
        let mut offset = [0i32; 3];
        super::grouped_mma::unroll!(AXIS in [0 1 2] {
            let reach = (tap[AXIS] * p.dilation[AXIS]) as i32;
            if is_dgrad {
                let scaled = class[AXIS] as i32 + p.padding[AXIS] - reach;
                // SAFETY: strides are at least 1, and none of the numbers is the smallest.
                let quotient = core::intrinsics::unchecked_div(scaled, p.stride[AXIS] as i32);
                met = met && quotient * p.stride[AXIS] as i32 == scaled;
                offset[AXIS] = quotient;
            } else {
                offset[AXIS] = reach - p.padding[AXIS];
            }
        });
        let all = warp::ballot(met);
        let at = count + (all & lanes_below()).count_ones();
        if met && thread_idx_x() < 32 {
            let entry = [along(p, offset) as u32, offset[0] as u32, offset[1] as u32, offset[2] as u32];
            shared::store_x4(base + at * CP_ASYNC_ENTRY_BYTES, entry);
            shared::store_u32(base + p.taps() * CP_ASYNC_ENTRY_BYTES + 4 * at, element);
        }
        count += all.count_ones();
        first += 32;
    }
    sync_threads();
    count
}

/// Writes an entry of the table of pixels: image and position that taps are added to; `None` where there is none.
///
/// # Safety
/// `at` is shared memory for an entry.
#[inline(always)]
unsafe fn store_pixel(p: &CpAsyncMmaParams, at: u32, there: bool, n: u32, position: [u32; 3]) {
    let image = p.source_extents[0] * p.source_extents[1] * p.source_extents[2];
    let [d, h, w] = position;
    let index = (n * image) as i32 + along(p, [d as i32, h as i32, w as i32]);
    shared::store_x4(at, [index as u32, if there { d } else { NOWHERE as u32 }, h, w]);
}

/// Runs a block's loop over `steps` stages: `load` queues the copies of a step to a stage, `compute` takes one.
///
/// # Safety
/// `load` stays within a stage; all threads call it.
#[inline(always)]
unsafe fn pipeline(
    steps: u32,
    stages: u32,
    stage_bytes: u32,
    mut load: impl FnMut(u32, u32),
    mut compute: impl FnMut(u32),
) {
    let mut step = 0;
    while step < CP_ASYNC_STAGES - 1 {
        if step < steps {
            load(step, stages + step * stage_bytes);
        }
        cp_async::commit_group();
        step += 1;
    }
    let (mut read, mut write) = (0, CP_ASYNC_STAGES - 1);
    let mut step = 0;
    while step < steps {
        cp_async::wait_group::<{ CP_ASYNC_STAGES - 2 }>();
        sync_threads();
        // The stage that was computed with in the last round: everybody is done with it.
        load(step + CP_ASYNC_STAGES - 1, stages + write * stage_bytes);
        cp_async::commit_group();
        compute(stages + read * stage_bytes);
        write = read;
        read = if read + 1 == CP_ASYNC_STAGES { 0 } else { read + 1 };
        step += 1;
    }
}
