//! A tile of what is written a block: the neighbours of its plane, rows and columns with their weights go to shared
//! memory once, in f64 before they are rounded; then each thread gathers 16 bytes of channels of a position, or the
//! position of several channels, neighbouring threads on neighbouring columns; on neighbouring channels, where those lie
//! closer together.
//!
//! Grid: exact, one-dimensional. Block: 256 threads.

use crate::math::element::Element;
use crate::math::vector;
use crate::math::words::{load_words, store};
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{math, thread};
use kernel_abi::ops::resample::{CHANNELS_AT_ONCE, MAX_NEIGHBOURS, ResampleTableParams, TABLE_POSITIONS};

pub(super) const THREADS: u32 = 256;

/// Weights: those of a position stand `TABLE_POSITIONS` apart, so that neighbouring threads read neighbouring words.
pub const N_WEIGHTS: usize = MAX_NEIGHBOURS as usize * TABLE_POSITIONS;

/// For each position where its neighbours begin, and which of them weigh something: from one on, before another.
pub const N_BOUNDS: usize = 3 * TABLE_POSITIONS;

/// Channels of a thread, for vectors of `v` of them.
pub const fn channels_at_once(v: usize) -> usize {
    if v > 1 { 1 } else { CHANNELS_AT_ONCE }
}

/// The tables in shared memory, with room for some positions.
pub(super) struct Tables<const POSITIONS: usize> {
    pub(super) weights: *mut f32,
    pub(super) bounds: *mut i32,
}

/// The neighbours of a position along an axis.
pub(super) struct Neighbours {
    position: usize,
    begin: i32,
    /// The last position that there is.
    last: i32,
    pub(super) first: i32,
    pub(super) end: i32,
}

impl<const POSITIONS: usize> Tables<POSITIONS> {
    #[inline(always)]
    pub(super) unsafe fn weight(&self, position: usize, which: i32) -> *mut f32 {
        self.weights.add(which as usize * POSITIONS + position)
    }

    #[inline(always)]
    pub(super) unsafe fn neighbours(&self, position: usize, extent: i64) -> Neighbours {
        let bound = |which: usize| *self.bounds.add(which * POSITIONS + position);
        Neighbours { position, begin: bound(0), last: extent as i32 - 1, first: bound(1), end: bound(2) }
    }
}

impl Neighbours {
    /// Where a neighbour is read.
    #[inline(always)]
    pub(super) fn inside(&self, which: i32) -> i32 {
        let at = self.begin + which;
        if at < 0 {
            0
        } else if at > self.last {
            self.last
        } else {
            at
        }
    }
}

/// Fills the tables for the tile that begins at a position.
#[inline(always)]
pub(super) unsafe fn fill<const POSITIONS: usize>(
    p: &ResampleTableParams,
    tables: &Tables<POSITIONS>,
    first: [i64; 3],
) {
    let backward = p.backward != 0;
    let (rows, columns) = (p.tile_rows.divisor, p.tile_columns.divisor);
    let n_positions = 1 + rows + columns;
    let mut i = thread_idx_x();
    while i < n_positions * p.candidates.divisor {
        let (position, which) = p.candidates.div_rem(i);
        let (a, at) = if position == 0 {
            (0, first[0])
        } else if position <= rows {
            (1, first[1] + i64::from(position - 1))
        } else {
            (2, first[2] + i64::from(position - 1 - rows))
        };
        let axis = p.axes.get_unchecked(a);
        let (begin, end) = axis.neighbours(&p.filter, backward, at);
        let from = begin + i64::from(which);
        let extent = if backward { axis.image } else { axis.output };
        let there = at < extent && from < end;
        let weight = if there { axis.weight_of(&p.filter, backward, at, from) } else { 0.0 };
        *tables.weight(position as usize, which as i32) = weight as f32;
        if which == 0 {
            *tables.bounds.add(position as usize) = begin as i32;
        }
        i += THREADS;
    }
    thread::sync_threads();
    // Neighbours that weigh nothing at either end are left out.
    let position = thread_idx_x() as usize;
    if position < n_positions as usize {
        let (mut first, mut end) = (0, p.candidates.divisor as i32);
        while first < end && *tables.weight(position, first) == 0.0 {
            first += 1;
        }
        while first < end && *tables.weight(position, end - 1) == 0.0 {
            end -= 1;
        }
        *tables.bounds.add(POSITIONS + position) = first;
        *tables.bounds.add(2 * POSITIONS + position) = end;
    }
    thread::sync_threads();
}

/// Extents of an axis: of what is read, of what is written.
#[inline(always)]
pub(super) fn extents(p: &ResampleTableParams, a: usize) -> (i64, i64) {
    let axis = &p.axes[a];
    if p.backward != 0 { (axis.output, axis.image) } else { (axis.image, axis.output) }
}

