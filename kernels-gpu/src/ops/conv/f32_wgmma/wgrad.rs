//! `wgrad`: see [`kernel_abi::ops::conv::im2col_wgmma`] for the product.
//!
//! Grid: any number of blocks, which share tiles and parts of the sum round-robin. Block: 512 threads: warpgroup 0
//! loads, warpgroup 1 takes x apart, the others compute. Shared memory: dynamic, `ConvTile::smem_bytes`: the stages,
//! buffers for x's parts, and barriers.
//!
//! A stage is panels of `[32 positions][32 channels]` of f32, dy's and then x's, each of x for its own tap. Consumers
//! read dy transposed while they load fragments; the products read x's parts, panels of `[32 positions][64 channels]`,
//! transposed. Sums are split and added as `im2col_wgmma` does it, or by a cluster: see [`cluster`](super::cluster).

use super::cluster::add_up;
use super::panels::{Own, PANEL_BYTES};
use super::{
    Buffer, COLUMN_BYTES, CONSUMER_REGISTERS, CONVERTER_REGISTERS, LOADER_REGISTERS, PartsProduct, give_back,
    takes_apart_ahead,
};
use crate::ops::conv::im2col_wgmma::{Ring, SWIZZLE_PERIOD, WARPGROUP, warpgroup};
use cuda_std::thread::{block_idx_x, grid_dim_x, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::wgmma::{Swizzle, descriptor};
use cuda_std::{mbarrier, schedule, shared};
use kernel_abi::ops::conv::f32_wgmma::PARTS_PANEL;
use kernel_abi::ops::conv::im2col_wgmma::{
    CONSUMERS, ConvTile, ConvWgradParams, ROW_BYTES, SUBTILE, WgradPlace, access, position,
};

/// Positions of a stage.
const STAGE_K: u32 = PARTS_PANEL;

/// Where the tensor maps are.
#[derive(Clone, Copy)]
pub(super) struct Maps {
    pub(super) dy: MapAddress,
    pub(super) x: MapAddress,
}

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches `TILE.threads()` threads with `TILE.smem_bytes()`
/// bytes of shared memory.
#[inline(always)]
pub(super) unsafe fn run<P: PartsProduct<R>, const R: usize>(p: &ConvWgradParams, maps: Maps) {
    let ring = Ring::new(P::TILE);
    if thread_idx_x() == 0 {
        tma::prefetch_map(maps.dy);
        tma::prefetch_map(maps.x);
    }
    ring.start(1);
    let warpgroup = warpgroup();
    if warpgroup == 0 {
        schedule::release_registers::<LOADER_REGISTERS>();
        if thread_idx_x() == 0 {
            produce(p, P::TILE, &maps, ring, Work::of_grid());
        }
    } else if warpgroup == 1 {
        schedule::release_registers::<CONVERTER_REGISTERS>();
        convert(p, P::TILE, ring, Work::of_grid());
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        consume::<P, R, false>(p, ring, warpgroup - 2, Work::of_grid());
    }
}

/// The parts of the sums of tiles that a block computes: the first, and how far it is to the next.
#[derive(Clone, Copy)]
pub(super) struct Work {
    pub(super) at: u32,
    pub(super) step: u32,
}

impl Work {
    /// Round-robin.
    #[inline(always)]
    fn of_grid() -> Self {
        Work { at: block_idx_x(), step: grid_dim_x() }
    }
}

/// Where the positions of a stage lie in x.
struct Window {
    linear: i32,
    image: i32,
    base: [i32; 3],
}

/// 32 channels of x at one tap. Found once a tile.
struct Panel {
    channel: i32,
    offset: [u16; 3],
}

impl Panel {
    #[inline(always)]
    fn new(p: &ConvWgradParams, group: u32, index: u32) -> Self {
        let (tap, c) = p.tap_and_channel(index, PARTS_PANEL);
        let offset = |axis: usize| (tap[axis] * p.tap_offset[axis]) as u16;
        Panel { channel: (group * p.group_c + c) as i32, offset: [offset(0), offset(1), offset(2)] }
    }

    /// # Safety
    /// As [`produce`].
    #[inline(always)]
    unsafe fn load(&self, p: &ConvWgradParams, map: MapAddress, to: u32, bar: u32, window: &Window) {
        let (c, [d, h, w], [od, oh, ow]) = (self.channel, window.base, self.offset);
        match p.x_access {
            access::LINEAR => tma::load_2d(to, map, bar, [c, window.linear]),
            access::IM2COL_2D => tma::load_im2col_4d(to, map, bar, [c, w, h, window.image], [ow, oh]),
            _ => tma::load_im2col_5d(to, map, bar, [c, w, h, d, window.image], [ow, oh, od]),
        }
    }
}

/// Loads stage after stage, of tile after tile.
///
/// # Safety
/// As [`run`]; one thread.
#[inline(always)]
pub(super) unsafe fn produce(p: &ConvWgradParams, tile: ConvTile, maps: &Maps, mut ring: Ring, work: Work) {
    let mut index = work.at;
    while index < p.tiles() * p.splits {
        let place = p.place(tile, index);
        let left = p.n_panels - place.panel;
        // Columns behind the last panel are never stored, so they need not be loaded.
        let most = tile.gemm_n / PARTS_PANEL;
        let n_panels = if left < most { left } else { most };
        let panels = [0, 1, 2, 3].map(|i| Panel::new(p, place.group, place.panel + i));
        let first_k = (place.group * p.group_k + place.m) as i32;
        let (mut block, end) = p.k_range(place.split);
        while block < end {
            let first = block * STAGE_K;
            let (n, at) = position(first, p.extents);
            let base = |axis: usize| (at[axis] * p.step[axis]) as i32 + p.base[axis];
            let window = Window { linear: first as i32, image: n as i32, base: [base(0), base(1), base(2)] };
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            let x_bytes = if tile.parts > 0 { n_panels * PANEL_BYTES } else { 0 };
            mbarrier::arrive_expect_bytes(ring.full(), tile.a_bytes() + x_bytes);
            let bar = ring.full();
            let mut i = 0;
            while i < tile.gemm_m / PARTS_PANEL {
                let k = first_k + (i * PARTS_PANEL) as i32;
                tma::load_2d(ring.a() + i * PANEL_BYTES, maps.dy, bar, [k, first as i32]);
                i += 1;
            }
            let [panel0, panel1, panel2, panel3] = &panels;
            if tile.parts > 0 {
                panel0.load(p, maps.x, ring.b(), bar, &window);
            }
            if tile.parts > 0 && n_panels > 1 {
                panel1.load(p, maps.x, ring.b() + PANEL_BYTES, bar, &window);
            }
            if tile.parts > 0 && n_panels > 2 {
                panel2.load(p, maps.x, ring.b() + 2 * PANEL_BYTES, bar, &window);
            }
            if tile.parts > 0 && n_panels > 3 {
                panel3.load(p, maps.x, ring.b() + 3 * PANEL_BYTES, bar, &window);
            }
            ring.advance();
            block += 1;
        }
        index += work.step;
    }
}

/// Takes x's tiles apart, stage after stage.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
pub(super) unsafe fn convert(p: &ConvWgradParams, tile: ConvTile, mut ring: Ring, work: Work) {
    let own = Own::new(tile, false);
    let mut buffer = Buffer::FIRST;
    let mut index = work.at;
    while index < p.tiles() * p.splits {
        let place = p.place(tile, index);
        // Columns behind the last panel are not loaded.
        let is_there = place.panel + own.panel() < p.n_panels;
        let (mut block, end) = p.k_range(place.split);
        while block < end {
            own.take_apart(&ring, buffer, is_there);
            buffer.advance(tile);
            ring.advance();
            block += 1;
        }
        index += work.step;
    }
}

/// A thread's fragments: of two channels of dy, neighbours, and of 32 positions, of which its own begin at `at`.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn load<P: PartsProduct<R>, const R: usize>(at: u32) -> P::Fragments {
    // The next position's chunks lie swizzled by one bit more, those of the eighth behind as here.
    let step = |at: u32| {
        // SAFETY: as the function's.
        let (even, odd) = unsafe { (shared::load_x2(at), shared::load_x2(at ^ (ROW_BYTES + 16))) };
        let behind = at + 8 * ROW_BYTES;
        // SAFETY: as the function's.
        let (even_behind, odd_behind) =
            unsafe { (shared::load_x2(behind), shared::load_x2(behind ^ (ROW_BYTES + 16))) };
        [[even[0], odd[0]], [even[1], odd[1]], [even_behind[0], odd_behind[0]], [even_behind[1], odd_behind[1]]]
    };
    P::take_apart([step(at), step(at + 16 * ROW_BYTES)])
}

