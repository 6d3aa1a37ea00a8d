//! Losses at the edge of the number range: sums of millions of rows and classes, and losses of 16 bits, on every device.

use kernel_abi::DType;
use oxidnn::Context;
use oxidnn::operators::{AnyProblem, parse_problem};
use oxidnn_tests::{contexts, edges, skip};
use proptest::prelude::*;

/// 2²⁴ + 1: one more than f32 counts to.
const MANY: usize = (1 << 24) + 1;

/// The first result that each candidate makes of `values`, with a name for it.
fn first_results(text: &str, values: &[Vec<f64>], context: &Context) -> Vec<(String, Vec<f64>)> {
    let problem: Box<dyn AnyProblem> = parse_problem(text).unwrap();
    let able = edges::able(&*problem, context);
    assert!(!able.is_empty(), "{text}");
    let result = |candidate| edges::run(&*problem, context, candidate, values).unwrap().swap_remove(0);
    able.iter().map(|candidate| (format!("{text}: {}", candidate.config), result(candidate))).collect()
}

/// The number of rows or classes for a device: the simulator has fewer.
fn many(context: &Context, simulated: usize) -> usize {
    if skip::is_simulated(context) { simulated } else { MANY }
}

fn close(name: &str, got: f64, expected: f64, relative: f64) {
    assert!((got - expected).abs() <= relative * expected.abs(), "{name}: expected {expected:e}, given {got:e}");
}

/// Small losses behind a large one, which an f32 does not move by any of them.
#[test]
fn losses_of_many_rows() {
    for context in contexts() {
        let n = many(context, 1500);
        let mut x = vec![-0.25; n];
        x[0] = -f64::from(1 << 23);
        let sum = f64::from(1 << 23) + 0.25 * (n - 1) as f64;
        let words = format!("input=log_probs x={n}x1:f32 target={n}x1:f32");
        let values = [x, vec![1.0; n], vec![0.0]];
        for (reduction, expected) in [("sum", sum), ("mean", sum / n as f64)] {
            let text = format!("crossentropy:forward reduction={reduction} {words}");
            for (name, loss) in first_results(&text, &values, context) {
                close(&name, loss[0], expected, 1.2e-7);
            }
        }
    }
}

/// A share of the loss for every class, the first of which is large; and ln Σ eˣ of as many.
#[test]
fn losses_of_many_classes() {
    for context in contexts() {
        for dtype in ["f32", "f16"] {
            // Beside the large term, a thread that adds in f32 loses all others: those of one block it may.
            let n = many(context, 1 << 15);
            let (large, small) = if dtype == "f32" { (f64::from(1 << 24), 1.0) } else { (4096.0, 2f64.powi(-13)) };
            let mut x = vec![-small; n];
            x[0] = -large;
            let words = "input=log_probs reduction=none smoothing=1";
            let text = format!("crossentropy:forward {words} x=1x{n}:{dtype} target=1:i32");
            let expected = (large + small * (n - 1) as f64) / n as f64;
            for (name, loss) in first_results(&text, &[x, vec![0.0], vec![0.0]], context) {
                close(&name, loss[0], expected, 2e-4);
            }
        }
        let n = many(context, 1 << 15);
        let text = format!("crossentropy:forward reduction=none x=1x{n}:f32 target=1:i64");
        for (name, loss) in first_results(&text, &[vec![0.0; n], vec![(n - 1) as f64], vec![0.0]], context) {
            close(&name, loss[0], (n as f64).ln(), 1e-6);
        }
    }
}

/// Sums that f16 does not add up to are right, and beyond its range the loss is what the exact value rounds to.
#[test]
fn losses_of_16_bits() {
    for context in contexts() {
        for (dtype, rows, each, sum, mean) in [
            // 3000 · 1.5; f16 has multiples of 4 there, and would add nothing more at 4096.
            ("f16", 3000, 1.5, 4500.0, 1.5),
            // One less than the middle to what is no number any more, and the middle.
            ("f16", 65_519, 1.0, 65_504.0, 1.0),
            ("f16", 65_520, 1.0, f64::INFINITY, 1.0),
            ("bf16", 3000, 1.5, 4512.0, 1.5),
            ("bf16", 700, 2f64.powi(120), f64::INFINITY, 2f64.powi(120)),
        ] {
            if skip::is_simulated(context) && rows > 3000 {
                continue;
            }
            for (reduction, expected) in [("sum", sum), ("mean", mean)] {
                let text = format!(
                    "crossentropy:forward input=log_probs reduction={reduction} \
                     x={rows}x1:{dtype} target={rows}:i32 weight=1:{dtype} loss=1:{dtype}"
                );
                let values = [vec![-each; rows], vec![0.0; rows], vec![1.0], vec![0.0]];
                for (name, loss) in first_results(&text, &values, context) {
                    assert_eq!(loss[0], expected, "{name}");
                }
            }
        }
    }
}

