//! `fprop` and `dgrad`: see [`kernel_abi::ops::conv::im2col_wgmma`] for the product.
//!
//! The filter is read as it lies, `[K][taps][C]`: its tile is `[columns][64 of the sum]` for `fprop`, and for `dgrad`
//! panels of `[64 of the sum][64 columns]`, which the product reads transposed.

use super::epilogue::{Out, subtile};
use super::{
    CONSUMER_REGISTERS, Half, LOADERS, PRODUCER_REGISTERS, Product, Ring, SWIZZLE_PERIOD, WARPGROUP, warp_of_block,
    warpgroup,
};
use core::mem::offset_of;
use cuda_std::barrier::{arrive_named, sync_named};
use cuda_std::thread::{block_idx_x, grid_dim_x, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::wgmma::{Swizzle, descriptor};
use cuda_std::{cluster, mbarrier, schedule, warp};
use kernel_abi::division::div_rem;
use kernel_abi::ops::conv::im2col_wgmma::{
    ConvClass, ConvGatherParams, ConvTile, GatherPlace, PANEL, PANEL_BYTES, SUBTILE, access, position,
};

/// The named barrier at which the first consumer waits for its turn; the second waits at the next. Before them are
/// those of the consumers' own.
const TURN: u32 = 3;

/// Where the parameters are.
///
/// Maps are told to the copy engine by address, and what is indexed at run time is read through one too: a parameter
/// that is indexed would be copied to local memory.
#[derive(Clone, Copy)]
pub(in crate::ops::conv) struct Address(pub(in crate::ops::conv) u64);

impl Address {
    /// The map of the tensor that is read, for a class.
    #[inline(always)]
    pub(in crate::ops::conv) fn a_map(self, class: u32) -> MapAddress {
        MapAddress(self.0 + 128 * u64::from(class))
    }

    /// The map of the tensor that is written, for a class.
    #[inline(always)]
    pub(super) fn out_map(self, class: u32) -> MapAddress {
        MapAddress(self.0 + offset_of!(ConvGatherParams, out_maps) as u64 + 128 * u64::from(class))
    }

    /// The map of the written tensor for panels narrower than others, of kernels whose launches have one class.
    #[inline(always)]
    pub(super) fn narrow_out_map(self) -> MapAddress {
        self.out_map(1)
    }

    /// The filter's map.
    #[inline(always)]
    pub(in crate::ops::conv) fn b_map(self) -> MapAddress {
        MapAddress(self.0 + offset_of!(ConvGatherParams, b_map) as u64)
    }

    /// A class.
    #[inline(always)]
    pub(in crate::ops::conv) unsafe fn class<'a>(self, index: u32) -> &'a ConvClass {
        &*((self.0 + offset_of!(ConvGatherParams, classes) as u64) as *const ConvClass).add(index as usize)
    }
}

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches `THREADS` threads with `TILE.smem_bytes()` bytes of
/// shared memory.
#[inline(always)]
pub(super) unsafe fn run<F: Form, P: Product<R, S>, E: Half, const R: usize, const S: usize>(form: &F, at: Address) {
    let p = form.params();
    let ring = Ring::new(P::TILE);
    if thread_idx_x() == 0 {
        tma::prefetch_map(at.b_map());
        let mut class = 0;
        while class < p.n_classes {
            tma::prefetch_map(at.a_map(class));
            tma::prefetch_map(at.out_map(class));
            class += 1;
        }
    }
    ring.start(LOADERS);
    let warpgroup = warpgroup();
    if warpgroup == 0 {
        schedule::release_registers::<PRODUCER_REGISTERS>();
        let warp = warp_of_block();
        if warp == 0 {
            load_positions::<F, P, R, S>(form, at, ring);
        } else if warp == 1 {
            load_filter::<F, P, R, S>(form, at, ring);
        }
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        consume::<F, P, E, R, S>(form, at, ring, warpgroup - 1);
    }
    if P::TILE.cluster > 1 {
        // The other block may still signal our barriers.
        cluster::sync();
    }
}

/// Who computes which stages of which tiles, and what becomes of the sums of some of a tile's stages.
pub(super) trait Form {
    /// What of its work a block has left.
    type Left;

    /// What all kernels are given.
    fn params(&self) -> &ConvGatherParams;

    /// All work of this block's cluster.
    fn work(&self, tile: ConvTile) -> Self::Left;

    /// Whether there is any left.
    ///
    /// Asked in the loop's own condition: where the loop ends by what [`Form::next`] returns, the assembler takes it for
    /// one that threads leave at different times, and computes all addresses in each of them.
    fn is_left(&self, left: &Self::Left) -> bool;

    /// The place of the next tile, this block's own rows of it, its class, and the panels of its sum that are to be
    /// computed.
    ///
    /// # Safety
    /// As [`run`]; there is one left.
    unsafe fn next<'a>(
        &self,
        left: &mut Self::Left,
        at: Address,
        tile: ConvTile,
    ) -> (GatherPlace, &'a ConvClass, Panels);

    /// Leaves the next `n` tiles to the other consumer.
    fn pass_over(&self, left: &mut Self::Left, tile: ConvTile, n: u32);

    /// The first row of the next tile, or one behind all rows, where there is one class.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn following_row(&self, left: &Self::Left, at: Address, tile: ConvTile) -> u32;

    /// Which panels of the tile's columns this block is to write, a bit each, with the sums of all other panels of the sum
    /// added to `d`; those of other columns are left to the blocks whose they are.
    ///
    /// # Safety
    /// As [`run`]; all threads of one warpgroup.
    unsafe fn settle<P: Product<R, S>, const R: usize, const S: usize>(
        &self,
        d: &mut [[f32; R]; S],
        place: GatherPlace,
        panels: Panels,
        consumer: u32,
    ) -> u32;
}

/// Some panels of a tile's sum.
#[derive(Clone, Copy)]
pub(super) struct Panels {
    /// The tile's number, where tiles are shared.
    pub(super) tile: u32,
    pub(super) begin: u32,
    pub(super) end: u32,
}

/// Whole tiles.
impl Form for ConvGatherParams {
    type Left = Tiles;

    #[inline(always)]
    fn params(&self) -> &ConvGatherParams {
        self
    }

    #[inline(always)]
    fn work(&self, tile: ConvTile) -> Tiles {
        Tiles::new(tile)
    }

    #[inline(always)]
    fn is_left(&self, left: &Tiles) -> bool {
        left.is_left(self)
    }

    #[inline(always)]
    unsafe fn next<'a>(&self, left: &mut Tiles, at: Address, tile: ConvTile) -> (GatherPlace, &'a ConvClass, Panels) {
        let (place, class) = left.next(self, at, tile);
        (place, class, Panels { tile: 0, begin: 0, end: k_panels(self, class, tile) })
    }

    #[inline(always)]
    fn pass_over(&self, left: &mut Tiles, tile: ConvTile, n: u32) {
        left.index += n * (grid_dim_x() / tile.cluster);
    }

    #[inline(always)]
    unsafe fn following_row(&self, left: &Tiles, at: Address, tile: ConvTile) -> u32 {
        left.following_row(self, at, tile)
    }

    #[inline(always)]
    unsafe fn settle<P: Product<R, S>, const R: usize, const S: usize>(
        &self,
        _: &mut [[f32; R]; S],
        _: GatherPlace,
        _: Panels,
        _: u32,
    ) -> u32 {
        !0
    }
}

