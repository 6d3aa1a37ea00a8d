//! `wgrad` for Hopper that reads every strip with its halo once: see [`kernel_abi::ops::conv::halo_wgmma_split`].
//!
//! Grid: any number of blocks, which share parts of the sums of tiles round-robin. Block: 512 threads. One warp of
//! warpgroup 0 loads rows of dy and x, positions of 64 or 32 channels with zeros where there is nothing, into a ring of
//! stages; each other warpgroup computes the taps of one or two rows of the filter. Both operands are read transposed,
//! since positions are summed over, from wherever a strip begins, and x a tap's shift behind. Shared memory: dynamic,
//! [`StripStage`].
//!
//! The taps of a row are the columns of one instruction: its panels of columns begin a position behind one another and
//! overlap. An instruction of 64 × 192 reads 8 KB from shared memory where three of 64 × 64 read 12, and reading would
//! limit those. Rows do likewise where a tile has 32 k: the two panels of dy begin rows of positions behind one another,
//! so that the same x is met for two rows of taps. Of three rows the last is computed with one above that there is not:
//! of 12 products per position, k and c, 9 are wanted.
//!
//! Of 40 k the rows are channels of x, and each tap is an instruction of 64 × 40: three of them read 10 KB from shared
//! memory, which is done after 78 cycles where one of 64 × 192 computes 96.
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
use kernel_abi::division::div_rem;
use kernel_abi::ops::conv::halo_wgmma_split::{ALIGN, ConvHaloWgradParams, Form, STEP, TilePlace};

/// The product instructions of one kernel, of which a thread holds `N` sums of each of `I` instructions: together their
/// columns are the taps of a row.
trait Product<const N: usize, const I: usize> {
    const FORM: Form;

    /// Queues four steps of [`STEP`] positions. Neighbouring taps are `tap` units of a descriptor apart in x. `accumulate`
    /// is 0 to overwrite `d`, else 1. All but one of the groups queued before are done afterwards.
    ///
    /// # Safety
    /// All threads of the warpgroup call it with descriptors of loaded tiles; `d` is not touched until [`finish`].
    ///
    /// [`finish`]: Product::finish
    unsafe fn multiply_four(d: &mut [[f32; N]; I], dy: u64, x: u64, tap: u64, accumulate: u32);

    /// The same for one step.
    ///
    /// # Safety
    /// As [`multiply_four`](Product::multiply_four).
    unsafe fn multiply_one(d: &mut [[f32; N]; I], dy: u64, x: u64, tap: u64, accumulate: u32);

    /// Waits for all queued products.
    ///
    /// # Safety
    /// All threads of the warpgroup call it.
    unsafe fn finish(d: &mut [[f32; N]; I]);
}

/// Registers of a thread of each role: together what a multiprocessor has for four warpgroups.
const PRODUCER_REGISTERS: u32 = 56;
const CONSUMER_REGISTERS: u32 = 152;
/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;
/// Warps of a warpgroup.
const WARPS: u32 = 4;

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches `THREADS` threads with `p.stage.smem_bytes()` bytes of
/// shared memory.
#[inline(always)]
unsafe fn run<P: Product<N, I>, const N: usize, const I: usize>(p: &ConvHaloWgradParams, maps: [MapAddress; 3]) {
    schedule::launch_dependents();
    let base = shared::dynamic_address().next_multiple_of(ALIGN);
    let ring = Ring::new(base, p.stage.bytes, p.stage.stages, base + p.stage.barriers_at());
    if thread_idx_x() == 0 {
        tma::prefetch_map(maps[0]);
        tma::prefetch_map(maps[1]);
        tma::prefetch_map(maps[2]);
        let mut each = ring;
        while each.parity == 0 {
            mbarrier::init(each.full(), 1);
            mbarrier::init(each.empty(), WARPS * p.consumers());
            each.advance();
        }
        mbarrier::fence_init();
    }
    // Nothing is ever loaded there, but it meets zeros of dy: it must be numbers.
    let mut stage = 0;
    while stage < p.stage.stages {
        let at = base + stage * p.stage.bytes;
        zero(at + p.stage.x_at + p.stage.loaded_bytes()[1], p.stage.tail * P::FORM.position_bytes());
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
        if warpgroup <= p.consumers() {
            consume::<P, N, I>(p, ring, warpgroup - 1);
        }
    }
}

/// Writes zeros to so many bytes, by all threads of the block.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn zero(at: u32, bytes: u32) {
    let mut chunk = thread_idx_x();
    while chunk < bytes / 16 {
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
        let mut strip = split;
        while strip < p.n_strips {
            let place = p.strip(strip);
            let (image, z, row) = (place.image as i32, place.z as i32, place.p);
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
            strip += p.splits;
        }
        index += grid_dim_x();
    }
}

