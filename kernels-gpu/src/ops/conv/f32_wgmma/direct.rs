//! `fprop` and `dgrad` without a workspace: the filter is taken apart in the block.
//!
//! Grid and stages are those of [`gather`](super::gather). Block: 512 threads, warpgroup 0 loads, warpgroup 1 takes the
//! filter apart, the others compute. Shared memory: dynamic, `ConvTile::smem_bytes`: the stages, buffers for the filter's
//! parts, barriers, and what the second warpgroup has copied of the filter.
//!
//! The second warpgroup reads the filter's tile of every stage as it lies, of any strides, and writes its parts where the
//! consumers read them. Each thread copies what it will take apart, two stages ahead, to shared memory of its own, so that
//! nobody else waits for it: 16 channels of one column or two, or where columns lie side by side, eight channels of four
//! columns. Where a tile has fewer columns than that makes work for a warpgroup, its warps take the stages in turn.

use super::gather::{consume, produce};
use super::scaled::{larger, store_columns};
use super::{
    Buffer, COLUMN_BYTES, CONSUMER_REGISTERS, CONVERTER_REGISTERS, LOADER_REGISTERS, PartsProduct, Sixteen, halves,
    place_of_sixteen,
};
use crate::ops::conv::im2col_wgmma::gather::{Address, Panel, Tiles, k_panels};
use crate::ops::conv::im2col_wgmma::{Ring, WARPGROUP, warpgroup};
use cuda_std::barrier::fence_proxy_async_shared;
use cuda_std::thread::thread_idx_x;
use cuda_std::{cp_async, mbarrier, schedule, shared, tma, warp};
use kernel_abi::ops::conv::f32_wgmma::{ConvFilterSource, ConvPartsDirectParams, GROUP, PART_CHUNK, PARTS_PANEL, WARP};
use kernel_abi::ops::conv::im2col_wgmma::{ConvClass, ConvGatherParams, ConvTile, FILTER_COPIES, GatherPlace, access};

/// Registers of a thread that takes the filter apart: it keeps more of where it stands than one whose operand is loaded
/// for it, and the loader has one map less.
const READER_REGISTERS: u32 = CONVERTER_REGISTERS + 8;

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
    ring.start(1);
    let warpgroup = warpgroup();
    if warpgroup == 0 {
        schedule::release_registers::<{ LOADER_REGISTERS - 8 }>();
        if thread_idx_x() == 0 {
            produce::<P, R>(&p.gather, at, ring);
        }
    } else if warpgroup == 1 {
        schedule::release_registers::<READER_REGISTERS>();
        convert(p, at, ring);
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
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
    class: &'a ConvClass,
    panel: Panel,
    /// Stages of the tile from this one on; 0 behind the last tile.
    left: u32,
    /// Tiles begun.
    begun: u32,
}

impl<'a> Cursor<'a> {
    /// # Safety
    /// As [`convert`].
    #[inline(always)]
    unsafe fn first(p: &'a ConvGatherParams, at: Address, tile: ConvTile) -> Self {
        let class = at.class(0);
        let place = GatherPlace { class: 0, m: 0, n: 0, group: 0 };
        let mut this = Cursor {
            p,
            at,
            tile,
            tiles: Tiles::new(tile),
            place,
            class,
            panel: Panel::first(&class),
            left: 0,
            begun: 0,
        };
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
            (self.place, self.class) = (place, class);
            self.panel = Panel::first(self.class);
            self.left = k_panels(self.p, self.class, self.tile);
            self.begun += 1;
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
            self.panel.advance(self.class, self.tile.panel_k);
            self.left -= 1;
            self.begin_tile();
            i += 1;
        }
    }
}

/// What a thread has of every stage: a piece is 16 channels of a column, and two pieces may be eight channels of four
/// columns instead. Registers are few: what is needed once a tile is found anew.
struct Own<'a> {
    source: &'a ConvFilterSource,
    tile: ConvTile,
    /// Four columns lie side by side, and are copied at once.
    across: bool,
    /// Where its first eight lies in a part.
    to: u32,
    /// Its copies.
    raw: u32,
    /// Where the pieces lie in the first stage of a tile.
    from: [u64; 2],
    /// Channels from the pieces' first ones on; none where their columns are not there.
    channels: [u32; 2],
    /// The tile these are of.
    begun: u32,
}

/// Distance between the sixteens of bytes of a thread's copy: all threads' lie side by side.
const QUAD_STEP: u32 = WARPGROUP * 16;

/// The column of a thread's piece, the sixteen of its channels, and which half of them where it copies columns across.
#[inline(always)]
fn piece(source: &ConvFilterSource, tile: ConvTile, across: bool, i: u32) -> (u32, u32, u32) {
    let chunks = PARTS_PANEL / PART_CHUNK;
    let in_team = WARPGROUP / tile.filter_teams();
    let thread = schedule::opaque(thread_idx_x()) % in_team;
    let index = thread + i * in_team;
    if across {
        (thread / 4 * 4, thread % 4 / 2, thread % 2)
    } else if source.rows_first != 0 {
        (index / WARP * GROUP + index % GROUP, index % WARP / GROUP, 0)
    } else {
        (index / chunks, index % chunks, 0)
    }
}

