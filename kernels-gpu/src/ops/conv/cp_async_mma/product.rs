//! The products of a warp from one stage.

use super::super::grouped_mma::unroll;
use crate::math::tensor_core::TensorCore;
use cuda_std::ldmatrix;
use cuda_std::thread::thread_idx_x;
use kernel_abi::ops::conv::cp_async_mma::{CP_ASYNC_ROW_BYTES, CpAsyncTile};

/// A warp's sums: `ROWS` times 16 rows, 4 times 8 columns.
pub(super) type Sums<const ROWS: usize> = [[[f32; 4]; 4]; ROWS];

/// Columns of a warp.
pub(super) const WARP_COLUMNS: u32 = 32;

/// First row and column of a warp in the block's tile: two rows of warps.
#[inline(always)]
pub(super) fn warp_place<const SIZE: u32>(warp: u32) -> [u32; 2] {
    [warp / (SIZE / WARP_COLUMNS) * (SIZE / 2), warp % (SIZE / WARP_COLUMNS) * WARP_COLUMNS]
}

/// Adds the products of a stage. `A_WIDE` and `B_WIDE` tell which operand's rows lie along the sums: a stage holds the
/// rows' operand first.
///
/// # Safety
/// `a` and `b` are tiles in shared memory; all lanes call it.
#[inline(always)]
pub(super) unsafe fn multiply<
    T: TensorCore,
    const SIZE: u32,
    const ROWS: usize,
    const A_WIDE: bool,
    const B_WIDE: bool,
>(
    sums: &mut Sums<ROWS>,
    a: u32,
    b: u32,
    [row, column]: [u32; 2],
) {
    let wide = CpAsyncTile(SIZE).wide_row_bytes();
    let lane = thread_idx_x() % 32;
    let (low, middle, high) = (lane % 8, lane / 8 % 2, lane / 16);
    // Where this lane's row of the first 8 × 8 matrices lies, and how far it is to the next 16 along either dimension.
    let (a_first, a_next, a_step) = if A_WIDE {
        (a + (low + 8 * high) * wide + 2 * (row + 8 * middle), 32, 16 * wide)
    } else {
        (a + (row + low + 8 * middle) * CP_ASYNC_ROW_BYTES + 16 * high, 16 * CP_ASYNC_ROW_BYTES, 32)
    };
    let (b_first, b_next, b_step) = if B_WIDE {
        (b + (low + 8 * middle) * wide + 2 * (column + 8 * high), 32, 16 * wide)
    } else {
        (b + (column + low + 8 * high) * CP_ASYNC_ROW_BYTES + 16 * middle, 16 * CP_ASYNC_ROW_BYTES, 32)
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
