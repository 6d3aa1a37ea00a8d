//! Max unpooling against the reference, what it makes of pooled images, and its refusals.

use kernel_abi::DType;
use kernel_abi::ops::pool::PoolProblem;
use kernel_abi::ops::unpool::UnpoolProblem;
use oxidnn_reference::ops::{pool, unpool};
use oxidnn_tests::{Fill, check, check_exact, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::unpool::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn values_come_out_exactly(problem in problems::unpool::any(), seed in any::<u64>()) {
        check_exact(&problem, seed, 40)?;
    }
}

/// The node tests of ONNX.
#[test]
fn maxima_go_back_to_their_places() {
    let problem: UnpoolProblem =
        "unpool:forward window=2x2 x=1x1x2x2:f64 index=1x1x2x2:i64 y=1x1x4x4:f64".parse().unwrap();
    let y = unpool::forward(&problem, &[1.0, 2.0, 3.0, 4.0], &[5.0, 7.0, 13.0, 15.0]);
    let mut expected = [0.0; 16];
    (expected[5], expected[7], expected[13], expected[15]) = (1.0, 2.0, 3.0, 4.0);
    assert_eq!(y, expected);
}

/// Pooling what was unpooled gives what was there, and unpooling pools' gradients is pooling's gradient.
#[test]
fn unpooling_inverts_pooling() {
    let windows = "window=2x3 stride=2x3";
    let forward: PoolProblem =
        format!("pool:forward mode=max {windows} x=2x3x6x9:f64 index=2x3x3x3:i32").parse().unwrap();
    let x = Fill::Normal.values(forward.x().n_elems() as usize, DType::F64, 3);
    let (y, index) = (pool::forward(&forward, &x), pool::index(&forward, &x));
    let back: UnpoolProblem =
        format!("unpool:forward {windows} x=2x3x3x3:f64 index=2x3x3x3:i32 y=2x3x6x9:f64").parse().unwrap();
    let gradient: PoolProblem =
        format!("pool:backward mode=max {windows} dx=2x3x6x9:f64 index=2x3x3x3:i32").parse().unwrap();
    let unpooled = unpool::forward(&back, &y, &index);
    assert_eq!(unpooled, pool::backward_from_index(&gradient, &index, &y));
    assert!(unpooled.iter().zip(&x).all(|(unpooled, x)| *unpooled == 0.0 || unpooled == x));
    assert_eq!(unpool::backward(&back, &x, &index), y);
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<UnpoolProblem>().unwrap_err().to_string();
    let head = "unpool:forward window=2x2";
    assert!(text(&format!("{head} x=1x1x2x2:f32 index=1x1x2x3:i32")).contains("bad index"));
    assert!(text(&format!("{head} x=1x1x2x2:f32 index=1x1x2x2:f32")).contains("i32 or i64, given f32"));
    assert!(text(&format!("{head} x=1x1x2x2:f32 index=1x1x2x2:i32 y=1x1x7x4:f32")).contains("extents 1x1x3x2"));
    assert!(text(&format!("{head} x=1x1x2x2:f32 index=1x1x2x2:i32 y=1x1x4x4:f16")).contains("element type f16"));
    assert!(text(&format!("{head} x=1x1x2x2:f32 index=1x1x2x2:i32 y=1x1x4x4:f32:s16x16x4x0")).contains("overlap"));
    assert!(text(&format!("{head} x=1x1x2x2:i8 index=1x1x2x2:i32")).contains("given i8"));
    assert!(text(&format!("{head} index=1x1x2x2:i32")).contains("expected x=… or y=…"));
    assert!(text("unpool:forward window=2 pad=2 x=1x1x4:f32 index=1x1x4:i32 y=1x1x4:f32").contains("bad pad"));
    assert!(text("unpool:backward window=2 dy=1x1x4:f32 index=1x1x2:i32 dx=1x1x2:f32:s2x2x0").contains("bad dx"));
}
