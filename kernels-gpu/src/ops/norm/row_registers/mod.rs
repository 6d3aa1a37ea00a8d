//! Rows that lie contiguous, held in registers: x is read once and y written once, backward x and dy are.
//!
//! `THREADS` threads hold a row, `VECTORS` vectors of 16 bytes each, thread t those at t, t + THREADS, …. Up to 32 threads
//! are lanes of one warp, and blocks of 256 threads have several rows; more threads are a block of their own. Sums go
//! through shuffles, then through shared memory, in a fixed order; deviations are summed once the mean is nearly known.
//!
//! Forward, the grid has a place for each row, or for up to `SHORT_ROWS` where lanes of a warp hold one. Backward, blocks go on to further rows, which they load while they work on
//! the one before if registers allow: the threads keep to their columns, for which they add up dscale and dbias on the way; [`column_sums`] adds up those of all blocks.

mod forward;
mod lean;
mod sums;

use super::channelwise;
use crate::math::approximate::inverse_sqrt;
use crate::math::element::Element;
use crate::math::statistics::{Moments, Normal, moments};
use crate::math::vector::{for_each, narrowed, widened};
use cuda_std::math::fma_f32;
use cuda_std::memory::{X4, store_x4, store_x4_streaming};
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::{guarded, schedule, shared_array};
use kernel_abi::ops::norm::row_registers::{NormColumnSumsParams, NormRowsParams, SHARED_BLOCK, SUM_COLUMNS, SUM_ROWS};

pub use forward::forward;
use forward::prefetch_parameters;
pub use lean::forward_lean;
pub(super) use sums::{mean_near, of_leader, over_lanes, over_row, place};

const LANES: u32 = 32;

/// Parts of a column that a thread has under way: all that a wave of blocks makes on a large GPU.
const PARTS: usize = 9;
/// Floats from row to row of what threads have summed up, an odd number: then those of a column lie in different banks.
const SUM_PITCH: u32 = SUM_COLUMNS + 1;

/// Whether parameters lie as the columns do, `E` of them in 16 bytes. Then they are loaded under a condition and not behind
/// branches, and those of several vectors are under way together.
#[inline(always)]
pub(super) fn are_simple<const E: usize>(p: &NormRowsParams) -> bool {
    p.run.divisor == 1 && p.period.divisor == 1 && (p.parameters_are_wide == 0 || E == 4)
}

/// dx, and parts of dscale and dbias.
#[inline(always)]
pub unsafe fn backward<
    T: Element<Acc = f32>,
    const E: usize,
    const THREADS: u32,
    const VECTORS: usize,
    const SCARCE: bool,
>(
    p: &NormRowsParams,
) {
    if are_simple::<E>(p) {
        backward_with::<T, E, THREADS, VECTORS, SCARCE, true>(p)
    } else {
        backward_with::<T, E, THREADS, VECTORS, SCARCE, false>(p)
    }
}

/// Whether backward loads a row while it works on the one before: where threads have registers for both.
#[inline(always)]
const fn loads_ahead(vectors: usize) -> bool {
    vectors == 1
}

/// What backward reads of a row: x, dy, and the statistics that are given.
#[derive(Clone, Copy)]
struct Loaded<const VECTORS: usize> {
    x: [[u32; 4]; VECTORS],
    dy: [[u32; 4]; VECTORS],
    mean: f32,
    inv_std: f32,
}

#[inline(always)]
unsafe fn load_all<T: Element, const E: usize, const THREADS: u32, const VECTORS: usize>(
    p: &NormRowsParams,
    at: &Place,
) -> Loaded<VECTORS> {
    let there = at.row < p.n_rows && p.statistics_are_given != 0;
    let read = |address: u64| {
        let [bits] = guarded::load_x1(address + u64::from(at.row) * 4, u32::from(there && address != 0));
        f32::from_bits(bits)
    };
    Loaded {
        x: load_row::<T, E, THREADS, VECTORS>(p, at, p.x, p.x_pitch),
        dy: load_row::<T, E, THREADS, VECTORS>(p, at, p.dy, p.dy_pitch),
        mean: read(p.mean),
        inv_std: read(p.inv_std),
    }
}

