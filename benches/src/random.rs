//! Random normal numbers, many of them fast.

use oxidnn::half::{bf16, f16};
use oxidnn::{DType, f8e4m3, f8e5m2};
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

/// A pool of standard normal numbers in storage form, from which buffers are filled by pieces.
///
/// Drawing every number of a gigabyte anew would take longer than the benchmark; pieces from random places of a pool
/// that is larger than any row look the same to a GPU.
#[derive(Debug)]
pub struct Pool {
    bytes: Vec<u8>,
    item: usize,
    rng: Xoshiro256PlusPlus,
}

/// Numbers in the pool.
const POOL_ELEMS: usize = 1 << 22;

/// Numbers of a piece, on average.
const PIECE_ELEMS: usize = 1 << 14;

impl Pool {
    /// Draws the numbers.
    pub fn new(dtype: DType, seed: u64) -> Self {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        let mut bytes = Vec::with_capacity(POOL_ELEMS * dtype.size_bytes());
        for _ in 0..POOL_ELEMS {
            let value: f64 = rng.sample(StandardNormal);
            match dtype {
                DType::F32 => bytes.extend((value as f32).to_ne_bytes()),
                DType::F64 => bytes.extend(value.to_ne_bytes()),
                DType::F16 => bytes.extend(f16::from_f64(value).to_ne_bytes()),
                DType::BF16 => bytes.extend(bf16::from_f64(value).to_ne_bytes()),
                // Three bits of a normal number, so that all values are used.
                DType::I8 => bytes.push((value * 4.0).round() as i8 as u8),
                DType::I32 => bytes.extend(((value * 4.0).round() as i32).to_ne_bytes()),
                DType::U8 => bytes.push((value * 4.0).abs().round() as u8),
                DType::I64 => bytes.extend(((value * 4.0).round() as i64).to_ne_bytes()),
                DType::Bool => bytes.push(u8::from(value > 0.0)),
                DType::F8E4M3 => bytes.push(f8e4m3::from_f64(value).to_bits()),
                DType::F8E5M2 => bytes.push(f8e5m2::from_f64(value).to_bits()),
            }
        }
        Pool { bytes, item: dtype.size_bytes(), rng }
    }

    /// Bytes of `n` numbers.
    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(n * self.item);
        while out.len() < n * self.item {
            let elems = self.rng.random_range(1..2 * PIECE_ELEMS).min(n - out.len() / self.item);
            let start = self.rng.random_range(0..POOL_ELEMS - 2 * PIECE_ELEMS);
            out.extend(&self.bytes[start * self.item..(start + elems) * self.item]);
        }
        out
    }
}

/// Number `at` of a buffer.
pub fn number(bytes: &[u8], dtype: DType, at: usize) -> f64 {
    let item = dtype.size_bytes();
    oxidnn_compare::random::number(&bytes[at * item..][..item], dtype)
}
