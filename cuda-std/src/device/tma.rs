//! The bulk tensor copy engine: `cp.async.bulk`. `sm_90`.
//!
//! One thread issues a copy; bytes that arrive in shared memory are counted by an [`mbarrier`](super::mbarrier).
//! Tensor maps are made by the host (`oxidnn::driver::TensorMap`). Coordinates are fastest first; elements outside
//! the tensor read as zero, and are not written.

use core::arch::asm;

/// Cache policy: no preference.
pub const EVICT_NORMAL: u64 = 0x1000_0000_0000_0000;
/// Cache policy: data that is used once.
pub const EVICT_FIRST: u64 = 0x12F0_0000_0000_0000;
/// Cache policy: data that others will want.
pub const EVICT_LAST: u64 = 0x14F0_0000_0000_0000;

/// Where a kernel finds a tensor map.
#[derive(Clone, Copy, Debug)]
#[repr(transparent)]
pub struct MapAddress(pub u64);

/// The generic address of tensor map `$index` of the parameter struct of kernel `$kernel`, which begins with its maps
/// (`#[kernel(tensor_maps = n)]`): `cvta.param`.
///
/// Only the entry function itself can name its parameter.
#[macro_export]
macro_rules! param_tensor_map {
    ($kernel:ident, $index:expr) => {{
        let base: u64;
        // SAFETY: takes the address of the kernel's own parameter.
        unsafe {
            core::arch::asm!(concat!("{{ .reg .b64 t; mov.b64 t, ", stringify!($kernel), "_param_0; cvta.param.u64 {0}, t; }}"),
                out(reg64) base, options(pure, nomem, nostack));
        }
        $crate::tma::MapAddress(base + 128 * $index)
    }};
}

/// Fetches a descriptor ahead: `prefetch.tensormap`.
///
/// # Safety
/// `map` leads to a tensor map.
#[inline(always)]
pub unsafe fn prefetch_map(map: MapAddress) {
    // SAFETY: the caller's promise.
    unsafe { asm!("prefetch.tensormap [{0}];", in(reg64) map.0, options(nostack)) };
}

/// Loads a box of a tensor of rank 1: `cp.async.bulk.tensor.1d`.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_1d(to: u32, map: MapAddress, bar: u32, at: [i32; 1]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.1d.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}, {{{3}}}], [{2}];",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg32) at[0], options(nostack));
    }
}

/// Stores a box of a tensor of rank 1: `cp.async.bulk.tensor.1d.global.shared::cta`; see [`commit_group`].
///
/// # Safety
/// `from` is a shared-window address of the box, `map` leads to a tensor map of this rank.
#[inline(always)]
pub unsafe fn store_1d(map: MapAddress, from: u32, at: [i32; 1]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.1d.global.shared::cta.bulk_group [{0}, {{{2}}}], [{1}];",
             in(reg64) map.0, in(reg32) from, in(reg32) at[0], options(nostack));
    }
}

/// Adds a box to a tensor of rank 1: `cp.reduce.async.bulk.tensor.1d.add`; see [`commit_group`].
///
/// # Safety
/// As [`store_1d`].
#[inline(always)]
pub unsafe fn reduce_add_1d(map: MapAddress, from: u32, at: [i32; 1]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.bulk_group [{0}, {{{2}}}], [{1}];",
             in(reg64) map.0, in(reg32) from, in(reg32) at[0], options(nostack));
    }
}

/// Loads a box of a tensor of rank 2: `cp.async.bulk.tensor.2d`.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_2d(to: u32, map: MapAddress, bar: u32, at: [i32; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}, {{{3}, {4}}}], [{2}];",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg32) at[0], in(reg32) at[1], options(nostack));
    }
}

/// Stores a box of a tensor of rank 2: `cp.async.bulk.tensor.2d.global.shared::cta`; see [`commit_group`].
///
/// # Safety
/// `from` is a shared-window address of the box, `map` leads to a tensor map of this rank.
#[inline(always)]
pub unsafe fn store_2d(map: MapAddress, from: u32, at: [i32; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.2d.global.shared::cta.bulk_group [{0}, {{{2}, {3}}}], [{1}];",
             in(reg64) map.0, in(reg32) from, in(reg32) at[0], in(reg32) at[1], options(nostack));
    }
}

