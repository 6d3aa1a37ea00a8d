//! Convolutions of 3 × 3 taps whose groups are 1 to 32 channels wide, and of 5 × 5 and 7 × 7 taps and up to 8 channels, on
//! Hopper: rows are streamed through shared memory by the copy engine, and a warp takes each of them from there once for all
//! taps that meet it.
//!
//! A block keeps to a slice of 64 channels, or 32, and goes from tile to tile: some columns of some images beside each other, row
//! after row. One warp brings the rows of the source that follow, and in `wgrad` those of dy, to a ring; the others have 16
//! channels and a strip of 16 positions each, or, of more than 3 × 3 taps, 8 channels and a strip of 32, for which they hold half
//! as many of the filter's elements, or of its gradient's. The positions of a strip may lie in several images, since each lane of
//! `ldmatrix` names its own. A row of the source meets up to as many rows of the target as the filter has, whose sums,
//! or whose elements of dy, a warp keeps in registers: of 3 × 3 taps it loads three shifts of the row, where taking target row
//! after target row would load nine.
//!
//! Zeros outside of the image come with the copies.
//!
//! In `fprop` and `dgrad` whole rows of results leave through shared memory by the copy engine, by another warp: what a warp
//! has are 32 bytes a position, and storing those took longer.
//!
//! Grid: `slabs · slices` blocks, slices fastest: they meet the same lines of memory at about the same time. Where the channels
//! that are left had blocks of their own number, 96 channels of stride 2 took half as long again. Block: a warp for each strip
//! and its channels, and those that move rows. Shared memory: dynamic, `GroupedTmaTile::smem_bytes`.

mod entry;
mod forward;
mod narrow_wgrad;
mod wgrad;

