//! Sums of millions of terms, and norms, means and logarithms whose way leads beyond the largest number, by every algorithm
//! of every device. On a simulated one, as few terms as tell a sum in blocks from one that is not.

use kernel_abi::Role;
use oxidnn::operators::{AnyProblem, parse_problem};
use oxidnn::{Candidate, Context};
use oxidnn_tests::edges;
use oxidnn_tests::oracle::contexts;
use oxidnn_tests::skip::is_simulated;
use proptest::prelude::*;

/// What some algorithms of a device make of a problem of this text, each with its name. The inputs hold these numbers.
fn results(
    context: &Context,
    text: &str,
    inputs: &[Vec<f64>],
    tried: fn(&Candidate) -> bool,
) -> Vec<(String, Vec<f64>)> {
    let problem: Box<dyn AnyProblem> = parse_problem(text).unwrap();
    let mut inputs = inputs.iter();
    let values: Vec<Vec<f64>> = problem
        .operands()
        .iter()
        .map(|operand| match operand.role {
            Role::Input => inputs.next().unwrap().clone(),
            _ => vec![0.0; operand.desc.n_elems() as usize],
        })
        .collect();
    edges::able(&*problem, context)
        .iter()
        .filter(|candidate| tried(candidate))
        .map(|candidate| {
            let result = edges::run(&*problem, context, candidate, &values);
            let name = format!("{} of {text} on {}", candidate.config, context.info().name);
            (name, result.unwrap_or_else(|error| panic!("{error}")).swap_remove(0))
        })
        .collect()
}

/// Every algorithm.
fn all(_: &Candidate) -> bool {
    true
}

/// The ones that take any problem, and those of the CPU: others of products have sums of tensor cores.
fn general(candidate: &Candidate) -> bool {
    candidate.algorithm == "naive" || candidate.algorithm.starts_with("cpu")
}

/// The one result of a reduction, by every algorithm of every device.
fn reduce(pass: &str, dtype: &str, x: &[f64]) -> Vec<(String, f64)> {
    let text = format!("reduce:{pass} x={}:{dtype} y=1:{dtype}", x.len());
    let of = |context| results(context, &text, &[x.to_vec()], all);
    contexts().iter().flat_map(of).map(|(name, y)| (name, y[0])).collect()
}

fn close(name: &str, got: f64, expected: f64, relative: f64) {
    assert!((got - expected).abs() <= relative * expected.abs(), "{name}: expected {expected:e}, given {got:e}");
}

/// On each device, as many terms as it has the time for.
fn for_each_device(full: usize, few: usize, test: impl Fn(&Context, usize)) {
    contexts().iter().for_each(|context| test(context, if is_simulated(context) { few } else { full }));
}

#[test]
fn millions_of_ones() {
    for_each_device(20_000_001, 40_001, |context, n| {
        let ones = vec![1.0; n];
        for pass in ["add", "norm1", "sum_square", "avg", "norm2"] {
            let expected = match pass {
                "avg" => 1.0,
                "norm2" => (n as f64).sqrt(),
                _ => n as f64,
            };
            let text = format!("reduce:{pass} x={n}:f32 y=1:f32");
            for (name, y) in results(context, &text, std::slice::from_ref(&ones), all) {
                // On the CPU the sum is exact, and rounded once.
                let limit = if context.is_gpu() { 3e-7 } else { 0.0 };
                close(&name, y[0], f64::from(expected as f32), limit);
            }
        }
        let last_largest: Vec<f64> = (0..n).map(|i| if i == n - 2 { 2.0 } else { 1.0 }).collect();
        for (name, y) in results(context, &format!("reduce:max x={n}:f32 y=1:f32"), &[last_largest], all) {
            assert_eq!(y, [2.0], "{name}");
        }
    });
}

/// One number that takes all others' digits, if these are added to it one by one.
fn large_first(n: usize) -> Vec<f64> {
    (0..n).map(|i| if i == 0 { LARGE } else { 1.0 }).collect()
}

/// 2²⁴: in f32, 1 added to it changes nothing.
const LARGE: f64 = 16_777_216.0;

/// What a block of a sum may lose of [`large_first`]: all ones of it.
const BLOCK: f64 = 4096.0;

