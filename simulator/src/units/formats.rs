//! Numbers of a few bits, and conversions between all of PTX's types with its roundings and saturations.
//!
//! Everything is computed from exact values and rounded once. NaN of results is the canonical one of its type, as PTX
//! says for conversions.

use half::{bf16, f16};

/// What happens to digits that a format has no place for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// `.rn`, `.rni`: to the nearest, ties to even.
    NearestEven,
    /// `.rna`: to the nearest, ties away from zero.
    NearestAway,
    /// `.rz`, `.rzi`: towards zero.
    Zero,
    /// `.rm`, `.rmi`: towards negative infinity.
    Down,
    /// `.rp`, `.rpi`: towards positive infinity.
    Up,
}

impl Rounding {
    /// Whether the magnitude grows by a unit, where what is cut off compares with half a unit as `rest` says (None
    /// when nothing is cut off).
    fn grows(self, negative: bool, odd: bool, rest: Option<std::cmp::Ordering>) -> bool {
        use std::cmp::Ordering::{Equal, Greater};
        match (self, rest) {
            (_, None) | (Rounding::Zero, _) => false,
            (Rounding::NearestEven, Some(rest)) => rest == Greater || (rest == Equal && odd),
            (Rounding::NearestAway, Some(rest)) => rest != std::cmp::Ordering::Less,
            (Rounding::Down, Some(_)) => negative,
            (Rounding::Up, Some(_)) => !negative,
        }
    }
}

/// What becomes of numbers beyond the largest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overflow {
    /// IEEE: infinite, or the largest number where the rounding points back.
    Infinite,
    /// `.satfinite`: the largest number of that sign, infinities too.
    Largest,
}

/// A binary floating-point format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    exponent_bits: u32,
    mantissa_bits: u32,
    /// Zero bits behind the number: tf32 lies in the upper bits of an f32.
    behind: u32,
    /// Whether the largest exponent is that of infinities and NaN; e4m3 has only one code for NaN.
    infinities: bool,
}

impl Format {
    /// Half precision.
    pub const F16: Format = Format::ieee(5, 10);
    /// The upper half of an f32.
    pub const BF16: Format = Format::ieee(8, 7);
    /// An f32 with 10 bits of mantissa.
    pub const TF32: Format = Format { behind: 13, ..Format::ieee(8, 10) };
    /// 4 bits of exponent, 3 of mantissa; no infinities.
    pub const E4M3: Format = Format { infinities: false, ..Format::ieee(4, 3) };
    /// 5 bits of exponent, 2 of mantissa.
    pub const E5M2: Format = Format::ieee(5, 2);
    /// Single precision.
    pub const F32: Format = Format::ieee(8, 23);
    /// Double precision.
    pub const F64: Format = Format::ieee(11, 52);

    const fn ieee(exponent_bits: u32, mantissa_bits: u32) -> Self {
        Format { exponent_bits, mantissa_bits, behind: 0, infinities: true }
    }

    /// Exponent of the smallest normal number.
    const fn min_exponent(self) -> i32 {
        2 - (1 << (self.exponent_bits - 1))
    }

    /// The largest exponent field over a zero mantissa: infinity where there is one.
    const fn top(self) -> u64 {
        ((1 << self.exponent_bits) - 1) << self.mantissa_bits
    }

    const fn largest(self) -> u64 {
        if self.infinities { self.top() - 1 } else { self.top() | ((1 << self.mantissa_bits) - 2) }
    }

    /// Canonical NaN.
    pub const fn nan(self) -> u64 {
        ((self.top() | ((1 << self.mantissa_bits) - 1)) << self.behind) | ((1 << self.behind) - 1)
    }

    const fn place(self, negative: bool, magnitude: u64) -> u64 {
        ((negative as u64) << (self.exponent_bits + self.mantissa_bits) | magnitude) << self.behind
    }

    /// Bits of the number nearest `x` in the sense of `rounding`.
    pub fn encode(self, x: f64, rounding: Rounding, overflow: Overflow) -> u64 {
        let negative = x.is_sign_negative();
        if x.is_nan() {
            self.nan()
        } else if x.is_infinite() {
            match overflow {
                Overflow::Largest => self.place(negative, self.largest()),
                Overflow::Infinite if self.infinities => self.place(negative, self.top()),
                Overflow::Infinite => self.nan(),
            }
        } else {
            let field = (x.to_bits() >> 52) as i32 & 0x7ff;
            let fraction = x.to_bits() & ((1 << 52) - 1);
            let significand = if field == 0 { fraction } else { fraction | 1 << 52 };
            self.round(negative, u128::from(significand), field.max(1) - 1075, rounding, overflow)
        }
    }

