//! 16-bit elements: fragments by `ldmatrix`, products of 16 × 8 × 16.

use super::super::grouped_mma::unroll;
use super::{GradientTile, NO_PIXEL, Sums, TileElement};
use crate::math::tensor_core::TensorCore;
use cuda_std::thread::thread_idx_x;
use cuda_std::{cp_async, ldmatrix, shared};
use kernel_abi::ops::conv::cp_async_mma::{CpAsyncMmaParams, CpAsyncTile};

impl<T: TensorCore> TileElement for T {
    const BYTES: u32 = 2;

    #[inline(always)]
    fn wait_for_stage() {
        cp_async::wait_group::<2>()
    }

    #[inline(always)]
    fn column_of_row(row: u32) -> u32 {
        row
    }

    #[inline(always)]
    unsafe fn multiply<const SIZE: u32, const ROWS: usize, const A_WIDE: bool, const B_WIDE: bool>(
        sums: &mut Sums<ROWS>,
        a: u32,
        b: u32,
        warp: [u32; 2],
        _: u32,
    ) {
        multiply::<T, SIZE, ROWS, A_WIDE, B_WIDE>(sums, a, b, warp)
    }

    #[inline(always)]
    unsafe fn again<const ROWS: usize>(_: &Sums<ROWS>, _: u32) -> bool {
        false
    }

    #[inline(always)]
    unsafe fn write<const SIZE: u32, const ROWS: usize>(
        p: &CpAsyncMmaParams,
        sums: &Sums<ROWS>,
        outputs_at: u32,
        warp: [u32; 2],
        group: u32,
        first_channel: u32,
    ) {
        write::<T, ROWS>(p, sums, outputs_at, warp, group, first_channel)
    }

    /// Kernels of 16 bits have copies of a given size, and so none of these columns.
    #[inline(always)]
    unsafe fn write_spread<const SIZE: u32, const ROWS: usize>(
        _: &CpAsyncMmaParams,
        _: &Sums<ROWS>,
        _: u32,
        _: [u32; 2],
        _: u32,
        _: u32,
    ) {
    }

    #[inline(always)]
    unsafe fn write_slab<const SIZE: u32, const ROWS: usize>(
        p: &CpAsyncMmaParams,
        sums: &Sums<ROWS>,
        slab: u32,
        place: GradientTile,
        [row, column]: [u32; 2],
    ) {
        let first = [place.first_channel + row, place.first_element + column];
        write_partials::<ROWS>(p, sums, slab, place.group, first)
    }
}

/// Adds the products of a stage. `A_WIDE` and `B_WIDE` tell which operand's rows lie along the sums: a stage holds the
/// rows' operand first.
///
/// # Safety
/// `a` and `b` are tiles in shared memory; all lanes call it.
#[inline(always)]
unsafe fn multiply<T: TensorCore, const SIZE: u32, const ROWS: usize, const A_WIDE: bool, const B_WIDE: bool>(
    sums: &mut Sums<ROWS>,
    a: u32,
    b: u32,
    [row, column]: [u32; 2],
) {
    let tile = CpAsyncTile::new(SIZE, 2);
    let (wide, narrow) = (tile.wide_row_bytes(), tile.row_bytes());
    let lane = thread_idx_x() % 32;
    let (low, middle, high) = (lane % 8, lane / 8 % 2, lane / 16);
    // Where this lane's row of the first 8 × 8 matrices lies, and how far it is to the next 16 along either dimension.
    let (a_first, a_next, a_step) = if A_WIDE {
        (a + (low + 8 * high) * wide + 2 * (row + 8 * middle), 32, 16 * wide)
    } else {
        (a + (row + low + 8 * middle) * narrow + 16 * high, 16 * narrow, 32)
    };
    let (b_first, b_next, b_step) = if B_WIDE {
        (b + (low + 8 * middle) * wide + 2 * (column + 8 * high), 32, 16 * wide)
    } else {
        (b + (column + low + 8 * high) * narrow + 16 * middle, 16 * narrow, 32)
    };
    unroll!(STEP in [0 1] {
        let step = STEP as u32;
        let mut columns = [[0u32; 4]; 2];
        unroll!(J in [0 1] {
            let at = b_first + step * b_step + J as u32 * b_next;
            columns[J] = if B_WIDE { ldmatrix::load_x4_transposed(at) } else { ldmatrix::load_x4(at) };
        });
        unroll!(I in [0 1 2 3] {
            if I < ROWS {
                let at = a_first + step * a_step + I as u32 * a_next;
                let rows = if A_WIDE { ldmatrix::load_x4_transposed(at) } else { ldmatrix::load_x4(at) };
                let sums = &mut sums[I % ROWS];
                unroll!(J in [0 1] {
                    T::multiply(&mut sums[2 * J], rows, [columns[J][0], columns[J][1]]);
                    T::multiply(&mut sums[2 * J + 1], rows, [columns[J][2], columns[J][3]]);
                });
            }
        });
    });
}

