//! Statistics from channel sums, where the mean is large beside the deviations.

use kernel_abi::DType;
use kernel_abi::ops::conv::ConvProblem;
use kernel_abi::ops::norm::NormProblem;
use oxidnn::{Args, Context, Error, Policy, Tensor};
use oxidnn_tests::{Fill, contexts};
use proptest::prelude::*;

/// Channels: those of y are those of x, by a filter that is the identity.
const CHANNELS: usize = 8;

/// An algorithm, and its y, inv_std and eq_bias.
type Named = (String, [Vec<f64>; 3]);

/// y, inv_std and eq_bias of a convolution whose epilogue gives channel sums in f64, and of finalize behind it, for
/// every able algorithm of the convolution.
fn statistics(context: &Context, dtype: DType, height: usize, x: &[f64]) -> Result<Vec<Named>, Error> {
    let text = format!(
        "conv:fprop x=2x{CHANNELS}x{height}x7:{dtype}:nhwc w={CHANNELS}x{CHANNELS}x1x1:{dtype}:nhwc \
         sum={CHANNELS}:f64 sum_squares={CHANNELS}:f64"
    );
    let conv: ConvProblem = text.parse()?;
    let count = conv.y().n_elems() as usize / CHANNELS;
    let text = format!("norm:finalize mode=batch eps=0 count={count} sum={CHANNELS}:f64 scale={CHANNELS}:f32");
    let finalize: NormProblem = text.parse()?;
    let stream = context.stream()?;
    let identity: Vec<f64> =
        (0..CHANNELS * CHANNELS).map(|i| f64::from(u8::from(i / CHANNELS == i % CHANNELS))).collect();
    let x = context.tensor_from(conv.x(), x)?;
    let w = context.tensor_from(conv.w(), &identity)?;
    let mut results = Vec::new();
    for candidate in context.plan(&conv, Policy::Heuristic)?.candidates() {
        let oxidnn::Verdict::Able { .. } = candidate.verdict else { continue };
        let name = if context.is_gpu() { candidate.config } else { candidate.algorithm };
        let plan = context.plan(&conv, Policy::fixed(name))?;
        let mut written: Vec<Tensor> =
            plan.operands()[2..].iter().map(|operand| context.tensor(&operand.desc)).collect::<Result<_, _>>()?;
        let [y, sum, squares] = &mut written[..] else { panic!("expected three results of {name}") };
        let args = Args::new().input("x", &x).input("w", &w);
        let args = args.output("y", &mut *y).output("sum", &mut *sum).output("sum_squares", &mut *squares);
        plan.run(&stream, args, &mut plan.workspace()?)?;

        let plan = context.plan(&finalize, Policy::Heuristic)?;
        let scale = context.tensor_from(&plan.operands()[2].desc, &[1.0f32; CHANNELS])?;
        let mut made: Vec<Tensor> =
            plan.operands()[3..].iter().map(|operand| context.tensor(&operand.desc)).collect::<Result<_, _>>()?;
        let [mean, inv_std, eq_scale, eq_bias] = &mut made[..] else { panic!("expected four results of finalize") };
        let args = Args::new().input("sum", &*sum).input("sum_squares", &*squares).input("scale", &scale);
        let args = args.output("mean", mean).output("inv_std", &mut *inv_std);
        plan.run(&stream, args.output("eq_scale", eq_scale).output("eq_bias", &mut *eq_bias), &mut plan.workspace()?)?;
        let values = [&*y, &*inv_std, &*eq_bias].map(|tensor| tensor.to_vec::<f64>(&stream));
        let [y, inv_std, eq_bias] = values;
        results.push((name.to_owned(), [y?, inv_std?, eq_bias?]));
    }
    Ok(results)
}

/// Holds inv_std and eq_bias against two passes over y as it is stored.
fn check(dtype: DType, height: usize, x: &[f64]) {
    for context in contexts() {
        for (name, [y, inv_std, eq_bias]) in statistics(context, dtype, height, x).unwrap() {
            let per_image = CHANNELS * height * 7;
            for channel in 0..CHANNELS {
                let first = channel * height * 7;
                let values: Vec<f64> =
                    (0..2).flat_map(|n| &y[n * per_image + first..][..height * 7]).copied().collect();
                let m = values.len() as f64;
                // Differences of f32 of one sign and like size are exact.
                let pivot = values[0];
                let shift = values.iter().map(|v| v - pivot).sum::<f64>() / m;
                let variance = values.iter().map(|v| (v - pivot - shift).powi(2)).sum::<f64>() / m;
                let mean = pivot + shift;
                let expected = 1.0 / variance.sqrt();
                // What f64 sums lose of the variance, and one rounding.
                let limit = 16.0 * f64::EPSILON * mean * mean / variance + 2f64.powi(-23);
                let error = (inv_std[channel] / expected - 1.0).abs();
                assert!(error <= limit, "{name} {dtype}: inv_std {} for {expected}", inv_std[channel]);
                let bias = -mean * expected;
                assert!((eq_bias[channel] / bias - 1.0).abs() <= limit + 2f64.powi(-22), "{name} {dtype}: eq_bias");
            }
        }
    }
}

/// Numbers around a mean, in f32.
fn around(mean: f64, deviation: f64, height: usize, seed: u64) -> Vec<f64> {
    let noise = Fill::Normal.values(2 * CHANNELS * height * 7, DType::F32, seed);
    noise.into_iter().map(|v| f64::from((mean + deviation * v) as f32)).collect()
}

/// 4096 numbers 1000 + 0.1 · N(0, 1), or as near as the shape comes: the inverse deviation is about 10.
#[test]
fn a_mean_of_ten_thousand_deviations_keeps_the_variance() {
    check(DType::F32, 290, &around(1000.0, 0.1, 290, 3));
    check(DType::F32, 5, &around(-30000.0, 0.5, 5, 4));
}

proptest! {
    #![proptest_config(proptest::test_runner::Config { cases: 6, ..oxidnn_tests::config() })]

    #[test]
    fn large_means_keep_the_variance(
        mean in -1e5f64..1e5, exponent in -3i32..2, height in 2usize..12, wide in any::<bool>(), seed in any::<u64>(),
    ) {
        // 16 bits would round the deviations away, and the variance of equal numbers is 0.
        let (dtype, mean) = if wide { (DType::F32, mean) } else { (DType::F16, mean / 1e3) };
        let deviation = 10f64.powi(exponent) * if wide { 1.0 } else { 10.0 };
        check(dtype, height, &around(mean, deviation.max(mean.abs() * 1e-4), height, seed));
    }
}
