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
//! copies are of `V` elements, the most that divides the channels of a group, or where `V` is 0 as many as the parameters
//! say; the address of each comes from adding an entry of the table of pixels and one of that of taps. Single elements of
//! 16 bits go through registers, since `cp.async` has no copy of 2 bytes.
//!
//! What depends on the element type is a [`TileElement`]: here for 16 bits (`halves`), for f32 in `tf32x3_mma`.

mod forward;
mod gather;
mod halves;
mod wgrad;

pub(super) use forward::{dgrad, fprop};
pub(super) use wgrad::{GradientTile, slab_sums, wgrad};

use crate::math::index::div_rem_u32 as div_rem;
use cuda_std::cp_async;
use cuda_std::thread::{block_dim_x, lanes_below, sync_threads, thread_idx_x};
use cuda_std::{shared, warp};
use kernel_abi::ops::conv::cp_async_mma::{CP_ASYNC_ENTRY_BYTES, CpAsyncMmaParams, CpAsyncTile};

/// A warp's sums: `ROWS` times 16 rows, 4 times 8 columns. Which rows and columns of the tile those are is up to the
/// element type.
pub(super) type Sums<const ROWS: usize> = [[[f32; 4]; 4]; ROWS];

/// Columns of a warp.
const WARP_COLUMNS: u32 = 32;

/// First row and column of a warp in the block's tile: two rows of warps.
#[inline(always)]
pub(super) fn warp_place<const SIZE: u32>(warp: u32) -> [u32; 2] {
    let warp = warp % (SIZE / 16);
    [warp / (SIZE / WARP_COLUMNS) * (SIZE / 2), warp % (SIZE / WARP_COLUMNS) * WARP_COLUMNS]
}

/// In the table of outputs: the tile has no such pixel.
pub(super) const NO_PIXEL: u32 = u32::MAX;

/// An element type: its copies, its products, and how results are written.
pub(super) trait TileElement {
    /// Bytes of an element.
    const BYTES: u32;
    /// Groups of warps that share the terms of a stage, each with sums of the whole tile.
    const DEPTH: u32 = 1;

    /// A tile of these elements.
    #[inline(always)]
    fn tile(size: u32) -> CpAsyncTile {
        CpAsyncTile { depth: Self::DEPTH, ..CpAsyncTile::new(size, Self::BYTES) }
    }

    /// Waits for this thread's copies to the stage that is computed with next: all but those of the
    /// [`CpAsyncTile::stages`] less two behind it.
    fn wait_for_stage();

    /// The column of the tile that row `row` of the columns' operand holds where its rows lie along the sum.
    fn column_of_row(row: u32) -> u32;

    /// Adds the products of a stage. `A_WIDE` and `B_WIDE` tell which operand's rows lie across the sum.
    ///
    /// # Safety
    /// `a` and `b` are operands in shared memory; all lanes call it.
    unsafe fn multiply<const SIZE: u32, const ROWS: usize, const A_WIDE: bool, const B_WIDE: bool>(
        sums: &mut Sums<ROWS>,
        a: u32,
        b: u32,
        warp: [u32; 2],
        attempt: u32,
    );

    /// Whether the block has to begin anew, with the next attempt: the same for all its threads, which call it together.
    ///
    /// # Safety
    /// As [`TileElement::multiply`].
    unsafe fn again<const ROWS: usize>(sums: &Sums<ROWS>, attempt: u32) -> bool;

    /// Writes a block's sums of `fprop` or `dgrad`; the table of outputs has the pixel of each row.
    ///
    /// # Safety
    /// As [`fprop`]; the table of outputs is filled.
    unsafe fn write<const SIZE: u32, const ROWS: usize>(
        p: &CpAsyncMmaParams,
        sums: &Sums<ROWS>,
        outputs_at: u32,
        warp: [u32; 2],
        group: u32,
        first_channel: u32,
    );

    /// The same where the columns are those of all classes of a strided `dgrad`; behind the table of pixels lies that of
    /// outputs, with the first class's.
    ///
    /// # Safety
    /// As [`TileElement::write`].
    unsafe fn write_spread<const SIZE: u32, const ROWS: usize>(
        p: &CpAsyncMmaParams,
        sums: &Sums<ROWS>,
        pixels_at: u32,
        warp: [u32; 2],
        group: u32,
        first_column: u32,
    );

    /// Writes a block's sums of a slab of `wgrad`.
    ///
    /// # Safety
    /// As [`wgrad`].
    unsafe fn write_slab<const SIZE: u32, const ROWS: usize>(
        p: &CpAsyncMmaParams,
        sums: &Sums<ROWS>,
        slab: u32,
        place: GradientTile,
        warp: [u32; 2],
    );
}

/// A position that is in no tensor, whatever tap is added to it.
const NOWHERE: i32 = i32::MIN / 2;

/// An index taken apart by three extents, outermost first; the rest stands before them.
#[inline(always)]
pub(super) fn split(index: u32, extents: [u32; 3]) -> [u32; 4] {
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

/// Fills the table of taps at `base` with all distances that a tap of any class has, and tells how many those are.
///
/// # Safety
/// As [`fill_taps`].
#[inline(always)]
unsafe fn fill_distances(p: &CpAsyncMmaParams, base: u32) -> u32 {
    let spread = [p.spread(0), p.spread(1), p.spread(2)];
    let extents = [spread[0].1, spread[1].1, spread[2].1];
    let count = extents[0] * extents[1] * extents[2];
    let mut i = thread_idx_x();
    while i < count {
        let [_, d, h, w] = split(i, extents);
        let offset = [spread[0].0 + d as i32, spread[1].0 + h as i32, spread[2].0 + w as i32];
        let entry = [along(p, offset) as u32, offset[0] as u32, offset[1] as u32, offset[2] as u32];
        shared::store_x4(base + i * CP_ASYNC_ENTRY_BYTES, entry);
        i += block_dim_x();
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
unsafe fn pipeline<T: TileElement>(
    tile: CpAsyncTile,
    steps: u32,
    stages: u32,
    stage_bytes: u32,
    mut load: impl FnMut(u32, u32),
    mut compute: impl FnMut(u32),
) {
    // Copies run ahead by all stages but the one that is computed with; one loop for their start, the middle and the end.
    let ahead = tile.stages() - 1;
    let (mut step, mut stage) = (0, 0);
    while step < steps + ahead {
        T::wait_for_stage();
        sync_threads();
        // The stage that was computed with in the last round: everybody is done with it.
        load(step, stages + stage * stage_bytes);
        cp_async::commit_group();
        stage = if stage == ahead { 0 } else { stage + 1 };
        if step >= ahead {
            compute(stages + stage * stage_bytes);
        }
        step += 1;
    }
}