#[test]
fn ones_behind_a_large_number() {
    for_each_device(4_000_000, 320_000, |context, n| {
        let (x, y) = (large_first(n), [LARGE + n as f64 - 1.0]);
        let check = |text: &str, inputs: &[Vec<f64>], factor: f64| {
            for (name, got) in results(context, text, inputs, all) {
                let expected = y[0] * factor;
                let off = (got[0] - expected).abs();
                assert!(off <= (BLOCK + 4.0) * factor, "{name}: expected {expected}, given {}", got[0]);
            }
        };
        for pass in ["add", "norm1"] {
            check(&format!("reduce:{pass} x={n}:f32 y=1:f32"), std::slice::from_ref(&x), 1.0);
        }
        check(&format!("reduce:avg x={n}:f32 y=1:f32"), std::slice::from_ref(&x), 1.0 / n as f64);
        check(&format!("bias:backward dy=1x1x{n}:f32 dbias=1:f32"), std::slice::from_ref(&x), 1.0);
    });
    for_each_device(1_000_000, 20_000, |context, n| {
        let (x, ones, sum) = (large_first(n), vec![1.0; n], LARGE + n as f64 - 1.0);
        let products = [
            format!("matmul:forward a=1x{n}:f32 b={n}x1:f32"),
            format!("conv:fprop x=1x{n}x1x1:f32 w=1x{n}x1x1:f32"),
            format!("conv:wgrad x=1x1x1x{n}:f32 dy=1x1x1x{n}:f32 dw=1x1x1x1:f32"),
        ];
        for text in products {
            for (name, y) in results(context, &text, &[x.clone(), ones.clone()], general) {
                assert!((y[0] - sum).abs() <= BLOCK + 4.0, "{name}: expected {sum}, given {}", y[0]);
            }
        }
        let zeros = vec![0.0; n];
        let text = format!("gather:backward axis=0 indices={n}:i32 dy={n}x1:f32 dx=1x1:f32");
        for (name, dx) in results(context, &text, &[zeros, x.clone()], all) {
            assert!((dx[0] - sum).abs() <= BLOCK + 4.0, "{name}: expected {sum}, given {}", dx[0]);
        }
    });
}

#[test]
fn softmax_of_many_small_powers() {
    for_each_device(20_000_000, 5000, |context, n| {
        // Powers relative to the first: 1, and 2⁻²⁴ of each other.
        let x: Vec<f64> = (0..n).map(|i| if i == 0 { f64::from((LARGE as f32).ln()) } else { 0.0 }).collect();
        let expected = -((n - 1) as f64 / LARGE).ln_1p();
        let text = format!("softmax:forward kind=log mode=instance x=1x{n}:f32");
        for (name, y) in results(context, &text, &[x], all) {
            assert!((y[0] - expected).abs() <= BLOCK / LARGE + 1e-6, "{name}: expected {expected}, given {}", y[0]);
        }
    });
}

#[test]
fn pools_of_millions() {
    for_each_device(2500, 64, |context, extent| {
        let ones = vec![1.0; extent * extent];
        for (mode, expected) in
            [("average_include_padding", 1.0), ("average_exclude_padding", 1.0), ("lp", extent as f64)]
        {
            let text = format!("pool:forward mode={mode} x=1x1x{extent}x{extent}:f32 window={extent}x{extent}");
            let mut one_thread = true;
            for (name, y) in results(context, &text, std::slice::from_ref(&ones), all) {
                close(&name, y[0], expected, 3e-7);
                one_thread &= name.contains("naive");
            }
            assert!(!one_thread || !context.is_gpu(), "{text}: no algorithm shares the window out");
        }
    });
}

#[test]
fn what_overflows_or_vanishes_on_the_way() {
    let root = 2f64.sqrt();
    for (dtype, sizes, ulps) in
        [("f32", vec![1e30, 1e-30, 1e-40, 1.0], 2e-7), ("f64", vec![1e200, 1e-200, 1e300, 1e-310, 1e-160, 1.0], 4e-16)]
    {
        for size in sizes {
            // As the type stores it, subnormals too.
            let size = if dtype == "f32" { f64::from(size as f32) } else { size };
            let slack = if size < 1e-300 {
                1e-12
            } else if dtype == "f32" && size < 1e-38 {
                1e-4
            } else {
                ulps
            };
            for (name, y) in reduce("norm2", dtype, &[size, size]) {
                close(&name, y, size * root, slack);
            }
        }
    }
    for (dtype, large, slack) in [("f32", f64::from(3e38f32), 2e-7), ("f64", 1.5e308, 4e-16)] {
        for (pass, expected) in [("avg", large), ("log_sum", 8f64.ln() + large.ln()), ("add", f64::INFINITY)] {
            for (name, y) in reduce(pass, dtype, &[large; 8]) {
                if expected.is_finite() {
                    close(&name, y, expected, slack);
                } else {
                    assert_eq!(y, expected, "{name}");
                }
            }
        }
        for (name, y) in reduce("add", dtype, &[large, large, -large, -large, large]) {
            close(&name, y, large, slack);
        }
    }
    let each = |pass: &str, x: &[f64], check: &dyn Fn(f64) -> bool| {
        for (name, y) in reduce(pass, "f64", x).into_iter().chain(reduce(pass, "f32", x)) {
            assert!(check(y), "{name}: given {y}");
        }
    };
    for pass in ["norm2", "avg", "add", "log_sum"] {
        each(pass, &[1.0, f64::INFINITY], &|y| y == f64::INFINITY);
        each(pass, &[1.0, f64::NAN, f64::INFINITY], &|y| y.is_nan());
    }
    each("norm2", &[0.0, 0.0], &|y| y == 0.0);
}

