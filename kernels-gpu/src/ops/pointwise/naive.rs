//! One thread an element, any strides, types and steps.

use crate::math::index::{for_each_index, offsets};
use crate::math::number::Number;
use kernel_abi::ops::pointwise::{InputParam, PointwiseParams, PointwisePass, argument};

/// c from what the steps make of the inputs.
#[inline(always)]
pub unsafe fn any<A: Number>(p: &PointwiseParams) {
    // Else it would be a function of its own, and the parameters copied for it.
    let element = #[inline(always)]
    |i: i64| {
        let [x0, x1, x2, x3, x4, x5] = &p.inputs;
        let [c, a, b, t, u, v, w] =
            offsets([&p.c, &x0.tensor, &x1.tensor, &x2.tensor, &x3.tensor, &x4.tensor, &x5.tensor], i);
        let value = |number: u32, input: &InputParam, offset: i64| {
            if number < p.n_inputs { read::<A>(input, offset) } else { A::ZERO }
        };
        let a = value(0, x0, a);
        let (b, t, u) = (value(1, x1, b), value(2, x2, t), value(3, x3, u));
        let (v, w) = (value(4, x4, v), value(5, x5, w));
        let mut running = a;
        let mut number = 0;
        while number < p.n_steps {
            let step = p.steps.get_unchecked(number as usize);
            let fetch = |which: usize| match *step.arguments.get_unchecked(which) {
                0 => a,
                1 => b,
                2 => t,
                3 => u,
                4 => v,
                5 => w,
                argument::RUNNING => running,
                _ => A::from_f64(*step.numbers.get_unchecked(which)),
            };
            let (x, y) = (fetch(0), fetch(1));
            running = if step.op == PointwisePass::Select as u32 {
                if fetch(2) != A::ZERO { x } else { y }
            } else {
                A::step(step.op, step.mode, step.numbers, x, y)
            };
            number += 1;
        }
        running.blend(p.c_dtype, p.c.address, c, (p.alpha, p.beta), p.cast);
    };
    for_each_index(p.n_elems, element);
}

/// An element of an input, times its factor.
#[inline(always)]
unsafe fn read<A: Number>(input: &InputParam, offset: i64) -> A {
    let element =
        if input.is_index != 0 { A::from_i64(offset) } else { A::load(input.dtype, input.tensor.address, offset) };
    A::from_f64(input.factor).times(element)
}