/// Whether a plain matrix of 64 channels is brought to the second-level cache a tile ahead. Its tiles are read once and
/// have little to compute, so that memory is what they wait for; where there are more channels, the copies wait for the
/// cache, and asking it twice made them a quarter slower.
const fn reads_ahead(tile: ConvTile) -> bool {
    tile.gemm_n == 64 && tile.panel_k == 64
}

/// This block's rank in its cluster.
#[inline(always)]
pub(super) fn rank(tile: ConvTile) -> u32 {
    if tile.cluster > 1 { cluster::rank() } else { 0 }
}

/// The tiles of this block's cluster, one after the other.
pub(in crate::ops::conv) struct Tiles {
    index: u32,
    class: u32,
}

impl Tiles {
    #[inline(always)]
    pub(in crate::ops::conv) fn new(tile: ConvTile) -> Self {
        Tiles { index: block_idx_x() / tile.cluster, class: 0 }
    }

    /// Whether there is another one: see [`Form::is_left`].
    #[inline(always)]
    pub(in crate::ops::conv) fn is_left(&self, p: &ConvGatherParams) -> bool {
        self.index < p.n_tiles
    }

    /// The place of the next tile, this block's own rows of it, and its class.
    ///
    /// # Safety
    /// As [`run`]; there is one left.
    #[inline(always)]
    pub(in crate::ops::conv) unsafe fn next<'a>(
        &mut self,
        p: &ConvGatherParams,
        at: Address,
        tile: ConvTile,
    ) -> (GatherPlace, &'a ConvClass) {
        while self.class + 1 < p.n_classes && self.index >= at.class(self.class + 1).first_tile {
            self.class += 1;
        }
        let class = at.class(self.class);
        let mut place = GatherPlace::new(p, tile, self.class, self.index - class.first_tile);
        place.m += rank(tile) * tile.gemm_m;
        self.index += grid_dim_x() / tile.cluster;
        (place, class)
    }

    /// See [`Form::following_row`].
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn following_row(&self, p: &ConvGatherParams, at: Address, tile: ConvTile) -> u32 {
        let mut following = Tiles { index: self.index, class: self.class };
        if following.is_left(p) { following.next(p, at, tile).0.m } else { at.class(0).gemm_m }
    }
}

