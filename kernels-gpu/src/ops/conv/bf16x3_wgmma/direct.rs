//! `fprop` and `dgrad` without a workspace: the filter is taken apart in the block.
//!
//! Grid and stages are those of [`gather`](super::gather). Block: 512 threads, warpgroup 0 loads, warpgroup 1 takes the
//! filter apart, the others compute. Shared memory: dynamic, `ConvTile::smem_bytes`: the stages, buffers for the filter's
//! parts, and barriers.
//!
//! The second warpgroup reads the filter's tile of every stage as it lies, of any strides, and writes its parts where the consumers
//! read them. A thread has 16 channels of a column at a time, in registers from one stage to the next: those of the next
//! stage are on their way while those of this one are taken apart. Where a tile has fewer columns than that makes work for
//! a warpgroup, its warps take the stages in turn.

use super::gather::{consume, produce};
use super::{
    Buffer, COLUMN_BYTES, CONSUMER_REGISTERS, CONVERTER_REGISTERS, LOADER_REGISTERS, PartsProduct, Sixteen,
    place_of_sixteen, store_sixteen,
};
use crate::ops::conv::im2col_wgmma::gather::{Address, Panel, Tiles, k_panels};
use crate::ops::conv::im2col_wgmma::{Ring, WARPGROUP, warpgroup};
use cuda_std::barrier::fence_proxy_async_shared;
use cuda_std::memory::{load_x1, load_x4};
use cuda_std::thread::thread_idx_x;
use cuda_std::{mbarrier, schedule, tma, warp};
use kernel_abi::ops::conv::bf16x3_wgmma::{ConvFilterSource, ConvPartsDirectParams, PART_CHUNK, PARTS_PANEL};
use kernel_abi::ops::conv::im2col_wgmma::{ConvClass, ConvGatherParams, ConvTile, GatherPlace, access};

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches `TILE.threads()` threads with `TILE.smem_bytes()`
/// bytes of shared memory.
#[inline(always)]
pub(super) unsafe fn run<P: PartsProduct<R>, const R: usize, const S: usize>(p: &ConvPartsDirectParams, at: Address) {
    let ring = Ring::new(P::TILE);
    if thread_idx_x() == 0 {
        let mut class = 0;
        while class < p.gather.gather.n_classes {
            tma::prefetch_map(at.a_map(class));
            class += 1;
        }
    }
    ring.start();
    // Two pieces a thread need more registers, and consumers of 64 rows each have some to spare.
    let two = pieces(P::TILE) > 1;
    let warpgroup = warpgroup();
    if warpgroup == 0 {
        schedule::release_registers::<LOADER_REGISTERS>();
        if thread_idx_x() == 0 {
            produce::<P, R>(&p.gather, at, ring);
        }
    } else if warpgroup == 1 {
        if two {
            schedule::release_registers::<{ CONVERTER_REGISTERS + 16 }>();
        } else {
            schedule::release_registers::<CONVERTER_REGISTERS>();
        }
        convert(p, at, ring);
    } else {
        if two {
            schedule::acquire_registers::<{ CONSUMER_REGISTERS - 8 }>();
        } else {
            schedule::acquire_registers::<CONSUMER_REGISTERS>();
        }
        consume::<P, R, S>(&p.gather, at, ring, warpgroup - 2);
    }
}

/// Stage after stage, of tile after tile.
struct Cursor<'a> {
    p: &'a ConvGatherParams,
    at: Address,
    tile: ConvTile,
    tiles: Tiles,
    place: GatherPlace,
    class: ConvClass,
    panel: Panel,
    /// Stages of the tile from this one on; 0 behind the last tile.
    left: u32,
}

impl<'a> Cursor<'a> {
    /// # Safety
    /// As [`convert`].
    #[inline(always)]
    unsafe fn first(p: &'a ConvGatherParams, at: Address, tile: ConvTile) -> Self {
        let class = *at.class(0);
        let place = GatherPlace { class: 0, m: 0, n: 0, group: 0 };
        let mut this =
            Cursor { p, at, tile, tiles: Tiles::new(tile), place, class, panel: Panel::first(&class), left: 0 };
        this.begin_tile();
        this
    }

    #[inline(always)]
    fn is_there(&self) -> bool {
        self.left > 0
    }

    /// Goes to the first stage of the next tile that has any.
    ///
    /// # Safety
    /// As [`convert`].
    #[inline(always)]
    unsafe fn begin_tile(&mut self) {
        while self.left == 0 && self.tiles.is_left(self.p) {
            let (place, class) = self.tiles.next(self.p, self.at, self.tile);
            (self.place, self.class) = (place, *class);
            self.panel = Panel::first(&self.class);
            self.left = k_panels(self.p, &self.class, self.tile);
        }
    }

    /// Goes `n` stages on.
    ///
    /// # Safety
    /// As [`convert`].
    #[inline(always)]
    unsafe fn advance(&mut self, n: u32) {
        let mut i = 0;
        while i < n && self.left > 0 {
            self.panel.advance(&self.class, self.tile.panel_k);
            self.left -= 1;
            self.begin_tile();
            i += 1;
        }
    }
}

/// What a thread has of a stage.
#[derive(Clone, Copy)]
struct Piece {
    column: u32,
    /// Its first channel in the stage.
    channel: u32,
    /// Where it lies in a part, as it lies swizzled.
    to: u32,
}

