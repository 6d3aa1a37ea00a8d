//! Channels that lie together in whole 16 bytes: a thread gathers these for several columns of a tile, all of whose loads are
//! under way at once. Of each row and column of the tile exactly `K` neighbours stand in shared memory, so that nothing is
//! counted or compared where they are read: one with fewer has parts of one neighbour's weight in the place of others.
//!
//! Grid: exact, one-dimensional. Block: 256 threads.

use super::tables::{N_BOUNDS, N_WEIGHTS, THREADS, Tables, extents, fill};
use crate::math::element::Element;
use crate::math::vector;
use crate::math::words::store;
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::{math, memory, shared, shared_array};
use kernel_abi::ops::resample::{ResampleTableParams, TABLE_POSITIONS};

/// The most neighbours along an axis.
const MOST: usize = 4;

/// Columns that a thread computes at once: what they read takes registers.
pub const fn columns_at_once(neighbours: usize) -> usize {
    match neighbours {
        1 => 4,
        2 => 2,
        _ => 1,
    }
}

/// The neighbours of a row or column: how far they are from the image's begin, and what they weigh.
#[derive(Clone, Copy)]
struct Known<const K: usize> {
    offsets: [i32; K],
    weights: [f32; K],
}

impl<const K: usize> Known<K> {
    /// Reads what [`prepare`] wrote.
    #[inline(always)]
    unsafe fn read(known: u32, position: u32) -> Self {
        let at = known + position * (8 * K as u32);
        let mut words = [0u32; 2 * MOST];
        if K == 1 {
            let [offset, weight] = shared::load_x2(at);
            (words[0], words[1]) = (offset, weight);
        } else {
            [words[0], words[1], words[2], words[3]] = shared::load_x4(at);
            if K == MOST {
                [words[4], words[5], words[6], words[7]] = shared::load_x4(at + 16);
            }
        }
        let mut known = Known { offsets: [0; K], weights: [0.0; K] };
        vector::for_each!(I < K, {
            *known.offsets.get_unchecked_mut(I) = *words.get_unchecked(I) as i32;
            *known.weights.get_unchecked_mut(I) = f32::from_bits(*words.get_unchecked(K + I));
        });
        known
    }
}

/// Leaves offsets and weights of all rows and columns of a tile, those of rows with the result's factor. All threads call it.
#[inline(always)]
unsafe fn prepare<const K: usize>(p: &ResampleTableParams, tables: &Tables<TABLE_POSITIONS>, known: u32) {
    let rows = p.tile_rows.divisor;
    let position = thread_idx_x();
    if position > 0 && position < 1 + rows + p.tile_columns.divisor {
        let axis = if position <= rows { 1 } else { 2 };
        let factor = if position <= rows { p.alpha } else { 1.0 };
        let stride = *p.from.strides.get_unchecked(2 + axis) as i32;
        let found = tables.neighbours(position as usize, extents(p, axis).0);
        let at = known + position * (8 * K as u32);
        let (mut n, mut which) = (0, found.first);
        let (mut first_offset, mut first_weight) = (0, 0.0f32);
        while which < found.end && n < K as u32 {
            let weight = factor * *tables.weight(position as usize, which);
            // What weighs nothing is left out: it may be infinite.
            if weight != 0.0 {
                let offset = found.inside(which) * stride;
                (first_offset, first_weight) = if n == 0 { (offset, weight) } else { (first_offset, first_weight) };
                shared::store_u32(at + 4 * n, offset as u32);
                shared::store_f32(at + 4 * (K as u32 + n), weight);
                n += 1;
            }
            which += 1;
        }
        // Halves are exact; where there is none, all weigh nothing.
        while n < K as u32 {
            first_weight *= if n == 0 { 1.0 } else { 0.5 };
            shared::store_u32(at + 4 * n, first_offset as u32);
            shared::store_f32(at + 4 * (K as u32 + n), first_weight);
            shared::store_f32(at + 4 * K as u32, first_weight);
            n += 1;
        }
    }
    sync_threads();
}

/// Reads all neighbours. A function of its own, as [`weighted`] is: bodies in bodies that are written out are many.
#[inline(always)]
unsafe fn load<T, const K: usize>(image: u64, rows: &Known<K>, columns: &Known<K>, channel: i32) -> [[[u32; 4]; K]; K] {
    let mut loaded = [[[0u32; 4]; K]; K];
    vector::for_each!(R < K, {
        *loaded.get_unchecked_mut(R) = load_row::<T, K>(image, *rows.offsets.get_unchecked(R) + channel, columns);
    });
    loaded
}

#[inline(always)]
unsafe fn load_row<T, const K: usize>(image: u64, row: i32, columns: &Known<K>) -> [[u32; 4]; K] {
    let mut loaded = [[0u32; 4]; K];
    vector::for_each!(C < K, {
        let offset = row + *columns.offsets.get_unchecked(C);
        let from = image.wrapping_add((i64::from(offset) * size_of::<T>() as i64) as u64);
        *loaded.get_unchecked_mut(C) = memory::load_x4(from as *const u32);
    });
    loaded
}

