//! Pixels in the order a convolution's implicit matrix wants them: `cp.async.bulk.tensor….im2col`.

use super::MapAddress;
use core::arch::asm;

macro_rules! im2col {
    ($rank:literal, $n:literal, $spatial:literal, $coordinates:literal, [$($c:ident = $i:literal),*],
     $offsets:literal, [$($o:ident = $j:literal),*],
     $load:ident, $multicast:ident, $cached:ident, $store:ident) => {
        #[doc = concat!("Loads pixels of a tensor of rank ", $rank, " in im2col order: `cp.async.bulk.tensor.", $rank,
                        "d…im2col`.")]
        ///
        /// `at` is channel, filter base of the first pixel (fastest dimension first) and image; `offset` the filter
        /// position, fastest first.
        ///
        /// # Safety
        /// `to` is a shared-window address with room for the map's pixels and channels, a multiple of 128 (1024 with a
        /// 128-byte swizzle); `map` leads to an im2col tensor map of this rank, `bar` is an initialized barrier.
        #[inline(always)]
        pub unsafe fn $load(to: u32, map: MapAddress, bar: u32, at: [i32; $n], offset: [u16; $spatial]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("cp.async.bulk.tensor.", $rank, "d.shared::cluster.global.im2col\
                              .mbarrier::complete_tx::bytes [{to}], [{map}, ", $coordinates, "], [{bar}], ", $offsets,
                             ";"),
                     to = in(reg32) to, map = in(reg64) map.0, bar = in(reg32) bar, $($c = in(reg32) at[$i],)*
                     $($o = in(reg16) offset[$j],)* options(nostack));
            }
        }

        #[doc = concat!("[`", stringify!($load), "`] into every block of the cluster that `mask` names: \
                         `.multicast::cluster`.")]
        ///
        /// # Safety
        #[doc = concat!("As [`", stringify!($load), "`], in every block of the mask.")]
        #[inline(always)]
        pub unsafe fn $multicast(to: u32, map: MapAddress, bar: u32, mask: u16, at: [i32; $n],
                                 offset: [u16; $spatial]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("cp.async.bulk.tensor.", $rank, "d.shared::cluster.global.im2col\
                              .mbarrier::complete_tx::bytes.multicast::cluster [{to}], [{map}, ", $coordinates,
                             "], [{bar}], ", $offsets, ", {mask};"),
                     to = in(reg32) to, map = in(reg64) map.0, bar = in(reg32) bar, mask = in(reg16) mask,
                     $($c = in(reg32) at[$i],)* $($o = in(reg16) offset[$j],)* options(nostack));
            }
        }

        #[doc = concat!("[`", stringify!($load), "`] with a cache policy: `.L2::cache_hint`.")]
        ///
        /// # Safety
        #[doc = concat!("As [`", stringify!($load), "`].")]
        #[inline(always)]
        pub unsafe fn $cached(to: u32, map: MapAddress, bar: u32, policy: u64, at: [i32; $n],
                              offset: [u16; $spatial]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("cp.async.bulk.tensor.", $rank, "d.shared::cluster.global.im2col\
                              .mbarrier::complete_tx::bytes.L2::cache_hint [{to}], [{map}, ", $coordinates,
                             "], [{bar}], ", $offsets, ", {policy};"),
                     to = in(reg32) to, map = in(reg64) map.0, bar = in(reg32) bar, policy = in(reg64) policy,
                     $($c = in(reg32) at[$i],)* $($o = in(reg16) offset[$j],)* options(nostack));
            }
        }

        #[doc = concat!("Stores a run of pixels of a tensor of rank ", $rank, ": `cp.async.bulk.tensor.", $rank,
                        "d…im2col_no_offs`; see [`commit_group`](super::commit_group).")]
        ///
        /// # Safety
        #[doc = concat!("As [`", stringify!($load), "`], with `from` for the pixels.")]
        #[inline(always)]
        pub unsafe fn $store(map: MapAddress, from: u32, at: [i32; $n]) {
            // SAFETY: the caller's promise.
            unsafe {
                asm!(concat!("cp.async.bulk.tensor.", $rank, "d.global.shared::cta.im2col_no_offs.bulk_group [{map}, ",
                             $coordinates, "], [{from}];"),
                     map = in(reg64) map.0, from = in(reg32) from, $($c = in(reg32) at[$i],)* options(nostack));
            }
        }
    };
}

im2col!(
    "3",
    3,
    1,
    "{{{c0}, {c1}, {c2}}}",
    [c0 = 0, c1 = 1, c2 = 2],
    "{{{o0}}}",
    [o0 = 0],
    load_im2col_3d,
    load_im2col_3d_multicast,
    load_im2col_3d_cached,
    store_im2col_3d
);
im2col!(
    "4",
    4,
    2,
    "{{{c0}, {c1}, {c2}, {c3}}}",
    [c0 = 0, c1 = 1, c2 = 2, c3 = 3],
    "{{{o0}, {o1}}}",
    [o0 = 0, o1 = 1],
    load_im2col_4d,
    load_im2col_4d_multicast,
    load_im2col_4d_cached,
    store_im2col_4d
);
im2col!(
    "5",
    5,
    3,
    "{{{c0}, {c1}, {c2}, {c3}, {c4}}}",
    [c0 = 0, c1 = 1, c2 = 2, c3 = 3, c4 = 4],
    "{{{o0}, {o1}, {o2}}}",
    [o0 = 0, o1 = 1, o2 = 2],
    load_im2col_5d,
    load_im2col_5d_multicast,
    load_im2col_5d_cached,
    store_im2col_5d
);
