//! Tensor-core convolution for Hopper that reads every tile with its halo once: see
//! [`kernel_abi::ops::conv::halo_wgmma`].
//!
//! Grid: any number of blocks, which share the tiles round-robin. Block: 384 threads. Two warps of warpgroup 0 load
//! what is read, rows of positions with the padding as zeros, and the filter; warpgroups 1 and 2 compute. The product
//! instruction takes positions from wherever a tap's shift has them begin. Shared memory: dynamic, [`HaloShared`].
//!
//! One warp loads positions into a ring of buffers and the other one the filter, tap after tap, into a ring of its own.
//! Where consumers share tiles, each computes half of the positions, of the channels or of the taps. Where the filter is
//! resident, each consumer has its own tiles, whose buffers alternate in the ring, and they multiply in turns, a buffer
//! each: left to themselves both come to multiply at the same time, and to write at the same time. All threads of a
//! loading warp compute where, so that addresses are computed once for all of them, and one queues the copies.
//!
//! The product's rows are channels that are written, its columns positions: an instruction of 64 × 256 reads 10 KB from
//! shared memory where four of 64 × 64 with the roles exchanged read 16, and reading is what limits them. For up to 16
//! channels the roles are exchanged.
//!
//! [`HaloShared`]: kernel_abi::ops::conv::halo_wgmma::HaloShared

mod entry;
mod store;
mod taps;

use super::im2col_wgmma::{CONSUMER_REGISTERS, Half, PRODUCER_REGISTERS};
use crate::math::ring::Ring;
use cuda_std::barrier::{arrive_named, fence_proxy_async_shared, sync_named};
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::{mbarrier, schedule, shared, warp};
use kernel_abi::ops::conv::halo_wgmma::{ConvHaloParams, HaloPart, HaloPlace, HaloShared, OUT_BYTES, position_bytes};
use store::{Out, Rows, each_element, store_transposed};
use taps::{Buffers, Operands, multiply_tile};

/// The product instructions of one kernel. A thread holds the `R` sums of each of `S` instructions: one with channels
/// as rows, or several with positions as rows.
trait Product<const R: usize, const S: usize> {
    /// Channels that are written in a stage of the filter.
    const CHANNELS: u32;
    /// Channels that are read with it: 64, or 32.
    const DEPTH: u32;
    /// Positions of a tile.
    const TILE: u32;
    /// Those that one consumer computes.
    const POSITIONS: u32;
    /// Whether each consumer computes every other tap of a tile.
    const SHARES_TAPS: bool;
    /// Whether the filter is resident, and each consumer has tiles of its own.
    const RESIDENT: bool;
    const FILTER_IS_MN_MAJOR: bool;

    /// Queues the products of one tap and [`Product::DEPTH`] channels that are read. `accumulate` is 0 to overwrite `d`, else 1. All
    /// but one of the groups queued before are done afterwards.
    ///
    /// # Safety
    /// All threads of the warpgroup call it with descriptors of loaded tiles; `d` is not touched until [`finish`].
    ///
    /// [`finish`]: Product::finish
    unsafe fn multiply(d: &mut [[f32; R]; S], positions: u64, filter: u64, accumulate: u32);

    /// Waits for all queued products.
    ///
    /// # Safety
    /// All threads of the warpgroup call it.
    unsafe fn finish(d: &mut [[f32; R]; S]);
}

/// Rows of one product instruction.
const SUBTILE: u32 = 64;
/// Columns of a swizzled row.
const PANEL: u32 = 64;
/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;
/// Warps of a warpgroup.
const WARPS: u32 = 4;
/// Warpgroups that compute.
const CONSUMERS: u32 = 2;
/// The period of the swizzle.
const SWIZZLE_PERIOD: u32 = 1024;

