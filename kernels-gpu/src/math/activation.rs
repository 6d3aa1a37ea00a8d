//! Activation functions, formulas in `kernel_abi::ops::activation`.

use super::element::Accumulator;
use kernel_abi::ops::activation::ActivationMode;

/// f(x) of the mode with this number and coefficient.
#[inline(always)]
pub fn value<A: Accumulator>(mode: u32, c: A, x: A) -> A {
    // Numbers, not the enum: an address may hold anything, and a kernel must not have a value outside an enum.
    if mode == ActivationMode::Relu as u32 {
        if x < A::ZERO { A::ZERO } else { x }
    } else if mode == ActivationMode::ClippedRelu as u32 {
        if x < A::ZERO {
            A::ZERO
        } else if x > c {
            c
        } else {
            x
        }
    } else if mode == ActivationMode::Elu as u32 {
        if x > A::ZERO { x } else { c * x.exp_m1() }
    } else if mode == ActivationMode::Sigmoid as u32 {
        x.sigmoid()
    } else if mode == ActivationMode::Tanh as u32 {
        x.tanh()
    } else if mode == ActivationMode::Swish as u32 {
        x * (c * x).sigmoid()
    } else {
        x
    }
}
