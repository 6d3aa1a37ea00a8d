//! Copies of inputs that tensor maps cannot describe: rows that are no multiples of 16 bytes, or strides of both matrix
//! dimensions.

use super::maps::Matrix;
use kernel_abi::ops::matmul::{MAX_BATCH_DIMS, MatmulPackParams};

/// An input's copy into the workspace.
#[derive(Debug)]
pub(super) struct Pack {
    /// Bytes of the copy.
    pub(super) bytes: u64,
    /// Complete but for addresses.
    pub(super) params: MatmulPackParams,
}

impl Pack {
    /// The copy of a batch of matrices with contiguous rows, and what it becomes: its matrix and batch strides. Matrices
    /// that repeat are copied once.
    pub(super) fn of(matrix: &Matrix, batch_strides: &[i64], batch_dims: &[i64]) -> (Self, Matrix, Vec<i64>) {
        let pitch = (matrix.cols as u64).next_multiple_of(MatmulPackParams::ELEMS.into());
        let mut params = MatmulPackParams {
            from: 0,
            to: 0,
            batch_strides: [0; MAX_BATCH_DIMS],
            row_stride: matrix.row_stride,
            col_stride: matrix.col_stride,
            rows: matrix.rows as u64,
            cols: matrix.cols as u64,
            pitch,
            batch_dims: [1; MAX_BATCH_DIMS],
        };
        let mut packed_strides = vec![0; batch_strides.len()];
        let mut elems = matrix.rows as u64 * pitch;
        let unused = MAX_BATCH_DIMS - batch_strides.len();
        for i in (0..batch_strides.len()).rev() {
            if batch_strides[i] != 0 {
                packed_strides[i] = elems as i64;
                params.batch_dims[unused + i] = batch_dims[i] as u64;
                params.batch_strides[unused + i] = batch_strides[i];
                elems *= batch_dims[i] as u64;
            }
        }
        let packed = Matrix { row_stride: pitch as i64, col_stride: 1, ..*matrix };
        (Pack { bytes: elems * 2, params }, packed, packed_strides)
    }
}
