//! `wgmma`: every type, both majors, all swizzles, A from registers.
//!
//! The host gives operands as images of shared memory and reads D register by register, so that it checks the
//! documented layouts and not a second copy of them.

use cuda_std::wgmma::{Swizzle, descriptor, wgmma, wgmma_wait};
use cuda_std::{barrier, kernel, shared, thread};

/// How an operand lies in shared memory: read from the `layout` argument.
#[derive(Clone, Copy)]
#[repr(C)]
struct Operand {
    bytes: u32,
    leading_bytes: u32,
    stride_bytes: u32,
    swizzle: u32,
    step_bytes: u32,
}

#[derive(Clone, Copy)]
#[repr(C)]
struct Layout {
    a: Operand,
    b: Operand,
    steps: u32,
}

impl Operand {
    fn descriptor(&self, base: u32, step: u32) -> u64 {
        let swizzle = match self.swizzle {
            0 => Swizzle::None,
            1 => Swizzle::B128,
            2 => Swizzle::B64,
            _ => Swizzle::B32,
        };
        descriptor(base + step * self.step_bytes, self.leading_bytes, self.stride_bytes, swizzle)
    }
}

/// Copies an image to shared memory, for wgmma to see after the next barrier.
unsafe fn place(image: u64, to: u32, bytes: u32) {
    let mut i = thread::thread_idx_x();
    while i < bytes / 4 {
        shared::store_u32(to + 4 * i, *(image as *const u32).add(i as usize));
        i += thread::block_dim_x();
    }
    barrier::fence_proxy_async_shared();
}

macro_rules! from_shared {
    ($($name:ident: $types:ident, $n:literal, $t:ty, $registers:literal, $ta:literal, $tb:literal;)*) => { $(
        /// D = A · B over `steps` steps; what is in `out` before must not matter.
        ///
        /// # Safety
        /// 128 threads with dynamic shared memory for both images, A's rounded up to 1024; `layout` leads to a
        /// `Layout`; `out` has the registers of each thread.
        #[kernel(threads = 128, arch = "sm_90a")]
        pub unsafe fn $name(a: u64, b: u64, out: u64, layout: u64) {
            let layout = *(layout as *const Layout);
            let at_a = shared::dynamic_address();
            let at_b = at_a + layout.a.bytes.next_multiple_of(1024);
            place(a, at_a, layout.a.bytes);
            place(b, at_b, layout.b.bytes);
            thread::sync_threads();
            let out = (out as *mut [$t; $registers]).add(thread::thread_idx_x() as usize);
            let mut d = *out;
            let mut step = 0;
            while step < layout.steps {
                let (a, b) = (layout.a.descriptor(at_a, step), layout.b.descriptor(at_b, step));
                wgmma!(types = $types, n = $n, d = &mut d, a = a, b = b, transpose_a = $ta, transpose_b = $tb,
                       accumulate = u32::from(step != 0));
                wgmma_wait!(d = &mut d, registers = $registers);
                step += 1;
            }
            *out = d;
        }
    )* };
}

from_shared! {
    unit_wgmma_bf16_n8: bf16, 8, f32, 4, 0, 0;
    unit_wgmma_bf16_n64: bf16, 64, f32, 32, 0, 0;
    unit_wgmma_bf16_n64_ta: bf16, 64, f32, 32, 1, 0;
    unit_wgmma_bf16_n64_tb: bf16, 64, f32, 32, 0, 1;
    unit_wgmma_bf16_n64_tab: bf16, 64, f32, 32, 1, 1;
    unit_wgmma_bf16_n128: bf16, 128, f32, 64, 0, 0;
    unit_wgmma_bf16_n128_tb: bf16, 128, f32, 64, 0, 1;
    unit_wgmma_bf16_n256: bf16, 256, f32, 128, 0, 0;
    unit_wgmma_bf16_n256_tb: bf16, 256, f32, 128, 0, 1;
    unit_wgmma_f16_n64: f16, 64, f32, 32, 0, 0;
    unit_wgmma_f16_f16_n64: f16_f16, 64, u32, 16, 0, 0;
    unit_wgmma_tf32_n64: tf32, 64, f32, 32, 0, 0;
    unit_wgmma_e4m3_n64: e4m3, 64, f32, 32, 0, 0;
    unit_wgmma_e5m2_n64: e5m2, 64, f32, 32, 0, 0;
    unit_wgmma_e4m3_e5m2_n64: e4m3_e5m2, 64, f32, 32, 0, 0;
    unit_wgmma_e5m2_e4m3_n64: e5m2_e4m3, 64, f32, 32, 0, 0;
    unit_wgmma_e4m3_f16_n64: e4m3_f16, 64, u32, 16, 0, 0;
    unit_wgmma_s8_n64: s8, 64, i32, 32, 0, 0;
    unit_wgmma_s8_n96: s8, 96, i32, 48, 0, 0;
    unit_wgmma_u8_n64: u8, 64, i32, 32, 0, 0;
    unit_wgmma_s8_u8_n64: s8_u8, 64, i32, 32, 0, 0;
    unit_wgmma_u8_s8_n64: u8_s8, 64, i32, 32, 0, 0;
}

