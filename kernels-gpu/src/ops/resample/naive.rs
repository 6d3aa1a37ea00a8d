//! One thread an element of what is written, places and weights in f64. The backward pass gathers: it looks at every
//! output beside which its element may be a neighbour.

use crate::math::element::{Accumulator, Element, blend, load};
use crate::math::index::{Spatial, for_each_index, spatial, spatial_offset};
use crate::math::sum::Sum;
use kernel_abi::ops::resample::{ResampleParams, Taps};

/// y = resample(x).
pub unsafe fn forward<T: Element>(p: &ResampleParams) {
    for_each_index(p.n_elems, |i| {
        let output = [p.axes[0].output, p.axes[1].output, p.axes[2].output];
        let Spatial { n, c, at } = spatial(i, p.c, output, p.channels_innermost != 0);
        let has = |a: usize| p.axes[a].has(p.axes[a].place(at[a]));
        let result = if has(0) && has(1) && has(2) {
            sample::<T>(p, n * p.x.strides[0] + c * p.x.strides[1], at)
        } else {
            T::Acc::from_f64(p.extrapolation)
        };
        let to = n * p.y.strides[0] + c * p.y.strides[1] + spatial_offset(&p.y, at);
        blend::<T>(p.y.address, to, result, p.alpha, p.beta);
    });
}

/// The weighted sum of an output's neighbours.
#[inline(always)]
unsafe fn sample<T: Element>(p: &ResampleParams, image: i64, output: [i64; 3]) -> T::Acc {
    let taps = |a: usize| p.axes[a].taps(&p.filter, output[a]);
    let (depth, height, width) = (taps(0), taps(1), taps(2));
    let weight = |a: usize, taps: &Taps, i: i64| p.axes[a].weight(&p.filter, taps, i);
    let mut sum = Sum::<T::Acc>::EMPTY;
    let mut d = depth.begin;
    while d < depth.end {
        let of_plane = weight(0, &depth, d);
        let mut h = height.begin;
        while h < height.end {
            let of_row = of_plane * weight(1, &height, h);
            let row = image + p.axes[0].inside(d) * p.x.strides[2] + p.axes[1].inside(h) * p.x.strides[3];
            let mut w = width.begin;
            while w < width.end {
                let x = load::<T>(p.x.address, row + p.axes[2].inside(w) * p.x.strides[4]);
                let weight = of_row * weight(2, &width, w);
                // What weighs nothing is left out: it may be infinite.
                if weight != 0.0 {
                    sum.push_product(T::Acc::from_f64(weight), x);
                }
                w += 1;
            }
            h += 1;
        }
        d += 1;
    }
    T::Acc::from_f64(sum.finish())
}

/// dx from dy.
pub unsafe fn backward<T: Element>(p: &ResampleParams) {
    for_each_index(p.n_elems, |i| {
        let extents = [p.axes[0].image, p.axes[1].image, p.axes[2].image];
        let Spatial { n, c, at } = spatial(i, p.c, extents, p.channels_innermost != 0);
        let gradient = n * p.y.strides[0] + c * p.y.strides[1];
        let covering = |a: usize| p.axes[a].covering(&p.filter, at[a]);
        let weight = |a: usize, output: i64| p.axes[a].weight_at(&p.filter, output, at[a]);
        let (planes, rows, columns) = (covering(0), covering(1), covering(2));
        let mut sum = Sum::<T::Acc>::EMPTY;
        let mut d = planes.0;
        while d < planes.1 {
            let of_plane = weight(0, d);
            let mut h = if of_plane == 0.0 { rows.1 } else { rows.0 };
            while h < rows.1 {
                let of_row = of_plane * weight(1, h);
                let mut w = if of_row == 0.0 { columns.1 } else { columns.0 };
                while w < columns.1 {
                    let weight = of_row * weight(2, w);
                    if weight != 0.0 {
                        let dy = load::<T>(p.y.address, gradient + spatial_offset(&p.y, [d, h, w]));
                        sum.push_product(T::Acc::from_f64(weight), dy);
                    }
                    w += 1;
                }
                h += 1;
            }
            d += 1;
        }
        let to = n * p.x.strides[0] + c * p.x.strides[1] + spatial_offset(&p.x, at);
        blend::<T>(p.x.address, to, T::Acc::from_f64(sum.finish()), p.alpha, p.beta);
    });
}
