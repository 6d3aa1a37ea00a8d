//! `wgrad`: see [`kernel_abi::ops::conv::im2col_wgmma`] for the product.
//!
//! Both operands lie with positions, which are summed over, in rows: dy's tile is panels of `[64 positions][64 k]`, x's
//! panels of `[64 positions][64 c]`, each for its own tap; the product reads both transposed.
//!
//! Tiles are few and sums long, so the sum is split: every part writes its sums, as its threads hold them, to the
//! workspace, and a second kernel ([`super::sum`]) adds them in their order. Deterministic.
//!
//! The blocks of a cluster compute neighbours along the rows: both need the same part of x, each loads half of it, and
//! the copy engine delivers it to both. Without that, the second-level cache limits 1x1 filters.

use super::{
    CONSUMER_REGISTERS, Half, PRODUCER_REGISTERS, Product, Ring, SWIZZLE_PERIOD, WARPGROUP, warp_of_block, warpgroup,
};
use cuda_std::thread::{block_idx_x, grid_dim_x, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::wgmma::{Swizzle, descriptor};
use cuda_std::{cluster, mbarrier, schedule, warp};
use kernel_abi::ops::conv::im2col_wgmma::{
    CONSUMERS, ConvTile, ConvWgradParams, GEMM_K, PANEL, PANEL_BYTES, SUBTILE, WgradPart, WgradPlace, WgradWork,
    access, position,
};

/// Where the tensor maps are.
pub(super) struct Maps {
    pub(super) dy: MapAddress,
    pub(super) x: MapAddress,
}

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches `THREADS` threads with `TILE.smem_bytes()` bytes of
/// shared memory.
#[inline(always)]
pub(super) unsafe fn run<P: Product<R, 1>, E: Half, const R: usize>(p: &ConvWgradParams, maps: Maps) {
    let ring = Ring::new(P::TILE);
    if thread_idx_x() == 0 {
        tma::prefetch_map(maps.dy);
        tma::prefetch_map(maps.x);
    }
    ring.start();
    let warpgroup = warpgroup();
    if warpgroup == 0 {
        schedule::release_registers::<PRODUCER_REGISTERS>();
        if warp_of_block() == 0 {
            produce::<P, R>(p, &maps, ring);
        }
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        consume::<P, E, R>(p, ring, warpgroup - 1);
    }
    if P::TILE.cluster > 1 {
        // The other block may still signal our barriers.
        cluster::sync();
    }
}

/// This block's rank in its cluster.
#[inline(always)]
fn rank(tile: ConvTile) -> u32 {
    if tile.cluster > 1 { cluster::rank() } else { 0 }
}

/// The work of this block's cluster.
#[inline(always)]
fn work(p: &ConvWgradParams, tile: ConvTile) -> WgradWork {
    p.work(block_idx_x() / tile.cluster, grid_dim_x() / tile.cluster)
}

/// The first part of what is left of it, this block's own rows, and how far it is to the next.
#[inline(always)]
fn part(p: &ConvWgradParams, tile: ConvTile, work: WgradWork) -> (WgradPart, u32) {
    let (mut part, step) = p.part(tile, work);
    part.place.m += rank(tile) * tile.gemm_m;
    part.slot = part.slot * tile.cluster + rank(tile);
    (part, step)
}

/// Where the positions of a stage lie in x.
pub(super) struct Window {
    linear: i32,
    image: i32,
    base: [i32; 3],
}

impl Window {
    /// The window of a stage whose first position is `first`.
    #[inline(always)]
    pub(super) fn new(p: &ConvWgradParams, first: u32) -> Self {
        let (n, at) = position(first, p.extents);
        let base = |axis: usize| (at[axis] * p.step[axis]) as i32 + p.base[axis];
        Window { linear: first as i32, image: n as i32, base: [base(0), base(1), base(2)] }
    }

    /// The same, computed where this stands and not where it is first needed.
    #[inline(always)]
    pub(super) fn here(self) -> Self {
        let here = |value: i32| schedule::opaque(value as u32) as i32;
        Window { linear: here(self.linear), image: here(self.image), base: self.base.map(here) }
    }
}

/// 64 channels of x at one tap. Found once a tile: the divisions take longer than a stage's products.
pub(super) struct Panel {
    channel: i32,
    offset: [u16; 3],
}

impl Panel {
    #[inline(always)]
    pub(super) fn new(p: &ConvWgradParams, group: u32, index: u32) -> Self {
        let (tap, c) = p.tap_and_channel(index, PANEL);
        let offset = |axis: usize| (tap[axis] * p.tap_offset[axis]) as u16;
        Panel { channel: (group * p.group_c + c) as i32, offset: [offset(0), offset(1), offset(2)] }
    }

    /// As [`Window::here`].
    #[inline(always)]
    pub(super) fn here(self) -> Self {
        let here = |value: u16| schedule::opaque(value.into()) as u16;
        Panel { channel: schedule::opaque(self.channel as u32) as i32, offset: self.offset.map(here) }
    }

    /// # Safety
    /// As [`produce`].
    #[inline(always)]
    pub(super) unsafe fn load(&self, p: &ConvWgradParams, map: MapAddress, to: u32, bar: u32, window: &Window) {
        let (c, [d, h, w], [od, oh, ow]) = (self.channel, window.base, self.offset);
        match p.x_access {
            access::LINEAR => tma::load_2d(to, map, bar, [c, window.linear]),
            access::IM2COL_2D => tma::load_im2col_4d(to, map, bar, [c, w, h, window.image], [ow, oh]),
            _ => tma::load_im2col_5d(to, map, bar, [c, w, h, d, window.image], [ow, oh, od]),
        }
    }

    /// [`Panel::load`] into all blocks of a cluster.
    ///
    /// # Safety
    /// As [`produce`].
    #[inline(always)]
    unsafe fn load_for_all(&self, p: &ConvWgradParams, map: MapAddress, to: u32, bar: u32, window: &Window, all: u16) {
        let (c, [d, h, w], [od, oh, ow]) = (self.channel, window.base, self.offset);
        match p.x_access {
            access::LINEAR => tma::load_2d_multicast(to, map, bar, all, [c, window.linear]),
            access::IM2COL_2D => tma::load_im2col_4d_multicast(to, map, bar, all, [c, w, h, window.image], [ow, oh]),
            _ => tma::load_im2col_5d_multicast(to, map, bar, all, [c, w, h, d, window.image], [ow, oh, od]),
        }
    }
}

/// Loads stage after stage, of tile after tile.
///
/// All threads of a warp compute where, so that addresses are computed once for all of them, and one queues the copies.
///
/// # Safety
/// As [`run`]; all threads of one warp.
#[inline(always)]
unsafe fn produce<P: Product<R, 1>, const R: usize>(p: &ConvWgradParams, maps: &Maps, mut ring: Ring) {
    let tile = P::TILE;
    let rank = rank(tile);
    let mut work = work(p, tile);
    while work.at < work.end {
        let (WgradPart { place, begin, end, .. }, step) = part(p, tile, work);
        let left = p.n_panels - place.panel;
        // Columns behind the last panel are never stored, so they need not be loaded.
        let n_panels = if left < tile.gemm_n / PANEL { left } else { tile.gemm_n / PANEL };
        let panels = [0, 1, 2, 3].map(|i| Panel::new(p, place.group, place.panel + i).here());
        let first_k = (place.group * p.group_k + place.m) as i32;
        let mut block = begin;
        while block < end {
            let first = block * GEMM_K;
            let window = Window::new(p, first);
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            if warp::elect() {
                let bar = ring.full();
                mbarrier::arrive_expect_bytes(bar, tile.a_bytes() + n_panels * PANEL_BYTES);
                let mut i = 0;
                while i < tile.gemm_m / PANEL {
                    let k = first_k + (i * PANEL) as i32;
                    tma::load_2d(ring.a() + i * PANEL_BYTES, maps.dy, bar, [k, first as i32]);
                    i += 1;
                }
                // The blocks of a cluster take the panels in turn.
                let load = |i: u32, panel: &Panel| {
                    let to = ring.b() + i * PANEL_BYTES;
                    if tile.cluster == 1 {
                        panel.load(p, maps.x, to, bar, &window);
                    } else if i % tile.cluster == rank {
                        panel.load_for_all(p, maps.x, to, bar, &window, (1 << tile.cluster) - 1);
                    }
                };
                let [panel0, panel1, panel2, panel3] = &panels;
                load(0, panel0);
                if n_panels > 1 {
                    load(1, panel1);
                }
                if n_panels > 2 {
                    load(2, panel2);
                }
                if n_panels > 3 {
                    load(3, panel3);
                }
            }
            ring.advance();
            block += 1;
        }
        work.at += step;
    }
}

/// Computes tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<P: Product<R, 1>, E: Half, const R: usize>(p: &ConvWgradParams, mut ring: Ring, consumer: u32) {
    let tile = P::TILE;
    let lane = thread_idx_x() % 32;
    let (a_panel, b_panel) =
        if tile.shares_columns() { (0, consumer * tile.consumer_columns() / PANEL) } else { (consumer, 0) };
    // The assembler takes a quotient for one that differs between threads, and with it the whole loop, whose addresses
    // are then computed by every thread.
    let mut work = work(p, tile);
    (work.at, work.end) = (warp::uniform(work.at), warp::uniform(work.end));
    while work.at < work.end {
        let (part, step) = part(p, tile, work);
        let (begin, end) = (warp::uniform(part.begin), warp::uniform(part.end));
        let mut d: [[f32; R]; 1] = core::mem::zeroed();
        let mut freed = ring.empty();
        let mut block = begin;
        while block < end {
            mbarrier::wait(ring.full(), ring.parity);
            let a = descriptor(ring.a() + a_panel * PANEL_BYTES, PANEL_BYTES, SWIZZLE_PERIOD, Swizzle::B128);
            let b = descriptor(ring.b() + b_panel * PANEL_BYTES, PANEL_BYTES, SWIZZLE_PERIOD, Swizzle::B128);
            P::multiply(&mut d, a, b, u32::from(block > begin));
            if block > begin {
                Ring::release(tile, freed, lane);
            }
            freed = ring.empty();
            ring.advance();
            block += 1;
        }
        P::finish(&mut d);
        Ring::release(tile, freed, lane);
        epilogue::<P, E, R>(p, &d, part, consumer);
        work.at += warp::uniform(step);
    }
}