#[inline(always)]
unsafe fn backward_with<
    T: Element<Acc = f32>,
    const E: usize,
    const THREADS: u32,
    const VECTORS: usize,
    const SCARCE: bool,
    const SIMPLE: bool,
>(
    p: &NormRowsParams,
) {
    let mut sums = [[[0.0f32; E]; 2]; VECTORS];
    let rows_per_block = rows_of_block::<THREADS>();
    // The same for all threads of a block, which meet at barriers within.
    let mut first = block_idx_x();
    let mut next = load_all::<T, E, THREADS, VECTORS>(p, &Place::new::<THREADS>(first));
    while first * rows_per_block < p.n_rows {
        let at = Place::new::<THREADS>(first);
        let row = next;
        first += grid_dim_x();
        if loads_ahead(VECTORS) {
            next = load_all::<T, E, THREADS, VECTORS>(p, &Place::new::<THREADS>(first));
        }
        let there = at.row < p.n_rows;
        if THREADS > LANES {
            // Nobody may still read sums of the row before.
            sync_threads();
        }
        let normal = if p.statistics_are_given != 0 {
            Normal::given(row.mean, row.inv_std)
        } else {
            statistics::<T, E, THREADS, VECTORS, SCARCE>(p, &at, &row.x).1
        };
        let inv_std = normal.inv_std();
        let (mut shift, mut tilt) = (0.0f32, 0.0f32);
        for_each!(J < VECTORS, {
            let column = at.column::<E, THREADS>(J);
            if there && column < p.row_elems {
                let (x, g) = (row.x.get_unchecked(J), row.dy.get_unchecked(J));
                let (x, g) = (anew::<T, E, SCARCE>(x), anew::<T, E, SCARCE>(g));
                let scale = parameters::<T, E, SIMPLE>(p, p.scale, at.row, column, 1.0);
                let [dscale, dbias] = sums.get_unchecked_mut(J);
                for_each!(I < E, {
                    let normal = normal.of(*x.get_unchecked(I));
                    let g = *g.get_unchecked(I);
                    *dscale.get_unchecked_mut(I) += g * normal;
                    *dbias.get_unchecked_mut(I) += g;
                    let h = g * *scale.get_unchecked(I);
                    shift += h;
                    tilt += h * normal;
                });
            }
        });
        let [shift, tilt] = over_row::<THREADS, 2, { place::GRADIENTS }>([shift, tilt]);
        let shift = if p.has_mean != 0 { shift * p.share } else { 0.0 };
        let tilt = tilt * p.share;
        for_each!(J < VECTORS, {
            let column = at.column::<E, THREADS>(J);
            if there && column < p.row_elems {
                let (x, dy) = (row.x.get_unchecked(J), row.dy.get_unchecked(J));
                let (x, mut dx) = (anew::<T, E, SCARCE>(x), anew::<T, E, SCARCE>(dy));
                let scale = parameters::<T, E, SIMPLE>(p, p.scale, at.row, column, 1.0);
                for_each!(I < E, {
                    let normal = normal.of(*x.get_unchecked(I));
                    let dx = dx.get_unchecked_mut(I);
                    *dx = inv_std * (*dx * *scale.get_unchecked(I) - shift - normal * tilt);
                });
                store::<T, E>(p, at.row, column, dx, streams(THREADS, VECTORS));
            }
        });
        if !loads_ahead(VECTORS) {
            next = load_all::<T, E, THREADS, VECTORS>(p, &Place::new::<THREADS>(first));
        }
    }
    if p.partials != 0 {
        store_partials::<E, THREADS, VECTORS>(p, &sums);
    }
}

/// The elements of 16 bytes. Where registers are scarce they are made anew from the vector in each pass: the compiler is
/// not told that it has seen the vector before.
#[inline(always)]
pub(super) unsafe fn anew<T: Element<Acc = f32>, const E: usize, const SCARCE: bool>(words: &[u32; 4]) -> [f32; E] {
    if !SCARCE {
        return widened::<T, E>(words);
    }
    let [a, b, c, d] = *words;
    widened::<T, E>(&[schedule::opaque(a), schedule::opaque(b), schedule::opaque(c), schedule::opaque(d)])
}

/// Rows that a block has at a time.
#[inline(always)]
const fn rows_of_block<const THREADS: u32>() -> u32 {
    if THREADS <= LANES { SHARED_BLOCK / THREADS } else { 1 }
}

