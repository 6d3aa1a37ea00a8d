//! Shared memory: static arrays, the dynamic area, and accesses by 32-bit address.
//!
//! Hopper's asynchronous instructions take addresses in the shared window, 32 bits wide; [`address`] converts.

use core::arch::{asm, global_asm};

// The alignment is that of the widest swizzle pattern.
global_asm!(".extern .shared .align 1024 .b8 dynsmem[];");

/// A static array in shared memory, as a `*mut T` to its first element.
///
/// `shared_array![T; N]`. Its content is undefined at first. Every expansion is one array per kernel, whatever the
/// generic parameters of the function around it; `cuda_builder` moves it into the shared address space.
#[macro_export]
macro_rules! shared_array {
    ($ty:ty; $len:expr) => {{
        #[repr(align(16))]
        struct Aligned(#[allow(dead_code)] core::mem::MaybeUninit<[$ty; $len]>);
        #[unsafe(link_section = ".shared")]
        static mut ARRAY: Aligned = Aligned(core::mem::MaybeUninit::uninit());
        (&raw mut ARRAY).cast::<$ty>()
    }};
}

/// Address of the dynamic area in the shared window, a multiple of 1024 as far as static arrays allow.
#[inline(always)]
pub fn dynamic_address() -> u32 {
    let address: u32;
    // SAFETY: takes the address of a symbol.
    unsafe { asm!("mov.u32 {0}, dynsmem;", out(reg32) address, options(pure, nomem, nostack)) };
    address
}

/// Size of the dynamic area as the launch gave it: `%dynamic_smem_size`.
#[inline(always)]
pub fn dynamic_bytes() -> u32 {
    let bytes: u32;
    // SAFETY: reads a special register.
    unsafe { asm!("mov.u32 {0}, %dynamic_smem_size;", out(reg32) bytes, options(pure, nomem, nostack)) };
    bytes
}

/// The dynamic area as a generic pointer.
#[inline(always)]
pub fn dynamic<T>() -> *mut T {
    generic(dynamic_address())
}

/// A shared-window address as a generic pointer: `cvta.shared`.
#[inline(always)]
pub fn generic<T>(address: u32) -> *mut T {
    let pointer: u64;
    // SAFETY: converts an address.
    unsafe {
        asm!("{{ .reg .b64 t; cvt.u64.u32 t, {1}; cvta.shared.u64 {0}, t; }}", out(reg64) pointer, in(reg32) address,
             options(pure, nomem, nostack));
    };
    pointer as *mut T
}

/// A generic pointer into shared memory as a shared-window address: `cvta.to.shared`.
#[inline(always)]
pub fn address<T>(pointer: *const T) -> u32 {
    let address: u32;
    // SAFETY: converts an address.
    unsafe {
        asm!("{{ .reg .b64 t; cvta.to.shared.u64 t, {1}; cvt.u32.u64 {0}, t; }}", out(reg32) address,
             in(reg64) pointer as u64, options(pure, nomem, nostack));
    };
    address
}

macro_rules! access {
    ($($load:ident, $store:ident($t:ty, $class:ident) = $bytes:literal, $suffix:literal;)*) => { $(
        #[doc = concat!("Loads: `ld.shared.", $suffix, "`.")]
        ///
        /// # Safety
        #[doc = concat!("`at` is a shared-window address of ", $bytes, " readable bytes, a multiple of that.")]
        #[inline(always)]
        pub unsafe fn $load(at: u32) -> $t {
            let value: $t;
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("ld.shared.", $suffix, " {0}, [{1}];"), out($class) value, in(reg32) at,
                     options(readonly, nostack));
            };
            value
        }

        #[doc = concat!("Stores: `st.shared.", $suffix, "`.")]
        ///
        /// # Safety
        #[doc = concat!("`at` is a shared-window address of ", $bytes, " writable bytes, a multiple of that.")]
        #[inline(always)]
        pub unsafe fn $store(at: u32, value: $t) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("st.shared.", $suffix, " [{0}], {1};"), in(reg32) at, in($class) value, options(nostack));
            };
        }
    )* };
}

access! {
    load_u16, store_u16(u16, reg16) = 2, "b16";
    load_u32, store_u32(u32, reg32) = 4, "b32";
    load_f32, store_f32(f32, reg32) = 4, "f32";
    load_u64, store_u64(u64, reg64) = 8, "b64";
    load_f64, store_f64(f64, reg64) = 8, "f64";
}

/// Loads 2 bytes, zeros where `condition` is 0: `@p ld.shared.b16`.
///
/// # Safety
/// Unless `condition` is 0, `at` is a shared-window address of 2 readable bytes, a multiple of 2.
#[inline(always)]
pub unsafe fn load_u16_if(at: u32, condition: u32) -> u16 {
    let value: u16;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .pred p; setp.ne.b32 p, {1}, 0; mov.b16 {0}, 0; @p ld.shared.b16 {0}, [{2}]; }}",
             out(reg16) value, in(reg32) condition, in(reg32) at, options(readonly, nostack));
    };
    value
}

/// Loads 8 bytes: `ld.shared.v2.b32`.
///
/// # Safety
/// `at` is a shared-window address of 8 readable bytes, a multiple of 8.
#[inline(always)]
pub unsafe fn load_x2(at: u32) -> [u32; 2] {
    let (a, b): (u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ld.shared.v2.b32 {{{0}, {1}}}, [{2}];", out(reg32) a, out(reg32) b, in(reg32) at,
             options(readonly, nostack));
    };
    [a, b]
}

/// Stores 8 bytes: `st.shared.v2.b32`.
///
/// # Safety
/// `at` is a shared-window address of 8 writable bytes, a multiple of 8.
#[inline(always)]
pub unsafe fn store_x2(at: u32, v: [u32; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.shared.v2.b32 [{0}], {{{1}, {2}}};", in(reg32) at, in(reg32) v[0], in(reg32) v[1], options(nostack));
    };
}

/// Loads 16 bytes: `ld.shared.v4.b32`.
///
/// # Safety
/// `at` is a shared-window address of 16 readable bytes, a multiple of 16.
#[inline(always)]
pub unsafe fn load_x4(at: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ld.shared.v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}];", out(reg32) a, out(reg32) b, out(reg32) c,
             out(reg32) d, in(reg32) at, options(readonly, nostack));
    };
    [a, b, c, d]
}

/// Stores 16 bytes: `st.shared.v4.b32`.
///
/// # Safety
/// `at` is a shared-window address of 16 writable bytes, a multiple of 16.
#[inline(always)]
pub unsafe fn store_x4(at: u32, v: [u32; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.shared.v4.b32 [{0}], {{{1}, {2}, {3}, {4}}};", in(reg32) at, in(reg32) v[0], in(reg32) v[1],
             in(reg32) v[2], in(reg32) v[3], options(nostack));
    };
}
