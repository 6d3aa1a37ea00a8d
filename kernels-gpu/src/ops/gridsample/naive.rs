//! Forward one thread an element of y; `backward_grid` one thread a position of dgrid, which goes through all channels;
//! `backward_data` one thread an element of dx, which looks at every output of its image for those that read it. Places
//! and weights in f64.

use crate::math::element::{Accumulator, Element, blend, load};
use crate::math::index::{Spatial, for_each_index, spatial, spatial_offset};
use crate::math::sum::Sum;
use kernel_abi::ops::gridsample::{GridSampleParams, Place};

/// Where an output reads the image: by depth, height, width.
#[inline(always)]
unsafe fn places<T: Element>(p: &GridSampleParams, n: i64, output: [i64; 3]) -> [Place; 3] {
    let along = |a: usize| place::<T>(p, n, output, a);
    [along(0), along(1), along(2)]
}

/// Where it reads along one axis of these.
#[inline(always)]
pub unsafe fn place<T: Element>(p: &GridSampleParams, n: i64, output: [i64; 3], a: usize) -> Place {
    // The last axis has the first coordinate.
    let i = 2 - a as i64;
    if i >= p.n_axes {
        return Place { centre: 0.0, slope: 0.0, begin: 0, n: 1 };
    }
    let s = &p.grid.strides;
    let at = n * s[0] + output[0] * s[1] + output[1] * s[2] + output[2] * s[3] + i * s[4];
    let coordinate = if p.grid_is_f32 != 0 {
        load::<f32>(p.grid.address, at) as f64
    } else {
        load::<T>(p.grid.address, at).to_f64()
    };
    p.sampler.place(coordinate, *p.image.get_unchecked(a))
}

/// Calls `body` with the positions and the number along each axis of every neighbour in the image.
#[inline(always)]
unsafe fn for_each_neighbour(p: &GridSampleParams, places: &[Place; 3], mut body: impl FnMut([i64; 3], [i64; 3])) {
    let mut d = places[0].begin;
    while d < places[0].begin + places[0].n {
        let plane = p.sampler.position(d, p.image[0]);
        let mut h = places[1].begin;
        while h < places[1].begin + places[1].n {
            let row = p.sampler.position(h, p.image[1]);
            let mut w = places[2].begin;
            while w < places[2].begin + places[2].n {
                let column = p.sampler.position(w, p.image[2]);
                if plane >= 0 && row >= 0 && column >= 0 {
                    body([plane, row, column], [d, h, w]);
                }
                w += 1;
            }
            h += 1;
        }
        d += 1;
    }
}

/// y from x and grid.
pub unsafe fn forward<T: Element>(p: &GridSampleParams) {
    for_each_index(p.n_threads, |i| {
        let Spatial { n, c, at } = spatial(i, p.c, p.output, p.channels_innermost != 0);
        let places = places::<T>(p, n, at);
        let image = n * p.x.strides[0] + c * p.x.strides[1];
        let mut sum = T::Acc::ZERO;
        for_each_neighbour(p, &places, |position, neighbour| {
            let weight = |a: usize| p.sampler.weight(&places[a], neighbour[a]);
            let weight = weight(0) * weight(1) * weight(2);
            // What weighs nothing is left out: it may be infinite.
            if weight != 0.0 {
                let x = load::<T>(p.x.address, image + spatial_offset(&p.x, position));
                sum = T::Acc::from_f64(weight).mul_add(x, sum);
            }
        });
        let to = n * p.y.strides[0] + c * p.y.strides[1] + spatial_offset(&p.y, at);
        blend::<T>(p.y.address, to, sum, p.alpha, p.beta);
    });
}

/// dx from grid and dy.
pub unsafe fn backward_data<T: Element>(p: &GridSampleParams) {
    for_each_index(p.n_threads, |i| {
        let Spatial { n, c, at } = spatial(i, p.c, p.image, p.channels_innermost != 0);
        let gradient = n * p.y.strides[0] + c * p.y.strides[1];
        let mut sum = Sum::<T::Acc>::EMPTY;
        let mut output = [0; 3];
        while output[0] < p.output[0] {
            let places = places::<T>(p, n, output);
            let mut total = 0.0;
            for_each_neighbour(p, &places, |position, neighbour| {
                if position[0] == at[0] && position[1] == at[1] && position[2] == at[2] {
                    let weight = |a: usize| p.sampler.weight(&places[a], neighbour[a]);
                    total += weight(0) * weight(1) * weight(2);
                }
            });
            if total != 0.0 {
                let dy = load::<T>(p.y.address, gradient + spatial_offset(&p.y, output));
                sum.push_product(T::Acc::from_f64(total), dy);
            }
            output = next(output, p.output);
        }
        let to = n * p.x.strides[0] + c * p.x.strides[1] + spatial_offset(&p.x, at);
        blend::<T>(p.x.address, to, T::Acc::from_f64(sum.finish()), p.alpha, p.beta);
    });
}

/// The position behind another in row-major order.
#[inline(always)]
fn next(at: [i64; 3], extents: [i64; 3]) -> [i64; 3] {
    let [d, h, w] = at;
    if w + 1 < extents[2] {
        [d, h, w + 1]
    } else if h + 1 < extents[1] {
        [d, h + 1, 0]
    } else {
        [d + 1, 0, 0]
    }
}

/// dgrid from x, grid and dy.
pub unsafe fn backward_grid<T: Element>(p: &GridSampleParams) {
    for_each_index(p.n_threads, |i| {
        let Spatial { n, at, .. } = spatial(i, 1, p.output, false);
        let places = places::<T>(p, n, at);
        let mut sums = [T::Acc::ZERO; 3];
        for_each_neighbour(p, &places, |position, neighbour| {
            let image = n * p.x.strides[0] + spatial_offset(&p.x, position);
            let gradient = n * p.y.strides[0] + spatial_offset(&p.y, at);
            let mut products = Sum::<T::Acc>::EMPTY;
            let mut c = 0;
            while c < p.c {
                let x = load::<T>(p.x.address, image + c * p.x.strides[1]);
                let dy = load::<T>(p.y.address, gradient + c * p.y.strides[1]);
                products.push_product(x, dy);
                c += 1;
            }
            let product = T::Acc::from_f64(products.finish());
            let weight = |a: usize| p.sampler.weight(&places[a], neighbour[a]);
            let slope = |a: usize| p.sampler.weight_slope(&places[a], neighbour[a]);
            let (d, h, w) = (weight(0), weight(1), weight(2));
            let slopes = [d * h * slope(2), d * slope(1) * w, slope(0) * h * w];
            let mut k = 0;
            while k < 3 {
                if slopes[k] != 0.0 {
                    sums[k] = T::Acc::from_f64(slopes[k]).mul_add(product, sums[k]);
                }
                k += 1;
            }
        });
        let s = &p.dgrid.strides;
        let to = n * s[0] + at[0] * s[1] + at[1] * s[2] + at[2] * s[3];
        let mut k = 0;
        while k < 3 {
            if (k as i64) < p.n_axes {
                store::<T>(p, to + k as i64 * s[4], sums[k]);
            }
            k += 1;
        }
    });
}

#[inline(always)]
unsafe fn store<T: Element>(p: &GridSampleParams, to: i64, sum: T::Acc) {
    if p.grid_is_f32 != 0 {
        blend::<f32>(p.dgrid.address, to, sum.to_f64() as f32, p.alpha, p.beta);
    } else {
        blend::<T>(p.dgrid.address, to, sum, p.alpha, p.beta);
    }
}
