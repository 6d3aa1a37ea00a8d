//! Warpgroup products of operands that lie with the dimension of the sum contiguous, as all types but those of 16 bits
//! must, and the way of their sums to memory as elements of any type.
//!
//! A stage's tiles are rows of 128 bytes in the 128-byte swizzle, whatever the type: four instructions, of 32 bytes each.

use super::element::{Element, bf16, f8e4m3, f8e5m2, f16};
use cuda_std::memory::{X2, X4};
use cuda_std::{convert, thread, warp};
use kernel_abi::DType;
use kernel_abi::store::StoreParams;

/// What products are summed in.
pub trait Sum: Copy {
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    /// The sum itself, where it is an integer.
    fn to_i32(self) -> Option<i32>;
}

impl Sum for f32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    fn to_i32(self) -> Option<i32> {
        None
    }
}

impl Sum for i32 {
    #[inline(always)]
    fn to_f32(self) -> f32 {
        self as f32
    }
    #[inline(always)]
    fn to_f64(self) -> f64 {
        self as f64
    }
    #[inline(always)]
    fn to_i32(self) -> Option<i32> {
        Some(self)
    }
}

/// Types in which a kernel can store its sums.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Outputs {
    /// f32 only.
    Single,
    /// i8, i32, f32.
    Integer,
    /// f32, f16, bf16, e4m3, e5m2.
    Fp8,
}

/// The product instructions of one kernel. A thread holds `R` sums of 64 rows.
pub trait Product<const R: usize> {
    type Sum: Sum;
    /// Size of an operand's element.
    const ELEMENT_BYTES: u32;
    const OUTPUTS: Outputs;

    /// Queues the products of one stage. `accumulate` is 0 to overwrite `d`, else 1. All but those are done afterwards.
    ///
    /// # Safety
    /// All threads of the warpgroup call it with descriptors of loaded tiles; `d` is not touched until [`finish`].
    ///
    /// [`finish`]: Product::finish
    unsafe fn multiply(d: &mut [Self::Sum; R], a: u64, b: u64, accumulate: u32);

    /// Waits for all queued products.
    ///
    /// # Safety
    /// All threads of the warpgroup call it.
    unsafe fn finish(d: &mut [Self::Sum; R]);
}

/// An index along the sum, counted in units of 2 bytes, in elements of so many bytes.
#[inline(always)]
pub const fn elements(units: u32, element_bytes: u32) -> i32 {
    (units * 2 / element_bytes) as i32
}

/// Implements [`Product`] for `$this`: element types of A and B, columns, registers.
macro_rules! kmajor_product {
    ($this:ident, i8, i8, $n:literal, $registers:literal) => {
        kmajor_product!(@impl $this, s8, i32, 1, Integer, $n, $registers);
    };
    ($this:ident, tf32, tf32, $n:literal, $registers:literal) => {
        kmajor_product!(@impl $this, tf32, f32, 4, Single, $n, $registers);
    };
    ($this:ident, f8e4m3, f8e4m3, $n:literal, $registers:literal) => {
        kmajor_product!(@impl $this, e4m3, f32, 1, Fp8, $n, $registers);
    };
    ($this:ident, f8e5m2, f8e5m2, $n:literal, $registers:literal) => {
        kmajor_product!(@impl $this, e5m2, f32, 1, Fp8, $n, $registers);
    };
    ($this:ident, f8e4m3, f8e5m2, $n:literal, $registers:literal) => {
        kmajor_product!(@impl $this, e4m3_e5m2, f32, 1, Fp8, $n, $registers);
    };
    ($this:ident, f8e5m2, f8e4m3, $n:literal, $registers:literal) => {
        kmajor_product!(@impl $this, e5m2_e4m3, f32, 1, Fp8, $n, $registers);
    };
    (@impl $this:ident, $types:ident, $sum:ident, $bytes:literal, $outputs:ident, $n:literal, $registers:literal) => {
        impl $crate::math::kmajor::Product<$registers> for $this {
            type Sum = $sum;
            const ELEMENT_BYTES: u32 = $bytes;
            const OUTPUTS: $crate::math::kmajor::Outputs = $crate::math::kmajor::Outputs::$outputs;

            #[inline(always)]
            unsafe fn multiply(d: &mut [$sum; $registers], a: u64, b: u64, accumulate: u32) {
                cuda_std::wgmma::wgmma!(types = $types, n = $n, steps = 4, d = d, a = a, a_step = 2, b = b, b_step = 2,
                    accumulate = accumulate);
                cuda_std::wgmma::wgmma_wait!(d = d, registers = $registers, pending = 1);
            }

            #[inline(always)]
            unsafe fn finish(d: &mut [$sum; $registers]) {
                cuda_std::wgmma::wgmma_wait!(d = d, registers = $registers, pending = 0);
            }
        }
    };
}
pub(crate) use kmajor_product;

/// A type in which sums are stored.
trait Target {
    const BYTES: u32;

