//! Runs of bytes: `cp.async.bulk` without a tensor map. Addresses and sizes are multiples of 16.

use core::arch::asm;

/// Copies bytes to shared memory: `cp.async.bulk.shared::cluster.global`.
///
/// # Safety
/// Both addresses and `bytes` are multiples of 16 and good for them; `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_bytes(to: u32, from: *const u8, bytes: u32, bar: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}], {2}, [{3}];",
             in(reg32) to, in(reg64) from, in(reg32) bytes, in(reg32) bar, options(nostack));
    }
}

/// [`load_bytes`] into every block of the cluster that `mask` names, at the same offset: `.multicast::cluster`.
///
/// # Safety
/// As [`load_bytes`], in every block of the mask.
#[inline(always)]
pub unsafe fn load_bytes_multicast(to: u32, from: *const u8, bytes: u32, bar: u32, mask: u16) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}], {2}, \
              [{3}], {4};",
             in(reg32) to, in(reg64) from, in(reg32) bytes, in(reg32) bar, in(reg16) mask, options(nostack));
    }
}

/// Brings bytes to the second-level cache: `cp.async.bulk.prefetch.L2`.
///
/// # Safety
/// `from` and `bytes` are multiples of 16; the bytes are readable global memory.
#[inline(always)]
pub unsafe fn prefetch_bytes(from: *const u8, bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.prefetch.L2.global [{0}], {1};", in(reg64) from, in(reg32) bytes, options(nostack));
    }
}

macro_rules! store {
    ($($(#[$meta:meta])* $name:ident($t:ty) = $instruction:literal;)*) => { $(
        $(#[$meta])*
        /// See [`commit_group`](super::commit_group).
        ///
        /// # Safety
        /// Both addresses and `bytes` are multiples of 16 and good for them.
        #[inline(always)]
        pub unsafe fn $name(to: *mut $t, from: u32, bytes: u32) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!($instruction, " [{0}], [{1}], {2};"), in(reg64) to, in(reg32) from, in(reg32) bytes,
                     options(nostack));
            }
        }
    )* };
}

store! {
    /// Copies bytes to global memory: `cp.async.bulk.global.shared::cta`.
    store_bytes(u8) = "cp.async.bulk.global.shared::cta.bulk_group";
    /// Adds to global memory: `cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32`.
    reduce_add_f32(f32) = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32";
    /// Adds to global memory: `cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f64`.
    reduce_add_f64(f64) = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f64";
    /// Adds f16 to global memory: `cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16`.
    reduce_add_f16(u16) = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16";
    /// Adds bf16 to global memory: `cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16`.
    reduce_add_bf16(u16) = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.bf16";
    /// Adds to global memory: `cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32`.
    reduce_add_u32(u32) = "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32";
}
