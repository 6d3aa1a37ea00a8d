//! One thread an element, any strides, a launch a tensor.

use crate::math::element::{Accumulator, Element, load};
use crate::math::index::{for_each_index, offsets};
use kernel_abi::ops::adam::{AdamParams, AdamStep};

/// Numbers of the step, in the accumulator type.
#[derive(Clone, Copy)]
pub(super) struct Step<A> {
    betas: [A; 2],
    gains: [A; 2],
    gradient_decay: A,
    /// What decay leaves of the parameters.
    kept: A,
    /// alpha / c1.
    rate: A,
    /// 1 / √c2.
    root_scale: A,
    eps: A,
}

impl<A: Accumulator> Step<A> {
    #[inline(always)]
    pub(super) unsafe fn new(p: &AdamStep) -> Self {
        let number = A::from_f64;
        let (mut c1, mut c2) = (A::ONE, A::ONE);
        if p.step != 0 {
            let t = *(p.step as *const f32) as f64;
            // 1 - βᵗ, without cancellation where βᵗ is almost 1.
            c1 = -number(t * p.ln_betas[0]).exp_m1();
            c2 = -number(t * p.ln_betas[1]).exp_m1();
        }
        Step {
            betas: [number(p.beta1), number(p.beta2)],
            gains: [number(1.0 - p.beta1), number(1.0 - p.beta2)],
            gradient_decay: number(p.gradient_decay),
            kept: number(1.0 - p.alpha * p.weight_decay),
            rate: number(p.alpha) / c1,
            root_scale: A::ONE / c2.sqrt(),
            eps: number(p.eps),
        }
    }

    /// The new m, v and w of an element.
    #[inline(always)]
    pub(super) fn take(&self, dw: A, m: A, v: A, w: A) -> (A, A, A) {
        let g = self.gradient_decay.mul_add(w, dw);
        let m = self.betas[0].mul_add(m, self.gains[0] * g);
        let v = self.betas[1].mul_add(v, self.gains[1] * (g * g));
        let root = v.sqrt().mul_add(self.root_scale, self.eps);
        (m, v, self.kept.mul_add(w, -(self.rate * (m / root))))
    }
}

/// One step. `S` is m's and v's type.
pub unsafe fn update<T: Element, S: Element<Acc = T::Acc>>(p: &AdamParams) {
    let step = Step::<T::Acc>::new(&p.step);
    for_each_index(p.n_elems, |i| {
        let [w_at, master_at, m_at, v_at, dw_at] = offsets([&p.w, &p.master, &p.m, &p.v, &p.dw], i);
        let dw = load::<T>(p.dw.address, dw_at);
        let (m, v) = (load::<S>(p.m.address, m_at), load::<S>(p.v.address, v_at));
        let master = (p.master.address as *mut T::Acc).offset(master_at as isize);
        let w = if p.master.address != 0 { *master } else { load::<T>(p.w.address, w_at) };
        let (m, v, w) = step.take(dw, m, v, w);
        *(p.m.address as *mut S).offset(m_at as isize) = S::narrow(m);
        *(p.v.address as *mut S).offset(v_at as isize) = S::narrow(v);
        if p.master.address != 0 {
            *master = w;
        }
        *(p.w.address as *mut T).offset(w_at as isize) = T::narrow(w);
    });
}