    /// Two neighbours, scaled and blended with their prior values, which lie at `first` and `second`: elements of 4 bytes
    /// in a word each, smaller ones packed in the first word.
    ///
    /// # Safety
    /// The prior values exist where beta is not 0.
    unsafe fn pair<S: Sum>(p: &StoreParams, sums: [S; 2], first: u64, second: u64) -> [u32; 2];
}

macro_rules! target {
    ($name:ident, $element:ty, $bytes:literal, |$low:ident, $high:ident| $words:expr) => {
        struct $name;

        impl Target for $name {
            const BYTES: u32 = $bytes;

            #[inline(always)]
            unsafe fn pair<S: Sum>(p: &StoreParams, sums: [S; 2], first: u64, second: u64) -> [u32; 2] {
                let (alpha, beta) = (p.alpha as f32, p.beta as f32);
                let (mut $low, mut $high) = (alpha * sums[0].to_f32(), alpha * sums[1].to_f32());
                if beta != 0.0 {
                    $low += beta * Element::to_f64(*(first as *const $element)) as f32;
                    $high += beta * Element::to_f64(*(second as *const $element)) as f32;
                }
                $words
            }
        }
    };
}

target!(Single, f32, 4, |low, high| [low.to_bits(), high.to_bits()]);
target!(Half, f16, 2, |low, high| [convert::f16x2_from_f32(low, high), 0]);
target!(Brain, bf16, 2, |low, high| [convert::bf16x2_from_f32(low, high), 0]);
target!(E4m3, f8e4m3, 1, |low, high| [u32::from(convert::e4m3x2_from_f32(low, high)), 0]);
target!(E5m2, f8e5m2, 1, |low, high| [u32::from(convert::e5m2x2_from_f32(low, high)), 0]);
target!(Byte, i8, 1, |low, high| [
    convert::i8_from_f32(low) as u32 & 0xff | (convert::i8_from_f32(high) as u32 & 0xff) << 8,
    0
]);

/// `i32`: the sums as they are, or rounded once from `f64`, which has all of them.
struct Word;

impl Target for Word {
    const BYTES: u32 = 4;

    #[inline(always)]
    unsafe fn pair<S: Sum>(p: &StoreParams, sums: [S; 2], first: u64, second: u64) -> [u32; 2] {
        if let (Some(low), Some(high)) = (sums[0].to_i32(), sums[1].to_i32())
            && p.alpha == 1.0
            && p.beta == 0.0
        {
            return [low as u32, high as u32];
        }
        let (mut low, mut high) = (p.alpha * sums[0].to_f64(), p.alpha * sums[1].to_f64());
        if p.beta != 0.0 {
            low += p.beta * (*(first as *const i32)) as f64;
            high += p.beta * (*(second as *const i32)) as f64;
        }
        [convert::i32_from_f64(low) as u32, convert::i32_from_f64(high) as u32]
    }
}

/// Stores a thread's sums of a tile of 64 rows.
///
/// `rows` are the addresses of column 0 of the thread's two rows, 0 where there is none; `first_col` is the tile's first
/// column, of `n_cols`.
///
/// # Safety
/// All threads of the warp call it; the rows have so many columns, laid out as `p` says.
#[inline(always)]
pub unsafe fn store<P: Product<R>, const R: usize>(
    p: &StoreParams,
    rows: [u64; 2],
    first_col: u32,
    n_cols: u32,
    sums: &[P::Sum; R],
) {
    const I8: u32 = DType::I8 as u32;
    const I32: u32 = DType::I32 as u32;
    const F16: u32 = DType::F16 as u32;
    const BF16: u32 = DType::BF16 as u32;
    const F8E4M3: u32 = DType::F8E4M3 as u32;
    const F8E5M2: u32 = DType::F8E5M2 as u32;
    let at = Place { rows, first_col, n_cols };
    let outputs = P::OUTPUTS;
    if outputs as u32 == Outputs::Integer as u32 && p.dtype == I8 {
        return columns::<P::Sum, Byte, R>(p, &at, sums);
    }
    if outputs as u32 == Outputs::Integer as u32 && p.dtype == I32 {
        return columns::<P::Sum, Word, R>(p, &at, sums);
    }
    if outputs as u32 == Outputs::Fp8 as u32 {
        match p.dtype {
            F16 => return columns::<P::Sum, Half, R>(p, &at, sums),
            BF16 => return columns::<P::Sum, Brain, R>(p, &at, sums),
            F8E4M3 => return columns::<P::Sum, E4m3, R>(p, &at, sums),
            F8E5M2 => return columns::<P::Sum, E5m2, R>(p, &at, sums),
            _ => {}
        }
    }
    columns::<P::Sum, Single, R>(p, &at, sums)
}

/// Where a thread's sums go.
struct Place {
    rows: [u64; 2],
    first_col: u32,
    n_cols: u32,
}

