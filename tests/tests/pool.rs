//! Pooling against the reference, exactly where it is exact, its adjoint law and its refusals.

use kernel_abi::ops::pool::{PoolDesc, PoolMode, PoolPass, PoolProblem};
use kernel_abi::{DType, TensorDesc};
use oxidnn_reference::ops::pool::{backward_average, forward};
use oxidnn_tests::{Fill, check, check_exact, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::pool::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn maxima_come_out_exactly(problem in problems::pool::any(), seed in any::<u64>()) {
        if problem.mode() == PoolMode::Max {
            // Few values, so that windows have several maxima and the first must win.
            check_exact(&problem, seed, 2)?;
        }
    }

    #[test]
    fn the_average_passes_are_adjoint(problem in problems::pool::any(), seed in any::<u64>()) {
        if problem.mode() != PoolMode::Max && problem.pool_pass() == PoolPass::Forward {
            let x = Fill::Normal.values(problem.x().n_elems() as usize, DType::F64, seed);
            let dy = Fill::Normal.values(problem.y().n_elems() as usize, DType::F64, !seed);
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            let (left, right) = (dot(&dy, &forward(&problem, &x)), dot(&backward_average(&problem, &dy), &x));
            prop_assert!((left - right).abs() <= 1e-10 * (1.0 + left.abs()), "{left} and {right}");
        }
    }
}

#[test]
fn a_nan_is_a_maximum() {
    let problem: PoolProblem = "pool:forward mode=max window=2 x=1x1x4:f64".parse().unwrap();
    let y = forward(&problem, &[1.0, f64::NAN, 3.0, 2.0]);
    assert!(y[0].is_nan() && y[1] == 3.0);
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<PoolProblem>().unwrap_err().to_string();
    assert!(text("pool:forward mode=max window=2x2 x=4x4:f32").contains("bad x: expected a rank of 3 to 5"));
    assert!(
        text("pool:forward mode=max window=2x2x2 x=1x1x4x4:f32")
            .contains("bad window: expected 1 or 2 values, given 3")
    );
    assert!(text("pool:forward mode=max window=0x2 x=1x1x4x4:f32").contains("at least 1, given 0 for axis 0"));
    assert!(text("pool:forward mode=max window=2x2 stride=1x-1 x=1x1x4x4:f32").contains("bad stride"));
    assert!(
        text("pool:forward mode=max window=2x2 pad=2x0 x=1x1x4x4:f32").contains("less than the window, 2, given 2")
    );
    assert!(text("pool:forward mode=max window=2x2 pad=-1x0 x=1x1x4x4:f32").contains("at least 0, given -1"));
    assert!(text("pool:forward mode=max window=5x2 x=1x1x4x4:f32").contains("padded image, 4"));
    assert!(text("pool:forward mode=max window=2x2 x=1x1x4x4:f32 y=1x1x3x2:f32").contains("extents 1x1x2x2"));
    assert!(text("pool:forward mode=max window=2x2 x=1x1x4x4:f32 y=1x1x2x2:f16").contains("element type f32"));
    assert!(text("pool:forward mode=max window=2x2 x=1x1x4x4:f32 y=1x1x2x2:f32:s4x4x0x1").contains("do not overlap"));
    assert!(text("pool:backward mode=max window=2x2").contains("expected x="));
    let x = TensorDesc::nchw(DType::F32, 1, 1, 4, 4).unwrap();
    let wrong = TensorDesc::nchw(DType::F32, 1, 1, 4, 5).unwrap();
    let desc = PoolDesc::new(PoolMode::Max, &[2]);
    let dy = TensorDesc::packed(DType::F32, &desc.output_dims(&x).unwrap()).unwrap();
    assert!(PoolProblem::backward(&desc, &x, &dy, &wrong).unwrap_err().to_string().contains("bad dx"));
}
