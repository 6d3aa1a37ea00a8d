//! Random paddings.

use super::tensors::{any_dtype, dims, layout};
use kernel_abi::TensorDesc;
use kernel_abi::ops::pad::{PadMode, PadPass, PadProblem};
use proptest::prelude::*;

/// Any padding, cropping or slicing: small ones of every kind, images, and long rows.
pub fn any() -> impl Strategy<Value = PadProblem> {
    prop_oneof![4 => small(), 2 => images(), 1 => long_rows()]
}

/// Rows of more than a piece, some of more than a block's tile, by whose sides more is outside than a piece has.
fn long_rows() -> impl Strategy<Value = PadProblem> {
    let words = (prop::sample::select(PadMode::ALL), prop::sample::select(PadPass::ALL), any_dtype(), -3.0f64..3.0);
    let width = prop_oneof![3 => 16i64..200, 1 => 900i64..3000];
    let axis = || prop_oneof![(-15i64..70, -15i64..70), Just((0, 0)), Just((1, 1))];
    (words, 1i64..9, width, [axis(), axis()]).prop_map(|((mode, pass, dtype, value), h, w, amounts)| {
        let padded = |extent: i64, (before, after): (i64, i64)| (extent + before + after).max(1);
        let desc = |dims: &[i64]| TensorDesc::packed(dtype, dims).expect("random extents are legal");
        // Few rows beside a row, so that they stay as small as images are.
        let rows = (amounts[0].0.min(3), amounts[0].1.min(3));
        let (x, y) = (desc(&[h, w]), desc(&[padded(h, rows), padded(w, amounts[1])]));
        let before = [rows.0, amounts[1].0];
        let problem = match pass {
            PadPass::Forward => PadProblem::forward(mode, &before, &x, &y),
            PadPass::Backward => PadProblem::backward(mode, &before, &y, &x),
        };
        problem.expect("a random problem is legal").with_value(value)
    })
}

/// Images whose rows and columns are padded or cropped, packed or channels-last.
fn images() -> impl Strategy<Value = PadProblem> {
    let words = (prop::sample::select(PadMode::ALL), prop::sample::select(PadPass::ALL), any_dtype(), -3.0f64..3.0);
    let channels = prop_oneof![1i64..6, (1i64..5).prop_map(|c| 8 * c)];
    let axis = || (-3i64..5, -3i64..5);
    (words, channels, (4i64..12, 4i64..50), [axis(), axis()], prop::bool::ANY).prop_map(
        |((mode, pass, dtype, value), c, (h, w), amounts, last)| {
            let lie = |dims: &[i64]| {
                let lie = if last { TensorDesc::channels_last } else { TensorDesc::packed };
                lie(dtype, dims).expect("random extents are legal")
            };
            let padded = |extent: i64, (before, after): (i64, i64)| (extent + before + after).max(1);
            let x = lie(&[2, c, h, w]);
            let y = lie(&[2, c, padded(h, amounts[0]), padded(w, amounts[1])]);
            let before = [0, 0, amounts[0].0, amounts[1].0];
            let problem = match pass {
                PadPass::Forward => PadProblem::forward(mode, &before, &x, &y),
                PadPass::Backward => PadProblem::backward(mode, &before, &y, &x),
            };
            problem.expect("a random problem is legal").with_value(value)
        },
    )
}

/// Any layout, half of them in steps of 1.
fn small() -> impl Strategy<Value = PadProblem> {
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
