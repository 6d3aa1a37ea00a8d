//! Tensor-core convolution for Hopper that reads every tile with its halo once: see
//! [`kernel_abi::ops::conv::halo_wgmma`].
//!
//! Grid: any number of blocks, which share the tiles round-robin. Block: 384 threads. Two threads of warpgroup 0 load
//! what is read, rows of positions with the padding as zeros, and the filter; warpgroups 1 and 2 compute. The product
//! instruction takes its rows from wherever a tap's shift has them begin. Shared memory: dynamic, [`HaloShared`].
//!
//! Where consumers share tiles, each computes 128 rows, one thread loads positions into two buffers and the other one
//! the filter, tap after tap, into a ring. Where the filter is resident, each consumer has its own tiles, buffer and
//! loading thread.
//!
//! [`HaloShared`]: kernel_abi::ops::conv::halo_wgmma::HaloShared

use super::im2col_wgmma::{Bf16, F16, Half};
use cuda_std::barrier::fence_proxy_async_shared;
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::warp::sync_warp;
use cuda_std::wgmma::{Swizzle, descriptor, wgmma, wgmma_wait};
use cuda_std::{kernel, ldmatrix, mbarrier, memory, param_tensor_map, schedule, shared, warp};
use kernel_abi::ops::conv::halo_wgmma::{
    BUFFERS, ConvHaloParams, HaloPlace, HaloShared, POSITION_BYTES, TILE_M, WARP_OUT_BYTES,
};

/// The product instructions of one kernel. A thread holds the `R` sums of each of `S` instructions along the rows.
trait Product<const R: usize, const S: usize> {
    const GEMM_N: u32;
    const B_IS_MN_MAJOR: bool;
    /// Whether the filter is resident, and each consumer has tiles of its own.
    const RESIDENT: bool = S == 4;

