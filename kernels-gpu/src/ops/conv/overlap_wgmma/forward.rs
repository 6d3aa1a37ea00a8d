//! `fprop`: rows of the product are output positions, columns output channels.
//!
//! The consumers take the 64 rows of an instruction in turns, so that one multiplies while the others write.

use super::fill::write_filter;
use super::{CONSUMERS_MEET, PRODUCER_THREADS, Ring, WARPGROUP, produce, warpgroup};
use crate::math::tensor_core::TensorCore;
use cuda_std::barrier::{fence_proxy_async_shared, sync_named};
use cuda_std::thread::{block_idx_x, block_idx_y, grid_dim_x, thread_idx_x};
use cuda_std::wgmma::{Swizzle, descriptor};
use cuda_std::{guarded, mbarrier, shared, warp};
use kernel_abi::division::div_rem;
use kernel_abi::ops::conv::overlap_wgmma::{
    ENTRY_BYTES, FPROP_CONSUMERS, OverlapParams, OverlapPlace, PRODUCERS, TURNED_ROW_BYTES, turned_bytes, y_access,
};

/// Threads that compute.
const CONSUMER_THREADS: u32 = FPROP_CONSUMERS * WARPGROUP;
/// Rows of a product instruction.
const ROWS: u32 = 64;

/// The product instruction of one kernel: `R` sums a thread.
pub(super) trait Product<const R: usize> {
    /// Queues one instruction. `accumulate` is 0 to overwrite `d`, else 1.
    ///
    /// # Safety
    /// All threads of the warpgroup call it with descriptors of what was written; `d` is not touched until [`finish`].
    ///
    /// [`finish`]: Product::finish
    unsafe fn multiply(d: &mut [f32; R], a: u64, b: u64, accumulate: u32);

    /// Waits for all queued products.
    ///
    /// # Safety
    /// All threads of the warpgroup call it.
    unsafe fn finish(d: &mut [f32; R]);
}

/// The kernel.
///
/// # Safety
/// The host passes live tensors of the extents in `p`, and launches `FPROP_THREADS` threads with the tile's shared memory.
#[inline(always)]
pub(super) unsafe fn run<P: Product<R>, T: TensorCore, const R: usize>(p: &OverlapParams) {
    let columns = 2 * R as u32;
    let ring = Ring::start(
        FPROP_CONSUMERS,
        p.tile.buffers,
        p.tile.x_bytes(),
        p.tile.fprop_barriers_at(columns, p.column_blocks, p.y_access),
    );
    let warpgroup = warpgroup();
    if warpgroup < PRODUCERS {
        produce::<false>(p, ring, |_, _| ());
    } else {
        let first_k = block_idx_y() * p.column_blocks * columns;
        let filter_at = ring.base + p.tile.filter_at();
        let thread = thread_idx_x() - PRODUCER_THREADS;
        write_filter(p, columns, first_k, filter_at, (thread, CONSUMER_THREADS));
        fence_proxy_async_shared();
        sync_named(CONSUMERS_MEET, CONSUMER_THREADS);
        consume::<P, T, R>(p, ring, warpgroup - PRODUCERS, filter_at, first_k);
    }
}

