//! `wgrad`: see [`kernel_abi::ops::conv::im2col_wgmma`] for the product.
//!
//! Both operands lie with positions, which are summed over, in rows: dy's tile is panels of `[64 positions][64 k]`, x's
//! panels of `[64 positions][64 c]`, or of 32 c, each for its own tap; the product reads both transposed.
//!
//! Tiles are few and sums long, so the sum is split: every part writes its sums, as its threads hold them, to the
//! workspace, and a second kernel ([`super::sum`]) adds them in their order; or the worker with a tile's first part does
//! ([`super::fixup`]). Deterministic.
//!
//! The blocks of a cluster compute neighbours along the rows: both need the same part of x, each loads half of it, and
//! the copy engine delivers it to both. Without that, the second-level cache limits 1x1 filters.

use super::quads::store_quad;
use super::{
    CONSUMER_REGISTERS, Half, LOADERS, PRODUCER_REGISTERS, PartProduct, Product, Ring, SWIZZLE_PERIOD, WARPGROUP,
    warp_of_block, warpgroup,
};
use cuda_std::thread::{block_idx_x, grid_dim_x, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::wgmma::{Swizzle, descriptor};
use cuda_std::{cluster, mbarrier, schedule, warp};
use kernel_abi::ops::conv::im2col_wgmma::{
    CONSUMERS, ConvTile, ConvWgradParams, GEMM_K, PANEL, PANEL_BYTES, WgradPart, WgradWork, access, position,
};

/// Where the tensor maps are.
pub(super) struct Maps {
    pub(super) dy: MapAddress,
    pub(super) x: MapAddress,
}

/// Who computes what, and what becomes of it.
pub(super) trait Form {
    /// What every form is given.
    fn params(&self) -> &ConvWgradParams;

    /// The work of cluster `index` of `n`.
    fn work(&self, index: u32, n: u32) -> WgradWork;

    /// Takes the sums of a part of a tile.
    ///
    /// # Safety
    /// As [`run`]; all threads of one warpgroup.
    unsafe fn finish<P: Product<R, 1>, E: Half, const R: usize>(
        &self,
        d: &[[f32; R]; 1],
        part: WgradPart,
        consumer: u32,
    );
}

/// A second kernel adds the parts.
impl Form for ConvWgradParams {
    #[inline(always)]
    fn params(&self) -> &ConvWgradParams {
        self
    }

    #[inline(always)]
    fn work(&self, index: u32, n: u32) -> WgradWork {
        ConvWgradParams::work(self, index, n)
    }

    #[inline(always)]
    unsafe fn finish<P: Product<R, 1>, E: Half, const R: usize>(
        &self,
        d: &[[f32; R]; 1],
        part: WgradPart,
        consumer: u32,
    ) {
        epilogue::<P, E, R>(self, d, part, consumer);
    }
}

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches `THREADS` threads with `TILE.smem_bytes()` bytes of
/// shared memory.
#[inline(always)]
pub(super) unsafe fn run<F: Form, P: PartProduct<R>, E: Half, const R: usize>(form: &F, maps: Maps) {
    let ring = Ring::new(P::TILE);
    if thread_idx_x() == 0 {
        tma::prefetch_map(maps.dy);
        tma::prefetch_map(maps.x);
    }
    ring.start(LOADERS);
    let warpgroup = warpgroup();
    if warpgroup == 0 {
        schedule::release_registers::<PRODUCER_REGISTERS>();
        let warp = warp_of_block();
        if warp == 0 {
            load_dy::<F, P, R>(form, maps.dy, ring);
        } else if warp == 1 {
            if P::TILE.panel_k == PANEL {
                load_x::<F, P, R>(form, maps.x, ring);
            } else {
                load_narrow_x::<F, P, R>(form, maps.x, ring);
            }
        }
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        consume::<F, P, E, R>(form, ring, warpgroup - 1);
    }
    if P::TILE.cluster > 1 {
        // The other block may still signal our barriers.
        cluster::sync();
    }
}

/// This block's rank in its cluster.
#[inline(always)]
pub(super) fn rank(tile: ConvTile) -> u32 {
    if tile.cluster > 1 { cluster::rank() } else { 0 }
}

/// The work of this block's cluster.
#[inline(always)]
fn work<F: Form>(form: &F, tile: ConvTile) -> WgradWork {
    form.work(block_idx_x() / tile.cluster, grid_dim_x() / tile.cluster)
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

/// 64 channels of x at one tap, or 32. Found once a tile.
pub(super) struct Panel {
    channel: i32,
    offset: [u16; 3],
}

impl Panel {
    #[inline(always)]
    pub(super) fn new(p: &ConvWgradParams, tile: ConvTile, group: u32, index: u32) -> Self {
        let (tap, c) = p.tap_and_channel(index, tile.panel_k);
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
    /// As [`load_x`].
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
    /// As [`load_x`].
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

/// Loads dy's part of stage after stage, of tile after tile.
///
/// All threads of a warp compute where, so that addresses are computed once for all of them, and one queues the copies.
///
/// # Safety
/// As [`run`]; all threads of one warp.
#[inline(always)]
unsafe fn load_dy<F: Form, P: Product<R, 1>, const R: usize>(form: &F, map: MapAddress, mut ring: Ring) {
    const { assert!(P::TILE.gemm_m <= 2 * PANEL) };
    let (p, tile) = (form.params(), P::TILE);
    let mut work = work(form, tile);
    while work.at < work.end {
        let (WgradPart { place, begin, end, .. }, step) = part(p, tile, work);
        // Rows behind the last panel are never stored, so they need not be loaded: the copy engine is slower with a box of
        // nothing but zeros than with one from memory. Each load stands behind a test of its own: loops of unknown length
        // cost the producer more.
        let rows = p.group_k.saturating_sub(place.m).div_ceil(PANEL);
        let panels = if rows < tile.gemm_m / PANEL { rows } else { tile.gemm_m / PANEL };
        let first_k = (place.group * p.group_k + place.m) as i32;
        let mut block = begin;
        while block < end {
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            if warp::elect() {
                let bar = ring.full();
                mbarrier::arrive_expect_bytes(bar, panels * PANEL_BYTES);
                let load = |i: u32| {
                    let k = first_k + (i * PANEL) as i32;
                    tma::load_2d(ring.a() + i * PANEL_BYTES, map, bar, [k, (block * GEMM_K) as i32]);
                };
                if panels > 0 {
                    load(0);
                }
                if panels > 1 {
                    load(1);
                }
            }
            ring.advance();
            block += 1;
        }
        work.at += step;
    }
}

/// Loads x's part of them.
///
/// # Safety
/// As [`load_dy`].
#[inline(always)]
unsafe fn load_x<F: Form, P: Product<R, 1>, const R: usize>(form: &F, map: MapAddress, mut ring: Ring) {
    const { assert!(P::TILE.gemm_n <= 4 * PANEL || P::TILE.panel_k < PANEL) };
    let (p, tile) = (form.params(), P::TILE);
    let rank = rank(tile);
    let mut work = work(form, tile);
    while work.at < work.end {
        let (WgradPart { place, begin, end, .. }, step) = part(p, tile, work);
        // As the rows of dy.
        let left = p.n_panels - place.panel;
        let n_panels = if left < tile.gemm_n / PANEL { left } else { tile.gemm_n / PANEL };
        let panels = [0, 1, 2, 3].map(|i| Panel::new(p, tile, place.group, place.panel + i).here());
        let mut block = begin;
        while block < end {
            let window = Window::new(p, block * GEMM_K);
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            if warp::elect() {
                let bar = ring.full();
                mbarrier::arrive_expect_bytes(bar, n_panels * PANEL_BYTES);
                // The blocks of a cluster take the panels in turn.
                let load = |i: u32, panel: &Panel| {
                    let to = ring.b() + i * PANEL_BYTES;
                    if tile.cluster == 1 {
                        panel.load(p, map, to, bar, &window);
                    } else if i % tile.cluster == rank {
                        panel.load_for_all(p, map, to, bar, &window, (1 << tile.cluster) - 1);
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

/// The same in panels of fewer channels, of which there are more: a lane each has one, and queues its copies.
///
/// # Safety
/// As [`load_dy`].
#[inline(always)]
unsafe fn load_narrow_x<F: Form, P: Product<R, 1>, const R: usize>(form: &F, map: MapAddress, mut ring: Ring) {
    const { assert!(P::TILE.panel_k == PANEL || P::TILE.cluster == 1 && P::TILE.gemm_n <= 32 * P::TILE.panel_k) };
    let (p, tile) = (form.params(), P::TILE);
    let lane = thread_idx_x() % 32;
    let mut work = work(form, tile);
    while work.at < work.end {
        let (WgradPart { place, begin, end, .. }, step) = part(p, tile, work);
        // As the rows of dy.
        let left = p.n_panels - place.panel;
        let n_panels = if left < tile.gemm_n / tile.panel_k { left } else { tile.gemm_n / tile.panel_k };
        let own = Panel::new(p, tile, place.group, place.panel + lane).here();
        let mut block = begin;
        while block < end {
            let window = Window::new(p, block * GEMM_K);
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            if lane == 0 {
                mbarrier::arrive_expect_bytes(ring.full(), n_panels * tile.column_panel_bytes());
            }
            if lane < n_panels {
                own.load(p, map, ring.b() + lane * tile.column_panel_bytes(), ring.full(), &window);
            }
            warp::sync_warp();
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
unsafe fn consume<F: Form, P: PartProduct<R>, E: Half, const R: usize>(form: &F, mut ring: Ring, consumer: u32) {
    let (p, tile) = (form.params(), P::TILE);
    let lane = thread_idx_x() % 32;
    let (a_panel, b_panel) =
        if tile.shares_columns() { (0, consumer * tile.consumer_columns() / tile.panel_k) } else { (consumer, 0) };
    let a = descriptor(ring.base + a_panel * PANEL_BYTES, PANEL_BYTES, SWIZZLE_PERIOD, Swizzle::B128);
    let (period, swizzle) =
        if tile.panel_k == PANEL { (SWIZZLE_PERIOD, Swizzle::B128) } else { (SWIZZLE_PERIOD / 2, Swizzle::B64) };
    let panel_bytes = tile.column_panel_bytes();
    let b = descriptor(ring.base + tile.a_bytes() + b_panel * panel_bytes, panel_bytes, period, swizzle);
    // The assembler takes a quotient for one that differs between threads, and with it the whole loop, whose addresses
    // are then computed by every thread.
    let mut work = work(form, tile);
    (work.at, work.end) = (warp::uniform(work.at), warp::uniform(work.end));
    while work.at < work.end {
        let (part, step) = part(p, tile, work);
        let (begin, end) = (warp::uniform(part.begin), warp::uniform(part.end));
        let mut d: [[f32; R]; 1] = core::mem::zeroed();
        let mut freed = ring.empty();
        let whole = warp::uniform(p.whole_stages(end));
        let mut block = begin;
        while block < whole {
            mbarrier::wait(ring.full(), ring.parity);
            P::multiply(&mut d, ring.of_stage(a), ring.of_stage(b), u32::from(block > begin));
            if block > begin {
                Ring::release(tile, freed, lane);
            }
            freed = ring.empty();
            ring.advance();
            block += 1;
        }
        if block < end {
            mbarrier::wait(ring.full(), ring.parity);
            let accumulate = u32::from(block > begin);
            P::multiply_steps(&mut d, ring.of_stage(a), ring.of_stage(b), accumulate, p.last_steps);
            if block > begin {
                Ring::release(tile, freed, lane);
            }
            freed = ring.empty();
            ring.advance();
        }
        P::finish(&mut d);
        Ring::release(tile, freed, lane);
        form.finish::<P, E, R>(&d, WgradPart { begin, end, ..part }, consumer);
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
    while i < FROM + 8 && 4 * i < R {
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