/// Writes a warp's sums.
///
/// # Safety
/// As [`super::fprop`]; the table of outputs is filled.
#[inline(always)]
unsafe fn write<T: TensorCore, const ROWS: usize>(
    p: &CpAsyncMmaParams,
    sums: &Sums<ROWS>,
    outputs_at: u32,
    [row, column]: [u32; 2],
    group: u32,
    first_channel: u32,
) {
    let lane = thread_idx_x() % 32;
    let channels = u64::from(p.groups * p.target_group);
    unroll!(I in [0 1 2 3] {
        if I < ROWS {
            unroll!(LOWER in [0 1] {
                let pixel = shared::load_u32(outputs_at + 4 * (row + 16 * I as u32 + 8 * LOWER as u32 + lane / 4));
                let first = p.target + 2 * (u64::from(pixel) * channels + u64::from(group * p.target_group));
                unroll!(J in [0 1 2 3] {
                    let channel = first_channel + column + 8 * J as u32 + lane % 4 * 2;
                    let sums = [sums[I % ROWS][J][2 * LOWER], sums[I % ROWS][J][2 * LOWER + 1]];
                    if pixel != NO_PIXEL {
                        write_pair::<T>(p, first + 2 * u64::from(channel), channel, sums);
                    }
                });
            });
        }
    });
}

/// Writes two neighbouring channels of a group, as far as there are.
///
/// # Safety
/// `at` is the place of channel `channel` of the target.
#[inline(always)]
unsafe fn write_pair<T: TensorCore>(p: &CpAsyncMmaParams, at: u64, channel: u32, sums: [f32; 2]) {
    let mut pair = [p.alpha * sums[0], p.alpha * sums[1]];
    if p.wide_stores != 0 {
        if channel < p.target_group {
            let to = at as *mut u32;
            if p.beta != 0.0 {
                let prior = T::unpack(*to);
                pair = [pair[0] + p.beta * prior[0], pair[1] + p.beta * prior[1]];
            }
            *to = T::pack(pair[0], pair[1]);
        }
        return;
    }
    unroll!(I in [0 1] {
        if channel + (I as u32) < p.target_group {
            let to = (at as *mut T).add(I);
            if p.beta != 0.0 {
                pair[I] += p.beta * (*to).widen();
            }
            *to = T::narrow(pair[I]);
        }
    });
}

/// Writes a warp's sums.
///
/// # Safety
/// As [`super::wgrad`].
#[inline(always)]
unsafe fn write_partials<const ROWS: usize>(
    p: &CpAsyncMmaParams,
    sums: &Sums<ROWS>,
    slab: u32,
    group: u32,
    [row, column]: [u32; 2],
) {
    let lane = thread_idx_x() % 32;
    let length = p.taps() * p.source_group;
    let slab_elems = u64::from(p.groups * p.target_group) * u64::from(length);
    let slab = (p.partials as *mut f32).add((u64::from(slab) * slab_elems) as usize);
    unroll!(I in [0 1 2 3] {
        if I < ROWS {
            unroll!(J in [0 1 2 3] {
                unroll!(E in [0 1 2 3] {
                    let channel = row + 16 * I as u32 + 8 * (E / 2) as u32 + lane / 4;
                    let element = column + 8 * J as u32 + lane % 4 * 2 + (E % 2) as u32;
                    if channel < p.target_group && element < length {
                        let at = u64::from(group * p.target_group + channel) * u64::from(length) + u64::from(element);
                        *slab.add(at as usize) = sums[I % ROWS][J][E];
                    }
                });
            });
        }
    });
}