/// Computes a consumer's parts of tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<P: Product<R>, T: TensorCore, const R: usize>(
    p: &OverlapParams,
    mut ring: Ring,
    consumer: u32,
    filter_at: u32,
    first_k: u32,
) {
    let columns = 2 * R as u32;
    let tile = &p.tile;
    let row_entries = tile.row_entries.divisor;
    let a_step = u64::from(tile.step_bytes() / 16);
    // An instruction's part of the filter: two parts of a window.
    let b_step = u64::from(2 * columns * ENTRY_BYTES / 16);
    let mut task = consumer;
    let mut index = block_idx_x();
    while index < p.n_tiles {
        let place = p.place(index);
        let extents = p.extents(place);
        let tasks = tile.positions(extents[0], extents[1]).div_ceil(ROWS) * p.column_blocks;
        mbarrier::wait(ring.full(), ring.parity);
        if task >= tasks {
            ring.release();
        }
        while task < tasks {
            let (subtile, block) = div_rem(task, p.column_blocks);
            let first = subtile * ROWS;
            let buffer = ring.buffer() + first * ENTRY_BYTES;
            let mut b = descriptor(
                filter_at + block * tile.filter_bytes(columns),
                columns * ENTRY_BYTES,
                8 * ENTRY_BYTES,
                Swizzle::None,
            );
            let mut d: [f32; R] = core::mem::zeroed();
            let mut accumulate = 0;
            let mut first_row = 0;
            let mut t = 0;
            while t < tile.taps[0] {
                let (mut class, mut class_row, mut tap_row) = (0, 0, 0);
                let mut r = 0;
                while r < tile.taps[1] {
                    let from = buffer + (first_row + class_row + tap_row) * row_entries * ENTRY_BYTES;
                    let mut a = descriptor(from, tile.part_bytes(), 8 * ENTRY_BYTES, Swizzle::None);
                    let mut step = 0;
                    while step < tile.steps {
                        P::multiply(&mut d, a, b, accumulate);
                        accumulate = 1;
                        a += a_step;
                        b += b_step;
                        step += 1;
                    }
                    r += 1;
                    class += 1;
                    class_row += tile.class_rows.divisor;
                    if class == tile.n_classes.divisor {
                        (class, class_row) = (0, 0);
                        tap_row += tile.jump;
                    }
                }
                first_row += tile.depth_rows();
                t += 1;
            }
            P::finish(&mut d);
            task += FPROP_CONSUMERS;
            if task >= tasks {
                ring.release();
            }
            let rows = Rows { place, extents, first, column: first_k + block * columns };
            if p.y_access == y_access::TURNED && p.beta == 0.0 {
                let at = ring.base + tile.turning_at(columns, p.column_blocks) + consumer * turned_bytes(columns);
                turn::<T, R>(p, &d, &rows, at, CONSUMERS_MEET + 1 + consumer);
            } else {
                store::<T, R>(p, &d, &rows);
            }
        }
        // The next tile's parts go on in turns where this one's end.
        task -= tasks;
        ring.advance();
        index += grid_dim_x();
    }
}

/// The positions and channels of a product.
struct Rows {
    place: OverlapPlace,
    extents: [u32; 2],
    /// The first position, counted from the tile's.
    first: u32,
    /// The first channel.
    column: u32,
}

impl Rows {
    /// Where the first channel of an output row and column of the tile lies in y, in elements.
    #[inline(always)]
    fn offset(&self, p: &OverlapParams, row: u32, column: u32) -> i64 {
        i64::from(self.place.n) * p.y_strides[0]
            + i64::from(self.place.z) * p.y_strides[2]
            + i64::from(self.place.p + row) * p.y_strides[3]
            + i64::from(self.place.q + column) * p.y_strides[4]
    }
}

/// Scales the sums, blends them with the prior values and writes them.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn store<T: TensorCore, const R: usize>(p: &OverlapParams, d: &[f32; R], rows: &Rows) {
    let thread = thread_idx_x() % WARPGROUP;
    let mut half = 0;
    while half < 2 {
        let position = rows.first + thread / 32 * 16 + thread % 32 / 4 + 8 * half as u32;
        let (row, column) = p.tile.row_entries.div_rem(position);
        let there = row < rows.extents[0] && column < rows.extents[1];
        let to = p.y as i64 + 2 * rows.offset(p, row, column);
        if p.y_access == y_access::RUNS {
            let mut quad = 0;
            while quad < R / 4 {
                runs::<T, R>(p, d, half, quad, there, to, rows.column);
                quad += 4;
            }
        } else {
            let mut group = 0;
            while group < R / 4 {
                elements::<T, R>(p, d, half, group, there, to, rows.column);
                group += 1;
            }
        }
        half += 1;
    }
}

/// Scales the sums and writes them channel by channel, neighbouring threads neighbouring positions: they are turned in
/// shared memory at `at`.
///
/// # Safety
/// As [`consume`]; all threads of the warpgroup, at a barrier of its own.
#[inline(always)]
unsafe fn turn<T: TensorCore, const R: usize>(p: &OverlapParams, d: &[f32; R], rows: &Rows, at: u32, barrier: u32) {
    let thread = thread_idx_x() % WARPGROUP;
    let (warp, lane) = (thread / 32, thread % 32);
    // The results before these are read.
    sync_named(barrier, WARPGROUP);
    let first = at + 2 * (warp * 16 + lane / 4) + lane % 4 * (2 * TURNED_ROW_BYTES);
    let mut i = 0;
    while i < R / 2 {
        let packed = T::pack(p.alpha * *d.get_unchecked(2 * i), p.alpha * *d.get_unchecked(2 * i + 1));
        let to = first + i as u32 / 2 * (8 * TURNED_ROW_BYTES) + i as u32 % 2 * 16;
        shared::store_u16(to, packed as u16);
        shared::store_u16(to + TURNED_ROW_BYTES, (packed >> 16) as u16);
        i += 1;
    }
    sync_named(barrier, WARPGROUP);
    let mut half = 0;
    while half < 2 {
        let position = lane + 32 * half;
        let (row, column) = p.tile.row_entries.div_rem(rows.first + position);
        let there = row < rows.extents[0] && column < rows.extents[1];
        let mut to = p.y as i64 + 2 * (rows.offset(p, row, column) + i64::from(rows.column + warp) * p.y_strides[1]);
        let mut from = at + 2 * position + warp * TURNED_ROW_BYTES;
        let mut channel = warp;
        while channel < 2 * R as u32 {
            let condition = u32::from(there && rows.column + channel < p.k);
            guarded::store_u16(to as u64, shared::load_u16(from), condition);
            // The warps take the channels in turns.
            to += 8 * p.y_strides[1];
            from += 4 * TURNED_ROW_BYTES;
            channel += 4;
        }
        half += 1;
    }
}

