//! `wgrad`.

use super::super::wgrad::{Maps, Panel, Window};
use super::super::{Half, Product};
use super::exchange::Target;
use super::{LOADERS, Ring, Share, consume};
use cuda_std::thread::thread_idx_x;
use cuda_std::tma::{self, MapAddress};
use cuda_std::{cluster, schedule, warp};
use kernel_abi::ops::conv::im2col_cluster::WARPGROUP;
use kernel_abi::ops::conv::im2col_wgmma::{ConvWgradParams, GEMM_K, PANEL, PANEL_BYTES, WgradPlace};

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches clusters of `splits` blocks, a power of two, of
/// `THREADS` threads with `TILE.cluster_smem_bytes()` bytes of shared memory, for as many stages as a block may need.
#[inline(always)]
pub(in super::super) unsafe fn run<P: Product<R, 1>, E: Half, const R: usize>(p: &ConvWgradParams, maps: Maps) {
    schedule::launch_dependents();
    let share = Share::new();
    if thread_idx_x() == 0 {
        tma::prefetch_map(maps.dy);
        tma::prefetch_map(maps.x);
    }
    let ring = Ring::new(P::TILE);
    ring.start(share);
    let place = p.place(P::TILE, share.tile());
    let (begin, end) = share.of(p.k_blocks);
    if warp::uniform(thread_idx_x() / WARPGROUP) == 1 {
        let blocks = [begin, end].map(warp::uniform_register);
        if warp::uniform(thread_idx_x() / 32) == LOADERS[0] {
            load_dy::<P, R>(p, maps.dy, place, ring, blocks);
        } else {
            load_x::<P, R>(p, maps.x, place, ring, blocks);
        }
        if share.shift > 0 {
            cluster::wait();
        }
    } else {
        consume::<P, E, _, R, 1>(ring, share, end - begin, &Out::new(p, place));
    }
}

/// Loads dy's part of stage after stage, those of blocks of positions `begin` to `end`.
///
/// All threads of a warp compute where, so that addresses are computed once for all of them, and one queues the copies.
///
/// # Safety
/// As [`run`]; all threads of one warp.
#[inline(always)]
unsafe fn load_dy<P: Product<R, 1>, const R: usize>(
    p: &ConvWgradParams,
    map: MapAddress,
    place: WgradPlace,
    mut ring: Ring,
    [begin, end]: [u32; 2],
) {
    let k = (place.group * p.group_k + place.m) as i32;
    schedule::wait_for_predecessors();
    let mut block = begin;
    while block < end {
        ring.load(P::TILE.a_bytes(), |ring, bar| tma::load_2d(ring.a(), map, bar, [k, (block * GEMM_K) as i32]));
        block += 1;
    }
}

/// Loads x's part of them.
///
/// # Safety
/// As [`load_dy`].
#[inline(always)]
unsafe fn load_x<P: Product<R, 1>, const R: usize>(
    p: &ConvWgradParams,
    map: MapAddress,
    place: WgradPlace,
    mut ring: Ring,
    [begin, end]: [u32; 2],
) {
    // Columns behind the last panel are never stored, so they need not be loaded.
    let two = P::TILE.gemm_n > PANEL && place.panel + 1 < p.n_panels;
    let first = Panel::new(p, P::TILE, place.group, place.panel).here();
    let second = Panel::new(p, P::TILE, place.group, place.panel + 1).here();
    let mut window = Window::new(p, begin * GEMM_K).here();
    schedule::wait_for_predecessors();
    let mut block = begin;
    while block < end {
        ring.load(if two { 2 * PANEL_BYTES } else { PANEL_BYTES }, |ring, bar| {
            first.load(p, map, ring.b(), bar, &window);
            if two {
                second.load(p, map, ring.b() + PANEL_BYTES, bar, &window);
            }
        });
        block += 1;
        window = Window::new(p, block * GEMM_K);
    }
}

/// Where a tile is written.
struct Out<'a> {
    p: &'a ConvWgradParams,
    place: WgradPlace,
    /// Of the first panel and the next one: bytes from a row to its first column, and columns that are there.
    panels: [(i64, u32); 2],
}

impl<'a> Out<'a> {
    #[inline(always)]
    fn new(p: &'a ConvWgradParams, place: WgradPlace) -> Self {
        let panel = |index: u32| {
            if index >= p.n_panels {
                return (0, 0);
            }
            let (tap, c) = p.linear_tap_and_channel(index, PANEL);
            (2 * (i64::from(tap) * p.tap_stride + i64::from(c)), p.group_c - c)
        };
        Out { p, place, panels: [panel(place.panel), panel(place.panel + 1)] }
    }
}

impl Target for Out<'_> {
    #[inline(always)]
    fn row(&self, row: u32) -> u64 {
        let row = self.place.m + row;
        if row >= self.p.group_k {
            return 0;
        }
        self.p.dw + (i64::from(self.place.group * self.p.group_k + row) * self.p.k_stride) as u64 * 2
    }

    #[inline(always)]
    fn column(&self, column: u32) -> i64 {
        let (offset, there) = if column < PANEL { self.panels[0] } else { self.panels[1] };
        let column = column % PANEL;
        if column < there { offset + 2 * i64::from(column) } else { -1 }
    }

    #[inline(always)]
    fn by_eight(&self) -> bool {
        (self.p.group_c | self.p.k_stride as u32 | self.p.tap_stride as u32) % 8 == 0
    }

    #[inline(always)]
    fn factors(&self) -> [f32; 2] {
        [self.p.alpha, self.p.beta]
    }
}
