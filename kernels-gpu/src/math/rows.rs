//! Rows of contiguous elements, read and written 16 bytes at a time wherever they begin.
//!
//! A row is cut into pieces at multiples of 16 bytes. All but the first and the last are whole, and move as one access;
//! those two, and all of a row that does not lie to 16 bytes as the one does that pieces are cut by, move element by
//! element. Loads are predicated and not branched around, so that those of several pieces are under way together.

use super::element::{Element, bf16, f16};
use core::mem::size_of;
use cuda_std::{barrier, convert, elementary, guarded, math, memory, thread, warp};

/// The most elements of a piece.
pub const MAX_LANES: usize = 8;

/// A piece as it is stored.
pub type Words = [u32; 4];

/// A piece's elements; those behind [`Vector::LANES`] are not there.
pub type Values = [f32; MAX_LANES];

/// A storage type that is computed in `f32`, in pieces of 16 bytes.
pub trait Vector: Element<Acc = f32> {
    /// Elements of a piece.
    const LANES: usize;
    fn unpack(words: Words) -> Values;
    fn pack(values: Values) -> Words;
    /// eˣ, as exactly as the storage has use for: relative errors of 2⁻²¹ for f32, and beside that of |x| 2⁻²⁴ for 16 bits.
    fn exp(x: f32) -> f32;
    /// The larger of the elements that two words have at the same places; NaN if one is.
    fn max_of_words(a: u32, b: u32) -> u32;
}

impl Vector for f32 {
    const LANES: usize = 4;
    #[inline(always)]
    fn unpack([a, b, c, d]: Words) -> Values {
        let f = f32::from_bits;
        [f(a), f(b), f(c), f(d), 0.0, 0.0, 0.0, 0.0]
    }
    #[inline(always)]
    fn pack([a, b, c, d, ..]: Values) -> Words {
        [a.to_bits(), b.to_bits(), c.to_bits(), d.to_bits()]
    }
    #[inline(always)]
    fn exp(x: f32) -> f32 {
        let power = x * core::f32::consts::LOG2_E;
        // What the product lost, and the constant: of what is neither 0 nor infinite.
        const LOG2_E_REST: f32 = 1.925_963e-8;
        let lost = math::fma_f32(x, LOG2_E_REST, math::fma_f32(x, core::f32::consts::LOG2_E, -power));
        let rest = if power > -200.0 && power < 200.0 { lost * core::f32::consts::LN_2 } else { 0.0 };
        let y = math::exp2_approx(power);
        math::fma_f32(y, rest, y)
    }
    #[inline(always)]
    fn max_of_words(a: u32, b: u32) -> u32 {
        math::max_nan_f32(f32::from_bits(a), f32::from_bits(b)).to_bits()
    }
}

macro_rules! half {
    ($t:ident, $unpack:path, $pack:path, $max:path) => {
        impl Vector for $t {
            const LANES: usize = 8;
            #[inline(always)]
            fn unpack([a, b, c, d]: Words) -> Values {
                let ([a0, a1], [b0, b1], [c0, c1], [d0, d1]) = ($unpack(a), $unpack(b), $unpack(c), $unpack(d));
                [a0, a1, b0, b1, c0, c1, d0, d1]
            }
            #[inline(always)]
            fn pack([a0, a1, b0, b1, c0, c1, d0, d1]: Values) -> Words {
                [$pack(a0, a1), $pack(b0, b1), $pack(c0, c1), $pack(d0, d1)]
            }
            #[inline(always)]
            fn exp(x: f32) -> f32 {
                math::exp_approx(x)
            }
            #[inline(always)]
            fn max_of_words(a: u32, b: u32) -> u32 {
                $max(a, b)
            }
        }
    };
}

half!(f16, convert::f32_from_f16x2, convert::f16x2_from_f32, math::max_nan_f16x2);
half!(bf16, convert::f32_from_bf16x2, convert::bf16x2_from_f32, math::max_nan_bf16x2);

/// A row of a tensor.
#[derive(Clone, Copy)]
pub struct Row {
    /// Of its first element.
    address: u64,
    n: i32,
    /// Elements that the first piece lacks.
    skip: i32,
    /// Whether its pieces lie at multiples of 16 bytes.
    aligned: bool,
}

impl Row {
    /// The row whose first element lies here, cut where `skip` elements before it a piece begins.
    #[inline(always)]
    pub fn new<T: Vector>(address: u64, n: i32, skip: i32) -> Self {
        let aligned = (address - skip as u64 * size_of::<T>() as u64) & 15 == 0;
        Row { address, n, skip, aligned }
    }

