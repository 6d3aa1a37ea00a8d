//! Random steps of gradient descent.

use super::tensors::{Layout, dims, layout};
use kernel_abi::ops::sgd::{SgdDesc, SgdProblem, SgdTensors};
use kernel_abi::{DType, TensorDesc};
use proptest::prelude::*;

/// Any step of one tensor.
pub fn any() -> impl Strategy<Value = SgdProblem> {
    of(prop::collection::vec(dims(5, 3000), 1), [layout(), layout(), layout(), layout()])
}

/// Steps of some tensors that lie alike in all their operands.
pub fn lists() -> impl Strategy<Value = SgdProblem> {
    let packed = || Just(Layout::Packed);
    of(extents(), [packed(), packed(), packed(), packed()])
}

/// Extents of some tensors.
pub(super) fn extents() -> impl Strategy<Value = Vec<Vec<i64>>> {
    prop_oneof![
        2 => prop::collection::vec(dims(3, 300), 1..6),
        1 => prop::collection::vec((1i64..12_000).prop_map(|n| vec![n]), 1..4),
        // More than a launch takes.
        1 => prop::collection::vec((1i64..20).prop_map(|n| vec![n]), 60..140),
    ]
}

/// Types of parameters and state, and whether there is a master.
pub(super) fn types() -> impl Strategy<Value = (DType, DType, bool)> {
    use DType::{BF16, F16, F32, F64};
    prop::sample::select(
        &[
            (F32, F32, false),
            (F64, F64, false),
            (F16, F16, false),
            (F16, F32, false),
            (F16, F32, true),
            (BF16, BF16, false),
            (BF16, F32, false),
            (BF16, F32, true),
        ][..],
    )
}

fn of(
    extents: impl Strategy<Value = Vec<Vec<i64>>>,
    layouts: [impl Strategy<Value = Layout>; 4],
) -> impl Strategy<Value = SgdProblem> {
    let momentum = prop_oneof![1 => Just(None), 3 => (0.0f64..1.0).prop_map(Some)];
    let words = (momentum, 0.0f64..0.5, 0.0f64..0.5, proptest::bool::ANY);
    (words, types(), extents, layouts).prop_map(
        |((momentum, dampening, decay, nesterov), (dtype, state, has_master), extents, layouts)| {
            let desc = SgdDesc::new().momentum(momentum.unwrap_or(0.0)).dampening(dampening);
            let tensors = |dims: &Vec<i64>| {
                let [dw, v, master, w] = [(0, dtype), (1, state), (2, state), (3, dtype)]
                    .map(|(i, dtype): (usize, DType)| -> TensorDesc { layouts[i].apply(dtype, dims) });
                SgdTensors { dw, v: momentum.map(|_| v), master: has_master.then_some(master), w }
            };
            let tensors: Vec<_> = extents.iter().map(tensors).collect();
            SgdProblem::new(desc.weight_decay(decay).nesterov(nesterov), &tensors).expect("a random problem is legal")
        },
    )
}
