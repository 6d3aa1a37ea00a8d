//! y and statistics of long rows whose parameters lie as their columns do, in as few registers as let many blocks stand
//! beside one another: while one waits for its sum, the others' loads and stores go on.

use super::{Place, address_of_result, anew, load_row, prefetch_parameters, statistics, store_statistics};
use crate::math::element::Element;
use crate::math::vector::{for_each, narrowed, widened};
use cuda_std::guarded;
use cuda_std::thread::block_idx_x;
use kernel_abi::ops::norm::row_registers::NormRowsParams;

/// y and statistics, a row a block.
#[inline(always)]
pub unsafe fn forward_lean<T: Element<Acc = f32>, const E: usize, const THREADS: u32, const VECTORS: usize>(
    p: &NormRowsParams,
) {
    let at = Place::new::<THREADS>(block_idx_x());
    let x = load_row::<T, E, THREADS, VECTORS>(p, &at, p.x, p.x_pitch);
    prefetch_parameters::<T, E, THREADS, VECTORS>(p, &at);
    let (mean, mut normal) = statistics::<T, E, THREADS, VECTORS, true>(p, &at, &x);
    if at.thread == 0 {
        store_statistics(p, at.row, mean, normal.inv_std());
    }
    (normal.inverse, normal.shift) = (p.alpha * normal.inverse, p.alpha * normal.shift);
    for_each!(J < VECTORS, {
        let at = at.anew();
        let column = at.column::<E, THREADS>(J);
        let there = column < p.row_elems;
        let mut y = anew::<T, E, true>(x.get_unchecked(J));
        for_each!(I < E, {
            let y = y.get_unchecked_mut(I);
            *y = normal.of(*y);
        });
        // Not all that is read for a vector at once.
        if p.scale != 0 {
            let scale = parameters::<T, E>(p, p.scale, column, there);
            for_each!(I < E, {
                *y.get_unchecked_mut(I) *= *scale.get_unchecked(I);
            });
        }
        if p.bias != 0 {
            add::<E>(&mut y, p.alpha, parameters::<T, E>(p, p.bias, column, there));
        }
        let to = address_of_result::<T>(p, at.row, column);
        if p.beta != 0.0 {
            add::<E>(&mut y, p.beta, widened::<T, E>(&guarded::load_x4_own(to, u32::from(there))));
        }
        guarded::store_x4_streaming(to, narrowed::<T, E>(&y), u32::from(there));
    });
}

/// The parameters of a column's vector, zeros where it is not there.
#[inline(always)]
unsafe fn parameters<T: Element<Acc = f32>, const E: usize>(
    p: &NormRowsParams,
    address: u64,
    column: u32,
    there: bool,
) -> [f32; E] {
    let from = |bytes: usize| address + u64::from(column) * bytes as u64;
    if size_of::<T>() == 4 || p.parameters_are_wide == 0 {
        return widened::<T, E>(&guarded::load_x4_own(from(size_of::<T>()), u32::from(there)));
    }
    let halves = [0, 16].map(
        #[inline(always)]
        |half| guarded::load_x4_own(from(4) + half, u32::from(there)),
    );
    let mut values = [0.0; E];
    for_each!(I < E, {
        *values.get_unchecked_mut(I) = f32::from_bits(halves[I / 4 % 2][I % 4]);
    });
    values
}

#[inline(always)]
unsafe fn add<const E: usize>(y: &mut [f32; E], factor: f32, values: [f32; E]) {
    for_each!(I < E, {
        *y.get_unchecked_mut(I) += factor * *values.get_unchecked(I);
    });
}
