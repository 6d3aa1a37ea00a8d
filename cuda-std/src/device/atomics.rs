//! Atomic operations on global memory, device scope; [`block`], [`system`] and [`shared`] hold the same for other
//! scopes and for shared memory.
//!
//! Operations are relaxed unless their name says otherwise. Where the answer is not used, the assembler makes a
//! reduction (`red`) of an `atom`.

use core::arch::asm;

macro_rules! pointer {
    (global, $t:ty) => { *mut $t };
    (shared, $t:ty) => { u32 };
}

macro_rules! pointer_operand {
    (global, $at:ident) => {
        $at as u64
    };
    (shared, $at:ident) => {
        $at
    };
}

macro_rules! atomic {
    ($where:ident, $place:literal, $class_of_pointer:ident,
     $($name:ident($t:ty, $class:ident) = $operation:literal, $what:literal;)*) => { $(
        #[doc = concat!($what, " Gives the prior value: `atom.relaxed.", $place, ".", $operation, "`.")]
        ///
        /// # Safety
        /// `at` leads to a writable, aligned value in the memory this module is for.
        #[inline(always)]
        pub unsafe fn $name(at: pointer!($where, $t), value: $t) -> $t {
            let prior: $t;
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("atom.relaxed.", $place, ".", $operation, " {0}, [{1}], {2};"), out($class) prior,
                     in($class_of_pointer) pointer_operand!($where, at), in($class) value, options(nostack));
            };
            prior
        }
    )* };
}

macro_rules! compare_exchange {
    ($where:ident, $place:literal, $class_of_pointer:ident,
     $($name:ident($t:ty, $class:ident) = $operation:literal, $order:literal;)*) => { $(
        #[doc = concat!("Stores `new` where `expected` is. Gives the prior value: `atom.", $order, ".", $place, ".",
                        $operation, "`.")]
        ///
        /// # Safety
        /// `at` leads to a writable, aligned value in the memory this module is for.
        #[inline(always)]
        pub unsafe fn $name(at: pointer!($where, $t), expected: $t, new: $t) -> $t {
            let prior: $t;
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("atom.", $order, ".", $place, ".", $operation, " {0}, [{1}], {2}, {3};"),
                     out($class) prior, in($class_of_pointer) pointer_operand!($where, at), in($class) expected,
                     in($class) new, options(nostack));
            };
            prior
        }
    )* };
}

macro_rules! operations {
    ($where:ident, $place:literal, $class:ident) => {
        atomic! { $where, $place, $class,
            add_u32(u32, reg32) = "add.u32", "Adds.";
            add_i32(i32, reg32) = "add.s32", "Adds.";
            add_u64(u64, reg64) = "add.u64", "Adds.";
            add_f32(f32, reg32) = "add.f32", "Adds; subnormals are kept.";
            add_f64(f64, reg64) = "add.f64", "Adds.";
            min_u32(u32, reg32) = "min.u32", "Smaller of both.";
            max_u32(u32, reg32) = "max.u32", "Larger of both.";
            min_i32(i32, reg32) = "min.s32", "Smaller of both.";
            max_i32(i32, reg32) = "max.s32", "Larger of both.";
            min_u64(u64, reg64) = "min.u64", "Smaller of both.";
            max_u64(u64, reg64) = "max.u64", "Larger of both.";
            min_i64(i64, reg64) = "min.s64", "Smaller of both.";
            max_i64(i64, reg64) = "max.s64", "Larger of both.";
            and_u32(u32, reg32) = "and.b32", "Bits of both.";
            or_u32(u32, reg32) = "or.b32", "Bits of either.";
            xor_u32(u32, reg32) = "xor.b32", "Bits of one.";
            exchange_u32(u32, reg32) = "exch.b32", "Exchanges.";
            exchange_u64(u64, reg64) = "exch.b64", "Exchanges.";
        }
        compare_exchange! { $where, $place, $class,
            compare_exchange_u32(u32, reg32) = "cas.b32", "relaxed";
            compare_exchange_u64(u64, reg64) = "cas.b64", "relaxed";
        }
    };
}

operations!(global, "gpu.global", reg64);

compare_exchange! { global, "gpu.global", reg64,
    compare_exchange_acquire_release_u32(u32, reg32) = "cas.b32", "acq_rel";
}

/// Atomic for the threads of the block only; global memory.
pub mod block {
    use core::arch::asm;
    operations!(global, "cta.global", reg64);
}

/// Atomic for all devices and the host; global memory.
pub mod system {
    use core::arch::asm;
    operations!(global, "sys.global", reg64);
}

/// Shared memory, by shared-window address.
pub mod shared {
    use core::arch::asm;
    operations!(shared, "cta.shared::cta", reg32);
}

