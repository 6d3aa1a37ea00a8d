//! Blocks that share memory: clusters and distributed shared memory. `sm_90`.

use core::arch::asm;

/// This block's rank in its cluster: `%cluster_ctarank`.
#[inline(always)]
pub fn rank() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe { asm!("mov.u32 {0}, %cluster_ctarank;", out(reg32) value, options(pure, nomem, nostack)) };
    value
}

/// Blocks of the cluster: `%cluster_nctarank`.
#[inline(always)]
pub fn size() -> u32 {
    let value: u32;
    // SAFETY: reads a special register.
    unsafe { asm!("mov.u32 {0}, %cluster_nctarank;", out(reg32) value, options(pure, nomem, nostack)) };
    value
}

/// All threads of the cluster meet: `barrier.cluster.arrive` and `.wait`.
#[inline(always)]
pub fn sync() {
    // SAFETY: a barrier that orders memory.
    unsafe {
        asm!("barrier.cluster.arrive.release.aligned;", "barrier.cluster.wait.acquire.aligned;", options(nostack));
    };
}

/// The address in block `rank` that corresponds to `address` in this one: `mapa.shared::cluster`.
#[inline(always)]
pub fn map_address(address: u32, rank: u32) -> u32 {
    let mapped: u32;
    // SAFETY: converts an address.
    unsafe {
        asm!("mapa.shared::cluster.u32 {0}, {1}, {2};", out(reg32) mapped, in(reg32) address, in(reg32) rank,
             options(pure, nomem, nostack));
    };
    mapped
}

/// Loads from a mapped address: `ld.shared::cluster.b32`.
///
/// # Safety
/// `mapped` comes from [`map_address`], and that block has not ended.
#[inline(always)]
pub unsafe fn load_u32(mapped: u32) -> u32 {
    let value: u32;
    // SAFETY: the caller's promise.
    unsafe { asm!("ld.shared::cluster.b32 {0}, [{1}];", out(reg32) value, in(reg32) mapped, options(nostack)) };
    value
}

/// Stores to a mapped address: `st.shared::cluster.b32`.
///
/// # Safety
/// As [`load_u32`].
#[inline(always)]
pub unsafe fn store_u32(mapped: u32, value: u32) {
    // SAFETY: the caller's promise.
    unsafe { asm!("st.shared::cluster.b32 [{0}], {1};", in(reg32) mapped, in(reg32) value, options(nostack)) };
}

/// Stores to a mapped address and counts the bytes at a mapped barrier:
/// `st.async.shared::cluster.mbarrier::complete_tx::bytes.b32`.
///
/// # Safety
/// Both addresses come from [`map_address`] for one block, which has not ended.
#[inline(always)]
pub unsafe fn store_async_u32(mapped: u32, value: u32, mapped_bar: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.async.shared::cluster.mbarrier::complete_tx::bytes.b32 [{0}], {1}, [{2}];", in(reg32) mapped,
             in(reg32) value, in(reg32) mapped_bar, options(nostack));
    };
}
