//! `wgrad`: rows of a product are output channels, columns the elements of a window of one tap along d and h, or every
//! second part of them, and the sum runs over positions.
//!
//! dy comes by the copy engine, zeros where a row of positions goes on behind the last one; a warp reads its 16 channels
//! of it transposed to registers, once for all taps of its warpgroup. A block keeps its sums to the end and writes them
//! to the workspace, where another kernel adds those of all blocks in their order. Deterministic.
//!
//! The consumers share the taps, and each reads all of dy; or they take positions in turns, so that each reads half of dy,
//! a block ahead, and one's products run while the other waits.

use super::{CONSUMER_REGISTERS, CONSUMERS_MEET, PRODUCER_REGISTERS, Ring, WARPGROUP, warpgroup};
use crate::math::vector;
use cuda_std::barrier::{fence_proxy_async_shared, sync_named, sync_threads};
use cuda_std::thread::{block_dim_x, block_idx_x, block_idx_y, grid_dim_x, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::wgmma::{Swizzle, descriptor};
use cuda_std::{ldmatrix, mbarrier, schedule, shared, warp};
use kernel_abi::division::div_rem;
use kernel_abi::ops::conv::overlap_wgmma::{
    ENTRY_BYTES, ENTRY_ELEMS, OverlapParams, PRODUCERS, STEP_ELEMS, WGRAD_CONSUMERS, WGRAD_K, WGRAD_POSITIONS,
    WGRAD_STEPS, wgrad_planes,
};

/// Instructions of a product that are queued together.
const STEPS: usize = WGRAD_STEPS as usize;
/// Bytes of a position of dy.
const DY_BYTES: u32 = 2 * WGRAD_K;

/// The instructions of `T` products, of a tap each or a plane of it: `R` sums a thread each.
pub(super) trait Taps<const R: usize, const T: usize> {
    /// Queues four instructions a tap, for 64 positions; tap i's columns lie `taps[i]` entries behind the first's. `accumulate` is 0 to overwrite `d`, else 1.
    ///
    /// # Safety
    /// All threads of the warpgroup call it with a descriptor of what was written; neither `d` nor the registers of `a`
    /// are touched until [`finish`].
    ///
    /// [`finish`]: Taps::finish
    unsafe fn multiply(d: &mut [[f32; R]; T], a: &[[u32; 4]; 4], b: u64, taps: &[u32; T], accumulate: u32);

    /// Waits for all queued products.
    ///
    /// # Safety
    /// All threads of the warpgroup call it.
    unsafe fn finish(d: &mut [[f32; R]; T], a: &mut [[u32; 4]; 4]);
}

/// The kernel, of `T0` products for the first consumer and `T1` for the second.
///
/// # Safety
/// The host passes live tensors of the extents in `p`, and launches `WGRAD_THREADS` threads with the tile's shared memory.
#[inline(always)]
pub(super) unsafe fn run<P0: Taps<R, T0>, P1: Taps<R, T1>, const R: usize, const T0: usize, const T1: usize>(
    p: &OverlapParams,
    map: MapAddress,
) {
    let ring = start(p);
    let (block, part) = p.tap_parts.div_rem(block_idx_y());
    let first_k = block * WGRAD_K;
    let first_product = part * (T0 + T1) as u32;
    let warpgroup = warpgroup();
    if warpgroup < PRODUCERS {
        produce::<false>(p, map, ring, first_k);
    } else if warpgroup == PRODUCERS {
        consume::<P0, R, T0>(p, ring, first_k, first_product);
        // Keeps the compiler from sharing the last stores, and their register, between the consumers: the assembler
        // would then let no products overlap.
        warp::sync_warp();
    } else {
        consume::<P1, R, T1>(p, ring, first_k, first_product + T0 as u32);
    }
}

/// The kernel whose consumers both compute `T` products, of 64 positions in turns: each reads a block of dy once.
///
/// # Safety
/// As [`run`].
#[inline(always)]
pub(super) unsafe fn run_in_turns<P: Taps<R, T>, const R: usize, const T: usize>(p: &OverlapParams, map: MapAddress) {
    let ring = start(p);
    let (block, part) = p.tap_parts.div_rem(block_idx_y());
    let first_k = block * WGRAD_K;
    let warpgroup = warpgroup();
    if warpgroup < PRODUCERS {
        schedule::release_registers::<PRODUCER_REGISTERS>();
        produce::<true>(p, map, ring, first_k);
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        let products = Products::<T>::new::<R>(p, part * T as u32);
        let consumer = warpgroup - PRODUCERS;
        let mut d = products.sum::<P, R, true>(p, ring, Turn { next: consumer, of: WGRAD_CONSUMERS });
        meet(ring, &mut d, consumer);
        if consumer == 0 {
            products.store(p, &d, first_k);
        }
    }
}

/// Computes a consumer's products of all positions.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<P: Taps<R, T>, const R: usize, const T: usize>(
    p: &OverlapParams,
    ring: Ring,
    first_k: u32,
    first: u32,
) {
    let products = Products::<T>::new::<R>(p, first);
    let d = products.sum::<P, R, false>(p, ring, Turn { next: 0, of: 1 });
    products.store(p, &d, first_k);
}

