//! `fprop` of strips of output rows: rows of the product are output channels, columns the positions of one strip.
//!
//! The filter stays in registers, so that instructions read windows alone from shared memory, and a strip's positions run
//! as far as its columns, none of them between rows. The consumers take strips in turns: one multiplies while the other
//! brings its results to shared memory, turned channels-last or as rows of channels' columns, on whose way out the copy
//! engine leaves away what lies outside of y.

use super::fill::write_filter;
use super::{
    CONSUMER_REGISTERS, CONSUMERS_MEET, PRODUCER_REGISTERS, PRODUCER_THREADS, Ring, WARPGROUP, produce, warpgroup,
};
use crate::math::tensor_core::TensorCore;
use crate::math::vector;
use cuda_std::barrier::{fence_proxy_async_shared, sync_named};
use cuda_std::thread::{block_idx_x, block_idx_y, grid_dim_x, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::wgmma::{Swizzle, descriptor};
use cuda_std::{ldmatrix, mbarrier, schedule, warp};
use kernel_abi::ops::conv::overlap_wgmma::{
    ENTRY_BYTES, OverlapParams, OverlapPlace, PRODUCERS, ROWS_CONSUMERS, ROWS_K, ROWS_OUT_BUFFERS, strip_bytes,
    y_access,
};

/// Threads that compute.
const CONSUMER_THREADS: u32 = ROWS_CONSUMERS * WARPGROUP;
/// Bytes of a position on its way out.
const POSITION_BYTES: u32 = 2 * ROWS_K;

/// A thread's part of the filter: what it holds of the first operand of each of `I` instructions.
pub(super) type Filter<const I: usize> = [[u32; 4]; I];

/// The `I` product instructions of a strip: `R` sums a thread.
pub(super) trait Strip<const R: usize, const I: usize> {
    /// Queues them. Windows of instruction i lie `offsets[i]` entries behind those that `b` describes.
    ///
    /// # Safety
    /// All threads of the warpgroup call it with descriptors of what was written; neither `d` nor the registers of
    /// `filter` are touched until [`finish`].
    ///
    /// [`finish`]: Strip::finish
    unsafe fn multiply(d: &mut [f32; R], filter: &Filter<I>, b: u64, offsets: &[u32; I]);

    /// Waits for all queued products.
    ///
    /// # Safety
    /// All threads of the warpgroup call it.
    unsafe fn finish(d: &mut [f32; R], filter: &mut Filter<I>);
}

/// The kernel, for filters whose taps along d and h have `I` instructions together.
///
/// # Safety
/// The host passes live tensors of the extents in `p` and y's map, and launches `ROWS_THREADS` threads with the tile's
/// shared memory.
#[inline(always)]
pub(super) unsafe fn run<P: Strip<R, I>, T: TensorCore, const R: usize, const I: usize>(
    p: &OverlapParams,
    y: MapAddress,
) {
    if thread_idx_x() == 0 {
        tma::prefetch_map(y);
    }
    let barriers_at = p.tile.rows_barriers_at(2 * R as u32);
    let ring = Ring::start(ROWS_CONSUMERS, p.tile.buffers, p.tile.x_bytes(), barriers_at);
    let warpgroup = warpgroup();
    if warpgroup < PRODUCERS {
        schedule::release_registers::<PRODUCER_REGISTERS>();
        produce::<true>(p, ring, |_, _| ());
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        consume::<P, T, R, I>(p, y, ring, warpgroup - PRODUCERS);
    }
}

/// A thread's part of the filter, which lies at `from`: of each instruction the four matrices of a warp's 16 channels and
/// two parts of a window.
///
/// # Safety
/// As [`run`]; all threads of a consumer, after the filter has been written.
#[inline(always)]
unsafe fn load_filter<const I: usize>(from: u32) -> Filter<I> {
    let (warp, lane) = (thread_idx_x() % WARPGROUP / 32, thread_idx_x() % 32);
    let lane_from = from + (lane / 16 * ROWS_K + 16 * warp + lane % 16) * ENTRY_BYTES;
    let mut filter = [[0; 4]; I];
    vector::for_each!(J < I, {
        filter[J] = ldmatrix::load_x4(lane_from + J as u32 * (2 * ROWS_K * ENTRY_BYTES));
    });
    filter
}

/// Entries from a strip's first window to what each instruction reads.
#[inline(always)]
fn offsets<const I: usize>(p: &OverlapParams) -> [u32; I] {
    let mut offsets = [0; I];
    let (mut tap, mut step) = (0, 0);
    let mut i = 0;
    while i < I {
        let entries = p.tile.tap_entries(tap) + step * p.tile.step_bytes() / ENTRY_BYTES;
        // SAFETY: one of `I`. In a uniform register, so that it is found once, and a descriptor is one sum.
        unsafe { *offsets.get_unchecked_mut(i) = warp::uniform_register(entries) };
        step += 1;
        if step == p.tile.steps {
            (tap, step) = (tap + 1, 0);
        }
        i += 1;
    }
    offsets
}

/// Computes a consumer's strips of tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<P: Strip<R, I>, T: TensorCore, const R: usize, const I: usize>(
    p: &OverlapParams,
    y: MapAddress,
    mut ring: Ring,
    consumer: u32,
) {
    let first_k = block_idx_y() * ROWS_K;
    // It passes through the buffers of results, which come later.
    let filter_at = ring.base + p.tile.rows_out_at();
    let thread = thread_idx_x() - PRODUCER_THREADS;
    write_filter(p, ROWS_K, first_k, filter_at, (thread, CONSUMER_THREADS));
    sync_named(CONSUMERS_MEET, CONSUMER_THREADS);
    let mut filter = load_filter::<I>(filter_at);
    sync_named(CONSUMERS_MEET, CONSUMER_THREADS);
    let offsets = offsets::<I>(p);
    let row_entries = p.tile.row_entries.divisor;
    let mut out = Out::new(p, y, ring, consumer, first_k, 2 * R as u32);
    let mut d = [0.0f32; R];
    let mut row = consumer;
    let mut index = block_idx_x();
    while index < p.n_tiles {
        let place = p.place(index);
        let [rows, columns] = p.extents(place);
        mbarrier::wait(ring.full(), ring.parity);
        if row >= rows {
            ring.release();
        }
        while row < rows {
            let windows = ring.buffer() + row * row_entries * ENTRY_BYTES;
            let b = descriptor(windows, p.tile.part_bytes(), 8 * ENTRY_BYTES, Swizzle::None);
            P::multiply(&mut d, &filter, b, &offsets);
            P::finish(&mut d, &mut filter);
            let at = row;
            row += ROWS_CONSUMERS;
            if row >= rows {
                ring.release();
            }
            out.write::<T, R>(p, &mut d, place, at, columns);
        }
        // The next tile's strips go on in turns where this one's end.
        row -= rows;
        ring.advance();
        index += grid_dim_x();
    }
    // Shared memory is read until then.
    tma::wait_group_read::<0>();
}

