//! Tensor-core convolution for Hopper that reads every tile with its halo once: see
//! [`kernel_abi::ops::conv::halo_wgmma`].
//!
//! Grid: any number of blocks, which share the tiles round-robin. Block: 384 threads. Two warps of warpgroup 0 load
//! what is read, rows of positions with the padding as zeros, and the filter; warpgroups 1 and 2 compute. The product
//! instruction takes positions from wherever a tap's shift has them begin. Shared memory: dynamic, [`HaloShared`].
//!
//! Where consumers share tiles, each computes half of the positions or of the channels, one warp loads positions into
//! two buffers and the other one the filter, tap after tap, into a ring. Where the filter is resident, each consumer has
//! its own tiles, buffer and loading warp. All threads of such a warp compute where, so that addresses are computed once
//! for all of them, and one queues the copies.
//!
//! The product's rows are channels that are written, its columns positions: an instruction of 64 × 256 reads 10 KB from
//! shared memory where four of 64 × 64 with the roles exchanged read 16, and reading is what limits them. For up to 16
//! channels the roles are exchanged.
//!
//! [`HaloShared`]: kernel_abi::ops::conv::halo_wgmma::HaloShared

mod entry;
mod store;

use super::im2col_wgmma::Half;
use cuda_std::barrier::fence_proxy_async_shared;
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::wgmma::{Swizzle, descriptor};
use cuda_std::{mbarrier, schedule, shared, warp};
use kernel_abi::ops::conv::halo_wgmma::{
    BUFFERS, ConvHaloParams, HaloPlace, HaloShared, OUT_BYTES, TILE_M, position_bytes,
};
use store::{Out, Rows, each_element, store_transposed};

/// The product instructions of one kernel. A thread holds the `R` sums of each of `S` instructions: one with channels
/// as rows, or several with positions as rows.
trait Product<const R: usize, const S: usize> {
    /// Channels that are written in a stage of the filter.
    const CHANNELS: u32;
    /// Channels that are read with it: 64, or 32.
    const DEPTH: u32;
    /// Positions of a tile that one consumer computes.
    const POSITIONS: u32;
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

/// A ring of barriers with what they guard, and where one role stands in it.
#[derive(Clone, Copy)]
struct Ring {
    base: u32,
    bytes: u32,
    count: u32,
    barriers: u32,
    index: u32,
    parity: u32,
}

impl Ring {
    /// What is guarded now.
    #[inline(always)]
    fn at(&self) -> u32 {
        self.base + self.index * self.bytes
    }

    #[inline(always)]
    fn full(&self) -> u32 {
        self.barriers + 16 * self.index
    }

    #[inline(always)]
    fn empty(&self) -> u32 {
        self.full() + 8
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.index += 1;
        if self.index == self.count {
            self.index = 0;
            self.parity ^= 1;
        }
    }

    /// Makes the barriers ready for so many warps that read.
    ///
    /// # Safety
    /// One thread, before any uses a barrier.
    #[inline(always)]
    unsafe fn init(mut self, readers: u32) {
        while self.parity == 0 {
            mbarrier::init(self.full(), 1);
            mbarrier::init(self.empty(), readers);
            self.advance();
        }
    }

