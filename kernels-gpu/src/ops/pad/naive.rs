//! One thread an element of what is written, any strides and types.

use crate::math::index::{div_rem, for_each_index};
use crate::math::number::{Number, Total};
use kernel_abi::MAX_RANK;
use kernel_abi::ops::pad::{PadAxis, PadParams};

/// y from x.
pub unsafe fn forward<A: Number>(p: &PadParams) {
    for_each_index(p.n_elems, |linear| {
        let (mut rest, mut x, mut y) = (linear, 0, 0);
        let mut there = true;
        let mut dim = MAX_RANK;
        while dim > 0 {
            dim -= 1;
            let axis = p.axes.get_unchecked(dim);
            let (quotient, i) = div_rem(rest, axis.y);
            rest = quotient;
            let source = axis.source(p.mode, i);
            there &= source >= 0;
            x += source * *p.x.strides.get_unchecked(dim);
            y += i * *p.y.strides.get_unchecked(dim);
        }
        let value = if there { A::load(p.dtype, p.x.address, x) } else { A::from_f64(p.value) };
        value.blend(p.dtype, p.y.address, y, (p.alpha, p.beta), 0);
    });
}

/// dx from dy.
pub unsafe fn backward<A: Number>(p: &PadParams) {
    for_each_index(p.n_elems, |linear| {
        // The copies of this element: their number, then one after the other.
        let (mut copies, mut x, mut rest) = (1, 0, linear);
        let mut dim = MAX_RANK;
        while dim > 0 {
            dim -= 1;
            let axis = p.axes.get_unchecked(dim);
            let (quotient, at) = div_rem(rest, axis.x);
            rest = quotient;
            x += at * *p.x.strides.get_unchecked(dim);
            copies *= copy(axis, p.mode, at, i64::MAX).1;
        }
        let mut sum = Total::<A>::EMPTY;
        let mut which = 0;
        while which < copies {
            let (mut y, mut rest, mut number) = (0, linear, which);
            let mut dim = MAX_RANK;
            while dim > 0 {
                dim -= 1;
                let axis = p.axes.get_unchecked(dim);
                let (quotient, at) = div_rem(rest, axis.x);
                rest = quotient;
                let (quotient, mine) = div_rem(number, copy(axis, p.mode, at, i64::MAX).1);
                number = quotient;
                y += copy(axis, p.mode, at, mine).0 * *p.y.strides.get_unchecked(dim);
            }
            sum.push(A::load(p.dtype, p.y.address, y));
            which += 1;
        }
        sum.finish().blend(p.dtype, p.x.address, x, (p.alpha, p.beta), 0);
    });
}

/// The element of y, along one dimension, that is copy number `which` of element `at` of x, and how many copies were
/// found up to it.
#[inline(always)]
fn copy(axis: &PadAxis, mode: u32, at: i64, which: i64) -> (i64, i64) {
    let (mut i, mut found) = (0, 0);
    while i < axis.y {
        if axis.source(mode, i) == at {
            if found == which {
                return (i, found);
            }
            found += 1;
        }
        i += 1;
    }
    (0, found)
}
