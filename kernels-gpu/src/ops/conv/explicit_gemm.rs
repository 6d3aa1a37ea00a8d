//! Images to the matrix of their windows, and back: see `kernel_abi::ops::conv`'s [`ConvWindowsParams`].
//!
//! Grid: one-dimensional, a thread for each unit. Block: 256.

use cuda_std::memory;
use cuda_std::thread::{block_dim_x, block_idx_x, thread_idx_x};
use kernel_abi::ops::conv::ConvWindowsParams;

/// What a thread copies.
pub trait Unit {
    const BYTES: u64;

    /// Copies one, or stores zero where there is none.
    ///
    /// # Safety
    /// Both addresses are those of units, `from` where there is one.
    unsafe fn copy(from: Option<u64>, to: u64);
}

macro_rules! scalar_units {
    ($($bits:ident),*) => { $(
        impl Unit for $bits {
            const BYTES: u64 = size_of::<$bits>() as u64;

            #[inline(always)]
            unsafe fn copy(from: Option<u64>, to: u64) {
                *(to as *mut $bits) = match from {
                    Some(from) => *(from as *const $bits),
                    None => 0,
                };
            }
        }
    )* };
}

scalar_units!(u16, u32);

/// 16 bytes.
pub struct Vector;

impl Unit for Vector {
    const BYTES: u64 = 16;

    #[inline(always)]
    unsafe fn copy(from: Option<u64>, to: u64) {
        let value = match from {
            Some(from) => memory::load_x4(from as *const u32),
            None => [0; 4],
        };
        memory::store_x4(to as *mut u32, value);
    }
}

/// This thread's number, where it has work.
#[inline(always)]
fn number(p: &ConvWindowsParams) -> Option<u32> {
    let index = block_idx_x() * block_dim_x() + thread_idx_x();
    if index < p.n_units { Some(index) } else { None }
}

/// A unit of the windows, from the image, or zero outside of it.
///
/// # Safety
/// The host passes live tensors of these extents.
#[inline(always)]
pub unsafe fn gather<T: Unit>(p: &ConvWindowsParams) {
    let Some(index) = number(p) else { return };
    let (outer, inner) = p.inner.div_rem(index);
    let (row, column) = if p.channels_inside != 0 { (outer, inner) } else { (inner, outer) };
    let (rest, q) = p.output[2].div_rem(row);
    let (rest, i) = p.output[1].div_rem(rest);
    let (n, z) = p.output[0].div_rem(rest);
    let (taps, c) = if p.taps_outside != 0 { p.group_channels.div_rem(column) } else { (column, 0) };
    let (rest, s) = p.filter[2].div_rem(taps);
    let (rest, r) = p.filter[1].div_rem(rest);
    let (rest, t) = p.filter[0].div_rem(rest);
    // What is left is the group, or the channel of all groups.
    let c = if p.taps_outside != 0 { rest * p.group_channels.divisor + c } else { rest };
    let at = [met(p, 0, z, t), met(p, 1, i, r), met(p, 2, q, s)];
    let to = i64::from(row) * p.window_strides[0] + i64::from(column) * p.window_strides[1];
    let to = p.windows + to as u64 * T::BYTES;
    // Positions below 0 are large as unsigned numbers.
    let inside = at[0] < p.extents[0].divisor && at[1] < p.extents[1].divisor && at[2] < p.extents[2].divisor;
    let from = if inside { Some(p.image + offset(p, n, c, at) * T::BYTES) } else { None };
    T::copy(from, to);
}

/// The position of an image that a tap of an output position meets.
#[inline(always)]
fn met(p: &ConvWindowsParams, axis: usize, output: u32, tap: u32) -> u32 {
    let (stride, step) = (p.stride[axis].divisor as i32, p.step[axis]);
    (output as i32 * stride + tap as i32 * step + p.origin[axis]) as u32
}

#[inline(always)]
fn offset(p: &ConvWindowsParams, n: u32, c: u32, at: [u32; 3]) -> u64 {
    let strides = &p.image_strides;
    let offset = i64::from(n) * strides[0] + i64::from(c) * strides[1];
    let plane = i64::from(at[0]) * strides[2] + i64::from(at[1]) * strides[3] + i64::from(at[2]) * strides[4];
    (offset + plane) as u64
}

/// An element of dx: the sum over all windows that have it.
///
/// # Safety
/// As [`gather`].
#[inline(always)]
pub unsafe fn add<T>(p: &ConvWindowsParams) {
    let Some(index) = number(p) else { return };
    let (rest, c) = if p.channels_inside != 0 { p.channels.div_rem(index) } else { (index, 0) };
    let (rest, w) = p.extents[2].div_rem(rest);
    let (rest, h) = p.extents[1].div_rem(rest);
    let (rest, d) = p.extents[0].div_rem(rest);
    let (n, c) = if p.channels_inside != 0 { (rest, c) } else { p.channels.div_rem(rest) };
    let (group, group_c) = p.group_channels.div_rem(c);
    // The column of the first tap, and from tap to tap.
    let n_taps = p.filter[0].divisor * p.filter[1].divisor * p.filter[2].divisor;
    let (first, tap_columns) = if p.taps_outside != 0 {
        (group * n_taps * p.group_channels.divisor + group_c, p.group_channels.divisor)
    } else {
        (c * n_taps, 1)
    };
    let mut sum = 0.0f32;
    let mut column = first;
    let mut t = 0;
    while t < p.filter[0].divisor {
        let z = output(p, 0, d, t);
        let mut r = 0;
        while r < p.filter[1].divisor {
            let i = output(p, 1, h, r);
            let mut s = 0;
            while s < p.filter[2].divisor {
                let q = output(p, 2, w, s);
                if let (Some(z), Some(i), Some(q)) = (z, i, q) {
                    let row = ((n * p.output[0].divisor + z) * p.output[1].divisor + i) * p.output[2].divisor + q;
                    let at = i64::from(row) * p.window_strides[0] + i64::from(column) * p.window_strides[1];
                    sum += *((p.windows + at as u64 * 4) as *const f32);
                }
                column += tap_columns;
                s += 1;
            }
            r += 1;
        }
        t += 1;
    }
    let to = (p.image + offset(p, n, c, [d, h, w]) * 4) as *mut f32;
    let sum = p.alpha * sum;
    *to = if p.beta == 0.0 { sum } else { sum + p.beta * *to };
}

/// The output position of which a tap meets a position of the image.
#[inline(always)]
fn output(p: &ConvWindowsParams, axis: usize, position: u32, tap: u32) -> Option<u32> {
    let ahead = position as i32 - p.origin[axis] - tap as i32 * p.step[axis];
    if ahead < 0 {
        return None;
    }
    let (output, between) = p.stride[axis].div_rem(ahead as u32);
    if between == 0 && output < p.output[axis].divisor { Some(output) } else { None }
}