    /// How many elements the first piece lacks if pieces shall lie at multiples of 16 bytes.
    #[inline(always)]
    pub fn skip_of<T: Vector>(address: u64) -> i32 {
        (address as u32 & 15) as i32 / size_of::<T>() as i32
    }

    /// The same, with as many pieces without elements before it as the first line of the cache has: what a warp moves then
    /// begins with a line.
    #[inline(always)]
    pub fn skip_of_line<T: Vector>(address: u64) -> i32 {
        (address as u32 & 127) as i32 / size_of::<T>() as i32
    }

    /// Pieces.
    #[inline(always)]
    pub fn n_pieces<T: Vector>(&self) -> u32 {
        (self.n + self.skip + T::LANES as i32 - 1) as u32 / T::LANES as u32
    }

    /// The first element of a piece, which may lie before the row.
    #[inline(always)]
    pub fn first<T: Vector>(&self, piece: u32) -> i32 {
        (piece * T::LANES as u32) as i32 - self.skip
    }

    /// 1 where the piece moves as one access.
    #[inline(always)]
    fn whole<T: Vector>(&self, piece: u32) -> u32 {
        let first = self.first::<T>(piece);
        u32::from(self.aligned && first >= 0 && first + T::LANES as i32 <= self.n)
    }

    /// Where an element lies.
    #[inline(always)]
    pub fn at<T: Vector>(&self, element: i32) -> u64 {
        (self.address as i64 + i64::from(element) * size_of::<T>() as i64) as u64
    }

    /// Pieces `first`, `first + step`, … as they are stored, with `fill` for elements that there are not.
    ///
    /// # Safety
    /// The row is there, and nobody writes it meanwhile.
    #[inline(always)]
    pub unsafe fn load<T: Vector, const K: usize>(&self, first: u32, step: u32, fill: f32) -> [Words; K] {
        let mut words = [[0u32; 4]; K];
        let mut k = 0;
        while k < K {
            let piece = first + k as u32 * step;
            *words.get_unchecked_mut(k) =
                guarded::load_x4(self.at::<T>(self.first::<T>(piece)), self.whole::<T>(piece));
            k += 1;
        }
        k = 0;
        while k < K {
            let piece = first + k as u32 * step;
            if self.whole::<T>(piece) == 0 {
                *words.get_unchecked_mut(k) = T::pack(self.load_elements::<T>(self.first::<T>(piece), fill));
            }
            k += 1;
        }
        words
    }

    /// A piece's elements one by one, `fill` for those that there are not.
    ///
    /// # Safety
    /// As [`Row::load`].
    #[inline(always)]
    pub unsafe fn load_elements<T: Vector>(&self, first: i32, fill: f32) -> Values {
        let mut values = [fill; MAX_LANES];
        let mut i = 0;
        while i < T::LANES {
            let element = first + i as i32;
            if element >= 0 && element < self.n {
                *values.get_unchecked_mut(i) = (*(self.at::<T>(element) as *const T)).widen();
            }
            i += 1;
        }
        values
    }

    /// A piece, with `fill`, a word of it, for elements that are not the row's.
    #[inline(always)]
    pub fn only<T: Vector>(&self, words: Words, piece: u32, fill: u32) -> Words {
        if self.whole::<T>(piece) != 0 {
            return words;
        }
        let (first, nothing) = (self.first::<T>(piece), T::unpack([fill; 4])[0]);
        T::pack(map::<T>(words, |value, i| {
            let element = first + i as i32;
            if element >= 0 && element < self.n { value } else { nothing }
        }))
    }

