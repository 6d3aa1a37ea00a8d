//! One thread an element, any strides and windows. Backward, a first kernel keeps of every element what the windows that
//! hold it need.

use crate::math::element::{Accumulator, Element, blend, load};
use crate::math::index::{Spatial, for_each_index, spatial};
use crate::math::scale::down;
use crate::math::sum::Sum;
use kernel_abi::TensorParam;
use kernel_abi::ops::lrn::LrnParams;

/// y from x.
pub unsafe fn forward<T: Element>(p: &LrnParams) {
    for_each_index(p.n_elems, |i| {
        let at = position(p, i);
        let power = |s: T::Acc| (-T::Acc::from_f64(p.beta) * s.ln()).exp();
        let x = load::<T>(p.x.address, offset(&p.x, &at));
        let s = scale::<T>(p, &at, T::Acc::ONE);
        let mut y = x * power(s);
        if s == -T::Acc::NEG_INFINITY {
            // The power is that of the scaled s, times this twice.
            let half = (T::Acc::from_f64(p.beta) * down::<T::Acc>().ln()).exp();
            y = x * half * power(scale::<T>(p, &at, down())) * half;
        }
        blend::<T>(p.out.address, offset(&p.out, &at), y, p.result_factor, p.prior_factor);
    });
}

/// The powers s^-beta and q, for [`backward`].
pub unsafe fn powers<T: Element>(p: &LrnParams) {
    for_each_index(p.n_elems, |i| {
        let at = position(p, i);
        let s = scale::<T>(p, &at, T::Acc::ONE);
        let power = (-T::Acc::from_f64(p.beta) * s.ln()).exp();
        let x = load::<T>(p.x.address, offset(&p.x, &at));
        let dy = load::<T>(p.dy.address, offset(&p.dy, &at));
        let to = (p.kept as *mut T::Acc).offset(packed(p, &at) as isize);
        *to = power;
        *to.offset(p.n_elems as isize) = dy * x * power / s;
    });
}

/// dx and dmeans from what [`powers`] kept.
pub unsafe fn backward<T: Element>(p: &LrnParams) {
    let factor = T::Acc::from_f64(2.0 * p.alpha * p.beta);
    for_each_index(p.n_elems, |i| {
        let at = position(p, i);
        let kept = p.kept as *const T::Acc;
        let mut sum = Sum::<T::Acc>::EMPTY;
        // An element lies in the windows of those for which it is ahead by as much as they are behind it.
        for_each_neighbour(p, &at, &p.ahead, &p.behind, |neighbour| {
            sum.push(*kept.offset((p.n_elems + packed(p, neighbour)) as isize));
        });
        let part = factor * centred::<T>(p, &at) * T::Acc::from_f64(sum.finish());
        let direct = load::<T>(p.dy.address, offset(&p.dy, &at)) * *kept.offset(packed(p, &at) as isize);
        blend::<T>(p.out.address, offset(&p.out, &at), direct - part, p.result_factor, p.prior_factor);
        if p.dmeans.address != 0 {
            blend::<T>(p.dmeans.address, offset(&p.dmeans, &at), part, p.result_factor, p.prior_factor);
        }
    });
}

/// s times a number's square: what is squared is times the number.
#[inline(always)]
unsafe fn scale<T: Element>(p: &LrnParams, at: &Spatial, factor: T::Acc) -> T::Acc {
    let mut sum = Sum::<T::Acc>::EMPTY;
    for_each_neighbour(p, at, &p.behind, &p.ahead, |neighbour| {
        let t = centred::<T>(p, neighbour) * factor;
        sum.push_product(t, t);
    });
    let (sum, k) = (T::Acc::from_f64(sum.finish()), T::Acc::from_f64(p.k) * factor * factor);
    T::Acc::from_f64(p.alpha).mul_add(sum, k)
}

/// x - means.
#[inline(always)]
unsafe fn centred<T: Element>(p: &LrnParams, at: &Spatial) -> T::Acc {
    let x = load::<T>(p.x.address, offset(&p.x, at));
    if p.means.address == 0 { x } else { x - load::<T>(p.means.address, offset(&p.means, at)) }
}

#[inline(always)]
fn position(p: &LrnParams, i: i64) -> Spatial {
    spatial(i, p.x.dims[1], [p.x.dims[2], p.x.dims[3], p.x.dims[4]], p.channels_innermost != 0)
}

#[inline(always)]
fn offset(tensor: &TensorParam, at: &Spatial) -> i64 {
    let s = &tensor.strides;
    at.n * s[0] + at.c * s[1] + at.at[0] * s[2] + at.at[1] * s[3] + at.at[2] * s[4]
}

/// The offset in a packed x.
#[inline(always)]
fn packed(p: &LrnParams, at: &Spatial) -> i64 {
    let d = &p.x.dims;
    (((at.n * d[1] + at.c) * d[2] + at.at[0]) * d[3] + at.at[1]) * d[4] + at.at[2]
}

/// Calls `body` with the elements up to `behind` before and `ahead` behind another along C, D, H and W.
#[inline(always)]
fn for_each_neighbour(
    p: &LrnParams,
    at: &Spatial,
    behind: &[i64; 4],
    ahead: &[i64; 4],
    mut body: impl FnMut(&Spatial),
) {
    let bounds = |index: i64, axis: usize| {
        let (low, high) = (index - behind[axis], index + ahead[axis]);
        let last = p.x.dims[axis + 1] - 1;
        (if low < 0 { 0 } else { low }, if high > last { last } else { high })
    };
    let (first_c, last_c) = bounds(at.c, 0);
    let (first_d, last_d) = bounds(at.at[0], 1);
    let (first_h, last_h) = bounds(at.at[1], 2);
    let (first_w, last_w) = bounds(at.at[2], 3);
    let mut c = first_c;
    while c <= last_c {
        let mut d = first_d;
        while d <= last_d {
            let mut h = first_h;
            while h <= last_h {
                let mut w = first_w;
                while w <= last_w {
                    body(&Spatial { n: at.n, c, at: [d, h, w] });
                    w += 1;
                }
                h += 1;
            }
            d += 1;
        }
        c += 1;
    }
}
