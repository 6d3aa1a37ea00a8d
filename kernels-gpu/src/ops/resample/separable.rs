//! Rows first, then columns, where columns lie together: the block's threads read lines 16 bytes at a time and leave the
//! weighted sums of neighbouring rows in shared memory; then each thread makes the same two columns of many lines of
//! these, whose places and weights stay in registers.
//!
//! A block has a tile of rows and columns of a group of images (channels), some of them at once.
//!
//! Grid: exact, one-dimensional. Block: 256 threads.

use super::tables::{THREADS, Tables, extents, fill};
use crate::math::rows::Vector;
use crate::math::vector::{for_each, widened};
use crate::math::words::load_words;
use cuda_std::memory::X2;
use cuda_std::thread::{block_idx_x, lane_id, sync_threads, thread_idx_x};
use cuda_std::{math, shared_array, warp};
use kernel_abi::ops::resample::{
    COLUMNS_AT_ONCE, ResampleSeparableParams, SEPARABLE_CANDIDATES, SEPARABLE_NEIGHBOURS, SEPARABLE_POSITIONS,
    SEPARABLE_SUMS, place_in_line,
};

const COLUMNS: usize = COLUMNS_AT_ONCE as usize;
const WARPS: u32 = THREADS / 32;

/// Reads of a thread that are under way, each of all of so many neighbouring rows.
pub const fn reads(neighbours: usize) -> usize {
    if neighbours > 2 { 1 } else { 2 }
}

/// Where nothing is read.
const NOWHERE: u32 = u32::MAX;

/// What a block has in shared memory, and its tile.
struct Block {
    /// Weights of each position's neighbours, and where these are read; neighbours stand `SEPARABLE_POSITIONS` apart.
    weights: *mut f32,
    places: *mut u32,
    /// Sums of rows, line by line.
    sums: *mut f32,
    first_row: u32,
    first_column: u32,
    /// The first column that is read.
    first_read: u32,
    /// Images before its first one at the same distance, and those that there are from it on.
    first_image: u32,
    n_images: u32,
    n: u32,
}

/// y from x, or dx from dy, with up to `K` neighbours along an axis and `V` elements in 16 bytes.
pub unsafe fn resample<T: Vector, const V: usize, const K: usize, const READS: usize>(p: &ResampleSeparableParams) {
    let t = &p.tables;
    let tables = Tables::<SEPARABLE_POSITIONS> {
        weights: shared_array![f32; SEPARABLE_CANDIDATES as usize * SEPARABLE_POSITIONS],
        bounds: shared_array![i32; 3 * SEPARABLE_POSITIONS],
    };
    let (rest, along) = t.tiles_along.div_rem(block_idx_x());
    let (rest, down) = t.tiles_down.div_rem(rest);
    let (n, group) = t.groups.div_rem(rest);
    let first_image = group * t.group.divisor;
    let left = t.channels - first_image;
    let mut block = Block {
        weights: shared_array![f32; SEPARABLE_NEIGHBOURS as usize * SEPARABLE_POSITIONS],
        places: shared_array![u32; SEPARABLE_NEIGHBOURS as usize * SEPARABLE_POSITIONS],
        sums: shared_array![f32; SEPARABLE_SUMS as usize],
        first_row: down * t.tile_rows.divisor,
        first_column: along * t.tile_columns.divisor,
        first_read: 0,
        first_image,
        n_images: if left < t.group.divisor { left } else { t.group.divisor },
        n,
    };
    fill(t, &tables, [0, i64::from(block.first_row), i64::from(block.first_column)]);
    block.find_neighbours::<K>(p, &tables);
    let pair = Pair::<K>::new(p, &block);
    let mut image = 0;
    while image < block.n_images {
        if p.vector > 1 {
            block.add_rows::<T, V, K, READS>(p, image);
        } else {
            block.add_rows::<T, 1, K, READS>(p, image);
        }
        sync_threads();
        if p.whole_pairs != 0 && t.beta == 0.0 {
            pair.add_columns::<T, true>(p, &block, image);
        } else {
            pair.add_columns::<T, false>(p, &block, image);
        }
        sync_threads();
        image += p.images;
    }
}