    /// One piece, `fill` where nothing is. Without a branch, behind which another tensor's elements would wait for this
    /// one's, and all elements of a ragged one are loaded before the first is looked at: for short rows. Where a thread
    /// has several pieces, the registers that this takes cost more.
    ///
    /// # Safety
    /// As [`Row::load`].
    #[inline(always)]
    pub unsafe fn load_beside<T: Vector>(&self, piece: u32, fill: f32) -> Words {
        let (first, whole) = (self.first::<T>(piece), self.whole::<T>(piece));
        let mut words = guarded::load_x4(self.at::<T>(first), whole);
        let nothing = if fill == 0.0 { 0 } else { T::pack([fill; MAX_LANES])[0] };
        let mut elements = [0u32; MAX_LANES];
        let mut i = 0;
        while i < T::LANES {
            let element = first + i as i32;
            let inside = element >= 0 && element < self.n;
            let (at, there) = (self.at::<T>(element), u32::from(whole == 0 && inside));
            let loaded = if size_of::<T>() == 2 {
                u32::from(guarded::load_u16(at, there))
            } else {
                guarded::load_x1(at, there)[0]
            };
            *elements.get_unchecked_mut(i) = if whole == 0 && !inside { nothing } else { loaded };
            i += 1;
        }
        i = 0;
        while i < T::LANES {
            let bits = *elements.get_unchecked(i);
            if size_of::<T>() == 2 {
                *words.get_unchecked_mut(i / 2) |= (bits & 0xffff) << (16 * (i % 2));
            } else {
                *words.get_unchecked_mut(i) |= bits;
            }
            i += 1;
        }
        words
    }

    /// Writes `alpha · values + beta · prior` to a piece.
    ///
    /// # Safety
    /// The row is there, and nobody else touches the piece.
    #[inline(always)]
    pub unsafe fn store<T: Vector>(&self, piece: u32, mut values: Values, alpha: f32, beta: f32) {
        let first = self.first::<T>(piece);
        let to = self.at::<T>(first);
        let whole = self.whole::<T>(piece);
        let mut prior = [0.0; MAX_LANES];
        if beta != 0.0 {
            prior = if whole != 0 {
                T::unpack(memory::load_x4(to as *const u32))
            } else {
                self.load_elements::<T>(first, 0.0)
            };
        }
        let mut i = 0;
        while i < T::LANES {
            let value = values.get_unchecked_mut(i);
            *value = math::fma_f32(beta, *prior.get_unchecked(i), alpha * *value);
            i += 1;
        }
        guarded::store_x4(to, T::pack(values), whole);
        if whole == 0 {
            i = 0;
            while i < T::LANES {
                let element = first + i as i32;
                if element >= 0 && element < self.n {
                    *(self.at::<T>(element) as *mut T) = T::narrow(*values.get_unchecked(i));
                }
                i += 1;
            }
        }
    }
}

/// A sum or maximum over the `G` threads of a row: a power of two within a warp, or all threads of the block, for whose
/// warps there is a slot each, used for nothing else. In a fixed order; the same in all threads.
///
/// # Safety
/// All threads of the warp take part; of the block, where a row has more than a warp.
#[inline(always)]
pub unsafe fn reduce<const G: u32>(value: f32, slots: *mut f32, join: impl Fn(f32, f32) -> f32) -> f32 {
    let mut result = value;
    let mut lane = if G < 32 { G / 2 } else { 16 };
    while lane > 0 {
        result = join(result, warp::shuffle_xor_f32(result, lane));
        lane /= 2;
    }
    if G <= 32 {
        return result;
    }
    // Of the warp's index all lanes must be asked, and so before the branch.
    let (lane_id, warp_idx) = (thread::lane_id(), thread::warp_idx());
    if lane_id == 0 {
        *slots.add(warp_idx as usize) = result;
    }
    barrier::sync_threads();
    // Lanes take what the warps left in turns, so that few steps are left between them.
    let warps = (G / 32).max(1);
    result = *slots.add((lane_id % warps) as usize);
    lane = warps / 2;
    while lane > 0 {
        result = join(result, warp::shuffle_xor_f32(result, lane));
        lane /= 2;
    }
    result
}

/// Calls `body` with every element of some pieces.
#[inline(always)]
pub fn for_each<T: Vector, const K: usize>(pieces: &[Words; K], mut body: impl FnMut(f32)) {
    let mut k = 0;
    while k < K {
        // SAFETY: `k` is below the length.
        let values = T::unpack(unsafe { *pieces.get_unchecked(k) });
        let mut i = 0;
        while i < T::LANES {
            // SAFETY: `i` is below the length.
            body(unsafe { *values.get_unchecked(i) });
            i += 1;
        }
        k += 1;
    }
}

/// The results of every element of a piece.
#[inline(always)]
pub fn map<T: Vector>(words: Words, mut result: impl FnMut(f32, usize) -> f32) -> Values {
    let mut values = T::unpack(words);
    let mut i = 0;
    while i < T::LANES {
        // SAFETY: `i` is below the length.
        let value = unsafe { values.get_unchecked_mut(i) };
        *value = result(*value, i);
        i += 1;
    }
    values
}

