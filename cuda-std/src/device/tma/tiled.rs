//! Boxes of tensors: `cp.async.bulk.tensor`.

use super::MapAddress;
use core::arch::asm;

macro_rules! load {
    ($rank:literal, $n:literal, $coordinates:literal, [$($c:ident = $i:literal),*],
     $load:ident, $multicast:ident, $cached:ident, $multicast_cached:ident, $prefetch:ident, $prefetch_cached:ident) => {
        #[doc = concat!("Loads a box of a tensor of rank ", $rank, ": `cp.async.bulk.tensor.", $rank, "d`.")]
        ///
        /// # Safety
        /// `to` is a shared-window address with room for the box, a multiple of 128 (1024 with a 128-byte swizzle);
        /// `map` leads to a tensor map of this rank, `bar` is an initialized barrier.
        #[inline(always)]
        pub unsafe fn $load(to: u32, map: MapAddress, bar: u32, at: [i32; $n]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("cp.async.bulk.tensor.", $rank,
                             "d.shared::cluster.global.mbarrier::complete_tx::bytes [{to}], [{map}, ", $coordinates,
                             "], [{bar}];"),
                     to = in(reg32) to, map = in(reg64) map.0, bar = in(reg32) bar, $($c = in(reg32) at[$i],)*
                     options(nostack));
            }
        }

        #[doc = concat!("[`", stringify!($load), "`] into every block of the cluster that `mask` names, at the same \
                         offset, counted by the barrier at the same offset: `.multicast::cluster`.")]
        ///
        /// # Safety
        #[doc = concat!("As [`", stringify!($load), "`], in every block of the mask.")]
        #[inline(always)]
        pub unsafe fn $multicast(to: u32, map: MapAddress, bar: u32, mask: u16, at: [i32; $n]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("cp.async.bulk.tensor.", $rank, "d.shared::cluster.global.mbarrier::complete_tx::bytes\
                              .multicast::cluster [{to}], [{map}, ", $coordinates, "], [{bar}], {mask};"),
                     to = in(reg32) to, map = in(reg64) map.0, bar = in(reg32) bar, mask = in(reg16) mask,
                     $($c = in(reg32) at[$i],)* options(nostack));
            }
        }

        #[doc = concat!("[`", stringify!($load), "`] with a cache policy: `.L2::cache_hint`.")]
        ///
        /// # Safety
        #[doc = concat!("As [`", stringify!($load), "`].")]
        #[inline(always)]
        pub unsafe fn $cached(to: u32, map: MapAddress, bar: u32, policy: u64, at: [i32; $n]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("cp.async.bulk.tensor.", $rank, "d.shared::cluster.global.mbarrier::complete_tx::bytes\
                              .L2::cache_hint [{to}], [{map}, ", $coordinates, "], [{bar}], {policy};"),
                     to = in(reg32) to, map = in(reg64) map.0, bar = in(reg32) bar, policy = in(reg64) policy,
                     $($c = in(reg32) at[$i],)* options(nostack));
            }
        }

        #[doc = concat!("[`", stringify!($multicast), "`] with a cache policy: `.L2::cache_hint`.")]
        ///
        /// # Safety
        #[doc = concat!("As [`", stringify!($multicast), "`].")]
        #[inline(always)]
        pub unsafe fn $multicast_cached(to: u32, map: MapAddress, bar: u32, mask: u16, policy: u64, at: [i32; $n]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("cp.async.bulk.tensor.", $rank, "d.shared::cluster.global.mbarrier::complete_tx::bytes\
                              .multicast::cluster.L2::cache_hint [{to}], [{map}, ", $coordinates,
                             "], [{bar}], {mask}, {policy};"),
                     to = in(reg32) to, map = in(reg64) map.0, bar = in(reg32) bar, mask = in(reg16) mask,
                     policy = in(reg64) policy, $($c = in(reg32) at[$i],)* options(nostack));
            }
        }

        #[doc = concat!("Brings a box of a tensor of rank ", $rank, " to the second-level cache: \
                         `cp.async.bulk.prefetch.tensor.", $rank, "d.L2`.")]
        ///
        /// # Safety
        /// `map` leads to a tensor map of this rank.
        #[inline(always)]
        pub unsafe fn $prefetch(map: MapAddress, at: [i32; $n]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("cp.async.bulk.prefetch.tensor.", $rank, "d.L2.global [{map}, ", $coordinates, "];"),
                     map = in(reg64) map.0, $($c = in(reg32) at[$i],)* options(nostack));
            }
        }

        #[doc = concat!("[`", stringify!($prefetch), "`] with a cache policy: `.L2::cache_hint`.")]
        ///
        /// # Safety
        #[doc = concat!("As [`", stringify!($prefetch), "`].")]
        #[inline(always)]
        pub unsafe fn $prefetch_cached(map: MapAddress, policy: u64, at: [i32; $n]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("cp.async.bulk.prefetch.tensor.", $rank, "d.L2.global.L2::cache_hint [{map}, ",
                             $coordinates, "], {policy};"),
                     map = in(reg64) map.0, policy = in(reg64) policy, $($c = in(reg32) at[$i],)* options(nostack));
            }
        }
    };
}

