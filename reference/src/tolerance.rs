//! How far a right result may be from the reference.

use kernel_abi::{DType, Domain, Operand, Precision, Role};

/// Terms that may be added one after the other.
const BLOCK: f64 = 4096.0;

/// The largest error allowed, relative to `|expected| + scale`, with the element's scale from [`scales`].
///
/// Storage rounds once, by half its epsilon; blending with beta rounds again. The accumulator's error grows like the
/// square root of the length of the sum for rounding errors of random sign, up to the length of a block; blocks are
/// added in pairs, or in a wider type, so that beyond it each doubling adds one rounding. Products of 8-bit
/// floating-point numbers are summed by one accumulator from end to end. The constant covers the spread of the terms. Rounded operands change each term by as much, all in one direction where they are cut off. `slack` is an
/// algorithm's own factor, 1 unless its method loses digits (as Winograd's does).
pub fn relative(storage: DType, precision: Precision, accumulation_length: f64, slack: f64) -> f64 {
    let length = accumulation_length.max(1.0);
    // Less exact accumulators than f32 are those of tensor cores, which know no blocks.
    let roundings = if precision.sum > DType::F32.epsilon() {
        length.sqrt()
    } else {
        length.min(BLOCK).sqrt() + (length / BLOCK).max(1.0).log2()
    };
    2.0 * storage.epsilon() + 4.0 * precision.operand + 8.0 * precision.sum * roundings * slack
}

/// The error allowed beside that against the rounded reference: where integers are stored, the nearest may be missed by
/// one.
pub fn absolute(storage: DType) -> f64 {
    if storage.is_integer() { 1.0 } else { 0.0 }
}

/// Whether `got` is the infinity that a number of `expected`'s size, or a little more, is rounded to.
fn is_overflow(storage: DType, expected: f64, got: f64) -> bool {
    // The middle between the largest number and what would follow it.
    let end = match storage {
        DType::F16 => 65520.0,
        DType::BF16 => 2f64.powi(128) * (1.0 - 2f64.powi(-9)),
        DType::F32 => 2f64.powi(128) * (1.0 - 2f64.powi(-25)),
        _ => return false,
    };
    got.is_infinite() && got.signum() == expected.signum() && expected.abs() >= end * (1.0 - storage.epsilon())
}

/// What is expected of a storage type that saturates or overflows, and of integers 0 for what is no number; of these also what was
/// `got`, where that is near enough.
pub fn as_stored(storage: DType, expected: f64, got: f64) -> f64 {
    let integer = |low: f64, high: f64| {
        let rounded = if expected.is_nan() { 0.0 } else { expected.round_ties_even().clamp(low, high) };
        if (got - rounded).abs() <= absolute(storage) { got } else { rounded }
    };
    match storage {
        DType::I8 => integer(-128.0, 127.0),
        DType::I32 => integer(f64::from(i32::MIN), f64::from(i32::MAX)),
        DType::U8 => integer(0.0, 255.0),
        DType::I64 => integer(i64::MIN as f64, i64::MAX as f64),
        DType::Bool => f64::from(u8::from(expected != 0.0)),
        DType::F8E4M3 => expected.clamp(-448.0, 448.0),
        DType::F8E5M2 => expected.clamp(-57344.0, 57344.0),
        // Where the exact value rounds to an infinity, that is right.
        DType::F32 | DType::F16 | DType::BF16 if is_overflow(storage, expected, got) => got,
        DType::F32 | DType::F64 | DType::F16 | DType::BF16 => expected,
    }
}

