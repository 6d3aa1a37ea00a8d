//! dx of maxima: a tile of dx a block. First the place of the maximum of every window that the tile meets, once each, as
//! a byte for each channel in shared memory; then each element gathers dy of the windows whose maximum it is.
//!
//! Grid: exact, one-dimensional. Block: 256 threads, as `lanes` vectors of channels times slots for positions: lanes are
//! neighbours where channels lie together (16 bytes each), slots where columns do (one element each). Shared memory:
//! dynamic, a byte for each window and channel.

use crate::math::element::Element;
use crate::math::vector;
use crate::math::words::{load, load_words, store};
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{shared, thread};
use kernel_abi::ops::pool::{PoolTileParams, TILE_LANES, TILE_THREADS};

/// Columns of x loaded at a time.
const AHEAD: usize = 4;

/// A thread's place in its block, and the block's tile.
struct Tile {
    n: i64,
    d: i64,
    c: i64,
    /// Whether the channels exist.
    exists: bool,
    lane: u32,
    slot: u32,
    slots: u32,
    /// First and one past the last row and column of dx.
    rows: (i32, i32),
    columns: (i32, i32),
    /// Windows that these meet.
    windows: [(i32, i32); 2],
}

#[inline(always)]
unsafe fn tile<const V: usize>(p: &PoolTileParams) -> Tile {
    let lanes = if V > 1 { TILE_LANES } else { p.lanes };
    let slots = TILE_THREADS / lanes;
    let thread = thread_idx_x();
    let (lane, slot) = if V > 1 { (thread % lanes, thread / lanes) } else { (thread / slots, thread % slots) };
    let (rest, chunk) = p.chunks.div_rem(block_idx_x());
    let (rest, column) = p.tiles[0].div_rem(rest);
    let (rest, row) = p.tiles[1].div_rem(rest);
    let (n, d) = p.planes.div_rem(rest);
    let range = |a: usize, tile: u32| {
        let begin = (tile * p.tile[a]) as i32;
        let end = begin + p.tile[a] as i32;
        (begin, if end < p.axes[a].image { end } else { p.axes[a].image })
    };
    let (rows, columns) = (range(0, row), range(1, column));
    let met = |a: usize, range: (i32, i32)| (p.axes[a].covering(range.0).0, p.axes[a].covering(range.1 - 1).1);
    let channel = chunk * lanes + lane;
    Tile {
        n: i64::from(n),
        d: i64::from(d),
        c: i64::from(channel),
        exists: channel < p.channels,
        lane,
        slot,
        slots,
        rows,
        columns,
        windows: [met(0, rows), met(1, columns)],
    }
}

/// dx from x and dy.
pub unsafe fn backward<T: Element<Acc = f32>, const V: usize>(p: &PoolTileParams) {
    let tile = tile::<V>(p);
    let codes = shared::dynamic::<u8>();
    if tile.exists {
        if p.ignore_nan != 0 { places::<T, V, true>(p, &tile, codes) } else { places::<T, V, false>(p, &tile, codes) }
    }
    thread::sync_threads();
    if tile.exists {
        gather::<T, V>(p, &tile, codes);
    }
}

/// Where the codes of a window lie.
#[inline(always)]
unsafe fn code_at<const V: usize>(p: &PoolTileParams, tile: &Tile, row: i32, column: i32) -> usize {
    let lanes = if V > 1 { TILE_LANES } else { p.lanes };
    let window = (row - tile.windows[0].0) as u32 * p.windows.divisor + (column - tile.windows[1].0) as u32;
    ((window * lanes + tile.lane) * V as u32) as usize
}

