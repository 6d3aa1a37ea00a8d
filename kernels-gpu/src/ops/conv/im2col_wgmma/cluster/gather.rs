//! `fprop` and `dgrad`.

use super::super::gather::{Address, k_panels};
use super::super::{Half, Product};
use super::exchange::Target;
use super::{LOADERS, Ring, Share, consume};
use cuda_std::thread::thread_idx_x;
use cuda_std::tma::{self, MapAddress};
use cuda_std::{cluster, schedule, warp};
use kernel_abi::division::div_rem;
use kernel_abi::ops::conv::im2col_cluster::WARPGROUP;
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvClass, ConvGatherParams, ConvTile, GatherPlace, PANEL, PANEL_BYTES, access, position,
};

/// The thread that fetches the filter ahead; thread 0 fetches maps.
const FETCHER: u32 = 32;

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches clusters of a power of two of blocks of `THREADS`
/// threads with `TILE.cluster_smem_bytes()` bytes of shared memory, for as many stages as a block may need.
#[inline(always)]
pub(in super::super) unsafe fn run<P: Product<R, S>, E: Half, const R: usize, const S: usize>(
    p: &ConvGatherParams,
    at: Address,
) {
    schedule::launch_dependents();
    let share = Share::new();
    let index = share.tile();
    let mut number = 0;
    while number + 1 < p.n_classes && index >= at.class(number + 1).first_tile {
        number += 1;
    }
    if thread_idx_x() == 0 {
        tma::prefetch_map(at.a_map(number));
        tma::prefetch_map(at.b_map());
    }
    let class = class(p, at, number);
    let ring = Ring::new(P::TILE);
    ring.start(share);
    let place = GatherPlace::new(p, P::TILE, number, index - class.first_tile);
    let (begin, end) = share.of(k_panels(p, &class, P::TILE));
    let filter = FilterTiles { map: at.b_map(), first_k: place.group * p.group_k, n: place.n };
    if warp::uniform(thread_idx_x() / WARPGROUP) == 1 {
        let panels = [begin, end].map(warp::uniform_register);
        if warp::uniform(thread_idx_x() / 32) == LOADERS[0] {
            load_positions::<P, R, S>(p, at, &class, place, ring, panels);
        } else {
            load_filter::<P, R, S>(&class, &filter, ring, panels);
        }
        if share.shift > 0 {
            cluster::wait();
        }
    } else {
        if thread_idx_x() == FETCHER && place.m == 0 {
            fetch::<P, R, S>(&class, &filter, begin, end);
        }
        consume::<P, E, _, R, S>(ring, share, end - begin, &Out { p, class: &class, place });
    }
}

/// A class, by value: what is read through a pointer would be read again later, when there is no time.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn class(p: &ConvGatherParams, at: Address, number: u32) -> ConvClass {
    if number > 0 {
        return *at.class(number);
    }
    // The first, which is all there is but for strides, comes from the cache of constants. Opaque, since the compiler
    // would make one access through a pointer of both.
    let words: [u32; size_of::<ConvClass>() / 4] = core::mem::transmute(p.classes[0]);
    core::mem::transmute(words.map(schedule::opaque))
}

/// Brings a block's part of the filter to the second-level cache.
///
/// It comes from memory where the layers before have pushed it out of the cache. Fetching it is no read, so that a kernel
/// before may yet write it.
///
/// # Safety
/// As [`run`]; one thread.
#[inline(always)]
unsafe fn fetch<P: Product<R, S>, const R: usize, const S: usize>(
    class: &ConvClass,
    filter: &FilterTiles,
    begin: u32,
    end: u32,
) {
    let mut panel = Panel::new(class, P::TILE, begin);
    let mut i = begin;
    while i < end {
        filter.fetch::<P, R, S>(class, &panel);
        panel.advance(class, P::TILE);
        i += 1;
    }
}

/// A tap and a panel of channels, counting up.
struct Panel {
    channel: u32,
    tap: [u32; 3],
}

impl Panel {
    /// Panel `index`: the taps of a panel of channels, panel after panel.
    #[inline(always)]
    fn new(class: &ConvClass, tile: ConvTile, index: u32) -> Self {
        let [t, r, s] = class.taps;
        // Where there is no tap, there is no panel.
        let (panel, tap) = div_rem(index, t * r * s);
        let (rest, tap_w) = div_rem(tap, s);
        let (tap_d, tap_h) = div_rem(rest, r);
        Panel { channel: panel * tile.panel_k, tap: [tap_d, tap_h, tap_w] }
    }

    #[inline(always)]
    fn advance(&mut self, class: &ConvClass, tile: ConvTile) {
        self.tap[2] += 1;
        if self.tap[2] == class.taps[2] {
            self.tap[2] = 0;
            self.tap[1] += 1;
            if self.tap[1] == class.taps[1] {
                self.tap[1] = 0;
                self.tap[0] += 1;
                if self.tap[0] == class.taps[0] {
                    self.tap[0] = 0;
                    self.channel += tile.panel_k;
                }
            }
        }
    }

    /// The filter's element, as a linear index.
    #[inline(always)]
    fn filter_tap(&self, class: &ConvClass) -> i32 {
        let step = |axis: usize| self.tap[axis] as i32 * class.tap_step[axis];
        class.first_tap + step(0) + step(1) + step(2)
    }
}

