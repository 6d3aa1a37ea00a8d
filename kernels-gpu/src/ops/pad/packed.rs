//! What is written lies without gaps, and its rows begin anywhere: a block puts a tile of it together in shared memory, and
//! writes it 16 bytes at a time.
//!
//! What of a row lies together where it is read (its window) is cut out of aligned words, a piece of 16 bytes of the tile at
//! a time; the row's other elements are found one by one, by threads that have nothing but these. So neither makes a warp
//! wait for some of its lanes. Where rows begin is found once for each, before.
//!
//! Grid: exact, one-dimensional. Block: 256 threads.

use crate::math::{chunks, vector};
use cuda_std::memory;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::{guarded, math, shared, shared_array};
use kernel_abi::ops::pad::{
    PACKED_AT_ONCE, PACKED_ROWS, PACKED_THREADS, PACKED_TILE_BYTES, PadMode, PadPackedParams, ROW_LEVELS,
};

const AT_ONCE: usize = PACKED_AT_ONCE as usize;
/// Pieces of a tile that a thread writes.
const WRITTEN: usize = PACKED_TILE_BYTES / 16 / PACKED_THREADS as usize;

/// Of a row: nothing is read for it, the value stands there.
const NOWHERE: i32 = -1;
/// Of a row: others than one are read for it.
pub(super) const SEVERAL: i32 = -2;

/// What rows and elements are made of, elements being moved as bytes.
pub(super) trait Rule {
    /// Whether rows are sums of several ones, or of none.
    const ADDS: bool;

    /// The element that the row is read from, or `NOWHERE`, or `SEVERAL`.
    unsafe fn row(p: &PadPackedParams, row: u32) -> i32;

    /// An element outside of the window, in a row that is read from element `begins` on.
    unsafe fn element(p: &PadPackedParams, row: u32, begins: i32, column: i32) -> [u32; 4];

    /// A piece of the window of a row that is read from several ones.
    unsafe fn piece(p: &PadPackedParams, row: u32, piece: &Piece) -> [u32; 4];
}

/// A tile: where in shared memory, the element of the tile that its first row begins with, and the elements of
/// the tile that exist.
struct Tile {
    at: u32,
    origin: i32,
    low: i32,
    high: i32,
}

/// Some of 16 bytes of a tile.
pub(super) struct Piece {
    /// The element of the tile that they begin with.
    at: i32,
    /// Those of the window.
    pub(super) begin: i32,
    pub(super) end: i32,
    /// The element that the first is read from, in the row that is read.
    pub(super) from: i32,
}

impl Tile {
    /// Piece number `slot` of those that the window of a row touches, which may be none.
    #[inline(always)]
    fn piece<const ELEMS: usize>(&self, p: &PadPackedParams, line: u32, slot: u32) -> Piece {
        let row = self.origin + (line * p.width.divisor) as i32;
        let low = most(row + p.window, self.low);
        let high = least(row + p.window + p.n_window, self.high);
        let at = (low & !(ELEMS as i32 - 1)) + (slot * ELEMS as u32) as i32;
        Piece { at, begin: most(low - at, 0), end: least(high - at, ELEMS as i32), from: p.shift + at - row }
    }

    /// Puts elements `begin` to `end` of a piece to its place.
    #[inline(always)]
    unsafe fn keep<const BYTES: usize, const ELEMS: usize>(&self, at: u32, begin: u32, end: u32, words: [u32; 4]) {
        let to = self.at + at * BYTES as u32;
        if end - begin == ELEMS as u32 {
            shared::store_x4(to, words);
        } else {
            vector::for_each!(I < ELEMS, {
                if (I as u32).wrapping_sub(begin) < end - begin {
                    keep_element::<BYTES>(to + (I * BYTES) as u32, chunks::get::<BYTES>(&words, I));
                }
            });
        }
    }
}

#[inline(always)]
unsafe fn keep_element<const BYTES: usize>(to: u32, [low, high, ..]: [u32; 4]) {
    match BYTES {
        8 => shared::store_x2(to, [low, high]),
        4 => shared::store_u32(to, low),
        2 => shared::store_u16(to, low as u16),
        _ => *shared::generic::<u8>(to) = low as u8,
    }
}

