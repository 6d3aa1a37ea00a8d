//! 16-bit and 8-bit floating-point types.

use cuda_std::{convert, kernel, thread};

/// Row r of `out` holds one conversion of the bits 0 to 0xffff to f32.
///
/// # Safety
/// 65536 threads; `out` has 4 rows.
#[kernel]
pub unsafe fn unit_convert_widen(out: u64) {
    let i = thread::index_1d() as usize;
    let at = (out as *mut f32).add(i);
    *at = convert::f32_from_f16(i as u16);
    *at.add(65_536) = convert::f32_from_bf16(i as u16);
    // The language's own f16.
    *at.add(2 * 65_536) = f16::from_bits(i as u16) as f32;
    // Pairs, one half of which is zero.
    let [zero, high] = convert::f32_from_f16x2((i as u32) << 16);
    let [low, zero_too] = convert::f32_from_bf16x2(i as u32);
    *at.add(3 * 65_536) = f32::from_bits((high.to_bits() ^ low.to_bits()) | zero.to_bits() | zero_too.to_bits());
}

/// Eight conversions of each f32 of `x`, with its successor where a pair is wanted.
///
/// # Safety
/// As many threads as numbers in `x`, at most n; `out` has 8 numbers for each.
#[kernel]
pub unsafe fn unit_convert_narrow(x: u64, out: u64, n: u32) {
    let i = thread::index_1d() as u32;
    if i >= n {
        return;
    }
    let x = x as *const f32;
    let (a, b) = (*x.add(i as usize), *x.add(if i + 1 == n { 0 } else { i + 1 } as usize));
    let at = (out as *mut u32).add(8 * i as usize);
    *at = u32::from(convert::f16_from_f32(a)) | u32::from(convert::bf16_from_f32(a)) << 16;
    *at.add(1) = convert::f16x2_from_f32(a, b);
    *at.add(2) = convert::bf16x2_from_f32(a, b);
    *at.add(3) = convert::tf32_from_f32(a);
    *at.add(4) = convert::i32_from_f32(a) as u32;
    *at.add(5) = convert::i8_from_f32(a) as u32;
    *at.add(6) = convert::u8_from_f32(a) as u32;
    *at.add(7) = u32::from((a as f16).to_bits());
}

/// f16 and bf16 of each f64 of `x`.
///
/// # Safety
/// As many threads as numbers in `x`, at most n; `out` has a number for each.
#[kernel]
pub unsafe fn unit_convert_narrow_f64(x: u64, out: u64, n: u32) {
    let i = thread::index_1d() as u32;
    if i < n {
        let x = *(x as *const f64).add(i as usize);
        *(out as *mut u32).add(i as usize) =
            u32::from(convert::f16_from_f64(x)) | u32::from(convert::bf16_from_f64(x)) << 16;
    }
}

/// Every e4m3 and e5m2 number to f16 and back.
///
/// # Safety
/// 256 threads; `out` has 3 numbers for each: both f16, and both 8-bit numbers again.
#[kernel(threads = 256, arch = "sm_90a")]
pub unsafe fn unit_convert_fp8(out: u64) {
    let i = thread::thread_idx_x();
    let at = (out as *mut u32).add(3 * i as usize);
    let e4m3 = convert::f16x2_from_e4m3x2(i as u16);
    let e5m2 = convert::f16x2_from_e5m2x2(i as u16);
    *at = e4m3;
    *at.add(1) = e5m2;
    let [a, b] = convert::f32_from_f16x2(e4m3);
    let [c, d] = convert::f32_from_f16x2(e5m2);
    *at.add(2) = u32::from(convert::e4m3x2_from_f32(a, b)) | u32::from(convert::e5m2x2_from_f32(c, d)) << 16;
}
