//! 8-bit floating-point numbers as bits: the conversions that host and device share.
//!
//! | type | sign, exponent, mantissa | bias | largest | smallest normal | infinities | NaN |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | e4m3 | 1, 4, 3 | 7 | 448 | 2⁻⁶ | none | `0x7f`, `0xff` |
//! | e5m2 | 1, 5, 2 | 15 | 57344 | 2⁻¹⁴ | `0x7c`, `0xfc` | above them |
//!
//! Conversions to them round once, to nearest, ties to even, and saturate as the hardware's `cvt.rn.satfinite` does:
//! what lies beyond the largest number, infinities included, becomes the largest number with its sign. NaN becomes
//! `0x7f`. Conversions from them are exact.

/// e4m3 bits of an `f32`.
#[inline]
pub fn e4m3_from_f32(value: f32) -> u8 {
    narrow::<7, 3, 0x7e>(Parts::of_f32(value))
}

/// e4m3 bits of an `f64`, rounded once.
#[inline]
pub fn e4m3_from_f64(value: f64) -> u8 {
    narrow::<7, 3, 0x7e>(Parts::of_f64(value))
}

/// e5m2 bits of an `f32`.
#[inline]
pub fn e5m2_from_f32(value: f32) -> u8 {
    narrow::<15, 2, 0x7b>(Parts::of_f32(value))
}

/// e5m2 bits of an `f64`, rounded once.
#[inline]
pub fn e5m2_from_f64(value: f64) -> u8 {
    narrow::<15, 2, 0x7b>(Parts::of_f64(value))
}

/// The number that e4m3 bits stand for.
#[inline]
pub fn f32_from_e4m3(bits: u8) -> f32 {
    if bits & 0x7f == 0x7f { f32::NAN } else { widen::<7, 3>(bits) }
}

/// The number that e5m2 bits stand for.
#[inline]
pub fn f32_from_e5m2(bits: u8) -> f32 {
    let sign = u32::from(bits & 0x80) << 24;
    match bits & 0x7f {
        0x7c => f32::from_bits(sign | 0x7f80_0000),
        above if above > 0x7c => f32::NAN,
        _ => widen::<15, 2>(bits),
    }
}

/// A number as sign, significand and exponent: `significand · 2^(exponent - 52)`, the significand below 2⁵³.
///
/// Subnormal numbers of `f32` and `f64`, far below anything 8 bits hold, count as 0.
struct Parts {
    sign: u8,
    is_nan: bool,
    exponent: i32,
    significand: u64,
}

impl Parts {
    #[inline(always)]
    fn of_f32(value: f32) -> Self {
        let bits = value.to_bits();
        let exponent = (bits >> 23 & 0xff) as i32;
        let significand = if exponent == 0 { 0 } else { u64::from(bits & 0x7f_ffff | 0x80_0000) << 29 };
        Parts {
            sign: (bits >> 24) as u8 & 0x80,
            is_nan: bits << 1 > 0xff00_0000,
            exponent: exponent - 127,
            significand,
        }
    }

    #[inline(always)]
    fn of_f64(value: f64) -> Self {
        let bits = value.to_bits();
        let exponent = (bits >> 52 & 0x7ff) as i32;
        let significand = if exponent == 0 { 0 } else { bits & ((1 << 52) - 1) | 1 << 52 };
        let is_nan = bits << 1 > 0xffe0_0000_0000_0000;
        Parts { sign: (bits >> 56) as u8 & 0x80, is_nan, exponent: exponent - 1023, significand }
    }
}

/// Bits of the nearest number with the given exponent bias, stored mantissa bits and largest magnitude.
#[inline(always)]
fn narrow<const BIAS: i32, const MANTISSA: u32, const LARGEST: u32>(value: Parts) -> u8 {
    if value.is_nan {
        return 0x7f;
    }
    let least = 1 - BIAS;
    // Numbers below the least exponent share its spacing.
    let (binade, below) = if value.exponent >= least {
        ((value.exponent - least) as u32, 0)
    } else {
        (0, (least - value.exponent) as u32)
    };
    let shift = 52 - MANTISSA + below;
    // From here on even the largest significand is less than half of the smallest number.
    if shift >= 54 {
        return value.sign;
    }
    let half = 1u64 << (shift - 1);
    let rounded = (value.significand + (half - 1) + (value.significand >> shift & 1)) >> shift;
    // The significand's leading bit, and a carry out of it, count the exponent up.
    let magnitude = (binade << MANTISSA) + rounded as u32;
    value.sign | if magnitude > LARGEST { LARGEST } else { magnitude } as u8
}