/// Adds a box to a tensor of rank 2: `cp.reduce.async.bulk.tensor.2d.add`; see [`commit_group`].
///
/// # Safety
/// As [`store_2d`].
#[inline(always)]
pub unsafe fn reduce_add_2d(map: MapAddress, from: u32, at: [i32; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.bulk_group [{0}, {{{2}, {3}}}], [{1}];",
             in(reg64) map.0, in(reg32) from, in(reg32) at[0], in(reg32) at[1], options(nostack));
    }
}

/// Loads a box of a tensor of rank 3: `cp.async.bulk.tensor.3d`.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_3d(to: u32, map: MapAddress, bar: u32, at: [i32; 3]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}, {{{3}, {4}, {5}}}], [{2}];",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], options(nostack));
    }
}

/// Stores a box of a tensor of rank 3: `cp.async.bulk.tensor.3d.global.shared::cta`; see [`commit_group`].
///
/// # Safety
/// `from` is a shared-window address of the box, `map` leads to a tensor map of this rank.
#[inline(always)]
pub unsafe fn store_3d(map: MapAddress, from: u32, at: [i32; 3]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.3d.global.shared::cta.bulk_group [{0}, {{{2}, {3}, {4}}}], [{1}];",
             in(reg64) map.0, in(reg32) from, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], options(nostack));
    }
}

/// Adds a box to a tensor of rank 3: `cp.reduce.async.bulk.tensor.3d.add`; see [`commit_group`].
///
/// # Safety
/// As [`store_3d`].
#[inline(always)]
pub unsafe fn reduce_add_3d(map: MapAddress, from: u32, at: [i32; 3]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.reduce.async.bulk.tensor.3d.global.shared::cta.add.bulk_group [{0}, {{{2}, {3}, {4}}}], [{1}];",
             in(reg64) map.0, in(reg32) from, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], options(nostack));
    }
}

/// Loads a box of a tensor of rank 4: `cp.async.bulk.tensor.4d`.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_4d(to: u32, map: MapAddress, bar: u32, at: [i32; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}, {{{3}, {4}, {5}, {6}}}], [{2}];",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], in(reg32) at[3], options(nostack));
    }
}

/// Stores a box of a tensor of rank 4: `cp.async.bulk.tensor.4d.global.shared::cta`; see [`commit_group`].
///
/// # Safety
/// `from` is a shared-window address of the box, `map` leads to a tensor map of this rank.
#[inline(always)]
pub unsafe fn store_4d(map: MapAddress, from: u32, at: [i32; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.4d.global.shared::cta.bulk_group [{0}, {{{2}, {3}, {4}, {5}}}], [{1}];",
             in(reg64) map.0, in(reg32) from, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], in(reg32) at[3], options(nostack));
    }
}

/// Adds a box to a tensor of rank 4: `cp.reduce.async.bulk.tensor.4d.add`; see [`commit_group`].
///
/// # Safety
/// As [`store_4d`].
#[inline(always)]
pub unsafe fn reduce_add_4d(map: MapAddress, from: u32, at: [i32; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.reduce.async.bulk.tensor.4d.global.shared::cta.add.bulk_group [{0}, {{{2}, {3}, {4}, {5}}}], [{1}];",
             in(reg64) map.0, in(reg32) from, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], in(reg32) at[3], options(nostack));
    }
}

/// Loads a box of a tensor of rank 5: `cp.async.bulk.tensor.5d`.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_5d(to: u32, map: MapAddress, bar: u32, at: [i32; 5]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes [{0}], [{1}, {{{3}, {4}, {5}, {6}, {7}}}], [{2}];",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], in(reg32) at[3], in(reg32) at[4], options(nostack));
    }
}

