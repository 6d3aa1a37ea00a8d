//! Small floating-point types, from their definitions.

/// A binary floating-point format.
#[derive(Clone, Copy)]
pub struct Format {
    pub mantissa_bits: u32,
    /// Exponent of the smallest normal number.
    pub min_exponent: i32,
    pub largest: f64,
}

pub const F16: Format = Format { mantissa_bits: 10, min_exponent: -14, largest: 65_504.0 };
pub const BF16: Format = Format { mantissa_bits: 7, min_exponent: -126, largest: 3.389_531_389_251_535_5e38 };

/// The nearest number of a format, ties to even; infinite beyond the largest.
pub fn rounded(x: f64, format: Format) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let exponent = (((x.to_bits() >> 52) & 0x7ff) as i32 - 1023).max(format.min_exponent);
    // A power of two: scaling is exact.
    let unit = 2f64.powi(exponent - format.mantissa_bits as i32);
    let value = (x / unit).round_ties_even() * unit;
    if value.abs() > format.largest { f64::INFINITY.copysign(x) } else { value }
}

/// The value of an 8-bit number with `mantissa_bits`; None for NaN, infinities where the format has them.
pub fn fp8(bits: u8, mantissa_bits: u32) -> Option<f64> {
    let exponent_bits = 7 - mantissa_bits;
    let bias = (1 << (exponent_bits - 1)) - 1;
    let exponent = i32::from(bits & 0x7f) >> mantissa_bits;
    let mantissa = f64::from(bits & ((1 << mantissa_bits) - 1)) / f64::from(1 << mantissa_bits);
    // e4m3 gives up only its last code; e5m2 has infinities and NaN like f16.
    if mantissa_bits == 3 && bits & 0x7f == 0x7f || mantissa_bits == 2 && exponent == 31 && mantissa != 0.0 {
        return None;
    }
    let value = if mantissa_bits == 2 && exponent == 31 {
        f64::INFINITY
    } else if exponent == 0 {
        mantissa * 2f64.powi(1 - bias)
    } else {
        (1.0 + mantissa) * 2f64.powi(exponent - bias)
    };
    Some(if bits & 0x80 != 0 { -value } else { value })
}

/// The types of matrix operands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Type {
    Bf16,
    F16,
    Tf32,
    E4m3,
    E5m2,
    S8,
    U8,
}

impl Type {
    pub fn bytes(self) -> usize {
        match self {
            Type::Tf32 => 4,
            Type::Bf16 | Type::F16 => 2,
            _ => 1,
        }
    }

    /// A small integer in this type.
    pub fn encode(self, value: i32) -> Vec<u8> {
        match self {
            Type::Bf16 => oxidnn::half::bf16::from_f32(value as f32).to_bits().to_le_bytes().to_vec(),
            Type::F16 => oxidnn::half::f16::from_f32(value as f32).to_bits().to_le_bytes().to_vec(),
            Type::Tf32 => (value as f32).to_le_bytes().to_vec(),
            Type::E4m3 => vec![find_fp8(value, 3)],
            Type::E5m2 => vec![find_fp8(value, 2)],
            Type::S8 | Type::U8 => vec![value as u8],
        }
    }

    /// A small integer this type has, from a random number.
    pub fn integer(self, random: u32) -> i32 {
        let value = (random >> 8) as i32;
        match self {
            Type::U8 => value % 7 + if value % 5 == 0 { 200 } else { 0 },
            Type::S8 => value % 7 - 3 - if value % 5 == 0 { 100 } else { 0 },
            _ => value % 7 - 3,
        }
    }
}

fn find_fp8(value: i32, mantissa_bits: u32) -> u8 {
    let same = |bits: &u8| fp8(*bits, mantissa_bits) == Some(f64::from(value));
    (0..=255).find(same).unwrap_or_else(|| panic!("{value} has no 8-bit number"))
}

#[test]
fn definitions() {
    assert_eq!((fp8(0x7e, 3), fp8(0x01, 3), fp8(0x7b, 2)), (Some(448.0), Some(2f64.powi(-9)), Some(57_344.0)));
    assert_eq!((fp8(0xff, 3), fp8(0x7c, 2), fp8(0x7d, 2)), (None, Some(f64::INFINITY), None));
    assert_eq!(Type::E4m3.encode(-3), [0xc4]);
    assert_eq!((rounded(65_520.0, F16), rounded(65_519.0, F16)), (f64::INFINITY, 65_504.0));
    assert_eq!(rounded(1.0 + 2f64.powi(-11) + 2f64.powi(-40), F16), 1.0 + 2f64.powi(-10));
}
