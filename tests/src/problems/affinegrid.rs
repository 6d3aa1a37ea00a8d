//! Random affine grids.

use super::tensors::{dtype, layout};
use kernel_abi::ops::affinegrid::{AffineGridPass, AffineGridProblem};
use proptest::prelude::*;

/// Any affine grid.
pub fn any() -> impl Strategy<Value = AffineGridProblem> {
    let words = (prop::sample::select(AffineGridPass::ALL), dtype(), prop::bool::ANY, 1i64..=3);
    (words, prop::collection::vec(1i64..=9, 2..=3), [layout(), layout()]).prop_map(
        |((pass, dtype, align_corners, n), extents, layouts)| {
            let n_axes = extents.len() as i64;
            let dims: Vec<i64> = [n].into_iter().chain(extents).chain([n_axes]).collect();
            let theta = layouts[0].apply(dtype, &[n, n_axes, n_axes + 1]);
            let grid = layouts[1].apply(dtype, &dims);
            match pass {
                AffineGridPass::Forward => AffineGridProblem::forward(&theta, &grid, align_corners),
                AffineGridPass::Backward => AffineGridProblem::backward(&grid, &theta, align_corners),
            }
            .expect("a random problem is legal")
        },
    )
}
