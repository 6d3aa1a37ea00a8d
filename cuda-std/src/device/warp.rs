//! A warp's 32 lanes: shuffles, votes, reductions.
//!
//! Functions without a mask are for all 32 lanes at once.

use core::arch::asm;

/// All lanes.
pub const FULL_MASK: u32 = 0xffff_ffff;

macro_rules! shuffle {
    ($($(#[$meta:meta])* $name:ident, $single:ident, $double:ident = $op:literal, $clamp:literal;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name(value: u32, lane: u32) -> u32 {
            let result: u32;
            // SAFETY: exchanges registers; all lanes of the warp take part, by the mask.
            unsafe {
                asm!(concat!("shfl.sync.", $op, ".b32 {0}, {1}, {2}, ", $clamp, ", 0xffffffff;"), out(reg32) result,
                     in(reg32) value, in(reg32) lane, options(nomem, nostack));
            };
            result
        }

        #[doc = concat!("[`", stringify!($name), "`] for `f32`.")]
        #[inline(always)]
        pub fn $single(value: f32, lane: u32) -> f32 {
            f32::from_bits($name(value.to_bits(), lane))
        }

        #[doc = concat!("[`", stringify!($name), "`] for `f64`, in two halves.")]
        #[inline(always)]
        pub fn $double(value: f64, lane: u32) -> f64 {
            let bits = value.to_bits();
            let (low, high) = ($name(bits as u32, lane), $name((bits >> 32) as u32, lane));
            f64::from_bits(u64::from(high) << 32 | u64::from(low))
        }
    )* };
}

shuffle! {
    /// The value of lane `lane`: `shfl.sync.idx`.
    shuffle, shuffle_f32, shuffle_f64 = "idx", "31";
    /// The value of the lane whose index differs by the bits `lane`: `shfl.sync.bfly`.
    shuffle_xor, shuffle_xor_f32, shuffle_xor_f64 = "bfly", "31";
    /// The value of the lane `lane` below; a lane without one keeps its own: `shfl.sync.up`.
    shuffle_up, shuffle_up_f32, shuffle_up_f64 = "up", "0";
    /// The value of the lane `lane` above; a lane without one keeps its own: `shfl.sync.down`.
    shuffle_down, shuffle_down_f32, shuffle_down_f64 = "down", "31";
}

/// The value of lane `lane` of this thread's group of `WIDTH` lanes (2, 4, 8, 16), for the lanes of `mask`:
/// `shfl.sync.idx` with a segment.
///
/// # Safety
/// The lanes of `mask`, this one among them, all call it with the same mask.
#[inline(always)]
pub unsafe fn shuffle_within<const WIDTH: u32>(mask: u32, value: u32, lane: u32) -> u32 {
    let result: u32;
    // SAFETY: exchanges registers; the caller's promise.
    unsafe {
        asm!("shfl.sync.idx.b32 {0}, {1}, {2}, {3}, {4};", out(reg32) result, in(reg32) value, in(reg32) lane,
             const ((32 - WIDTH) << 8) | 31, in(reg32) mask, options(nomem, nostack));
    };
    result
}

/// The value of lane 0, known to be the same in all lanes: what tells the compiler that a value is uniform.
#[inline(always)]
pub fn uniform(value: u32) -> u32 {
    shuffle(value, 0)
}

/// A value that is the same in all lanes, in a uniform register: `redux.sync.or`.
///
/// What [`uniform`] gives stays in a register of every thread. Where it meets a uniform one, as in what a loop carries,
/// both stay there, and all that is computed of them is computed by every thread.
#[inline(always)]
pub fn uniform_register(value: u32) -> u32 {
    or_u32(value)
}

/// Bit n says whether lane n's `predicate` holds: `vote.sync.ballot`.
#[inline(always)]
pub fn ballot(predicate: bool) -> u32 {
    // SAFETY: all lanes take part.
    unsafe { ballot_of(FULL_MASK, predicate) }
}

/// [`ballot`] among the lanes of `mask`.
///
/// # Safety
/// The lanes of `mask`, this one among them, all call it with the same mask.
#[inline(always)]
pub unsafe fn ballot_of(mask: u32, predicate: bool) -> u32 {
    let result: u32;
    // SAFETY: exchanges predicates; the caller's promise.
    unsafe {
        asm!("{{ .reg .pred p; setp.ne.u32 p, {1}, 0; vote.sync.ballot.b32 {0}, p, {2}; }}",
             out(reg32) result, in(reg32) u32::from(predicate), in(reg32) mask, options(nomem, nostack));
    };
    result
}

/// Whether `predicate` holds in every lane.
#[inline(always)]
pub fn all(predicate: bool) -> bool {
    ballot(predicate) == FULL_MASK
}

/// Whether `predicate` holds in some lane.
#[inline(always)]
pub fn any(predicate: bool) -> bool {
    ballot(predicate) != 0
}