/// All columns, 64 at a time.
#[inline(always)]
unsafe fn columns<S: Sum, T: Target, const R: usize>(p: &StoreParams, at: &Place, sums: &[S; R]) {
    panel::<S, T, R, 0>(p, at, sums);
    if R > 32 {
        panel::<S, T, R, 1>(p, at, sums);
    }
    if R > 64 {
        panel::<S, T, R, 2>(p, at, sums);
        panel::<S, T, R, 3>(p, at, sums);
    }
}

/// The `N`-th 64 columns of both rows.
#[inline(always)]
unsafe fn panel<S: Sum, T: Target, const R: usize, const N: usize>(p: &StoreParams, at: &Place, sums: &[S; R]) {
    half::<S, T, R, N, 0>(p, at, sums);
    half::<S, T, R, N, 1>(p, at, sums);
}

/// Those of one of the rows.
#[inline(always)]
unsafe fn half<S: Sum, T: Target, const R: usize, const N: usize, const H: usize>(
    p: &StoreParams,
    at: &Place,
    sums: &[S; R],
) {
    let lane = thread::thread_idx_x() % 4;
    let first = at.first_col + 64 * N as u32;
    let row = at.rows[H];
    let mut pairs = [[0u32; 2]; 8];
    let mut group = 0;
    while group < 8 {
        let i = (4 * (8 * N + group) + 2 * H) % R;
        let col = first + 8 * group as u32 + 2 * lane;
        if row != 0 && col < at.n_cols {
            let next = if col + 1 < at.n_cols { col + 1 } else { col };
            let (this, next) = (element::<T>(p, row, col), element::<T>(p, row, next));
            pairs[group] = T::pair(p, [*sums.get_unchecked(i), *sums.get_unchecked(i + 1)], this, next);
            if T::BYTES == 4 && p.whole != 0 {
                *(this as *mut X2<u32>) = X2(pairs[group]);
            } else if p.whole == 0 {
                apart::<T>(pairs[group], this, next);
            }
        }
        group += 1;
    }
    if T::BYTES == 4 || p.whole == 0 {
        return;
    }
    if T::BYTES == 2 {
        // Four groups of eight columns: each lane takes one.
        let mut quarter = 0;
        while quarter < 2 {
            let words = [0, 1, 2, 3].map(|i| pairs[4 * quarter + i][0]);
            let words = transposed(lane, words);
            let col = first + 8 * (4 * quarter as u32 + lane);
            if row != 0 && col < at.n_cols {
                *(element::<T>(p, row, col) as *mut X4<u32>) = X4(words);
            }
            quarter += 1;
        }
        return;
    }
    // Eight groups of eight columns: each lane takes two neighbours.
    let words = [0, 1, 2, 3].map(|i| pairs[2 * i][0] & 0xffff | pairs[2 * i + 1][0] << 16);
    let [a, b, c, d] = transposed(lane, words);
    let low = |x: u32, y: u32| x & 0xffff | y << 16;
    let high = |x: u32, y: u32| x >> 16 | y & 0xffff_0000;
    let col = first + 16 * lane;
    if row != 0 && col < at.n_cols {
        *(element::<T>(p, row, col) as *mut X4<u32>) = X4([low(a, b), low(c, d), high(a, b), high(c, d)]);
    }
}

/// Address of an element of a row.
#[inline(always)]
fn element<T: Target>(p: &StoreParams, row: u64, col: u32) -> u64 {
    row.wrapping_add((i64::from(col) * p.col_stride) as u64 * u64::from(T::BYTES))
}

/// Stores two neighbours one by one; the second's address is the first's where there is none.
#[inline(always)]
unsafe fn apart<T: Target>(pair: [u32; 2], first: u64, second: u64) {
    if T::BYTES == 4 {
        *(first as *mut u32) = pair[0];
    } else if T::BYTES == 2 {
        *(first as *mut u16) = pair[0] as u16;
    } else {
        *(first as *mut u8) = pair[0] as u8;
    }
    if second == first {
        return;
    }
    if T::BYTES == 4 {
        *(second as *mut u32) = pair[1];
    } else if T::BYTES == 2 {
        *(second as *mut u16) = (pair[0] >> 16) as u16;
    } else {
        *(second as *mut u8) = (pair[0] >> 8) as u8;
    }
}

/// Word `lane` of each of four neighbouring lanes.
#[inline(always)]
fn transposed(lane: u32, [w0, w1, w2, w3]: [u32; 4]) -> [u32; 4] {
    let odd = lane & 1 != 0;
    let (from0, from1) =
        (warp::shuffle_xor(if odd { w0 } else { w1 }, 1), warp::shuffle_xor(if odd { w2 } else { w3 }, 1));
    // Words of this lane's parity, of the even and the odd lane of its pair.
    let (a0, a1) = if odd { (from0, w1) } else { (w0, from0) };
    let (a2, a3) = if odd { (from1, w3) } else { (w2, from1) };
    let upper = lane & 2 != 0;
    let (b0, b1) =
        (warp::shuffle_xor(if upper { a0 } else { a2 }, 2), warp::shuffle_xor(if upper { a1 } else { a3 }, 2));
    if upper { [b0, b1, a2, a3] } else { [a0, a1, b0, b1] }
}