/// A consumer's way out.
struct Out {
    y: MapAddress,
    first_k: u32,
    /// Its buffers, one behind the other, and which one is next.
    base: u32,
    bytes: u32,
    next: u32,
    barrier: u32,
    /// Whether y has its columns one behind the other, not its channels.
    planar: bool,
    /// Where this lane's row of the first matrices goes, and from there that of the next.
    lane_at: u32,
    step: u32,
}

impl Out {
    #[inline(always)]
    fn new(p: &OverlapParams, y: MapAddress, ring: Ring, consumer: u32, first_k: u32, columns: u32) -> Self {
        let bytes = strip_bytes(columns);
        let (warp, lane) = (thread_idx_x() % WARPGROUP / 32, thread_idx_x() % 32);
        // Matrices 0 and 1 of the four that a warp stores at a time are its 16 channels of eight positions, 2 and 3 of
        // the next eight.
        let planar = p.y_access == y_access::TURNED;
        let (lane_at, step) = if planar {
            ((16 * warp + lane % 16) * (2 * columns) + lane / 16 * 16, 2 * 16)
        } else {
            let position = lane / 16 * 8 + lane % 8;
            let chunk = 2 * warp + lane / 8 % 2;
            (position * POSITION_BYTES + (chunk ^ lane % 8) * 16, 16 * POSITION_BYTES)
        };
        Out {
            y,
            first_k,
            base: ring.base + p.tile.rows_out_at() + consumer * ROWS_OUT_BUFFERS * bytes,
            bytes,
            next: 0,
            barrier: CONSUMERS_MEET + 1 + consumer,
            planar,
            lane_at,
            step,
        }
    }

