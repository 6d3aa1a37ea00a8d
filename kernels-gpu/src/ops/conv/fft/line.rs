//! Transforms of 16 or 32 complex numbers in a thread's registers, and roots of unity.

/// A turn in steps of [`cosine`].
pub(super) const TURN: usize = 128;

/// Cosines of multiples of 2π / 128, a quarter of a turn.
static COSINES: [f32; TURN / 4 + 1] = [
    1.0,
    0.998_795_45,
    0.995_184_7,
    0.989_176_5,
    0.980_785_25,
    0.970_031_26,
    0.956_940_35,
    0.941_544_06,
    0.923_879_5,
    0.903_989_3,
    0.881_921_3,
    0.857_728_6,
    0.831_469_6,
    0.803_207_5,
    0.773_010_43,
    0.740_951_1,
    0.707_106_77,
    0.671_559,
    0.634_393_3,
    0.595_699_3,
    0.555_570_24,
    0.514_102_76,
    0.471_396_74,
    0.427_555_08,
    0.382_683_43,
    0.336_889_86,
    0.290_284_66,
    0.242_980_18,
    0.195_090_32,
    0.146_730_47,
    0.098_017_14,
    0.049_067_676,
    0.0,
];

/// cos(2π i / 128) for i below 128.
#[inline(always)]
pub(super) fn cosine(i: usize) -> f32 {
    let half = TURN / 2;
    let i = if i > half { TURN - i } else { i };
    let (at, factor) = if i > TURN / 4 { (half - i, -1.0) } else { (i, 1.0) };
    // SAFETY: at most a quarter of a turn is left.
    factor * unsafe { *COSINES.get_unchecked(at) }
}

/// sin(2π i / 128) for i below 128.
#[inline(always)]
pub(super) fn sine(i: usize) -> f32 {
    cosine((i + 3 * TURN / 4) % TURN)
}

/// Where the transform leaves number `i`.
#[inline(always)]
pub(super) const fn place<const T: usize>(i: usize) -> usize {
    ((i as u32).reverse_bits() >> (32 - T.trailing_zeros())) as usize
}

/// T complex numbers.
pub(super) struct Line<const T: usize> {
    re: [f32; T],
    im: [f32; T],
}

impl<const T: usize> Line<T> {
    #[inline(always)]
    pub(super) fn zeros() -> Self {
        Line { re: [0.0; T], im: [0.0; T] }
    }

    #[inline(always)]
    pub(super) fn get(&self, i: usize) -> [f32; 2] {
        // SAFETY: callers count up to T.
        unsafe { [*self.re.get_unchecked(i), *self.im.get_unchecked(i)] }
    }

    #[inline(always)]
    pub(super) fn set(&mut self, i: usize, [re, im]: [f32; 2]) {
        // SAFETY: as in `get`.
        unsafe {
            *self.re.get_unchecked_mut(i) = re;
            *self.im.get_unchecked_mut(i) = im;
        }
    }

    /// One stage: pairs that lie `LENGTH` apart (decimation in frequency).
    #[inline(always)]
    fn stage<const LENGTH: usize>(&mut self, inverse: bool) {
        let mut i = 0;
        while i < T / 2 {
            let j = i % LENGTH;
            let (a, b) = (i / LENGTH * 2 * LENGTH + j, i / LENGTH * 2 * LENGTH + j + LENGTH);
            let ([ar, ai], [br, bi]) = (self.get(a), self.get(b));
            self.set(a, [ar + br, ai + bi]);
            let (re, im) = (ar - br, ai - bi);
            let turn = j * (TURN / 2 / LENGTH);
            let (c, s) = (cosine(turn), if inverse { sine(turn) } else { -sine(turn) });
            self.set(b, if turn == 0 { [re, im] } else { [re * c - im * s, re * s + im * c] });
            i += 1;
        }
    }

    /// The transform; number i is then at [`place`] i. The inverse is not divided by T.
    #[inline(always)]
    pub(super) fn transform(&mut self, inverse: bool) {
        if T == 32 {
            self.stage::<16>(inverse);
        }
        self.stage::<8>(inverse);
        self.stage::<4>(inverse);
        self.stage::<2>(inverse);
        self.stage::<1>(inverse);
    }
}