/// Whether all that [`load_around`] reads exists, for a piece that is read from an element on.
#[inline(always)]
pub(super) fn is_inside<const ELEMS: usize>(p: &PadPackedParams, from: i32) -> bool {
    (from.wrapping_sub(ELEMS as i32) as u32) < p.n_inside as u32
}

/// The words around 16 bytes at any multiple of `BYTES`; without branches, since neighbouring rows lie differently.
#[inline(always)]
pub(super) unsafe fn load_around<const BYTES: usize>(from: u64, condition: bool) -> [u32; 6] {
    let at = from & !7;
    let [a, b] = guarded::load_x2(at, condition as u32);
    let [c, d] = guarded::load_x2(at.wrapping_add(8), condition as u32);
    let [e, f] = if BYTES == 8 { [0; 2] } else { guarded::load_x2(at.wrapping_add(16), condition as u32) };
    [a, b, c, d, e, f]
}

/// The 16 bytes among these words, given the low bits of their address.
#[inline(always)]
pub(super) fn cut<const BYTES: usize>([a, b, c, d, e, f]: [u32; 6], address: u32) -> [u32; 4] {
    if BYTES == 8 {
        return [a, b, c, d];
    }
    let odd = address & 4 != 0;
    let choose = |even, next| if odd { next } else { even };
    let words = [choose(a, b), choose(b, c), choose(c, d), choose(d, e), choose(e, f)];
    if BYTES == 4 {
        return [words[0], words[1], words[2], words[3]];
    }
    // The bytes of a word and of the next one, from the address's own on.
    let picked = 0x3210 + 0x1111 * (address & 3);
    let permute = |i: usize| math::permute_bytes(words[i], words[i + 1], picked);
    [permute(0), permute(1), permute(2), permute(3)]
}

/// Elements `begin` to `end` of a piece, one by one.
#[inline(always)]
pub(super) unsafe fn load_singly<const BYTES: usize, const ELEMS: usize>(from: u64, piece: &Piece) -> [u32; 4] {
    let mut words = [0; 4];
    vector::for_each!(I < ELEMS, {
        let exists = I as i32 >= piece.begin && (I as i32) < piece.end;
        let element = chunks::load::<BYTES>(from.wrapping_add((I * BYTES) as u64), exists);
        chunks::put::<BYTES>(&mut words, I, &element);
    });
    words
}

/// The address of an element that is read.
#[inline(always)]
pub(super) fn address<const BYTES: usize>(p: &PadPackedParams, element: i32) -> u64 {
    p.from.wrapping_add((i64::from(element) * BYTES as i64) as u64)
}

