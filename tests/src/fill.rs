//! Values for operands.

use kernel_abi::DType;
use oxidnn::half::{bf16, f16};
use oxidnn::{Element, f8e4m3, f8e5m2};
use rand::{RngExt as _, SeedableRng as _};
use rand_distr::StandardNormal;
use rand_xoshiro::Xoshiro256PlusPlus;

/// What operands are filled with. Values are always such that the element type stores them exactly, so that the
/// reference sees what the device sees.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fill {
    /// Standard normal.
    Normal,
    /// Integers from `-max` to `max`: sums of their products are exact while they stay in the type's exact range, so
    /// an indexing bug cannot hide in a tolerance.
    Integers {
        /// The largest magnitude.
        max: i64,
    },
    /// Uniform between two numbers.
    Uniform {
        /// Lower end.
        low: f64,
        /// Upper end.
        high: f64,
    },
}

impl Fill {
    /// `n` values, the same for the same seed.
    pub fn values(self, n: usize, dtype: DType, seed: u64) -> Vec<f64> {
        let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
        (0..n)
            .map(|_| {
                let value = match self {
                    Fill::Normal => rng.sample(StandardNormal),
                    Fill::Integers { max } => rng.random_range(-max..=max) as f64,
                    Fill::Uniform { low, high } => rng.random_range(low..high),
                };
                // Of masks, one half.
                if dtype == DType::Bool { f64::from(u8::from(value > 0.0)) } else { round(value, dtype) }
            })
            .collect()
    }
}

/// What the element type stores for `value`; of what is no number, integers store 0.
pub fn round(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::I8 | DType::I32 | DType::U8 | DType::I64 if value.is_nan() => 0.0,
        DType::F64 => value,
        DType::F32 => f64::from(value as f32),
        DType::F16 => Element::to_f64(<f16 as Element>::from_f64(value)),
        DType::BF16 => Element::to_f64(<bf16 as Element>::from_f64(value)),
        // Zero has no sign in integers.
        DType::I8 => value.round_ties_even().clamp(-128.0, 127.0) + 0.0,
        DType::I32 => value.round_ties_even().clamp(f64::from(i32::MIN), f64::from(i32::MAX)) + 0.0,
        DType::U8 => value.round_ties_even().clamp(0.0, 255.0) + 0.0,
        DType::I64 => value.round_ties_even().clamp(i64::MIN as f64, i64::MAX as f64) + 0.0,
        DType::Bool => f64::from(u8::from(value != 0.0)),
        DType::F8E4M3 => Element::to_f64(<f8e4m3 as Element>::from_f64(value)),
        DType::F8E5M2 => Element::to_f64(<f8e5m2 as Element>::from_f64(value)),
    }
}
