//! One thread an element, any strides.

use crate::math::element::{Accumulator, Element, load};
use crate::math::index::{for_each_index, offsets};
use kernel_abi::ops::sgd::SgdParams;

/// One step.
pub unsafe fn update<T: Element>(p: &SgdParams) {
    let number = T::Acc::from_f64;
    let (rate, momentum, decay) = (number(p.alpha), number(p.momentum), number(p.weight_decay));
    for_each_index(p.n_elems, |i| {
        let [w_at, v_at, dw_at] = offsets([&p.w, &p.v, &p.dw], i);
        let w = load::<T>(p.w.address, w_at);
        let g = decay.mul_add(w, load::<T>(p.dw.address, dw_at));
        let v = momentum.mul_add(load::<T>(p.v.address, v_at), g);
        let step = if p.nesterov != 0 { momentum.mul_add(v, g) } else { v };
        *(p.v.address as *mut T).offset(v_at as isize) = T::narrow(v);
        *(p.w.address as *mut T).offset(w_at as isize) = T::narrow(w - rate * step);
    });
}