/// Writes the sums of a tile: to dw, or as they are to the workspace.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn epilogue<P: Product<R, 1>, E: Half, const R: usize>(
    p: &ConvWgradParams,
    d: &[[f32; R]; 1],
    part: WgradPart,
    consumer: u32,
) {
    let thread = consumer * WARPGROUP + thread_idx_x() % WARPGROUP;
    let out = Out { p, part, thread };
    let [d] = d;
    quads::<P, E, R, 0>(&out, d);
    if R > 32 {
        quads::<P, E, R, 8>(&out, d);
    }
    if R > 64 {
        quads::<P, E, R, 16>(&out, d);
    }
    if R > 96 {
        quads::<P, E, R, 24>(&out, d);
    }
}

/// Where a thread's sums of a tile go.
struct Out<'a> {
    p: &'a ConvWgradParams,
    part: WgradPart,
    thread: u32,
}

/// Quads `FROM` to `FROM + 7` of a thread's sums: few enough that the loop is unrolled, and the sums stay in registers.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn quads<P: Product<R, 1>, E: Half, const R: usize, const FROM: usize>(out: &Out<'_>, d: &[f32; R]) {
    let threads = CONSUMERS * WARPGROUP;
    let partials = out.p.partials as *mut [f32; 4];
    let base = u64::from(out.part.slot) * u64::from(P::TILE.partials() / 4) + u64::from(out.thread);
    let mut i = FROM;
    while i < FROM + 8 {
        let sum = |j: usize| *d.get_unchecked(4 * i + j);
        let v = [sum(0), sum(1), sum(2), sum(3)];
        let quad = i as u32;
        if !out.part.is_whole {
            let to = partials.add((base + u64::from(quad * threads)) as usize);
            cuda_std::memory::store_x4(to as *mut u32, v.map(f32::to_bits));
        } else {
            store_quad::<E>(out.p, P::TILE, out.part.place, out.thread, quad, v);
        }
        i += 1;
    }
}

