//! Copies of inputs that tensor maps cannot describe: rows that are no multiples of 16 bytes, or strides of both matrix
//! dimensions.

use super::maps::Matrix;
use kernel_abi::ops::matmul::{MAX_BATCH_DIMS, MatmulPackParams};

/// An input's copy into the workspace.
#[derive(Debug)]
pub(in crate::ops::matmul) struct Pack {
    /// Bytes of the copy.
    pub(in crate::ops::matmul) bytes: u64,
    /// Complete but for addresses.
    pub(in crate::ops::matmul) params: MatmulPackParams,
}

impl Pack {
    /// The copy of a batch of matrices with contiguous rows, and what it becomes: its matrix and batch strides. Matrices
    /// that repeat are copied once.
    pub(in crate::ops::matmul) fn of(
        matrix: &Matrix,
        batch_strides: &[i64],
        batch_dims: &[i64],
    ) -> (Self, Matrix, Vec<i64>) {
        Self::of_parts(matrix, batch_strides, batch_dims, 1, matrix.rows)
    }

    /// The same of a copy in parts of `part_rows` rows each, one after the other in each matrix.
    pub(in crate::ops::matmul) fn of_parts(
        matrix: &Matrix,
        batch_strides: &[i64],
        batch_dims: &[i64],
        n_parts: i64,
        part_rows: i64,
    ) -> (Self, Matrix, Vec<i64>) {
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
            part_rows: part_rows as u64,
        };
        let rows = n_parts * part_rows;
        let mut packed_strides = vec![0; batch_strides.len()];
        let mut elems = rows as u64 * pitch;
        let unused = MAX_BATCH_DIMS - batch_strides.len();
        for i in (0..batch_strides.len()).rev() {
            if batch_strides[i] != 0 {
                packed_strides[i] = elems as i64;
                params.batch_dims[unused + i] = batch_dims[i] as u64;
                params.batch_strides[unused + i] = batch_strides[i];
                elems *= batch_dims[i] as u64;
            }
        }
        let packed = Matrix { rows, row_stride: pitch as i64, col_stride: 1, ..*matrix };
        (Pack { bytes: elems * 2, params }, packed, packed_strides)
    }
}