/// Stores a box of a tensor of rank 5: `cp.async.bulk.tensor.5d.global.shared::cta`; see [`commit_group`].
///
/// # Safety
/// `from` is a shared-window address of the box, `map` leads to a tensor map of this rank.
#[inline(always)]
pub unsafe fn store_5d(map: MapAddress, from: u32, at: [i32; 5]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.5d.global.shared::cta.bulk_group [{0}, {{{2}, {3}, {4}, {5}, {6}}}], [{1}];",
             in(reg64) map.0, in(reg32) from, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], in(reg32) at[3], in(reg32) at[4], options(nostack));
    }
}

/// Adds a box to a tensor of rank 5: `cp.reduce.async.bulk.tensor.5d.add`; see [`commit_group`].
///
/// # Safety
/// As [`store_5d`].
#[inline(always)]
pub unsafe fn reduce_add_5d(map: MapAddress, from: u32, at: [i32; 5]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.reduce.async.bulk.tensor.5d.global.shared::cta.add.bulk_group [{0}, {{{2}, {3}, {4}, {5}, {6}}}], [{1}];",
             in(reg64) map.0, in(reg32) from, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], in(reg32) at[3], in(reg32) at[4], options(nostack));
    }
}

/// Loads a box of a tensor of rank 2 into every block of the cluster that `mask` names, at the same offset, counted by
/// the barrier at the same offset: `.multicast::cluster`.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_2d_multicast(to: u32, map: MapAddress, bar: u32, mask: u16, at: [i32; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}, {{{4}, {5}}}], [{2}], {3};",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg16) mask, in(reg32) at[0], in(reg32) at[1], options(nostack));
    }
}

/// [`load_2d`] with a cache policy: `.L2::cache_hint`.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_2d_cached(to: u32, map: MapAddress, bar: u32, policy: u64, at: [i32; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [{0}], [{1}, {{{4}, {5}}}], [{2}], {3};",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg64) policy, in(reg32) at[0], in(reg32) at[1], options(nostack));
    }
}

/// Loads a box of a tensor of rank 3 into every block of the cluster that `mask` names, at the same offset, counted by
/// the barrier at the same offset: `.multicast::cluster`.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_3d_multicast(to: u32, map: MapAddress, bar: u32, mask: u16, at: [i32; 3]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}, {{{4}, {5}, {6}}}], [{2}], {3};",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg16) mask, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], options(nostack));
    }
}

/// [`load_3d`] with a cache policy: `.L2::cache_hint`.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_3d_cached(to: u32, map: MapAddress, bar: u32, policy: u64, at: [i32; 3]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.3d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [{0}], [{1}, {{{4}, {5}, {6}}}], [{2}], {3};",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg64) policy, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], options(nostack));
    }
}

/// Loads a box of a tensor of rank 4 into every block of the cluster that `mask` names, at the same offset, counted by
/// the barrier at the same offset: `.multicast::cluster`.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_4d_multicast(to: u32, map: MapAddress, bar: u32, mask: u16, at: [i32; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}, {{{4}, {5}, {6}, {7}}}], [{2}], {3};",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg16) mask, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], in(reg32) at[3], options(nostack));
    }
}

/// [`load_4d`] with a cache policy: `.L2::cache_hint`.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_4d_cached(to: u32, map: MapAddress, bar: u32, policy: u64, at: [i32; 4]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.4d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [{0}], [{1}, {{{4}, {5}, {6}, {7}}}], [{2}], {3};",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg64) policy, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], in(reg32) at[3], options(nostack));
    }
}

/// Loads a box of a tensor of rank 5 into every block of the cluster that `mask` names, at the same offset, counted by
/// the barrier at the same offset: `.multicast::cluster`.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_5d_multicast(to: u32, map: MapAddress, bar: u32, mask: u16, at: [i32; 5]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [{0}], [{1}, {{{4}, {5}, {6}, {7}, {8}}}], [{2}], {3};",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg16) mask, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], in(reg32) at[3], in(reg32) at[4], options(nostack));
    }
}