impl<'a> Own<'a> {
    #[inline(always)]
    fn new(source: &'a ConvFilterSource, ring: &Ring) -> Self {
        let tile = ring.tile;
        let across = tile.filter_pieces() > 1 && source.rows_first != 0 && source.load_bytes == 16;
        let (column, sixteen, half) = piece(source, tile, across, 0);
        let to = place_of_sixteen(column, sixteen) ^ (half * 16);
        let raw = ring.base + tile.filter_copies_at() + thread_idx_x() % WARPGROUP * 16;
        Own { source, tile, across, to, raw, from: [0; 2], channels: [0; 2], begun: 0 }
    }

    /// Finds where the pieces lie in the cursor's tile.
    #[inline(always)]
    fn enter(&mut self, cursor: &Cursor<'_>) {
        let source = self.source;
        let group = i64::from(cursor.place.group) * source.group_stride;
        let find = |i: u32| {
            let (column, sixteen, half) = piece(source, self.tile, self.across, i);
            let (row, channel) = (cursor.place.n + column, sixteen * PART_CHUNK + 2 * half);
            let elements = group + i64::from(row) * source.row_stride + i64::from(channel) * source.channel_stride;
            let is_there = row < cursor.p.gemm_n && channel < cursor.p.channels;
            let channels = if is_there { cursor.p.channels - channel } else { 0 };
            (source.from.wrapping_add((elements * 4) as u64), channels)
        };
        let (first, second) = (find(0), find(1));
        (self.from, self.channels) = ([first.0, second.0], [first.1, second.1]);
        self.begun = cursor.begun;
    }

    /// Begins to copy the cursor's stage, as a group of its own; zeros where there is nothing.
    ///
    /// # Safety
    /// As [`convert`].
    #[inline(always)]
    unsafe fn copy(&mut self, cursor: &Cursor<'_>, slot: u32) {
        if cursor.is_there() {
            if self.begun != cursor.begun {
                self.enter(cursor);
            }
            let source = self.source;
            let panel = &cursor.panel;
            let channel = i64::from(panel.channel) * source.channel_stride;
            let stage = ((i64::from(panel.linear_tap) * source.tap_stride + channel) * 4) as u64;
            let to = self.raw + slot * self.tile.filter_copy_bytes();
            if self.across {
                // The eight are two of each four.
                let mut at = self.from[0].wrapping_add(stage);
                let mut i = 0;
                while i < 8 {
                    let channel = panel.channel + i / 2 * 4 + i % 2;
                    let bytes = if channel < self.channels[0] { 16 } else { 0 };
                    cp_async::copy_x4(to + i * QUAD_STEP, at as *const u8, bytes);
                    let channels = if i % 2 == 0 { 1 } else { 3 };
                    at = at.wrapping_add((channels * source.channel_stride * 4) as u64);
                    i += 1;
                }
            } else {
                self.copy_piece(cursor, 0, stage, to);
                if self.tile.filter_pieces() > 1 {
                    self.copy_piece(cursor, 1, stage, to + 4 * QUAD_STEP);
                }
            }
        }
        cp_async::commit_group();
    }

    /// # Safety
    /// As [`convert`].
    #[inline(always)]
    unsafe fn copy_piece(&self, cursor: &Cursor<'_>, i: usize, stage: u64, to: u32) {
        let (p, source) = (cursor.p, self.source);
        let first = cursor.panel.channel;
        let (mut channels, mut from) = (self.channels[i], self.from[i].wrapping_add(stage));
        if self.tile.subtiles() > 1 && p.out_access == access::SPREAD {
            let (column, sixteen, _) = piece(source, self.tile, false, i as u32);
            let (inside, offset) = spread(source, p, cursor.place.n + column, &cursor.panel);
            let channel = i64::from(first + sixteen * PART_CHUNK) * source.channel_stride;
            from = source.from.wrapping_add(((offset + channel) * 4) as u64);
            channels = if inside { channels } else { 0 };
        }
        if source.load_bytes == 16 && source.rows_first == 0 {
            let mut quad = 0;
            while quad < 4 {
                let bytes = if first + 4 * quad < channels { 16 } else { 0 };
                let from = from.wrapping_add(u64::from(16 * quad)) as *const u8;
                cp_async::copy_x4_cached(to + quad * QUAD_STEP, from, bytes);
                quad += 1;
            }
        } else {
            let mut one = 0;
            while one < PART_CHUNK {
                let bytes = if first + one < channels { 4 } else { 0 };
                cp_async::copy_x1(to + one / 4 * QUAD_STEP + one % 4 * 4, from as *const u8, bytes);
                from = from.wrapping_add((source.channel_stride * 4) as u64);
                one += 1;
            }
        }
    }