    /// The ring of one of its parts alone.
    #[inline(always)]
    fn part(self, index: u32) -> Ring {
        Ring { base: self.base + index * self.bytes, barriers: self.barriers + 16 * index, count: 1, ..self }
    }
}

/// The rings of one block: of what is read, and of the filter.
#[inline(always)]
fn rings(layout: HaloShared, base: u32) -> (Ring, Ring) {
    let barriers = base + layout.barriers_at();
    let halo = Ring { base, bytes: layout.buffer_bytes, count: BUFFERS, barriers, index: 0, parity: 0 };
    let filter = Ring {
        base: base + layout.ring_at(),
        bytes: layout.stage_bytes,
        count: layout.stages,
        barriers: barriers + 16 * BUFFERS,
        index: 0,
        parity: 0,
    };
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
        halo.init(if P::RESIDENT { WARPS } else { WARPS * CONSUMERS });
        filter.init(WARPS * CONSUMERS);
        mbarrier::fence_init();
    }
    // Nothing is ever loaded there.
    let mut zero = thread_idx_x();
    let bytes = position_bytes(P::DEPTH);
    while zero < p.tail * (bytes / 16) * BUFFERS {
        let of_buffer = p.tail * (bytes / 16);
        let (buffer, chunk) = if zero < of_buffer { (0, zero) } else { (1, zero - of_buffer) };
        let behind = p.rows * p.pitch.divisor * bytes + 16 * chunk;
        shared::store_x4(base + buffer * p.shared.buffer_bytes + behind, [0; 4]);
        zero += 3 * WARPGROUP;
    }
    fence_proxy_async_shared();
    sync_threads();
    schedule::wait_for_predecessors();
    let warpgroup = warp::uniform(thread_idx_x() / WARPGROUP);
    let warp = warp::uniform(thread_idx_x() / 32);
    if warpgroup > 0 {
        consume::<P, E, R, S>(p, base, halo, filter, warpgroup - 1);
    } else if P::RESIDENT {
        if warp == 0 {
            if warp::elect() {
                mbarrier::arrive_expect_bytes(filter.full(), p.shared.stages * p.shared.stage_bytes);
            }
            load_filter::<P, R, S>(p, maps[1], filter);
        }
        if warp < CONSUMERS {
            load_positions::<P, R, S>(p, maps[0], halo.part(warp), Tiles::new::<P, R, S>(warp));
        }
    } else if warp == 0 {
        load_positions::<P, R, S>(p, maps[0], halo, Tiles::new::<P, R, S>(0));
    } else if warp == 1 {
        load_filter::<P, R, S>(p, maps[1], filter);
    }
}

/// The tiles of a consumer, or of a block.
struct Tiles {
    index: u32,
    step: u32,
}

impl Tiles {
    #[inline(always)]
    fn new<P: Product<R, S>, const R: usize, const S: usize>(consumer: u32) -> Self {
        if P::RESIDENT {
            Tiles { index: block_idx_x() * CONSUMERS + consumer, step: grid_dim_x() * CONSUMERS }
        } else {
            Tiles { index: block_idx_x(), step: grid_dim_x() }
        }
    }

    #[inline(always)]
    fn next<P: Product<R, S>, const R: usize, const S: usize>(&mut self, p: &ConvHaloParams) -> Option<HaloPlace> {
        if self.index >= p.n_tiles {
            return None;
        }
        let place = p.place(P::CHANNELS, self.index);
        self.index += self.step;
        Some(place)
    }
}