/// Adds the second consumer's sums to the first's, through buffers that nobody needs any more.
///
/// # Safety
/// As [`run`]; all threads of both consumers, once they are done with all tiles.
#[inline(always)]
unsafe fn meet<const R: usize, const T: usize>(ring: Ring, d: &mut [[f32; R]; T], consumer: u32) {
    const THREADS: u32 = WGRAD_CONSUMERS * WARPGROUP;
    let own = ring.base + 4 * (thread_idx_x() % WARPGROUP);
    vector::for_each!(I < T, {
        let sums = d.get_unchecked_mut(I);
        sync_named(CONSUMERS_MEET, THREADS);
        if consumer > 0 {
            vector::for_each!(J < R, {
                shared::store_f32(own + 4 * WARPGROUP * J as u32, *sums.get_unchecked(J));
            });
        }
        sync_named(CONSUMERS_MEET, THREADS);
        if consumer == 0 {
            vector::for_each!(J < R, {
                *sums.get_unchecked_mut(J) += shared::load_f32(own + 4 * WARPGROUP * J as u32);
            });
        }
    });
}

/// Makes the ring ready.
///
/// # Safety
/// As [`run`]; all threads.
#[inline(always)]
unsafe fn start(p: &OverlapParams) -> Ring {
    let (buffers, barriers_at) = (p.tile.buffers, p.tile.wgrad_barriers_at());
    let ring = Ring::start(WGRAD_CONSUMERS, buffers, p.tile.wgrad_buffer_bytes(), barriers_at);
    // What no copy fills meets dy's zeros: it must be numbers.
    let mut at = ring.base + 16 * thread_idx_x();
    while at < ring.barriers {
        shared::store_x4(at, [0; 4]);
        at += 16 * block_dim_x();
    }
    fence_proxy_async_shared();
    sync_threads();
    ring
}

/// Fills buffer after buffer.
///
/// # Safety
/// As [`run`]; all producer threads.
#[inline(always)]
unsafe fn produce<const STAGED: bool>(p: &OverlapParams, map: MapAddress, ring: Ring, first_k: u32) {
    super::produce::<STAGED>(p, ring, |place, ring| {
        if thread_idx_x() == 0 {
            mbarrier::expect_bytes(ring.full(), p.tile.dy_copy_bytes());
            // Columns of the next tile along Q lie outside of this one's.
            let image = place.n * p.z_tiles.divisor + place.z;
            let at = [first_k as i32, 0, place.strip as i32, place.p as i32, image as i32];
            tma::load_5d(ring.buffer() + p.tile.x_bytes(), map, ring.full(), at);
        }
    });
}

/// The blocks of 64 positions that a consumer takes: the next one, and from there every `of`-th.
struct Turn {
    next: u32,
    of: u32,
}

/// `T` of a block's products.
struct Products<const T: usize> {
    first: u32,
    planes: u32,
    /// From one part of a window to the next that an instruction reads.
    part_bytes: u32,
    /// Entries from the first tap's windows to each product's.
    taps: [u32; T],
}

impl<const T: usize> Products<T> {
    #[inline(always)]
    unsafe fn new<const R: usize>(p: &OverlapParams, first: u32) -> Self {
        let tile = &p.tile;
        let planes = wgrad_planes(2 * R as u32);
        let part_bytes = if planes == 2 { tile.part_entries * ENTRY_BYTES } else { tile.part_bytes() };
        // Products behind the last tap's are of what nobody stores.
        let mut taps = [0u32; T];
        let mut t = 0;
        while t < T {
            let (tap, plane) = div_rem(first + t as u32, planes);
            let entries = tile.tap_entries(tap) + plane * tile.plane_entries();
            *taps.get_unchecked_mut(t) = warp::uniform_register(if tap < tile.n_taps() { entries } else { 0 });
            t += 1;
        }
        Products { first, planes, part_bytes, taps }
    }

