//! Local response normalization against the reference, its laws and its refusals.

use kernel_abi::DType;
use kernel_abi::ops::lrn::{LrnProblem, LrnRegion};
use oxidnn_reference::ops::lrn::{backward, forward};
use oxidnn_tests::{Fill, check, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::lrn::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    /// The backward pass is the forward pass's derivative, by a central difference in x and means together.
    #[test]
    fn the_gradient_is_the_derivative(
        seed in any::<u64>(),
        region in prop::sample::select(LrnRegion::ALL),
        n in 1i64..5,
    ) {
        let words = format!("region={region} n={n} alpha=0.7 beta=0.75 k=1 x=2x5x3x4:f64 means=2x5x3x4:f64");
        let y: LrnProblem = format!("lrn:forward {words}").parse().unwrap();
        let dx: LrnProblem = format!("lrn:backward {words} dmeans=2x5x3x4:f64").parse().unwrap();
        let fill = |i: u64| Fill::Normal.values(120, DType::F64, seed.wrapping_add(i));
        let (x, means, dy, x_step, means_step) = (fill(0), fill(1), fill(2), fill(3), fill(4));
        let moved = |from: &[f64], step: &[f64], sign: f64| -> Vec<f64> {
            from.iter().zip(step).map(|(v, s)| v + sign * 1e-6 * s).collect()
        };
        let at = |sign: f64| forward(&y, &moved(&x, &x_step, sign), Some(&moved(&means, &means_step, sign)));
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let difference = (dot(&dy, &at(1.0)) - dot(&dy, &at(-1.0))) / 2e-6;
        let (dx, dmeans) = backward(&dx, &x, Some(&means), &dy);
        let gradient = dot(&dx, &x_step) + dot(&dmeans, &means_step);
        prop_assert!((difference - gradient).abs() < 1e-5 * (1.0 + gradient.abs()), "{difference} and {gradient}");
    }
}

/// An even window looks one further ahead than behind, as ONNX and cuDNN have it.
#[test]
fn windows_by_hand() {
    let y = |text: &str, x: &[f64]| forward(&text.parse().unwrap(), x, None);
    let across = "lrn:forward n=2 alpha=2 beta=1 k=1 x=1x3:f64";
    assert_eq!(y(across, &[1.0, 2.0, 3.0]), [1.0 / 6.0, 2.0 / 14.0, 3.0 * (1.0 / 10.0)]);
    let within = "lrn:forward region=within_channel n=3 alpha=9 beta=1 k=1 x=1x1x2x2:f64";
    assert_eq!(y(within, &[1.0, 2.0, 0.0, 0.0]), [1.0 / 6.0, 2.0 / 6.0, 0.0, 0.0]);
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<LrnProblem>().unwrap_err().to_string();
    assert!(text("lrn:forward x=4:f32").contains("bad x: expected a rank of 2 to 5, [N, C, ...], given 1"));
    assert!(text("lrn:forward region=within_channel x=4x2:f32").contains("expected a rank of 3 to 5"));
    assert!(text("lrn:forward x=1x1x1x1x1x1:f32").contains("given 6"));
    assert!(text("lrn:forward n=0 x=4x2:f32").contains("bad n: expected 1 to 1048576, given 0"));
    assert!(text("lrn:forward alpha=-1 x=4x2:f32").contains("bad alpha: expected a finite number of at least 0"));
    assert!(text("lrn:forward beta=NaN x=4x2:f32").contains("bad beta"));
    assert!(text("lrn:forward k=0 x=4x2:f32").contains("bad k: expected a finite number above 0, given 0"));
    assert!(text("lrn:forward x=4x2:i8").contains("one of the element types f32"));
    assert!(text("lrn:forward x=4x2:f32 y=2x4:f32").contains("bad y: expected the extents 4x2 of x, given 2x4"));
    assert!(text("lrn:forward x=4x2:f32 means=4x2:f16").contains("bad means: expected the element type f32"));
    assert!(text("lrn:backward x=4x2:f32 dx=4x2:f32:s0x1").contains("do not overlap"));
    assert!(text("lrn:backward x=4x2:f32 means=4x2:f32 dmeans=4x2:f32:s0x1").contains("bad dmeans"));
    assert!(text("lrn:backward x=4x2:f32 dmeans=4x2:f32").contains("expected none without means, given one"));
    assert!(text("lrn:forward region=nowhere x=4x2:f32").contains("given \"nowhere\""));
}
