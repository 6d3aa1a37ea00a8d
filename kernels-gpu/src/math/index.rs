//! From a linear index to offsets in strided tensors.

use cuda_std::thread;
use kernel_abi::{MAX_RANK, TensorParam};

/// Calls `body` with every index below `n` that is this thread's: a grid-stride loop.
#[inline(always)]
pub fn for_each_index(n: i64, mut body: impl FnMut(i64)) {
    let step = thread::grid_threads_1d() as i64;
    let mut i = thread::index_1d() as i64;
    while i < n {
        body(i);
        i += step;
    }
}

/// Quotient and remainder; in 32 bits where both fit, which is several times faster.
#[inline(always)]
pub fn div_rem(a: i64, b: i64) -> (i64, i64) {
    if (a | b) >> 32 == 0 {
        let (a, b) = (a as u32, b as u32);
        // SAFETY: extents are at least 1.
        unsafe {
            let q = core::intrinsics::unchecked_div(a, b);
            ((q) as i64, (a - q * b) as i64)
        }
    } else {
        // SAFETY: extents are at least 1, and neither number is negative.
        unsafe {
            let q = core::intrinsics::unchecked_div(a as u64, b as u64) as i64;
            (q, a - q * b)
        }
    }
}

/// Offsets of the element with row-major index `linear` in tensors of the same extents, unused dimensions first.
#[inline(always)]
pub fn offsets<const N: usize>(tensors: [&TensorParam; N], linear: i64) -> [i64; N] {
    let mut offsets = [0; N];
    let mut rest = linear;
    let mut dim = MAX_RANK;
    while dim > 0 && rest > 0 {
        dim -= 1;
        // SAFETY: `dim` is below MAX_RANK, and `t` below N.
        unsafe {
            let (quotient, index) = div_rem(rest, *tensors.get_unchecked(0).dims.get_unchecked(dim));
            rest = quotient;
            let mut t = 0;
            while t < N {
                *offsets.get_unchecked_mut(t) += index * *tensors.get_unchecked(t).strides.get_unchecked(dim);
                t += 1;
            }
        }
    }
    offsets
}