/// The rings of one block: of what is read, and of the filter.
#[inline(always)]
fn rings(layout: HaloShared, base: u32) -> (Ring, Ring) {
    let barriers = base + layout.barriers_at();
    let halo = Ring::new(base, layout.buffer_bytes, layout.buffers, barriers);
    let filter = Ring::new(base + layout.ring_at(), layout.stage_bytes, layout.stages, barriers + 16 * layout.buffers);
    (halo, filter)
}

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches `THREADS` threads with `p.shared.bytes()` bytes of
/// shared memory.
#[inline(always)]
unsafe fn run<P: Product<R, S>, E: Half, const R: usize, const S: usize>(p: &ConvHaloParams, maps: [MapAddress; 2]) {
    schedule::launch_dependents();
    let base = shared::dynamic_address().next_multiple_of(SWIZZLE_PERIOD);
    let (halo, filter) = rings(p.shared, base);
    if thread_idx_x() == 0 {
        tma::prefetch_map(maps[0]);
        tma::prefetch_map(maps[1]);
        halo.init(1, if P::RESIDENT { WARPS } else { WARPS * CONSUMERS });
        filter.init(1, if P::SHARES_TAPS { WARPS } else { WARPS * CONSUMERS });
        if P::RESIDENT {
            let mut second = 0;
            while second < p.shared.buffers {
                mbarrier::init(halo.full() + p.shared.to_second_full() + 16 * second, 1);
                second += 1;
            }
        }
        mbarrier::fence_init();
    }
    // Nothing is ever loaded there.
    let bytes = position_bytes(P::DEPTH);
    let mut buffer = 0;
    while buffer < p.shared.buffers {
        let behind = base + buffer * p.shared.buffer_bytes + p.rows * p.pitch.divisor * bytes;
        let mut zero = thread_idx_x();
        while zero < p.tail * (bytes / 16) {
            shared::store_x4(behind + 16 * zero, [0; 4]);
            zero += 3 * WARPGROUP;
        }
        buffer += 1;
    }
    fence_proxy_async_shared();
    sync_threads();
    schedule::wait_for_predecessors();
    let warpgroup = warp::uniform(thread_idx_x() / WARPGROUP);
    let warp = warp::uniform(thread_idx_x() / 32);
    if warpgroup > 0 {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        consume::<P, E, R, S>(p, base, halo, filter, warpgroup - 1);
    } else {
        schedule::release_registers::<PRODUCER_REGISTERS>();
        if warp == 0 {
            load_positions::<P, R, S>(p, maps[0], halo);
        } else if warp == 1 {
            if P::RESIDENT && warp::elect() {
                mbarrier::arrive_expect_bytes(filter.full(), p.shared.stages * p.shared.stage_bytes);
            }
            load_filter::<P, R, S>(p, maps[1], filter);
        }
    }
}

/// The tiles of a consumer, or of a block.
struct Tiles {
    index: u32,
    step: u32,
    /// The group whose tiles they are, where the filter is resident.
    group: u32,
}

impl Tiles {
    /// Where the filter is resident, the number of blocks is a multiple of that of groups.
    #[inline(always)]
    fn new<P: Product<R, S>, const R: usize, const S: usize>(p: &ConvHaloParams, consumer: u32) -> Self {
        if P::RESIDENT {
            let (share, group) = p.groups.div_rem(block_idx_x());
            let (shares, _) = p.groups.div_rem(grid_dim_x());
            // The assembler takes a quotient for one that differs between threads, and with it the loop over tiles, whose
            // addresses are then computed by every thread.
            let index = warp::uniform_register(share * CONSUMERS + consumer);
            Tiles { index, step: warp::uniform_register(shares * CONSUMERS), group: warp::uniform_register(group) }
        } else {
            Tiles { index: block_idx_x(), step: grid_dim_x(), group: 0 }
        }
    }

    #[inline(always)]
    fn next<P: Product<R, S>, const R: usize, const S: usize>(&mut self, p: &ConvHaloParams) -> Option<HaloPlace> {
        let (tile, group) = if P::RESIDENT { (self.index, self.group) } else { p.groups.div_rem(self.index) };
        if tile >= p.n_tiles {
            return None;
        }
        self.index += self.step;
        Some(p.place(P::TILE, P::CHANNELS, tile, group))
    }
}