load!(
    "1",
    1,
    "{{{c0}}}",
    [c0 = 0],
    load_1d,
    load_1d_multicast,
    load_1d_cached,
    load_1d_multicast_cached,
    prefetch_1d,
    prefetch_1d_cached
);
load!(
    "2",
    2,
    "{{{c0}, {c1}}}",
    [c0 = 0, c1 = 1],
    load_2d,
    load_2d_multicast,
    load_2d_cached,
    load_2d_multicast_cached,
    prefetch_2d,
    prefetch_2d_cached
);
load!(
    "3",
    3,
    "{{{c0}, {c1}, {c2}}}",
    [c0 = 0, c1 = 1, c2 = 2],
    load_3d,
    load_3d_multicast,
    load_3d_cached,
    load_3d_multicast_cached,
    prefetch_3d,
    prefetch_3d_cached
);
load!(
    "4",
    4,
    "{{{c0}, {c1}, {c2}, {c3}}}",
    [c0 = 0, c1 = 1, c2 = 2, c3 = 3],
    load_4d,
    load_4d_multicast,
    load_4d_cached,
    load_4d_multicast_cached,
    prefetch_4d,
    prefetch_4d_cached
);
load!(
    "5",
    5,
    "{{{c0}, {c1}, {c2}, {c3}, {c4}}}",
    [c0 = 0, c1 = 1, c2 = 2, c3 = 3, c4 = 4],
    load_5d,
    load_5d_multicast,
    load_5d_cached,
    load_5d_multicast_cached,
    prefetch_5d,
    prefetch_5d_cached
);

macro_rules! store {
    ($rank:literal, $n:literal, $coordinates:literal, [$($c:ident = $i:literal),*], $store:ident) => {
        #[doc = concat!("Stores a box of a tensor of rank ", $rank, ": `cp.async.bulk.tensor.", $rank,
                        "d.global.shared::cta`; see [`commit_group`](super::commit_group).")]
        ///
        /// # Safety
        /// `from` is a shared-window address of the box, aligned as for a load; `map` leads to a tensor map of this
        /// rank; no coordinate is below 0: an H200 was seen to fault on a store that begins before the tensor.
        #[inline(always)]
        pub unsafe fn $store(map: MapAddress, from: u32, at: [i32; $n]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("cp.async.bulk.tensor.", $rank, "d.global.shared::cta.bulk_group [{map}, ", $coordinates,
                             "], [{from}];"),
                     map = in(reg64) map.0, from = in(reg32) from, $($c = in(reg32) at[$i],)* options(nostack));
            }
        }
    };
}

macro_rules! reduce {
    ($rank:literal, $n:literal, $coordinates:literal, [$($c:ident = $i:literal),*], $reduce:ident,
     $operation:literal) => {
        #[doc = concat!("Combines a box with a tensor of rank ", $rank, " in memory, by elements of the map's type: \
                         `cp.reduce.async.bulk.tensor.", $rank, "d.", $operation,
                        "`; see [`commit_group`](super::commit_group).")]
        ///
        /// # Safety
        /// `from` is a shared-window address of the box, aligned as for a load; `map` leads to a tensor map of this
        /// rank; no coordinate is below 0: an H200 was seen to fault on a store that begins before the tensor.
        #[inline(always)]
        pub unsafe fn $reduce(map: MapAddress, from: u32, at: [i32; $n]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("cp.reduce.async.bulk.tensor.", $rank, "d.global.shared::cta.", $operation,
                             ".bulk_group [{map}, ", $coordinates, "], [{from}];"),
                     map = in(reg64) map.0, from = in(reg32) from, $($c = in(reg32) at[$i],)* options(nostack));
            }
        }
    };
}

macro_rules! stores {
    ($rank:literal, $n:literal, $coordinates:literal, $indices:tt, $store:ident,
     $($reduce:ident = $operation:literal),*) => {
        store!($rank, $n, $coordinates, $indices, $store);
        $(reduce!($rank, $n, $coordinates, $indices, $reduce, $operation);)*
    };
}

stores!(
    "1",
    1,
    "{{{c0}}}",
    [c0 = 0],
    store_1d,
    reduce_add_1d = "add",
    reduce_min_1d = "min",
    reduce_max_1d = "max",
    reduce_and_1d = "and",
    reduce_or_1d = "or",
    reduce_xor_1d = "xor"
);
stores!(
    "2",
    2,
    "{{{c0}, {c1}}}",
    [c0 = 0, c1 = 1],
    store_2d,
    reduce_add_2d = "add",
    reduce_min_2d = "min",
    reduce_max_2d = "max",
    reduce_and_2d = "and",
    reduce_or_2d = "or",
    reduce_xor_2d = "xor"
);
stores!(
    "3",
    3,
    "{{{c0}, {c1}, {c2}}}",
    [c0 = 0, c1 = 1, c2 = 2],
    store_3d,
    reduce_add_3d = "add",
    reduce_min_3d = "min",
    reduce_max_3d = "max",
    reduce_and_3d = "and",
    reduce_or_3d = "or",
    reduce_xor_3d = "xor"
);
stores!(
    "4",
    4,
    "{{{c0}, {c1}, {c2}, {c3}}}",
    [c0 = 0, c1 = 1, c2 = 2, c3 = 3],
    store_4d,
    reduce_add_4d = "add",
    reduce_min_4d = "min",
    reduce_max_4d = "max",
    reduce_and_4d = "and",
    reduce_or_4d = "or",
    reduce_xor_4d = "xor"
);
stores!(
    "5",
    5,
    "{{{c0}, {c1}, {c2}, {c3}, {c4}}}",
    [c0 = 0, c1 = 1, c2 = 2, c3 = 3, c4 = 4],
    store_5d,
    reduce_add_5d = "add",
    reduce_min_5d = "min",
    reduce_max_5d = "max",
    reduce_and_5d = "and",
    reduce_or_5d = "or",
    reduce_xor_5d = "xor"
);
