//! One thread an element of the tensor that is written, any strides; each gathers its own sum.
//!
//! Grid: one-dimensional, threads stride over the rest. Block: 256. No shared memory. Neighbouring threads take
//! neighbouring elements of the written tensor, in the order of its layout. Bounds are checked outside of the
//! innermost loop, which walks channels in `fprop` and `dgrad` and positions in `wgrad`.

use crate::math::element::{Accumulator, Element, Factor, blend, load, load_term};
use crate::math::epilogue::finish;
use crate::math::index::{div_rem, for_each_index};
use crate::math::sum::Sum;
use kernel_abi::TensorParam;
use kernel_abi::ops::conv::ConvParams;
use kernel_abi::ops::conv::index::{filter_index, input_position, output_position};

/// y = conv(x, w), of one type.
pub unsafe fn fprop<T: Factor>(a: &ConvParams) {
    fprop_into::<T, T>(a)
}

/// y = conv(x, w), x and w of type `X`.
pub unsafe fn fprop_into<X: Factor, Y: Element>(a: &ConvParams) {
    let flip = a.flip != 0;
    for_each_index(a.n_elems, |i| {
        let (n, k, [z, p, q]) = coordinates(i, a.groups * a.group_k, a.output, a.channels_innermost);
        let (g, _) = div_rem(k, a.group_k);
        let x_first = n * a.x.strides[0] + g * a.group_c * a.x.strides[1];
        let w_first = k * a.w.strides[0];
        let mut sum = Sum::<X::Term>::EMPTY;
        for_each_tap(a, |t, r, s| {
            let d = input_position(z, t, a.padding[0], a.stride[0], a.dilation[0]);
            let h = input_position(p, r, a.padding[1], a.stride[1], a.dilation[1]);
            let w = input_position(q, s, a.padding[2], a.stride[2], a.dilation[2]);
            if inside([d, h, w], a.image) {
                let mut x_at = x_first + spatial_offset(&a.x, [d, h, w]);
                let mut w_at = w_first + filter_offset(a, [t, r, s], flip);
                let mut c = 0;
                while c < a.group_c {
                    sum.push_product(load_term::<X>(a.x.address, x_at), load_term::<X>(a.w.address, w_at));
                    x_at += a.x.strides[1];
                    w_at += a.w.strides[1];
                    c += 1;
                }
            }
        });
        let y_at = n * a.y.strides[0] + k * a.y.strides[1] + spatial_offset(&a.y, [z, p, q]);
        let z_at = n * a.z.strides[0] + k * a.z.strides[1] + spatial_offset(&a.z, [z, p, q]);
        let sum = Y::Acc::from_f64(sum.finish());
        finish::<Y>(&a.epilogue, (a.y.address, y_at), (a.z.address, z_at), k, sum, a.alpha, a.beta);
    });
}

/// dx = gradient of Σ dy · conv(x, w) by x: the products of every window that an element of x lies in.
pub unsafe fn dgrad<T: Element>(a: &ConvParams) {
    let flip = a.flip != 0;
    for_each_index(a.n_elems, |i| {
        let (n, c, [d, h, w]) = coordinates(i, a.groups * a.group_c, a.image, a.channels_innermost);
        let (g, group_c) = div_rem(c, a.group_c);
        let first_k = g * a.group_k;
        let y_first = n * a.y.strides[0] + first_k * a.y.strides[1];
        let w_first = first_k * a.w.strides[0] + group_c * a.w.strides[1];
        let mut sum = Sum::<T::Acc>::EMPTY;
        for_each_tap(a, |t, r, s| {
            let z = output_position(d, t, a.padding[0], a.stride[0], a.dilation[0]);
            let p = output_position(h, r, a.padding[1], a.stride[1], a.dilation[1]);
            let q = output_position(w, s, a.padding[2], a.stride[2], a.dilation[2]);
            if inside([z, p, q], a.output) {
                let mut y_at = y_first + spatial_offset(&a.y, [z, p, q]);
                let mut w_at = w_first + filter_offset(a, [t, r, s], flip);
                let mut k = 0;
                while k < a.group_k {
                    sum.push_product(load::<T>(a.y.address, y_at), load::<T>(a.w.address, w_at));
                    y_at += a.y.strides[1];
                    w_at += a.w.strides[0];
                    k += 1;
                }
            }
        });
        let x_at = n * a.x.strides[0] + c * a.x.strides[1] + spatial_offset(&a.x, [d, h, w]);
        blend::<T>(a.x.address, x_at, T::Acc::from_f64(sum.finish()), a.alpha, a.beta);
    });
}

