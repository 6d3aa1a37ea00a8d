//! Sums and products as two numbers: the rounded one and its error.

/// a + b; the second number is less than half a unit in the last place of the first.
#[inline(always)]
pub(super) fn sum(a: f64, b: f64) -> [f64; 2] {
    let high = a + b;
    let b_part = high - a;
    [high, (a - (high - b_part)) + (b - b_part)]
}

/// a · b, unless a part of it is below the smallest number.
#[inline(always)]
pub(super) fn product(a: f64, b: f64) -> [f64; 2] {
    let high = a * b;
    // Of 26 bits and 27: all four products are exact. By a mask, since the code generator may fuse what is multiplied.
    let split = |x: f64| {
        let top = f64::from_bits(x.to_bits() & !0x7ff_ffff);
        [top, x - top]
    };
    let ([a1, a2], [b1, b2]) = (split(a), split(b));
    [high, ((a1 * b1 - high) + a1 * b2 + a2 * b1) + a2 * b2]
}
