//! One thread an element, any strides and types.

use crate::math::element::{Accumulator, Element, load};
use crate::math::index::{for_each_index, offsets};
use kernel_abi::ops::transform::TransformParams;

/// y = x.
pub unsafe fn forward<X: Element, Y: Element>(p: &TransformParams) {
    for_each_index(p.n_elems, |i| {
        let [y, x] = offsets([&p.y, &p.x], i);
        let x = load::<X>(p.x.address, x);
        let to = (p.y.address as *mut Y).offset(y as isize);
        // f64 and integers on either side mean f64 arithmetic; other types are exact in f32.
        let wide = size_of::<X::Acc>() == 8 || size_of::<Y::Acc>() == 8;
        *to = if wide {
            let prior = if p.beta != 0.0 { p.beta * (*to).to_f64() } else { 0.0 };
            Y::from_f64(p.alpha * x.to_f64() + prior)
        } else {
            let mut value = Y::Acc::from_f64(p.alpha) * Y::Acc::from_f64(x.to_f64());
            if p.beta != 0.0 {
                value = Y::Acc::from_f64(p.beta).mul_add((*to).widen(), value);
            }
            Y::narrow(value)
        };
    });
}