    /// Bits of an integer: `cvt` from integers.
    pub fn encode_integer(self, x: i128, rounding: Rounding) -> u64 {
        self.round(x < 0, x.unsigned_abs(), 0, rounding, Overflow::Infinite)
    }

    /// Bits of `± significand · 2^exponent`.
    pub fn round(
        self,
        negative: bool,
        significand: u128,
        exponent: i32,
        rounding: Rounding,
        overflow: Overflow,
    ) -> u64 {
        if significand == 0 {
            return self.place(negative, 0);
        }
        let mantissa_bits = self.mantissa_bits as i32;
        let leading = exponent + 127 - significand.leading_zeros() as i32;
        // The number becomes a multiple of 2^unit.
        let unit = leading.max(self.min_exponent()) - mantissa_bits;
        let cut = unit - exponent;
        let (kept, rest) = match cut {
            ..=0 => ((significand << -cut) as u64, None),
            1..=127 => {
                let rest = significand & ((1 << cut) - 1);
                ((significand >> cut) as u64, (rest != 0).then(|| rest.cmp(&(1 << (cut - 1)))))
            }
            128 => (0, Some(significand.cmp(&(1 << 127)))),
            _ => (0, Some(std::cmp::Ordering::Less)),
        };
        let kept = kept + u64::from(rounding.grows(negative, kept & 1 == 1, rest));
        // A normal number's leading bit, or a carry, counts the exponent field up by itself.
        let field = (unit + mantissa_bits - self.min_exponent()) as u64;
        let magnitude = (field << self.mantissa_bits) + kept;
        if magnitude <= self.largest() {
            return self.place(negative, magnitude);
        }
        let points_back = match rounding {
            Rounding::NearestEven | Rounding::NearestAway => false,
            Rounding::Zero => true,
            Rounding::Down => !negative,
            Rounding::Up => negative,
        };
        match overflow {
            Overflow::Infinite if !points_back && self.infinities => self.place(negative, self.top()),
            Overflow::Infinite if !points_back => self.nan(),
            _ => self.place(negative, self.largest()),
        }
    }

    /// The value of a number. What lies behind a tf32 is cut off, as tensor cores do.
    pub fn decode(self, bits: u64) -> f64 {
        let bits = bits >> self.behind;
        let magnitude = bits & ((1 << (self.exponent_bits + self.mantissa_bits)) - 1);
        let negative = bits >> (self.exponent_bits + self.mantissa_bits) & 1 == 1;
        let fraction = magnitude & ((1 << self.mantissa_bits) - 1);
        let value = if magnitude > self.largest() {
            if self.infinities && fraction == 0 { f64::INFINITY } else { f64::NAN }
        } else {
            let field = (magnitude >> self.mantissa_bits) as i32;
            let significand = if field == 0 { fraction } else { fraction | 1 << self.mantissa_bits };
            let unit = field.max(1) - 1 + self.min_exponent() - self.mantissa_bits as i32;
            // Two steps, since 2^unit alone may be below f64's numbers.
            significand as f64 * 2f64.powi(unit / 2) * 2f64.powi(unit - unit / 2)
        };
        if negative { -value } else { value }
    }
}

/// `.sat` of floating-point results: to 0 … 1, NaN to 0.
pub fn saturated(x: f64) -> f64 {
    if x > 0.0 { x.min(1.0) } else { 0.0 }
}

/// `.relu`: negative numbers become 0, NaN stays.
pub fn rectified(x: f64) -> f64 {
    if x < 0.0 { 0.0 } else { x }
}

/// `cvt.rn.f16.f32`.
pub fn f16_from_f32(x: f32) -> u16 {
    if x.is_nan() { 0x7fff } else { f16::from_f32(x).to_bits() }
}

