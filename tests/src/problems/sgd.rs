//! Random steps of gradient descent.

use super::tensors::{dims, dtype, layout};
use kernel_abi::ops::sgd::SgdProblem;
use proptest::prelude::*;

/// Any step.
pub fn any() -> impl Strategy<Value = SgdProblem> {
    let words = (dtype(), 0.0f64..1.0, 0.0f64..0.5, any_bool());
    (words, dims(5, 3000), [layout(), layout(), layout()]).prop_map(
        |((dtype, momentum, weight_decay, nesterov), dims, layouts)| {
            let [dw, v, w] = layouts.map(|layout| layout.apply(dtype, &dims));
            SgdProblem::new(momentum, weight_decay, nesterov, &dw, &v, &w).expect("a random problem is legal")
        },
    )
}

fn any_bool() -> impl Strategy<Value = bool> {
    proptest::bool::ANY
}
