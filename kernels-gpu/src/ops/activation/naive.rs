//! One thread an element, any strides. Bound by memory traffic where tensors are packed alike.

use crate::math::activation;
use crate::math::element::{Accumulator, Element, blend, load};
use crate::math::index::{for_each_index, offsets};
use kernel_abi::ops::activation::ActivationParams;

/// y = f(x).
pub unsafe fn forward<T: Element>(p: &ActivationParams) {
    let parameters = p.parameters.map(T::Acc::from_f64);
    for_each_index(p.n_elems, |i| {
        let [out, x] = offsets([&p.out, &p.x], i);
        let x = load::<T>(p.x.address, x);
        blend::<T>(p.out.address, out, activation::forward(p.mode, parameters, x), p.alpha, p.beta);
    });
}

/// dx = f'(x) dy.
pub unsafe fn backward<T: Element>(p: &ActivationParams) {
    let parameters = p.parameters.map(T::Acc::from_f64);
    for_each_index(p.n_elems, |i| {
        let [out, x, dy] = offsets([&p.out, &p.x, &p.dy], i);
        let (x, dy) = (load::<T>(p.x.address, x), load::<T>(p.dy.address, dy));
        blend::<T>(p.out.address, out, activation::slope(p.mode, parameters, x) * dy, p.alpha, p.beta);
    });
}
