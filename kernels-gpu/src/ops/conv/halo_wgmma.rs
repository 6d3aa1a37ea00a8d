//! Tensor-core convolution for Hopper that reads every tile with its halo once: see
//! [`kernel_abi::ops::conv::halo_wgmma`].
//!
//! Grid: any number of blocks, which share the tiles round-robin. Block: 384 threads. Two threads of warpgroup 0 load
//! what is read, rows of positions with the padding as zeros, and the filter; warpgroups 1 and 2 compute. The product
//! instruction takes positions from wherever a tap's shift has them begin. Shared memory: dynamic, [`HaloShared`].
//!
//! Where consumers share tiles, each computes half of the positions or of the channels, one thread loads positions into
//! two buffers and the other one the filter, tap after tap, into a ring. Where the filter is resident, each consumer has
//! its own tiles, buffer and loading thread.
//!
//! The product's rows are channels that are written, its columns positions: an instruction of 64 × 256 reads 10 KB from
//! shared memory where four of 64 × 64 with the roles exchanged read 16, and reading is what limits them. For up to 16
//! channels the roles are exchanged.
//!
//! [`HaloShared`]: kernel_abi::ops::conv::halo_wgmma::HaloShared

use super::im2col_wgmma::{Bf16, F16, Half};
use cuda_std::barrier::{fence_proxy_async_shared, sync_named};
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::wgmma::{Swizzle, descriptor, wgmma, wgmma_wait};
use cuda_std::{kernel, ldmatrix, mbarrier, memory, param_tensor_map, schedule, shared, warp};
use kernel_abi::ops::conv::halo_wgmma::{
    BUFFERS, ConvHaloParams, HaloPlace, HaloShared, OUT_BYTES, POSITION_BYTES, TILE_M,
};

/// The product instructions of one kernel. A thread holds the `R` sums of each of `S` instructions: one with channels
/// as rows, or several with positions as rows.
trait Product<const R: usize, const S: usize> {
    /// Channels that are written in a stage of the filter.
    const CHANNELS: u32;
    /// Positions of a tile that one consumer computes.
    const POSITIONS: u32;
    /// Whether the filter is resident, and each consumer has tiles of its own.
    const RESIDENT: bool;
    const FILTER_IS_MN_MAJOR: bool;

