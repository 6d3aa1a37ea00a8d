//! `wgrad` for Hopper that reads every strip with its halo once: see [`kernel_abi::ops::conv::halo_wgmma_split`].
//!
//! Grid: any number of blocks, which share parts of the sums of tiles round-robin. Block: 512 threads. One warp of
//! warpgroup 0 loads rows of dy and x, positions of 64 channels with zeros where there is nothing, into a ring of stages;
//! each other warpgroup computes the taps of one row of the filter. Both operands are read transposed, since positions
//! are summed over, from wherever a strip begins, and x a tap's shift behind. Shared memory: dynamic, [`StripStage`].
//!
//! The taps of a row are the columns of one instruction: its panels of 64 columns begin a position behind one another
//! and overlap. An instruction of 64 × 192 reads 8 KB from shared memory where three of 64 × 64 read 12, and reading
//! would limit those.
//!
//! Every part's sums go to the workspace as the threads hold them, and a second kernel ([`sum`]) adds them in their
//! order. Deterministic.
//!
//! [`StripStage`]: kernel_abi::ops::conv::halo_wgmma_split::StripStage

mod entry;
mod sum;

use crate::math::ring::Ring;
use cuda_std::barrier::fence_proxy_async_shared;
use cuda_std::thread::{block_dim_x, block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::wgmma::{Swizzle, descriptor};
use cuda_std::{mbarrier, schedule, shared, warp};
use kernel_abi::ops::conv::halo_wgmma_split::{ConvHaloWgradParams, POSITION_BYTES, STEP, TilePlace};

/// A thread's sums: those of an instruction of 64 × 192, which has the taps of a row as columns.
type Sums = [f32; 96];

/// The product instructions of one kernel.
trait Product {
    /// Queues four steps of [`STEP`] positions. `accumulate` is 0 to overwrite `d`, else 1. All but one of the groups queued
    /// before are done afterwards.
    ///
    /// # Safety
    /// All threads of the warpgroup call it with descriptors of loaded tiles; `d` is not touched until [`finish`].
    ///
    /// [`finish`]: Product::finish
    unsafe fn multiply_four(d: &mut Sums, dy: u64, x: u64, accumulate: u32);

    /// The same for one step.
    ///
    /// # Safety
    /// As [`multiply_four`](Product::multiply_four).
    unsafe fn multiply_one(d: &mut Sums, dy: u64, x: u64, accumulate: u32);

    /// Waits for all queued products.
    ///
    /// # Safety
    /// All threads of the warpgroup call it.
    unsafe fn finish(d: &mut Sums);
}

/// Registers of a thread of each role: together what a multiprocessor has for four warpgroups.
const PRODUCER_REGISTERS: u32 = 56;
const CONSUMER_REGISTERS: u32 = 152;
/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;
/// Warps of a warpgroup.
const WARPS: u32 = 4;
/// The period of the swizzle: 8 positions.
const SWIZZLE_PERIOD: u32 = 1024;
/// From one step of the sum to the next, in a descriptor's units of 16 bytes.
const STEP_UNITS: u64 = (STEP * POSITION_BYTES / 16) as u64;

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches `THREADS` threads with `p.stage.smem_bytes()` bytes of
/// shared memory.
#[inline(always)]
unsafe fn run<P: Product>(p: &ConvHaloWgradParams, maps: [MapAddress; 3]) {
    schedule::launch_dependents();
    let base = shared::dynamic_address().next_multiple_of(SWIZZLE_PERIOD);
    let ring = Ring::new(base, p.stage.bytes, p.stage.stages, base + p.stage.barriers_at());
    if thread_idx_x() == 0 {
        tma::prefetch_map(maps[0]);
        tma::prefetch_map(maps[1]);
        tma::prefetch_map(maps[2]);
        let mut each = ring;
        while each.parity == 0 {
            mbarrier::init(each.full(), 1);
            mbarrier::init(each.empty(), WARPS * p.taps[1]);
            each.advance();
        }
        mbarrier::fence_init();
    }
    // Nothing is ever loaded there, but it meets zeros of dy: it must be numbers.
    let mut stage = 0;
    while stage < p.stage.stages {
        let at = base + stage * p.stage.bytes;
        zero(at + p.stage.x_at + p.stage.loaded_bytes()[1], p.stage.tail);
        stage += 1;
    }
    fence_proxy_async_shared();
    sync_threads();
    schedule::wait_for_predecessors();
    let warpgroup = warp::uniform(thread_idx_x() / WARPGROUP);
    if warpgroup == 0 {
        schedule::release_registers::<PRODUCER_REGISTERS>();
        if warp::uniform(thread_idx_x() / 32) == 0 {
            produce(p, maps, ring);
        }
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        // Nobody waits for those who have no taps.
        if warpgroup <= p.taps[1] {
            consume::<P>(p, ring, warpgroup - 1);
        }
    }
}

/// Writes zeros to positions, by all threads of the block.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn zero(at: u32, positions: u32) {
    let mut chunk = thread_idx_x();
    while chunk < positions * (POSITION_BYTES / 16) {
        shared::store_x4(at + 16 * chunk, [0; 4]);
        chunk += block_dim_x();
    }
}