    /// Queues the products of one tap and 64 channels. `accumulate` is 0 to overwrite `d`, else 1. All but one of the
    /// groups queued before are done afterwards.
    ///
    /// # Safety
    /// All threads of the warpgroup call it with descriptors of loaded tiles; `d` is not touched until [`finish`].
    ///
    /// [`finish`]: Product::finish
    unsafe fn multiply(d: &mut [[f32; R]; S], a: u64, b: u64, accumulate: u32);

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
        let place = p.place(P::GEMM_N, self.index);
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
                        if P::B_IS_MN_MAJOR {
                            let mut column = 0;
                            while column < P::GEMM_N {
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
    let out = base + p.shared.out_at() + (consumer * WARPS + thread / 32) * WARP_OUT_BYTES;
    let taps = p.taps[1] * p.taps[2];
    let n_products = p.taps[0] * p.panels * taps;
    let next_row = (p.tap_offset[1] * p.pitch.divisor - p.taps[2] * p.tap_offset[2]) * POSITION_BYTES;
    let next_tap = p.tap_offset[2] * POSITION_BYTES;
    let own = if P::RESIDENT { 0 } else { consumer * (TILE_M / 2) };
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
            let a = descriptor(at, 16, SWIZZLE_PERIOD, Swizzle::B128);
            let b = if P::B_IS_MN_MAJOR {
                descriptor(filter.at(), PANEL * PANEL * 2, SWIZZLE_PERIOD, Swizzle::B128)
            } else {
                descriptor(filter.at(), 16, SWIZZLE_PERIOD, Swizzle::B128)
            };
            P::multiply(&mut d, a, b, u32::from(product > 0));
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
        let rows = Rows { place, first_row, first: first + own + thread / 32 * 16 };
        let of = |i: u32| Rows { first: rows.first + i * SUBTILE, ..rows };
        store::<P, E, R, S>(p, d.get_unchecked(0), &of(0), out);
        store::<P, E, R, S>(p, d.get_unchecked(1), &of(1), out);
        if S == 4 {
            store::<P, E, R, S>(p, d.get_unchecked(S - 2), &of(2), out);
            store::<P, E, R, S>(p, d.get_unchecked(S - 1), &of(3), out);
        }
    }
}

/// The rows of one warp in one instruction: 16 positions from `first` on, counted from the begin of `first_row`.
#[derive(Clone, Copy)]
struct Rows {
    place: HaloPlace,
    first_row: u32,
    first: u32,
}

impl Rows {
    /// Row and column of the output that row `i` is, unless it is computed for nothing.
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

/// Scales the sums of 16 rows and sends them out.
///
/// # Safety
/// As [`consume`]; `out` is this warp's alone.
#[inline(always)]
unsafe fn store<P: Product<R, S>, E: Half, const R: usize, const S: usize>(
    p: &ConvHaloParams,
    d: &[f32; R],
    rows: &Rows,
    out: u32,
) {
    if p.stores_whole == 0 || p.beta != 0.0 {
        each_element::<E, R, 0>(p, d, rows);
        if R > 32 {
            each_element::<E, R, 1>(p, d, rows);
        }
        return;
    }
    let lane = thread_idx_x() % 32;
    let plane = p.out as i64 + 2 * rows.plane_offset(p);
    // Eight lanes write a row; four rows at a time.
    let address = |i: u32| {
        let (inside, h, w) = rows.position(p, 4 * i + lane / 8);
        let at = plane + 2 * (i64::from(h) * p.strides[2] + i64::from(w) * p.strides[3]);
        if inside { at as u64 } else { 0 }
    };
    let to = [address(0), address(1), address(2), address(3)];
    panel::<E, R, 0>(p, d, out, &to, rows.place.n);
    if R > 32 {
        panel::<E, R, 1>(p, d, out, &to, rows.place.n);
    }
}

/// Panel `N` of 64 columns, through shared memory so that neighbouring lanes write neighbours.
///
/// # Safety
/// As [`store`].
#[inline(always)]
unsafe fn panel<E: Half, const R: usize, const N: usize>(
    p: &ConvHaloParams,
    d: &[f32; R],
    out: u32,
    to: &[u64; 4],
    first_column: u32,
) {
    let lane = thread_idx_x() % 32;
    // Nobody reads the panel before any more.
    sync_warp();
    chunk::<E, R, N, 0>(p, d, out, lane);
    if R > 8 {
        chunk::<E, R, N, 1>(p, d, out, lane);
        chunk::<E, R, N, 2>(p, d, out, lane);
        chunk::<E, R, N, 3>(p, d, out, lane);
    }
    sync_warp();
    let own = lane % 8;
    let column = first_column + N as u32 * PANEL + own * 8;
    let mine = own * 8 < 2 * R as u32 && column < p.gemm_n;
    let mut i = 0;
    while i < 4 {
        let row = 4 * i as u32 + lane / 8;
        let to = *to.get_unchecked(i);
        if mine && to != 0 {
            let v = shared::load_x4(out + row * 128 + ((own ^ (row % 8)) * 16));
            memory::store_x4((to + 2 * u64::from(column)) as *mut u32, v);
        }
        i += 1;
    }
}

/// Columns `16 J` to `16 J + 15` of panel `N`: eight sums a thread.
///
/// # Safety
/// As [`store`].
#[inline(always)]
unsafe fn chunk<E: Half, const R: usize, const N: usize, const J: usize>(
    p: &ConvHaloParams,
    d: &[f32; R],
    out: u32,
    lane: u32,
) {
    let at = 8 * (4 * N + J);
    let v = |i: usize| p.alpha * *d.get_unchecked(at + i);
    let packed = [E::pack(v(0), v(1)), E::pack(v(2), v(3)), E::pack(v(4), v(5)), E::pack(v(6), v(7))];
    let (row, half) = (lane % 16, lane / 16);
    ldmatrix::store_x4(out + row * 128 + (((2 * J as u32 + half) ^ (row % 8)) * 16), packed);
}

/// Writes the columns of panel `N` element by element, which may be positions and channels.
///
/// # Safety
/// As [`store`].
#[inline(always)]
unsafe fn each_element<E: Half, const R: usize, const N: usize>(p: &ConvHaloParams, d: &[f32; R], rows: &Rows) {
    let lane = thread_idx_x() % 32;
    let plane = (p.out as *mut u16).offset(rows.plane_offset(p) as isize);
    let upper = rows.position(p, lane / 4);
    let lower = rows.position(p, lane / 4 + 8);
    let count = if R < 32 { R } else { 32 };
    let mut i = 0;
    while i < count {
        let column = N as u32 * PANEL + (i as u32 / 4) * 8 + lane % 4 * 2 + i as u32 % 2;
        let column = rows.place.n + column;
        let (inside, row_h, row_w) = if i / 2 % 2 == 0 { upper } else { lower };
        let (rest, c) = p.spread[2].div_rem(column);
        let (a, b) = p.spread[1].div_rem(rest);
        let (h, w) = (row_h * p.spread[0].divisor + a, row_w * p.spread[1].divisor + b);
        if inside && column < p.gemm_n && h < p.spread_extents[0] && w < p.spread_extents[1] {
            let offset = i64::from(h) * p.strides[2] + i64::from(w) * p.strides[3] + i64::from(c) * p.strides[4];
            let to = plane.offset(offset as isize);
            let mut sum = p.alpha * *d.get_unchecked(32 * N + i);
            if p.beta != 0.0 {
                sum += p.beta * E::unpack(*to);
            }
            *to = E::pack(sum, 0.0) as u16;
        }
        i += 1;
    }
}

macro_rules! entries {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $n:tt, $kind:ident)),* $(,)?) => { $(
        /// # Safety
        /// The host passes maps and extents of live tensors in `params`.
        #[kernel(arch = "sm_90a", threads = 384, min_blocks = 1, tensor_maps = 2)]
        pub unsafe fn $symbol(params: ConvHaloParams) {
            struct This;
            product!(@$pass This, $dtype, $n, $kind);
            let maps = [param_tensor_map!($symbol, 0), param_tensor_map!($symbol, 1)];
            run::<This, element!($dtype), { $n / 2 }, { subtiles!($kind) }>(&params, maps)
        }
    )* };
}

