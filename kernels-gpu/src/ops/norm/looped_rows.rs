//! Rows that lie contiguous and are too long for registers: a block goes along each, once for its statistics and once for
//! the results, backward once more for the sums between; what is read again comes from the cache.
//!
//! A thread's statistics grow by a few vectors at a time, whose deviations are from their own mean (Chan, Golub and LeVeque,
//! "Updating formulae and a pairwise algorithm for computing sample variances", 1979); those of all threads are combined by
//! sums in a fixed order. [`columns`] adds up dscale and dbias, by statistics that are there by then: a vector of columns a
//! thread, parts of the rows along the grid's y; the parts are added by `row_registers`' kernel.

use super::row_registers::{anew, over_row, parameters, place, store, store_statistics};
use crate::math::approximate::inverse_sqrt;
use crate::math::element::Element;
use crate::math::vector::{for_each, widened};
use cuda_std::guarded;
use cuda_std::thread::{block_idx_x, block_idx_y, grid_dim_y, thread_idx_x};
use kernel_abi::ops::norm::row_registers::{LOOPED_THREADS as THREADS, NormRowsParams, SUMMED_COLUMNS};

/// Vectors that a thread has under way.
const UNDER_WAY: usize = 4;

/// The same of two tensors.
const PAIRS: usize = 2;

/// Vectors of a row from `first` on, a block's threads apart; zeros where there is nothing.
#[inline(always)]
unsafe fn load<const N: usize>(from: u64, first: u32, n_vectors: u32) -> [[u32; 4]; N] {
    let mut words = [[0u32; 4]; N];
    for_each!(J < N, {
        let vector = first + J as u32 * THREADS;
        *words.get_unchecked_mut(J) = guarded::load_x4(from + u64::from(vector) * 16, u32::from(vector < n_vectors));
    });
    words
}

/// Where a tensor's row begins.
#[inline(always)]
fn row_of<T>(address: u64, row: u32, pitch: i64) -> u64 {
    address + (i64::from(row) * pitch) as u64 * size_of::<T>() as u64
}

/// Mean and inverse standard deviation of a row, in all its threads.
#[inline(always)]
unsafe fn statistics<T: Element<Acc = f32>, const E: usize>(p: &NormRowsParams, x: u64) -> (f32, f32) {
    let n_vectors = p.row_elems / E as u32;
    let (mut n, mut mean, mut squares) = (0.0f32, 0.0f32, 0.0f32);
    let mut first = thread_idx_x();
    while first < n_vectors {
        let words: [[u32; 4]; UNDER_WAY] = load(x, first, n_vectors);
        let (mut count, mut own) = (0.0f32, 0.0f32);
        for_each!(J < UNDER_WAY, {
            let values = widened::<T, E>(words.get_unchecked(J));
            for_each!(I < E, {
                own += *values.get_unchecked(I);
            });
            count += if first + J as u32 * THREADS < n_vectors { E as f32 } else { 0.0 };
        });
        own = if p.has_mean != 0 { own / count } else { 0.0 };
        for_each!(J < UNDER_WAY, {
            if first + J as u32 * THREADS < n_vectors {
                let values = anew::<T, E, true>(words.get_unchecked(J));
                for_each!(I < E, {
                    let deviation = *values.get_unchecked(I) - own;
                    squares += deviation * deviation;
                });
            }
        });
        let (delta, share) = (own - mean, count / (n + count));
        mean += delta * share;
        squares += delta * delta * n * share;
        n += count;
        first += UNDER_WAY as u32 * THREADS;
    }
    if p.has_mean != 0 {
        let [sum] = over_row::<THREADS, 1, { place::MEAN }>([n * mean]);
        let whole = sum * p.share;
        squares += n * (mean - whole) * (mean - whole);
        mean = whole;
    }
    let [squares] = over_row::<THREADS, 1, { place::SQUARES }>([squares]);
    (mean, inverse_sqrt(squares * p.share + p.epsilon))
}

/// y and statistics.
pub unsafe fn forward<T: Element<Acc = f32>, const E: usize>(p: &NormRowsParams) {
    let row = block_idx_x();
    let x = row_of::<T>(p.x, row, p.x_pitch);
    let (mean, inv_std) = statistics::<T, E>(p, x);
    if thread_idx_x() == 0 {
        store_statistics(p, row, mean, inv_std);
    }
    let n_vectors = p.row_elems / E as u32;
    let mut first = thread_idx_x();
    while first < n_vectors {
        let words: [[u32; 4]; UNDER_WAY] = load(x, first, n_vectors);
        for_each!(J < UNDER_WAY, {
            let vector = first + J as u32 * THREADS;
            if vector < n_vectors {
                let column = vector * E as u32;
                let mut y = widened::<T, E>(words.get_unchecked(J));
                let scale = parameters::<T, E, false>(p, p.scale, row, column, 1.0);
                let bias = parameters::<T, E, false>(p, p.bias, row, column, 0.0);
                for_each!(I < E, {
                    let y = y.get_unchecked_mut(I);
                    *y = (*y - mean) * inv_std * *scale.get_unchecked(I) + *bias.get_unchecked(I);
                });
                store::<T, E>(p, row, column, y, false);
            }
        });
        first += UNDER_WAY as u32 * THREADS;
    }
}

/// A number a row, 0 where there are none.
#[inline(always)]
unsafe fn given(address: u64, row: u32, there: bool) -> f32 {
    let [bits] = guarded::load_x1(address + u64::from(row) * 4, u32::from(there && address != 0));
    f32::from_bits(bits)
}

