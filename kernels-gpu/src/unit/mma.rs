//! `mma.sync`, from row-major A and column-major B in global memory, onto row-major D.

use cuda_std::{kernel, mma, thread};

/// Four bytes of a matrix by rows, from byte `$byte` of row `$row`.
macro_rules! word {
    ($matrix:ident, $row:expr, $row_bytes:expr, $byte:expr) => {
        *(($matrix as *const u8).add(($row * $row_bytes + $byte) as usize) as *const u32)
    };
}

macro_rules! product {
    ($($(#[$meta:meta])* $name:ident($t:ty, $($option:tt)*) = $function:path;)*) => { $(
        $(#[$meta])*
        ///
        /// A's and B's rows (B's columns) have 32 bytes.
        ///
        /// # Safety
        /// 32 threads; `a` has 16 rows, `b` 8 columns, `d` 16×8 numbers, which are added to.
        #[kernel(threads = 32, $($option)*)]
        pub unsafe fn $name(a: u64, b: u64, d: u64) {
            let lane = thread::lane_id();
            let (g, t) = (lane / 4, lane % 4);
            let fragment_a = [
                word!(a, g, 32, 4 * t),
                word!(a, (g + 8), 32, 4 * t),
                word!(a, g, 32, 4 * t + 16),
                word!(a, (g + 8), 32, 4 * t + 16),
            ];
            let fragment_b = [word!(b, g, 32, 4 * t), word!(b, g, 32, 4 * t + 16)];
            let d = (d as *mut $t).add((8 * g + 2 * t) as usize);
            let mut sums = [*d, *d.add(1), *d.add(64), *d.add(65)];
            $function(&mut sums, fragment_a, fragment_b);
            *d = sums[0];
            *d.add(1) = sums[1];
            *d.add(64) = sums[2];
            *d.add(65) = sums[3];
        }
    )* };
}

/// Both halves of a product of 16-bit elements, one after the other.
macro_rules! halves {
    ($($name:ident = $function:path;)*) => { $(
        fn $name(d: &mut [f32; 4], a: [u32; 4], b: [u32; 2]) {
            $function(d, [a[0], a[1]], b[0]);
            $function(d, [a[2], a[3]], b[1]);
        }
    )* };
}

halves! {
    halves_bf16 = mma::m16n8k8_bf16;
    halves_f16 = mma::m16n8k8_f16;
}

// A register holds 4 bytes of a row whatever the type: 2, 1 or 4 neighbours, and the second half of k is 16 bytes on.
product! {
    /// 16×8×16 of bf16.
    unit_mma_bf16(f32, min_blocks = 1) = mma::m16n8k16_bf16;
    /// 16×8×16 of f16.
    unit_mma_f16(f32, min_blocks = 1) = mma::m16n8k16_f16;
    /// 16×8×8 of bf16, twice.
    unit_mma_half_bf16(f32, min_blocks = 1) = halves_bf16;
    /// 16×8×8 of f16, twice.
    unit_mma_half_f16(f32, min_blocks = 1) = halves_f16;
    /// 16×8×8 of tf32.
    unit_mma_tf32(f32, min_blocks = 1) = mma::m16n8k8_tf32;
    /// 16×8×32 of i8.
    unit_mma_s8(i32, min_blocks = 1) = mma::m16n8k32_s8;
    /// 16×8×32 of u8.
    unit_mma_u8(i32, min_blocks = 1) = mma::m16n8k32_u8;
    /// 16×8×32 of e4m3.
    unit_mma_e4m3(f32, arch = "sm_90a") = mma::m16n8k32_e4m3;
    /// 16×8×32 of e5m2.
    unit_mma_e5m2(f32, arch = "sm_90a") = mma::m16n8k32_e5m2;
}

/// 8×8×4 of f64.
///
/// # Safety
/// 32 threads; `a` has 8×4 numbers by rows, `b` 4×8 by columns, `d` 8×8, which are added to.
#[kernel(threads = 32)]
pub unsafe fn unit_mma_f64(a: u64, b: u64, d: u64) {
    let lane = thread::lane_id() as usize;
    let (g, t) = (lane / 4, lane % 4);
    let d = (d as *mut f64).add(8 * g + 2 * t);
    let mut sums = [*d, *d.add(1)];
    mma::m8n8k4_f64(&mut sums, *(a as *const f64).add(4 * g + t), *(b as *const f64).add(4 * g + t));
    *d = sums[0];
    *d.add(1) = sums[1];
}