    /// Scales the sums of a strip, row `row` of a tile, blends them with the prior values and sends them out.
    ///
    /// # Safety
    /// As [`run`]; all threads of one warpgroup.
    #[inline(always)]
    unsafe fn write<T: TensorCore, const R: usize>(
        &mut self,
        p: &OverlapParams,
        d: &mut [f32; R],
        place: OverlapPlace,
        row: u32,
        columns: u32,
    ) {
        if p.alpha != 1.0 {
            vector::for_each!(G < R / 8, {
                let mut i = 8 * G;
                while i < 8 * (G + 1) {
                    *d.get_unchecked_mut(i) *= p.alpha;
                    i += 1;
                }
            });
        }
        if p.beta != 0.0 {
            // Opaque, so that nothing of it is found ahead of a strip's products.
            let strip = Prior::new(p, self.first_k, place, row, schedule::opaque(columns));
            vector::for_each!(G < R / 8, {
                let mut i = 8 * G;
                while i < 8 * (G + 1) {
                    strip.add::<T>(p, d.get_unchecked_mut(i), i as u32);
                    i += 1;
                }
            });
        }
        let leads = thread_idx_x() % WARPGROUP == 0;
        if leads {
            // The copy from this buffer, not that from the other one.
            tma::wait_group_read::<{ ROWS_OUT_BUFFERS - 1 }>();
        }
        sync_named(self.barrier, WARPGROUP);
        let buffer = self.base + self.next * self.bytes;
        vector::for_each!(G < R / 8, {
            let pair = |j: usize| T::pack(*d.get_unchecked(8 * G + j), *d.get_unchecked(8 * G + j + 1));
            let at = buffer + self.lane_at + G as u32 * self.step;
            let matrices = [pair(0), pair(2), pair(4), pair(6)];
            if self.planar {
                ldmatrix::store_x4(at, matrices);
            } else {
                ldmatrix::store_x4_transposed(at, matrices);
            }
        });
        fence_proxy_async_shared();
        sync_named(self.barrier, WARPGROUP);
        if leads {
            let [k, q, p_row] = [self.first_k as i32, place.q as i32, (place.p + row) as i32];
            let image = (place.n * p.z_tiles.divisor + place.z) as i32;
            let at = if self.planar { [q, p_row, k, image] } else { [k, q, p_row, image] };
            tma::store_4d(self.y, buffer, at);
            tma::commit_group();
        }
        self.next = (self.next + 1) % ROWS_OUT_BUFFERS;
    }
}

/// Where the prior values of a thread's sums of a strip lie.
struct Prior {
    /// The first channel, and y's element of it at the first column.
    k: u32,
    at: i64,
    /// Columns of the strip behind the thread's first.
    columns: i32,
}

impl Prior {
    #[inline(always)]
    fn new(p: &OverlapParams, first_k: u32, place: OverlapPlace, row: u32, columns: u32) -> Self {
        let thread = thread_idx_x() % WARPGROUP;
        let column = thread % 4 * 2;
        let k = first_k + thread / 32 * 16 + thread % 32 / 4;
        let at = i64::from(place.n) * p.y_strides[0]
            + i64::from(place.z) * p.y_strides[2]
            + i64::from(place.p + row) * p.y_strides[3]
            + i64::from(place.q + column) * p.y_strides[4]
            + i64::from(k) * p.y_strides[1];
        Prior { k, at, columns: columns as i32 - column as i32 }
    }

    /// Adds the one of sum `i`, scaled.
    ///
    /// # Safety
    /// As [`Out::write`].
    #[inline(always)]
    unsafe fn add<T: TensorCore>(&self, p: &OverlapParams, sum: &mut f32, i: u32) {
        let (later, column) = (i / 2 % 2 * 8, (i / 4 * 8 + i % 2) as i32);
        if self.k + later < p.k && column < self.columns {
            let at = self.at + i64::from(column) * p.y_strides[4] + i64::from(later) * p.y_strides[1];
            *sum += p.beta * (*(p.y as *const T).offset(at as isize)).widen();
        }
    }
}
