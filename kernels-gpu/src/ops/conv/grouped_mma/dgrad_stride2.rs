//! `dgrad` with stride 2 and dilation 1.
//!
//! Elements of dx are of four kinds, by whether their rows and columns are even or odd with the padding counted: they
//! meet the taps {0, 2} or {1} of each axis. A cell of 2 × 2 elements holds one of each kind and needs 2 × 2 pixels of
//! dy for all nine taps.

use super::forward::{Rows, each_rows, source_part, window_address};
use super::{CHUNK_BYTES, TAPS};
use crate::math::tensor_core::TensorCore;
use cuda_std::ldmatrix;
use kernel_abi::ops::conv::grouped_mma::{GROUPED_PIXEL_BYTES, GroupedMmaParams};

/// The gradient by x; `WIDTH` and `STEPS` as in [`forward`](super::forward).
///
/// # Safety
/// The host passes live tensors of the extents in `p`, and a tiling that fits the shared memory of the launch.
#[inline(always)]
pub(crate) unsafe fn dgrad_stride2<T: TensorCore, const WIDTH: u32, const STEPS: usize>(p: &GroupedMmaParams) {
    each_rows::<WIDTH, STEPS>(p, true, |rows| cells::<T, WIDTH, STEPS>(p, rows));
}

/// Computes and writes 16 cells of a warp's channels.
///
/// # Safety
/// As [`dgrad_stride2`].
#[inline(always)]
unsafe fn cells<T: TensorCore, const WIDTH: u32, const STEPS: usize>(
    p: &GroupedMmaParams,
    Rows { filters, output, base, stage, row, part }: Rows<'_, STEPS>,
) {
    let window = window_address(p, base, stage, row, source_part::<WIDTH>(part));
    // Pixels of dy up and left, up, left of, and at the one that taps 0 and 1 meet.
    let down = p.row_bytes;
    let pixels = [window, window + GROUPED_PIXEL_BYTES, window + down, window + down + GROUPED_PIXEL_BYTES];
    let mut sums = [[0.0; 4]; 2];
    pair::<T, WIDTH, STEPS, 0, 8>(&mut sums, filters, pixels[3], pixels[0]);
    pair::<T, WIDTH, STEPS, 2, 6>(&mut sums, filters, pixels[2], pixels[1]);
    output.write::<T, WIDTH>(p, &sums, row, 0, 0);
    let mut sums = [[0.0; 4]; 2];
    pair::<T, WIDTH, STEPS, 1, 7>(&mut sums, filters, pixels[3], pixels[1]);
    output.write::<T, WIDTH>(p, &sums, row, 0, 1);
    let mut sums = [[0.0; 4]; 2];
    pair::<T, WIDTH, STEPS, 3, 5>(&mut sums, filters, pixels[3], pixels[2]);
    output.write::<T, WIDTH>(p, &sums, row, 1, 0);
    let mut sums = [[0.0; 4]; 2];
    single::<T, WIDTH, STEPS, 4>(&mut sums, filters, pixels[3]);
    output.write::<T, WIDTH>(p, &sums, row, 1, 1);
}

/// Adds the products of two taps with the pixels at an address each.
///
/// # Safety
/// As [`dgrad_stride2`]; the addresses are this lane's rows.
#[inline(always)]
unsafe fn pair<T: TensorCore, const WIDTH: u32, const STEPS: usize, const A: usize, const B: usize>(
    sums: &mut [[f32; 4]; 2],
    filters: &[[[u32; STEPS]; 2]; TAPS],
    a: u32,
    b: u32,
) {
    if WIDTH == 8 {
        let (a, b) = (ldmatrix::load_x4(a), ldmatrix::load_x4(b));
        T::multiply(&mut sums[0], [a[0], a[1], b[0], b[1]], [filters[A][0][0], filters[B][0][0]]);
        T::multiply(&mut sums[1], [a[2], a[3], b[2], b[3]], [filters[A][1][0], filters[B][1][0]]);
    } else {
        single::<T, WIDTH, STEPS, A>(sums, filters, a);
        single::<T, WIDTH, STEPS, B>(sums, filters, b);
    }
}

/// Adds the products of one tap.
///
/// # Safety
/// As [`pair`].
#[inline(always)]
unsafe fn single<T: TensorCore, const WIDTH: u32, const STEPS: usize, const TAP: usize>(
    sums: &mut [[f32; 4]; 2],
    filters: &[[[u32; STEPS]; 2]; TAPS],
    at: u32,
) {
    let a = ldmatrix::load_x4(at);
    if WIDTH == 8 {
        T::multiply(&mut sums[0], [a[0], a[1], 0, 0], [filters[TAP][0][0], 0]);
        T::multiply(&mut sums[1], [a[2], a[3], 0, 0], [filters[TAP][1][0], 0]);
        return;
    }
    T::multiply(&mut sums[0], a, [filters[TAP][0][0], filters[TAP][0][1 % STEPS]]);
    T::multiply(&mut sums[1], a, [filters[TAP][1][0], filters[TAP][1][1 % STEPS]]);
    if WIDTH == 32 {
        let a = ldmatrix::load_x4(at + 2 * CHUNK_BYTES);
        T::multiply(&mut sums[0], a, [filters[TAP][0][2 % STEPS], filters[TAP][0][3 % STEPS]]);
        T::multiply(&mut sums[1], a, [filters[TAP][1][2 % STEPS], filters[TAP][1][3 % STEPS]]);
    }
}