/// Loads strip after strip, of unit after unit.
///
/// All threads of a warp compute where, so that addresses are computed once for all of them, and one queues the copies.
///
/// # Safety
/// As [`run`]; all threads of one warp.
#[inline(always)]
unsafe fn produce(p: &ConvHaloWgradParams, [dy_map, dy_last_map, x_map]: [MapAddress; 3], mut ring: Ring) {
    let [dy_bytes, x_bytes] = p.stage.loaded_bytes();
    let mut index = block_idx_x();
    while index < p.n_tiles * p.splits {
        let (split, tile) = p.unit(index);
        let k = (tile.group * p.group_k + tile.k) as i32;
        let c = (tile.group * p.group_c + tile.c) as i32;
        let from_z = (tile.t * p.tap_offset[0]) as i32 + p.base[0];
        let (mut strip, end) = p.strips_of(split);
        while strip < end {
            let place = p.strip(strip);
            let (image, z, row) = (place.image as i32, place.z as i32, place.p as i32);
            let column = (place.part * p.part_w) as i32;
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            if warp::elect() {
                let full = ring.full();
                mbarrier::arrive_expect_bytes(full, dy_bytes + x_bytes);
                if place.part + 1 < p.row_parts.divisor {
                    let plane = image * p.planes.divisor as i32 + z;
                    tma::load_5d(ring.at(), dy_map, full, [k, 0, place.part as i32, row, plane]);
                } else {
                    tma::load_5d(ring.at(), dy_last_map, full, [k, column, row, z, image]);
                }
                let at = [c, column + p.base[2], row + p.base[1], z + from_z, image];
                tma::load_5d(ring.at() + p.stage.x_at, x_map, full, at);
            }
            ring.advance();
            strip += 1;
        }
        index += grid_dim_x();
    }
}

/// Computes unit after unit: the taps of row `r` of the filter.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<P: Product>(p: &ConvHaloWgradParams, mut ring: Ring, r: u32) {
    let lane = thread_idx_x() % 32;
    let tap_bytes = p.tap_offset[2] * POSITION_BYTES;
    let x_at = p.stage.x_at + r * p.tap_offset[1] * p.stage.pitch.divisor * POSITION_BYTES;
    let mut index = block_idx_x();
    while index < p.n_tiles * p.splits {
        let (split, _) = p.unit(index);
        let (begin, end) = p.strips_of(split);
        let mut d: Sums = core::mem::zeroed();
        let mut accumulate = 0;
        let mut used = 0;
        let mut strip = begin;
        while strip < end {
            mbarrier::wait(ring.full(), ring.parity);
            let first = ring.at() + p.strip(strip).first * POSITION_BYTES;
            let mut dy = descriptor(first, SWIZZLE_PERIOD, SWIZZLE_PERIOD, Swizzle::B128);
            let mut x = descriptor(first + x_at, tap_bytes, SWIZZLE_PERIOD, Swizzle::B128);
            let mut left = p.stage.steps;
            while left >= 4 {
                P::multiply_four(&mut d, dy, x, accumulate);
                accumulate = 1;
                used = release(used, lane);
                dy += 4 * STEP_UNITS;
                x += 4 * STEP_UNITS;
                left -= 4;
            }
            while left > 0 {
                P::multiply_one(&mut d, dy, x, accumulate);
                accumulate = 1;
                used = release(used, lane);
                dy += STEP_UNITS;
                x += STEP_UNITS;
                left -= 1;
            }
            used = ring.empty();
            ring.advance();
            strip += 1;
        }
        P::finish(&mut d);
        release(used, lane);
        store(p, &d, index, r);
        index += grid_dim_x();
    }
}

/// Signals that this warp has read the stage before, whose products are done with the first ones of the next: 0 once it
/// is signalled.
///
/// # Safety
/// As [`consume`]; `used` is 0 or the stage's barrier.
#[inline(always)]
unsafe fn release(used: u32, lane: u32) -> u32 {
    if used != 0 && lane == 0 {
        mbarrier::arrive(used);
    }
    0
}

/// Writes a thread's sums to the workspace.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn store(p: &ConvHaloWgradParams, d: &Sums, index: u32, r: u32) {
    let thread = r * WARPGROUP + thread_idx_x() % WARPGROUP;
    let to =
        (p.partials as *mut [f32; 4]).add((u64::from(index) * u64::from(p.tile_quads()) + u64::from(thread)) as usize);
    quads::<0>(p, d, to);
    quads::<8>(p, d, to);
    quads::<16>(p, d, to);
}

/// Quads `FROM` to `FROM + 7` of the sums, a tap: few enough that the loop is unrolled, and the sums stay in registers.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn quads<const FROM: usize>(p: &ConvHaloWgradParams, d: &Sums, to: *mut [f32; 4]) {
    if FROM as u32 >= p.thread_quads() {
        return;
    }
    let mut i = FROM;
    while i < FROM + 8 {
        let sum = |j: usize| d.get_unchecked(4 * i + j).to_bits();
        let to = to.add((i as u32 * p.sum_threads()) as usize);
        cuda_std::memory::store_x4(to as *mut u32, [sum(0), sum(1), sum(2), sum(3)]);
        i += 1;
    }
}

/// A tile's tap, k and c that a thread's quad begins with: it has two neighbouring c of k and of k + 8.
#[inline(always)]
fn element(p: &ConvHaloWgradParams, place: TilePlace, thread: u32, quad: u32) -> (u32, u32, u32) {
    let (r, thread) = (thread / WARPGROUP, thread % WARPGROUP);
    let (s, column) = (quad / 8, quad % 8 * 8 + thread % 4 * 2);
    let tap = (place.t * p.taps[1] + r) * p.taps[2] + s;
    (tap, place.k + thread / 32 * 16 + thread % 32 / 4, place.c + column)
}
