//! Accesses to global memory under a condition: `@p ld.global.nc`, `@p st.global`.
//!
//! One predicated instruction where an `if` around an access would be a branch, behind which nothing else is under way.
//! A condition holds when it is not 0, so that a bit of a mask is tested in one instruction.

use core::arch::asm;

macro_rules! loads {
    ($($(#[$meta:meta])* $name:ident [$($value:ident),+; $n:literal] = $instruction:literal, $operand:literal,
       options($($option:ident),+);)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub unsafe fn $name(from: u64, condition: u32) -> [u32; $n] {
            $(let $value: u32;)+
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    "{{ .reg .pred p; setp.ne.b32 p, {condition}, 0;",
                    $(concat!("mov.b32 {", stringify!($value), "}, 0;"),)+
                    concat!("@p ", $instruction, " ", $operand, ", [{address}]; }}"),
                    $($value = out(reg32) $value,)+
                    condition = in(reg32) condition,
                    address = in(reg64) from,
                    options($($option),+)
                );
            };
            [$($value),+]
        }
    )* };
}

macro_rules! stores {
    ($($(#[$meta:meta])* $name:ident [$($value:ident),+; $n:literal] = $instruction:literal, $operand:literal;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub unsafe fn $name(to: u64, [$($value),+]: [u32; $n], condition: u32) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(
                    "{{ .reg .pred p; setp.ne.b32 p, {condition}, 0;",
                    concat!("@p ", $instruction, " [{address}], ", $operand, "; }}"),
                    $($value = in(reg32) $value,)+
                    condition = in(reg32) condition,
                    address = in(reg64) to,
                    options(nostack)
                );
            };
        }
    )* };
}

loads! {
    /// Loads 4 bytes, zeros where `condition` is 0: `@p ld.global.nc.b32`.
    ///
    /// # Safety
    /// Unless `condition` is 0, `from` is a multiple of 4 and points to 4 readable bytes of global memory that nobody
    /// writes during the kernel.
    load_x1 [a; 1] = "ld.global.nc.b32", "{a}", options(pure, readonly, nostack);
    /// Loads 8 bytes, zeros where `condition` is 0: `@p ld.global.nc.v2.b32`.
    ///
    /// # Safety
    /// As [`load_x1`], with 8 in the place of 4.
    load_x2 [a, b; 2] = "ld.global.nc.v2.b32", "{{{a}, {b}}}", options(pure, readonly, nostack);
    /// Loads 16 bytes, zeros where `condition` is 0: `@p ld.global.nc.v4.b32`.
    ///
    /// # Safety
    /// As [`load_x1`], with 16 in the place of 4.
    load_x4 [a, b, c, d; 4] = "ld.global.nc.v4.b32", "{{{a}, {b}, {c}, {d}}}", options(pure, readonly, nostack);
    /// [`load_x4`] of what is read once: `@p ld.global.nc.L1::no_allocate.L2::256B.v4.b32`.
    ///
    /// Not `pure`: it would be moved behind branches, and no longer be under way beside others.
    ///
    /// # Safety
    /// As there.
    load_x4_streaming [a, b, c, d; 4] =
        "ld.global.nc.L1::no_allocate.L2::256B.v4.b32", "{{{a}, {b}, {c}, {d}}}", options(readonly, nostack);
    /// [`load_x4`] of what this thread may write behind it, or what is to be under way beside others, since this one is not
    /// `pure`: `@p ld.global.v4.b32`.
    ///
    /// # Safety
    /// Unless `condition` is 0, `from` is a multiple of 16 and points to 16 readable bytes of global memory that no other
    /// thread writes during the kernel.
    load_x4_own [a, b, c, d; 4] = "ld.global.v4.b32", "{{{a}, {b}, {c}, {d}}}", options(readonly, nostack);
}

stores! {
    /// Stores 4 bytes, unless `condition` is 0: `@p st.global.b32`.
    ///
    /// # Safety
    /// Unless `condition` is 0, `to` is a multiple of 4 and points to 4 writable bytes of global memory.
    store_x1 [a; 1] = "st.global.b32", "{a}";
    /// Stores 8 bytes, unless `condition` is 0: `@p st.global.v2.b32`.
    ///
    /// # Safety
    /// As [`store_x1`], with 8 in the place of 4.
    store_x2 [a, b; 2] = "st.global.v2.b32", "{{{a}, {b}}}";
    /// Stores 16 bytes, unless `condition` is 0: `@p st.global.v4.b32`.
    ///
    /// # Safety
    /// As [`store_x1`], with 16 in the place of 4.
    store_x4 [a, b, c, d; 4] = "st.global.v4.b32", "{{{a}, {b}, {c}, {d}}}";
    /// [`store_x4`] of what is not read again soon: `@p st.global.cs.v4.b32`.
    ///
    /// # Safety
    /// As there.
    store_x4_streaming [a, b, c, d; 4] = "st.global.cs.v4.b32", "{{{a}, {b}, {c}, {d}}}";
}

/// [`load_x4`] with words of `fill` in the place of zeros.
///
/// # Safety
/// As there.
#[inline(always)]
pub unsafe fn load_x4_or(from: u64, condition: u32, fill: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!(
            "{{ .reg .pred p; setp.ne.b32 p, {condition}, 0;",
            "mov.b32 {a}, {fill}; mov.b32 {b}, {fill}; mov.b32 {c}, {fill}; mov.b32 {d}, {fill};",
            "@p ld.global.nc.v4.b32 {{{a}, {b}, {c}, {d}}}, [{address}]; }}",
            a = out(reg32) a,
            b = out(reg32) b,
            c = out(reg32) c,
            d = out(reg32) d,
            condition = in(reg32) condition,
            address = in(reg64) from,
            fill = in(reg32) fill,
            options(pure, readonly, nostack)
        );
    };
    [a, b, c, d]
}

/// Loads 2 bytes, zeros where `condition` is 0: `@p ld.global.nc.b16`.
///
/// # Safety
/// Unless `condition` is 0, `from` is a multiple of 2 and points to 2 readable bytes of global memory that nobody
/// writes during the kernel.
#[inline(always)]
pub unsafe fn load_u16(from: u64, condition: u32) -> u16 {
    let value: u16;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .pred p; setp.ne.b32 p, {1}, 0; mov.b16 {0}, 0; @p ld.global.nc.b16 {0}, [{2}]; }}",
             out(reg16) value, in(reg32) condition, in(reg64) from, options(pure, readonly, nostack));
    };
    value
}

/// Stores 2 bytes, unless `condition` is 0: `@p st.global.b16`.
///
/// # Safety
/// Unless `condition` is 0, `to` is a multiple of 2 and points to 2 writable bytes of global memory.
#[inline(always)]
pub unsafe fn store_u16(to: u64, value: u16, condition: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .pred p; setp.ne.b32 p, {1}, 0; @p st.global.b16 [{2}], {0}; }}", in(reg16) value,
             in(reg32) condition, in(reg64) to, options(nostack));
    };
}