/// A tile of what is written, elements of `BYTES`, of which `ELEMS` are a piece.
#[inline(always)]
pub(super) unsafe fn write<R: Rule, const BYTES: usize, const ELEMS: usize>(p: &PadPackedParams) {
    let bytes = shared::address(shared_array![u32; PACKED_TILE_BYTES / 4]);
    let rows = shared::address(shared_array![i32; PACKED_ROWS]);
    let thread = thread_idx_x();
    // The first tile lacks what is before the tensor.
    let begins = (block_idx_x() * p.tile) as i32 - (p.to & 15) as i32 / BYTES as i32;
    let first = most(begins, 0);
    let end = least(begins + p.tile as i32, p.n);
    if first >= end {
        return;
    }
    let (first_row, column) = p.width.div_rem(first as u32);
    let (low, high) = (first - begins, end - begins);
    let tile = Tile { at: bytes, origin: low - column as i32, low, high };
    let n_rows = p.width.div_rem((end - 1) as u32).0 - first_row + 1;
    let added = Added::new::<R>();
    let mut line = thread;
    while line < n_rows {
        let from = R::row(p, first_row + line);
        shared::store_u32(rows + 4 * line, from as u32);
        if R::ADDS && from == SEVERAL {
            added.push(line);
        }
        line += PACKED_THREADS;
    }
    sync_threads();
    let n_slots = n_rows * p.slots.divisor;
    let mut slot = thread;
    while slot < n_slots {
        let mut loaded = [[0u32; 6]; AT_ONCE];
        let mut addresses = [0u32; AT_ONCE];
        // Where each piece stands, and what of it.
        let mut places = [0u32; AT_ONCE];
        let mut apart = 0u32;
        vector::for_each!(I < AT_ONCE, {
            let slot = slot + I as u32 * PACKED_THREADS;
            let (line, number) = p.slots.div_rem(slot);
            let line = if line < n_rows { line } else { n_rows - 1 };
            let row = shared::load_u32(rows + 4 * line) as i32;
            let piece = tile.piece::<ELEMS>(p, line, number);
            let exists = slot < n_slots && row != SEVERAL && piece.begin < piece.end;
            let from = row.wrapping_add(piece.from);
            let inside = is_inside::<ELEMS>(p, from);
            let read = exists && row >= 0;
            let address = address::<BYTES>(p, from);
            *loaded.get_unchecked_mut(I) = load_around::<BYTES>(address, read && inside);
            *addresses.get_unchecked_mut(I) = address as u32;
            if read && !inside {
                apart |= 1 << I;
            } else if exists {
                let value = if R::ADDS || row >= 0 { 0 } else { VALUE };
                *places.get_unchecked_mut(I) =
                    piece.at as u32 | (piece.begin as u32) << BEGIN | (piece.end as u32) << END | value;
            }
        });
        vector::for_each!(I < AT_ONCE, {
            let place = *places.get_unchecked(I);
            if place != 0 {
                let mut words = cut::<BYTES>(*loaded.get_unchecked(I), *addresses.get_unchecked(I));
                if !R::ADDS && place & VALUE != 0 {
                    words = [p.value as u32, (p.value >> 32) as u32, p.value as u32, (p.value >> 32) as u32];
                }
                tile.keep::<BYTES, ELEMS>(place & 0xffff, place >> BEGIN & 31, place >> END & 31, words);
            }
        });
        // What lies at either end of the tensor that is read.
        while apart != 0 {
            let (line, number) = p.slots.div_rem(slot + apart.trailing_zeros() * PACKED_THREADS);
            apart &= apart - 1;
            let piece = tile.piece::<ELEMS>(p, line, number);
            let row = shared::load_u32(rows + 4 * line) as i32;
            let words = load_singly::<BYTES, ELEMS>(address::<BYTES>(p, row + piece.from), &piece);
            tile.keep::<BYTES, ELEMS>(piece.at as u32, piece.begin as u32, piece.end as u32, words);
        }
        slot += AT_ONCE as u32 * PACKED_THREADS;
    }
    if R::ADDS {
        let n_slots = added.len() * p.slots.divisor;
        let mut slot = thread;
        while slot < n_slots {
            let (which, number) = p.slots.div_rem(slot);
            let line = added.line(which);
            let piece = tile.piece::<ELEMS>(p, line, number);
            if piece.begin < piece.end {
                let words = R::piece(p, first_row + line, &piece);
                tile.keep::<BYTES, ELEMS>(piece.at as u32, piece.begin as u32, piece.end as u32, words);
            }
            slot += PACKED_THREADS;
        }
    }
    let mut other = thread;
    while other < n_rows * p.n_others {
        let (line, number) = p.others.div_rem(other);
        let column = number as i32 + if (number as i32) < p.window { 0 } else { p.n_window };
        let at = tile.origin + (line * p.width.divisor) as i32 + column;
        if at >= low && at < high {
            let row = shared::load_u32(rows + 4 * line) as i32;
            keep_element::<BYTES>(bytes + at as u32 * BYTES as u32, R::element(p, first_row + line, row, column));
        }
        other += PACKED_THREADS;
    }
    sync_threads();
    tile.copy_out::<BYTES, ELEMS>(p);
}

/// Bits of where a piece stands.
const BEGIN: u32 = 16;
const END: u32 = 21;
const VALUE: u32 = 1 << 31;