    /// Sums them over tile after tile. `AHEAD` a block of dy is read while the products of the one before run: where there
    /// are registers for two.
    ///
    /// # Safety
    /// As [`run`]; all threads of one warpgroup.
    #[inline(always)]
    unsafe fn sum<P: Taps<R, T>, const R: usize, const AHEAD: bool>(
        &self,
        p: &OverlapParams,
        mut ring: Ring,
        mut turn: Turn,
    ) -> [[f32; R]; T] {
        let tile = &p.tile;
        let thread = thread_idx_x() % WARPGROUP;
        // Matrix l / 8 of a warp's four: positions (l / 16) · 8 on, channels (l / 8 % 2) · 8 on.
        let lane = thread % 32;
        let chunk = thread / 32 * 2 + lane / 8 % 2;
        let lane_at = tile.x_bytes() + (lane / 16 * 8 + lane % 8) * DY_BYTES + (chunk ^ lane % 8) * 16;
        // Overwritten; opaque, since a register of zeros that both consumers began with would keep the assembler from
        // letting products overlap.
        let mut d = [[f32::from_bits(schedule::opaque(0)); R]; T];
        let mut accumulate = 0;
        let mut index = block_idx_x();
        while index < p.n_tiles {
            let [rows, columns] = p.extents(p.place(index));
            let blocks = tile.positions(rows, columns).div_ceil(WGRAD_POSITIONS);
            mbarrier::wait(ring.full(), ring.parity);
            let from = ring.buffer() + turn.next * (WGRAD_POSITIONS * ENTRY_BYTES);
            let mut b = descriptor(from, 8 * ENTRY_BYTES, self.part_bytes, Swizzle::None);
            let mut dy = ring.buffer() + lane_at + turn.next * (WGRAD_POSITIONS * DY_BYTES);
            let b_step = u64::from(turn.of * WGRAD_POSITIONS);
            let dy_step = turn.of * (WGRAD_POSITIONS * DY_BYTES);
            if AHEAD && turn.next < blocks {
                // Two sets of registers: the assembler lets nobody write those of products that run.
                let (mut a, mut next) = (block_of(dy), [[0; 4]; STEPS]);
                loop {
                    P::multiply(&mut d, &a, b, &self.taps, accumulate);
                    accumulate = 1;
                    (turn.next, dy, b) = (turn.next + turn.of, dy + dy_step, b + b_step);
                    let goes_on = turn.next < blocks;
                    if goes_on {
                        next = block_of(dy);
                    }
                    P::finish(&mut d, &mut a);
                    if !goes_on {
                        break;
                    }
                    P::multiply(&mut d, &next, b, &self.taps, 1);
                    (turn.next, dy, b) = (turn.next + turn.of, dy + dy_step, b + b_step);
                    let goes_on = turn.next < blocks;
                    if goes_on {
                        a = block_of(dy);
                    }
                    P::finish(&mut d, &mut next);
                    if !goes_on {
                        break;
                    }
                }
            }
            while !AHEAD && turn.next < blocks {
                let mut a = block_of(dy);
                P::multiply(&mut d, &a, b, &self.taps, accumulate);
                accumulate = 1;
                P::finish(&mut d, &mut a);
                (turn.next, dy, b) = (turn.next + turn.of, dy + dy_step, b + b_step);
            }
            // The next tile's blocks go on in turns where this one's end.
            turn.next -= blocks;
            ring.release();
            ring.advance();
            index += grid_dim_x();
        }
        d
    }

    /// Writes their sums to the workspace.
    ///
    /// # Safety
    /// As [`run`]; all threads of one warpgroup.
    #[inline(always)]
    unsafe fn store<const R: usize>(&self, p: &OverlapParams, d: &[[f32; R]; T], first_k: u32) {
        vector::for_each!(I < T, {
            let (tap, plane) = div_rem(self.first + I as u32, self.planes);
            if tap < p.tile.n_taps() {
                store(p, d.get_unchecked(I), first_k, tap, plane);
            }
        });
    }
}

/// A warp's part of a block of dy, where this lane's address in it is `dy`.
///
/// # Safety
/// As [`run`]; all threads of a warp.
#[inline(always)]
unsafe fn block_of(dy: u32) -> [[u32; 4]; STEPS] {
    let rows = |step: u32| ldmatrix::load_x4_transposed(dy + step * (STEP_ELEMS * DY_BYTES));
    [rows(0), rows(1), rows(2), rows(3)]
}

/// Writes a block's sums of one product to the workspace, where dw's elements lie.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn store<const R: usize>(p: &OverlapParams, d: &[f32; R], first_k: u32, tap: u32, plane: u32) {
    // Opaque, so that nothing of it is found ahead of the sums.
    let thread = schedule::opaque(thread_idx_x() % WARPGROUP);
    let mask = (1u32 << p.packed_c_log2) - 1;
    let partials = (p.partials as *mut f32).add((u64::from(block_idx_x()) * p.dw_elems) as usize);
    let [t, r] = p.tile.tap(tap);
    let row = p.w_first + i64::from(t) * p.w_strides[2] + i64::from(r) * p.w_strides[3];
    let mut i = 0;
    while i < R {
        let k = first_k + thread / 32 * 16 + thread % 32 / 4 + (i as u32 / 2 % 2) * 8;
        let part = i as u32 / 4 * wgrad_planes(2 * R as u32) + plane;
        let element = part * ENTRY_ELEMS + thread % 4 * 2 + i as u32 % 2;
        let (s, c) = (element >> p.packed_c_log2, element & mask);
        if k < p.k && s < p.filter_w && c < p.c {
            let at =
                row + i64::from(k) * p.w_strides[0] + i64::from(c) * p.w_strides[1] + i64::from(s) * p.w_strides[4];
            *partials.offset(at as isize) = *d.get_unchecked(i);
        }
        i += 1;
    }
}
