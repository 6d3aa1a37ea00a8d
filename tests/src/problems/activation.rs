//! Random activation problems.

use super::tensors::{dims, dtype, layout};
use kernel_abi::ops::activation::{ActivationMode, ActivationPass, ActivationProblem};
use proptest::prelude::*;

/// Any activation.
pub fn any() -> impl Strategy<Value = ActivationProblem> {
    let words = (prop::sample::select(ActivationMode::ALL), prop::sample::select(ActivationPass::ALL));
    (words, 0.25f64..3.0, dtype(), dims(5, 3000), [layout(), layout(), layout()]).prop_map(
        |((mode, pass), c, dtype, dims, layouts)| {
            let [x, dy, out] = layouts.map(|layout| layout.apply(dtype, &dims));
            match pass {
                ActivationPass::Forward => ActivationProblem::forward(mode, c, &x, &out),
                ActivationPass::Backward => ActivationProblem::backward(mode, c, &x, &dy, &out),
            }
            .expect("a random problem is legal")
        },
    )
}
