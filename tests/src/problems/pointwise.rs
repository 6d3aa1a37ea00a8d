//! Random pointwise operations.

use super::tensors::{dims, dtype, layout};
use kernel_abi::ops::pointwise::{PointwisePass, PointwiseProblem};
use proptest::prelude::*;

/// Any pointwise operation, inputs repeated in some dimensions.
pub fn any() -> impl Strategy<Value = PointwiseProblem> {
    let repeat = || prop::collection::vec(prop::bool::weighted(0.25), 8);
    let words = (prop::sample::select(PointwisePass::ALL), dtype(), -2.0f64..2.0, -2.0f64..2.0);
    (words, dims(5, 3000), [repeat(), repeat()], [layout(), layout(), layout()]).prop_map(
        |((pass, dtype, alpha_a, alpha_b), dims, repeats, layouts)| {
            let input = |i: usize| {
                let dims: Vec<i64> =
                    dims.iter().zip(&repeats[i]).map(|(&dim, &repeat)| if repeat { 1 } else { dim }).collect();
                layouts[i].apply(dtype, &dims)
            };
            let c = layouts[2].apply(dtype, &dims);
            match pass.n_inputs() {
                2 => PointwiseProblem::binary(pass, &input(0), &input(1), &c),
                1 => PointwiseProblem::unary(pass, &input(0), &c),
                _ => PointwiseProblem::set(alpha_a, &c),
            }
            .expect("a random problem is legal")
            .scaled(alpha_a, alpha_b)
        },
    )
}