impl Piece {
    /// Piece `index` of a stage.
    #[inline(always)]
    fn new(source: &ConvFilterSource, tile: ConvTile, index: u32) -> Self {
        let chunks = PARTS_PANEL / PART_CHUNK;
        let (column, chunk) = if source.rows_first != 0 {
            (index % tile.gemm_n, index / tile.gemm_n)
        } else {
            (index / chunks, index % chunks)
        };
        Piece { column, channel: chunk * PART_CHUNK, to: place_of_sixteen(column, chunk) }
    }

    /// Reads it; zeros where there is nothing.
    ///
    /// # Safety
    /// As [`convert`].
    #[inline(always)]
    unsafe fn load(self, source: &ConvFilterSource, cursor: &Cursor<'_>) -> Sixteen {
        let p = cursor.p;
        let (row, channel) = (cursor.place.n + self.column, cursor.panel.channel + self.channel);
        let (inside, offset) = if cursor.tile.subtiles() > 1 && p.out_access == access::SPREAD {
            spread(source, p, row, &cursor.panel)
        } else {
            let in_group = i64::from(cursor.place.group) * source.group_stride + i64::from(row) * source.row_stride;
            (true, in_group + i64::from(cursor.panel.linear_tap) * source.tap_stride)
        };
        let is_there = cursor.is_there() && inside && row < p.gemm_n && channel < p.channels;
        let left = if is_there { p.channels - channel } else { 0 };
        let step = source.channel_stride;
        let from = (source.from as *const u32).offset((offset + i64::from(channel) * step) as isize);
        let mut held = [[0; 4]; 4];
        if source.load_bytes == 16 {
            let quad = |i: u32| if 4 * i < left { load_x4(from.add(4 * i as usize)) } else { [0; 4] };
            held = [quad(0), quad(1), quad(2), quad(3)];
        } else if left >= PART_CHUNK {
            let one = |i: i64| load_x1(from.offset((i * step) as isize));
            let quad = |i: i64| [one(4 * i), one(4 * i + 1), one(4 * i + 2), one(4 * i + 3)];
            held = [quad(0), quad(1), quad(2), quad(3)];
        } else if left > 0 {
            let one = |i: i64| if (i as u32) < left { load_x1(from.offset((i * step) as isize)) } else { 0 };
            let quad = |i: i64| [one(4 * i), one(4 * i + 1), one(4 * i + 2), one(4 * i + 3)];
            held = [quad(0), quad(1), quad(2), quad(3)];
        }
        held
    }
}

/// Whether a column that is a position and a channel meets a tap at a place of the window, and where that lies.
#[inline(always)]
fn spread(source: &ConvFilterSource, p: &ConvGatherParams, column: u32, panel: &Panel) -> (bool, i64) {
    let (rest, c) = p.spread[2].div_rem(column);
    let (a, b) = p.spread[1].div_rem(rest);
    let tap = |axis: usize, position: u32| {
        let scaled = source.base[axis] + position as i32 - panel.tap[1 + axis] as i32 * source.step[axis];
        let (tap, rest) = source.dilation[axis].div_rem(scaled as u32);
        (scaled >= 0 && rest == 0 && tap < source.taps[axis], i64::from(tap))
    };
    let ((meets_h, r), (meets_w, s)) = (tap(0, a), tap(1, b));
    let offset = i64::from(c) * source.row_stride + r * source.tap_strides[0] + s * source.tap_strides[1];
    (meets_h && meets_w, offset)
}

/// Pieces of a stage that a thread has.
#[inline(always)]
const fn pieces(tile: ConvTile) -> u32 {
    (tile.gemm_n * (PARTS_PANEL / PART_CHUNK)).div_ceil(WARPGROUP)
}

/// Takes the filter apart, stage after stage, of tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn convert(p: &ConvPartsDirectParams, at: Address, ring: Ring) {
    let (tile, source) = (ring.tile, &p.filter);
    let thread = thread_idx_x() % WARPGROUP;
    let lane = thread % 32;
    let teams = tile.filter_teams();
    let team = warp::uniform(thread / (WARPGROUP / teams));
    let first = thread % (WARPGROUP / teams);
    let two = pieces(tile) > 1;
    let (piece, second) = (Piece::new(source, tile, first), Piece::new(source, tile, first + WARPGROUP));
    let part_bytes = tile.gemm_n * COLUMN_BYTES;
    let mut cursor = Cursor::first(&p.gather.gather, at, tile);
    let mut buffer = Buffer::FIRST;
    let mut i = 0;
    while i < team {
        cursor.advance(1);
        buffer.advance(tile);
        i += 1;
    }
    let mut held = piece.load(source, &cursor);
    let mut held_second = if two { second.load(source, &cursor) } else { [[0; 4]; 4] };
    while cursor.is_there() {
        mbarrier::wait(ring.parts_empty(buffer.index), buffer.parity ^ 1);
        let to = buffer.at(&ring);
        cursor.advance(teams);
        // Quads are four neighbours, whose halves lie apart: see `part_channel`.
        store_sixteen(held, to + piece.to, part_bytes);
        held = piece.load(source, &cursor);
        if two {
            store_sixteen(held_second, to + second.to, part_bytes);
            held_second = second.load(source, &cursor);
        }
        // The products read through another proxy.
        fence_proxy_async_shared();
        warp::sync_warp();
        if lane == 0 {
            mbarrier::arrive(ring.parts_full(buffer.index));
        }
        let mut i = 0;
        while i < teams {
            buffer.advance(tile);
            i += 1;
        }
    }
}