/// The number that finite bits stand for.
#[inline(always)]
fn widen<const BIAS: u32, const MANTISSA: u32>(bits: u8) -> f32 {
    let sign = u32::from(bits & 0x80) << 24;
    let magnitude = u32::from(bits & 0x7f);
    let exponent = magnitude >> MANTISSA;
    if exponent == 0 {
        // A multiple of the smallest number, 2^(1 - BIAS - MANTISSA).
        let unit = f32::from_bits((127 + 1 - BIAS - MANTISSA) << 23);
        return f32::from_bits(sign | (magnitude as f32 * unit).to_bits());
    }
    f32::from_bits(sign | ((magnitude << (23 - MANTISSA)) + ((127 - BIAS) << 23)))
}

#[cfg(test)]
mod tests {
    use super::*;

    type Type = (fn(u8) -> f32, fn(f32) -> u8, fn(f64) -> u8, u8);
    const TYPES: [Type; 2] =
        [(f32_from_e4m3, e4m3_from_f32, e4m3_from_f64, 0x7e), (f32_from_e5m2, e5m2_from_f32, e5m2_from_f64, 0x7b)];

    #[test]
    fn every_number_survives_and_every_middle_goes_to_the_even_neighbour() {
        for (widen, from_f32, from_f64, largest) in TYPES {
            for bits in (0..=largest).chain(0x80..=largest | 0x80) {
                assert_eq!(from_f32(widen(bits)), bits);
                assert_eq!(from_f64(f64::from(widen(bits))), bits);
            }
            for bits in 0..largest {
                let (low, high) = (f64::from(widen(bits)), f64::from(widen(bits + 1)));
                assert!(low < high, "numbers are in the order of their bits");
                let (middle, even) = ((low + high) / 2.0, bits + (bits & 1));
                for (value, expected) in
                    [(middle, even), (middle * (1.0 + 1e-15), bits + 1), (middle * (1.0 - 1e-15), bits)]
                {
                    assert_eq!(from_f64(value), expected, "{value}");
                    assert_eq!(from_f64(-value), expected | 0x80, "-{value}");
                }
                assert_eq!(from_f32(middle as f32), even);
                assert_eq!(from_f32(f32::from_bits((middle as f32).to_bits() + 1)), bits + 1);
            }
        }
    }

    #[test]
    fn the_ends() {
        assert_eq!([f32_from_e4m3(0x7e), f32_from_e4m3(0x01), f32_from_e4m3(0x38)], [448.0, 1.0 / 512.0, 1.0]);
        assert_eq!([f32_from_e5m2(0x7b), f32_from_e5m2(0x01), f32_from_e5m2(0x3c)], [57344.0, 1.0 / 65536.0, 1.0]);
        assert_eq!([f32_from_e5m2(0x7c), f32_from_e5m2(0xfc)], [f32::INFINITY, f32::NEG_INFINITY]);
        for (widen, from_f32, from_f64, largest) in TYPES {
            for value in [f32::INFINITY, f32::MAX, 2.0 * widen(largest), 1.001 * widen(largest)] {
                assert_eq!([from_f32(value), from_f32(-value)], [largest, largest | 0x80], "{value}");
                assert_eq!(from_f64(f64::from(value)), largest);
            }
            assert_eq!([from_f32(f32::NAN), from_f64(f64::NAN), from_f32(-f32::NAN)], [0x7f; 3]);
            assert!(widen(0x7f).is_nan() && widen(0xff).is_nan());
            for value in [f64::MIN_POSITIVE, 5e-324, 1e-30, 0.0] {
                assert_eq!([from_f64(value), from_f64(-value), from_f32(value as f32)], [0, 0x80, 0]);
            }
        }
    }
}
