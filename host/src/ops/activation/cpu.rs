//! Activation on the CPU: one parallel pass.

use super::{ActivationMode, ActivationProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::Real;
use rayon::prelude::*;

/// One parallel pass over all elements.
#[derive(Clone, Copy)]
pub(super) struct Elementwise;

/// Elements a thread takes at a time.
const CHUNK: usize = 1 << 13;

impl CpuKernel<ActivationProblem> for Elementwise {
    const NAME: &'static str = "cpu_elementwise";

    fn slowness(_: &ActivationProblem) -> f64 {
        4.0
    }

    fn compute<A: Real>(problem: &ActivationProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let (mode, c) = (problem.mode(), A::real(problem.coefficient()));
        let x = inputs[0].par_chunks(CHUNK);
        let out = outputs[0].par_chunks_mut(CHUNK);
        match inputs.get(1) {
            None => out.zip(x).for_each(|(y, x)| {
                y.iter_mut().zip(x).for_each(|(y, &x)| *y = value(mode, c, x));
            }),
            Some(dy) => out.zip(x).zip(dy.par_chunks(CHUNK)).for_each(|((dx, x), dy)| {
                dx.iter_mut().zip(x).zip(dy).for_each(|((dx, &x), &dy)| *dx = slope(mode, c, x) * dy);
            }),
        }
    }
}

/// f(x).
pub(crate) fn value<A: Real>(mode: ActivationMode, c: A, x: A) -> A {
    let (zero, one) = (A::zero(), A::one());
    match mode {
        ActivationMode::Identity => x,
        // Comparisons and not `max`, which would drop a NaN.
        ActivationMode::Relu => {
            if x < zero {
                zero
            } else {
                x
            }
        }
        ActivationMode::ClippedRelu => {
            if x < zero {
                zero
            } else if x > c {
                c
            } else {
                x
            }
        }
        ActivationMode::Elu => {
            if x > zero {
                x
            } else {
                c * x.exp_m1()
            }
        }
        ActivationMode::Sigmoid => one / (one + (-x).exp()),
        ActivationMode::Tanh => x.tanh(),
        ActivationMode::Swish => x / (one + (-c * x).exp()),
    }
}

/// f'(x).
fn slope<A: Real>(mode: ActivationMode, c: A, x: A) -> A {
    let (zero, one) = (A::zero(), A::one());
    let step = |inside: bool| {
        if x.is_nan() {
            x
        } else if inside {
            one
        } else {
            zero
        }
    };
    match mode {
        ActivationMode::Identity => one,
        ActivationMode::Relu => step(x > zero),
        ActivationMode::ClippedRelu => step(x > zero && x < c),
        ActivationMode::Elu => {
            if x > zero {
                one
            } else {
                c * x.exp()
            }
        }
        ActivationMode::Sigmoid => {
            // The same value at -x, where e⁻ˣ does not overflow.
            let e = (-x.abs()).exp();
            e / ((one + e) * (one + e))
        }
        ActivationMode::Tanh => {
            // 1 - tanh² cancels for large x; this form of 1 / cosh² does not.
            let e = (-(x.abs() + x.abs())).exp();
            A::real(4.0) * e / ((one + e) * (one + e))
        }
        ActivationMode::Swish => {
            let s = one / (one + (-c * x).exp());
            s + c * x * s * (one - s)
        }
    }
}