/// [`load_5d`] with a cache policy: `.L2::cache_hint`.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_5d_cached(to: u32, map: MapAddress, bar: u32, policy: u64, at: [i32; 5]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.5d.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [{0}], [{1}, {{{4}, {5}, {6}, {7}, {8}}}], [{2}], {3};",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg64) policy, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], in(reg32) at[3], in(reg32) at[4], options(nostack));
    }
}

/// Loads pixels of a tensor of rank 3 in im2col order: `cp.async.bulk.tensor.3d…im2col`. `at` is the first pixel's
/// filter base, `offset` the filter position, W first.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_im2col_3d(to: u32, map: MapAddress, bar: u32, at: [i32; 3], offset: [u16; 1]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.3d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [{0}], [{1}, {{{3}, {4}, {5}}}], [{2}], {{{6}}};",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], in(reg16) offset[0], options(nostack));
    }
}

/// Loads pixels of a tensor of rank 4 in im2col order: `cp.async.bulk.tensor.4d…im2col`. `at` is the first pixel's
/// filter base, `offset` the filter position, W first.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_im2col_4d(to: u32, map: MapAddress, bar: u32, at: [i32; 4], offset: [u16; 2]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.4d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [{0}], [{1}, {{{3}, {4}, {5}, {6}}}], [{2}], {{{7}, {8}}};",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], in(reg32) at[3], in(reg16) offset[0], in(reg16) offset[1], options(nostack));
    }
}

/// Loads pixels of a tensor of rank 5 in im2col order: `cp.async.bulk.tensor.5d…im2col`. `at` is the first pixel's
/// filter base, `offset` the filter position, W first.
///
/// # Safety
/// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle); `map` leads
/// to a tensor map of this rank, `bar` is an initialized barrier.
#[inline(always)]
pub unsafe fn load_im2col_5d(to: u32, map: MapAddress, bar: u32, at: [i32; 5], offset: [u16; 3]) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.tensor.5d.shared::cluster.global.im2col.mbarrier::complete_tx::bytes [{0}], [{1}, {{{3}, {4}, {5}, {6}, {7}}}], [{2}], {{{8}, {9}, {10}}};",
             in(reg32) to, in(reg64) map.0, in(reg32) bar, in(reg32) at[0], in(reg32) at[1], in(reg32) at[2], in(reg32) at[3], in(reg32) at[4], in(reg16) offset[0], in(reg16) offset[1], in(reg16) offset[2], options(nostack));
    }
}

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

/// Copies bytes to global memory: `cp.async.bulk.global.shared::cta`; see [`commit_group`].
///
/// # Safety
/// Both addresses and `bytes` are multiples of 16 and good for them.
#[inline(always)]
pub unsafe fn store_bytes(to: *mut u8, from: u32, bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.async.bulk.global.shared::cta.bulk_group [{0}], [{1}], {2};", in(reg64) to, in(reg32) from,
             in(reg32) bytes, options(nostack));
    }
}

/// Adds floats to global memory: `cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32`; see [`commit_group`].
///
/// # Safety
/// As [`store_bytes`].
#[inline(always)]
pub unsafe fn reduce_add_f32(to: *mut f32, from: u32, bytes: u32) {
    // SAFETY: the caller's promise.
    unsafe {
        asm!("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [{0}], [{1}], {2};", in(reg64) to,
             in(reg32) from, in(reg32) bytes, options(nostack));
    }
}

/// Closes this thread's group of stores and reductions: `cp.async.bulk.commit_group`.
#[inline(always)]
pub fn commit_group() {
    // SAFETY: groups copies.
    unsafe { asm!("cp.async.bulk.commit_group;", options(nostack)) };
}

/// Waits until at most `N` groups still read shared memory: `cp.async.bulk.wait_group.read`.
#[inline(always)]
pub fn wait_group_read<const N: u32>() {
    // SAFETY: waits.
    unsafe { asm!("cp.async.bulk.wait_group.read {0};", const N, options(nostack)) };
}

/// Waits until at most `N` groups are under way: `cp.async.bulk.wait_group`.
#[inline(always)]
pub fn wait_group<const N: u32>() {
    // SAFETY: waits.
    unsafe { asm!("cp.async.bulk.wait_group {0};", const N, options(nostack)) };
}
