//! Tensor maps.

use super::errors::{INVALID_VALUE, NOT_SUPPORTED};
use super::{Outcome, api, put};
use crate::units::tensor_map::{Arguments, Refusal, encode_im2col, encode_tiled};

/// # Safety
/// Null, or so many values.
unsafe fn values<'a, T>(from: *const T, count: usize) -> Outcome<&'a [T]> {
    match (from.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(INVALID_VALUE),
        // SAFETY: the caller's promise.
        _ => Ok(unsafe { std::slice::from_raw_parts(from, count) }),
    }
}

fn answer(refusal: Refusal) -> u32 {
    match refusal {
        Refusal::Invalid(reason) => {
            eprintln!("cuda-simulator: tensor map: {reason}");
            INVALID_VALUE
        }
        Refusal::Unsupported(reason) => {
            eprintln!("cuda-simulator: tensor map: {reason} is not supported");
            NOT_SUPPORTED
        }
    }
}

api! {
    fn cuTensorMapEncodeTiled(
        map: *mut [u64; 16],
        data_type: u32,
        rank: u32,
        address: u64,
        dims: *const u64,
        strides: *const u64,
        box_dims: *const u32,
        steps: *const u32,
        interleave: u32,
        swizzle: u32,
        l2_promotion: u32,
        fill: u32,
    ) {
        let rank = rank as usize;
        if !(1..=5).contains(&rank) {
            return Err(INVALID_VALUE);
        }
        let arguments = Arguments {
            data_type,
            address,
            // SAFETY: the caller's promise is this call's.
            dims: unsafe { values(dims, rank) }?,
            // SAFETY: the caller's promise is this call's.
            strides: unsafe { values(strides, rank - 1) }?,
            // SAFETY: the caller's promise is this call's.
            steps: unsafe { values(steps, rank) }?,
            interleave,
            swizzle,
            l2_promotion,
            fill,
        };
        // SAFETY: the caller's promise is this call's.
        let words = encode_tiled(&arguments, unsafe { values(box_dims, rank) }?).map_err(answer)?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(map, words) }
    }

    fn cuTensorMapEncodeIm2col(
        map: *mut [u64; 16],
        data_type: u32,
        rank: u32,
        address: u64,
        dims: *const u64,
        strides: *const u64,
        lower: *const i32,
        upper: *const i32,
        channels: u32,
        pixels: u32,
        steps: *const u32,
        interleave: u32,
        swizzle: u32,
        l2_promotion: u32,
        fill: u32,
    ) {
        let rank = rank as usize;
        if !(3..=5).contains(&rank) {
            return Err(INVALID_VALUE);
        }
        let arguments = Arguments {
            data_type,
            address,
            // SAFETY: the caller's promise is this call's.
            dims: unsafe { values(dims, rank) }?,
            // SAFETY: the caller's promise is this call's.
            strides: unsafe { values(strides, rank - 1) }?,
            // SAFETY: the caller's promise is this call's.
            steps: unsafe { values(steps, rank) }?,
            interleave,
            swizzle,
            l2_promotion,
            fill,
        };
        // SAFETY: the caller's promise is this call's.
        let (lower, upper) = unsafe { (values(lower, rank - 2)?, values(upper, rank - 2)?) };
        let words = encode_im2col(&arguments, lower, upper, channels, pixels).map_err(answer)?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(map, words) }
    }
}
