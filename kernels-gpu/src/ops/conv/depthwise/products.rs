//! Products of a row with taps or with another row, all of them in registers.

/// An element of nested arrays, the indices being below their lengths: loops over arrays that live in registers must
/// unroll, and checks would be in the way.
#[inline(always)]
pub unsafe fn element<const A: usize, const B: usize, const C: usize>(
    of: &mut [[[f32; C]; B]; A],
    a: usize,
    b: usize,
    c: usize,
) -> &mut f32 {
    of.get_unchecked_mut(a).get_unchecked_mut(b).get_unchecked_mut(c)
}

/// `sum += a · b`, channel by channel.
#[inline(always)]
unsafe fn accumulate<const VEC: usize>(sum: &mut [f32; VEC], a: &[f32; VEC], b: &[f32; VEC]) {
    let mut v = 0;
    while v < VEC {
        *sum.get_unchecked_mut(v) += *a.get_unchecked(v) * *b.get_unchecked(v);
        v += 1;
    }
}

/// What a source row adds to the target rows that it meets, where it is row `T` of its step.
#[inline(always)]
pub unsafe fn gather_row<
    const VEC: usize,
    const R: usize,
    const STRIDE: usize,
    const RING: usize,
    const STRIP: usize,
    const COLUMNS: usize,
    const T: usize,
>(
    sums: &mut [[[f32; VEC]; STRIP]; RING],
    x: &[[f32; VEC]; COLUMNS],
    w: &[[[f32; VEC]; R]; R],
) {
    let mut j = 0;
    while j < RING {
        if T + j * STRIDE < R {
            let (row, taps) = (sums.get_unchecked_mut(j), w.get_unchecked(T + j * STRIDE));
            let mut s = 0;
            while s < R {
                let mut i = 0;
                while i < STRIP {
                    let x = x.get_unchecked(i * STRIDE + s);
                    accumulate(row.get_unchecked_mut(i), x, taps.get_unchecked(s));
                    i += 1;
                }
                s += 1;
            }
        }
        j += 1;
    }
}

/// What a source row gives to the target rows that it meets, with stride 2; the taps are turned around.
#[inline(always)]
pub unsafe fn spread_row<
    const VEC: usize,
    const R: usize,
    const RING: usize,
    const WIDE: usize,
    const COLUMNS: usize,
>(
    sums: &mut [[[f32; VEC]; WIDE]; R],
    x: &[[f32; VEC]; COLUMNS],
    w: &[[[f32; VEC]; R]; R],
) {
    let mut j = 0;
    while j < R {
        let mut s = 0;
        while s < R {
            // Every other column has this tap.
            let mut i = s % 2;
            while i < WIDE {
                let x = x.get_unchecked((i + 2 * (RING - 1) - s) / 2);
                let tap = w.get_unchecked(R - 1 - j).get_unchecked(R - 1 - s);
                accumulate(sums.get_unchecked_mut(j).get_unchecked_mut(i), x, tap);
                i += 2;
            }
            s += 1;
        }
        j += 1;
    }
}

/// The products of a row of x, row `T` of its step, with the rows of dy that it meets.
#[inline(always)]
pub unsafe fn wgrad_row<
    const VEC: usize,
    const R: usize,
    const STRIDE: usize,
    const RING: usize,
    const STRIP: usize,
    const COLUMNS: usize,
    const T: usize,
>(
    totals: &mut [[[f32; VEC]; R]; R],
    x: &[[f32; VEC]; COLUMNS],
    y: &[[[f32; VEC]; STRIP]; RING],
) {
    let mut j = 0;
    while j < RING {
        if T + j * STRIDE < R {
            let (taps, row) = (totals.get_unchecked_mut(T + j * STRIDE), y.get_unchecked(j));
            let mut s = 0;
            while s < R {
                let mut i = 0;
                while i < STRIP {
                    let x = x.get_unchecked(i * STRIDE + s);
                    accumulate(taps.get_unchecked_mut(s), x, row.get_unchecked(i));
                    i += 1;
                }
                s += 1;
            }
        }
        j += 1;
    }
}
