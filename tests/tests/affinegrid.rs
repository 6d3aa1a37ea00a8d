//! Affine grids against the reference, their adjoint law and refusals.

use kernel_abi::DType;
use kernel_abi::ops::affinegrid::AffineGridProblem;
use oxidnn_reference::ops::affinegrid::{backward, forward};
use oxidnn_tests::{Fill, check, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::affinegrid::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn the_passes_are_adjoint(problem in problems::affinegrid::any(), seed in any::<u64>()) {
        let theta = Fill::Normal.values(problem.theta().n_elems() as usize, DType::F64, seed);
        let dgrid = Fill::Normal.values(problem.grid().n_elems() as usize, DType::F64, !seed);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let (left, right) = (dot(&dgrid, &forward(&problem, &theta)), dot(&backward(&problem, &dgrid), &theta));
        prop_assert!((left - right).abs() <= 1e-10 * (1.0 + left.abs()), "{left} and {right}");
    }
}

/// The identity takes positions to themselves.
#[test]
fn the_identity() {
    let grid = |align: u8| {
        let problem: AffineGridProblem =
            format!("affinegrid:forward align_corners={align} grid=1x2x4x2:f64").parse().unwrap();
        forward(&problem, &[1.0, 0.0, 0.0, 0.0, 1.0, 0.0])
    };
    let near = |a: &[f64], b: &[f64]| a.iter().zip(b).all(|(a, b)| (a - b).abs() < 1e-15);
    assert!(near(&grid(1)[..6], &[-1.0, -1.0, -1.0 / 3.0, -1.0, 1.0 / 3.0, -1.0]));
    assert!(near(&grid(0)[..6], &[-0.75, -0.5, -0.25, -0.5, 0.25, -0.5]));
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<AffineGridProblem>().unwrap_err().to_string();
    assert!(
        text("affinegrid:forward grid=1x2x2:f32").contains("expected [N, P, Q, 2] or [N, Z, P, Q, 3], given 1x2x2")
    );
    assert!(text("affinegrid:forward grid=1x2x2x3:f32").contains("given 1x2x2x3"));
    assert!(text("affinegrid:forward grid=1x2x2x2:f32 theta=1x3x2:f32").contains("bad theta: expected 1x2x3"));
    assert!(text("affinegrid:forward grid=1x2x2x2:f32 theta=1x2x3:f64").contains("element type f64"));
    assert!(text("affinegrid:forward grid=1x2x2x2:i8").contains("given i8"));
    assert!(text("affinegrid:forward grid=1x2x2x2:f32:s8x4x2x0").contains("do not overlap"));
    assert!(text("affinegrid:backward dgrid=2x2x2x2:f32 dtheta=2x2x3:f32:s0x3x1").contains("bad dtheta"));
    assert!(text("affinegrid:forward align_corners=2 grid=1x2x2x2:f32").contains("0 or 1, given 2"));
}