/// Writes four sums of a thread to dw: two neighbouring columns of two rows.
///
/// # Safety
/// As [`run`].
#[inline(always)]
pub(super) unsafe fn store_quad<E: Half>(
    p: &ConvWgradParams,
    tile: ConvTile,
    place: WgradPlace,
    thread: u32,
    quad: u32,
    v: [f32; 4],
) {
    if let Some(at) = QuadPlace::of(p, tile, place, thread, quad) {
        at.store::<E>(p, place, v);
    }
}

/// Where four sums of a thread belong: the first of two rows eight apart, a tap, and the first of two channels.
#[derive(Clone, Copy)]
pub(super) struct QuadPlace {
    row: u32,
    tap: u32,
    c: u32,
}

impl QuadPlace {
    /// That of a thread's quad, unless its panel is behind the last.
    #[inline(always)]
    pub(super) fn of(p: &ConvWgradParams, tile: ConvTile, place: WgradPlace, thread: u32, quad: u32) -> Option<Self> {
        let consumer = thread / WARPGROUP;
        let thread = thread % WARPGROUP;
        let mut row = place.m + thread / 32 * 16 + thread % 32 / 4;
        let mut col = 8 * quad + thread % 4 * 2;
        if tile.shares_columns() {
            col += consumer * tile.consumer_columns();
        } else {
            row += consumer * SUBTILE;
        }
        let panel = place.panel + col / PANEL;
        if panel >= p.n_panels {
            return None;
        }
        let (tap, c) = p.tap_and_channel(panel, PANEL);
        let mut tap = (tap[0] * p.taps[1] + tap[1]) * p.taps[2] + tap[2];
        if p.flip != 0 {
            tap = p.taps[0] * p.taps[1] * p.taps[2] - 1 - tap;
        }
        Some(QuadPlace { row, tap, c: c + col % PANEL })
    }

