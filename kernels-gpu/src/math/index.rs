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

/// Quotient and remainder of a division by an extent: `kernel_abi::division::div_rem` less its check, for which some
/// kernels have no register left.
#[inline(always)]
pub fn div_rem_u32(a: u32, b: u32) -> (u32, u32) {
    // SAFETY: extents are at least 1.
    let quotient = unsafe { core::intrinsics::unchecked_div(a, b) };
    (quotient, a - quotient * b)
}

/// Quotient and remainder of a division by an extent; in 32 bits where both fit, which is several times faster.
#[inline(always)]
pub fn div_rem(a: i64, b: i64) -> (i64, i64) {
    if (a | b) >> 32 == 0 {
        let (quotient, rest) = div_rem_u32(a as u32, b as u32);
        (i64::from(quotient), i64::from(rest))
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

/// The same for rows, of which each thread has one: most often they lie along one dimension, and nothing is divided.
#[inline(always)]
pub fn row_offsets<const N: usize>(tensors: [&TensorParam; N], row: i64) -> [i64; N] {
    let mut offsets = [0; N];
    let mut rest = row;
    let mut dim = MAX_RANK;
    while dim > 0 && rest > 0 {
        dim -= 1;
        // SAFETY: `dim` is below MAX_RANK, and `t` below N.
        unsafe {
            let extent = *tensors.get_unchecked(0).dims.get_unchecked(dim);
            if extent == 1 {
                continue;
            }
            let (quotient, index) = if rest < extent { (0, rest) } else { div_rem(rest, extent) };
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

/// Indices of an element of a tensor `[N, C, D, H, W]`.
pub struct Spatial {
    /// Image.
    pub n: i64,
    /// Channel.
    pub c: i64,
    /// Depth, height, width.
    pub at: [i64; 3],
}

/// Takes a linear index apart, channels or positions running fastest.
#[inline(always)]
pub fn spatial(linear: i64, channels: i64, extents: [i64; 3], channels_innermost: bool) -> Spatial {
    let (mut rest, mut c) = (linear, 0);
    if channels_innermost {
        (rest, c) = div_rem(rest, channels);
    }
    let (rest, w) = div_rem(rest, extents[2]);
    let (rest, h) = div_rem(rest, extents[1]);
    let (mut rest, d) = div_rem(rest, extents[0]);
    if !channels_innermost {
        (rest, c) = div_rem(rest, channels);
    }
    Spatial { n: rest, c, at: [d, h, w] }
}

/// Offset of a position in a tensor `[N, C, D, H, W]`.
#[inline(always)]
pub fn spatial_offset(tensor: &TensorParam, at: [i64; 3]) -> i64 {
    at[0] * tensor.strides[2] + at[1] * tensor.strides[3] + at[2] * tensor.strides[4]
}