/// dw = gradient of Σ dy · conv(x, w) by w.
pub unsafe fn wgrad<T: Element>(a: &ConvParams) {
    let flip = a.flip != 0;
    for_each_index(a.n_elems, |i| {
        let (k, c, at) = coordinates(i, a.group_c, a.filter, a.channels_innermost);
        // Turning a filter around twice is no change, so this also finds the tap of a filter element.
        let [t, r, s] = taps(a, at, flip);
        let (g, _) = div_rem(k, a.group_k);
        let x_first = (g * a.group_c + c) * a.x.strides[1];
        let y_first = k * a.y.strides[1];
        let mut sum = Sum::<T::Acc>::EMPTY;
        let mut n = 0;
        while n < a.n {
            let mut z = 0;
            while z < a.output[0] {
                let d = input_position(z, t, a.padding[0], a.stride[0], a.dilation[0]);
                let mut p = 0;
                while p < a.output[1] {
                    let h = input_position(p, r, a.padding[1], a.stride[1], a.dilation[1]);
                    if inside([d, h, 0], a.image) {
                        let x_row = x_first + n * a.x.strides[0] + spatial_offset(&a.x, [d, h, 0]);
                        let mut y_at = y_first + n * a.y.strides[0] + spatial_offset(&a.y, [z, p, 0]);
                        let mut w = input_position(0, s, a.padding[2], a.stride[2], a.dilation[2]);
                        let mut q = 0;
                        while q < a.output[2] {
                            if (w as u64) < a.image[2] as u64 {
                                let x = load::<T>(a.x.address, x_row + w * a.x.strides[4]);
                                sum.push_product(x, load::<T>(a.y.address, y_at));
                            }
                            w += a.stride[2];
                            y_at += a.y.strides[4];
                            q += 1;
                        }
                    }
                    p += 1;
                }
                z += 1;
            }
            n += 1;
        }
        let w_at = k * a.w.strides[0] + c * a.w.strides[1] + spatial_offset(&a.w, at);
        blend::<T>(a.w.address, w_at, T::Acc::from_f64(sum.finish()), a.alpha, a.beta);
    });
}

/// The outermost index, the channel and the position of element `i`, counted along channels or along positions first.
#[inline(always)]
fn coordinates(i: i64, n_channels: i64, spatial: [i64; 3], channels_innermost: u32) -> (i64, i64, [i64; 3]) {
    let (rest, mut channel) = if channels_innermost != 0 { div_rem(i, n_channels) } else { (i, 0) };
    let (rest, w) = div_rem(rest, spatial[2]);
    let (rest, h) = div_rem(rest, spatial[1]);
    let (mut outer, d) = div_rem(rest, spatial[0]);
    if channels_innermost == 0 {
        (outer, channel) = div_rem(outer, n_channels);
    }
    (outer, channel, [d, h, w])
}

/// Calls `body` with every tap of a window.
#[inline(always)]
fn for_each_tap(a: &ConvParams, mut body: impl FnMut(i64, i64, i64)) {
    let mut t = 0;
    while t < a.filter[0] {
        let mut r = 0;
        while r < a.filter[1] {
            let mut s = 0;
            while s < a.filter[2] {
                body(t, r, s);
                s += 1;
            }
            r += 1;
        }
        t += 1;
    }
}

/// Whether a position lies within extents. As unsigned numbers, negative positions are too large.
#[inline(always)]
fn inside(at: [i64; 3], extents: [i64; 3]) -> bool {
    (at[0] as u64) < extents[0] as u64 && (at[1] as u64) < extents[1] as u64 && (at[2] as u64) < extents[2] as u64
}

/// Offset of a spatial position from its channel's first element.
#[inline(always)]
fn spatial_offset(tensor: &TensorParam, at: [i64; 3]) -> i64 {
    at[0] * tensor.strides[2] + at[1] * tensor.strides[3] + at[2] * tensor.strides[4]
}

/// The filter elements of the taps of all axes.
#[inline(always)]
fn taps(a: &ConvParams, at: [i64; 3], flip: bool) -> [i64; 3] {
    [
        filter_index(at[0], a.filter[0], flip),
        filter_index(at[1], a.filter[1], flip),
        filter_index(at[2], a.filter[2], flip),
    ]
}

/// Offset of the filter element for the given taps from its channel's first element.
#[inline(always)]
fn filter_offset(a: &ConvParams, at: [i64; 3], flip: bool) -> i64 {
    spatial_offset(&a.w, taps(a, at, flip))
}
