//! One thread an element, any strides and types.

use crate::math::index::{for_each_index, offsets};
use crate::math::number::Number;
use kernel_abi::ops::transform::TransformParams;

/// y = x.
pub unsafe fn forward<A: Number>(p: &TransformParams) {
    for_each_index(p.n_elems, |i| {
        let [y, x] = offsets([&p.y, &p.x], i);
        let x = A::load(p.x_dtype, p.x.address, x);
        x.blend(p.y_dtype, p.y.address, y, (p.alpha, p.beta), p.cast);
    });
}
