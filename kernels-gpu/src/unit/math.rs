//! Arithmetic: exact instructions, approximations, elementary functions.

use cuda_std::{elementary, kernel, math, thread};

/// Row r of `out` holds function r of x; see the test for the list.
///
/// # Safety
/// One thread a number; `x` has n numbers, `out` 16 rows of n.
#[kernel]
pub unsafe fn unit_math_f32(x: u64, out: u64, n: u32) {
    let i = thread::index_1d() as u32;
    if i >= n {
        return;
    }
    let x = *(x as *const f32).add(i as usize);
    let mut at = (out as *mut f32).add(i as usize);
    let mut put = |value: f32| {
        *at = value;
        at = at.add(n as usize);
    };
    put(elementary::exp_f32(x));
    put(elementary::ln_f32(x));
    put(elementary::expm1_f32(x));
    put(elementary::log1p_f32(x));
    put(elementary::tanh_f32(x));
    put(elementary::sigmoid_f32(x));
    put(elementary::erf_f32(x));
    put(elementary::pow_f32(x, 1.75));
    put(math::sqrt_f32(x));
    put(math::exp_approx(x));
    put(math::ln_approx(x));
    put(math::tanh_approx(x));
    put(math::sigmoid_approx(x));
    put(math::reciprocal_approx(x));
    put(math::rsqrt_approx(x));
    put(math::divide_approx(1.0, math::sqrt_approx(x)));
}

/// As [`unit_math_f32`], 8 rows.
///
/// # Safety
/// One thread a number; `x` has n numbers, `out` 8 rows of n.
#[kernel]
pub unsafe fn unit_math_f64(x: u64, out: u64, n: u32) {
    let i = thread::index_1d() as u32;
    if i >= n {
        return;
    }
    let x = *(x as *const f64).add(i as usize);
    let mut at = (out as *mut f64).add(i as usize);
    let mut put = |value: f64| {
        *at = value;
        at = at.add(n as usize);
    };
    put(elementary::exp_f64(x));
    put(elementary::ln_f64(x));
    put(elementary::expm1_f64(x));
    put(elementary::log1p_f64(x));
    put(elementary::tanh_f64(x));
    put(elementary::sigmoid_f64(x));
    put(elementary::erf_f64(x));
    put(math::sqrt_f64(x));
}

/// Exact results of a and b; see the test for the list.
///
/// # Safety
/// One thread a pair; `a`, `b` have n numbers, `out` 12 rows of n.
#[kernel]
pub unsafe fn unit_math_exact(a: u64, b: u64, out: u64, n: u32) {
    let i = thread::index_1d() as u32;
    if i >= n {
        return;
    }
    let (a, b) = (*(a as *const f32).add(i as usize), *(b as *const f32).add(i as usize));
    let mut at = (out as *mut f32).add(i as usize);
    let mut put = |value: f32| {
        *at = value;
        at = at.add(n as usize);
    };
    put(math::fma_f32(a, b, a));
    put(math::fma_f64(f64::from(a), f64::from(b), 0.5) as f32);
    put(math::max_f32(a, b));
    put(math::min_f32(a, b));
    put(math::max_nan_f32(a, b));
    put(math::min_nan_f32(a, b));
    put(math::max_nan_f64(f64::from(a), f64::from(b)) as f32);
    put(math::min_f64(f64::from(a), f64::from(b)) as f32);
    put(math::floor_f32(a));
    put(math::ceil_f32(a));
    put(math::round_f32(a));
    put(math::round_f64(f64::from(a)) as f32 + math::floor_f64(f64::from(b)) as f32);
}

/// Integer and packed instructions, one thread.
///
/// # Safety
/// `out` has 8 numbers.
#[kernel(threads = 1)]
pub unsafe fn unit_math_packed(out: u64) {
    let out = out as *mut u32;
    // f16: 1 is 0x3c00, 2 0x4000, 3 0x4200, -4 0xc400; bf16: 1 is 0x3f80, 2 0x4000, 3 0x4040, -4 0xc080.
    *out = math::fma_f16x2(0x4200_4000, 0x4000_4200, 0x3c00_c400);
    *out.add(1) = math::fma_bf16x2(0x4040_4000, 0x4000_4040, 0x3f80_c080);
    *out.add(2) = math::fma_relu_bf16x2(0x4040_4000, 0x4000_c080, 0x3f80_3f80);
    *out.add(3) = math::max_bf16x2(0x3f80_c080, 0xc080_4000);
    *out.add(4) = math::add_f16x2(0x3c00_4000, 0x3c00_3c00);
    *out.add(5) = math::dot_i8x4(0x0102_03ff, 0x0405_0607, 100) as u32;
    *out.add(6) = math::permute_bytes(0x3322_1100, 0x7766_5544, 0x6240);
    *out.add(7) = math::mul_high_u32(0x8000_0001, 6);
}
