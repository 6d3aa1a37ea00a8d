//! Batched matrix product.
//!
//! `c[…, m, n] = alpha · Σₖ a[…, m, k] · b[…, k, n] + beta · c[…, m, n]`
//!
//! | extent | meaning |
//! | --- | --- |
//! | `…` | 0 to 3 batch dimensions, equal in all operands; an input repeats along one with a stride of 0 |
//! | `gemm_m` | rows of a and c |
//! | `gemm_n` | columns of b and c |
//! | `gemm_k` | columns of a, rows of b: the length of the sum |
//!
//! An operand that [`MatmulDesc`] names as transposed is stored `[…, k, m]` or `[…, n, k]`; strides say the same, so
//! this only saves the caller the exchange. Strides are free; c must not overlap itself. Deterministic: every algorithm
//! sums in a fixed order.
//!
//! | a and b | c | sums |
//! | --- | --- | --- |
//! | `f64`, `f32`, `f16` or `bf16` | the same | in its accumulator |
//! | `i8` | `i8` (saturating, ties to even), `i32`, `f32` | exact, in `i32`; at most 131071 terms |
//! | `f8e4m3` or `f8e5m2`, also mixed | `f32`, `f16`, `bf16`, `f8e4m3`, `f8e5m2` (saturating) | `f32`, on tensor cores with fewer bits |
//!
//! Numbers of 8 bits stand for their multiples by a scale each tensor has: alpha carries the product of a's and b's scale
//! over c's. [`Math::Tf32`](crate::Math) (`math=tf32`) allows tensor cores to read `f32` operands as tf32.
//!
//! With an [epilogue](crate::epilogue), `c = act(alpha · a b + beta · c + bias + z)`, where z is laid out by its own strides
//! and the bias has one number for each column n: in a network's layer `y = x w + bias`, one for each output. A library
//! that is told of matrices in column-major order, as cuBLASLt is, computes the transpose of all this, and its bias, one
//! number for each of its rows, is the same.

mod kernels;
mod params;
#[cfg(not(target_arch = "nvptx64"))]
mod problem;
mod raster;
mod tiles;

pub use params::{
    F32_PARTS, MatmulBlockParams, MatmulKMajorParams, MatmulOperand, MatmulPackParams, MatmulParams,
    MatmulPartialsParams, MatmulTmaParams, OUTPUT_CLUSTER, OUTPUT_MAP, OUTPUT_PARTIALS, OUTPUT_THREADS, PART_PAIRS,
};
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{MatmulDesc, MatmulProblem};
pub use raster::{Place, Raster};
pub use tiles::{
    CP_ASYNC_64X64, CP_ASYNC_128X128, DRAWS_128X64, DRAWS_128X128, DRAWS_128X256, DRAWS_192X128, DRAWS_256X112,
    FFMA_64X64, FFMA_128X128, MatmulBlockTile, MatmulTile, NAIVE_TILE, RESIDENT_128X160, TILE_64X16, TILE_64X32,
    TILE_64X64, TILE_64X128, TILE_128X16, TILE_128X32, TILE_128X64, TILE_128X128, TILE_128X160, TILE_128X256,
    TILE_128X256_C2, TILE_192X128, TILE_192X192, TILE_256X112, TURNS_128X128, TURNS_128X128_C2, TURNS_128X160_C2,
    TURNS_128X160_S4_C2, TURNS_128X192_C2,
};

/// The most batch dimensions a problem may have.
pub const MAX_BATCH_DIMS: usize = 3;