/// Where a thread stands.
#[derive(Clone, Copy)]
struct Place {
    row: u32,
    /// Within the row.
    thread: u32,
}

impl Place {
    #[inline(always)]
    fn new<const THREADS: u32>(block: u32) -> Self {
        let thread = thread_idx_x();
        if THREADS <= LANES {
            Place { row: block * rows_of_block::<THREADS>() + thread / THREADS, thread: thread % THREADS }
        } else {
            Place { row: block, thread }
        }
    }

    /// The same, of which the compiler knows nothing: where vectors lie is found anew, and takes no registers before.
    #[inline(always)]
    fn anew(&self) -> Self {
        Place { row: schedule::opaque(self.row), thread: schedule::opaque(self.thread) }
    }

    /// The first column of the thread's vector `j`.
    #[inline(always)]
    fn column<const E: usize, const THREADS: u32>(&self, j: usize) -> u32 {
        (j as u32 * THREADS + self.thread) * E as u32
    }
}

/// Whether elements are read and written with the hint that they are touched once: so they leave the first-level cache to
/// the parameters of long rows. Short ones take up to 3 % longer with it (H200).
#[inline(always)]
const fn streams(threads: u32, vectors: usize) -> bool {
    threads > LANES && vectors > 1
}

/// The thread's part of a row, all loads under way at once; zeros where there is nothing.
#[inline(always)]
unsafe fn load_row<T: Element, const E: usize, const THREADS: u32, const VECTORS: usize>(
    p: &NormRowsParams,
    at: &Place,
    address: u64,
    pitch: i64,
) -> [[u32; 4]; VECTORS] {
    let from = address + (i64::from(at.row) * pitch) as u64 * size_of::<T>() as u64;
    let mut words = [[0u32; 4]; VECTORS];
    for_each!(J < VECTORS, {
        let column = at.column::<E, THREADS>(J);
        let there = u32::from(at.row < p.n_rows && column < p.row_elems);
        let from = from + u64::from(column) * size_of::<T>() as u64;
        *words.get_unchecked_mut(J) = if streams(THREADS, VECTORS) {
            guarded::load_x4_streaming(from, there)
        } else {
            guarded::load_x4(from, there)
        };
    });
    words
}

/// Mean of a row, and what makes its elements normal, in all its threads.
#[inline(always)]
unsafe fn statistics<
    T: Element<Acc = f32>,
    const E: usize,
    const THREADS: u32,
    const VECTORS: usize,
    const SCARCE: bool,
>(
    p: &NormRowsParams,
    at: &Place,
    x: &[[u32; 4]; VECTORS],
) -> (f32, Normal<f32>) {
    let mut high = 0.0;
    if p.has_mean != 0 {
        let pivot = of_leader::<THREADS>(widened::<T, E>(x.get_unchecked(0))[0]);
        let mut sum = 0.0f32;
        for_each!(J < VECTORS, {
            if at.column::<E, THREADS>(J) < p.row_elems {
                let values = widened::<T, E>(x.get_unchecked(J));
                for_each!(I < E, {
                    sum += *values.get_unchecked(I) - pivot;
                });
            }
        });
        let [from, more] = mean_near::<THREADS>(pivot, sum, p.row_elems / E as u32, E as u32, p.share);
        high = from + more;
    }
    let found: Moments<f32> = moments(
        p.has_mean != 0,
        p.share,
        p.epsilon,
        high,
        #[inline(always)]
        |scale, high, again| {
            if again && THREADS > LANES {
                // Nobody may still read what was summed up before.
                sync_threads();
            }
            let (mut sum, mut squares) = (0.0f32, 0.0f32);
            for_each!(J < VECTORS, {
                if at.column::<E, THREADS>(J) < p.row_elems {
                    let values = anew::<T, E, SCARCE>(x.get_unchecked(J));
                    for_each!(I < E, {
                        let difference = fma_f32(*values.get_unchecked(I), scale, -high);
                        sum += difference;
                        squares += difference * difference;
                    });
                }
            });
            over_row::<THREADS, 2, { place::SQUARES }>([sum, squares])
        },
    );
    (found.mean(), found.normal(p.epsilon, inverse_sqrt))
}

