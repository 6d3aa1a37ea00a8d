//! Neighbouring elements that move as one access.

use crate::math::element::{Element, bf16, f16};
use cuda_std::{convert, guarded};

/// `VEC` elements of a storage type, in one access.
pub trait Access<const VEC: usize>: Element<Acc = f32> {
    /// As they were loaded.
    type Packed: Copy;
    const ZEROS: Self::Packed;

    /// Zeros where `condition` is 0.
    ///
    /// # Safety
    /// Unless it is, `from` is a multiple of the access's size, and so many bytes are there that nobody writes.
    unsafe fn load(from: u64, condition: u32) -> Self::Packed;

    fn unpack(packed: Self::Packed) -> [f32; VEC];

    /// Does nothing where `condition` is 0.
    ///
    /// # Safety
    /// Unless it is, `to` is a multiple of the access's size, and so many bytes are there that nobody else touches.
    unsafe fn store(to: u64, values: [f32; VEC], condition: u32);
}

/// Writes `results + beta · prior`.
///
/// # Safety
/// As [`Access::store`].
#[inline(always)]
pub unsafe fn add_prior<T: Access<VEC>, const VEC: usize>(to: u64, results: [f32; VEC], beta: f32) {
    let mut values = results;
    let mut i = 0;
    while i < VEC {
        // Not among the loads of what nobody writes.
        *values.get_unchecked_mut(i) += beta * (*(to as *const T).add(i)).widen();
        i += 1;
    }
    T::store(to, values, 1);
}

macro_rules! single_precision {
    ($vec:literal, $packed:ty, $load:path, $store:path, [$($i:literal),*]) => {
        impl Access<$vec> for f32 {
            type Packed = $packed;
            const ZEROS: $packed = [0; $vec];
            #[inline(always)]
            unsafe fn load(from: u64, condition: u32) -> $packed {
                $load(from, condition)
            }
            #[inline(always)]
            fn unpack(packed: $packed) -> [f32; $vec] {
                [$(f32::from_bits(packed[$i])),*]
            }
            #[inline(always)]
            unsafe fn store(to: u64, values: [f32; $vec], condition: u32) {
                $store(to, [$(values[$i].to_bits()),*], condition);
            }
        }
    };
}

single_precision!(1, [u32; 1], guarded::load_x1, guarded::store_x1, [0]);
single_precision!(2, [u32; 2], guarded::load_x2, guarded::store_x2, [0, 1]);
single_precision!(4, [u32; 4], guarded::load_x4, guarded::store_x4, [0, 1, 2, 3]);

macro_rules! half_precision {
    ($t:ident, $widen:path, $widen_pair:path, $narrow:path, $narrow_pair:path) => {
        impl Access<1> for $t {
            type Packed = u16;
            const ZEROS: u16 = 0;
            #[inline(always)]
            unsafe fn load(from: u64, condition: u32) -> u16 {
                guarded::load_u16(from, condition)
            }
            #[inline(always)]
            fn unpack(packed: u16) -> [f32; 1] {
                [$widen(packed)]
            }
            #[inline(always)]
            unsafe fn store(to: u64, [value]: [f32; 1], condition: u32) {
                guarded::store_u16(to, $narrow(value), condition);
            }
        }

        impl Access<2> for $t {
            type Packed = [u32; 1];
            const ZEROS: [u32; 1] = [0];
            #[inline(always)]
            unsafe fn load(from: u64, condition: u32) -> [u32; 1] {
                guarded::load_x1(from, condition)
            }
            #[inline(always)]
            fn unpack([pair]: [u32; 1]) -> [f32; 2] {
                $widen_pair(pair)
            }
            #[inline(always)]
            unsafe fn store(to: u64, [a, b]: [f32; 2], condition: u32) {
                guarded::store_x1(to, [$narrow_pair(a, b)], condition);
            }
        }

        impl Access<4> for $t {
            type Packed = [u32; 2];
            const ZEROS: [u32; 2] = [0; 2];
            #[inline(always)]
            unsafe fn load(from: u64, condition: u32) -> [u32; 2] {
                guarded::load_x2(from, condition)
            }
            #[inline(always)]
            fn unpack([low, high]: [u32; 2]) -> [f32; 4] {
                let ([a, b], [c, d]) = ($widen_pair(low), $widen_pair(high));
                [a, b, c, d]
            }
            #[inline(always)]
            unsafe fn store(to: u64, [a, b, c, d]: [f32; 4], condition: u32) {
                guarded::store_x2(to, [$narrow_pair(a, b), $narrow_pair(c, d)], condition);
            }
        }
    };
}

half_precision!(f16, convert::f32_from_f16, convert::f32_from_f16x2, convert::f16_from_f32, convert::f16x2_from_f32);
half_precision!(
    bf16,
    convert::f32_from_bf16,
    convert::f32_from_bf16x2,
    convert::bf16_from_f32,
    convert::bf16x2_from_f32
);
