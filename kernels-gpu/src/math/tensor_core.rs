//! 16-bit element types as tensor cores take them: two in a register, sums in f32.

use super::element::{Element, bf16, f16};
use cuda_std::{convert, mma};

/// A type of the products `m16n8k16` and `m16n8k8`.
pub trait TensorCore: Element<Acc = f32> {
    /// D += A B, 16×8×16; see [`cuda_std::mma`].
    fn multiply(d: &mut [f32; 4], a: [u32; 4], b: [u32; 2]);
    /// D += A B, 16×8×8.
    fn multiply_half(d: &mut [f32; 4], a: [u32; 2], b: u32);
    /// Two numbers, rounded, the first in the low half.
    fn pack(low: f32, high: f32) -> u32;
    /// Both numbers of a register.
    fn unpack(pair: u32) -> [f32; 2];
}

impl TensorCore for bf16 {
    #[inline(always)]
    fn multiply(d: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
        mma::m16n8k16_bf16(d, a, b)
    }
    #[inline(always)]
    fn multiply_half(d: &mut [f32; 4], a: [u32; 2], b: u32) {
        mma::m16n8k8_bf16(d, a, b)
    }
    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        convert::bf16x2_from_f32(low, high)
    }
    #[inline(always)]
    fn unpack(pair: u32) -> [f32; 2] {
        convert::f32_from_bf16x2(pair)
    }
}

impl TensorCore for f16 {
    #[inline(always)]
    fn multiply(d: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
        mma::m16n8k16_f16(d, a, b)
    }
    #[inline(always)]
    fn multiply_half(d: &mut [f32; 4], a: [u32; 2], b: u32) {
        mma::m16n8k8_f16(d, a, b)
    }
    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        convert::f16x2_from_f32(low, high)
    }
    #[inline(always)]
    fn unpack(pair: u32) -> [f32; 2] {
        convert::f32_from_f16x2(pair)
    }
}