impl Tile {
    /// Writes the tile.
    #[inline(always)]
    unsafe fn copy_out<const BYTES: usize, const ELEMS: usize>(&self, p: &PadPackedParams) {
        let to = (p.to & !15).wrapping_add(u64::from(block_idx_x() * (p.tile / ELEMS as u32)) * 16);
        let thread = thread_idx_x();
        vector::for_each!(I < WRITTEN, {
            let piece = thread + I as u32 * PACKED_THREADS;
            let first = (piece * ELEMS as u32) as i32;
            let to = to.wrapping_add(u64::from(piece) * 16);
            if first >= self.low && first + ELEMS as i32 <= self.high {
                memory::store_x4(to as *mut u32, shared::load_x4(self.at + piece * 16));
            } else if first < self.high {
                let words = shared::load_x4(self.at + piece * 16);
                vector::for_each!(E < ELEMS, {
                    let exists = first + E as i32 >= self.low && first + (E as i32) < self.high;
                    let to = to.wrapping_add((E * BYTES) as u64);
                    chunks::store::<BYTES>(to, chunks::get::<BYTES>(&words, E), exists);
                });
            }
        });
    }
}

/// The tile's rows that are sums of several, in any order.
struct Added {
    n: u32,
    lines: u32,
}

impl Added {
    /// None at first. All threads call it, before they meet.
    #[inline(always)]
    unsafe fn new<R: Rule>() -> Self {
        if !R::ADDS {
            return Added { n: 0, lines: 0 };
        }
        let n = shared::address(shared_array![u32; 4]);
        if thread_idx_x() == 0 {
            shared::store_u32(n, 0);
        }
        sync_threads();
        Added { n, lines: shared::address(shared_array![u32; PACKED_ROWS]) }
    }

    #[inline(always)]
    unsafe fn push(&self, line: u32) {
        let which = cuda_std::atomics::shared::add_u32(self.n, 1);
        shared::store_u32(self.lines + 4 * which, line);
    }

    #[inline(always)]
    unsafe fn len(&self) -> u32 {
        shared::load_u32(self.n)
    }

    #[inline(always)]
    unsafe fn line(&self, which: u32) -> u32 {
        shared::load_u32(self.lines + 4 * which)
    }
}

/// y from x.
struct Copy<const BYTES: usize>;

impl<const BYTES: usize> Rule for Copy<BYTES> {
    const ADDS: bool = false;

    #[inline(always)]
    unsafe fn row(p: &PadPackedParams, row: u32) -> i32 {
        let (mut rest, mut begins, mut there) = (row, 0, true);
        vector::for_each!(LEVEL < ROW_LEVELS, {
            let (quotient, i) = p.extents.get_unchecked(LEVEL).div_rem(rest);
            rest = quotient;
            let source = p.lines.get_unchecked(LEVEL).source(p.mode, i as i32);
            there &= source >= 0;
            begins += source * *p.strides.get_unchecked(LEVEL);
        });
        if there { begins } else { NOWHERE }
    }

    #[inline(always)]
    unsafe fn element(p: &PadPackedParams, _: u32, begins: i32, column: i32) -> [u32; 4] {
        if begins == NOWHERE || p.mode == PadMode::Constant as u32 {
            [p.value as u32, (p.value >> 32) as u32, 0, 0]
        } else {
            chunks::load::<BYTES>(address::<BYTES>(p, begins + p.row.source(p.mode, column)), true)
        }
    }

    #[inline(always)]
    unsafe fn piece(_: &PadPackedParams, _: u32, _: &Piece) -> [u32; 4] {
        [0; 4]
    }
}

/// y from x, elements of `BYTES`, of which `ELEMS` are a piece.
pub unsafe fn copy<const BYTES: usize, const ELEMS: usize>(p: &PadPackedParams) {
    write::<Copy<BYTES>, BYTES, ELEMS>(p)
}

#[inline(always)]
pub(super) fn least(a: i32, b: i32) -> i32 {
    if a < b { a } else { b }
}

#[inline(always)]
pub(super) fn most(a: i32, b: i32) -> i32 {
    if a > b { a } else { b }
}
