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