/// `cvt.f32.f16`.
#[inline]
pub fn f32_from_f16(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff) << 13;
    // With f32's bias, 112 larger, the same fields mean a number 2^112 times smaller, subnormal ones too.
    let finite = f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23);
    let value = if magnitude < 0x1f << 23 { finite } else { f32::from_bits(magnitude | 0xff << 23) };
    if bits >> 15 == 1 { -value } else { value }
}

/// `cvt.rn.bf16.f32`.
pub fn bf16_from_f32(x: f32) -> u16 {
    if x.is_nan() { 0x7fff } else { bf16::from_f32(x).to_bits() }
}

/// `cvt.f32.bf16`.
#[inline]
pub fn f32_from_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// `cvt` with a rounding to an integral value, and `.rni`, `.rzi`, `.rmi`, `.rpi` of a floating-point type.
pub fn integral(x: f64, rounding: Rounding) -> f64 {
    match rounding {
        Rounding::NearestEven => x.round_ties_even(),
        Rounding::NearestAway => x.round(),
        Rounding::Zero => x.trunc(),
        Rounding::Down => x.floor(),
        Rounding::Up => x.ceil(),
    }
}

/// An integer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Integer {
    /// Whether in two's complement.
    pub signed: bool,
    /// 8, 16, 32 or 64; 4 for tensor cores.
    pub bits: u32,
}

impl Integer {
    /// The smallest and the largest number.
    pub const fn range(self) -> (i128, i128) {
        if self.signed { (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1) } else { (0, (1 << self.bits) - 1) }
    }

    const fn mask(self) -> u64 {
        u64::MAX >> (64 - self.bits)
    }

    /// The value of the low bits.
    pub const fn decode(self, bits: u64) -> i128 {
        let bits = bits & self.mask();
        if self.signed && bits >> (self.bits - 1) == 1 { bits as i128 - (1 << self.bits) } else { bits as i128 }
    }

    /// `.sat`: the nearest number of the type, in its bits.
    pub fn saturate(self, x: i128) -> u64 {
        let (low, high) = self.range();
        x.clamp(low, high) as u64 & self.mask()
    }

    /// `cvt` from f32 and narrower types: rounded, limited to the type whether `.sat` or not. NaN gives 0, or the
    /// highest bit alone where the integer has 64.
    pub fn from_f32(self, x: f32, rounding: Rounding) -> u64 {
        if x.is_nan() && self.bits < 64 { 0 } else { self.from_f64(f64::from(x), rounding) }
    }

    /// `cvt` from f64: as [`from_f32`](Integer::from_f32); NaN always gives the highest bit alone.
    pub fn from_f64(self, x: f64, rounding: Rounding) -> u64 {
        if x.is_nan() {
            return 1 << (self.bits - 1);
        }
        // Beyond 128 bits `as` limits, too.
        self.saturate(integral(x, rounding) as i128)
    }
}

/// Element types of matrices in tensor cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Element {
    /// Half precision.
    F16,
    /// The upper half of an f32.
    Bf16,
    /// An f32 whose 13 last bits are not looked at.
    Tf32,
    /// 8-bit floating point with 3 bits of mantissa.
    E4m3,
    /// 8-bit floating point with 2 bits of mantissa.
    E5m2,
    /// Signed bytes.
    S8,
    /// Bytes.
    U8,
    /// Signed half bytes.
    S4,
    /// Half bytes.
    U4,
}

impl Element {
    /// Bits of an element.
    pub const fn bits(self) -> u32 {
        match self {
            Element::Tf32 => 32,
            Element::F16 | Element::Bf16 => 16,
            Element::E4m3 | Element::E5m2 | Element::S8 | Element::U8 => 8,
            Element::S4 | Element::U4 => 4,
        }
    }

    /// The integer type, if it is one.
    pub const fn integer(self) -> Option<Integer> {
        match self {
            Element::S8 => Some(Integer { signed: true, bits: 8 }),
            Element::U8 => Some(Integer { signed: false, bits: 8 }),
            Element::S4 => Some(Integer { signed: true, bits: 4 }),
            Element::U4 => Some(Integer { signed: false, bits: 4 }),
            _ => None,
        }
    }

