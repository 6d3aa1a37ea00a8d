//! Blocks that share memory: clusters and distributed shared memory. `sm_90`.
//!
//! A mapped address is a `shared::cluster` address of another block's shared memory, from [`map_address`]. A block may
//! be reached from when it has started (after [`sync`]) until it ends.

use core::arch::asm;

macro_rules! special_register {
    ($($(#[$meta:meta])* $name:ident = $register:literal;)*) => { $(
        $(#[$meta])*
        #[inline(always)]
        pub fn $name() -> u32 {
            let value: u32;
            // SAFETY: reads a special register.
            unsafe { asm!(concat!("mov.u32 {0}, ", $register, ";"), out(reg32) value, options(pure, nomem, nostack)) };
            value
        }
    )* };
}

special_register! {
    /// This block's rank in its cluster: `%cluster_ctarank`.
    rank = "%cluster_ctarank";
    /// Blocks of the cluster: `%cluster_nctarank`.
    size = "%cluster_nctarank";
    /// This cluster in the grid, x: `%clusterid.x`.
    cluster_idx_x = "%clusterid.x";
    /// Clusters of the grid, x: `%nclusterid.x`.
    cluster_dim_x = "%nclusterid.x";
}

/// All threads of the cluster meet; memory written before is seen by the cluster after: [`arrive`] and [`wait`].
#[inline(always)]
pub fn sync() {
    arrive();
    wait();
}

/// Arrives at the cluster's barrier: `barrier.cluster.arrive.release.aligned`.
#[inline(always)]
pub fn arrive() {
    // SAFETY: a barrier; not `nomem`, since it orders memory.
    unsafe { asm!("barrier.cluster.arrive.release.aligned;", options(nostack)) };
}

/// Arrives at the cluster's barrier without ordering memory: `barrier.cluster.arrive.relaxed.aligned`.
#[inline(always)]
pub fn arrive_relaxed() {
    // SAFETY: a barrier.
    unsafe { asm!("barrier.cluster.arrive.relaxed.aligned;", options(nostack)) };
}

/// Waits for all threads of the cluster to arrive: `barrier.cluster.wait.acquire.aligned`.
#[inline(always)]
pub fn wait() {
    // SAFETY: a barrier.
    unsafe { asm!("barrier.cluster.wait.acquire.aligned;", options(nostack)) };
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
/// `mapped` is a mapped address of four readable bytes, a multiple of 4.
#[inline(always)]
pub unsafe fn load_u32(mapped: u32) -> u32 {
    let value: u32;
    // SAFETY: the caller's promise.
    unsafe { asm!("ld.shared::cluster.b32 {0}, [{1}];", out(reg32) value, in(reg32) mapped, options(nostack)) };
    value
}

/// [`load_u32`] for `f32`.
///
/// # Safety
/// As [`load_u32`].
#[inline(always)]
pub unsafe fn load_f32(mapped: u32) -> f32 {
    // SAFETY: the caller's promise.
    f32::from_bits(unsafe { load_u32(mapped) })
}

/// Loads 16 bytes from a mapped address: `ld.shared::cluster.v4.b32`.
///
/// # Safety
/// `mapped` is a mapped address of 16 readable bytes, a multiple of 16.
#[inline(always)]
pub unsafe fn load_x4(mapped: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("ld.shared::cluster.v4.b32 {{{0}, {1}, {2}, {3}}}, [{4}];", out(reg32) a, out(reg32) b, out(reg32) c,
             out(reg32) d, in(reg32) mapped, options(nostack));
    };
    [a, b, c, d]
}

/// Loads 16 bytes from what corresponds to `address` in block `rank`, zeros where `condition` is 0:
/// `@p ld.shared::cluster.v4.b32`. One predicated instruction where an `if` would be a branch, behind which nothing else
/// is under way.
///
/// # Safety
/// Unless `condition` is 0, as [`load_x4`] at [`map_address`]`(address, rank)`.
#[inline(always)]
pub unsafe fn load_x4_if(address: u32, rank: u32, condition: u32) -> [u32; 4] {
    let (a, b, c, d): (u32, u32, u32, u32);
    // SAFETY: the caller's promise.
    unsafe {
        asm!("{{ .reg .pred p; .reg .b32 mapped; setp.ne.b32 p, {condition}, 0;",
             "mov.b32 {0}, 0; mov.b32 {1}, 0; mov.b32 {2}, 0; mov.b32 {3}, 0;",
             "@p mapa.shared::cluster.u32 mapped, {address}, {rank};",
             "@p ld.shared::cluster.v4.b32 {{{0}, {1}, {2}, {3}}}, [mapped]; }}",
             out(reg32) a, out(reg32) b, out(reg32) c, out(reg32) d, address = in(reg32) address,
             rank = in(reg32) rank, condition = in(reg32) condition, options(nostack));
    };
    [a, b, c, d]
}

/// Stores to a mapped address: `st.shared::cluster.b32`.
///
/// # Safety
/// `mapped` is a mapped address of four writable bytes, a multiple of 4.
#[inline(always)]
pub unsafe fn store_u32(mapped: u32, value: u32) {
    // SAFETY: the caller's promise.
    unsafe { asm!("st.shared::cluster.b32 [{0}], {1};", in(reg32) mapped, in(reg32) value, options(nostack)) };
}

/// [`store_u32`] for `f32`.
///
/// # Safety
/// As [`store_u32`].
#[inline(always)]
pub unsafe fn store_f32(mapped: u32, value: f32) {
    // SAFETY: the caller's promise.
    unsafe { store_u32(mapped, value.to_bits()) };
}

/// Stores 16 bytes to a mapped address: `st.shared::cluster.v4.b32`.
///
/// # Safety
/// `mapped` is a mapped address of 16 writable bytes, a multiple of 16.
#[inline(always)]
pub unsafe fn store_x4(mapped: u32, v: [u32; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.shared::cluster.v4.b32 [{0}], {{{1}, {2}, {3}, {4}}};", in(reg32) mapped, in(reg32) v[0],
             in(reg32) v[1], in(reg32) v[2], in(reg32) v[3], options(nostack));
    };
}

/// Adds to a mapped address; gives the prior value: `atom.relaxed.cluster.shared::cluster.add.u32`.
///
/// # Safety
/// As [`store_u32`].
#[inline(always)]
pub unsafe fn add_u32(mapped: u32, value: u32) -> u32 {
    let prior: u32;
    // SAFETY: the caller's promise.
    unsafe {
        asm!("atom.relaxed.cluster.shared::cluster.add.u32 {0}, [{1}], {2};", out(reg32) prior, in(reg32) mapped,
             in(reg32) value, options(nostack));
    };
    prior
}

/// Stores to a mapped address and counts the 4 bytes at a mapped barrier:
/// `st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32`.
///
/// # Safety
/// As [`store_u32`]; `mapped_bar` is the mapped address of an initialized barrier in the same block.
#[inline(always)]
pub unsafe fn store_async_u32(mapped: u32, value: u32, mapped_bar: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.b32 [{0}], {1}, [{2}];", in(reg32) mapped,
             in(reg32) value, in(reg32) mapped_bar, options(nostack));
    };
}