/// For each element of each operand that is written, the size of the numbers that it is made of: what is usual in the
/// tensor, or more where its own are larger, as those of a channel whose factor is.
///
/// Rounding errors are relative to the terms of a sum and not to the sum, which may cancel: so the operator is judged
/// on the operands' magnitudes too: `judge` is [`Judge::judge_magnitudes`](crate::Judge::judge_magnitudes) with these scalars.
pub fn scales(
    operands: &[Operand],
    values: &[Vec<f64>],
    (alpha, beta): (f64, f64),
    judge: impl FnOnce(&[Vec<f64>]) -> Vec<Vec<f64>>,
) -> Vec<Vec<f64>> {
    let magnitudes: Vec<Vec<f64>> = values.iter().map(|values| values.iter().map(|v| v.abs()).collect()).collect();
    // Indices and lengths are not what results are made of.
    let summed = operands.iter().zip(values).filter(|(operand, _)| !matches!(operand.domain, Domain::Integers { .. }));
    let largest = summed.map(|(_, values)| root_mean_square(values)).fold(0.0, f64::max);
    let written = operands.iter().zip(values).filter(|(operand, _)| operand.role != Role::Input);
    written
        .zip(judge(&magnitudes))
        .map(|((operand, prior), result)| {
            let usual = root_mean_square(&result);
            let usual_prior = root_mean_square(prior);
            let of_element = |(result, prior): (f64, f64)| {
                // What is no number has no size.
                let result = if result.is_finite() { result.abs().max(usual) } else { usual } + largest;
                let prior = if prior.is_finite() { prior.abs().max(usual_prior) } else { usual_prior };
                match operand.role {
                    Role::Output => alpha.abs() * result + beta.abs() * prior,
                    Role::Input | Role::Update | Role::Result => result,
                }
            };
            result.into_iter().zip(prior.iter().copied()).map(of_element).collect()
        })
        .collect()
}

/// The largest error of `got`, relative to `|expected| + scale`.
///
/// Not a number where expected and got disagree about being one, or infinite.
pub fn error(expected: &[f64], got: &[f64], scales: &[f64]) -> f64 {
    expected.iter().zip(got).zip(scales).fold(0.0, |worst: f64, ((&expected, &got), scale)| {
        if expected == got || (expected.is_nan() && got.is_nan()) {
            return worst;
        }
        let error = (got - expected).abs() / (expected.abs() + scale);
        if error.is_nan() || error > worst { error } else { worst }
    })
}

/// Of the elements that are numbers.
fn root_mean_square(values: &[f64]) -> f64 {
    let squares = values.iter().map(|v| v * v).filter(|square| square.is_finite());
    (squares.sum::<f64>() / values.len().max(1) as f64).sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_that_lose_what_one_accumulator_loses_are_wrong() {
        let f32 = Precision { operand: 0.0, sum: DType::F32.epsilon() };
        for n in [8_388_608u32, 20_000_001] {
            let limit = relative(DType::F32, f32, f64::from(n), 1.0);
            // Against expected and a scale as large, as of positive terms.
            let plain =
                |term: f32| f64::from((0..n).fold(0.0f32, |sum, _| sum + term)) / f64::from(n) / f64::from(term);
            assert!((1.0 - plain(0.1)).abs() / 2.0 > 10.0 * limit, "{n} terms, limit {limit:e}");
        }
        // 20,000,001 ones, seen as 16,777,216.
        assert!(0.16 / 2.0 > 100.0 * relative(DType::F32, f32, 2e7, 1.0));
        assert!(relative(DType::F32, f32, 4e6, 1.0) < 1e-4);
    }

    #[test]
    fn infinities_of_a_small_type_are_expected_where_values_round_to_them() {
        const INF: f64 = f64::INFINITY;
        assert_eq!(as_stored(DType::F16, 4e5, INF), INF);
        assert_eq!(as_stored(DType::F16, -4e5, -INF), -INF);
        assert_eq!(as_stored(DType::F16, -4e5, INF), -4e5);
        assert_eq!(as_stored(DType::F16, 6e4, INF), 6e4);
        assert_eq!(as_stored(DType::F16, 4e5, 65504.0), 4e5);
        assert_eq!(as_stored(DType::F32, 1e39, INF), INF);
        assert_eq!(as_stored(DType::F64, 1e39, INF), 1e39);
    }
}