    /// The value of the low bits, which every type here has in f32.
    #[inline]
    pub fn value(self, bits: u32) -> f32 {
        match self {
            Element::F16 => f32_from_f16(bits as u16),
            Element::Bf16 => f32_from_bf16(bits as u16),
            Element::Tf32 => f32::from_bits(bits & !0x1fff),
            Element::E4m3 => E4M3_VALUES[bits as usize & 0xff],
            Element::E5m2 => f32_from_f16((bits << 8) as u16),
            Element::S8 => f32::from(bits as i8),
            Element::U8 => f32::from(bits as u8),
            Element::S4 => f32::from((bits << 4) as i8 >> 4),
            Element::U4 => f32::from(bits as u8 & 0xf),
        }
    }
}

impl Element {
    /// The values of a word's elements, the lowest first; zeros behind.
    #[inline]
    pub fn values(self, word: u32) -> [f32; 8] {
        let two =
            |value: fn(u16) -> f32| [value(word as u16), value((word >> 16) as u16), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0];
        match self {
            Element::F16 => two(f32_from_f16),
            Element::Bf16 => two(f32_from_bf16),
            Element::Tf32 => [self.value(word), 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0],
            _ => std::array::from_fn(|i| {
                let shift = i as u32 * self.bits();
                if shift < 32 { self.value(word >> shift) } else { 0.0 }
            }),
        }
    }
}

/// All e4m3 numbers.
static E4M3_VALUES: [f32; 256] = {
    let mut values = [0.0; 256];
    let mut bits = 0;
    while bits < 256 {
        let (field, fraction) = (bits as u32 >> 3 & 0xf, bits as u32 & 7);
        // 2^-9 is the unit of subnormal numbers, f32's exponent is biased by 127, this one's by 7.
        let magnitude = match (field, fraction) {
            (0xf, 7) => f32::NAN,
            (0, _) => fraction as f32 / 512.0,
            _ => f32::from_bits((field + 120) << 23 | fraction << 20),
        };
        values[bits] = if bits < 128 { magnitude } else { -magnitude };
        bits += 1;
    }
    values
};

#[cfg(test)]
mod tests {
    use super::*;

    const ROUNDINGS: [Rounding; 5] =
        [Rounding::NearestEven, Rounding::NearestAway, Rounding::Zero, Rounding::Down, Rounding::Up];

