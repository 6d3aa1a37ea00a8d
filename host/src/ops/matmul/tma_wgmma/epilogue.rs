//! Epilogues as the kernels take them: with the product or its transpose, whichever is computed.

use super::maps::Maps;
use crate::DType;
use crate::epilogue::{Epilogue, fused};
use crate::select::Refusal;
use kernel_abi::ops::matmul::{MAX_BATCH_DIMS, MatmulTmaParams};

/// Puts an epilogue into the parameters of a product, or tells why its kernels do not compute it.
pub(super) fn put(params: &mut MatmulTmaParams, epilogue: &Epilogue, dtype: DType, maps: &Maps) -> Result<(), Refusal> {
    params.epilogue = fused(epilogue, dtype)?;
    params.bias_along_rows = u32::from(maps.exchanged);
    check(epilogue, dtype, maps)?;
    let Some(z) = epilogue.residual_desc() else { return Ok(()) };
    let (batch, matrix) = z.strides().split_at(z.rank() - 2);
    params.z_batch_strides = [0; MAX_BATCH_DIMS];
    params.z_batch_strides[MAX_BATCH_DIMS - batch.len()..].copy_from_slice(batch);
    params.z_row_stride = if maps.exchanged { matrix[1] } else { matrix[0] };
    Ok(())
}

/// Whether [`put`] can do it.
pub(super) fn check(epilogue: &Epilogue, dtype: DType, maps: &Maps) -> Result<(), Refusal> {
    fused(epilogue, dtype)?;
    let Some(z) = epilogue.residual_desc() else { return Ok(()) };
    let (batch, matrix) = z.strides().split_at(z.rank() - 2);
    let (row, col) = if maps.exchanged { (matrix[1], matrix[0]) } else { (matrix[0], matrix[1]) };
    // Of what there is one of, the distance to the next is any.
    let even = |stride: i64, extent: u32| extent == 1 || stride % 2 == 0;
    let dims = &maps.batch_dims[MAX_BATCH_DIMS - batch.len()..];
    let pairs = col == 1
        && maps.gemm_n.is_multiple_of(2)
        && even(row, maps.gemm_m)
        && batch.iter().zip(dims).all(|(&stride, &dim)| even(stride, dim));
    if !pairs {
        let reason = format!(
            "reads pairs of neighbouring elements of z along c's columns of an even number, given strides {:?} and \
             {} columns",
            z.strides(),
            maps.gemm_n
        );
        return Err(Refusal::new(reason));
    }
    Ok(())
}
