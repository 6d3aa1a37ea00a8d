//! Rows of x by the copy engine, each to a place of the warp that makes entries of it.
//!
//! Where rows lie one element behind the other, a thread that reads them from global memory, element by element, computes
//! more addresses than anything else, and waits for each batch. Here a warp has some rows under way, and reads zeros
//! around them where a window leaves the image.

use super::Ring;
use super::fill::packed;
use cuda_std::barrier::fence_proxy_async_shared;
use cuda_std::math::permute_bytes;
use cuda_std::thread::{block_idx_x, grid_dim_x, thread_idx_x};
use cuda_std::{mbarrier, shared, tma, warp};
use kernel_abi::ops::conv::overlap_wgmma::{ENTRY_BYTES, OverlapParams, OverlapPlace, PRODUCER_WARPS, STAGED_ROWS};

/// A warp's rows, of tile after tile.
#[derive(Clone, Copy)]
struct Rows {
    index: u32,
    place: OverlapPlace,
    row: u32,
}

impl Rows {
    #[inline(always)]
    fn new(p: &OverlapParams, first: u32) -> Self {
        let index = block_idx_x();
        Rows { index, place: p.place(index), row: first }
    }

    /// The input plane, row and first column.
    #[inline(always)]
    fn source(&self, p: &OverlapParams) -> [i32; 3] {
        p.source(self.place, self.row * p.tile.row_entries.divisor)
    }

    /// Goes on to the next.
    #[inline(always)]
    fn advance(&mut self, p: &OverlapParams, first: u32) {
        self.row += PRODUCER_WARPS;
        if self.row >= p.tile.rows_of_entries() {
            self.row = first;
            self.index += grid_dim_x();
            self.place = p.place(self.index);
        }
    }
}

/// Fills buffer after buffer; `begin` is called for each tile's place once its buffer is empty.
///
/// # Safety
/// All producer threads call it, with the first address behind the ring; the host passes a live x whose rows are multiples
/// of 16 bytes, as are their addresses.
#[inline(always)]
pub(super) unsafe fn produce(p: &OverlapParams, mut ring: Ring, staged_at: u32, begin: impl Fn(OverlapPlace, &Ring)) {
    let staged = p.tile.staged;
    let own = warp::uniform(thread_idx_x() / 32);
    let lane = thread_idx_x() % 32;
    let row_bytes = staged.row_bytes();
    // The places of its rows, of which nobody else takes any: no empty barriers.
    let mut places = Ring {
        base: staged_at + own * STAGED_ROWS * row_bytes,
        buffer_bytes: row_bytes,
        barriers: staged_at + STAGED_ROWS * (PRODUCER_WARPS * row_bytes + 8 * own),
        buffers: STAGED_ROWS,
        index: 0,
        parity: 0,
    };
    // The zeros around rows, before any row comes.
    let mut at = 16 * lane;
    while at < STAGED_ROWS * row_bytes {
        shared::store_x4(places.base + at, [0; 4]);
        at += 16 * 32;
    }
    if lane == 0 {
        let mut i = 0;
        while i < STAGED_ROWS {
            mbarrier::init(places.barriers + 8 * i, 1);
            i += 1;
        }
        mbarrier::fence_init();
    }
    fence_proxy_async_shared();
    warp::sync_warp();
    let elements = Elements::new(p);
    let mut next = Rows::new(p, own);
    let mut free = places;
    // A warp beyond a tile's rows has none.
    if own < p.tile.rows_of_entries() {
        let mut i = 0;
        while i < STAGED_ROWS {
            bring(p, &next, &free, lane);
            next.advance(p, own);
            free.advance();
            i += 1;
        }
    }
    let mut index = block_idx_x();
    while index < p.n_tiles {
        let mut now = Rows { index, place: p.place(index), row: own };
        mbarrier::wait(ring.empty(), ring.parity ^ 1);
        begin(now.place, &ring);
        while now.row < p.tile.rows_of_entries() {
            let [d, h, w] = now.source(p);
            mbarrier::wait(places.full(), places.parity);
            let to = ring.buffer() + now.row * p.tile.row_entries.divisor * ENTRY_BYTES;
            let from = (places.buffer() + staged.margin).wrapping_add_signed(w * elements.position_bytes);
            elements.write(p, from, to, is_there(p, d, h));
            // Who has read a row before it is overwritten.
            warp::sync_warp();
            bring(p, &next, &places, lane);
            next.advance(p, own);
            places.advance();
            now.row += PRODUCER_WARPS;
        }
        fence_proxy_async_shared();
        mbarrier::arrive(ring.full());
        ring.advance();
        index += grid_dim_x();
    }
}

/// Whether a row lies in the image.
#[inline(always)]
fn is_there(p: &OverlapParams, d: i32, h: i32) -> bool {
    (d as u32) < p.image[0] && (h as u32) < p.image[1]
}

