//! Random steps of Adam and AdamW.

use super::sgd::{extents, types};
use super::tensors::{Layout, dims, layout};
use kernel_abi::ops::adam::{AdamDesc, AdamMode, AdamProblem, AdamTensors};
use proptest::prelude::*;

/// Any step of one tensor.
pub fn any() -> impl Strategy<Value = AdamProblem> {
    of(prop::collection::vec(dims(5, 3000), 1), [layout(), layout(), layout(), layout(), layout()])
}

/// Steps of some tensors that lie alike in all their operands.
pub fn lists() -> impl Strategy<Value = AdamProblem> {
    let packed = || Just(Layout::Packed);
    of(extents(), [packed(), packed(), packed(), packed(), packed()])
}

fn of(
    extents: impl Strategy<Value = Vec<Vec<i64>>>,
    layouts: [impl Strategy<Value = Layout>; 5],
) -> impl Strategy<Value = AdamProblem> {
    let words = (prop::sample::select(AdamMode::ALL), 0.0f64..0.99, 0.5f64..0.999, 0.0f64..0.1, proptest::bool::ANY);
    (words, types(), extents, layouts).prop_map(
        |((mode, beta1, beta2, decay, corrects), (dtype, state, has_master), extents, layouts)| {
            let desc = AdamDesc::new(mode).betas(beta1, beta2).eps(1e-3).weight_decay(decay).corrects_bias(corrects);
            let tensors = extents.iter().map(|dims| AdamTensors {
                dw: layouts[0].apply(dtype, dims),
                m: layouts[1].apply(state, dims),
                v: layouts[2].apply(state, dims),
                master: has_master.then(|| layouts[3].apply(state, dims)),
                w: layouts[4].apply(dtype, dims),
            });
            AdamProblem::new(desc, &tensors.collect::<Vec<_>>()).expect("a random problem is legal")
        },
    )
}