/// Loads positions for tile after tile: for every plane that a tap reads, and every panel of channels, one buffer.
///
/// # Safety
/// As [`run`]; all threads of one warp.
#[inline(always)]
unsafe fn load_positions<P: Product<R, S>, const R: usize, const S: usize>(
    p: &ConvHaloParams,
    map: MapAddress,
    mut halo: Ring,
    mut tiles: Tiles,
) {
    let bytes = p.rows * p.pitch.divisor * position_bytes(P::DEPTH);
    while let Some(place) = tiles.next::<P, R, S>(p) {
        let (first_row, _) = p.pitch.div_rem(place.m);
        let (w, h) = (place.strip as i32 + p.base[2], first_row as i32 + p.base[1]);
        let mut tap = 0;
        while tap < p.taps[0] {
            let d = place.plane as i32 + p.base[0] + (tap * p.tap_offset[0]) as i32;
            let mut panel = 0;
            while panel < p.panels {
                mbarrier::wait(halo.empty(), halo.parity ^ 1);
                if warp::elect() {
                    let bar = halo.full();
                    mbarrier::arrive_expect_bytes(bar, bytes);
                    tma::load_5d(halo.at(), map, bar, [(panel * P::DEPTH) as i32, w, h, d, place.image as i32]);
                }
                halo.advance();
                panel += 1;
            }
            tap += 1;
        }
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
    let mut tiles = Tiles::new::<P, R, S>(0);
    while let Some(place) = tiles.next::<P, R, S>(p) {
        let n = place.n as i32;
        let mut t = 0;
        while t < p.taps[0] {
            let mut panel = 0;
            while panel < p.panels {
                let c = (panel * P::DEPTH) as i32;
                let mut tap = p.first_tap + t as i32 * p.tap_step[0];
                let mut r = 0;
                while r < p.taps[1] {
                    let mut s = 0;
                    while s < p.taps[2] {
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
                                    tma::load_3d(to, map, bar, [n + column as i32, tap, c]);
                                    column += PANEL;
                                }
                            } else {
                                tma::load_3d(filter.at(), map, bar, [c, tap, n]);
                            }
                        }
                        filter.advance();
                        tap += p.tap_step[2];
                        s += 1;
                    }
                    tap += p.tap_step[1] - p.taps[2] as i32 * p.tap_step[2];
                    r += 1;
                }
                panel += 1;
            }
            t += 1;
        }
        if P::RESIDENT {
            return;
        }
    }
}

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
    let taps = p.taps[1] * p.taps[2];
    let n_products = p.taps[0] * p.panels * taps;
    let bytes = position_bytes(P::DEPTH);
    let next_row = (p.tap_offset[1] * p.pitch.divisor - p.taps[2] * p.tap_offset[2]) * bytes;
    let next_tap = p.tap_offset[2] * bytes;
    // This consumer's part of a tile that both share.
    let own = if P::POSITIONS < TILE_M { consumer * P::POSITIONS } else { 0 };
    let own_channel = if P::CHANNELS > PANEL { consumer * PANEL } else { 0 };
    let mut halo = if P::RESIDENT { halo.part(consumer) } else { halo };
    let mut tiles = Tiles::new::<P, R, S>(consumer);
    if P::RESIDENT {
        mbarrier::wait(filter.full(), 0);
    }
    while let Some(place) = tiles.next::<P, R, S>(p) {
        let (first_row, first) = p.pitch.div_rem(place.m);
        let first_position = (first + own) * bytes;
        let mut d: [[f32; R]; S] = core::mem::zeroed();
        let (mut used_halo, mut used_filter) = (halo.empty(), filter.empty());
        let (mut tap, mut column, mut at) = (0, 0, 0);
        let mut product = 0;
        while product < n_products {
            if tap == 0 {
                if P::RESIDENT && product > 0 {
                    // There is one buffer: what is still read from it must be done before it is loaded anew.
                    P::finish(&mut d);
                    if lane == 0 {
                        mbarrier::arrive(used_halo);
                    }
                }
                mbarrier::wait(halo.full(), halo.parity);
                at = halo.at() + first_position;
            }
            if !P::RESIDENT {
                mbarrier::wait(filter.full(), filter.parity);
            }
            let swizzle = if P::DEPTH == PANEL { Swizzle::B128 } else { Swizzle::B64 };
            let positions = descriptor(at, 16, 8 * bytes, swizzle);
            // 64 channels are 64 rows of a swizzled tile, or a panel.
            let channels = filter.at() + own_channel * bytes;
            let filter_tile = if P::FILTER_IS_MN_MAJOR {
                descriptor(channels, 16, SWIZZLE_PERIOD, Swizzle::B128)
            } else {
                descriptor(channels, 16, 8 * bytes, swizzle)
            };
            P::multiply(&mut d, positions, filter_tile, u32::from(product > 0));
            // The product before is done, and with the last tap of a buffer the buffer.
            if !P::RESIDENT && product > 0 && lane == 0 {
                mbarrier::arrive(used_filter);
                if tap == 0 {
                    mbarrier::arrive(used_halo);
                }
            }
            used_filter = filter.empty();
            filter.advance();
            at += next_tap;
            column += 1;
            if column == p.taps[2] {
                column = 0;
                at += next_row;
            }
            tap += 1;
            if tap == taps {
                (tap, column) = (0, 0);
                used_halo = halo.empty();
                halo.advance();
            }
            product += 1;
        }
        P::finish(&mut d);
        if lane == 0 {
            if !P::RESIDENT {
                mbarrier::arrive(used_filter);
            }
            mbarrier::arrive(used_halo);
        }
        let rows = Rows { place, first_row, first: first + own };
        if S == 1 {
            let out = Out { at: out, barrier: 1 + consumer, warp: thread / 32, column: place.n + own_channel };
            store_transposed::<E, R>(p, d.get_unchecked(0), &rows, &out);
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
}
