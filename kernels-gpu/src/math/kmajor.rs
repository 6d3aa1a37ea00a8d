//! Warpgroup products of operands that lie with the dimension of the sum contiguous, as all types but those of 16 bits
//! must, and the way of their sums to memory as elements of any type.
//!
//! A stage's tiles are rows of 128 bytes in the 128-byte swizzle, whatever the type: four instructions, of 32 bytes each.

use super::element::{Accumulator, Element, bf16, blend, f8e4m3, f8e5m2, f16};
use cuda_std::memory::{X2, X4};
use cuda_std::{convert, shared, thread, warp};
use kernel_abi::DType;
use kernel_abi::store::StoreParams;

/// What products are summed in.
pub trait Sum: Copy {
    fn to_f32(self) -> f32;
    fn to_f64(self) -> f64;
    /// As a word.
    fn bits(self) -> u32;
    /// From such a word.
    fn of_bits(bits: u32) -> Self;
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
    fn bits(self) -> u32 {
        self.to_bits()
    }
    #[inline(always)]
    fn of_bits(bits: u32) -> Self {
        f32::from_bits(bits)
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
    fn bits(self) -> u32 {
        self as u32
    }
    #[inline(always)]
    fn of_bits(bits: u32) -> Self {
        bits as i32
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

    /// Two neighbours, scaled: elements of 4 bytes in a word each, smaller ones packed in the first word.
    fn pair<S: Sum>(p: &StoreParams, sums: [S; 2]) -> [u32; 2];
}

macro_rules! target {
    ($name:ident, $bytes:literal, |$low:ident, $high:ident| $words:expr) => {
        struct $name;

        impl Target for $name {
            const BYTES: u32 = $bytes;

            #[inline(always)]
            fn pair<S: Sum>(p: &StoreParams, sums: [S; 2]) -> [u32; 2] {
                let alpha = p.alpha as f32;
                let ($low, $high) = (alpha * sums[0].to_f32(), alpha * sums[1].to_f32());
                $words
            }
        }
    };
}

target!(Single, 4, |low, high| [low.to_bits(), high.to_bits()]);
target!(Half, 2, |low, high| [convert::f16x2_from_f32(low, high), 0]);
target!(Brain, 2, |low, high| [convert::bf16x2_from_f32(low, high), 0]);
target!(E4m3, 1, |low, high| [u32::from(convert::e4m3x2_from_f32(low, high)), 0]);
target!(E5m2, 1, |low, high| [u32::from(convert::e5m2x2_from_f32(low, high)), 0]);
target!(Byte, 1, |low, high| [
    convert::i8_from_f32(low) as u32 & 0xff | (convert::i8_from_f32(high) as u32 & 0xff) << 8,
    0
]);

/// `i32`: the sums as they are.
struct Word;

impl Target for Word {
    const BYTES: u32 = 4;

    #[inline(always)]
    fn pair<S: Sum>(_: &StoreParams, sums: [S; 2]) -> [u32; 2] {
        [sums[0].bits(), sums[1].bits()]
    }
}

const I8: u32 = DType::I8 as u32;
const I32: u32 = DType::I32 as u32;
const F16: u32 = DType::F16 as u32;
const BF16: u32 = DType::BF16 as u32;
const F8E4M3: u32 = DType::F8E4M3 as u32;
const F8E5M2: u32 = DType::F8E5M2 as u32;

/// Bytes of shared memory of a warp that [`store`] uses: 16 rows of 32 sums.
pub const STAGING_BYTES: u32 = 16 * 32 * 4;

/// Stores a thread's sums of a tile of 64 rows.
///
/// `rows` are the addresses of column 0 of the thread's two rows, 0 where there is none; `first_col` is the tile's first
/// column, of `n_cols`; `staging` is the warp's own shared memory.
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
    staging: u32,
) {
    let at = Place { rows, first_col, n_cols };
    if p.whole == 0 {
        return one_by_one::<P, R>(p, &at, sums, staging);
    }
    let outputs = P::OUTPUTS as u32;
    if outputs == Outputs::Integer as u32 {
        match p.dtype {
            I8 => return columns::<P::Sum, Byte, R>(p, &at, sums),
            I32 => return columns::<P::Sum, Word, R>(p, &at, sums),
            _ => {}
        }
    }
    if outputs == Outputs::Fp8 as u32 {
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

/// All columns in whole accesses, 64 columns at a time: a straight line, since jumps cost more than what they would save.
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
    // Behind the last row, no column is.
    let (row, end) = (at.rows[H], if at.rows[H] != 0 { at.n_cols } else { 0 });
    let pair = |group: usize| -> [u32; 2] {
        let i = (4 * (8 * N + group) + 2 * H) % R;
        T::pair(p, [*sums.get_unchecked(i), *sums.get_unchecked(i + 1)])
    };
    if T::BYTES == 4 {
        let mut group = 0;
        while group < 8 {
            let (words, col) = (pair(group), first + 8 * group as u32 + 2 * lane);
            if col < end {
                *((row + u64::from(col) * 4) as *mut X2<u32>) = X2(words);
            }
            group += 1;
        }
    } else if T::BYTES == 2 {
        // Four groups of eight columns: each lane takes one.
        let mut quad = 0;
        while quad < 2 {
            let words = transposed(lane, [0, 1, 2, 3].map(|i| pair(4 * quad + i)[0]));
            let col = first + 8 * (4 * quad as u32 + lane);
            if col < end {
                *((row + u64::from(col) * 2) as *mut X4<u32>) = X4(words);
            }
            quad += 1;
        }
    } else {
        // Eight groups of eight columns: each lane takes two neighbours.
        let words = [0, 1, 2, 3].map(|i| pair(2 * i)[0] & 0xffff | pair(2 * i + 1)[0] << 16);
        let [a, b, c, d] = transposed(lane, words);
        let low = |x: u32, y: u32| x & 0xffff | y << 16;
        let high = |x: u32, y: u32| x >> 16 | y & 0xffff_0000;
        let col = first + 16 * lane;
        if col < end {
            *((row + u64::from(col)) as *mut X4<u32>) = X4([low(a, b), low(c, d), high(a, b), high(c, d)]);
        }
    }
}

/// All columns element by element, with prior values and any strides: through shared memory, so that the element and
/// its type are found while running, by little code.
#[inline(always)]
unsafe fn one_by_one<P: Product<R>, const R: usize>(p: &StoreParams, at: &Place, sums: &[P::Sum; R], staging: u32) {
    strip::<P, R, 0>(p, at, sums, staging);
    strip::<P, R, 1>(p, at, sums, staging);
    if R > 32 {
        strip::<P, R, 2>(p, at, sums, staging);
        strip::<P, R, 3>(p, at, sums, staging);
    }
    if R > 64 {
        strip::<P, R, 4>(p, at, sums, staging);
        strip::<P, R, 5>(p, at, sums, staging);
        strip::<P, R, 6>(p, at, sums, staging);
        strip::<P, R, 7>(p, at, sums, staging);
    }
}

/// The `N`-th 32 columns of the warp's 16 rows.
#[inline(always)]
unsafe fn strip<P: Product<R>, const R: usize, const N: usize>(
    p: &StoreParams,
    at: &Place,
    sums: &[P::Sum; R],
    staging: u32,
) {
    let lane = thread::thread_idx_x() % 32;
    // Who still reads the strip before must be done.
    warp::sync_warp();
    let mut group = 0;
    while group < 4 {
        let i = (4 * (4 * N + group)) % R;
        let to = staging + (lane / 4 * 32 + 8 * group as u32 + lane % 4 * 2) * 4;
        shared::store_u32(to, sums.get_unchecked(i).bits());
        shared::store_u32(to + 4, sums.get_unchecked(i + 1).bits());
        shared::store_u32(to + 8 * 32 * 4, sums.get_unchecked(i + 2).bits());
        shared::store_u32(to + 8 * 32 * 4 + 4, sums.get_unchecked(i + 3).bits());
        group += 1;
    }
    warp::sync_warp();
    let col = at.first_col + 32 * N as u32 + lane;
    // As far as the compiler knows any number: unrolled, this would be most of the kernel.
    let n_rows = warp::uniform(16);
    let mut r = 0;
    while r < n_rows {
        let row = if r < 8 { at.rows[0] } else { at.rows[1] };
        let from = r % 8 * 4;
        let (low, high) = (warp::shuffle(row as u32, from), warp::shuffle((row >> 32) as u32, from));
        let row = u64::from(high) << 32 | u64::from(low);
        if row != 0 && col < at.n_cols {
            let offset = i64::from(col) * p.col_stride * i64::from(p.element_bytes);
            let sum = P::Sum::of_bits(shared::load_u32(staging + (r * 32 + lane) * 4));
            element(p, P::OUTPUTS, row.wrapping_add(offset as u64), sum);
        }
        r += 1;
    }
}

/// Scales a sum, blends it with its prior value and stores it.
#[inline(always)]
unsafe fn element<S: Sum>(p: &StoreParams, outputs: Outputs, to: u64, sum: S) {
    let outputs = outputs as u32;
    if outputs == Outputs::Integer as u32 {
        match p.dtype {
            I8 => return put::<i8, S>(p, to, sum),
            I32 => return put::<i32, S>(p, to, sum),
            _ => {}
        }
    }
    if outputs == Outputs::Fp8 as u32 {
        match p.dtype {
            F16 => return put::<f16, S>(p, to, sum),
            BF16 => return put::<bf16, S>(p, to, sum),
            F8E4M3 => return put::<f8e4m3, S>(p, to, sum),
            F8E5M2 => return put::<f8e5m2, S>(p, to, sum),
            _ => {}
        }
    }
    put::<f32, S>(p, to, sum)
}

/// [`element`] of a type.
#[inline(always)]
unsafe fn put<T: Element, S: Sum>(p: &StoreParams, to: u64, sum: S) {
    blend::<T>(to, 0, T::Acc::from_f64(sum.to_f64()), p.alpha, p.beta);
}

/// Word `lane` of each of four neighbouring lanes.
#[inline(always)]
pub(crate) fn transposed(lane: u32, [w0, w1, w2, w3]: [u32; 4]) -> [u32; 4] {
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
