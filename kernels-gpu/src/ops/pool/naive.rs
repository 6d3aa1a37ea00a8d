//! One thread an element of what is written. The backward pass gathers, so it needs no atomics and no zeroing; for
//! `max` it looks for the maximum of every window around its element again.

use crate::math::element::{Accumulator, Element, blend, load};
use crate::math::index::{Spatial, for_each_index, spatial, spatial_offset};
use kernel_abi::ops::pool::{PoolMode, PoolParams, covering, window};

/// Ranges of a window inside the image, per axis.
type Window = [(i64, i64); 3];

#[inline(always)]
unsafe fn window_at(p: &PoolParams, output: [i64; 3]) -> Window {
    let axis = |a: usize| window(output[a], p.stride[a], p.padding[a], p.window[a], p.image[a]);
    [axis(0), axis(1), axis(2)]
}

/// y = pool(x).
pub unsafe fn forward<T: Element>(p: &PoolParams) {
    for_each_index(p.n_elems, |i| {
        let Spatial { n, c, at } = spatial(i, p.c, p.output, p.channels_innermost != 0);
        let ranges = window_at(p, at);
        let image = n * p.x.strides[0] + c * p.x.strides[1];
        let result = if p.mode == PoolMode::Max as u32 {
            let (value, _) = maximum::<T>(p, image, ranges);
            value
        } else {
            let mut sum = T::Acc::ZERO;
            for_each_position(ranges, |at| sum = sum + load::<T>(p.x.address, image + spatial_offset(&p.x, at)));
            sum / T::Acc::from_i64(divisor(p, ranges))
        };
        let to = n * p.y.strides[0] + c * p.y.strides[1] + spatial_offset(&p.y, at);
        blend::<T>(p.y.address, to, result, p.alpha, p.beta);
    });
}

/// dx from dy, and from x for `max`.
pub unsafe fn backward<T: Element>(p: &PoolParams) {
    for_each_index(p.n_elems, |i| {
        let Spatial { n, c, at } = spatial(i, p.c, p.image, p.channels_innermost != 0);
        let axis = |a: usize| covering(at[a], p.stride[a], p.padding[a], p.window[a], p.output[a]);
        let image = n * p.x.strides[0] + c * p.x.strides[1];
        let gradient = n * p.y.strides[0] + c * p.y.strides[1];
        let mut sum = T::Acc::ZERO;
        for_each_position([axis(0), axis(1), axis(2)], |output| {
            let ranges = window_at(p, output);
            let dy = || load::<T>(p.y.address, gradient + spatial_offset(&p.y, output));
            if p.mode == PoolMode::Max as u32 {
                let (_, first) = maximum::<T>(p, image, ranges);
                if first[0] == at[0] && first[1] == at[1] && first[2] == at[2] {
                    sum = sum + dy();
                }
            } else {
                sum = sum + dy() / T::Acc::from_i64(divisor(p, ranges));
            }
        });
        let to = n * p.dx.strides[0] + c * p.dx.strides[1] + spatial_offset(&p.dx, at);
        blend::<T>(p.dx.address, to, sum, p.alpha, p.beta);
    });
}

/// The first maximum in row-major order, a NaN being larger than any number, and where it is.
#[inline(always)]
unsafe fn maximum<T: Element>(p: &PoolParams, image: i64, ranges: Window) -> (T::Acc, [i64; 3]) {
    let mut first = [ranges[0].0, ranges[1].0, ranges[2].0];
    let mut most = load::<T>(p.x.address, image + spatial_offset(&p.x, first));
    for_each_position(ranges, |at| {
        let value = load::<T>(p.x.address, image + spatial_offset(&p.x, at));
        if value > most || (value.is_nan() && !most.is_nan()) {
            most = value;
            first = at;
        }
    });
    (most, first)
}

/// What the sum of a window is divided by.
#[inline(always)]
unsafe fn divisor(p: &PoolParams, ranges: Window) -> i64 {
    if p.mode == PoolMode::AverageIncludePadding as u32 {
        p.window[0] * p.window[1] * p.window[2]
    } else {
        (ranges[0].1 - ranges[0].0) * (ranges[1].1 - ranges[1].0) * (ranges[2].1 - ranges[2].0)
    }
}

#[inline(always)]
unsafe fn for_each_position(ranges: Window, mut body: impl FnMut([i64; 3])) {
    let mut d = ranges[0].0;
    while d < ranges[0].1 {
        let mut h = ranges[1].0;
        while h < ranges[1].1 {
            let mut w = ranges[2].0;
            while w < ranges[2].1 {
                body([d, h, w]);
                w += 1;
            }
            h += 1;
        }
        d += 1;
    }
}