impl Block {
    /// Neighbours that weigh something, and the first column that is read; what neighbours without weight read instead.
    /// All threads call it.
    #[inline(always)]
    unsafe fn find_neighbours<const K: usize>(
        &mut self,
        p: &ResampleSeparableParams,
        tables: &Tables<SEPARABLE_POSITIONS>,
    ) {
        let firsts = shared_array![u32; WARPS as usize];
        let t = &p.tables;
        let rows = t.tile_rows.divisor;
        let position = thread_idx_x();
        let mut first = NOWHERE;
        if position < 1 + rows + t.tile_columns.divisor {
            let axis = if position <= rows { 1 } else { 2 };
            let found = tables.neighbours(position as usize, extents(t, axis).0);
            for_each!(I < K, {
                let which = found.first + I as i32;
                let weight = if which < found.end { *tables.weight(position as usize, which) } else { 0.0 };
                let place = if weight != 0.0 { found.inside(which) as u32 } else { NOWHERE };
                *self.weights.add(I * SEPARABLE_POSITIONS + position as usize) = weight;
                *self.places.add(I * SEPARABLE_POSITIONS + position as usize) = place;
                if axis == 2 && place < first {
                    first = place;
                }
            });
        }
        warp::sync_warp();
        first = warp::min_u32(first);
        if lane_id() == 0 {
            *firsts.add((position / 32) as usize) = first;
        }
        let mut line = position;
        while line < p.lines {
            *self.sums.add(((line + 1) * p.pitch - 1) as usize) = 0.0;
            line += THREADS;
        }
        sync_threads();
        let mut warp = 0;
        while warp < WARPS {
            let other = *firsts.add(warp as usize);
            first = if other < first { other } else { first };
            warp += 1;
        }
        // A tile whose columns have no neighbours reads nothing.
        self.first_read = if first == NOWHERE { 0 } else { first & !(p.vector - 1) };
    }

    /// Leaves the weighted sums of rows of the lines from an image on, of `V` elements at a time.
    #[inline(always)]
    unsafe fn add_rows<T: Vector, const V: usize, const K: usize, const READS: usize>(
        &self,
        p: &ResampleSeparableParams,
        image: u32,
    ) {
        let t = &p.tables;
        let (read, written) = (extents(t, 2).0 as u32, extents(t, 1).1 as u32);
        let first = t.from.offset(i64::from(self.n), i64::from(self.first_image + image), 0);
        let stride = t.from.strides[3] as i32;
        let n_items = p.lines * p.units.divisor;
        let mut item = thread_idx_x();
        while item < n_items {
            let mut words = [[[0u32; 4]; K]; READS];
            let mut weights = [[0.0f32; K]; READS];
            let mut to = [0u32; READS];
            let mut exist = [false; READS];
            for_each!(J < READS, {
                let item = item + J as u32 * THREADS;
                let (line, unit) = p.units.div_rem(item);
                let (at, row) = t.tile_rows.div_rem(line);
                let column = self.first_read + unit * V as u32;
                let exists =
                    item < n_items && image + at < self.n_images && column < read && self.first_row + row < written;
                if exists {
                    *to.get_unchecked_mut(J) = line * p.pitch + place_in_line(unit * V as u32);
                    *exist.get_unchecked_mut(J) = true;
                    let from = first + i64::from(at) * t.from.strides[1] + i64::from(column);
                    for_each!(I < K, {
                        let neighbour = I * SEPARABLE_POSITIONS + 1 + row as usize;
                        let place = *self.places.add(neighbour);
                        *weights.get_unchecked_mut(J).get_unchecked_mut(I) = *self.weights.add(neighbour);
                        let from = from + i64::from(place as i32 * stride);
                        *words.get_unchecked_mut(J).get_unchecked_mut(I) =
                            load_words::<T, V>(t.from.address, from, place != NOWHERE, 0);
                    });
                }
            });
            for_each!(J < READS, {
                if *exist.get_unchecked(J) {
                    let mut sums = [0.0f32; V];
                    for_each!(I < K, {
                        let values = widened::<T, V>(words.get_unchecked(J).get_unchecked(I));
                        let weight = *weights.get_unchecked(J).get_unchecked(I);
                        for_each!(E < V, {
                            let sum = sums.get_unchecked_mut(E);
                            *sum = math::fma_f32(weight, *values.get_unchecked(E), *sum);
                        });
                    });
                    let to = self.sums.add(*to.get_unchecked(J) as usize);
                    for_each!(E < V, {
                        *to.add(E) = *sums.get_unchecked(E);
                    });
                }
            });
            item += READS as u32 * THREADS;
        }
    }
}

/// A thread's columns: what their neighbours weigh, the result's factor included, and where they stand in a line.
struct Pair<const K: usize> {
    /// The first one's, in an image of what is written, and how many there are.
    column: u32,
    n_columns: u32,
    /// Of the lines at once the first of the thread's, and the distance to the next; none where threads are left over.
    first_line: u32,
    n_lines: u32,
    weights: [[f32; K]; COLUMNS],
    places: [[u32; K]; COLUMNS],
}