/// Rows, columns and runs, whole and in parts, some results ordinary and others beyond the range on the way.
#[test]
fn results_of_all_sizes_beside_one_another() {
    const SIZES: [f64; 4] = [1.0, 1e30, 1e-30, 0.0];
    for_each_device(50_000, 2100, |context, long| {
        // GPUs add blocks of squares in f32.
        let limit = if context.is_gpu() { 1e-5 } else { 1e-6 };
        for (n, layout) in
            [(6, "rows"), (long, "rows"), (6, "columns"), (long, "columns"), (90, "runs"), (6 * long, "runs")]
        {
            let size = |result: usize, i: usize| SIZES[result % 4] * (1.0 + (i % 3) as f64);
            let (dims, x): (_, Vec<f64>) = match layout {
                "rows" => (format!("x=8x{n}:f32 y=8x1:f32"), (0..8 * n).map(|i| size(i / n, i % n)).collect()),
                // Six of every eight elements.
                "runs" => (
                    format!("x=8x{}x6:f32:s{}x8x1 y=8x1x1:f32", n / 6, n / 6 * 8),
                    (0..8 * n).map(|i| size(i / n, i % n)).collect(),
                ),
                _ => (format!("x={n}x8:f32 y=1x8:f32"), (0..8 * n).map(|i| size(i % 8, i / 8)).collect()),
            };
            for (name, y) in results(context, &format!("reduce:norm2 {dims}"), &[x], all) {
                for (result, &y) in y.iter().enumerate() {
                    let squares: f64 = (0..n).map(|i| f64::from(size(result, i) as f32).powi(2)).sum();
                    close(&name, y, squares.sqrt(), limit);
                }
            }
        }
        // A part that overflows, one that vanishes, and ordinary ones.
        let x: Vec<f64> = (0..64 * long).map(|i| SIZES[i * 4 / (64 * long)]).collect();
        for (name, y) in
            results(context, &format!("reduce:norm2 x={}:f32 y=1:f32", x.len()), std::slice::from_ref(&x), all)
        {
            close(&name, y[0], 1e30 * (16.0 * long as f64).sqrt(), limit);
        }
    });
}

/// Squares beyond the largest number, among ordinary elements, in images whose channels or positions lie together.
#[test]
fn local_responses_to_large_numbers() {
    const CHANNELS: usize = 16;
    for (dtype, large, slack) in [("f32", 1e30, 1e-5), ("f64", 1e200, 1e-12)] {
        // Channels 0 to 7 are large.
        let size = |c: usize| (if c < 8 { large } else { 1.0 }) * (1.0 + (c % 3) as f64);
        let scale = |c: usize| {
            let window = c.saturating_sub(2)..(c + 3).min(CHANNELS);
            window.map(|c| (size(c) / large).powi(2)).sum::<f64>() * 0.5 / 5.0
        };
        for layout in [":nhwc", ""] {
            let x: Vec<f64> = (0..16 * CHANNELS).map(|i| size(i / 16)).collect();
            let text = format!("lrn:forward n=5 alpha=0.5 beta=0.75 k=2 x=1x{CHANNELS}x4x4:{dtype}{layout}");
            for (name, y) in
                contexts().iter().flat_map(|context| results(context, &text, std::slice::from_ref(&x), all))
            {
                // Those whose windows are all large.
                for (i, &y) in y.iter().enumerate().filter(|(i, _)| i / 16 < 6) {
                    let c = i / 16;
                    let expected = size(c) * large.powf(-0.75) * scale(c).powf(-0.75) * large.powf(-0.75);
                    close(&name, y, expected, slack);
                }
            }
        }
    }
    // The gradient, of windows of one.
    let text = "lrn:backward n=1 alpha=0.5 beta=0.25 k=2 x=1x3x1x1:f32 dy=1x3x1x1:f32";
    for (name, dx) in results(&Context::cpu(), text, &[vec![1e30, 1.0, 1e30], vec![1.0; 3]], all) {
        // s = x² / 2, so dx = s^-1/4 − x² / 4 · s^-5/4 = s^-1/4 / 2.
        close(&name, dx[0], 0.5 * 0.5f64.powf(-0.25) * 1e-15, 1e-5);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..oxidnn_tests::config() })]

    /// On the CPU, multiples of 2⁻¹⁰, whose sums are exact in i128; any length, one result or columns.
    #[test]
    fn sums_are_rounded_once(n in 1usize..300_000, columns in 1usize..4, seed in any::<u32>()) {
        let number = |i: usize| i64::from((i as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) >> 10);
        let x: Vec<f64> = (0..n * columns).map(|i| number(i) as f64 / 1024.0).collect();
        let text = format!("reduce:add x={n}x{columns}:f32 y=1x{columns}:f32");
        let (_, y) = results(&Context::cpu(), &text, &[x], all).swap_remove(0);
        for (column, &y) in y.iter().enumerate() {
            let exact: i128 = (0..n).map(|i| i128::from(number(i * columns + column))).sum();
            prop_assert_eq!(y, f64::from((exact as f64 / 1024.0) as f32));
        }
    }
}