/// Stores 16 bytes to a mapped address and counts them at a mapped barrier:
/// `st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32`.
///
/// # Safety
/// As [`store_async_u32`], for 16 bytes.
#[inline(always)]
pub unsafe fn store_async_x4(mapped: u32, v: [u32; 4], mapped_bar: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [{0}], {{{1}, {2}, {3}, {4}}}, [{5}];",
             in(reg32) mapped, in(reg32) v[0], in(reg32) v[1], in(reg32) v[2], in(reg32) v[3], in(reg32) mapped_bar,
             options(nostack));
    };
}

/// Adds to a mapped address and counts the 4 bytes at a mapped barrier:
/// `red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32`. PTX 8.1.
///
/// # Safety
/// As [`store_async_u32`].
#[inline(always)]
pub unsafe fn reduce_add_async_u32(mapped: u32, value: u32, mapped_bar: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.add.u32 [{0}], {1}, [{2}];",
             in(reg32) mapped, in(reg32) value, in(reg32) mapped_bar, options(nostack));
    };
}

/// Copies bytes of this block's shared memory to a mapped address and counts them at a mapped barrier:
/// `cp.async.bulk.shared::cluster.shared::cta`.
///
/// # Safety
/// As [`store_async_u32`]; both addresses and `bytes` are multiples of 16.
#[inline(always)]
pub unsafe fn copy_bytes(mapped: u32, from: u32, bytes: u32, mapped_bar: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes [{0}], [{1}], {2}, [{3}];",
             in(reg32) mapped, in(reg32) from, in(reg32) bytes, in(reg32) mapped_bar, options(nostack));
    };
}
