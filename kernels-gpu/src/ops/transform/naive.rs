//! One thread an element, any strides and types.

use crate::math::element::Accumulator;
use crate::math::index::{for_each_index, offsets};
use crate::math::typed::{blend, load};
use kernel_abi::ops::transform::TransformParams;

/// y = x.
pub unsafe fn forward<A: Accumulator>(p: &TransformParams) {
    for_each_index(p.n_elems, |i| {
        let [y, x] = offsets([&p.y, &p.x], i);
        let x: A = load(p.x_dtype, p.x.address, x);
        blend(p.y_dtype, p.y.address, y, x, p.alpha, p.beta);
    });
}
