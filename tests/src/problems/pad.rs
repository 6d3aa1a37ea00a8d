//! Random paddings.

use super::tensors::{any_dtype, dims, layout};
use kernel_abi::ops::pad::{PadMode, PadPass, PadProblem};
use proptest::prelude::*;

/// Any padding, cropping or slicing, half of them in steps of 1.
pub fn any() -> impl Strategy<Value = PadProblem> {
    let words = (prop::sample::select(PadMode::ALL), prop::sample::select(PadPass::ALL), any_dtype(), -3.0f64..3.0);
    let axes = prop::collection::vec((-4i64..12, 1i64..14, prop::sample::select(&[-3i64, -2, -1, 1, 2, 3][..])), 8);
    (words, dims(4, 800), axes, prop::bool::ANY, [layout(), layout()]).prop_map(
        |((mode, pass, dtype, value), x_dims, axes, plain, layouts)| {
            let axes = &axes[..x_dims.len()];
            let (before, step): (Vec<i64>, Vec<i64>) =
                axes.iter().map(|axis| (axis.0, if plain { 1 } else { axis.2 })).unzip();
            let y_dims: Vec<i64> = axes.iter().map(|axis| axis.1).collect();
            let (x, y) = (layouts[0].apply(dtype, &x_dims), layouts[1].apply(dtype, &y_dims));
            let problem = match pass {
                PadPass::Forward => PadProblem::forward(mode, &before, &x, &y),
                PadPass::Backward => PadProblem::backward(mode, &before, &y, &x),
            };
            let problem = problem.and_then(|problem| problem.with_steps(&step)).expect("a random problem is legal");
            problem.with_value(value)
        },
    )
}
