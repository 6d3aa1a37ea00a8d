//! The bulk tensor copy engine: `cp.async.bulk`. `sm_90`.
//!
//! One thread issues a copy; bytes that arrive in shared memory are counted by an [`mbarrier`](super::mbarrier), always
//! those of the whole box. Tensor maps are made by the host (`oxidnn::driver::TensorMap`). Coordinates are fastest
//! first; elements outside the tensor read as zero, and are not written.
//!
//! Names: `load_2d`, `_multicast` (to several blocks of the cluster), `_cached` (with a cache policy),
//! `load_im2col_4d`, `store_2d`, `reduce_add_2d` and others, `prefetch_2d`; `load_bytes` and its like copy without a map.

mod bulk;
mod im2col;
mod tiled;

pub use bulk::*;
pub use im2col::*;
pub use tiled::*;

use core::arch::asm;

/// Cache policy: no preference.
pub const EVICT_NORMAL: u64 = 0x1000_0000_0000_0000;
/// Cache policy: data that is used once.
pub const EVICT_FIRST: u64 = 0x12F0_0000_0000_0000;
/// Cache policy: data that others will want.
pub const EVICT_LAST: u64 = 0x14F0_0000_0000_0000;

/// [`EVICT_LAST`] where the cache is asked to give up last what is loaded, else [`EVICT_NORMAL`].
#[inline(always)]
pub const fn policy_of(keep: bool) -> u64 {
    if keep { EVICT_LAST } else { EVICT_NORMAL }
}

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