use crate::math::ring::{Outgoing, Ring};
use cuda_std::barrier::{fence_proxy_async_shared, sync_threads};
use cuda_std::thread::{block_dim_x, block_idx_x, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::{mbarrier, schedule, shared, warp};
use kernel_abi::ops::conv::grouped_tma::{ConvGroupedTmaParams, GROUPED_TMA_RESULTS, GroupedTmaForm};

/// Bytes of eight channels: what `ldmatrix` takes of a position.
const CHUNK_BYTES: u32 = 16;
/// Bytes after which the swizzle turns the next chunks over.
const LINE_BYTES: u32 = 128;
/// What places in shared memory are aligned to.
const SWIZZLE_PERIOD: u32 = 1024;

/// What a block works on.
#[derive(Clone, Copy)]
struct Share {
    first_channel: u32,
    slab: u32,
    /// Which warp this is.
    warp: u32,
    /// Warps that compute.
    workers: u32,
    /// Those of a strip.
    parts: u32,
}

/// A tile: where it begins, and its rows.
struct Tile {
    image: u32,
    row: u32,
    column: u32,
    rows: u32,
}

impl Tile {
    #[inline(always)]
    fn new(p: &ConvGroupedTmaParams, index: u32) -> Self {
        let (rest, column) = p.column_tiles.div_rem(index);
        let (image, band) = p.bands.div_rem(rest);
        let row = band * p.tile.rows;
        let left = p.target_dims[0] - row;
        Tile {
            image: image * p.tile.images,
            row,
            column: column * p.tile.columns,
            rows: if left < p.tile.rows { left } else { p.tile.rows },
        }
    }

    /// Rows of the source that it meets.
    #[inline(always)]
    fn source_rows(&self, form: GroupedTmaForm) -> u32 {
        (self.rows - 1) * form.stride + form.taps
    }

    /// The first of them in the image; any number.
    #[inline(always)]
    fn source_row(&self, p: &ConvGroupedTmaParams, form: GroupedTmaForm) -> i32 {
        (self.row * form.stride) as i32 - p.padding[0]
    }

    /// Whether the copy engine brings the `row`-th of them, and a row of dy with it; `first` is the first.
    #[inline(always)]
    fn brings(&self, p: &ConvGroupedTmaParams, form: GroupedTmaForm, first: i32, row: u32) -> (bool, bool) {
        let source = ((first + row as i32) as u32) < p.source_rows;
        (source, form.wgrad && row % form.stride == 0 && row / form.stride < self.rows)
    }
}

/// What a warp that computes has to do with.
struct Work {
    share: Share,
    /// Rows of the source, and of results.
    source: Ring,
    results: Ring,
}

/// Prepares the rings, where stages' ends that no copy writes are cleared, and has warps move rows. Returns to those that have
/// something to compute: the last slice's channels may be few.
///
/// # Safety
/// As [`forward::run`] and [`wgrad::run`]; all threads call it first.
#[inline(always)]
unsafe fn begin(p: &ConvGroupedTmaParams, maps: [MapAddress; 2], width: u32, form: GroupedTmaForm) -> Option<Work> {
    schedule::launch_dependents();
    let base = shared::dynamic_address().next_multiple_of(SWIZZLE_PERIOD);
    let barriers = base + p.tile.barriers_at(form);
    let bytes = p.tile.stage_bytes(form);
    let source = Ring::new(base, bytes, p.tile.stages, barriers);
    let results = Ring::new(
        base + p.tile.results_at(form),
        p.tile.target_bytes(form),
        GROUPED_TMA_RESULTS,
        barriers + 16 * p.tile.stages,
    );
    // Neighbouring blocks take neighbouring channels of the same positions.
    let (slab, slice) = p.slices.div_rem(block_idx_x());
    let first_channel = slice * p.tile.channels;
    let channels = p.tile.channels.min(p.channels - first_channel);
    let parts = form.warps(channels, width);
    let strips = p.tile.strips(form);
    let warp = warp::uniform(thread_idx_x() / 32);
    let share = Share { first_channel, slab, warp, workers: strips * parts, parts };
    if thread_idx_x() == 0 {
        tma::prefetch_map(maps[0]);
        tma::prefetch_map(maps[1]);
        source.init(1, share.workers);
        if !form.wgrad {
            results.init(share.workers, 1);
        }
        mbarrier::fence_init();
    }
    if form.wgrad {
        // Positions that fill up the last strip count nothing.
        let behind = p.tile.target_at(form) + p.tile.positions() * p.tile.position_bytes();
        let end_bytes = p.tile.target_bytes(form) - p.tile.positions() * p.tile.position_bytes();
        let mut stage = 0;
        while stage < p.tile.stages {
            let mut zero = thread_idx_x() * 16;
            while zero < end_bytes {
                shared::store_x4(base + stage * bytes + behind + zero, [0; 4]);
                zero += block_dim_x() * 16;
            }
            stage += 1;
        }
        fence_proxy_async_shared();
    }
    sync_threads();
    schedule::wait_for_predecessors();
    if warp < share.workers {
        return Some(Work { share, source, results });
    }
    let behind = block_dim_x() / 32 - warp;
    if behind <= form.movers() {
        if behind == 1 {
            let mut loader = Loader::new(p, maps, source, share);
            while loader.is_before_end(p) {
                loader.bring(p, form);
            }
        } else {
            store_rows(p, maps[1], results, share);
        }
    }
    None
}

/// Brings row after row of a block's tiles.
struct Loader {
    maps: [MapAddress; 2],
    ring: Ring,
    share: Share,
    index: u32,
    tile: Tile,
    row: u32,
}

impl Loader {
    #[inline(always)]
    fn new(p: &ConvGroupedTmaParams, maps: [MapAddress; 2], ring: Ring, share: Share) -> Self {
        Loader { maps, ring, share, index: share.slab, tile: Tile::new(p, share.slab), row: 0 }
    }

    #[inline(always)]
    fn is_before_end(&self, p: &ConvGroupedTmaParams) -> bool {
        self.index < p.n_tiles
    }

    /// Brings the next row that there is, once its place is free.
    ///
    /// # Safety
    /// As [`begin`]; all threads of one warp, which has not come to the end.
    #[inline(always)]
    unsafe fn bring(&mut self, p: &ConvGroupedTmaParams, form: GroupedTmaForm) {
        let mut is_brought = false;
        while !is_brought && self.is_before_end(p) {
            let tile = &self.tile;
            let first = tile.source_row(p, form);
            let (source, target) = tile.brings(p, form, first, self.row);
            is_brought = source || target;
            if is_brought {
                let (at, full) = (self.ring.at(), self.ring.full());
                mbarrier::wait(self.ring.empty(), self.ring.parity ^ 1);
                if warp::elect() {
                    let source_bytes = if source { p.tile.source_bytes(form) } else { 0 };
                    let target_bytes = if target { p.tile.positions() * p.tile.position_bytes() } else { 0 };
                    mbarrier::arrive_expect_bytes(full, source_bytes + target_bytes);
                    let (channel, image) = (self.share.first_channel as i32, tile.image as i32);
                    if source {
                        let column = (tile.column * form.stride) as i32 - p.padding[1];
                        tma::load_4d(at, self.maps[0], full, [channel, column, first + self.row as i32, image]);
                    }
                    if target {
                        let row = (tile.row + self.row / form.stride) as i32;
                        let at = at + p.tile.target_at(form);
                        tma::load_4d(at, self.maps[1], full, [channel, tile.column as i32, row, image]);
                    }
                }
                self.ring.advance();
            }
            self.row += 1;
            if self.row == tile.source_rows(form) {
                self.index += p.slabs;
                self.tile = Tile::new(p, self.index);
                self.row = 0;
            }
        }
    }
}

/// Takes row after row of a block's results away.
///
/// # Safety
/// As [`begin`]; all threads of one warp.
#[inline(always)]
unsafe fn store_rows(p: &ConvGroupedTmaParams, map: MapAddress, results: Ring, share: Share) {
    let mut outgoing = Outgoing::new(results);
    let mut index = share.slab;
    while index < p.n_tiles {
        let tile = Tile::new(p, index);
        let mut row = 0;
        while row < tile.rows {
            let at = [share.first_channel, tile.column, tile.row + row, tile.image].map(
                #[inline(always)]
                |first| first as i32,
            );
            outgoing.send(map, at);
            row += 1;
        }
        index += p.slabs;
    }
    outgoing.finish();
}

/// Where a thread of `wgrad` writes its sums of two channels' taps.
#[derive(Clone, Copy)]
struct FilterPart {
    /// Whether the channels are of one group.
    is_of_group: bool,
    first: *mut f32,
    /// Elements from a tap to the next.
    step: i32,
}

impl FilterPart {
    /// Of a channel of dy and one of x, in the block's part of the gradient; groups are `width` wide, a power of two.
    #[inline(always)]
    fn new(p: &ConvGroupedTmaParams, slab: u32, taps: u32, width: u32, [to, from]: [u32; 2]) -> Self {
        let rank = width - 1;
        let slab = u64::from(slab) * u64::from(p.channels) * u64::from(taps * width);
        let element = to * taps * width + (from & rank);
        let last = (taps - 1) * width;
        let (element, step) = if p.flip != 0 { (element + last, -(width as i32)) } else { (element, width as i32) };
        let first = (p.partials as *mut f32).wrapping_add(slab as usize).wrapping_add(element as usize);
        FilterPart { is_of_group: to < p.channels && from & !rank == to & !rank, first, step }
    }

    /// # Safety
    /// The channels are of one group, and the host passes partial sums for all slabs.
    #[inline(always)]
    unsafe fn write(self, tap: u32, sum: f32) {
        *self.first.wrapping_offset((tap as i32 * self.step) as isize) = sum;
    }
}

/// Where, in a stage, `ldmatrix` finds this lane's row: eight channels, from the `chunk`-th eight of the slice on, of what tap
/// `s` of a filter row meets at a position of a tile's row.
#[inline(always)]
fn window(p: &ConvGroupedTmaParams, form: GroupedTmaForm, mut position: u32, chunk: u32, s: u32) -> u32 {
    if position >= p.tile.positions() {
        position = 0;
    }
    let (image, column) = p.columns.div_rem(position);
    swizzled(p, image * p.tile.source_columns(form) + column * form.stride + s, chunk)
}

/// Where eight channels of a position lie behind a place that is a multiple of the swizzle's period.
#[inline(always)]
fn swizzled(p: &ConvGroupedTmaParams, position: u32, chunk: u32) -> u32 {
    let first = position * p.tile.position_bytes();
    let turned = first / LINE_BYTES % (p.tile.channels / 8);
    first + (chunk ^ turned) * CHUNK_BYTES
}

/// Which of `held` rows of the target the row of the source with this phase meets with its tap `r`, if any.
#[inline(always)]
const fn met<const STRIDE: usize, const HELD: usize>(phase: usize, r: usize) -> Option<usize> {
    let before = phase + HELD * STRIDE - r;
    if before % STRIDE == 0 { Some(before / STRIDE % HELD) } else { None }
}
