//! Integers as they are stored, from exact ones.

use kernel_abi::{Cast, DType, Overflow, Rounding};

/// What is stored of `alpha · result + beta · prior`; the prior value counts only where beta is not 0.
pub fn stored(dtype: DType, (result, prior): (i128, i128), (alpha, beta): (f64, f64), cast: Cast) -> i128 {
    let whole = |factor: f64| factor.fract() == 0.0 && factor >= -(2f64.powi(63)) && factor < 2f64.powi(63);
    // Arithmetic is modulo 2⁶⁴.
    let result = low_bits(DType::I64, result);
    let prior = if beta == 0.0 { 0 } else { prior };
    if whole(alpha) && whole(beta) {
        let sum = low_bits(DType::I64, alpha as i128 * result + beta as i128 * prior);
        return if cast.overflow == Overflow::Wrap { low_bits(dtype, sum) } else { within(dtype, sum) };
    }
    rounded(dtype, alpha * result as f64 + beta * prior as f64, cast)
}

/// What is stored of a real number, which saturates.
pub fn rounded(dtype: DType, value: f64, cast: Cast) -> i128 {
    if dtype == DType::Bool {
        return i128::from(value != 0.0);
    }
    let value = if cast.rounding == Rounding::Even { value.round_ties_even() } else { value.trunc() };
    within(dtype, value as i128)
}

fn bits(dtype: DType) -> u32 {
    8 * dtype.size_bytes() as u32
}

/// The nearest integer that the type holds.
fn within(dtype: DType, value: i128) -> i128 {
    match dtype {
        DType::Bool => i128::from(value != 0),
        DType::U8 => value.clamp(0, 255),
        _ => value.clamp(-1 << (bits(dtype) - 1), (1 << (bits(dtype) - 1)) - 1),
    }
}

/// The integer of the type that is as much modulo its range.
pub fn low_bits(dtype: DType, value: i128) -> i128 {
    let modulus = 1i128 << bits(dtype);
    let least = if dtype == DType::U8 { 0 } else { -(modulus / 2) };
    match dtype {
        DType::Bool => i128::from(value != 0),
        _ => (value - least).rem_euclid(modulus) + least,
    }
}
