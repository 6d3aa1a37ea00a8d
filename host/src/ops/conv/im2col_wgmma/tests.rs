//! Geometry against a plain search.

use super::classes::classes;
use super::tensors::{Filter, Positions};
use crate::ops::conv::ConvProblem;

fn problem(text: &str) -> ConvProblem {
    text.parse().unwrap()
}

/// Every (position read, filter element) that position `at` of dx meets along the only axis, by the formula.
fn formula(problem: &ConvProblem, at: i64) -> Vec<(i64, i64)> {
    let (axis, shape) = (problem.axes()[0], problem.shape());
    let mut pairs = Vec::new();
    for r in 0..shape.filter[2] {
        for p in 0..shape.output[2] {
            if p * axis.stride + r * axis.dilation - axis.padding == at {
                pairs.push((p, r));
            }
        }
    }
    pairs.sort_unstable();
    pairs
}

#[test]
fn dgrad_classes_meet_what_the_formula_says() {
    for stride in 1..6 {
        for dilation in 1..5 {
            for (filter, padding) in [(1, 0), (2, 1), (3, 1), (5, 2), (7, 3)] {
                let image = 17;
                let text = format!(
                    "conv:dgrad pad={padding} stride={stride} dil={dilation} groups=1 dx=1x8x{image}:bf16:nhwc \
                     w=8x8x{filter}:bf16:nhwc"
                );
                let Ok(problem) = text.parse::<ConvProblem>() else { continue };
                let (classes, step) = classes(&problem);
                assert_eq!(step, [1; 3]);
                let mut covered = 0;
                for class in &classes {
                    let axis = class.axes[2];
                    covered += axis.extent;
                    for i in 0..axis.extent {
                        let reads = |tap: i64| axis.base + i + tap * axis.tap_offset;
                        let mut pairs: Vec<_> = (0..axis.n_taps)
                            .map(|tap| (reads(tap), axis.first_tap + tap * axis.tap_step))
                            .filter(|(p, _)| (0..problem.shape().output[2]).contains(p))
                            .collect();
                        pairs.sort_unstable();
                        assert_eq!(pairs, formula(&problem, axis.first + i * axis.step), "{text}, class {axis:?}");
                    }
                }
                assert_eq!(covered, image, "{text}");
            }
        }
    }
}

#[test]
fn positions_are_linear_where_nothing_lies_between() {
    let linear = |text: &str| {
        let problem = problem(text);
        Positions::of("x", problem.x(), true).map(|positions| positions.linear_stride()).map_err(|refusal| refusal.0)
    };
    assert_eq!(linear("conv:fprop x=2x16x7x5:bf16:nhwc w=8x16x1x1:bf16:nhwc"), Ok(Some(16)));
    assert_eq!(linear("conv:fprop x=1x16x1x1:bf16:nhwc w=8x16x1x1:bf16:nhwc"), Ok(Some(16)));
    // Rows with a gap behind them.
    assert_eq!(linear("conv:fprop x=2x16x7x5:bf16:s1120x1x160x16 w=8x16x1x1:bf16:nhwc"), Ok(None));
    // A slice of the channels.
    assert_eq!(linear("conv:fprop x=2x16x7x5:bf16:s1120x1x160x32 w=8x16x1x1:bf16:nhwc"), Ok(Some(32)));
    assert!(linear("conv:fprop x=2x16x7x5:bf16 w=8x16x1x1:bf16").unwrap_err().contains("channels-last"));
    assert!(linear("conv:fprop x=2x12x7x5:bf16:nhwc w=8x12x1x1:bf16:nhwc").unwrap_err().contains("by 8, x has 12"));
    assert!(linear("conv:fprop x=2x16x7x5:bf16:s700x1x100x20 w=8x16x1x1:bf16:nhwc").unwrap_err().contains("one is"));
}

#[test]
fn filters_have_their_taps_in_a_row() {
    let filter = |text: &str| Filter::of("w", problem(text).w()).map_err(|refusal| refusal.0);
    let w = filter("conv:fprop pad=1 x=2x16x7x5:bf16:nhwc w=8x16x3x2:bf16:nhwc").unwrap();
    assert_eq!((w.taps, w.tap_stride, w.k_stride, w.n_taps()), ([1, 3, 2], 16, 96, 6));
    let gap = "conv:fprop pad=1 x=2x16x7x5:bf16:nhwc w=8x16x3x2:bf16:s160x1x48x16";
    assert!(filter(gap).unwrap_err().contains("one behind the other"));
}
