//! One thread an element of what is written: of an image, it looks for the outputs that name it.

use crate::math::element::{Accumulator, Element, blend, load, load_index};
use crate::math::index::{Spatial, for_each_index, spatial, spatial_offset};
use kernel_abi::ops::pool::{first_place, place};
use kernel_abi::ops::unpool::UnpoolParams;

/// y from x and index.
pub unsafe fn forward<T: Element>(p: &UnpoolParams) {
    for_each_index(p.n_elems, |i| {
        let extents = [p.axes[0].image, p.axes[1].image, p.axes[2].image];
        let Spatial { n, c, at } = spatial(i, p.c, extents, p.channels_innermost != 0);
        let pooled = n * p.pooled.strides[0] + c * p.pooled.strides[1];
        let indices = n * p.index.strides[0] + c * p.index.strides[1];
        let here = first_place(&p.axes, p.index_base, p.c, n, c) + place(&p.axes, at);
        let (planes, rows, columns) = (p.axes[0].covering(at[0]), p.axes[1].covering(at[1]), p.axes[2].covering(at[2]));
        let mut value = T::Acc::ZERO;
        let mut z = planes.0;
        while z < planes.1 {
            let mut h = if p.axes[0].holds(z, at[0]) { rows.0 } else { rows.1 };
            while h < rows.1 {
                let mut w = if p.axes[1].holds(h, at[1]) { columns.0 } else { columns.1 };
                while w < columns.1 {
                    let offset = indices + spatial_offset(&p.index, [z, h, w]);
                    if p.axes[2].holds(w, at[2]) && load_index(p.index.address, p.index_bytes, offset) == here {
                        value = load::<T>(p.pooled.address, pooled + spatial_offset(&p.pooled, [z, h, w]));
                    }
                    w += 1;
                }
                h += 1;
            }
            z += 1;
        }
        let to = n * p.image.strides[0] + c * p.image.strides[1] + spatial_offset(&p.image, at);
        blend::<T>(p.image.address, to, value, p.alpha, p.beta);
    });
}

/// dx from dy and index.
pub unsafe fn backward<T: Element>(p: &UnpoolParams) {
    for_each_index(p.n_elems, |i| {
        let outputs = [p.axes[0].output, p.axes[1].output, p.axes[2].output];
        let Spatial { n, c, at } = spatial(i, p.c, outputs, p.channels_innermost != 0);
        let offset = n * p.index.strides[0] + c * p.index.strides[1] + spatial_offset(&p.index, at);
        let number = load_index(p.index.address, p.index_bytes, offset) - first_place(&p.axes, p.index_base, p.c, n, c);
        let value = match position(p, number, at) {
            Some(at) => {
                let image = n * p.image.strides[0] + c * p.image.strides[1];
                load::<T>(p.image.address, image + spatial_offset(&p.image, at))
            }
            None => T::Acc::ZERO,
        };
        let to = n * p.pooled.strides[0] + c * p.pooled.strides[1] + spatial_offset(&p.pooled, at);
        blend::<T>(p.pooled.address, to, value, p.alpha, p.beta);
    });
}

/// The position in the image plane with this number, if the output's window holds it.
#[inline(always)]
fn position(p: &UnpoolParams, number: i64, output: [i64; 3]) -> Option<[i64; 3]> {
    let (height, width) = (p.axes[1].image, p.axes[2].image);
    if number < 0 || number >= p.axes[0].image * height * width {
        return None;
    }
    let (rows, w) = crate::math::index::div_rem(number, width);
    let (d, h) = crate::math::index::div_rem(rows, height);
    let holds = |a: usize, at: i64| {
        let (begin, end) = p.axes[a].window(output[a]);
        begin <= at && at < end && p.axes[a].holds(output[a], at)
    };
    if holds(0, d) && holds(1, h) && holds(2, w) { Some([d, h, w]) } else { None }
}
