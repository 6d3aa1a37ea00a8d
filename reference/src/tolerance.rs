//! How far a right result may be from the reference.

use kernel_abi::DType;

/// The largest error allowed, relative to `|expected| + scale`, where scale is the root mean square of the output.
///
/// Storage rounds once, by half its epsilon; blending with beta rounds again. The accumulator's error grows like the
/// square root of the length of the sum for rounding errors of random sign; the constant covers the spread of the
/// terms. `slack` is an algorithm's own factor, 1 unless its method loses digits (as Winograd's does).
pub fn relative(storage: DType, accumulation_length: f64, slack: f64) -> f64 {
    let accumulator = storage.accumulator().epsilon();
    2.0 * storage.epsilon() + 8.0 * accumulator * accumulation_length.max(1.0).sqrt() * slack
}

/// The largest error of `got`, relative to `|expected|` plus the root mean square of `expected`.
///
/// Not a number where expected and got disagree about being one, or infinite.
pub fn error(expected: &[f64], got: &[f64]) -> f64 {
    let scale = (expected.iter().map(|v| v * v).sum::<f64>() / expected.len() as f64).sqrt();
    expected.iter().zip(got).fold(0.0, |worst: f64, (&expected, &got)| {
        if expected == got || (expected.is_nan() && got.is_nan()) {
            return worst;
        }
        let error = (got - expected).abs() / (expected.abs() + scale);
        if error.is_nan() || error > worst { error } else { worst }
    })
}