    /// Queues the products of one tap and 64 channels that are read. `accumulate` is 0 to overwrite `d`, else 1. All
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
    while zero < p.tail * (POSITION_BYTES / 16) * BUFFERS {
        let of_buffer = p.tail * (POSITION_BYTES / 16);
        let (buffer, chunk) = if zero < of_buffer { (0, zero) } else { (1, zero - of_buffer) };
        let behind = p.rows * p.pitch.divisor * POSITION_BYTES + 16 * chunk;
        shared::store_x4(base + buffer * p.shared.buffer_bytes + behind, [0; 4]);
        zero += 3 * WARPGROUP;
    }
    fence_proxy_async_shared();
    sync_threads();
    schedule::wait_for_predecessors();
    let warpgroup = warp::uniform(thread_idx_x() / WARPGROUP);
    if warpgroup > 0 {
        consume::<P, E, R, S>(p, base, halo, filter, warpgroup - 1);
    } else if P::RESIDENT {
        if thread_idx_x() == 0 {
            mbarrier::arrive_expect_bytes(filter.full(), p.shared.stages * p.shared.stage_bytes);
            load_filter::<P, R, S>(p, maps[1], filter);
        }
        let consumer = thread_idx_x() / 32;
        if thread_idx_x() % 32 == 0 && consumer < CONSUMERS {
            load_positions::<P, R, S>(p, maps[0], halo.part(consumer), Tiles::new::<P, R, S>(consumer));
        }
    } else if thread_idx_x() == 0 {
        load_positions::<P, R, S>(p, maps[0], halo, Tiles::new::<P, R, S>(0));
    } else if thread_idx_x() == 32 {
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
/// As [`run`]; one thread.
#[inline(always)]
unsafe fn load_positions<P: Product<R, S>, const R: usize, const S: usize>(
    p: &ConvHaloParams,
    map: MapAddress,
    mut halo: Ring,
    mut tiles: Tiles,
) {
    let bytes = p.rows * p.pitch.divisor * POSITION_BYTES;
    while let Some(place) = tiles.next::<P, R, S>(p) {
        let (first_row, _) = p.pitch.div_rem(place.m);
        let (w, h) = (place.strip as i32 + p.base[2], first_row as i32 + p.base[1]);
        let mut tap = 0;
        while tap < p.taps[0] {
            let d = place.plane as i32 + p.base[0] + (tap * p.tap_offset[0]) as i32;
            let mut panel = 0;
            while panel < p.panels {
                mbarrier::wait(halo.empty(), halo.parity ^ 1);
                mbarrier::arrive_expect_bytes(halo.full(), bytes);
                tma::load_5d(halo.at(), map, halo.full(), [(panel * PANEL) as i32, w, h, d, place.image as i32]);
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
/// As [`run`]; one thread.
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
                let c = (panel * PANEL) as i32;
                let mut tap = p.first_tap + t as i32 * p.tap_step[0];
                let mut r = 0;
                while r < p.taps[1] {
                    let mut s = 0;
                    while s < p.taps[2] {
                        let bar = if P::RESIDENT { resident } else { filter.full() };
                        if !P::RESIDENT {
                            mbarrier::wait(filter.empty(), filter.parity ^ 1);
                            mbarrier::arrive_expect_bytes(bar, p.shared.stage_bytes);
                        }
                        if P::FILTER_IS_MN_MAJOR {
                            let mut column = 0;
                            while column < P::CHANNELS {
                                // A panel of columns holds all 64 rows of the sum.
                                let to = filter.at() + column * (PANEL * 2);
                                tma::load_3d(to, map, bar, [n + column as i32, tap, c]);
                                column += PANEL;
                            }
                        } else {
                            tma::load_3d(filter.at(), map, bar, [c, tap, n]);
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
    let next_row = (p.tap_offset[1] * p.pitch.divisor - p.taps[2] * p.tap_offset[2]) * POSITION_BYTES;
    let next_tap = p.tap_offset[2] * POSITION_BYTES;
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
        let first_position = (first + own) * POSITION_BYTES;
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
            let positions = descriptor(at, 16, SWIZZLE_PERIOD, Swizzle::B128);
            // 64 channels are 64 rows of a swizzled tile, or a panel.
            let channels = filter.at() + own_channel * (PANEL * 2);
            let filter_tile = descriptor(channels, 16, SWIZZLE_PERIOD, Swizzle::B128);
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

/// Positions from `first` on, counted from the begin of `first_row`.
#[derive(Clone, Copy)]
struct Rows {
    place: HaloPlace,
    first_row: u32,
    first: u32,
}

impl Rows {
    #[inline(always)]
    fn behind(&self, count: u32) -> Rows {
        Rows { first: self.first + count, ..*self }
    }

    /// Row and column of the output that position `i` is, unless it is computed for nothing.
    #[inline(always)]
    fn position(&self, p: &ConvHaloParams, i: u32) -> (bool, u32, u32) {
        let (row, column) = p.pitch.div_rem(self.first + i);
        let (h, w) = (self.first_row + row, self.place.strip + column);
        (h < p.extents[1] && column < p.strip_w && w < p.extents[2], h, w)
    }

    /// Distance of the first element of the image's plane.
    #[inline(always)]
    fn plane_offset(&self, p: &ConvHaloParams) -> i64 {
        i64::from(self.place.image) * p.strides[0] + i64::from(self.place.plane) * p.strides[1]
    }
}

/// Where the results of one consumer leave.
struct Out {
    /// Shared memory of its own: 64 positions of 64 channels.
    at: u32,
    /// The named barrier of its threads.
    barrier: u32,
    warp: u32,
    /// The first of its channels.
    column: u32,
}

/// Scales sums whose rows are 64 channels and sends them out, positions as rows.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn store_transposed<E: Half, const R: usize>(p: &ConvHaloParams, d: &[f32; R], rows: &Rows, out: &Out) {
    if p.stores_whole == 0 || p.beta != 0.0 {
        each_sum::<E, R, 0>(p, d, rows, out);
        each_sum::<E, R, 1>(p, d, rows, out);
        each_sum::<E, R, 2>(p, d, rows, out);
        each_sum::<E, R, 3>(p, d, rows, out);
        if R > 64 {
            each_sum::<E, R, 4>(p, d, rows, out);
            each_sum::<E, R, 5>(p, d, rows, out);
            each_sum::<E, R, 6>(p, d, rows, out);
            each_sum::<E, R, 7>(p, d, rows, out);
        }
        return;
    }
    group::<E, R, 0>(p, d, rows, out);
    group::<E, R, 1>(p, d, rows, out);
    if R > 64 {
        group::<E, R, 2>(p, d, rows, out);
        group::<E, R, 3>(p, d, rows, out);
    }
}

/// Positions `64 G` to `64 G + 63`, through shared memory so that neighbouring lanes write neighbours.
///
/// # Safety
/// As [`store_transposed`].
#[inline(always)]
unsafe fn group<E: Half, const R: usize, const G: usize>(p: &ConvHaloParams, d: &[f32; R], rows: &Rows, out: &Out) {
    let lane = thread_idx_x() % 32;
    // Nobody reads the group before any more.
    sync_named(out.barrier, WARPGROUP);
    chunk::<E, R, G, 0>(p, d, out, lane);
    chunk::<E, R, G, 1>(p, d, out, lane);
    chunk::<E, R, G, 2>(p, d, out, lane);
    chunk::<E, R, G, 3>(p, d, out, lane);
    sync_named(out.barrier, WARPGROUP);
    // Eight lanes write a position; each warp 16 of them.
    let own = lane % 8;
    let column = out.column + own * 8;
    if column < p.gemm_n {
        let plane = p.out as i64 + 2 * (rows.plane_offset(p) + i64::from(column));
        let mut i = 0;
        while i < 4 {
            let row = out.warp * 16 + 4 * i + lane / 8;
            let (inside, h, w) = rows.position(p, G as u32 * SUBTILE + row);
            if inside {
                let v = shared::load_x4(out.at + row * 128 + ((own ^ (row % 8)) * 16));
                let to = plane + 2 * (i64::from(h) * p.strides[2] + i64::from(w) * p.strides[3]);
                memory::store_x4(to as *mut u32, v);
            }
            i += 1;
        }
    }
}

/// Positions `16 J` to `16 J + 15` of group `G`: eight sums a thread, of this warp's 16 channels.
///
/// # Safety
/// As [`store_transposed`].
#[inline(always)]
unsafe fn chunk<E: Half, const R: usize, const G: usize, const J: usize>(
    p: &ConvHaloParams,
    d: &[f32; R],
    out: &Out,
    lane: u32,
) {
    let at = 8 * (4 * G + J);
    let v = |i: usize| p.alpha * *d.get_unchecked(at + i);
    // Matrices of 8 positions and 8 channels: channels first.
    let packed = [E::pack(v(0), v(1)), E::pack(v(2), v(3)), E::pack(v(4), v(5)), E::pack(v(6), v(7))];
    let row = J as u32 * 16 + lane / 16 * 8 + lane % 8;
    let chunk = 2 * out.warp + lane / 8 % 2;
    ldmatrix::store_x4_transposed(out.at + row * 128 + ((chunk ^ (row % 8)) * 16), packed);
}

/// Writes positions `32 G` to `32 G + 31` element by element, which are then laid out and blended as needed.
///
/// # Safety
/// As [`store_transposed`].
#[inline(always)]
unsafe fn each_sum<E: Half, const R: usize, const G: usize>(p: &ConvHaloParams, d: &[f32; R], rows: &Rows, out: &Out) {
    let lane = thread_idx_x() % 32;
    sync_named(out.barrier, WARPGROUP);
    let mut i = 0;
    while i < 16 {
        let channel = out.warp * 16 + lane / 4 + (i as u32 / 2 % 2) * 8;
        let position = (i as u32 / 4) * 8 + lane % 4 * 2 + i as u32 % 2;
        shared::store_u32(out.at + (position * PANEL + channel) * 4, (*d.get_unchecked(16 * G + i)).to_bits());
        i += 1;
    }
    sync_named(out.barrier, WARPGROUP);
    let thread = thread_idx_x() % WARPGROUP;
    let mut position = thread / PANEL;
    while position < 32 {
        let sum = f32::from_bits(shared::load_u32(out.at + (position * PANEL + thread % PANEL) * 4));
        element::<E>(p, rows, G as u32 * 32 + position, out.column + thread % PANEL, sum);
        position += WARPGROUP / PANEL;
    }
}

/// Writes the sums of a thread whose rows are positions, one by one.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn each_element<E: Half, const R: usize>(p: &ConvHaloParams, d: &[f32; R], rows: &Rows) {
    let lane = thread_idx_x() % 32;
    let mut i = 0;
    while i < R {
        let column = (i as u32 / 4) * 8 + lane % 4 * 2 + i as u32 % 2;
        let position = lane / 4 + (i as u32 / 2 % 2) * 8;
        element::<E>(p, rows, position, rows.place.n + column, *d.get_unchecked(i));
        i += 1;
    }
}

/// Writes one sum, of the position `i` and a column, which may be a position and a channel.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn element<E: Half>(p: &ConvHaloParams, rows: &Rows, i: u32, column: u32, sum: f32) {
    let (inside, row_h, row_w) = rows.position(p, i);
    let (rest, c) = p.spread[2].div_rem(column);
    let (a, b) = p.spread[1].div_rem(rest);
    let (h, w) = (row_h * p.spread[0].divisor + a, row_w * p.spread[1].divisor + b);
    if inside && column < p.gemm_n && h < p.spread_extents[0] && w < p.spread_extents[1] {
        let offset = i64::from(h) * p.strides[2] + i64::from(w) * p.strides[3] + i64::from(c) * p.strides[4];
        let to = (p.out as *mut u16).offset((rows.plane_offset(p) + offset) as isize);
        let mut sum = p.alpha * sum;
        if p.beta != 0.0 {
            sum += p.beta * E::unpack(*to);
        }
        *to = E::pack(sum, 0.0) as u16;
    }
}

macro_rules! entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $form:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, tensor_maps = 2)]
        pub unsafe fn $symbol(params: ConvHaloParams) {
            struct This;
            product!(@$form $pass, This, $dtype);
            let maps = [param_tensor_map!($symbol, 0), param_tensor_map!($symbol, 1)];
            run::<This, element_type!($dtype), { sums!($form).0 }, { sums!($form).1 }>(&params, maps)
        }
    )* };
}

/// Sums of a thread in one instruction, and instructions.
macro_rules! sums {
    (P256_C16) => {
        (8, 2)
    };
    (P256_C16_RESIDENT) => {
        (8, 4)
    };
    (C64_P256) => {
        (64, 1)
    };
    (C64_P256_RESIDENT) => {
        (128, 1)
    };
    (C128_P256) => {
        (128, 1)
    };
}

macro_rules! element_type {
    (bf16) => {
        Bf16
    };
    (f16) => {
        F16
    };
}

/// Implements [`Product`]: the instruction's shape, orientation and steps must be literals.
///
/// Where the sum's dimension is contiguous, an instruction's step along it is 32 bytes (2 units of a descriptor), else
/// 16 rows of 128 bytes (128 units).
macro_rules! product {
    (@P256_C16 fprop, $this:ident, $dtype:ident) => {
        product!(@positions 2, [0], 1, $this, $dtype, 128, false);
    };
    (@P256_C16_RESIDENT fprop, $this:ident, $dtype:ident) => {
        product!(@positions 4, [0 1 2], 3, $this, $dtype, 256, true);
    };
    (@C64_P256 $($row:tt)*) => { product!(@of 64, 128, 64, 128, false, $($row)*); };
    (@C64_P256_RESIDENT $($row:tt)*) => { product!(@of 128, 256, 64, 256, true, $($row)*); };
    (@C128_P256 $($row:tt)*) => { product!(@of 128, 256, 128, 256, false, $($row)*); };
    (@of $r:tt, $n:tt, $channels:tt, $positions:tt, $resident:tt, fprop, $this:ident, $dtype:ident) => {
        product!(@channels $r, $n, $channels, $positions, $resident, $this, $dtype, 0, 2);
    };
    (@of $r:tt, $n:tt, $channels:tt, $positions:tt, $resident:tt, dgrad, $this:ident, $dtype:ident) => {
        product!(@channels $r, $n, $channels, $positions, $resident, $this, $dtype, 1, 128);
    };
    (@channels $r:tt, $n:tt, $channels:tt, $positions:tt, $resident:tt, $this:ident, $dtype:ident, $mn:tt, $step:tt) => {
        impl Product<$r, 1> for $this {
            const CHANNELS: u32 = $channels;
            const POSITIONS: u32 = $positions;
            const RESIDENT: bool = $resident;
            const FILTER_IS_MN_MAJOR: bool = $mn == 1;

            #[inline(always)]
            unsafe fn multiply(d: &mut [[f32; $r]; 1], positions: u64, filter: u64, accumulate: u32) {
                wgmma!(types = $dtype, n = $n, steps = 4, d = &mut d[0], a = filter, a_step = $step,
                    transpose_a = $mn, b = positions, b_step = 2, accumulate = accumulate);
                wgmma_wait!(d = &mut d[0], registers = $r, pending = 1);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [[f32; $r]; 1]) {
                wgmma_wait!(d = &mut d[0], registers = $r, pending = 0);
            }
        }
    };
    (@positions $subtiles:tt, [$($i:tt)*], $last:tt, $this:ident, $dtype:ident, $positions:tt, $resident:tt) => {
        impl Product<8, $subtiles> for $this {
            const CHANNELS: u32 = 16;
            const POSITIONS: u32 = $positions;
            const RESIDENT: bool = $resident;
            const FILTER_IS_MN_MAJOR: bool = false;

            #[inline(always)]
            unsafe fn multiply(d: &mut [[f32; 8]; $subtiles], positions: u64, filter: u64, accumulate: u32) {
                let of = |i: u32| positions + u64::from(i * (SUBTILE * POSITION_BYTES / 16));
                $(
                    wgmma!(types = $dtype, n = 16, steps = 4, d = &mut d[$i], a = of($i), a_step = 2, b = filter,
                        b_step = 2, accumulate = accumulate, commit = 0);
                )*
                wgmma!(types = $dtype, n = 16, steps = 4, d = &mut d[$last], a = of($last), a_step = 2, b = filter,
                    b_step = 2, accumulate = accumulate);
                $( wgmma_wait!(d = &mut d[$i], registers = 8, pending = 1); )*
                wgmma_wait!(d = &mut d[$last], registers = 8, pending = 1);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [[f32; 8]; $subtiles]) {
                $( wgmma_wait!(d = &mut d[$i], registers = 8, pending = 0); )*
                wgmma_wait!(d = &mut d[$last], registers = 8, pending = 0);
            }
        }
    };
}

kernel_abi::conv_halo_kernels!(entries);
