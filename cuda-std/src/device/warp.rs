//! A warp's 32 lanes: shuffles, votes, reductions.

use core::arch::asm;

/// All lanes.
pub const FULL_MASK: u32 = 0xffff_ffff;

macro_rules! shuffle {
    ($($(#[$meta:meta])* $name:ident = $op:literal, $clamp:literal;)*) => { $(
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
    )* };
}

shuffle! {
    /// The value of lane `lane`: `shfl.sync.idx`.
    shuffle = "idx", "31";
    /// The value of the lane whose index differs by the bits `lane`: `shfl.sync.bfly`.
    shuffle_xor = "bfly", "31";
    /// The value of the lane `lane` below; a lane without one keeps its own: `shfl.sync.up`.
    shuffle_up = "up", "0";
    /// The value of the lane `lane` above; a lane without one keeps its own: `shfl.sync.down`.
    shuffle_down = "down", "31";
}

/// [`shuffle_xor`] for `f32`.
#[inline(always)]
pub fn shuffle_xor_f32(value: f32, lane: u32) -> f32 {
    f32::from_bits(shuffle_xor(value.to_bits(), lane))
}

/// [`shuffle_xor`] for `f64`, in two halves.
#[inline(always)]
pub fn shuffle_xor_f64(value: f64, lane: u32) -> f64 {
    let bits = value.to_bits();
    let (low, high) = (shuffle_xor(bits as u32, lane), shuffle_xor((bits >> 32) as u32, lane));
    f64::from_bits(u64::from(high) << 32 | u64::from(low))
}

/// The value of lane 0, known to be the same in all lanes: what tells the compiler that a value is uniform.
#[inline(always)]
pub fn uniform(value: u32) -> u32 {
    shuffle(value, 0)
}

/// Bit n says whether lane n's `predicate` holds: `vote.sync.ballot`.
#[inline(always)]
pub fn ballot(predicate: bool) -> u32 {
    let result: u32;
    // SAFETY: exchanges predicates among all lanes.
    unsafe {
        asm!("{{ .reg .pred p; setp.ne.u32 p, {1}, 0; vote.sync.ballot.b32 {0}, p, 0xffffffff; }}",
             out(reg32) result, in(reg32) u32::from(predicate), options(nomem, nostack));
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

/// Sum over the lanes, in every lane: `redux.sync.add`.
#[inline(always)]
pub fn sum_u32(value: u32) -> u32 {
    let result: u32;
    // SAFETY: exchanges registers among all lanes.
    unsafe {
        asm!("redux.sync.add.u32 {0}, {1}, 0xffffffff;", out(reg32) result, in(reg32) value, options(nomem, nostack));
    };
    result
}

/// Largest value of the lanes, in every lane: `redux.sync.max`.
#[inline(always)]
pub fn max_u32(value: u32) -> u32 {
    let result: u32;
    // SAFETY: exchanges registers among all lanes.
    unsafe {
        asm!("redux.sync.max.u32 {0}, {1}, 0xffffffff;", out(reg32) result, in(reg32) value, options(nomem, nostack));
    };
    result
}

/// Sum over the lanes in a fixed order, in every lane: five `shfl.sync.bfly`.
#[inline(always)]
pub fn sum_f32(mut value: f32) -> f32 {
    let mut lane = 16;
    while lane > 0 {
        value += shuffle_xor_f32(value, lane);
        lane /= 2;
    }
    value
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
