//! Random softmaxes.

use super::tensors::{dims, dtype, layout};
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxMode, SoftmaxPass, SoftmaxProblem};
use proptest::prelude::*;

/// Any softmax.
pub fn any() -> impl Strategy<Value = SoftmaxProblem> {
    let words = (
        prop::sample::select(SoftmaxKind::ALL),
        prop::sample::select(SoftmaxMode::ALL),
        prop::sample::select(SoftmaxPass::ALL),
        dtype(),
    );
    // Rows of up to a few hundred elements, so that a warp goes round several times.
    let extents = prop_oneof![
        3 => dims(6, 3000).prop_map(|mut dims| {
            dims.insert(0, 2);
            dims
        }),
        1 => (1i64..4, 1i64..400).prop_map(|(n, c)| vec![n, c]),
    ];
    (words, extents, [layout(), layout(), layout()]).prop_map(|((kind, mode, pass, dtype), dims, layouts)| {
        let [input, dy, out] = layouts.map(|layout| layout.apply(dtype, &dims));
        match pass {
            SoftmaxPass::Forward => SoftmaxProblem::forward(kind, mode, &input, &out),
            SoftmaxPass::Backward => SoftmaxProblem::backward(kind, mode, &input, &dy, &out),
        }
        .expect("a random problem is legal")
    })
}
