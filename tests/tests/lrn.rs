//! Local response normalization against the reference, its laws and its refusals.

use kernel_abi::DType;
use kernel_abi::ops::lrn::{LrnProblem, LrnRegion};
use oxidnn_reference::ops::lrn::{backward, forward};
use oxidnn_tests::oracle::check_case;
use oxidnn_tests::{Case, Fill, check, check_exact, problems, refusal};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::lrn::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn windows_across_channels_match_the_reference(problem in problems::lrn::across(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn windows_that_lie_anywhere_match_the_reference(
        problem in problems::lrn::across(),
        shift in 1i64..8,
        seed in any::<u64>(),
    ) {
        check_case(&problem, &Case::normal(seed).scaled(1.5, -0.75).shifted(shift))?;
    }

    /// With beta 0, y is x and dx is dy: every element at its place.
    #[test]
    fn powers_of_zero_change_nothing(
        dims in (1i64..3, 1i64..40, 1i64..5, 1i64..17),
        pass in prop::sample::select(&["forward", "backward"][..]),
        layout in prop::sample::select(&["", ":nhwc"][..]),
        dtype in prop::sample::select(&["f32", "f16", "bf16"][..]),
        seed in any::<u64>(),
    ) {
        let (n, c, h, w) = dims;
        let text = format!("lrn:{pass} n=5 alpha=1 beta=0 k=1 x={n}x{c}x{h}x{w}:{dtype}{layout}");
        check_exact(&text.parse::<LrnProblem>().unwrap(), seed, 50)?;
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

/// As networks have them: whole vectors of channels, and planes of whole vectors or not.
#[test]
fn layers_of_networks() {
    for dtype in ["f32", "f16", "bf16"] {
        for (i, x) in ["2x64x7x8", "1x96x13x13", "1x192x4x6"].into_iter().enumerate() {
            for layout in ["", ":nhwc"] {
                for n in [3, 5] {
                    for pass in ["forward", "backward"] {
                        let text = format!("lrn:{pass} n={n} alpha=0.5 beta=0.75 k=2 x={x}:{dtype}{layout}");
                        check(&text.parse::<LrnProblem>().unwrap(), i as u64).unwrap();
                    }
                }
            }
        }
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
fn refusals_of_windows_in_registers() {
    let Some(gpu) = oxidnn_tests::gpu("refusals_of_windows_in_registers") else { return };
    let refused =
        |text: &str| refusal(&gpu, &format!("lrn:forward {text}").parse::<LrnProblem>().unwrap(), "register_windows");
    assert!(refused("x=2x8x4x4:f64").contains("takes f32, f16 and bf16, given f64"));
    assert!(refused("region=within_channel x=2x8x4x4:f32").contains("across channels, given within_channel"));
    assert!(refused("x=2x8x4x4:f32 means=2x8x4x4:f32").contains("takes no means"));
    assert!(refused("n=4 x=2x8x4x4:f32").contains("windows of 3 and 5 channels, given 4"));
    assert!(refused("x=2x8x4x4:f32:s200x20x5x1").contains("takes positions at equal distances"));
    assert!(refused("x=1x2097153x1:f32").contains("takes up to 2097120 channels, given 2097153"));
    assert_eq!(refused("x=2x8x4x4:f32"), "");
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
