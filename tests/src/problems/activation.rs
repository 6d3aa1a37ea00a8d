//! Random activation problems.

use super::tensors::{dims, dtype, layout};
use kernel_abi::ops::activation::{Activation, ActivationMode, ActivationPass, ActivationProblem};
use proptest::prelude::*;

/// Any activation, half of the time of tensors that are alike in memory.
pub fn any() -> impl Strategy<Value = ActivationProblem> {
    let words = (prop::sample::select(ActivationMode::ALL), prop::sample::select(ActivationPass::ALL));
    let parameters = (0.25f64..3.0, 0.25f64..3.0, -0.5f64..0.5);
    let extents = prop_oneof![5 => dims(5, 3000), 1 => (1i64..9000).prop_map(|n| vec![n])];
    let layouts = prop_oneof![[layout(), layout(), layout()], layout().prop_map(|all| [all.clone(), all.clone(), all])];
    (words, parameters, dtype(), extents, layouts).prop_map(|((mode, pass), (a, b, c), dtype, dims, layouts)| {
        // Bounds of relu are in order, and half of the parameters are the defaults.
        let parameters = if mode == ActivationMode::Relu { [a - 2.0, a - 2.0 + b, c] } else { [a, b, c] };
        let activation = if c > 0.25 { mode.into() } else { Activation::new(mode, &parameters) };
        let [x, dy, out] = layouts.map(|layout| layout.apply(dtype, &dims));
        match pass {
            ActivationPass::Forward => ActivationProblem::forward(activation, &x, &out),
            ActivationPass::Backward => ActivationProblem::backward(activation, &x, &dy, &out),
        }
        .expect("a random problem is legal")
    })
}
