//! One thread an element of what is written. The backward pass gathers, so it needs no atomics and no zeroing; for
//! `max` without an index it looks for the maximum of every window around its element again.

use crate::math::element::{Accumulator, Element, blend, load, load_index, store_index};
use crate::math::index::{Spatial, for_each_index, spatial, spatial_offset};
use crate::math::sum::Sum;
use kernel_abi::ops::pool::{PoolMode, PoolNan, PoolParams, first_place, place};

/// Positions of a window inside the image, per axis: begin, end, distance.
type Window = [(i64, i64, i64); 3];

#[inline(always)]
unsafe fn window_at(p: &PoolParams, output: [i64; 3]) -> Window {
    let axis = |a: usize| {
        let (begin, end) = p.axes[a].window(output[a]);
        (begin, end, p.axes[a].dilation)
    };
    [axis(0), axis(1), axis(2)]
}

/// y = pool(x), and where the maxima are.
pub unsafe fn forward<T: Element>(p: &PoolParams) {
    for_each_index(p.n_elems, |i| {
        let output = [p.axes[0].output, p.axes[1].output, p.axes[2].output];
        let Spatial { n, c, at } = spatial(i, p.c, output, p.channels_innermost != 0);
        let window = window_at(p, at);
        let image = n * p.x.strides[0] + c * p.x.strides[1];
        let result = if p.mode == PoolMode::Max as u32 {
            let (value, first) = maximum::<T>(p, image, window);
            if p.index.address != 0 {
                let to = n * p.index.strides[0] + c * p.index.strides[1] + spatial_offset(&p.index, at);
                let number = first_place(&p.axes, p.index_base, p.c, n, c) + place(&p.axes, first);
                store_index(p.index.address, p.index_bytes, to, number);
            }
            value
        } else if p.mode == PoolMode::Lp as u32 {
            norm::<T>(p, image, window)
        } else {
            let mut sum = Sum::<T::Acc>::EMPTY;
            for_each_position(window, |at| sum.push(load::<T>(p.x.address, image + spatial_offset(&p.x, at))));
            T::Acc::from_f64(sum.finish() / divisor(p, at) as f64)
        };
        let to = n * p.y.strides[0] + c * p.y.strides[1] + spatial_offset(&p.y, at);
        blend::<T>(p.y.address, to, result, p.alpha, p.beta);
    });
}

/// dx from dy, and from x or index where the mode needs one.
pub unsafe fn backward<T: Element>(p: &PoolParams) {
    for_each_index(p.n_elems, |i| {
        let extents = [p.axes[0].image, p.axes[1].image, p.axes[2].image];
        let Spatial { n, c, at } = spatial(i, p.c, extents, p.channels_innermost != 0);
        let axis = |a: usize| {
            let (begin, end) = p.axes[a].covering(at[a]);
            (begin, end, 1)
        };
        let image = n * p.x.strides[0] + c * p.x.strides[1];
        let gradient = n * p.y.strides[0] + c * p.y.strides[1];
        let indices = n * p.index.strides[0] + c * p.index.strides[1];
        let here = first_place(&p.axes, p.index_base, p.c, n, c) + place(&p.axes, at);
        let mut sum = Sum::<T::Acc>::EMPTY;
        for_each_position([axis(0), axis(1), axis(2)], |output| {
            let holds = |a: usize| p.axes[a].holds(output[a], at[a]);
            if !(holds(0) && holds(1) && holds(2)) {
                return;
            }
            let dy = || load::<T>(p.y.address, gradient + spatial_offset(&p.y, output));
            if p.index.address != 0 {
                if load_index(p.index.address, p.index_bytes, indices + spatial_offset(&p.index, output)) == here {
                    sum.push(dy());
                }
            } else if p.mode == PoolMode::Max as u32 {
                let (_, first) = maximum::<T>(p, image, window_at(p, output));
                if first[0] == at[0] && first[1] == at[1] && first[2] == at[2] {
                    sum.push(dy());
                }
            } else if p.mode == PoolMode::Lp as u32 {
                let x = load::<T>(p.x.address, image + spatial_offset(&p.x, at));
                sum.push_product(dy(), norm_slope(p, x, norm::<T>(p, image, window_at(p, output))));
            } else {
                sum.push(dy() / T::Acc::from_i64(divisor(p, output)));
            }
        });
        let to = n * p.dx.strides[0] + c * p.dx.strides[1] + spatial_offset(&p.dx, at);
        blend::<T>(p.dx.address, to, T::Acc::from_f64(sum.finish()), p.alpha, p.beta);
    });
}

/// The first maximum in row-major order, and where it is.
#[inline(always)]
unsafe fn maximum<T: Element>(p: &PoolParams, image: i64, window: Window) -> (T::Acc, [i64; 3]) {
    let mut first = [window[0].0, window[1].0, window[2].0];
    let mut most = load::<T>(p.x.address, image + spatial_offset(&p.x, first));
    let nan_is_most = p.nan == PoolNan::Propagate as u32;
    for_each_position(window, |at| {
        let value = load::<T>(p.x.address, image + spatial_offset(&p.x, at));
        let beside_nan = if nan_is_most { value.is_nan() && !most.is_nan() } else { most.is_nan() && !value.is_nan() };
        if value > most || beside_nan {
            most = value;
            first = at;
        }
    });
    (most, first)
}

/// `(Σ |x|^p)^(1/p)`, with terms in relation to the largest, so that none overflows.
#[inline(always)]
unsafe fn norm<T: Element>(p: &PoolParams, image: i64, window: Window) -> T::Acc {
    let mut most = T::Acc::ZERO;
    for_each_position(window, |at| most = most.max(load::<T>(p.x.address, image + spatial_offset(&p.x, at)).abs()));
    // Also where an infinity or a NaN is the largest: the norm is the same then.
    if most == T::Acc::ZERO || !(most - most == T::Acc::ZERO) {
        return most;
    }
    let mut sum = Sum::<T::Acc>::EMPTY;
    for_each_position(window, |at| {
        let x = load::<T>(p.x.address, image + spatial_offset(&p.x, at)).abs();
        sum.push((x / most).pow(T::Acc::from_f64(p.p)));
    });
    most * T::Acc::from_f64(sum.finish()).pow(T::Acc::from_f64(1.0 / p.p))
}

/// The gradient of a norm by one of its elements.
#[inline(always)]
fn norm_slope<A: Accumulator>(p: &PoolParams, x: A, norm: A) -> A {
    if x == A::ZERO {
        return A::ZERO;
    }
    let slope = (x.abs() / norm).pow(A::from_f64(p.p - 1.0));
    if x < A::ZERO { -slope } else { slope }
}

/// What the sum of an output's window is divided by.
#[inline(always)]
unsafe fn divisor(p: &PoolParams, output: [i64; 3]) -> i64 {
    let padded = p.mode == PoolMode::AverageIncludePadding as u32;
    let axis = |a: usize| if padded { p.axes[a].padded(output[a]) } else { p.axes[a].inside(output[a]) };
    axis(0) * axis(1) * axis(2)
}

#[inline(always)]
unsafe fn for_each_position(window: Window, mut body: impl FnMut([i64; 3])) {
    let mut d = window[0].0;
    while d < window[0].1 {
        let mut h = window[1].0;
        while h < window[1].1 {
            let mut w = window[2].0;
            while w < window[2].1 {
                body([d, h, w]);
                w += window[2].2;
            }
            h += window[1].2;
        }
        d += window[0].2;
    }
}
