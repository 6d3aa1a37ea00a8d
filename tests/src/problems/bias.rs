//! Random bias problems.

use super::tensors::{dims, dtype, layout};
use kernel_abi::ops::bias::{BiasPass, BiasProblem};
use proptest::prelude::*;

/// Any bias.
pub fn any() -> impl Strategy<Value = BiasProblem> {
    let layouts = [layout(), layout(), layout()];
    (prop::sample::select(BiasPass::ALL), dtype(), 1i64..=40, dims(5, 3000), layouts).prop_map(
        |(pass, dtype, channels, mut dims, layouts)| {
            dims.insert(1, channels);
            let x = layouts[0].apply(dtype, &dims);
            let bias = layouts[1].apply(dtype, &[channels]);
            match pass {
                BiasPass::Forward => BiasProblem::forward(&x, &bias, &layouts[2].apply(dtype, &dims)),
                BiasPass::Backward => BiasProblem::backward(&x, &bias),
            }
            .expect("a random problem is legal")
        },
    )
}