/// The weighted sum of neighbours.
#[inline(always)]
unsafe fn weighted<T: Element<Acc = f32>, const V: usize, const K: usize>(
    loaded: &[[[u32; 4]; K]; K],
    rows: &[f32; K],
    columns: &[f32; K],
) -> [f32; V] {
    let mut sums = [0.0f32; V];
    vector::for_each!(R < K, {
        add_row::<T, V, K>(loaded.get_unchecked(R), *rows.get_unchecked(R), columns, &mut sums);
    });
    sums
}

#[inline(always)]
unsafe fn add_row<T: Element<Acc = f32>, const V: usize, const K: usize>(
    loaded: &[[u32; 4]; K],
    row: f32,
    columns: &[f32; K],
    sums: &mut [f32; V],
) {
    vector::for_each!(C < K, {
        add::<T, V>(loaded.get_unchecked(C), row * *columns.get_unchecked(C), sums);
    });
}

#[inline(always)]
unsafe fn add<T: Element<Acc = f32>, const V: usize>(words: &[u32; 4], weight: f32, sums: &mut [f32; V]) {
    let values = vector::widened::<T, V>(words);
    vector::for_each!(E < V, {
        let sum = sums.get_unchecked_mut(E);
        *sum = math::fma_f32(weight, *values.get_unchecked(E), *sum);
    });
}

/// y from x, or dx from dy: `V` channels an access, `K` neighbours along an axis.
#[inline(always)]
pub unsafe fn gather<T: Element<Acc = f32>, const V: usize, const K: usize, const AT_ONCE: usize>(
    p: &ResampleTableParams,
) {
    let tables =
        Tables::<TABLE_POSITIONS> { weights: shared_array![f32; N_WEIGHTS], bounds: shared_array![i32; N_BOUNDS] };
    let known = shared::address(shared_array![u32; 2 * MOST * TABLE_POSITIONS]);
    let (rest, along) = p.tiles_along.div_rem(block_idx_x());
    let (n, down) = p.tiles_down.div_rem(rest);
    let (rows, columns) = (p.tile_rows.divisor, p.tile_columns.divisor);
    let (first_row, first_column) = (down * rows, along * columns);
    fill(p, &tables, [0, i64::from(first_row), i64::from(first_column)]);
    prepare::<K>(p, &tables, known);
    let left = |extent: i64, first: u32, most: u32| {
        let left = extent as u32 - first;
        if left < most { left } else { most }
    };
    let n_rows = left(extents(p, 1).1, first_row, rows);
    let n_columns = left(extents(p, 2).1, first_column, columns);
    let image = p.from.address.wrapping_add((p.from.offset(i64::from(n), 0, 0) * size_of::<T>() as i64) as u64);
    let to = p.to.offset(i64::from(n), 0, 0)
        + i64::from(first_row) * p.to.strides[3]
        + i64::from(first_column) * p.to.strides[4];
    let n_items = n_rows * columns * p.group.divisor;
    let mut item = thread_idx_x();
    while item < n_items {
        let mut loaded = [[[[0u32; 4]; K]; K]; AT_ONCE];
        let mut weights = [[[0.0f32; K]; 2]; AT_ONCE];
        let mut places = [0i32; AT_ONCE];
        let mut exist = [false; AT_ONCE];
        vector::for_each!(I < AT_ONCE, {
            let item = item + I as u32 * THREADS;
            // What is not there reads what the tile's first position reads.
            let (rest, unit) = p.group.div_rem(if item < n_items { item } else { 0 });
            let (row, column) = p.tile_columns.div_rem(rest);
            let of_row = Known::<K>::read(known, 1 + row);
            let of_column = Known::<K>::read(known, 1 + rows + if column < n_columns { column } else { 0 });
            let channel = (unit * V as u32) as i32;
            *loaded.get_unchecked_mut(I) = load::<T, K>(image, &of_row, &of_column, channel);
            *weights.get_unchecked_mut(I) = [of_row.weights, of_column.weights];
            *exist.get_unchecked_mut(I) = item < n_items && column < n_columns;
            *places.get_unchecked_mut(I) =
                row as i32 * p.to.strides[3] as i32 + column as i32 * p.to.strides[4] as i32 + channel;
        });
        vector::for_each!(I < AT_ONCE, {
            let [of_row, of_column] = *weights.get_unchecked(I);
            // All neighbours of a row or column weigh something, or none does.
            let any = of_row[0] != 0.0 && of_column[0] != 0.0;
            let sums = weighted::<T, V, K>(loaded.get_unchecked(I), &of_row, &of_column);
            if *exist.get_unchecked(I) {
                let results = if any { sums } else { [0.0; V] };
                let to = to + i64::from(*places.get_unchecked(I));
                if p.beta == 0.0 {
                    let at = p.to.address.wrapping_add((to * size_of::<T>() as i64) as u64);
                    memory::store_x4(at as *mut u32, vector::narrowed::<T, V>(&results));
                } else {
                    store::<T, V>(p.to.address, to, results, 1.0, p.beta);
                }
            }
        });
        item += AT_ONCE as u32 * THREADS;
    }
}