/// Loads positions for tile after tile: for every plane that a tap reads, every panel of channels and every part, one
/// buffer. Where each consumer has tiles of its own, a tile of each, buffer by buffer in turns.
///
/// # Safety
/// As [`run`]; all threads of one warp.
#[inline(always)]
unsafe fn load_positions<P: Product<R, S>, const R: usize, const S: usize>(
    p: &ConvHaloParams,
    map: MapAddress,
    mut halo: Ring,
) {
    let bytes = p.rows * p.pitch.divisor * position_bytes(P::DEPTH);
    let mut tiles = Tiles::new::<P, R, S>(p, 0);
    let mut seconds = Tiles::new::<P, R, S>(p, 1);
    while let Some(place) = tiles.next::<P, R, S>(p) {
        let second = if P::RESIDENT { seconds.next::<P, R, S>(p) } else { None };
        let mut tap = 0;
        while tap < p.taps[0] {
            let mut panel = 0;
            while panel < p.panels {
                let mut part = HaloPart::FIRST;
                loop {
                    let first = [panel * P::DEPTH, tap, part.h, part.w];
                    load_buffer(p, map, halo, halo.full(), Some(place), first, bytes);
                    halo.advance();
                    if P::RESIDENT {
                        let full = halo.full() + p.shared.to_second_full();
                        load_buffer(p, map, halo, full, second, first, bytes);
                        halo.advance();
                    }
                    part = part.next(p);
                    if part == HaloPart::FIRST {
                        break;
                    }
                }
                panel += 1;
            }
            tap += 1;
        }
    }
}

/// Loads what a part of a tile reads from a channel on, by its first taps, and has it count at the barrier `full`;
/// nothing for the consumer that has no tile left.
///
/// # Safety
/// As [`load_positions`].
#[inline(always)]
unsafe fn load_buffer(
    p: &ConvHaloParams,
    map: MapAddress,
    halo: Ring,
    full: u32,
    place: Option<HaloPlace>,
    [first_channel, taps @ ..]: [u32; 4],
    bytes: u32,
) {
    mbarrier::wait(halo.empty(), halo.parity ^ 1);
    let leads = warp::elect();
    if let Some(place) = place {
        let (first_row, _) = p.pitch.div_rem(place.m);
        let first = [place.plane, first_row, place.strip];
        let at = |axis: usize| (first[axis] * p.step[axis] + taps[axis] * p.tap_offset[axis]) as i32 + p.base[axis];
        let channel = (place.group * p.channels + first_channel) as i32;
        if leads {
            mbarrier::arrive_expect_bytes(full, bytes);
            tma::load_5d(halo.at(), map, full, [channel, at(2), at(1), at(0), place.image as i32]);
        }
    } else if leads {
        mbarrier::arrive(full);
    }
}

/// Loads the filter in the order in which taps are multiplied: for tile after tile, or once.
///
/// # Safety
/// As [`run`]; all threads of one warp.
#[inline(always)]
unsafe fn load_filter<P: Product<R, S>, const R: usize, const S: usize>(
    p: &ConvHaloParams,
    map: MapAddress,
    mut filter: Ring,
) {
    let resident = filter.full();
    let mut tiles = Tiles::new::<P, R, S>(p, 0);
    while let Some(place) = tiles.next::<P, R, S>(p) {
        let (n, k) = (place.n as i32, (place.group * p.group_k) as i32);
        let mut t = 0;
        while t < p.taps[0] {
            let mut panel = 0;
            while panel < p.panels {
                let c = (panel * P::DEPTH) as i32;
                let mut part = HaloPart::FIRST;
                loop {
                    let tap_of = |axis: usize, tap: u32| tap as i32 * p.tap_step[axis];
                    let mut first_of_row = p.first_tap + tap_of(0, t) + tap_of(1, part.h) + tap_of(2, part.w);
                    let [rows, columns] = part.taps(p);
                    let mut r = 0;
                    while r < rows {
                        let (mut tap, mut s) = (first_of_row, 0);
                        while s < columns {
                            let bar = if P::RESIDENT { resident } else { filter.full() };
                            if !P::RESIDENT {
                                mbarrier::wait(filter.empty(), filter.parity ^ 1);
                            }
                            if warp::elect() {
                                if !P::RESIDENT {
                                    mbarrier::arrive_expect_bytes(bar, p.shared.stage_bytes);
                                }
                                if P::FILTER_IS_MN_MAJOR {
                                    let mut column = 0;
                                    while column < P::CHANNELS {
                                        // A panel of columns holds all rows of the sum.
                                        let to = filter.at() + column * position_bytes(P::DEPTH);
                                        tma::load_3d(to, map, bar, [n + column as i32, tap, k + c]);
                                        column += PANEL;
                                    }
                                } else {
                                    tma::load_3d(filter.at(), map, bar, [c, tap, k + n]);
                                }
                            }
                            filter.advance();
                            tap += tap_of(2, p.parts[1]);
                            s += 1;
                        }
                        first_of_row += tap_of(1, p.parts[0]);
                        r += 1;
                    }
                    part = part.next(p);
                    if part == HaloPart::FIRST {
                        break;
                    }
                }
                panel += 1;
            }
            t += 1;
        }
        if P::RESIDENT || p.filter_stays() {
            return;
        }
    }
}

