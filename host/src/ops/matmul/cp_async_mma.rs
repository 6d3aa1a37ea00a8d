//! Matmul on the tensor cores of any GPU: asynchronous copies by threads feed `mma.sync`, operands of any strides.

use super::split::{BlockRow, Blocks, Speed, block_rows};
use crate::Context;

const KERNELS: &[BlockRow] = kernel_abi::matmul_cp_async_mma_kernels!(block_rows);

/// Tiles in shared memory, for 16-bit types.
pub(super) const CP_ASYNC_MMA: Blocks = Blocks { name: "cp_async_mma", rows: KERNELS, speed };

/// The share of the tensor cores' rate that these kernels reach: shared memory and the issue of instructions take the
/// rest; on Hopper the instruction itself reaches six tenths.
fn speed(context: &Context) -> Speed {
    let products = match context.info().compute_capability {
        (8, 0) => 700.0,
        (8, _) => 380.0,
        _ => 900.0,
    };
    Speed { products, latency: 450.0, load_bytes: 4 }
}