/// The place of the first maximum in each window that the tile meets: its row-major number in the window.
#[inline(always)]
unsafe fn places<T: Element<Acc = f32>, const V: usize, const IGNORE_NAN: bool>(
    p: &PoolTileParams,
    tile: &Tile,
    codes: *mut u8,
) {
    let x = p.x.offset(tile.n, tile.c, tile.d);
    let n_columns = tile.windows[1].1 - tile.windows[1].0;
    let n_windows = (tile.windows[0].1 - tile.windows[0].0) as u32 * p.windows.divisor;
    let mut i = tile.slot;
    while i < n_windows {
        let (row, column) = p.windows.div_rem(i);
        i += tile.slots;
        if column as i32 >= n_columns {
            continue;
        }
        let (row, column) = (row as i32 + tile.windows[0].0, column as i32 + tile.windows[1].0);
        let (rows, columns) = (p.axes[0].inside(row), p.axes[1].inside(column));
        let (h0, w0) = (p.axes[0].start(row), p.axes[1].start(column));
        let at = |h: i32, w: i32| x + i64::from(h) * p.x.strides[3] + i64::from(w) * p.x.strides[4];
        let mut most = load::<T, V>(p.x.address, at(rows.0, columns.0), true, 0);
        let mut first = [((rows.0 - h0) * p.axes[1].window + columns.0 - w0) as u32; V];
        let mut h = rows.0;
        while h < rows.1 {
            let mut w = columns.0;
            while w < columns.1 {
                let mut loaded = [[0u32; 4]; AHEAD];
                vector::for_each!(I < AHEAD, {
                    let w = w + I as i32;
                    *loaded.get_unchecked_mut(I) = load_words::<T, V>(p.x.address, at(h, w), w < columns.1, p.fill);
                });
                vector::for_each!(I < AHEAD, {
                    let code = ((h - h0) * p.axes[1].window + w - w0) as u32 + I as u32;
                    let values = vector::widened::<T, V>(loaded.get_unchecked(I));
                    vector::for_each!(J < V, {
                        let (value, most) = (*values.get_unchecked(J), most.get_unchecked_mut(J));
                        let beside_nan = if IGNORE_NAN {
                            most.is_nan() && !value.is_nan()
                        } else {
                            value.is_nan() && !most.is_nan()
                        };
                        if value > *most || beside_nan {
                            *most = value;
                            *first.get_unchecked_mut(J) = code;
                        }
                    });
                });
                w += AHEAD as i32;
            }
            h += 1;
        }
        let to = codes.add(code_at::<V>(p, tile, row, column));
        if V == 1 {
            *to = first[0] as u8;
        } else {
            let mut words = [0u32; 2];
            vector::for_each!(J < V, {
                *words.get_unchecked_mut(J / 4) |= *first.get_unchecked(J) << (8 * (J % 4));
            });
            *(to as *mut u32) = words[0];
            if V == 8 {
                *(to as *mut u32).add(1) = words[1];
            }
        }
    }
}

/// dx of the tile.
#[inline(always)]
unsafe fn gather<T: Element<Acc = f32>, const V: usize>(p: &PoolTileParams, tile: &Tile, codes: *mut u8) {
    let dy = p.dy.offset(tile.n, tile.c, tile.d);
    let dx = p.dx.offset(tile.n, tile.c, tile.d);
    let n_columns = tile.columns.1 - tile.columns.0;
    let n_positions = (tile.rows.1 - tile.rows.0) as u32 * p.tile_columns.divisor;
    let mut i = tile.slot;
    while i < n_positions {
        let (h, w) = p.tile_columns.div_rem(i);
        i += tile.slots;
        if w as i32 >= n_columns {
            continue;
        }
        let (h, w) = (h as i32 + tile.rows.0, w as i32 + tile.columns.0);
        let (rows, columns) = (p.axes[0].covering(h), p.axes[1].covering(w));
        let mut sum = [0.0; V];
        let mut row = rows.0;
        while row < rows.1 {
            let mut column = columns.0;
            while column < columns.1 {
                let offset = i64::from(row) * p.dy.strides[3] + i64::from(column) * p.dy.strides[4];
                let gradient = load::<T, V>(p.dy.address, dy + offset, true, 0);
                let code = (h - p.axes[0].start(row)) * p.axes[1].window + w - p.axes[1].start(column);
                let from = codes.add(code_at::<V>(p, tile, row, column));
                let mut words = [0u32; 2];
                if V == 1 {
                    words[0] = u32::from(*from);
                } else {
                    words[0] = *(from as *const u32);
                    if V == 8 {
                        words[1] = *(from as *const u32).add(1);
                    }
                }
                vector::for_each!(J < V, {
                    let of_channel = (*words.get_unchecked(J / 4) >> (8 * (J % 4))) & 0xff;
                    if of_channel == code as u32 {
                        *sum.get_unchecked_mut(J) += *gradient.get_unchecked(J);
                    }
                });
                column += 1;
            }
            row += 1;
        }
        let offset = i64::from(h) * p.dx.strides[3] + i64::from(w) * p.dx.strides[4];
        store::<T, V>(p.dx.address, dx + offset, sum, p.alpha, p.beta);
    }
}
