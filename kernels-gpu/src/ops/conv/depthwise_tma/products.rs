//! Products of a row with taps where the target is twice as dense as the source.

/// What a source row gives to the pairs of target rows that it meets: `LINES = 2 · RING` rows of sums, the newest pair
/// first, of `WIDE` columns.
///
/// Pair k before the last one that the row meets takes tap rows `2 k - SHIFT` and the next, where there are such; so do
/// pairs of columns.
#[inline(always)]
pub(super) unsafe fn spread_row<
    const R: usize,
    const SHIFT: usize,
    const RING: usize,
    const LINES: usize,
    const WIDE: usize,
    const COLUMNS: usize,
>(
    sums: &mut [[[f32; 2]; WIDE]; LINES],
    x: &[[f32; 2]; COLUMNS],
    w: &[[[f32; 2]; R]; R],
) {
    let mut line = 0;
    while line < LINES {
        // The oldest pair ends with its first taps.
        let r = 2 * (RING - 1 - line / 2) + line % 2;
        let mut s = SHIFT;
        while r >= SHIFT && r < R + SHIFT && s < R + SHIFT {
            let tap = w.get_unchecked(r - SHIFT).get_unchecked(s - SHIFT);
            let mut span = 0;
            while span < WIDE / 2 {
                let x = x.get_unchecked(span + RING - 1 - s / 2);
                let sum = sums.get_unchecked_mut(line).get_unchecked_mut(2 * span + s % 2);
                sum[0] += x[0] * tap[0];
                sum[1] += x[1] * tap[1];
                span += 1;
            }
            s += 1;
        }
        line += 1;
    }
}