#[inline(always)]
pub(super) unsafe fn store_statistics(p: &NormRowsParams, row: u32, mean: f32, inv_std: f32) {
    if p.mean != 0 {
        *(p.mean as *mut f32).add(row as usize) = mean;
    }
    if p.inv_std != 0 {
        *(p.inv_std as *mut f32).add(row as usize) = inv_std;
    }
}

/// The parameters of a vector; `or` where there are none.
#[inline(always)]
pub(super) unsafe fn parameters<T: Element<Acc = f32>, const E: usize, const SIMPLE: bool>(
    p: &NormRowsParams,
    address: u64,
    row: u32,
    column: u32,
    or: f32,
) -> [f32; E] {
    if SIMPLE {
        return given_or::<T, E>(address, &parameter_words::<T>(address, column, true), or);
    }
    let mut values = [or; E];
    if address == 0 {
        return values;
    }
    if p.run.divisor == 1 && p.period.divisor == 1 {
        return neighbours::<T, E>(address, p.parameters_are_wide, column);
    }
    let read = |param: u32| {
        if p.parameters_are_wide != 0 {
            *(address as *const f32).add(param as usize)
        } else {
            (*(address as *const T).add(param as usize)).widen()
        }
    };
    let first = p.period.div_rem(row).1 * p.params_per_row;
    if p.run.divisor % E as u32 == 0 {
        // All of one parameter.
        return [read(first + p.run.div_rem(column).0); E];
    }
    for_each!(I < E, {
        *values.get_unchecked_mut(I) = read(first + p.run.div_rem(column + I as u32).0);
    });
    values
}

/// Those of a vector as they are stored, where they lie as the columns do; zeros where there are none.
#[inline(always)]
unsafe fn parameter_words<T>(address: u64, column: u32, there: bool) -> [u32; 4] {
    guarded::load_x4(address + u64::from(column) * size_of::<T>() as u64, u32::from(there && address != 0))
}

/// These parameters, `or` where there are none.
#[inline(always)]
unsafe fn given_or<T: Element<Acc = f32>, const E: usize>(address: u64, words: &[u32; 4], or: f32) -> [f32; E] {
    let given = widened::<T, E>(words);
    let mut values = [or; E];
    for_each!(I < E, {
        *values.get_unchecked_mut(I) = if address != 0 { *given.get_unchecked(I) } else { or };
    });
    values
}

/// `E` neighbouring parameters from `at` on, a multiple of `E`.
#[inline(always)]
pub(super) unsafe fn neighbours<T: Element<Acc = f32>, const E: usize>(start: u64, wide: u32, at: u32) -> [f32; E] {
    if wide == 0 {
        let X4(words) = *((start + u64::from(at) * size_of::<T>() as u64) as *const X4<u32>);
        return widened::<T, E>(&words);
    }
    channelwise::neighbours::<E>(start + u64::from(at) * 4)
}

/// Writes `alpha · result + beta · prior`.
#[inline(always)]
pub(super) unsafe fn store<T: Element<Acc = f32>, const E: usize>(
    p: &NormRowsParams,
    row: u32,
    column: u32,
    result: [f32; E],
    streams: bool,
) {
    let to = address_of_result::<T>(p, row, column);
    let mut prior = [0; 4];
    if p.beta != 0.0 {
        X4(prior) = *(to as *const X4<u32>);
    }
    let (prior, mut values) = (widened::<T, E>(&prior), [0.0; E]);
    for_each!(I < E, {
        *values.get_unchecked_mut(I) = p.alpha * *result.get_unchecked(I) + p.beta * *prior.get_unchecked(I);
    });
    let words = narrowed::<T, E>(&values);
    if streams { store_x4_streaming(to as *mut u32, words) } else { store_x4(to as *mut u32, words) }
}

#[inline(always)]
fn address_of_result<T>(p: &NormRowsParams, row: u32, column: u32) -> u64 {
    let elems = i64::from(row) * p.out_pitch + i64::from(column);
    p.out + elems as u64 * size_of::<T>() as u64
}

/// dscale and dbias.
const BOTH: usize = 2;

