//! Checking results: samples against sums in f64, all of a result against the naive kernel's.

mod sample;
mod whole;

pub use sample::{Samples, relative_l2};
pub use whole::{Differ, Difference};

use oxidnn::{DType, Precision};

/// The largest relative error, in the Euclidean norm, of a result that is right: rounding to the storage type gives
/// about a quarter of its epsilon, sums in f32 grow with the root of their length, Winograd's transforms add to them.
pub fn limit_l2(dtype: DType, precision: Precision, accumulation_length: f64) -> f64 {
    dtype.epsilon() + 2.0 * precision.operand + 16.0 * accumulation_length.sqrt() * precision.sum
}

/// The largest error of one element, by its size plus the root mean square, between two right results.
pub fn limit_element(dtype: DType, precision: Precision, accumulation_length: f64) -> f64 {
    4.0 * dtype.epsilon() + 8.0 * precision.operand + 64.0 * accumulation_length.sqrt() * precision.sum
}

/// How far beyond [`limit_l2`] a peer's result may be: it is no less a competitor for being less exact, and its error
/// stands in the table.
pub const PEER_TOLERANCE: f64 = 4.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_tell_formats_apart() {
        let limit = |dtype, length| limit_l2(dtype, Precision::of([dtype]), length);
        // Operands rounded to TF32 give about 3e-4.
        assert!(PEER_TOLERANCE * limit(DType::F32, 576.0) < 2.5e-4);
        // Rounding of the result alone.
        assert!(limit(DType::BF16, 576.0) > 2.0 * 2f64.powi(-9));
        // A single element in a hundred that is missing altogether.
        assert!(limit(DType::BF16, 4608.0) < 0.1);
    }
}