    /// Takes what has been copied apart, a half after the other, and writes the parts to a buffer.
    ///
    /// # Safety
    /// As [`convert`]; the copy is there, and nobody reads the buffer.
    #[inline(always)]
    unsafe fn take_apart(&self, slot: u32, buffer: u32, factors: u32) {
        let from = self.raw + slot * self.tile.filter_copy_bytes();
        let part_bytes = self.tile.gemm_n * COLUMN_BYTES;
        let to = buffer + self.to;
        let in_team = schedule::opaque(thread_idx_x()) % (WARPGROUP / self.tile.filter_teams());
        let lane = in_team % WARP;
        // SAFETY: the caller's promise.
        let quad = |i: u32| unsafe { shared::load_x4(from + i * QUAD_STEP) };
        if self.across {
            let share = #[inline(always)]
            |own: [f32; 4]| {
                own.map(|own| {
                    let own = larger(own, warp::shuffle_xor_f32(own, 1));
                    larger(own, warp::shuffle_xor_f32(own, 2))
                })
            };
            let quads = [quad(0), quad(1), quad(2), quad(3), quad(4), quad(5), quad(6), quad(7)];
            // Every other two columns lie swizzled by one more.
            let to = [to, to + COLUMN_BYTES, (to + 2 * COLUMN_BYTES) ^ 16, (to + 3 * COLUMN_BYTES) ^ 16];
            let column = |i: usize| {
                [quads[0][i], quads[1][i], quads[2][i], quads[3][i], quads[4][i], quads[5][i], quads[6][i], quads[7][i]]
            };
            let columns = [column(0), column(1), column(2), column(3)];
            let stored = store_columns(&columns, &to, part_bytes, share);
            if lane % 4 == 0 {
                shared::store_x4(factors + in_team / 4 * 16, stored.columns.map(f32::to_bits));
            }
            if lane % GROUP == 0 {
                shared::store_f32(factors + (self.tile.gemm_n + in_team / GROUP) * 4, stored.group);
            }
            return;
        }
        // Two lanes have a column.
        let other = if self.source.rows_first != 0 { GROUP } else { 1 };
        let share = #[inline(always)]
        |[a, b]: [f32; 2]| {
            let own = larger(a, b);
            [larger(own, warp::shuffle_xor_f32(own, other)); 2]
        };
        // SAFETY: the caller's promise.
        let store = #[inline(always)]
        |i: u32, sixteen: Sixteen, to: [u32; 2]| unsafe {
            let stored = store_columns(&halves(sixteen), &to, part_bytes, share);
            let group = in_team / WARP + i * (WARPGROUP / self.tile.filter_teams() / WARP);
            let column = group * GROUP + if other == GROUP { lane % GROUP } else { lane / 2 };
            if lane & other == 0 {
                shared::store_f32(factors + column * 4, stored.columns[0]);
            }
            if lane == 0 {
                shared::store_f32(factors + (self.tile.gemm_n + group) * 4, stored.group);
            }
        };
        store(0, [quad(0), quad(1), quad(2), quad(3)], [to, to ^ 16]);
        if self.tile.filter_pieces() > 1 {
            let to = to + WARPGROUP / self.tile.filter_teams() / 2 * COLUMN_BYTES;
            store(1, [quad(4), quad(5), quad(6), quad(7)], [to, to ^ 16]);
        }
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

/// Takes the filter apart, stage after stage, of tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn convert(p: &ConvPartsDirectParams, at: Address, ring: Ring) {
    let tile = ring.tile;
    let thread = thread_idx_x() % WARPGROUP;
    let teams = tile.filter_teams();
    let team = warp::uniform(thread / (WARPGROUP / teams));
    let mut own = Own::new(&p.filter, &ring);
    let mut cursor = Cursor::first(&p.gather.gather, at, tile);
    let mut buffer = Buffer::FIRST;
    let mut i = 0;
    while i < team {
        cursor.advance(1);
        buffer.advance(tile);
        i += 1;
    }
    let mut is_there = cursor.is_there();
    own.copy(&cursor, 0);
    cursor.advance(teams);
    own.copy(&cursor, 1);
    let mut slot = 0;
    while is_there {
        is_there = cursor.is_there();
        cp_async::wait_group::<{ FILTER_COPIES - 1 }>();
        mbarrier::wait(ring.parts_empty(buffer.index), buffer.parity ^ 1);
        own.take_apart(slot, buffer.at(&ring), buffer.factors(&ring));
        // The products read through another proxy. The fence waits for all copies, so the next begins behind it.
        fence_proxy_async_shared();
        mbarrier::arrive(ring.parts_full(buffer.index));
        warp::sync_warp();
        cursor.advance(teams);
        // What was copied there has been read.
        own.copy(&cursor, slot);
        slot ^= 1;
        let mut i = 0;
        while i < teams {
            buffer.advance(tile);
            i += 1;
        }
    }
}