/// Losses whose sum is beyond f32, and their mean is not.
#[test]
fn means_of_large_losses() {
    for context in contexts() {
        let large = f64::from(3e38f32);
        for target in ["40x1:f32", "40:i32"] {
            let text = format!("crossentropy:forward input=log_probs reduction=mean x=40x1:f32 target={target}");
            let named = f64::from(u8::from(target == "40x1:f32"));
            for (name, loss) in first_results(&text, &[vec![-large; 40], vec![named; 40], vec![0.0]], context) {
                close(&name, loss[0], large, 1e-7);
            }
        }
    }
}

/// Losses of sequences of one step and one label, as logarithms of probabilities: exactly what x holds.
#[test]
fn losses_of_many_sequences() {
    for context in contexts() {
        let simulated = skip::is_simulated(context);
        let ln2 = f64::from(2f32.ln());
        // Behind a large loss, fewer small ones are lost than of equal ones.
        let (first, others, n) = if simulated { (16_384.0, 2f64.powi(-11), 300) } else { (ln2, ln2, 65_540) };
        let mut x = vec![-others; 2 * n];
        x[1] = -first;
        let sum = first + others * (n - 1) as f64;
        for (reduction, expected) in [("sum", sum), ("mean", sum / n as f64)] {
            let text = format!("ctc:forward input=log_probs reduction={reduction} x=1x{n}x2:f32 target={n}x1:i32");
            let values = [x.clone(), vec![1.0; n], vec![1.0; n], vec![1.0; n], vec![0.0]];
            for (name, loss) in first_results(&text, &values, context) {
                close(&name, loss[0], expected, 2.4e-7);
                if !simulated && reduction == "sum" {
                    assert_eq!(format!("{:.2}", loss[0]), "45428.87");
                }
            }
        }
    }
}

/// The gradient of a loss of 16 bits comes in the loss's type.
#[test]
fn gradients_of_losses_of_16_bits() {
    for context in contexts() {
        for (dloss, x) in [("f16", "f16"), ("bf16", "bf16"), ("f32", "bf16")] {
            let words = format!("input=log_probs reduction=mean x=3000x1:{x} target=3000:i32 total=1:f32");
            let text = format!("crossentropy:backward {words} dloss=1:{dloss}");
            let values = [vec![-1.0; 3000], vec![0.0; 3000], vec![3000.0], vec![3072.0], vec![0.0; 3000]];
            for (name, dx) in first_results(&text, &values, context) {
                assert!(dx.iter().all(|dx| (dx + 1.024).abs() <= 1.024 * 2f64.powi(-8)), "{name}: {}", dx[0]);
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, ..oxidnn_tests::config() })]

    /// Losses and weights that are multiples of 2⁻⁸, whose sums are exact in i128 and are rounded once.
    #[test]
    fn sums_are_rounded_once(
        n in 1usize..3000,
        dtype in prop::sample::select(&[DType::F16, DType::BF16][..]),
        loss in prop::sample::select(&[true, false][..]),
        seed in any::<u32>(),
    ) {
        let loss_dtype = if loss { dtype } else { DType::F32 };
        let number = |i: usize| i64::from((i as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) >> 24);
        let x: Vec<f64> = (0..n).map(|i| -(number(i) as f64) / 256.0).collect();
        let exact: i128 = (0..n).map(|i| i128::from(number(i)) * 3).sum();
        let exact = exact as f64 / 256.0;
        let expected = oxidnn_tests::fill::round(exact, loss_dtype);
        let text = format!(
            "crossentropy:forward input=log_probs reduction=sum x={n}x1:{dtype} target={n}:i64 weight=1:{dtype} \
             loss=1:{loss_dtype}"
        );
        for context in contexts() {
            for (name, got) in first_results(&text, &[x.clone(), vec![0.0; n], vec![3.0], vec![0.0]], context) {
                prop_assert_eq!(got[0], expected, "{}", name);
            }
        }
    }
}
