//! Matmul in plain f32 arithmetic: tiles in shared memory, 8 × 8 sums a thread, operands of any strides.

use super::split::{BlockRow, Blocks, Speed, block_rows};
use crate::Context;

const KERNELS: &[BlockRow] = kernel_abi::matmul_ffma_kernels!(block_rows);

/// Tiles in shared memory, for f32.
pub(super) const FFMA: Blocks = Blocks { name: "ffma", rows: KERNELS, speed };

/// Of 128 multiply-adds in a cycle (64 on compute capability 8.0), what reading shared memory leaves.
fn speed(context: &Context) -> Speed {
    let rate = if context.info().compute_capability == (8, 0) { 64.0 } else { 128.0 };
    Speed { products: 0.72 * rate, latency: 900.0, load_bytes: 4 }
}
