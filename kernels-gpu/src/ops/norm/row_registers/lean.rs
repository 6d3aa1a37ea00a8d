//! y and statistics of long rows whose parameters lie as their columns do, in as few registers as let many blocks stand
//! beside one another: while one waits for its sum, the others' loads and stores go on.

use super::{Place, address_of_result, anew, load_row, prefetch_parameters, statistics, store_statistics};
use crate::math::element::Element;
use crate::math::vector::{for_each, narrowed, widened};
use cuda_std::thread::block_idx_x;
use cuda_std::{guarded, schedule};
use kernel_abi::ops::norm::row_registers::NormRowsParams;

/// y and statistics, a row a block.
#[inline(always)]
pub unsafe fn forward_lean<T: Element<Acc = f32>, const E: usize, const THREADS: u32, const VECTORS: usize>(
    p: &NormRowsParams,
) {
    let at = Place::new::<THREADS>(block_idx_x());
    let x = load_row::<T, E, THREADS, VECTORS>(p, &at, p.x, p.x_pitch);
    prefetch_parameters::<T, E, THREADS, VECTORS>(p, &at);
    let (mean, inv_std) = statistics::<T, E, THREADS, VECTORS, true>(p, &at, &x);
    if at.thread == 0 {
        store_statistics(p, at.row, mean, inv_std);
    }
    let factor = p.alpha * inv_std;
    for_each!(J < VECTORS, {
        // Where the vector lies is found anew: known from before, it would take registers all the while.
        let at = Place { row: schedule::opaque(at.row), thread: schedule::opaque(at.thread) };
        let column = at.column::<E, THREADS>(J);
        let there = column < p.row_elems;
        let mut y = anew::<T, E, true>(x.get_unchecked(J));
        for_each!(I < E, {
            let y = y.get_unchecked_mut(I);
            *y = (*y - mean) * factor;
        });
        // Not all that is read for a vector at once.
        if p.scale != 0 {
            let scale = read::<T, E>(p.scale, column, there);
            for_each!(I < E, {
                *y.get_unchecked_mut(I) *= *scale.get_unchecked(I);
            });
        }
        if p.bias != 0 {
            add::<T, E>(&mut y, p.alpha, p.bias, column, there);
        }
        let to = address_of_result::<T>(p, at.row, column);
        if p.beta != 0.0 {
            add::<T, E>(&mut y, p.beta, to, 0, there);
        }
        guarded::store_x4_streaming(to, narrowed::<T, E>(&y), u32::from(there));
    });
}

/// The vector of a column, zeros where it is not there.
#[inline(always)]
unsafe fn read<T: Element<Acc = f32>, const E: usize>(from: u64, column: u32, there: bool) -> [f32; E] {
    widened::<T, E>(&guarded::load_x4_own(from + u64::from(column) * size_of::<T>() as u64, u32::from(there)))
}

/// Adds `factor` times the vector of a column.
#[inline(always)]
unsafe fn add<T: Element<Acc = f32>, const E: usize>(
    y: &mut [f32; E],
    factor: f32,
    from: u64,
    column: u32,
    there: bool,
) {
    let values = read::<T, E>(from, column, there);
    for_each!(I < E, {
        *y.get_unchecked_mut(I) += factor * *values.get_unchecked(I);
    });
}