/// Loads the positions of stage after stage, those of panels `begin` to `end`.
///
/// All threads of a warp compute where, so that addresses are computed once for all of them, and one queues the copies.
///
/// # Safety
/// As [`run`]; all threads of one warp.
#[inline(always)]
unsafe fn load_positions<P: Product<R, S>, const R: usize, const S: usize>(
    p: &ConvGatherParams,
    at: Address,
    class: &ConvClass,
    place: GatherPlace,
    mut ring: Ring,
    [begin, end]: [u32; 2],
) {
    let tile = P::TILE;
    let map = at.a_map(place.class);
    let (n, first) = position(place.m, class.extents);
    // Opaque, so that it is computed before the wait.
    let before = |x: u32| warp::uniform_register(schedule::opaque(x));
    let base = |axis: usize| before(first[axis] * p.step[axis] + class.base[axis] as u32) as i32;
    let (n, d, h, w) = (before(n), base(0), base(1), base(2));
    let first_channel = place.group * p.channels;
    let mut panel = Panel::new(class, tile, begin);
    schedule::wait_for_predecessors();
    let mut i = begin;
    while i < end {
        // Behind the last panel there are only zeros.
        let c = (first_channel + panel.channel) as i32;
        let offset = |axis: usize| (panel.tap[axis] * class.tap_offset[axis]) as u16;
        ring.load(tile.a_bytes(), |ring, bar| {
            let to = ring.a();
            match p.a_access {
                access::LINEAR => tma::load_2d(to, map, bar, [c, place.m as i32]),
                access::IM2COL_2D => tma::load_im2col_4d(to, map, bar, [c, w, h, n as i32], [offset(2), offset(1)]),
                _ => tma::load_im2col_5d(to, map, bar, [c, w, h, d, n as i32], [offset(2), offset(1), offset(0)]),
            }
        });
        panel.advance(class, tile);
        i += 1;
    }
}

/// Loads the filter's part of them.
///
/// # Safety
/// As [`load_positions`].
#[inline(always)]
unsafe fn load_filter<P: Product<R, S>, const R: usize, const S: usize>(
    class: &ConvClass,
    filter: &FilterTiles,
    mut ring: Ring,
    [begin, end]: [u32; 2],
) {
    let mut panel = Panel::new(class, P::TILE, begin);
    schedule::wait_for_predecessors();
    let mut i = begin;
    while i < end {
        ring.load(P::TILE.b_bytes(), |ring, bar| filter.load::<P, R, S>(class, &panel, ring.b(), bar));
        panel.advance(class, P::TILE);
        i += 1;
    }
}

/// Where a tile's part of the filter lies.
struct FilterTiles {
    map: MapAddress,
    first_k: u32,
    n: u32,
}

impl FilterTiles {
    /// Coordinates of a panel, from the tile's column `column` on.
    #[inline(always)]
    fn at(&self, sum_is_rows: bool, class: &ConvClass, panel: &Panel, column: u32) -> [i32; 3] {
        let tap = panel.filter_tap(class);
        if sum_is_rows {
            [(self.n + column) as i32, tap, (self.first_k + panel.channel) as i32]
        } else {
            [panel.channel as i32, tap, (self.first_k + self.n) as i32]
        }
    }

    /// # Safety
    /// As [`run`]; `bar` counts the bytes.
    #[inline(always)]
    unsafe fn load<P: Product<R, S>, const R: usize, const S: usize>(
        &self,
        class: &ConvClass,
        panel: &Panel,
        to: u32,
        bar: u32,
    ) {
        tma::load_3d(to, self.map, bar, self.at(P::B_IS_MN_MAJOR, class, panel, 0));
        if P::B_IS_MN_MAJOR && P::TILE.gemm_n > PANEL {
            tma::load_3d(to + PANEL_BYTES, self.map, bar, self.at(true, class, panel, PANEL));
        }
    }

    /// Brings to the second-level cache what [`FilterTiles::load`] loads.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn fetch<P: Product<R, S>, const R: usize, const S: usize>(&self, class: &ConvClass, panel: &Panel) {
        tma::prefetch_3d(self.map, self.at(P::B_IS_MN_MAJOR, class, panel, 0));
        if P::B_IS_MN_MAJOR && P::TILE.gemm_n > PANEL {
            tma::prefetch_3d(self.map, self.at(true, class, panel, PANEL));
        }
    }
}

/// Where a tile is written.
struct Out<'a> {
    p: &'a ConvGatherParams,
    class: &'a ConvClass,
    place: GatherPlace,
}

impl Target for Out<'_> {
    #[inline(always)]
    fn row(&self, row: u32) -> u64 {
        let row = self.place.m + row;
        if row >= self.class.gemm_m {
            return 0;
        }
        let (n, [d, h, w]) = position(row, self.class.extents);
        let [sd, sh, sw] = self.class.strides;
        let image = i64::from(n) * self.p.image_stride + self.class.offset;
        let offset = image + i64::from(d) * sd + i64::from(h) * sh + i64::from(w) * sw;
        self.p.out + (offset + i64::from(self.place.group * self.p.gemm_n + self.place.n)) as u64 * 2
    }

    #[inline(always)]
    fn column(&self, column: u32) -> i64 {
        if self.place.n + column < self.p.gemm_n { 2 * i64::from(column) } else { -1 }
    }

    #[inline(always)]
    fn by_eight(&self) -> bool {
        self.p.store_bytes == 16
    }

    #[inline(always)]
    fn factors(&self) -> [f32; 2] {
        [self.p.alpha, self.p.beta]
    }
}