/// y from x, or dx from dy: `V` elements an access, `CHANNELS` of these and `COLUMNS` neighbours under way at once.
pub unsafe fn gather<T: Element<Acc = f32>, const V: usize, const CHANNELS: usize, const COLUMNS: usize>(
    p: &ResampleTableParams,
    weights: *mut f32,
    bounds: *mut i32,
) {
    let tables = Tables::<TABLE_POSITIONS> { weights, bounds };
    let (rest, along) = p.tiles_along.div_rem(block_idx_x());
    let (rest, down) = p.tiles_down.div_rem(rest);
    let (rest, plane) = p.planes.div_rem(rest);
    let (n, group) = p.groups.div_rem(rest);
    let (rows, columns) = (p.tile_rows.divisor, p.tile_columns.divisor);
    let first = [i64::from(plane), i64::from(down * rows), i64::from(along * columns)];
    fill(p, &tables, first);
    let planes = tables.neighbours(0, extents(p, 0).0);
    let by_channels = V > 1 || p.to.strides[1] < p.to.strides[4];
    let mut item = thread_idx_x();
    while item < rows * columns * p.group.divisor {
        let (mut rest, mut c) = (item, 0);
        if by_channels {
            (rest, c) = p.group.div_rem(rest);
        }
        let (rest, column) = p.tile_columns.div_rem(rest);
        let (rest, row) = p.tile_rows.div_rem(rest);
        if !by_channels {
            c = rest;
        }
        let c = (group * p.group.divisor + c) * CHANNELS as u32;
        let at = [first[0], first[1] + i64::from(row), first[2] + i64::from(column)];
        if c < p.channels && at[1] < extents(p, 1).1 && at[2] < extents(p, 2).1 {
            let rows_read = tables.neighbours(1 + row as usize, extents(p, 1).0);
            let columns_read = tables.neighbours((1 + rows + column) as usize, extents(p, 2).0);
            let read = [&planes, &rows_read, &columns_read];
            let sums = sum::<T, V, CHANNELS, COLUMNS>(p, &tables, read, i64::from(n), c);
            vector::for_each!(K < CHANNELS, {
                let channel = c + K as u32;
                if channel < p.channels {
                    let to = p.to.offset(i64::from(n), i64::from(channel), at[0]);
                    let to = to + at[1] * p.to.strides[3] + at[2] * p.to.strides[4];
                    store::<T, V>(p.to.address, to, *sums.get_unchecked(K), p.alpha, p.beta);
                }
            });
        }
        item += THREADS;
    }
}

/// The weighted sums of a position's neighbours, of some channels.
#[inline(always)]
unsafe fn sum<T: Element<Acc = f32>, const V: usize, const CHANNELS: usize, const COLUMNS: usize>(
    p: &ResampleTableParams,
    tables: &Tables<TABLE_POSITIONS>,
    [planes, rows, columns]: [&Neighbours; 3],
    n: i64,
    c: u32,
) -> [[f32; V]; CHANNELS] {
    let mut sums = [[0.0f32; V]; CHANNELS];
    let stride = |axis: usize| p.from.strides[2 + axis] as i32;
    let image = p.from.offset(n, i64::from(c), 0);
    let mut d = planes.first;
    while d < planes.end {
        let of_plane = *tables.weight(planes.position, d);
        let mut h = rows.first;
        while h < rows.end {
            let of_row = of_plane * *tables.weight(rows.position, h);
            let row = planes.inside(d) * stride(0) + rows.inside(h) * stride(1);
            let mut w = columns.first;
            while w < columns.end {
                let mut weights = [0.0f32; COLUMNS];
                let mut loaded = [[[0u32; 4]; CHANNELS]; COLUMNS];
                vector::for_each!(I < COLUMNS, {
                    let which = w + I as i32;
                    let there = which < columns.end;
                    let weight = of_row * *tables.weight(columns.position, if there { which } else { w });
                    // What weighs nothing is left out: it may be infinite.
                    let weight = if there { weight } else { 0.0 };
                    let offset = i64::from(row + columns.inside(which) * stride(2));
                    vector::for_each!(K < CHANNELS, {
                        let from = image + K as i64 * p.from.strides[1] + offset;
                        let exists = weight != 0.0 && c + (K as u32) < p.channels;
                        *loaded.get_unchecked_mut(I).get_unchecked_mut(K) =
                            load_words::<T, V>(p.from.address, from, exists, 0);
                    });
                    *weights.get_unchecked_mut(I) = weight;
                });
                vector::for_each!(I < COLUMNS, {
                    let weight = *weights.get_unchecked(I);
                    vector::for_each!(K < CHANNELS, {
                        let values = vector::widened::<T, V>(loaded.get_unchecked(I).get_unchecked(K));
                        let sum = sums.get_unchecked_mut(K);
                        vector::for_each!(E < V, {
                            let term = sum.get_unchecked_mut(E);
                            *term = math::fma_f32(weight, *values.get_unchecked(E), *term);
                        });
                    });
                });
                w += COLUMNS as i32;
            }
            h += 1;
        }
        d += 1;
    }
    sums
}
