//! `wgrad`: rows of a product are output channels, columns the elements of a window of one tap along d and h, or every
//! second part of them, and the sum runs over positions.
//!
//! dy comes by the copy engine, zeros where a row of positions goes on behind the last one; a warp reads its 16 channels
//! of it transposed to registers, once for all taps of its warpgroup. A block keeps its sums to the end and writes them
//! to the workspace, where another kernel adds those of all blocks in their order. Deterministic.

use super::fill::Entries;
use super::{Ring, WARPGROUP, warpgroup};
use cuda_std::barrier::{fence_proxy_async_shared, sync_threads};
use cuda_std::thread::{block_dim_x, block_idx_x, block_idx_y, grid_dim_x, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::wgmma::{Swizzle, descriptor};
use cuda_std::{ldmatrix, mbarrier, schedule, shared, warp};
use kernel_abi::division::div_rem;
use kernel_abi::ops::conv::overlap_wgmma::{
    ENTRY_BYTES, ENTRY_ELEMS, OverlapParams, PRODUCERS, STEP_ELEMS, WGRAD_CONSUMERS, WGRAD_K, WGRAD_POSITIONS,
    wgrad_planes,
};

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
    let (block, part) = p.tap_parts.div_rem(block_idx_y());
    let first_k = block * WGRAD_K;
    let first_product = part * (T0 + T1) as u32;
    let warpgroup = warpgroup();
    if warpgroup < PRODUCERS {
        produce(p, map, ring, first_k);
    } else if warpgroup == PRODUCERS {
        consume::<P0, R, T0>(p, ring, first_k, first_product);
        // Keeps the compiler from sharing the last stores, and their register, between the consumers: the assembler
        // would then let no products overlap.
        warp::sync_warp();
    } else {
        consume::<P1, R, T1>(p, ring, first_k, first_product + T0 as u32);
    }
}

/// Fills buffer after buffer.
///
/// # Safety
/// As [`run`]; all producer threads.
#[inline(always)]
unsafe fn produce(p: &OverlapParams, map: MapAddress, mut ring: Ring, first_k: u32) {
    let entries = Entries::new(p);
    let mut index = block_idx_x();
    while index < p.n_tiles {
        let place = p.place(index);
        mbarrier::wait(ring.empty(), ring.parity ^ 1);
        if thread_idx_x() == 0 {
            mbarrier::expect_bytes(ring.full(), p.tile.dy_copy_bytes());
            // Columns of the next tile along Q lie outside of this one's.
            let image = place.n * p.z_tiles.divisor + place.z;
            let at = [first_k as i32, 0, place.strip as i32, place.p as i32, image as i32];
            tma::load_5d(ring.buffer() + p.tile.x_bytes(), map, ring.full(), at);
        }
        entries.fill(p, place, ring.buffer(), thread_idx_x());
        fence_proxy_async_shared();
        mbarrier::arrive(ring.full());
        ring.advance();
        index += grid_dim_x();
    }
}

/// Sums some taps' products over tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<P: Taps<R, T>, const R: usize, const T: usize>(
    p: &OverlapParams,
    mut ring: Ring,
    first_k: u32,
    first_product: u32,
) {
    let tile = &p.tile;
    let thread = thread_idx_x() % WARPGROUP;
    let planes = wgrad_planes(2 * R as u32);
    // From one part of a window to the next that an instruction reads.
    let part_bytes = if planes == 2 { tile.part_entries * ENTRY_BYTES } else { tile.part_bytes() };
    // Products behind the last tap's are of what nobody stores.
    let mut taps = [0u32; T];
    let mut t = 0;
    while t < T {
        let (tap, plane) = div_rem(first_product + t as u32, planes);
        let entries = tile.tap_entries(tap) + plane * tile.plane_entries();
        *taps.get_unchecked_mut(t) = if tap < tile.n_taps() { entries } else { 0 };
        t += 1;
    }
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
        let mut b = descriptor(ring.buffer(), 8 * ENTRY_BYTES, part_bytes, Swizzle::None);
        let mut dy = ring.buffer() + lane_at;
        let mut block = 0;
        while block < blocks {
            // Not ahead, while other products run: the assembler lets nobody write such registers then.
            let rows = |step: u32| ldmatrix::load_x4_transposed(dy + step * (STEP_ELEMS * DY_BYTES));
            let mut a = [rows(0), rows(1), rows(2), rows(3)];
            P::multiply(&mut d, &a, b, &taps, accumulate);
            accumulate = 1;
            P::finish(&mut d, &mut a);
            b += u64::from(WGRAD_POSITIONS);
            dy += WGRAD_POSITIONS * DY_BYTES;
            block += 1;
        }
        ring.release();
        ring.advance();
        index += grid_dim_x();
    }
    let mut t = 0;
    while t < T {
        let (tap, plane) = div_rem(first_product + t as u32, planes);
        if tap < tile.n_taps() {
            store(p, d.get_unchecked(t), first_k, tap, plane);
        }
        t += 1;
    }
}

/// Writes a block's sums of one product to the workspace, where dw's elements lie.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn store<const R: usize>(p: &OverlapParams, d: &[f32; R], first_k: u32, tap: u32, plane: u32) {
    let thread = thread_idx_x() % WARPGROUP;
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