/// The lanes that run this instruction together: `activemask`. Says nothing about the next instruction.
#[inline(always)]
pub fn active_mask() -> u32 {
    let mask: u32;
    // SAFETY: reads which lanes are active; not `pure`, since that changes.
    unsafe { asm!("activemask.b32 {0};", out(reg32) mask, options(nomem, nostack)) };
    mask
}

/// The lanes whose `value` is this lane's: `match.any.sync`.
#[inline(always)]
pub fn match_any(value: u32) -> u32 {
    let mask: u32;
    // SAFETY: exchanges registers among all lanes.
    unsafe {
        asm!("match.any.sync.b32 {0}, {1}, 0xffffffff;", out(reg32) mask, in(reg32) value, options(nomem, nostack));
    };
    mask
}

macro_rules! reduce {
    ($($(#[$meta:meta])* $name:ident($t:ty) = $op:literal;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name(value: $t) -> $t {
            let result: $t;
            // SAFETY: exchanges registers among all lanes.
            unsafe {
                asm!(concat!("redux.sync.", $op, " {0}, {1}, 0xffffffff;"), out(reg32) result, in(reg32) value,
                     options(nomem, nostack));
            };
            result
        }
    )* };
}

reduce! {
    /// Sum over the lanes, in every lane: `redux.sync.add`.
    sum_u32(u32) = "add.u32";
    /// Sum over the lanes, in every lane: `redux.sync.add`.
    sum_i32(i32) = "add.s32";
    /// Largest value of the lanes, in every lane: `redux.sync.max`.
    max_u32(u32) = "max.u32";
    /// Largest value of the lanes, in every lane: `redux.sync.max`.
    max_i32(i32) = "max.s32";
    /// Smallest value of the lanes, in every lane: `redux.sync.min`.
    min_u32(u32) = "min.u32";
    /// Smallest value of the lanes, in every lane: `redux.sync.min`.
    min_i32(i32) = "min.s32";
    /// Bits of all lanes, in every lane: `redux.sync.and`.
    and_u32(u32) = "and.b32";
    /// Bits of any lane, in every lane: `redux.sync.or`.
    or_u32(u32) = "or.b32";
    /// Bits of an odd number of lanes, in every lane: `redux.sync.xor`.
    xor_u32(u32) = "xor.b32";
}

macro_rules! reduce_float {
    ($($(#[$meta:meta])* $name:ident($t:ty, $shuffle:ident) = $combine:expr;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name(value: $t) -> $t {
            // Written out, so that lanes are constants.
            let value = $combine(value, $shuffle(value, 16));
            let value = $combine(value, $shuffle(value, 8));
            let value = $combine(value, $shuffle(value, 4));
            let value = $combine(value, $shuffle(value, 2));
            $combine(value, $shuffle(value, 1))
        }
    )* };
}

reduce_float! {
    /// Sum over the lanes in a fixed order, the same in every lane: five `shfl.sync.bfly`.
    sum_f32(f32, shuffle_xor_f32) = |a: f32, b: f32| a + b;
    /// Sum over the lanes in a fixed order, the same in every lane: ten `shfl.sync.bfly`.
    sum_f64(f64, shuffle_xor_f64) = |a: f64, b: f64| a + b;
    /// Largest value of the lanes, in every lane; NaN if there is one: five `shfl.sync.bfly`.
    max_f32(f32, shuffle_xor_f32) = super::math::max_nan_f32;
    /// Smallest value of the lanes, in every lane; NaN if there is one: five `shfl.sync.bfly`.
    min_f32(f32, shuffle_xor_f32) = super::math::min_nan_f32;
    /// Largest value of the lanes, in every lane; NaN if there is one: ten `shfl.sync.bfly`.
    max_f64(f64, shuffle_xor_f64) = super::math::max_nan_f64;
    /// Smallest value of the lanes, in every lane; NaN if there is one: ten `shfl.sync.bfly`.
    min_f64(f64, shuffle_xor_f64) = super::math::min_nan_f64;
}

/// Sum of the values of the lanes up to and with this one: five `shfl.sync.up`.
#[inline(always)]
pub fn prefix_sum_u32(value: u32) -> u32 {
    let lane = super::thread::lane_id();
    let mut sum = value;
    let mut step = 1;
    while step < 32 {
        let below = shuffle_up(sum, step);
        sum += if lane >= step { below } else { 0 };
        step *= 2;
    }
    sum
}

/// Lanes of the warp meet: `bar.warp.sync`.
#[inline(always)]
pub fn sync_warp() {
    // SAFETY: a barrier; not `nomem`, since it orders memory within the warp.
    unsafe { asm!("bar.warp.sync 0xffffffff;", options(nostack)) };
}

/// Whether this is the one lane that the hardware picked: `elect.sync`. `sm_90`.
#[inline(always)]
pub fn elect() -> bool {
    let result: u32;
    // SAFETY: exchanges predicates among all lanes.
    unsafe {
        asm!("{{ .reg .pred p; .reg .b32 r; elect.sync r|p, 0xffffffff; selp.u32 {0}, 1, 0, p; }}",
             out(reg32) result, options(nomem, nostack));
    };
    result != 0
}
