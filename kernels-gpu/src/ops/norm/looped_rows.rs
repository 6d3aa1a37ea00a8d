//! Rows that lie contiguous and are too long for registers: a block goes along each, once for its statistics and once for
//! the results, backward once more for the sums between; what is read again comes from the cache.
//!
//! A thread's statistics grow by a few vectors at a time, whose deviations are from their own mean (Chan, Golub and LeVeque,
//! "Updating formulae and a pairwise algorithm for computing sample variances", 1979); those of all threads are combined by
//! sums in a fixed order. [`columns`] adds up dscale and dbias, by statistics that are there by then: a vector of columns a
//! thread, parts of the rows along the grid's y; the parts are added by `row_registers`' kernel.

use super::row_registers::{anew, mean_near, of_leader, over_row, parameters, place, store, store_statistics};
use crate::math::approximate::inverse_sqrt;
use crate::math::element::Element;
use crate::math::statistics::{Moments, Normal, is_usual, moments};
use crate::math::vector::{for_each, widened};
use cuda_std::guarded;
use cuda_std::math::fma_f32;
use cuda_std::thread::{block_idx_x, block_idx_y, grid_dim_y, sync_threads, thread_idx_x};
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

/// What a thread knows of its elements: their number, the mean as the sum of two numbers, and squared deviations from it.
/// The mean of the first vectors stays; what it grows by is of the size of differences, and keeps their digits.
#[derive(Default)]
struct Own {
    n: f32,
    base: f32,
    off: f32,
    squares: f32,
}

/// Those of a thread, of a row with a mean.
#[inline(always)]
unsafe fn own<T: Element<Acc = f32>, const E: usize>(x: u64, n_vectors: u32) -> Own {
    let mut all = Own::default();
    let mut first = thread_idx_x();
    while first < n_vectors {
        let words: [[u32; 4]; UNDER_WAY] = load(x, first, n_vectors);
        let pivot = widened::<T, E>(words.get_unchecked(0))[0];
        let (mut count, mut sum) = (0.0f32, 0.0f32);
        for_each!(J < UNDER_WAY, {
            if first + J as u32 * THREADS < n_vectors {
                let values = widened::<T, E>(words.get_unchecked(J));
                for_each!(I < E, {
                    sum += *values.get_unchecked(I) - pivot;
                });
                count += E as f32;
            }
        });
        let near = pivot + sum / count;
        let (mut differences, mut squares) = (0.0f32, 0.0f32);
        for_each!(J < UNDER_WAY, {
            if first + J as u32 * THREADS < n_vectors {
                let values = anew::<T, E, true>(words.get_unchecked(J));
                for_each!(I < E, {
                    let difference = *values.get_unchecked(I) - near;
                    differences += difference;
                    squares += difference * difference;
                });
            }
        });
        let low = differences / count;
        let spread = squares - differences * low;
        if all.n == 0.0 {
            all.base = near;
        }
        let (delta, share) = ((near - all.base) + low - all.off, count / (all.n + count));
        all.off += delta * share;
        all.squares += (if spread < 0.0 { 0.0 } else { spread }) + delta * delta * all.n * share;
        all.n += count;
        first += UNDER_WAY as u32 * THREADS;
    }
    all
}