impl<const K: usize> Pair<K> {
    #[inline(always)]
    unsafe fn new(p: &ResampleSeparableParams, block: &Block) -> Self {
        let t = &p.tables;
        let (first_line, pair) = p.pairs.div_rem(thread_idx_x());
        let of_tile = pair * COLUMNS as u32;
        let mut weights = [[0.0f32; K]; COLUMNS];
        let mut places = [[0u32; K]; COLUMNS];
        for_each!(C < COLUMNS, {
            for_each!(I < K, {
                // Tiles have whole pairs of columns, some of which may not be there.
                let neighbour = I * SEPARABLE_POSITIONS + (1 + t.tile_rows.divisor + of_tile) as usize + C;
                let place = *block.places.add(neighbour);
                *weights.get_unchecked_mut(C).get_unchecked_mut(I) = t.alpha * *block.weights.add(neighbour);
                *places.get_unchecked_mut(C).get_unchecked_mut(I) =
                    if place == NOWHERE { p.pitch - 1 } else { place_in_line(place - block.first_read) };
            });
        });
        let (column, columns) = (block.first_column + of_tile, extents(t, 2).1 as u32);
        let n_columns = if column >= columns {
            0
        } else if columns - column < COLUMNS as u32 {
            columns - column
        } else {
            COLUMNS as u32
        };
        let n_lines = p.pairs.div_rem(THREADS).0;
        let first_line = if first_line < n_lines && n_columns > 0 { first_line } else { p.lines };
        Pair { column, n_columns, first_line, n_lines, weights, places }
    }

    /// Writes the columns of the lines from an image on; with `PLAIN`, pairs at once and without prior values.
    #[inline(always)]
    unsafe fn add_columns<T: Vector, const PLAIN: bool>(&self, p: &ResampleSeparableParams, block: &Block, image: u32) {
        let t = &p.tables;
        let rows = extents(t, 1).1 as u32;
        let first = t.to.offset(i64::from(block.n), i64::from(block.first_image + image), 0)
            + i64::from(block.first_row) * t.to.strides[3]
            + i64::from(self.column);
        let first = t.to.address.wrapping_add(first as u64 * size_of::<T>() as u64);
        // Of the images at once all lie within 2^31 elements.
        let (of_image, of_row) = (t.to.strides[1] as i32, t.to.strides[3] as i32);
        let (n_images, n_rows) = (block.n_images - image, rows - block.first_row);
        let mut line = self.first_line;
        while line < p.lines {
            let (at, row) = t.tile_rows.div_rem(line);
            if at >= n_images {
                break;
            }
            if row < n_rows {
                let sums = block.sums.add((line * p.pitch) as usize);
                let mut results = [0.0f32; COLUMNS];
                for_each!(C < COLUMNS, {
                    let result = results.get_unchecked_mut(C);
                    for_each!(I < K, {
                        let sum = *sums.add(*self.places.get_unchecked(C).get_unchecked(I) as usize);
                        *result = math::fma_f32(*self.weights.get_unchecked(C).get_unchecked(I), sum, *result);
                    });
                });
                let to = i64::from(at as i32 * of_image + row as i32 * of_row);
                let to = first.wrapping_add((to * size_of::<T>() as i64) as u64);
                if PLAIN {
                    write_pair::<T>(to, results);
                } else {
                    write::<T>(p, to, results, self.n_columns);
                }
            }
            line += self.n_lines;
        }
    }
}

/// Writes a pair.
#[inline(always)]
unsafe fn write_pair<T: Vector>(to: u64, [first, second]: [f32; COLUMNS]) {
    let words = T::pack([first, second, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
    if size_of::<T>() == 2 {
        *(to as *mut u32) = words[0];
    } else {
        *(to as *mut X2<u32>) = X2([words[0], words[1]]);
    }
}

/// Writes results, of which there may be but one, one by one with the prior values' share.
#[inline(always)]
unsafe fn write<T: Vector>(p: &ResampleSeparableParams, to: u64, results: [f32; COLUMNS], n_columns: u32) {
    let to = to as *mut T;
    for_each!(C < COLUMNS, {
        if (C as u32) < n_columns {
            let mut result = *results.get_unchecked(C);
            if p.tables.beta != 0.0 {
                result = math::fma_f32(p.tables.beta, (*to.add(C)).widen(), result);
            }
            *to.add(C) = T::narrow(result);
        }
    });
}
