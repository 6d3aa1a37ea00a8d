//! One thread an element, any strides. Bound by memory traffic where tensors are packed alike.

use crate::math::activation::value;
use crate::math::element::{Accumulator, Element, blend, load};
use crate::math::index::{for_each_index, offsets};
use kernel_abi::ops::activation::{ActivationMode, ActivationParams};

/// y = f(x).
pub unsafe fn forward<T: Element>(p: &ActivationParams) {
    let c = T::Acc::from_f64(p.coefficient);
    for_each_index(p.n_elems, |i| {
        let [out, x] = offsets([&p.out, &p.x], i);
        let x = load::<T>(p.x.address, x);
        blend::<T>(p.out.address, out, value(p.mode, c, x), p.alpha, p.beta);
    });
}

/// dx = f'(x) dy.
pub unsafe fn backward<T: Element>(p: &ActivationParams) {
    let c = T::Acc::from_f64(p.coefficient);
    for_each_index(p.n_elems, |i| {
        let [out, x, dy] = offsets([&p.out, &p.x, &p.dy], i);
        let (x, dy) = (load::<T>(p.x.address, x), load::<T>(p.dy.address, dy));
        blend::<T>(p.out.address, out, slope(p.mode, c, x) * dy, p.alpha, p.beta);
    });
}

#[inline(always)]
fn slope<A: Accumulator>(mode: u32, c: A, x: A) -> A {
    let step = |inside: bool| {
        if x.is_nan() {
            x
        } else if inside {
            A::ONE
        } else {
            A::ZERO
        }
    };
    if mode == ActivationMode::Relu as u32 {
        step(x > A::ZERO)
    } else if mode == ActivationMode::ClippedRelu as u32 {
        step(x > A::ZERO && x < c)
    } else if mode == ActivationMode::Elu as u32 {
        if x > A::ZERO { A::ONE } else { c * x.exp() }
    } else if mode == ActivationMode::Sigmoid as u32 {
        // The same value at -x, where the exponential does not overflow.
        let e = (-x.abs()).exp();
        e / ((A::ONE + e) * (A::ONE + e))
    } else if mode == ActivationMode::Tanh as u32 {
        // 1 - tanh² cancels for large x; this form of 1 / cosh² does not.
        let e = (-(x.abs() + x.abs())).exp();
        A::from_f64(4.0) * e / ((A::ONE + e) * (A::ONE + e))
    } else if mode == ActivationMode::Swish as u32 {
        let s = (c * x).sigmoid();
        s + c * x * s * (A::ONE - s)
    } else {
        A::ONE
    }
}
