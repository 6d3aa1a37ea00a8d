//! Division of numbers without a sign: by any, and by one that is known before the kernel runs.

/// Quotient and remainder. Extents are at least 1; without the check, device code would carry a panic for 0.
#[inline(always)]
pub const fn div_rem(a: u32, b: u32) -> (u32, u32) {
    match a.checked_div(b) {
        Some(quotient) => (quotient, a - quotient * b),
        None => (0, 0),
    }
}

/// The same where most quotients are 0, which then take no division.
#[inline(always)]
pub const fn div_rem_unless_below(a: u32, b: u32) -> (u32, u32) {
    if a < b {
        return (0, a);
    }
    div_rem(a, b)
}

/// A divisor with what makes dividing by it a multiplication and a shift (Granlund and Montgomery, "Division by
/// Invariant Integers using Multiplication", 1994, figure 4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Divisor {
    /// The divisor, at least 1.
    pub divisor: u32,
    /// `floor(2^32 · (2^shift - divisor) / divisor) + 1`.
    multiplier: u32,
    /// The least power of two that is not below the divisor.
    shift: u32,
}

impl Divisor {
    /// A divisor from 1 to 2^31; 0 is taken as 1.
    pub const fn new(divisor: u32) -> Self {
        let divisor = if divisor == 0 { 1 } else { divisor };
        let shift = divisor.next_power_of_two().trailing_zeros();
        let multiplier = ((1u64 << 32) * ((1u64 << shift) - divisor as u64) / divisor as u64 + 1) as u32;
        Divisor { divisor, multiplier, shift }
    }

    /// Quotient and remainder of a number below 2^31.
    #[inline(always)]
    pub const fn div_rem(self, number: u32) -> (u32, u32) {
        let high = ((self.multiplier as u64 * number as u64) >> 32) as u32;
        let quotient = (high + number) >> self.shift;
        (quotient, number - quotient * self.divisor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agrees_with_division() {
        const LAST: u32 = i32::MAX as u32;
        for divisor in (1..300).chain([12_544, 50_176, 65_535, 65_536, 65_537, LAST - 1, LAST, 1 << 31]) {
            let magic = Divisor::new(divisor);
            for number in (0..1000).chain(LAST - 1000..=LAST).chain((0..64).map(|i| divisor.wrapping_mul(i) & LAST)) {
                for number in [number, number.saturating_sub(1)] {
                    assert_eq!(magic.div_rem(number), (number / divisor, number % divisor), "{number} / {divisor}");
                }
            }
        }
    }
}