/// dx, and the statistics where they are not given.
pub unsafe fn backward<T: Element<Acc = f32>, const E: usize>(p: &NormRowsParams) {
    let row = block_idx_x();
    let (x, dy) = (row_of::<T>(p.x, row, p.x_pitch), row_of::<T>(p.dy, row, p.dy_pitch));
    let (mean, inv_std) = if p.statistics_are_given != 0 {
        (given(p.mean, row, true), given(p.inv_std, row, true))
    } else {
        let (mean, inv_std) = statistics::<T, E>(p, x);
        if thread_idx_x() == 0 {
            store_statistics(p, row, mean, inv_std);
        }
        (mean, inv_std)
    };
    let n_vectors = p.row_elems / E as u32;
    let (mut shift, mut tilt) = (0.0f32, 0.0f32);
    let mut first = thread_idx_x();
    while first < n_vectors {
        let (x, dy): ([[u32; 4]; PAIRS], [[u32; 4]; PAIRS]) = (load(x, first, n_vectors), load(dy, first, n_vectors));
        for_each!(J < PAIRS, {
            let vector = first + J as u32 * THREADS;
            if vector < n_vectors {
                let (x, g) = (widened::<T, E>(x.get_unchecked(J)), widened::<T, E>(dy.get_unchecked(J)));
                let scale = parameters::<T, E, false>(p, p.scale, row, vector * E as u32, 1.0);
                for_each!(I < E, {
                    let h = *g.get_unchecked(I) * *scale.get_unchecked(I);
                    shift += h;
                    tilt += h * ((*x.get_unchecked(I) - mean) * inv_std);
                });
            }
        });
        first += PAIRS as u32 * THREADS;
    }
    let [shift, tilt] = over_row::<THREADS, 2, { place::GRADIENTS }>([shift, tilt]);
    let shift = if p.has_mean != 0 { shift * p.share } else { 0.0 };
    let tilt = tilt * p.share;
    first = thread_idx_x();
    while first < n_vectors {
        let (x, dy): ([[u32; 4]; PAIRS], [[u32; 4]; PAIRS]) = (load(x, first, n_vectors), load(dy, first, n_vectors));
        for_each!(J < PAIRS, {
            let vector = first + J as u32 * THREADS;
            if vector < n_vectors {
                let column = vector * E as u32;
                let (x, mut dx) = (widened::<T, E>(x.get_unchecked(J)), widened::<T, E>(dy.get_unchecked(J)));
                let scale = parameters::<T, E, false>(p, p.scale, row, column, 1.0);
                for_each!(I < E, {
                    let normal = (*x.get_unchecked(I) - mean) * inv_std;
                    let dx = dx.get_unchecked_mut(I);
                    *dx = inv_std * (*dx * *scale.get_unchecked(I) - shift - normal * tilt);
                });
                store::<T, E>(p, row, column, dx, false);
            }
        });
        first += PAIRS as u32 * THREADS;
    }
}

/// Parts of dscale and dbias: those of every so many rows, by their statistics.
pub unsafe fn columns<T: Element<Acc = f32>, const E: usize>(p: &NormRowsParams) {
    let column = (block_idx_x() * SUMMED_COLUMNS + thread_idx_x()) * E as u32;
    if column >= p.row_elems {
        return;
    }
    let mut sums = [[0.0f32; E]; 2];
    let step = grid_dim_y();
    let mut first = block_idx_y();
    while first < p.n_rows {
        let (mut x, mut dy) = ([[0u32; 4]; UNDER_WAY], [[0u32; 4]; UNDER_WAY]);
        let (mut means, mut inv_stds) = ([0.0f32; UNDER_WAY], [0.0f32; UNDER_WAY]);
        for_each!(R < UNDER_WAY, {
            let row = first + R as u32 * step;
            let there = row < p.n_rows;
            let at = u64::from(column) * size_of::<T>() as u64;
            *x.get_unchecked_mut(R) = guarded::load_x4(row_of::<T>(p.x, row, p.x_pitch) + at, u32::from(there));
            *dy.get_unchecked_mut(R) = guarded::load_x4(row_of::<T>(p.dy, row, p.dy_pitch) + at, u32::from(there));
            *means.get_unchecked_mut(R) = given(p.mean, row, there);
            *inv_stds.get_unchecked_mut(R) = given(p.inv_std, row, there);
        });
        for_each!(R < UNDER_WAY, {
            let (x, g) = (widened::<T, E>(x.get_unchecked(R)), widened::<T, E>(dy.get_unchecked(R)));
            let [dscale, dbias] = &mut sums;
            for_each!(I < E, {
                let normal = (*x.get_unchecked(I) - *means.get_unchecked(R)) * *inv_stds.get_unchecked(R);
                let g = *g.get_unchecked(I);
                *dscale.get_unchecked_mut(I) += g * normal;
                *dbias.get_unchecked_mut(I) += g;
            });
        });
        first += UNDER_WAY as u32 * step;
    }
    let part = u64::from(block_idx_y()) * 2 * u64::from(p.row_elems) + u64::from(column);
    let to = (p.partials + part * 4) as *mut f32;
    for_each!(I < E, {
        *to.add(I) = *sums.get_unchecked(0).get_unchecked(I);
        *to.add(p.row_elems as usize + I) = *sums.get_unchecked(1).get_unchecked(I);
    });
}