/// Panels of the sum of a class: the taps of a panel of channels, panel after panel, since neighbouring taps read
/// nearly the same positions.
#[inline(always)]
pub(in crate::ops::conv) fn k_panels(p: &ConvGatherParams, class: &ConvClass, tile: ConvTile) -> u32 {
    class.taps[0] * class.taps[1] * class.taps[2] * p.channels.div_ceil(tile.panel_k)
}

/// A tap and a panel of channels, counting up.
pub(in crate::ops::conv) struct Panel {
    pub(in crate::ops::conv) channel: u32,
    pub(in crate::ops::conv) tap: [u32; 3],
    pub(in crate::ops::conv) linear_tap: i32,
}

impl Panel {
    #[inline(always)]
    pub(in crate::ops::conv) fn first(class: &ConvClass) -> Self {
        Panel { channel: 0, tap: [0; 3], linear_tap: class.first_tap }
    }

    /// Panel `index` of all.
    #[inline(always)]
    fn at(class: &ConvClass, index: u32, panel_k: u32) -> Self {
        let [t, r, s] = class.taps;
        let (channels, tap) = div_rem(index, t * r * s);
        let (rest, tap_w) = div_rem(tap, s);
        let (tap_d, tap_h) = div_rem(rest, r);
        let tap = [tap_d, tap_h, tap_w];
        let step = |axis: usize| tap[axis] as i32 * class.tap_step[axis];
        let linear_tap = class.first_tap + step(0) + step(1) + step(2);
        Panel { channel: channels * panel_k, tap, linear_tap }
    }

    /// The first of some.
    #[inline(always)]
    fn first_of(class: &ConvClass, panels: Panels, tile: ConvTile) -> Self {
        if panels.begin == 0 { Panel::first(class) } else { Panel::at(class, panels.begin, tile.panel_k) }
    }

    #[inline(always)]
    pub(in crate::ops::conv) fn advance(&mut self, class: &ConvClass, panel_k: u32) {
        self.tap[2] += 1;
        self.linear_tap += class.tap_step[2];
        if self.tap[2] == class.taps[2] {
            self.tap[2] = 0;
            self.tap[1] += 1;
            self.linear_tap += class.tap_step[1] - class.taps[2] as i32 * class.tap_step[2];
            if self.tap[1] == class.taps[1] {
                self.tap[1] = 0;
                self.tap[0] += 1;
                self.linear_tap += class.tap_step[0] - class.taps[1] as i32 * class.tap_step[1];
                if self.tap[0] == class.taps[0] {
                    self.tap[0] = 0;
                    self.linear_tap = class.first_tap;
                    self.channel += panel_k;
                }
            }
        }
    }
}