    fn random(seed: u64) -> impl Iterator<Item = u64> {
        let mut state = seed;
        std::iter::repeat_with(move || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state ^ state >> 29
        })
    }

    #[test]
    fn every_small_number_survives() {
        for (format, bits) in [(Format::F16, 16), (Format::BF16, 16), (Format::E4M3, 8), (Format::E5M2, 8)] {
            for code in 0..1u64 << bits {
                let value = format.decode(code);
                for rounding in ROUNDINGS {
                    let again = format.encode(value, rounding, Overflow::Infinite);
                    assert!(again == code || (value.is_nan() && again == format.nan()), "{format:?} {code:#x}");
                }
            }
        }
    }

    #[test]
    fn elements_have_the_values_of_their_formats() {
        let formats = [
            (Element::F16, Format::F16),
            (Element::Bf16, Format::BF16),
            (Element::E4m3, Format::E4M3),
            (Element::E5m2, Format::E5M2),
        ];
        for (element, format) in formats {
            for code in 0..1u32 << element.bits() {
                let (value, expected) = (f64::from(element.value(code)), format.decode(u64::from(code)));
                assert!(value == expected || (value.is_nan() && expected.is_nan()), "{element:?} {code:#x}");
            }
        }
        assert_eq!((Element::S8.value(0x80), Element::U8.value(0x80)), (-128.0, 128.0));
        assert_eq!((Element::S4.value(0xf), Element::U4.value(0xf)), (-1.0, 15.0));
        assert_eq!(Element::Tf32.value(1.0f32.to_bits() | 0x1fff), 1.0);
    }

    #[test]
    fn rounding_agrees_with_what_rust_has() {
        for bits in random(1).take(200_000) {
            let x = f64::from_bits(bits);
            let single = Format::F32.encode(x, Rounding::NearestEven, Overflow::Infinite) as u32;
            assert!(x.is_nan() || single == (x as f32).to_bits(), "{x:e}");
            let y = f32::from_bits(bits as u32);
            let (wide, near) = (f64::from(y), Rounding::NearestEven);
            assert_eq!(Format::F16.encode(wide, near, Overflow::Infinite) as u16, f16_from_f32(y), "{y:e}");
            assert_eq!(Format::BF16.encode(wide, near, Overflow::Infinite) as u16, bf16_from_f32(y), "{y:e}");
            let tf32 = Format::TF32.encode(wide, Rounding::NearestAway, Overflow::Infinite) as u32;
            assert!(y.is_nan() || tf32 == (y.to_bits().wrapping_add(0x1000) & !0x1fff), "{y:e}: {tf32:#x}");
            assert_eq!(Format::F32.encode_integer(i128::from(bits), near) as u32, (bits as f32).to_bits());
            let signed = bits as i64;
            assert_eq!(Format::F64.encode_integer(i128::from(signed), near), (signed as f64).to_bits());
        }
    }

    #[test]
    fn directed_roundings_enclose() {
        for bits in random(2).take(100_000) {
            let x = f64::from(f32::from_bits(bits as u32));
            if x.is_nan() {
                continue;
            }
            for format in [Format::F16, Format::BF16, Format::TF32, Format::E5M2, Format::F32] {
                let at = |rounding| format.decode(format.encode(x, rounding, Overflow::Infinite));
                let (low, high) = (at(Rounding::Down), at(Rounding::Up));
                assert!(low <= x && x <= high, "{format:?} {x:e}: {low:e} {high:e}");
                assert_eq!(at(Rounding::Zero), if x < 0.0 { high } else { low });
                let near = at(Rounding::NearestEven);
                assert!(near == low || near == high);
            }
        }
    }

    #[test]
    fn the_ends_of_eight_bits() {
        let e4m3 = |x: f64| Format::E4M3.encode(x, Rounding::NearestEven, Overflow::Largest);
        assert_eq!([448.0, 464.0, 1e9, f64::INFINITY, -480.0].map(e4m3), [0x7e, 0x7e, 0x7e, 0x7e, 0xfe]);
        assert_eq!([f64::NAN, 2f64.powi(-9), 2f64.powi(-10), 1.5 * 2f64.powi(-10)].map(e4m3), [0x7f, 1, 0, 1]);
        let e5m2 = |x: f64| Format::E5M2.encode(x, Rounding::NearestEven, Overflow::Largest);
        assert_eq!([57_344.0, 1e9, f64::NEG_INFINITY, f64::NAN].map(e5m2), [0x7b, 0x7b, 0xfb, 0x7f]);
        let zero = |x: f64, rounding| Format::F16.encode(x, rounding, Overflow::Infinite);
        assert_eq!((zero(7e4, Rounding::Zero), zero(-7e4, Rounding::Up)), (0x7bff, 0xfbff));
        assert_eq!((zero(7e4, Rounding::Up), zero(-7e4, Rounding::Down)), (0x7c00, 0xfc00));
        assert_eq!((Format::F32.nan(), Format::TF32.nan(), Format::BF16.nan()), (0x7fff_ffff, 0x7fff_ffff, 0x7fff));
    }

    #[test]
    fn integers_from_floats() {
        let s8 = Integer { signed: true, bits: 8 };
        let u8_ = Integer { signed: false, bits: 8 };
        let s32 = Integer { signed: true, bits: 32 };
        let s64 = Integer { signed: true, bits: 64 };
        let near = Rounding::NearestEven;
        assert_eq!([127.5, -128.5, 2.5, f32::NAN].map(|x| s8.from_f32(x, near)), [127, 0x80, 2, 0]);
        assert_eq!([300.0, -1.0, 254.5].map(|x| u8_.from_f32(x, near)), [255, 0, 254]);
        assert_eq!((s32.from_f64(f64::NAN, near), s8.from_f64(f64::NAN, near)), (1 << 31, 0x80));
        assert_eq!((s32.from_f32(f32::NAN, near), s64.from_f32(f32::NAN, near)), (0, 1 << 63));
        assert_eq!(s64.from_f64(1e300, near), i64::MAX as u64);
        assert_eq!(s32.from_f32(-0.5, Rounding::Down), 0xffff_ffff);
        assert_eq!((s32.from_f32(-1e20, near), s32.decode(1 << 31)), (1 << 31, -(1 << 31)));
        assert_eq!([f64::NAN, -1.0, 0.5, 7.0].map(saturated), [0.0, 0.0, 0.5, 1.0]);
        assert!(rectified(f64::NAN).is_nan() && rectified(-2.0) == 0.0);
    }
}
