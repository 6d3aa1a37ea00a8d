//! Convolutions of 3 × 3 taps whose groups are 1 to 32 channels wide, and of 5 × 5 taps and up to 8 channels but for `wgrad`, on
//! Hopper: rows are streamed through shared memory by the copy engine, and a warp takes each of them from there once for all
//! taps that meet it.
//!
//! A block keeps to a slice of 64 channels and goes from tile to tile: some columns of some images beside each other, row
//! after row. One warp brings the rows of the source that follow, and in `wgrad` those of dy, to a ring; the others have 16
//! channels and a strip of 16 positions each. The positions of a strip may lie in several images, since each lane of
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
//! and 16 channels, and those that move rows. Shared memory: dynamic, `GroupedTmaTile::smem_bytes`.

mod entry;
mod forward;
mod wgrad;

use crate::math::ring::{Outgoing, Ring};
use cuda_std::barrier::{fence_proxy_async_shared, sync_threads};
use cuda_std::thread::{block_dim_x, block_idx_x, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::{mbarrier, schedule, shared, warp};
use kernel_abi::ops::conv::grouped_tma::{
    ConvGroupedTmaParams, GROUPED_TMA_POSITION_BYTES, GROUPED_TMA_RESULTS, GROUPED_TMA_SLICE, GROUPED_TMA_STRIP,
    GroupedTmaForm, grouped_tma_movers, grouped_tma_warps,
};

/// Bytes of eight channels: what `ldmatrix` takes of a position.
const CHUNK_BYTES: u32 = 16;
/// Positions after which the swizzle repeats.
const SWIZZLE_ROWS: u32 = 8;
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
        p.tile.result_bytes(),
        GROUPED_TMA_RESULTS,
        barriers + 16 * p.tile.stages,
    );
    // Neighbouring blocks take neighbouring channels of the same positions.
    let (slab, slice) = p.slices.div_rem(block_idx_x());
    let first_channel = slice * GROUPED_TMA_SLICE;
    let left = p.channels - first_channel;
    let channels = if left < GROUPED_TMA_SLICE { left } else { GROUPED_TMA_SLICE };
    let parts = grouped_tma_warps(channels, width, form.wgrad);
    let strips = p.tile.strips();
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
        let behind = p.tile.target_at(form) + p.tile.positions() * GROUPED_TMA_POSITION_BYTES;
        let end_bytes = (strips * GROUPED_TMA_STRIP - p.tile.positions()) * GROUPED_TMA_POSITION_BYTES;
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
    if behind == 1 {
        load_rows(p, maps, source, share, form);
    } else if behind == grouped_tma_movers(form.wgrad) {
        store_rows(p, maps[1], results, share);
    }
    None
}

/// Brings row after row of a block's tiles.
///
/// # Safety
/// As [`begin`]; all threads of one warp.
#[inline(always)]
unsafe fn load_rows(
    p: &ConvGroupedTmaParams,
    maps: [MapAddress; 2],
    mut ring: Ring,
    share: Share,
    form: GroupedTmaForm,
) {
    let GroupedTmaForm { stride, wgrad, .. } = form;
    let leads = warp::elect();
    let source_bytes = p.tile.source_bytes(form);
    let target_bytes = p.tile.positions() * GROUPED_TMA_POSITION_BYTES;
    let channel = share.first_channel as i32;
    let mut index = share.slab;
    while index < p.n_tiles {
        let tile = Tile::new(p, index);
        let (first, end) = (tile.source_row(p, form), tile.source_rows(form));
        let image = tile.image as i32;
        let column = (tile.column * stride) as i32 - p.padding[1];
        let mut row = 0;
        while row < end {
            let line = first + row as i32;
            if wgrad || (line as u32) < p.source_rows {
                mbarrier::wait(ring.empty(), ring.parity ^ 1);
                if leads {
                    let target_row = row / stride;
                    let with_target = wgrad && row % stride == 0 && target_row < tile.rows;
                    let bytes = source_bytes + if with_target { target_bytes } else { 0 };
                    mbarrier::arrive_expect_bytes(ring.full(), bytes);
                    tma::load_4d(ring.at(), maps[0], ring.full(), [channel, column, line, image]);
                    if with_target {
                        let at = [channel, tile.column as i32, (tile.row + target_row) as i32, image];
                        tma::load_4d(ring.at() + p.tile.target_at(form), maps[1], ring.full(), at);
                    }
                }
                ring.advance();
            }
            row += 1;
        }
        index += p.slabs;
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

/// Where, in a stage, `ldmatrix` finds this lane's row: eight channels, from the `chunk`-th eight of the slice on, of what tap
/// `s` of a filter row meets at a position of a strip.
#[inline(always)]
fn window(p: &ConvGroupedTmaParams, form: GroupedTmaForm, strip: u32, position: u32, chunk: u32, s: u32) -> u32 {
    let mut position = strip * GROUPED_TMA_STRIP + position;
    if position >= p.tile.positions() {
        position = 0;
    }
    let (image, column) = p.columns.div_rem(position);
    swizzled(image * p.tile.source_columns(form) + column * form.stride + s, chunk)
}

/// Where eight channels of a position lie behind a place that is a multiple of the swizzle's period.
#[inline(always)]
fn swizzled(position: u32, chunk: u32) -> u32 {
    position * GROUPED_TMA_POSITION_BYTES + (chunk ^ position % SWIZZLE_ROWS) * CHUNK_BYTES
}

/// Which of `held` rows of the target the row of the source with this phase meets with its tap `r`, if any.
#[inline(always)]
const fn met<const STRIDE: usize, const HELD: usize>(phase: usize, r: usize) -> Option<usize> {
    let before = phase + HELD * STRIDE - r;
    if before % STRIDE == 0 { Some(before / STRIDE % HELD) } else { None }
}