/// A thread's fragments of a stage, once that is there.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn load_stage<P: PartsProduct<R>, const R: usize>(ring: &Ring, in_tile: u32, lane: u32) -> P::Fragments {
    mbarrier::wait(ring.full(), ring.parity);
    let a = load::<P, R>(ring.a() + in_tile);
    // All of it is in registers.
    Ring::release(P::TILE, ring.empty(), lane);
    a
}

/// Leaves `n` stages to another consumer, or behind.
#[inline(always)]
fn skip(ring: &mut Ring, buffer: &mut Buffer, n: u32) {
    let mut i = 0;
    while i < n {
        buffer.advance(ring.tile);
        ring.advance();
        i += 1;
    }
}

#[inline(always)]
fn smaller(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

/// Computes tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
pub(super) unsafe fn consume<P: PartsProduct<R>, const R: usize, const SHARES: bool>(
    p: &ConvWgradParams,
    mut ring: Ring,
    consumer: u32,
    work: Work,
) {
    let tile = P::TILE;
    let thread = thread_idx_x() % WARPGROUP;
    let (lane, warp) = (thread % 32, thread / 32);
    // Where it begins to read dy: rows of the product are channels, two neighbours a thread.
    let row = if tile.gemm_m == SUBTILE { 0 } else { consumer * SUBTILE } + warp * 16;
    let (pair, position) = (lane / 4, lane % 4 * 2);
    let chunk = row % PARTS_PANEL / 4 + pair / 2;
    let in_tile = row / PARTS_PANEL * PANEL_BYTES + position * ROW_BYTES + (chunk ^ position) * 16 + pair % 2 * 8;
    let first_column = if tile.shares_columns() { consumer * tile.consumer_columns() } else { 0 };
    let mut buffer = Buffer::FIRST;
    let mut index = work.at;
    while index < p.tiles() * p.splits {
        let place = p.place(tile, index);
        let mut sums: [f32; R] = core::mem::zeroed();
        let (block, end) = p.k_range(place.split);
        let mut left = end - block;
        // Stages to the first that this consumer computes, and from each to the next.
        let mut to_next = if tile.in_turns { smaller(consumer, left) } else { 0 };
        let stride = if tile.in_turns { CONSUMERS } else { 1 };
        skip(&mut ring, &mut buffer, to_next);
        left -= to_next;
        let mut a: P::Fragments = core::mem::zeroed();
        if takes_apart_ahead(R) && left > 0 {
            a = load_stage::<P, R>(&ring, in_tile, lane);
        }
        while left > 0 {
            if !takes_apart_ahead(R) {
                a = load_stage::<P, R>(&ring, in_tile, lane);
            }
            mbarrier::wait(ring.parts_full(buffer.index), buffer.parity);
            let b = if P::B_IS_MN_MAJOR {
                let from = buffer.at(&ring) + first_column / 64 * PANEL_BYTES;
                descriptor(from, PANEL_BYTES, SWIZZLE_PERIOD, Swizzle::B128)
            } else {
                descriptor(buffer.at(&ring) + first_column * COLUMN_BYTES, 16, 8 * COLUMN_BYTES, Swizzle::B64)
            };
            let mut d: [f32; R] = core::mem::zeroed();
            P::multiply(&mut d, &a, b);
            // What comes next is taken apart while the products are computed.
            let read = buffer;
            to_next = smaller(stride, left);
            skip(&mut ring, &mut buffer, to_next);
            left -= to_next;
            let mut next: P::Fragments = core::mem::zeroed();
            if takes_apart_ahead(R) && left > 0 {
                next = load_stage::<P, R>(&ring, in_tile, lane);
            }
            P::finish(&mut d, &mut a);
            P::add(&mut sums, &d, &a, read.factors(&ring), first_column);
            give_back(&ring, read);
            a = next;
        }
        let out = Out { p, index, place, thread: consumer * WARPGROUP + thread };
        if SHARES {
            add_up::<P, R>(&out, &sums, ring.base);
        } else {
            quads::<P, R, 0>(&out, &sums);
            if R > 32 {
                quads::<P, R, 8>(&out, &sums);
            }
        }
        index += work.step;
    }
}

/// Where a thread's sums of a tile go.
pub(super) struct Out<'a> {
    pub(super) p: &'a ConvWgradParams,
    index: u32,
    pub(super) place: WgradPlace,
    pub(super) thread: u32,
}