/// A thread's two neighbouring sums of a row in group `group` of eight columns, scaled and blended.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn pair<T: TensorCore, const R: usize>(
    p: &OverlapParams,
    d: &[f32; R],
    half: usize,
    group: usize,
    there: bool,
    row: i64,
    channel: u32,
) -> [f32; 2] {
    let mut low = p.alpha * *d.get_unchecked(4 * group + 2 * half);
    let mut high = p.alpha * *d.get_unchecked(4 * group + 2 * half + 1);
    if p.beta != 0.0 {
        let prior = |channel: u32| {
            if there && channel < p.k {
                let at = row + 2 * i64::from(channel) * p.y_strides[1];
                p.beta * (*(at as *const T)).widen()
            } else {
                0.0
            }
        };
        low += prior(channel);
        high += prior(channel + 1);
    }
    [low, high]
}

/// Groups `quad` to `quad + 3` of eight columns of a row: four threads hold two columns of each, and exchange them so
/// that each writes one group.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn runs<T: TensorCore, const R: usize>(
    p: &OverlapParams,
    d: &[f32; R],
    half: usize,
    quad: usize,
    there: bool,
    row: i64,
    column: u32,
) {
    let lane = thread_idx_x() % 4;
    let mut v = [0u32; 4];
    let mut i = 0;
    while i < 4 {
        if quad + i < R / 4 {
            let channel = column + 8 * (quad + i) as u32 + 2 * lane;
            let [low, high] = pair::<T, R>(p, d, half, quad + i, there, row, channel);
            *v.get_unchecked_mut(i) = T::pack(low, high);
        }
        i += 1;
    }
    let v = transpose(v, lane);
    let channel = column + 8 * (quad as u32 + lane);
    // Fewer than four groups where there are but 16 columns.
    let mine = there && channel < p.k && quad as u32 + lane < (R / 4) as u32;
    guarded::store_x4((row + 2 * i64::from(channel)) as u64, v, u32::from(mine));
}

/// Of four lanes' values: lane l's value i becomes lane i's value l.
#[inline(always)]
fn transpose(v: [u32; 4], lane: u32) -> [u32; 4] {
    let odd = lane & 1 != 0;
    let upper = lane & 2 != 0;
    let [a, b] = exchange([v[0], v[1]], odd, 1);
    let [c, d] = exchange([v[2], v[3]], odd, 1);
    let [a, c] = exchange([a, c], upper, 2);
    let [b, d] = exchange([b, d], upper, 2);
    [a, b, c, d]
}

/// Of two lanes whose indices differ by `bit`: the lower one gets both first values, the other both second ones.
#[inline(always)]
fn exchange(v: [u32; 2], second: bool, bit: u32) -> [u32; 2] {
    let other = warp::shuffle_xor(if second { v[0] } else { v[1] }, bit);
    if second { [other, v[1]] } else { [v[0], other] }
}

/// Group `group` of eight columns of a row, element by element.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn elements<T: TensorCore, const R: usize>(
    p: &OverlapParams,
    d: &[f32; R],
    half: usize,
    group: usize,
    there: bool,
    row: i64,
    column: u32,
) {
    let channel = column + 8 * group as u32 + 2 * (thread_idx_x() % 4);
    let [low, high] = pair::<T, R>(p, d, half, group, there, row, channel);
    let packed = T::pack(low, high);
    let to = row + 2 * i64::from(channel) * p.y_strides[1];
    guarded::store_u16(to as u64, packed as u16, u32::from(there && channel < p.k));
    let to = to + 2 * p.y_strides[1];
    guarded::store_u16(to as u64, (packed >> 16) as u16, u32::from(there && channel + 1 < p.k));
}
