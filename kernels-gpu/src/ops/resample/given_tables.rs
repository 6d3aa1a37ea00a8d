//! Neighbours and weights of every position come with the launch, so nothing is computed or shared before the first access:
//! each thread gathers 16 bytes of channels of a position, or a single element, all neighbours of a plane under way at once.
//!
//! Grid: exact, one-dimensional. Block: 128 threads.

use crate::math::element::Element;
use crate::math::vector;
use crate::math::words::{load_words, store};
use cuda_std::math;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use kernel_abi::ops::resample::ResampleGivenParams;

const THREADS: u32 = 128;

/// y from x, or dx from dy: `V` elements an access, `N` neighbours along rows and columns.
#[inline(always)]
pub unsafe fn gather<T: Element<Acc = f32>, const V: usize, const N: usize>(p: &ResampleGivenParams) {
    let item = block_idx_x() * THREADS + thread_idx_x();
    if item >= p.n_items {
        return;
    }
    let (mut rest, mut c) = (item, 0);
    if p.channels_innermost != 0 {
        (rest, c) = p.channels.div_rem(rest);
    }
    let (rest, w) = p.width.div_rem(rest);
    let (rest, h) = p.height.div_rem(rest);
    let (mut n, d) = p.depth.div_rem(rest);
    if p.channels_innermost == 0 {
        (n, c) = p.channels.div_rem(n);
    }
    let row = (p.depth.divisor + h) as usize;
    let column = (p.depth.divisor + p.height.divisor + w) as usize;
    let first = |position: usize| i64::from(*p.first.get_unchecked(position));
    let weight = |position: usize, which: usize| *p.weights.get_unchecked(position).get_unchecked(which);
    let strides = &p.from.strides;
    let image = p.from.offset(i64::from(n), i64::from(c), first(d as usize));
    let corner = image + first(row) * strides[3] + first(column) * strides[4];
    let mut sums = [0.0f32; V];
    let mut plane = 0;
    while plane < p.plane_neighbours as usize {
        let of_plane = weight(d as usize, plane);
        let mut weights = [[0.0f32; N]; N];
        let mut loaded = [[[0u32; 4]; N]; N];
        vector::for_each!(R < N, {
            let of_row = of_plane * weight(row, R);
            vector::for_each!(C < N, {
                let weight = of_row * weight(column, C);
                let at = corner + plane as i64 * strides[2] + R as i64 * strides[3] + C as i64 * strides[4];
                // What weighs nothing is left out: it may be infinite, or not be there.
                *loaded.get_unchecked_mut(R).get_unchecked_mut(C) =
                    load_words::<T, V>(p.from.address, at, weight != 0.0, 0);
                *weights.get_unchecked_mut(R).get_unchecked_mut(C) = weight;
            });
        });
        vector::for_each!(R < N, {
            vector::for_each!(C < N, {
                let weight = *weights.get_unchecked(R).get_unchecked(C);
                let values = vector::widened::<T, V>(loaded.get_unchecked(R).get_unchecked(C));
                vector::for_each!(E < V, {
                    let sum = sums.get_unchecked_mut(E);
                    *sum = math::fma_f32(weight, *values.get_unchecked(E), *sum);
                });
            });
        });
        plane += 1;
    }
    let to = p.to.offset(i64::from(n), i64::from(c), i64::from(d));
    let to = to + i64::from(h) * p.to.strides[3] + i64::from(w) * p.to.strides[4];
    store::<T, V>(p.to.address, to, sums, p.alpha, p.beta);
}
