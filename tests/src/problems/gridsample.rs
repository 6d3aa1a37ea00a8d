//! Random grid samplings.

use super::tensors::{dtype, layout};
use kernel_abi::ops::gridsample::{GridPadding, GridSampleDesc, GridSampleMode, GridSamplePass, GridSampleProblem};
use kernel_abi::{DType, TensorDesc};
use proptest::prelude::*;

/// Any grid sampling: small ones of every kind, and gradients of images of several tiles.
pub fn any() -> impl Strategy<Value = GridSampleProblem> {
    prop_oneof![7 => small(), 1 => wide()]
}

/// The gradient of an image of several tiles and groups of channels.
fn wide() -> impl Strategy<Value = GridSampleProblem> {
    let desc = (prop::sample::select(GridSampleMode::ALL), prop::sample::select(GridPadding::ALL), prop::bool::ANY)
        .prop_map(|(mode, padding, align_corners)| GridSampleDesc { mode, padding, align_corners });
    (desc, dtype(), 1i64..=10, (1i64..=10, 20i64..=40), (1i64..=5, 1i64..=5), [layout(), layout()]).prop_map(
        |(desc, dtype, c, (h, w), (p, q), layouts)| {
            let (dx, dy) = (layouts[0].apply(dtype, &[1, c, h, w]), layouts[1].apply(dtype, &[1, c, p, q]));
            let grid = TensorDesc::packed(dtype, &[1, p, q, 2]).expect("a grid is legal");
            GridSampleProblem::backward_data(&desc, &grid, &dy, &dx).expect("a random problem is legal")
        },
    )
}

/// Any layout.
fn small() -> impl Strategy<Value = GridSampleProblem> {
    let desc = (prop::sample::select(GridSampleMode::ALL), prop::sample::select(GridPadding::ALL), prop::bool::ANY)
        .prop_map(|(mode, padding, align_corners)| GridSampleDesc { mode, padding, align_corners });
    let words = (prop::sample::select(GridSamplePass::ALL), desc, dtype(), prop::bool::ANY);
    let axes = prop::collection::vec((1i64..=7, 1i64..=6), 1..=3);
    (words, (1i64..=2, 1i64..=5), axes, [layout(), layout(), layout(), layout()]).prop_map(
        |((pass, desc, dtype, fine), (n, c), axes, layouts)| {
            let (image, output): (Vec<i64>, Vec<i64>) = axes.into_iter().unzip();
            let dims = |spatial: &[i64]| [n, c].into_iter().chain(spatial.iter().copied()).collect::<Vec<_>>();
            let places: Vec<i64> = [n].into_iter().chain(output.iter().copied()).chain([image.len() as i64]).collect();
            let grid_dtype = if fine && dtype.size_bytes() == 2 { DType::F32 } else { dtype };
            let x = layouts[0].apply(dtype, &dims(&image));
            let y = layouts[1].apply(dtype, &dims(&output));
            let [grid, dgrid] = [2, 3].map(|i| layouts[i].apply(grid_dtype, &places));
            match pass {
                GridSamplePass::Forward => GridSampleProblem::forward(&desc, &x, &grid, &y),
                GridSamplePass::BackwardData => GridSampleProblem::backward_data(&desc, &grid, &y, &x),
                GridSamplePass::BackwardGrid => GridSampleProblem::backward_grid(&desc, &x, &grid, &y, &dgrid),
            }
            .expect("a random problem is legal")
        },
    )
}