macro_rules! subtiles {
    (shared) => {
        2
    };
    (resident) => {
        4
    };
}

macro_rules! element {
    (bf16) => {
        Bf16
    };
    (f16) => {
        F16
    };
}

/// Implements [`Product`]: the instruction's shape, orientation and steps must be literals.
macro_rules! product {
    (@fprop $this:ident, $dtype:ident, 16, $kind:ident) => { product!(@$kind $this, $dtype, 16, 8, 0, 2); };
    (@fprop $this:ident, $dtype:ident, 64, $kind:ident) => { product!(@$kind $this, $dtype, 64, 32, 0, 2); };
    (@fprop $this:ident, $dtype:ident, 128, $kind:ident) => { product!(@$kind $this, $dtype, 128, 64, 0, 2); };
    (@dgrad $this:ident, $dtype:ident, 64, $kind:ident) => { product!(@$kind $this, $dtype, 64, 32, 1, 128); };
    (@dgrad $this:ident, $dtype:ident, 128, $kind:ident) => { product!(@$kind $this, $dtype, 128, 64, 1, 128); };
    (@shared $($row:tt),*) => { product!(@implement 2, [0], 1, $($row),*); };
    (@resident $($row:tt),*) => { product!(@implement 4, [0 1 2], 3, $($row),*); };
    (@implement $subtiles:tt, [$($i:tt)*], $last:tt, $this:ident, $dtype:ident, $n:tt, $registers:tt,
        $b_mn:tt, $b_step:tt) => {
        impl Product<$registers, $subtiles> for $this {
            const GEMM_N: u32 = $n;
            const B_IS_MN_MAJOR: bool = $b_mn == 1;

            #[inline(always)]
            unsafe fn multiply(d: &mut [[f32; $registers]; $subtiles], a: u64, b: u64, accumulate: u32) {
                let of = |i: u32| a + u64::from(i * (SUBTILE * POSITION_BYTES / 16));
                $(
                    wgmma!(types = $dtype, n = $n, steps = 4, d = &mut d[$i], a = of($i), a_step = 2, b = b,
                        b_step = $b_step, transpose_b = $b_mn, accumulate = accumulate, commit = 0);
                )*
                wgmma!(types = $dtype, n = $n, steps = 4, d = &mut d[$last], a = of($last), a_step = 2, b = b,
                    b_step = $b_step, transpose_b = $b_mn, accumulate = accumulate);
                $( wgmma_wait!(d = &mut d[$i], registers = $registers, pending = 1); )*
                wgmma_wait!(d = &mut d[$last], registers = $registers, pending = 1);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [[f32; $registers]; $subtiles]) {
                $( wgmma_wait!(d = &mut d[$i], registers = $registers, pending = 0); )*
                wgmma_wait!(d = &mut d[$last], registers = $registers, pending = 0);
            }
        }
    };
}

kernel_abi::conv_halo_kernels!(entries);