/// Adds; what this thread wrote before is seen by who acquires, and the other way round:
/// `atom.acq_rel.gpu.global.add.u32`. The ticket of "the last block to arrive". Gives the prior value.
///
/// # Safety
/// `at` points to a writable, aligned value in global memory.
#[inline(always)]
pub unsafe fn add_acquire_release_u32(at: *mut u32, value: u32) -> u32 {
    let prior: u32;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("atom.acq_rel.gpu.global.add.u32 {0}, [{1}], {2};", out(reg32) prior, in(reg64) at, in(reg32) value,
             options(nostack));
    };
    prior
}

macro_rules! reduce {
    ($($(#[$meta:meta])* $name:ident($t:ty, $class:ident) = $instruction:literal;)*) => { $(
        $(#[$meta])*
        ///
        /// # Safety
        /// `at` points to a writable value in global memory, aligned to its size.
        #[inline(always)]
        pub unsafe fn $name(at: *mut $t, value: $t) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!($instruction, " [{0}], {1};"), in(reg64) at, in($class) value, options(nostack));
            };
        }
    )* };
}

reduce! {
    /// Adds without an answer: `red.relaxed.gpu.global.add.f32`.
    reduce_add_f32(f32, reg32) = "red.relaxed.gpu.global.add.f32";
    /// Adds without an answer: `red.relaxed.gpu.global.add.f64`.
    reduce_add_f64(f64, reg64) = "red.relaxed.gpu.global.add.f64";
    /// Adds a pair of f16 without an answer: `red.relaxed.gpu.global.add.noftz.f16x2`.
    reduce_add_f16x2(u32, reg32) = "red.relaxed.gpu.global.add.noftz.f16x2";
    /// Adds a pair of bf16 without an answer: `red.relaxed.gpu.global.add.noftz.bf16x2`. `sm_90`.
    reduce_add_bf16x2(u32, reg32) = "red.relaxed.gpu.global.add.noftz.bf16x2";
    /// Adds, releasing, without an answer: `red.release.gpu.global.add.u32`.
    reduce_add_release_u32(u32, reg32) = "red.release.gpu.global.add.u32";
}

/// Adds two neighbouring floats without an answer: `red.global.add.v2.f32`. `sm_90`.
///
/// # Safety
/// `at` points to two writable floats in global memory and is a multiple of 8.
#[inline(always)]
pub unsafe fn reduce_add_f32x2(at: *mut f32, a: f32, b: f32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("red.relaxed.gpu.global.add.v2.f32 [{0}], {{{1}, {2}}};", in(reg64) at, in(reg32) a, in(reg32) b,
             options(nostack));
    };
}

/// Adds four neighbouring floats without an answer: `red.global.add.v4.f32`. `sm_90`.
///
/// # Safety
/// `at` points to four writable floats in global memory and is a multiple of 16.
#[inline(always)]
pub unsafe fn reduce_add_f32x4(at: *mut f32, values: [f32; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("red.relaxed.gpu.global.add.v4.f32 [{0}], {{{1}, {2}, {3}, {4}}};", in(reg64) at, in(reg32) values[0],
             in(reg32) values[1], in(reg32) values[2], in(reg32) values[3], options(nostack));
    };
}

/// Adds eight neighbouring bf16 without an answer: `red.global.add.noftz.v4.bf16x2`. `sm_90`.
///
/// # Safety
/// `at` points to 16 writable bytes in global memory and is a multiple of 16.
#[inline(always)]
pub unsafe fn reduce_add_bf16x8(at: *mut u16, pairs: [u32; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("red.relaxed.gpu.global.add.noftz.v4.bf16x2 [{0}], {{{1}, {2}, {3}, {4}}};", in(reg64) at,
             in(reg32) pairs[0], in(reg32) pairs[1], in(reg32) pairs[2], in(reg32) pairs[3], options(nostack));
    };
}

macro_rules! ordered {
    ($($t:ty, $class:ident: $load:ident = $loads:literal, $store:ident = $stores:literal;)*) => { $(
        #[doc = concat!("Loads, acquiring: `", $loads, "`.")]
        ///
        /// # Safety
        /// `at` points to a readable, aligned value in global memory.
        #[inline(always)]
        pub unsafe fn $load(at: *const $t) -> $t {
            let value: $t;
            // SAFETY: the caller's promise.
            unsafe { asm!(concat!($loads, " {0}, [{1}];"), out($class) value, in(reg64) at, options(nostack)) };
            value
        }

        #[doc = concat!("Stores, releasing: `", $stores, "`.")]
        ///
        /// # Safety
        /// `at` points to a writable, aligned value in global memory.
        #[inline(always)]
        pub unsafe fn $store(at: *mut $t, value: $t) {
            // SAFETY: the caller's promise.
            unsafe { asm!(concat!($stores, " [{0}], {1};"), in(reg64) at, in($class) value, options(nostack)) };
        }
    )* };
}

ordered! {
    u32, reg32: load_acquire_u32 = "ld.acquire.gpu.global.u32", store_release_u32 = "st.release.gpu.global.u32";
    u64, reg64: load_acquire_u64 = "ld.acquire.gpu.global.u64", store_release_u64 = "st.release.gpu.global.u64";
}