    /// That of the thread's quad so many further, in the same panel.
    #[inline(always)]
    pub(super) fn to_the_right(self, quads: u32) -> Self {
        QuadPlace { c: self.c + 8 * quads, ..self }
    }

    /// Writes the sums, but for those of rows and channels that are not there.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    pub(super) unsafe fn store<E: Half>(self, p: &ConvWgradParams, place: WgradPlace, v: [f32; 4]) {
        let QuadPlace { mut row, tap, c } = self;
        if c >= p.group_c {
            return;
        }
        if p.packed_c != 0 {
            store_packed::<E>(p, place, row, tap, c, v);
            return;
        }
        let mut half = 0;
        while half < 2 {
            if row < p.group_k {
                let k = i64::from(place.group * p.group_k + row);
                let offset = k * p.k_stride + i64::from(tap) * p.tap_stride + i64::from(c);
                let to = (p.dw as *mut u16).offset(offset as isize) as *mut u32;
                let mut low = p.alpha * *v.get_unchecked(2 * half);
                let mut high = p.alpha * *v.get_unchecked(2 * half + 1);
                if p.beta != 0.0 {
                    let prior = *to;
                    low += p.beta * E::unpack(prior as u16);
                    high += p.beta * E::unpack((prior >> 16) as u16);
                }
                *to = E::pack(low, high);
            }
            row += 8;
            half += 1;
        }
    }
}

/// Writes four sums of a thread to the dw of a packed x: neighbouring columns are channels or taps, some of them of
/// nobody.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn store_packed<E: Half>(p: &ConvWgradParams, place: WgradPlace, row: u32, tap: u32, c: u32, v: [f32; 4]) {
    let mut i = 0;
    while i < 4 {
        let row = row + i / 2 * 8;
        let column = c + i % 2;
        let (s, channel) = if p.packed_c == 8 { (column / 8, column % 8) } else { (column / 4, column % 4) };
        if row < p.group_k && column < p.group_c && channel < p.real_c {
            let k = i64::from(place.group * p.group_k + row);
            let offset = k * p.k_stride
                + i64::from(tap) * p.tap_stride
                + i64::from(s) * p.s_stride
                + i64::from(channel) * p.c_stride;
            let to = (p.dw as *mut u16).offset(offset as isize);
            let mut sum = p.alpha * *v.get_unchecked(i as usize);
            if p.beta != 0.0 {
                sum += p.beta * E::unpack(*to);
            }
            *to = E::pack(sum, 0.0) as u16;
        }
        i += 1;
    }
}