/// Writes a block's parts of dscale and dbias: where it has several rows at a time, those are added up in shared memory.
#[inline(always)]
unsafe fn store_partials<const E: usize, const THREADS: u32, const VECTORS: usize>(
    p: &NormRowsParams,
    sums: &[[[f32; E]; 2]; VECTORS],
) {
    let at = Place::new::<THREADS>(0);
    let to = p.partials + u64::from(block_idx_x()) * 2 * u64::from(p.row_elems) * 4;
    for_each!(J < VECTORS, {
        for_each!(WHICH < BOTH, {
            let wanted = if WHICH == 0 { p.wants_dscale } else { p.wants_dbias };
            if wanted != 0 {
                let values = sums.get_unchecked(J).get_unchecked(WHICH);
                let to = (to as *mut f32).add(WHICH * p.row_elems as usize);
                if THREADS > LANES {
                    let column = at.column::<E, THREADS>(J);
                    if column < p.row_elems {
                        store_f32s(to.add(column as usize), values);
                    }
                } else {
                    let slots = shared_array![f32; 8 * SHARED_BLOCK as usize];
                    // Nobody may still read what is written now.
                    sync_threads();
                    store_f32s(slots.add(thread_idx_x() as usize * E), values);
                    sync_threads();
                    let columns = THREADS * E as u32;
                    let column = J as u32 * columns + thread_idx_x();
                    if thread_idx_x() < columns && column < p.row_elems {
                        let (mut sum, mut i) = (0.0f32, 0);
                        while i < rows_of_block::<THREADS>() {
                            sum += *slots.add((i * columns + thread_idx_x()) as usize);
                            i += 1;
                        }
                        *to.add(column as usize) = sum;
                    }
                }
            }
        });
    });
}

/// Writes neighbours in fours, to a multiple of 16 bytes.
#[inline(always)]
pub(super) unsafe fn store_f32s<const E: usize>(to: *mut f32, values: &[f32; E]) {
    for_each!(I < E, {
        if I % 4 == 0 {
            let four: [f32; 4] = core::array::from_fn(
                #[inline(always)]
                |i| *values.get_unchecked(I + i),
            );
            *(to.add(I) as *mut X4<f32>) = X4(four);
        }
    });
}

/// dscale and dbias from the parts of all blocks. Blocks of 32 columns, 32 threads for each; grid: columns along x, dscale
/// and dbias along y.
pub unsafe fn column_sums<T: Element<Acc = f32>>(p: &NormColumnSumsParams) {
    let sums = shared_array![f32; SUM_PITCH as usize * SUM_ROWS as usize];
    let thread = thread_idx_x();
    let (lane, row) = (thread % SUM_COLUMNS, thread / SUM_COLUMNS);
    let column = block_idx_x() * SUM_COLUMNS + lane;
    let which = cuda_std::thread::block_idx_y();
    let to = if which == 0 { p.dscale } else { p.dbias };
    let mut sum = 0.0f32;
    if column < p.columns && to != 0 {
        let step = 2 * p.columns as usize;
        let from = (p.partials as *const f32).add((which * p.columns + column) as usize);
        let mut part = row;
        while part < p.n_parts {
            let mut loaded = [0.0f32; PARTS];
            for_each!(J < PARTS, {
                let part = part + J as u32 * SUM_ROWS;
                let address = from.wrapping_add(part as usize * step) as u64;
                let [bits] = guarded::load_x1(address, u32::from(part < p.n_parts));
                *loaded.get_unchecked_mut(J) = f32::from_bits(bits);
            });
            for_each!(J < PARTS, {
                sum += *loaded.get_unchecked(J);
            });
            part += PARTS as u32 * SUM_ROWS;
        }
    }
    *sums.add((row * SUM_PITCH + lane) as usize) = sum;
    sync_threads();
    // A warp a column: what was a row is a lane.
    let column = block_idx_x() * SUM_COLUMNS + row;
    let [sum] = over_lanes([*sums.add((lane * SUM_PITCH + row) as usize)], SUM_ROWS);
    if lane != 0 || column >= p.columns || to == 0 {
        return;
    }
    let mut value = p.alpha * sum;
    if p.parameters_are_wide != 0 {
        let to = (to as *mut f32).add(column as usize);
        if p.beta != 0.0 {
            value += p.beta * *to;
        }
        *to = value;
    } else {
        let to = (to as *mut T).add(column as usize);
        if p.beta != 0.0 {
            value += p.beta * (*to).widen();
        }
        *to = T::narrow(value);
    }
}