/// Loads the positions of stage after stage, of tile after tile.
///
/// All threads of a warp compute where, so that addresses are computed once for all of them, and one queues the copies.
///
/// # Safety
/// As [`run`]; all threads of one warp.
#[inline(always)]
unsafe fn load_positions<F: Form, P: Product<R, S>, const R: usize, const S: usize>(
    form: &F,
    at: Address,
    mut ring: Ring,
) {
    let (p, tile) = (form.params(), P::TILE);
    let policy = tma::policy_of(p.keep != 0);
    let mut left = form.work(tile);
    while form.is_left(&left) {
        let (place, class, panels) = form.next(&mut left, at, tile);
        // By value: what is read through a pointer would be read again after every copy.
        let class = *class;
        let map = at.a_map(place.class);
        let (n, first) = position(place.m, class.extents);
        let base = |axis: usize| (first[axis] * p.step[axis]) as i32 + class.base[axis];
        let (d, h, w) = (base(0), base(1), base(2));
        let first_channel = place.group * p.channels;
        let is_ahead = reads_ahead(tile) && p.channels == 64 && p.a_access == access::LINEAR;
        let following_row = if is_ahead { form.following_row(&left, at, tile) } else { 0 };
        let mut panel = Panel::first_of(&class, panels, tile);
        let mut i = panels.begin;
        while i < panels.end {
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            let leads = warp::elect();
            let bar = ring.full();
            if leads {
                mbarrier::arrive_expect_bytes(bar, tile.a_bytes());
            }
            let mut k = 0;
            while k < tile.k_panels() {
                // Behind the last panel there are only zeros.
                let c = (first_channel + panel.channel) as i32;
                let to = ring.a() + k * tile.a_panel_bytes();
                let offset = |axis: usize| (panel.tap[axis] * class.tap_offset[axis]) as u16;
                if leads {
                    match p.a_access {
                        access::LINEAR => {
                            tma::load_2d_cached(to, map, bar, policy, [c, place.m as i32]);
                            if is_ahead {
                                tma::prefetch_2d_cached(map, policy, [c, following_row as i32]);
                            }
                        }
                        access::IM2COL_2D => {
                            tma::load_im2col_4d(to, map, bar, [c, w, h, n as i32], [offset(2), offset(1)])
                        }
                        _ => {
                            let offsets = [offset(2), offset(1), offset(0)];
                            tma::load_im2col_5d(to, map, bar, [c, w, h, d, n as i32], offsets)
                        }
                    }
                }
                panel.advance(&class, tile.panel_k);
                k += 1;
            }
            ring.advance();
            i += tile.k_panels();
        }
    }
}

/// Loads the filter's part of stage after stage into this block, or this block's share of it into all of the cluster.
///
/// # Safety
/// As [`load_positions`].
#[inline(always)]
unsafe fn load_filter<F: Form, P: Product<R, S>, const R: usize, const S: usize>(
    form: &F,
    at: Address,
    mut ring: Ring,
) {
    let (p, tile, map) = (form.params(), P::TILE, at.b_map());
    let part = rank(tile);
    let mut left = form.work(tile);
    while form.is_left(&left) {
        let (place, class, panels) = form.next(&mut left, at, tile);
        let class = *class;
        let first_k = place.group * p.group_k;
        let col = place.n + part * tile.b_part();
        let mut panel = Panel::first_of(&class, panels, tile);
        let mut i = panels.begin;
        while i < panels.end {
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            let leads = warp::elect();
            let bar = ring.full();
            if leads {
                let bytes = if P::B_IS_MN_MAJOR { tile.b_room() } else { tile.b_bytes() };
                mbarrier::arrive_expect_bytes(bar, bytes);
            }
            let load = |to: u32, at: [i32; 3]| {
                if tile.cluster > 1 {
                    tma::load_3d_multicast(to, map, bar, (1 << tile.cluster) - 1, at);
                } else {
                    tma::load_3d(to, map, bar, at);
                }
            };
            let mut k = 0;
            while k < tile.k_panels() {
                if leads && P::B_IS_MN_MAJOR {
                    let n_panels = tile.n_panels() / tile.cluster;
                    let mut i = 0;
                    while i < n_panels {
                        let number = part * n_panels + i;
                        // A panel of columns holds all 64 rows of the sum.
                        let to = ring.b() + number * PANEL_BYTES + k * (tile.panel_k * 128);
                        load(to, [(col + i * PANEL) as i32, panel.linear_tap, (first_k + panel.channel) as i32]);
                        i += 1;
                    }
                } else if leads {
                    let panel_bytes = tile.b_bytes() / tile.k_panels();
                    let to = ring.b() + k * panel_bytes + part * (panel_bytes / tile.cluster);
                    load(to, [panel.channel as i32, panel.linear_tap, (first_k + col) as i32]);
                }
                panel.advance(&class, tile.panel_k);
                k += 1;
            }
            ring.advance();
            i += tile.k_panels();
        }
    }
}

