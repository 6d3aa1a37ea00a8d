//! Tensor-core products of a warpgroup (four warps) from shared memory: `wgmma`. `sm_90a`.
//!
//! [`wgmma!`] computes `D (+)= A · B` for a k-block: D is 64 × n in registers, A 64 × k, B k × n. It is one piece of
//! assembly with `wgmma.fence`, `steps` × `wgmma.mma_async` and `wgmma.commit_group`; the accumulator must not be
//! touched until [`wgmma_wait!`]. Arguments:
//!
//! - `types`: `bf16`, `f16`, `f16_f16` (f16 accumulator), `tf32`, `e4m3`, `e5m2`, `e4m3_e5m2`, `e5m2_e4m3`, `s8`,
//!   `u8`, `s8_u8`; a step's k is 16, 16, 16, 8, and 32 for 8-bit types;
//! - `n`: a multiple of 8 from 8 to 256 (integers above 32: of 16);
//! - `d`: a mutable reference to n/2 registers (`f32`, `i32`; n/4 `u32` for `f16_f16`);
//! - `a`, `b`: [`descriptor`]s, which grow by `a_step`, `b_step` (in 16-byte units) from step to step; or
//!   `a_registers`: `[[u32; 4]; steps]`;
//! - `accumulate`: 0 to overwrite D, else 1; `transpose_a`, `transpose_b`: 1 for MN-major operands of 16-bit types.
//!
//! With t the thread of the warpgroup, w = t / 32, l = t % 32, register i of D is row 16 w + l / 4 + 8 ((i / 2) % 2),
//! column 8 (i / 4) + 2 (l % 4) + i % 2.

pub use cuda_std_macros::{wgmma, wgmma_wait};

/// How 16-byte chunks are permuted in shared memory; the same patterns as TMA's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u64)]
pub enum Swizzle {
    /// Not at all.
    None = 0,
    /// Within 128 bytes: chunk ^= row % 8.
    B128 = 1,
    /// Within 64 bytes.
    B64 = 2,
    /// Within 32 bytes.
    B32 = 3,
}

/// The descriptor of an operand in shared memory (PTX ISA, "Matrix descriptor").
///
/// `address` is in the shared window; `leading_bytes` and `stride_bytes` are the leading and stride byte offsets.
/// K-major with a swizzle: stride is 8 rows, leading is ignored. MN-major with a swizzle: stride is 8 k-rows, leading
/// the distance between panels of one swizzle width.
#[inline(always)]
pub const fn descriptor(address: u32, leading_bytes: u32, stride_bytes: u32, swizzle: Swizzle) -> u64 {
    (((address & 0x3_ffff) >> 4) as u64)
        | ((leading_bytes >> 4) as u64) << 16
        | ((stride_bytes >> 4) as u64) << 32
        | (swizzle as u64) << 62
}
