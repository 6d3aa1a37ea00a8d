//! One thread an element, any strides, a launch a tensor.

use crate::math::element::{Accumulator, Element, load};
use crate::math::index::{for_each_index, offsets};
use kernel_abi::ops::sgd::{SgdParams, SgdStep};

/// Numbers of the step, in the accumulator type.
#[derive(Clone, Copy)]
pub(super) struct Step<A> {
    rate: A,
    momentum: A,
    gain: A,
    decay: A,
    nesterov: bool,
}

impl<A: Accumulator> Step<A> {
    #[inline(always)]
    pub(super) fn new(p: &SgdStep) -> Self {
        let number = A::from_f64;
        Step {
            rate: number(p.alpha),
            momentum: number(p.momentum),
            gain: number(p.gain),
            decay: number(p.weight_decay),
            nesterov: p.nesterov != 0,
        }
    }

    /// The new v and w of an element.
    #[inline(always)]
    pub(super) fn take(&self, dw: A, v: A, w: A) -> (A, A) {
        let g = self.decay.mul_add(w, dw);
        let v = self.momentum.mul_add(v, self.gain * g);
        let step = if self.nesterov { self.momentum.mul_add(v, g) } else { v };
        (v, w - self.rate * step)
    }
}

/// One step. `S` is v's type.
pub unsafe fn update<T: Element, S: Element<Acc = T::Acc>>(p: &SgdParams) {
    let step = Step::<T::Acc>::new(&p.step);
    for_each_index(p.n_elems, |i| {
        let [w_at, master_at, v_at, dw_at] = offsets([&p.w, &p.master, &p.v, &p.dw], i);
        let dw = load::<T>(p.dw.address, dw_at);
        let v = if p.v.address != 0 { load::<S>(p.v.address, v_at) } else { T::Acc::ZERO };
        let master = (p.master.address as *mut T::Acc).offset(master_at as isize);
        let w = if p.master.address != 0 { *master } else { load::<T>(p.w.address, w_at) };
        let (v, w) = step.take(dw, v, w);
        if p.v.address != 0 {
            *(p.v.address as *mut S).offset(v_at as isize) = S::narrow(v);
        }
        if p.master.address != 0 {
            *master = w;
        }
        *(p.w.address as *mut T).offset(w_at as isize) = T::narrow(w);
    });
}