/// Computes tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<F: Form, P: Product<R, S>, E: Half, const R: usize, const S: usize>(
    form: &F,
    at: Address,
    mut ring: Ring,
    consumer: u32,
) {
    let tile = P::TILE;
    let mut left = form.work(tile);
    if tile.in_turns {
        if consumer > 0 {
            // The first consumer begins.
            arrive_named(TURN, 2 * WARPGROUP);
        }
        let (_, _, first) = form.next(&mut form.work(tile), at, tile);
        pass_over(&mut ring, first, consumer);
        form.pass_over(&mut left, tile, consumer);
    }
    while form.is_left(&left) {
        let (place, class, panels) = form.next(&mut left, at, tile);
        let [begin, end] = [panels.begin, panels.end].map(warp::uniform_register);
        let panels = Panels { begin, end, ..panels };
        let buffers = ring.base + tile.panels_at() + consumer * tile.out_panels * PANEL_BYTES;
        let out = Out::new(at, class, place, consumer, buffers);
        compute::<F, P, E, R, S>(form, &out, &mut ring, consumer, panels);
        if tile.in_turns {
            // The other one's, or behind the last.
            let (_, _, panels) = form.next(&mut left, at, tile);
            pass_over(&mut ring, panels, 1);
        }
    }
    // Another kernel's blocks take the shared memory over as soon as this block ends.
    tma::wait_group_read::<0>();
}

/// Leaves the stages of some panels, `times` over, to the other consumer.
///
/// Stage by stage, and without a condition: where the place in the ring is found by a division, or under a condition, the
/// assembler takes it for one that differs between threads, and each of them computes all addresses, which takes as long
/// as the products.
#[inline(always)]
fn pass_over(ring: &mut Ring, panels: Panels, times: u32) {
    let (mut panel, end) = (0, warp::uniform_register((panels.end - panels.begin) * times));
    while panel < end {
        ring.advance();
        panel += ring.tile.k_panels();
    }
}

/// Computes panels of one tile.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn compute<F: Form, P: Product<R, S>, E: Half, const R: usize, const S: usize>(
    form: &F,
    out: &Out<'_>,
    ring: &mut Ring,
    consumer: u32,
    panels: Panels,
) {
    let (p, tile) = (form.params(), P::TILE);
    let lane = thread_idx_x() % 32;
    // Rows of 128 bytes, or of 64 where a panel has 32 elements.
    let (row_bytes, swizzle) = if tile.panel_k == 64 { (128, Swizzle::B128) } else { (64, Swizzle::B64) };
    let first_row = if tile.in_turns { 0 } else { consumer * S as u32 * SUBTILE };
    if tile.in_turns {
        sync_named(TURN + consumer, 2 * WARPGROUP);
    }
    let a = descriptor(ring.base + first_row * row_bytes, 16, 8 * row_bytes, swizzle);
    let b = if P::B_IS_MN_MAJOR {
        descriptor(ring.base + tile.a_bytes(), PANEL_BYTES, SWIZZLE_PERIOD, Swizzle::B128)
    } else {
        descriptor(ring.base + tile.a_bytes(), 16, 8 * row_bytes, swizzle)
    };
    let products = |d: &mut [[f32; R]; S], ring: &mut Ring, accumulate: u32| {
        mbarrier::wait(ring.full(), ring.parity);
        P::multiply(d, ring.of_stage(a), ring.of_stage(b), accumulate);
    };
    let mut d: [[f32; R]; S] = core::mem::zeroed();
    let mut freed = ring.empty();
    if panels.begin < panels.end {
        // The first ones apart: they overwrite the sums, and nothing else sets them.
        products(&mut d, ring, 0);
        ring.advance();
    }
    // The condition above hides from the assembler that all threads have the same.
    [ring.stage, ring.parity] = [ring.stage, ring.parity].map(warp::uniform_register);
    let mut panel = panels.begin + tile.k_panels();
    while panel < panels.end {
        products(&mut d, ring, 1);
        Ring::release(tile, freed, lane);
        freed = ring.empty();
        ring.advance();
        panel += tile.k_panels();
    }
    if tile.in_turns {
        // The other one's products may queue behind ours.
        arrive_named(TURN + 1 - consumer, 2 * WARPGROUP);
    }
    // Also where there was none: the sums must be the compiler's again on every path.
    P::finish(&mut d);
    if panels.end > panels.begin {
        Ring::release(tile, freed, lane);
    }
    let own = form.settle::<P, R, S>(&mut d, out.place(), panels, consumer);
    if own == 0 {
        return;
    }
    let row = out.first_row() + first_row;
    subtile::<P, E, R, S, 0>(p, d.get_unchecked_mut(0), out, row, own);
    if S > 1 {
        subtile::<P, E, R, S, 1>(p, d.get_unchecked_mut(S - 1), out, row + SUBTILE, own);
    }
}