/// Computes unit after unit: the rows of taps of a consumer.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<P: Product<N, I>, const N: usize, const I: usize>(
    p: &ConvHaloWgradParams,
    mut ring: Ring,
    consumer: u32,
) {
    let lane = thread_idx_x() % 32;
    let position_bytes = P::FORM.position_bytes();
    // The period of the swizzle.
    let period = 8 * position_bytes;
    let step_units = u64::from(STEP * position_bytes / 16);
    let swizzle = if position_bytes == 128 { Swizzle::B128 } else { Swizzle::B64 };
    let lead_bytes = p.stage.lead * p.stage.row_bytes;
    let tap_bytes = p.tap_offset[2] * position_bytes;
    let tap_units = u64::from(tap_bytes / 16);
    let row = p.tap_row(consumer * P::FORM.tap_rows());
    let x_at = p.stage.x_at + row * p.tap_offset[1] * p.stage.row_bytes;
    let mut index = block_idx_x();
    while index < p.n_tiles * p.splits {
        let (split, _) = p.unit(index);
        let mut d: [[f32; N]; I] = core::mem::zeroed();
        let mut accumulate = 0;
        let mut used = 0;
        let mut strip = split;
        while strip < p.n_strips {
            mbarrier::wait(ring.full(), ring.parity);
            let first = ring.at() + p.strip(strip).first * position_bytes;
            let mut dy = descriptor(first, lead_bytes, period, swizzle);
            let mut x = descriptor(first + x_at, tap_bytes, period, swizzle);
            let mut left = p.stage.steps;
            while left >= 4 {
                P::multiply_four(&mut d, dy, x, tap_units, accumulate);
                accumulate = 1;
                used = release(used, lane);
                dy += 4 * step_units;
                x += 4 * step_units;
                left -= 4;
            }
            while left > 0 {
                P::multiply_one(&mut d, dy, x, tap_units, accumulate);
                accumulate = 1;
                used = release(used, lane);
                dy += step_units;
                x += step_units;
                left -= 1;
            }
            used = ring.empty();
            ring.advance();
            strip += p.splits;
        }
        P::finish(&mut d);
        release(used, lane);
        store::<P, N, I>(p, &d, index, consumer);
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

/// Writes a thread's sums to the workspace, if they are of dw.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn store<P: Product<N, I>, const N: usize, const I: usize>(
    p: &ConvHaloWgradParams,
    d: &[[f32; N]; I],
    index: u32,
    consumer: u32,
) {
    let thread = consumer * WARPGROUP + thread_idx_x() % WARPGROUP;
    if thread >= p.sum_threads() {
        return;
    }
    let to =
        (p.partials as *mut [f32; 4]).add((u64::from(index) * u64::from(p.tile_quads()) + u64::from(thread)) as usize);
    quads::<P, N, I, 0>(p, d, to);
    quads::<P, N, I, 1>(p, d, to);
    quads::<P, N, I, 2>(p, d, to);
}

/// The sums of a tap of the row: few enough that the loop is unrolled, and the sums stay in registers.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn quads<P: Product<N, I>, const N: usize, const I: usize, const TAP: usize>(
    p: &ConvHaloWgradParams,
    d: &[[f32; N]; I],
    to: *mut [f32; 4],
) {
    if TAP as u32 >= p.taps[2] {
        return;
    }
    let tap_quads = P::FORM.tile_k as usize / 8;
    let mut i = TAP * tap_quads;
    while i < (TAP + 1) * tap_quads {
        let sum = |j: usize| d.as_flattened().get_unchecked(4 * i + j).to_bits();
        let to = to.add((i as u32 * p.sum_threads()) as usize);
        cuda_std::memory::store_x4(to as *mut u32, [sum(0), sum(1), sum(2), sum(3)]);
        i += 1;
    }
}

/// A tile's tap, row and column that a thread's quad begins with: it has two neighbouring columns of the row and of the
/// eighth behind it.
#[inline(always)]
fn element(p: &ConvHaloWgradParams, place: TilePlace, thread: u32, quad: u32) -> (u32, u32, u32) {
    let (row_threads, tap_quads) = (2 * p.form.tile_c, p.form.tile_k / 8);
    let (row, thread) = div_rem(thread, row_threads);
    let (s, column) = div_rem(quad, tap_quads);
    let tap = (place.t * p.taps[1] + p.tap_row(row)) * p.taps[2] + s;
    (tap, thread / 32 * 16 + thread % 32 / 4, column * 8 + thread % 4 * 2)
}