/// Queues the copy of a row, or none of a row that is no row of the image: then its barrier is arrived at all the same.
///
/// # Safety
/// As [`produce`]; all threads of one warp.
#[inline(always)]
unsafe fn bring(p: &OverlapParams, rows: &Rows, places: &Ring, lane: u32) {
    if rows.index >= p.n_tiles || lane != 0 {
        return;
    }
    let staged = p.tile.staged;
    let [d, h, _] = rows.source(p);
    if !is_there(p, d, h) {
        mbarrier::arrive(places.full());
        return;
    }
    mbarrier::arrive_expect_bytes(places.full(), staged.pieces * staged.bytes);
    let from = i64::from(rows.place.n) * p.x_strides[0] + i64::from(d) * p.x_strides[1] + i64::from(h) * p.x_strides[2];
    let mut piece = 0;
    while piece < staged.pieces {
        let from = (p.x as i64 + 2 * (from + i64::from(piece) * i64::from(p.x_inner[1]))) as u64;
        let to = places.buffer() + piece * staged.pitch + staged.margin;
        tma::load_bytes(to, from as *const u8, staged.bytes, places.full());
        piece += 1;
    }
}

/// Where an entry's eight elements lie in a staged row.
struct Elements {
    /// Bytes from the first position's first channel.
    offsets: [u32; 8],
    /// The elements that are channels, as bits.
    channels: u32,
    /// Bytes from one position to the next.
    position_bytes: i32,
}

impl Elements {
    #[inline(always)]
    fn new(p: &OverlapParams) -> Self {
        let log2 = p.packed_c_log2;
        let mask = (1u32 << log2) - 1;
        let position_bytes = 2 * p.x_inner[0];
        let channel_bytes = if p.tile.staged.pieces > 1 { p.tile.staged.pitch } else { 2 };
        let of = |j: u32| (j >> log2) * position_bytes as u32 + (j & mask) * channel_bytes;
        let is = |j: u32| u32::from(j & mask < p.c) << j;
        Elements {
            offsets: [of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)],
            channels: is(0) | is(1) | is(2) | is(3) | is(4) | is(5) | is(6) | is(7),
            position_bytes,
        }
    }

    /// Makes a row's entries, the first of which begins at `from`; zeros unless the row `is_there`.
    ///
    /// # Safety
    /// As [`produce`]; all threads of one warp.
    #[inline(always)]
    unsafe fn write(&self, p: &OverlapParams, from: u32, to: u32, is_there: bool) {
        let step = p.stride[2] * self.position_bytes as u32;
        let lane = thread_idx_x() % 32;
        let row = Row { from, step, to, lane, entries: p.tile.row_entries.divisor };
        if !is_there {
            row.write::<1>(|_| [0; 4]);
        } else if p.c == 3 && p.tile.staged.pieces == 1 {
            // SAFETY: what `Row` reads lies in the staged row, or up to 4 bytes behind.
            let entry = |at| unsafe { two_of_three_channels(at) };
            if row.entries <= 64 { row.write::<2>(entry) } else { row.write::<4>(entry) }
        } else if row.entries <= 64 {
            row.write::<2>(|at| self.entry(at));
        } else {
            row.write::<4>(|at| self.entry(at));
        }
    }

    /// The entry whose first element lies at `at`.
    #[inline(always)]
    fn entry(&self, at: u32) -> [u32; 4] {
        let mut values = [0u16; 8];
        let mut j = 0;
        while j < 8 {
            // SAFETY: all elements of channels lie in the staged row.
            unsafe {
                *values.get_unchecked_mut(j) =
                    shared::load_u16_if(at + *self.offsets.get_unchecked(j), self.channels & 1 << j);
            }
            j += 1;
        }
        packed(&values)
    }
}

/// The entry of two positions of three channels, which begins at `at`: six elements one behind the other.
///
/// # Safety
/// They lie in shared memory, and `at` is a multiple of 2.
#[inline(always)]
unsafe fn two_of_three_channels(at: u32) -> [u32; 4] {
    let words = at & !3;
    let load = |i: u32| shared::load_u32(words + 4 * i);
    let [a, b, c, d] = [load(0), load(1), load(2), load(3)];
    // Two neighbouring elements of two words: from the first byte of the pair, or from its third.
    let pair = if at & 2 == 0 { 0x3210 } else { 0x5432 };
    let [low, middle, high] = [permute_bytes(a, b, pair), permute_bytes(b, c, pair), permute_bytes(c, d, pair)];
    [low, middle & 0xffff, permute_bytes(middle, high, 0x5432), high >> 16]
}

/// A row of entries on its way from staged elements, `step` bytes between entries.
struct Row {
    from: u32,
    step: u32,
    to: u32,
    lane: u32,
    entries: u32,
}

impl Row {
    /// Writes what `entry` makes of elements at an address, a warp `TIMES` times 32 entries together.
    ///
    /// # Safety
    /// As [`produce`]; all threads of one warp.
    #[inline(always)]
    unsafe fn write<const TIMES: usize>(&self, entry: impl Fn(u32) -> [u32; 4]) {
        let mut first = self.lane;
        while first - self.lane < self.entries {
            let mut values = [[0u32; 4]; TIMES];
            let mut u = 0;
            while u < TIMES {
                // Those behind the last are read there and not written.
                let index = (first + 32 * u as u32).min(self.entries - 1);
                *values.get_unchecked_mut(u) = entry(self.from + index * self.step);
                u += 1;
            }
            u = 0;
            while u < TIMES {
                let index = first + 32 * u as u32;
                if index < self.entries {
                    shared::store_x4(self.to + index * ENTRY_BYTES, *values.get_unchecked(u));
                }
                u += 1;
            }
            first += 32 * TIMES as u32;
        }
    }
}