/// Quads `FROM` to `FROM + 7` of a thread's sums: few enough that the loop is unrolled, and the sums stay in registers.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn quads<P: PartsProduct<R>, const R: usize, const FROM: usize>(out: &Out<'_>, d: &[f32; R]) {
    let threads = CONSUMERS * WARPGROUP;
    let partials = out.p.partials as *mut [f32; 4];
    let base = u64::from(out.index) * u64::from(P::TILE.partials() / 4) + u64::from(out.thread);
    let mut i = FROM;
    while i < FROM + 8 {
        let sum = |j: usize| *d.get_unchecked(4 * i + j);
        let v = [sum(0), sum(1), sum(2), sum(3)];
        let quad = i as u32;
        if out.p.splits > 1 {
            let to = partials.add((base + u64::from(quad * threads)) as usize);
            cuda_std::memory::store_x4(to as *mut u32, v.map(f32::to_bits));
        } else {
            store_quad(out.p, P::TILE, out.place, out.thread, quad, v);
        }
        i += 1;
    }
}

/// Writes four sums of a thread to dw: two neighbouring columns of two neighbouring rows.
///
/// # Safety
/// As [`run`].
#[inline(always)]
pub(super) unsafe fn store_quad(
    p: &ConvWgradParams,
    tile: ConvTile,
    place: WgradPlace,
    thread: u32,
    quad: u32,
    v: [f32; 4],
) {
    let consumer = thread / WARPGROUP;
    let thread = thread % WARPGROUP;
    let mut row = place.m + thread / 32 * 16 + thread % 32 / 4 * 2;
    let mut col = 8 * quad + thread % 4 * 2;
    if tile.shares_columns() {
        col += consumer * tile.consumer_columns();
    } else {
        row += consumer * SUBTILE;
    }
    let panel = place.panel + col / PARTS_PANEL;
    if panel >= p.n_panels {
        return;
    }
    let (tap, c) = p.linear_tap_and_channel(panel, PARTS_PANEL);
    let c = c + col % PARTS_PANEL;
    let mut i = 0;
    while i < 4 {
        let (row, column) = (row + i / 2, c + i % 2);
        let s = column.checked_div(p.packed_c).unwrap_or(0);
        let channel = column - s * p.packed_c;
        if row < p.group_k && column < p.group_c && (p.packed_c == 0 || channel < p.real_c) {
            let k = i64::from(place.group * p.group_k + row);
            let offset = k * p.k_stride
                + i64::from(tap) * p.tap_stride
                + i64::from(s) * p.s_stride
                + i64::from(channel) * p.c_stride;
            let to = (p.dw as *mut f32).offset(offset as isize);
            let mut sum = p.alpha * *v.get_unchecked(i as usize);
            if p.beta != 0.0 {
                sum += p.beta * *to;
            }
            *to = sum;
        }
        i += 1;
    }
}
