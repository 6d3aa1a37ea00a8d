//! Two results, element by element.

use crate::device::PinnedBytes;
use anyhow::{Result, bail};
use oxidnn::driver::{DeviceSpan, GpuStream};
use oxidnn::half::{bf16, f16};
use oxidnn::{DType, f8e4m3, f8e5m2};
use rayon::prelude::*;

/// Bytes that are compared at a time.
const CHUNK_BYTES: usize = 32 << 20;

/// Compares results on the device, through pinned memory of the host.
#[derive(Debug)]
pub struct Differ {
    a: PinnedBytes,
    b: PinnedBytes,
}

/// How far two results are from each other.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Difference {
    error_squares: f64,
    squares: f64,
    /// The largest difference of one element, by its size plus the root mean square given; infinite for a NaN that is in
    /// one result only.
    pub most: f64,
}

impl Difference {
    /// The relative difference in the Euclidean norm.
    pub fn l2(&self) -> f64 {
        (self.error_squares / self.squares).sqrt()
    }

    /// That of two parts together.
    pub fn and(self, other: Self) -> Self {
        Difference {
            error_squares: self.error_squares + other.error_squares,
            squares: self.squares + other.squares,
            most: self.most.max(other.most),
        }
    }
}

impl Differ {
    /// Allocates; a context is current.
    ///
    /// # Errors
    /// From the driver.
    pub fn new() -> Result<Self> {
        Ok(Differ { a: PinnedBytes::new(CHUNK_BYTES)?, b: PinnedBytes::new(CHUNK_BYTES)? })
    }

    /// Compares `got` with `expected`, whose elements have about this root mean square.
    ///
    /// # Errors
    /// For spans of unequal length; from the driver.
    pub fn difference(
        &mut self,
        expected: DeviceSpan<'_>,
        got: DeviceSpan<'_>,
        dtype: DType,
        rms: f64,
        stream: &GpuStream,
    ) -> Result<Difference> {
        if expected.len_bytes() != got.len_bytes() {
            bail!("expected results of one size, given {} and {} bytes", expected.len_bytes(), got.len_bytes());
        }
        let mut sum = Difference::default();
        let mut at = 0;
        while at < expected.len_bytes() {
            let len = ((expected.len_bytes() - at) as usize).min(CHUNK_BYTES);
            let (a, b) = (&mut self.a.as_mut_slice()[..len], &mut self.b.as_mut_slice()[..len]);
            expected.part(at, at + len as u64).read(stream, a)?;
            got.part(at, at + len as u64).read(stream, b)?;
            sum = sum.and(of_bytes(a, b, dtype, rms));
            at += len as u64;
        }
        Ok(sum)
    }
}

/// Bytes that one task compares.
const TASK_BYTES: usize = 1 << 16;

fn of_bytes(expected: &[u8], got: &[u8], dtype: DType, rms: f64) -> Difference {
    let tasks = expected.par_chunks(TASK_BYTES).zip(got.par_chunks(TASK_BYTES));
    let compare = |(a, b): (&[u8], &[u8])| match dtype {
        DType::F32 => pairs::<4>(a, b, rms, |bytes| f64::from(f32::from_ne_bytes(bytes))),
        DType::F64 => pairs::<8>(a, b, rms, f64::from_ne_bytes),
        DType::F16 => pairs::<2>(a, b, rms, |bytes| f16::from_ne_bytes(bytes).to_f64()),
        DType::BF16 => pairs::<2>(a, b, rms, |bytes| f64::from(bf16::from_ne_bytes(bytes).to_f32())),
        DType::I8 => pairs::<1>(a, b, rms, |[byte]| f64::from(byte as i8)),
        DType::I32 => pairs::<4>(a, b, rms, |bytes| f64::from(i32::from_ne_bytes(bytes))),
        DType::U8 => pairs::<1>(a, b, rms, |[byte]| f64::from(byte)),
        DType::I64 => pairs::<8>(a, b, rms, |bytes| i64::from_ne_bytes(bytes) as f64),
        DType::Bool => pairs::<1>(a, b, rms, |[byte]| f64::from(u8::from(byte != 0))),
        DType::F8E4M3 => pairs::<1>(a, b, rms, |[byte]| f8e4m3::from_bits(byte).to_f64()),
        DType::F8E5M2 => pairs::<1>(a, b, rms, |[byte]| f8e5m2::from_bits(byte).to_f64()),
    };
    tasks.map(compare).reduce(Difference::default, Difference::and)
}

fn pairs<const ITEM: usize>(a: &[u8], b: &[u8], rms: f64, number: impl Fn([u8; ITEM]) -> f64) -> Difference {
    let mut sum = Difference::default();
    for (a, b) in a.as_chunks::<ITEM>().0.iter().zip(b.as_chunks::<ITEM>().0) {
        let (expected, got) = (number(*a), number(*b));
        if expected.is_nan() && got.is_nan() {
            // Where a function has no value, as the root of a negative number, both say so.
            continue;
        }
        let error = (got - expected).abs();
        sum.error_squares += error * error;
        sum.squares += expected * expected;
        let relative = error / (expected.abs() + rms);
        // `f64::max` would drop a NaN.
        sum.most = if relative.is_nan() { f64::INFINITY } else { sum.most.max(relative) };
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_found() {
        let bytes = |values: &[f32]| -> Vec<u8> { values.iter().flat_map(|value| value.to_ne_bytes()).collect() };
        let difference = |a: &[f32], b: &[f32]| of_bytes(&bytes(a), &bytes(b), DType::F32, 1.0);
        assert_eq!(difference(&[1.0, -2.0], &[1.0, -2.0]).l2(), 0.0);
        let off = difference(&[3.0, 4.0], &[3.0, 4.5]);
        assert!((off.l2() - 0.1).abs() < 1e-12 && off.most == 0.1);
        assert_eq!(difference(&[1.0], &[f32::NAN]).most, f64::INFINITY);
        assert_eq!(difference(&[f32::NAN], &[1.0]).most, f64::INFINITY);
        let both = difference(&[f32::NAN, 3.0], &[f32::NAN, 3.0]);
        assert_eq!((both.most, both.l2()), (0.0, 0.0));
        let halves: Vec<u8> = [1.0f32, 2.0].iter().flat_map(|&value| f16::from_f32(value).to_ne_bytes()).collect();
        assert_eq!(of_bytes(&halves, &halves, DType::F16, 1.0).squares, 5.0);
    }
}