/// The named barriers at which sums of taps change hands, behind those of the consumers' own.
const SUMS_MAY_COME: u32 = 3;
const SUMS_ARE_THERE: u32 = 4;
/// Where the first consumer waits for its turn, if they take turns; the second waits at the next.
const TURN: u32 = 5;

/// Computes tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<P: Product<R, S>, E: Half, const R: usize, const S: usize>(
    p: &ConvHaloParams,
    base: u32,
    halo: Ring,
    mut filter: Ring,
    consumer: u32,
) {
    let lane = thread_idx_x() % 32;
    let thread = thread_idx_x() % WARPGROUP;
    let out = base + p.shared.out_at() + consumer * OUT_BYTES;
    // This consumer's part of a tile that both share.
    let own = if P::POSITIONS < P::TILE { consumer * P::POSITIONS } else { 0 };
    let own_channel = if P::CHANNELS > PANEL { consumer * PANEL } else { 0 };
    let operands = Operands::new::<P, R, S>(base, filter.at(), own_channel);
    let mut halo = Buffers::new::<P, R, S>(p, halo, consumer);
    if P::RESIDENT {
        if consumer > 0 {
            // The first consumer begins.
            arrive_named(TURN, CONSUMERS * WARPGROUP);
        }
        mbarrier::wait(filter.full(), 0);
    }
    let first_stage = filter;
    let mut tiles = Tiles::new::<P, R, S>(p, consumer);
    while let Some(place) = tiles.next::<P, R, S>(p) {
        let (first_row, first) = p.pitch.div_rem(place.m);
        let mut d: [[f32; R]; S] = core::mem::zeroed();
        let first_position = warp::uniform_register((first + own) * position_bytes(P::DEPTH));
        multiply_tile::<P, R, S>(p, &mut d, operands, first_position, &mut halo, &mut filter, consumer);
        if P::RESIDENT || p.filter_stays() {
            filter = first_stage;
        }
        if P::SHARES_TAPS {
            let at = base + p.shared.out_at() + 4 * thread;
            let sums = d.get_unchecked_mut(0);
            sync_named(SUMS_MAY_COME, CONSUMERS * WARPGROUP);
            let mut i = 0;
            if consumer > 0 {
                while i < R {
                    shared::store_u32(at + i as u32 * (4 * WARPGROUP), sums.get_unchecked(i).to_bits());
                    i += 1;
                }
                sync_named(SUMS_ARE_THERE, CONSUMERS * WARPGROUP);
                continue;
            }
            sync_named(SUMS_ARE_THERE, CONSUMERS * WARPGROUP);
            while i < R {
                *sums.get_unchecked_mut(i) += f32::from_bits(shared::load_u32(at + i as u32 * (4 * WARPGROUP)));
                i += 1;
            }
        }
        let rows = Rows { place, first_row, first: first + own };
        if S == 1 {
            let out = Out { at: out, barrier: 1 + consumer, warp: thread / 32, column: place.n + own_channel };
            store_transposed::<E, R>(p, d.get_unchecked(0), &rows, &out, P::CHANNELS == PANEL);
        } else {
            let rows = rows.behind(thread / 32 * 16);
            each_element::<E, R>(p, d.get_unchecked(0), &rows);
            each_element::<E, R>(p, d.get_unchecked(1), &rows.behind(SUBTILE));
            if S == 4 {
                each_element::<E, R>(p, d.get_unchecked(S - 2), &rows.behind(2 * SUBTILE));
                each_element::<E, R>(p, d.get_unchecked(S - 1), &rows.behind(3 * SUBTILE));
            }
        }
    }
    if P::RESIDENT && consumer > 0 && tiles.index == p.n_tiles {
        // The first consumer has a tile that this one has no neighbour of: its buffers come in turns with none.
        let mut buffers = p.taps[0] * p.panels * p.parts[0] * p.parts[1];
        while buffers > 0 {
            halo.wait::<P, R, S>();
            sync_named(TURN + consumer, CONSUMERS * WARPGROUP);
            arrive_named(TURN + 1 - consumer, CONSUMERS * WARPGROUP);
            if lane == 0 {
                mbarrier::arrive(halo.ring.empty());
            }
            halo.advance::<P, R, S>();
            buffers -= 1;
        }
    }
}