/// The largest element of some pieces, as they are stored; NaN if there is one.
#[inline(always)]
pub fn max_of<T: Vector, const K: usize>(pieces: &[Words; K]) -> f32 {
    let mut max = pieces[0][0];
    let mut k = 0;
    while k < K {
        // SAFETY: `k` is below the length.
        let [a, b, c, d] = unsafe { *pieces.get_unchecked(k) };
        max = T::max_of_words(max, T::max_of_words(T::max_of_words(a, b), T::max_of_words(c, d)));
        k += 1;
    }
    let values = T::unpack([max; 4]);
    // A word has one element, or two.
    math::max_nan_f32(values[0], values[1])
}

/// A maximum, and Σ e^(x - max) of what was seen: the state of a softmax that reads its row once.
#[derive(Clone, Copy)]
pub struct Online {
    pub max: f32,
    pub sum: f32,
}

impl Online {
    /// Of nothing.
    pub const EMPTY: Self = Online { max: f32::NEG_INFINITY, sum: 0.0 };

    /// With the elements of some pieces; those that there are not are -∞. With `fixed`, the maximum is left at 0.
    #[inline(always)]
    pub fn push<T: Vector, const K: usize>(&mut self, pieces: &[Words; K], fixed: bool) {
        let max = if fixed { 0.0 } else { math::max_nan_f32(max_of::<T, K>(pieces), self.max) };
        let powers = Powers::new::<T>(max);
        self.sum *= T::exp(self.max - finite(max));
        self.max = max;
        let mut sum = 0.0;
        for_each::<T, K>(pieces, |x| sum += powers.of::<T>(x));
        self.sum = math::fma_f32(sum, powers.undo, self.sum);
    }

    /// With what another one has seen.
    #[inline(always)]
    pub fn with<T: Vector>(self, other: Self) -> Self {
        let max = math::max_nan_f32(self.max, other.max);
        let shift = finite(max);
        Online { max, sum: self.sum * T::exp(self.max - shift) + other.sum * T::exp(other.max - shift) }
    }

    /// That of all `G` threads of a row. There are two slots for each of its warps.
    ///
    /// # Safety
    /// As [`reduce`].
    #[inline(always)]
    pub unsafe fn reduce<T: Vector, const G: u32>(self, slots: *mut f32) -> Self {
        let max = reduce::<G>(self.max, slots, math::max_nan_f32);
        let scaled = self.sum * T::exp(self.max - finite(max));
        Online { max, sum: reduce::<G>(scaled, slots.add(32), |a, b| a + b) }
    }
}

/// e^(x - max) of the elements of a row or a part of it, `undo` times [`Powers::of`]: for 16 bits with one fused operation
/// before the power of two, where the difference and its product with log₂ e would take two.
#[derive(Clone, Copy)]
pub struct Powers {
    max: f32,
    slope: f32,
    shift: f32,
    pub undo: f32,
}

impl Powers {
    /// Of a row whose largest element this is; of one without elements, whatever is not -∞ is left out.
    #[inline(always)]
    pub fn new<T: Vector>(max: f32) -> Self {
        // Rounded, max · log₂ e lacks up to 8 below this; elements of 16 bits that are farther differ by so much that one
        // power is as good as another: 1 of what is equal, 0 of all else.
        const FAR: f32 = 134_217_728.0;
        let max = finite(max);
        let slope = if max > -FAR && max < FAR { core::f32::consts::LOG2_E } else { 1.0 };
        let shift = max * slope;
        let undo = if size_of::<T>() == 4 { 1.0 } else { math::exp2_approx(math::fma_f32(-max, slope, shift)) };
        Powers { max, slope, shift, undo }
    }

    #[inline(always)]
    pub fn of<T: Vector>(&self, x: f32) -> f32 {
        if size_of::<T>() == 4 {
            T::exp(x - self.max)
        } else {
            math::exp2_approx(math::fma_f32(x, self.slope, -self.shift))
        }
    }
}

/// 0 for -∞, which is what nothing has been seen of: e^(-∞ - 0) is 0, and e^(-∞ + ∞) would not be.
#[inline(always)]
pub fn finite(max: f32) -> f32 {
    if max == f32::NEG_INFINITY { 0.0 } else { max }
}

/// ln x.
#[inline(always)]
pub fn ln(x: f32) -> f32 {
    elementary::ln_f32(x)
}
