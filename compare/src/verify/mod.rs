//! Checking results: samples against sums in f64, all of a result against the naive kernel's.

mod sample;
mod whole;

pub use sample::{Samples, relative_l2};
pub use whole::{Differ, Difference};

use oxidnn::DType;

/// The largest relative error, in the Euclidean norm, of a result that is right: rounding to the storage type gives
/// about a quarter of its epsilon, sums in f32 grow with the root of their length.
pub fn limit_l2(dtype: DType, accumulation_length: f64) -> f64 {
    dtype.epsilon() + 4.0 * accumulation_length.sqrt() * f64::from(f32::EPSILON)
}

/// The largest error of one element, by its size plus the root mean square, between two right results.
pub fn limit_element(dtype: DType, accumulation_length: f64) -> f64 {
    4.0 * dtype.epsilon() + 16.0 * accumulation_length.sqrt() * f64::from(f32::EPSILON)
}
