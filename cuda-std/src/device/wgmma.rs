//! Tensor-core products of a warpgroup (four warps) from shared memory: `wgmma`. `sm_90a`.
//!
//! [`wgmma!`] computes `D (+)= A · B` for a k-block: D is 64 × n in registers, A 64 × k, B k × n. It is one piece of
//! assembly with `wgmma.fence`, `steps` × `wgmma.mma_async` and `wgmma.commit_group`; the accumulator must not be
//! touched until [`wgmma_wait!`]. Arguments:
//!
//! - `types`: `bf16`, `f16`, `tf32`, `e4m3`, `e5m2`, `e4m3_e5m2`, `e5m2_e4m3` (A's word first), with an f16 accumulator
//!   `f16_f16`, `e4m3_f16` and so on; `s8`, `u8`, `s8_u8`, `u8_s8`; a step's k is 32 bytes: 16, 8 for tf32, 32 for
//!   8-bit types;
//! - `n`: a multiple of 8 from 8 to 256 (integers above 32: of 16);
//! - `d`: a mutable reference to n/2 registers (`f32`, `i32`; n/4 `u32` with an f16 accumulator);
//! - `a`, `b`: [`descriptor`]s, which grow by `a_step`, `b_step` (in 16-byte units) from step to step; or
//!   `a_registers`: `[[u32; 4]; steps]`, one group of four for each step;
//! - `accumulate`: 0 to overwrite D, else 1; `transpose_a`, `transpose_b`: 1 for MN-major operands of 16-bit types;
//! - `fence`, `commit`: 0 to leave that instruction out, for several accumulators in one group.
//!
//! `wgmma_wait!(d = &mut d, registers = n/2, pending = p)` waits until at most p groups are under way; with A in
//! registers also `a_registers = &mut a, steps = s`, since those must not change before either.
//!
//! With t the thread of the warpgroup, w = t / 32, l = t % 32, row = 16 w + l / 4 and c = l % 4:
//!
//! - D: register i is row + 8 ((i / 2) % 2), column 8 (i / 4) + 2 c + i % 2; with an f16 accumulator, register i packs
//!   what would be registers 2 i and 2 i + 1;
//! - A in registers, 16-bit: (row, 2 c..), (row + 8, 2 c..), (row, 2 c + 8..), (row + 8, 2 c + 8..), the lower k in the
//!   low half; tf32: (row, c), (row + 8, c), (row, c + 4), (row + 8, c + 4); 8-bit: (row, 4 c..), (row + 8, 4 c..),
//!   (row, 4 c + 16..), (row + 8, 4 c + 16..).

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
///
/// | operand | tile | stride | leading | next step |
/// |---|---|---|---|---|
/// | K-major, swizzled | rows of 128, 64, 32 bytes | 8 rows: 1024, 512, 256 | ignored | + 32 bytes |
/// | K-major, not swizzled | core matrices of 8 rows × 16 bytes | between groups of 8 rows | between the two of a step | + 2 leading |
/// | MN-major, swizzled | \[k\]\[128, 64, 32 bytes\] panels | 8 k: 1024, 512, 256 | between panels | + 16 k |
///
/// A tile begins at a multiple of its pattern (1024, 512, 256 bytes), or a whole number of steps behind one.
#[inline(always)]
pub const fn descriptor(address: u32, leading_bytes: u32, stride_bytes: u32, swizzle: Swizzle) -> u64 {
    (((address & 0x3_ffff) >> 4) as u64)
        | ((leading_bytes >> 4) as u64) << 16
        | ((stride_bytes >> 4) as u64) << 32
        | (swizzle as u64) << 62
}

/// The descriptor of what lies so many bytes, a multiple of 16, behind the operand of another one.
///
/// Both lie in the 256 KB of the shared window that a descriptor reaches, so that only its lower half differs: two
/// instructions, where [`descriptor`] takes six, beside what is computed again for each step of a loop.
#[inline(always)]
pub const fn behind(descriptor: u64, bytes: u32) -> u64 {
    (descriptor >> 32 << 32) | (descriptor as u32 + (bytes >> 4)) as u64
}