macro_rules! from_registers {
    ($($name:ident: $types:ident, $n:literal, $t:ty, $registers:literal, $tb:literal;)*) => { $(
        /// D = A · B over `steps` steps, A from registers: four words for each step and thread.
        ///
        /// # Safety
        /// As the kernels from shared memory; `a` has 16 bytes for each step and thread.
        #[kernel(threads = 128, arch = "sm_90a")]
        pub unsafe fn $name(a: u64, b: u64, out: u64, layout: u64) {
            let layout = *(layout as *const Layout);
            let at_b = shared::dynamic_address();
            place(b, at_b, layout.b.bytes);
            thread::sync_threads();
            let t = thread::thread_idx_x();
            let out = (out as *mut [$t; $registers]).add(t as usize);
            let mut d = *out;
            let mut step = 0;
            while step < layout.steps {
                let mut fragment = [*(a as *const [u32; 4]).add((128 * step + t) as usize)];
                let b = layout.b.descriptor(at_b, step);
                wgmma!(types = $types, n = $n, d = &mut d, a_registers = fragment, b = b, transpose_b = $tb,
                       accumulate = u32::from(step != 0));
                wgmma_wait!(d = &mut d, registers = $registers, a_registers = &mut fragment);
                step += 1;
            }
            *out = d;
        }
    )* };
}

from_registers! {
    unit_wgmma_bf16_n64_registers: bf16, 64, f32, 32, 0;
    unit_wgmma_bf16_n64_tb_registers: bf16, 64, f32, 32, 1;
    unit_wgmma_tf32_n64_registers: tf32, 64, f32, 32, 0;
    unit_wgmma_e4m3_n64_registers: e4m3, 64, f32, 32, 0;
    unit_wgmma_s8_n64_registers: s8, 64, i32, 32, 0;
}

/// Two blocks of four steps each, the second in flight while the first is waited for: how main loops use it. K-major
/// operands in 128-byte rows.
///
/// # Safety
/// As the kernels from shared memory; both operands have 128 values of k, the second 64 behind the first.
#[kernel(threads = 128, arch = "sm_90a")]
pub unsafe fn unit_wgmma_blocks(a: u64, b: u64, out: u64, layout: u64) {
    let layout = *(layout as *const Layout);
    let at_a = shared::dynamic_address();
    let at_b = at_a + layout.a.bytes.next_multiple_of(1024);
    place(a, at_a, layout.a.bytes);
    place(b, at_b, layout.b.bytes);
    thread::sync_threads();
    let out = (out as *mut [f32; 64]).add(thread::thread_idx_x() as usize);
    let mut d = *out;
    let (a0, b0) = (layout.a.descriptor(at_a, 0), layout.b.descriptor(at_b, 0));
    let (a1, b1) = (layout.a.descriptor(at_a + 8192, 0), layout.b.descriptor(at_b + 16_384, 0));
    wgmma!(types = bf16, n = 128, steps = 4, d = &mut d, a = a0, b = b0, a_step = 2, b_step = 2, accumulate = 0);
    wgmma!(types = bf16, n = 128, steps = 4, d = &mut d, a = a1, b = b1, a_step = 2, b_step = 2, accumulate = 1);
    wgmma_wait!(d = &mut d, registers = 64, pending = 1);
    wgmma_wait!(d = &mut d, registers = 64, pending = 0);
    *out = d;
}