/// Mean of a row, and what makes its elements normal, in all its threads.
#[inline(always)]
unsafe fn statistics<T: Element<Acc = f32>, const E: usize>(p: &NormRowsParams, x: u64) -> (f32, Normal<f32>) {
    let n_vectors = p.row_elems / E as u32;
    let mut high = 0.0f32;
    if p.has_mean != 0 {
        let own = own::<T, E>(x, n_vectors);
        let pivot = of_leader::<THREADS>(own.base);
        let sum = if own.n > 0.0 { own.n * ((own.base - pivot) + own.off) } else { 0.0 };
        let [from, more] = mean_near::<THREADS>(pivot, sum, n_vectors, E as u32, p.share);
        high = from + more;
        let low = (from - high) + more;
        let from_mean = ((own.base - high) + own.off) - low;
        let squares = if own.n > 0.0 { own.squares + own.n * from_mean * from_mean } else { 0.0 };
        let [squares] = over_row::<THREADS, 1, { place::SQUARES }>([squares]);
        if is_usual(squares, p.epsilon) {
            let found = Moments { scale: 1.0, high, low, variance: squares * p.share };
            return (found.mean(), found.normal(p.epsilon, inverse_sqrt));
        }
    }
    let found: Moments<f32> = moments(
        p.has_mean != 0,
        p.share,
        p.epsilon,
        high,
        #[inline(always)]
        |scale, high, again| {
            if again || p.has_mean != 0 {
                // Nobody may still read what was summed up before.
                sync_threads();
            }
            let (mut sum, mut squares) = (0.0f32, 0.0f32);
            let mut first = thread_idx_x();
            while first < n_vectors {
                let words: [[u32; 4]; UNDER_WAY] = load(x, first, n_vectors);
                for_each!(J < UNDER_WAY, {
                    if first + J as u32 * THREADS < n_vectors {
                        let values = widened::<T, E>(words.get_unchecked(J));
                        for_each!(I < E, {
                            let difference = fma_f32(*values.get_unchecked(I), scale, -high);
                            sum += difference;
                            squares += difference * difference;
                        });
                    }
                });
                first += UNDER_WAY as u32 * THREADS;
            }
            over_row::<THREADS, 2, { place::SQUARES }>([sum, squares])
        },
    );
    (found.mean(), found.normal(p.epsilon, inverse_sqrt))
}

/// y and statistics.
pub unsafe fn forward<T: Element<Acc = f32>, const E: usize>(p: &NormRowsParams) {
    let row = block_idx_x();
    let x = row_of::<T>(p.x, row, p.x_pitch);
    let (mean, normal) = statistics::<T, E>(p, x);
    if thread_idx_x() == 0 {
        store_statistics(p, row, mean, normal.inv_std());
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
                    *y = normal.of(*y) * *scale.get_unchecked(I) + *bias.get_unchecked(I);
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
    let normal = if p.statistics_are_given != 0 {
        Normal::given(given(p.mean, row, true), given(p.inv_std, row, true))
    } else {
        let (mean, normal) = statistics::<T, E>(p, x);
        if thread_idx_x() == 0 {
            store_statistics(p, row, mean, normal.inv_std());
            if p.rest != 0 {
                *(p.rest as *mut f32).add(row as usize) = normal.rest(mean);
            }
        }
        normal
    };
    let inv_std = normal.inv_std();
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
                    tilt += h * normal.of(*x.get_unchecked(I));
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
                    let normal = normal.of(*x.get_unchecked(I));
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
        let (mut means, mut inv_stds, mut rests) = ([0.0f32; UNDER_WAY], [0.0f32; UNDER_WAY], [0.0f32; UNDER_WAY]);
        for_each!(R < UNDER_WAY, {
            let row = first + R as u32 * step;
            let there = row < p.n_rows;
            let at = u64::from(column) * size_of::<T>() as u64;
            *x.get_unchecked_mut(R) = guarded::load_x4(row_of::<T>(p.x, row, p.x_pitch) + at, u32::from(there));
            *dy.get_unchecked_mut(R) = guarded::load_x4(row_of::<T>(p.dy, row, p.dy_pitch) + at, u32::from(there));
            *means.get_unchecked_mut(R) = given(p.mean, row, there);
            *inv_stds.get_unchecked_mut(R) = given(p.inv_std, row, there);
            *rests.get_unchecked_mut(R) = given(p.rest, row, there);
        });
        for_each!(R < UNDER_WAY, {
            let (x, g) = (widened::<T, E>(x.get_unchecked(R)), widened::<T, E>(dy.get_unchecked(R)));
            let [dscale, dbias] = &mut sums;
            for_each!(I < E, {
                let from_mean = *x.get_unchecked(I) - *means.get_unchecked(R);
                let normal = fma_f32(from_mean, *inv_stds.get_unchecked(R), *rests.get_unchecked(R));
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
