//! Loads under a condition: `@p ld.global.nc`, zeros where it does not hold.
//!
//! One predicated instruction where an `if` around a load would be a branch, behind which nothing else is under way.

use core::arch::asm;

macro_rules! guarded {
    ($($(#[$meta:meta])* $name:ident -> [$($value:ident: $zero:literal),+] = $bytes:literal, $instruction:literal;)*) => { $(
        $(#[$meta])*
        ///
        /// # Safety
        #[doc = concat!("Where `condition` holds, `from` is a multiple of ", $bytes, " and points to ", $bytes,
                        " readable bytes of global memory that nobody writes during the kernel.")]
        #[inline(always)]
        pub unsafe fn $name(from: u64, condition: bool) -> [u32; 0 $(+ $zero + 1)+] {
            $(let $value: u32;)+
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    "{{ .reg .pred p; setp.ne.b32 p, {condition}, 0;",
                    $(concat!("mov.b32 {", stringify!($value), "}, ", $zero, ";"),)+
                    concat!("@p ld.global.nc.", $instruction, ", [{from}]; }}"),
                    $($value = out(reg32) $value,)+
                    condition = in(reg32) u32::from(condition),
                    from = in(reg64) from,
                    options(pure, readonly, nostack)
                );
            };
            [$($value),+]
        }
    )* };
}

guarded! {
    /// 4 bytes.
    load_x1 -> [a: 0] = 4, "b32 {a}";
    /// 8 bytes.
    load_x2 -> [a: 0, b: 0] = 8, "v2.b32 {{{a}, {b}}}";
    /// 16 bytes.
    load_x4 -> [a: 0, b: 0, c: 0, d: 0] = 16, "v4.b32 {{{a}, {b}, {c}, {d}}}";
}

/// 2 bytes.
///
/// # Safety
/// Where `condition` holds, `from` is a multiple of 2 and points to 2 readable bytes of global memory that nobody
/// writes during the kernel.
#[inline(always)]
pub unsafe fn load_u16(from: u64, condition: bool) -> u16 {
    let value: u16;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .pred p; setp.ne.b32 p, {1}, 0; mov.b16 {0}, 0; @p ld.global.nc.b16 {0}, [{2}]; }}",
             out(reg16) value, in(reg32) u32::from(condition), in(reg64) from, options(pure, readonly, nostack));
    };
    value
}
