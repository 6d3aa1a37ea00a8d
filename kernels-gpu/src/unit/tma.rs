//! The bulk tensor copy engine.

use cuda_std::tma::{self, MapAddress};
use cuda_std::{barrier, kernel, mbarrier, param_tensor_map, shared, shared_array, thread};

/// A barrier for one arrival, ready for TMA.
unsafe fn one_barrier() -> u32 {
    let bar = shared::address(shared_array![u64; 1]);
    if thread::thread_idx_x() == 0 {
        mbarrier::init(bar, 1);
        mbarrier::fence_init();
    }
    thread::sync_threads();
    bar
}

/// Copies dynamic shared memory out, as it is.
unsafe fn dump(out: u64, bytes: u32) {
    let mut i = thread::thread_idx_x();
    while i < bytes / 4 {
        *(out as *mut u32).add(i as usize) = shared::load_u32(shared::dynamic_address() + 4 * i);
        i += thread::block_dim_x();
    }
}

/// Loads one box of `bytes` at the coordinates `c` and dumps it. Rank 2 goes through a prefetch and a cache policy,
/// rank 12 is rank 2 without.
///
/// # Safety
/// 128 threads with `bytes` of dynamic shared memory; `map` is the address of a tensor map of that rank.
#[kernel(threads = 128, arch = "sm_90a")]
pub unsafe fn unit_tma_load(map: u64, out: u64, rank: u32, bytes: u32, c0: u32, c1: u32, c2: u32, c3: u32, c4: u32) {
    let bar = one_barrier();
    let to = shared::dynamic_address();
    let [c0, c1, c2, c3, c4] = [c0, c1, c2, c3, c4].map(|c| c as i32);
    if thread::thread_idx_x() == 0 {
        barrier::fence_tensor_map(map);
        let map = MapAddress(map);
        tma::prefetch_map(map);
        mbarrier::arrive_expect_bytes(bar, bytes);
        match rank {
            1 => tma::load_1d(to, map, bar, [c0]),
            2 => {
                tma::prefetch_2d(map, [c0, c1]);
                tma::load_2d_cached(to, map, bar, tma::EVICT_FIRST, [c0, c1]);
            }
            3 => tma::load_3d(to, map, bar, [c0, c1, c2]),
            4 => tma::load_4d(to, map, bar, [c0, c1, c2, c3]),
            5 => tma::load_5d(to, map, bar, [c0, c1, c2, c3, c4]),
            _ => tma::load_2d(to, map, bar, [c0, c1]),
        }
    }
    mbarrier::wait(bar, 0);
    dump(out, bytes);
}

/// Loads pixels in im2col order and dumps them. `offsets` holds three numbers of 8 bits, fastest first.
///
/// # Safety
/// As [`unit_tma_load`], with an im2col map.
#[kernel(threads = 128, arch = "sm_90a")]
pub unsafe fn unit_tma_im2col(
    map: u64,
    out: u64,
    rank: u32,
    bytes: u32,
    c0: u32,
    c1: u32,
    c2: u32,
    c3: u32,
    c4: u32,
    offsets: u32,
) {
    let bar = one_barrier();
    let to = shared::dynamic_address();
    let [c0, c1, c2, c3, c4] = [c0, c1, c2, c3, c4].map(|c| c as i32);
    let [o0, o1, o2] = [offsets, offsets >> 8, offsets >> 16].map(|o| (o & 0xff) as u16);
    if thread::thread_idx_x() == 0 {
        barrier::fence_tensor_map(map);
        let map = MapAddress(map);
        mbarrier::arrive_expect_bytes(bar, bytes);
        match rank {
            3 => tma::load_im2col_3d(to, map, bar, [c0, c1, c2], [o0]),
            4 => tma::load_im2col_4d(to, map, bar, [c0, c1, c2, c3], [o0, o1]),
            _ => tma::load_im2col_5d(to, map, bar, [c0, c1, c2, c3, c4], [o0, o1, o2]),
        }
    }
    mbarrier::wait(bar, 0);
    dump(out, bytes);
}

/// Stores a box, or adds it when `add` is 1.
///
/// # Safety
/// 128 threads with `bytes` of dynamic shared memory; `x` has `bytes`; `map` is the address of a tensor map.
#[kernel(threads = 128, arch = "sm_90a")]
pub unsafe fn unit_tma_store(
    map: u64,
    x: u64,
    rank: u32,
    bytes: u32,
    add: u32,
    c0: u32,
    c1: u32,
    c2: u32,
    c3: u32,
    c4: u32,
) {
    let from = shared::dynamic_address();
    let [c0, c1, c2, c3, c4] = [c0, c1, c2, c3, c4].map(|c| c as i32);
    let mut i = thread::thread_idx_x();
    while i < bytes / 4 {
        shared::store_u32(from + 4 * i, *(x as *const u32).add(i as usize));
        i += thread::block_dim_x();
    }
    barrier::fence_proxy_async_shared();
    thread::sync_threads();
    if thread::thread_idx_x() == 0 {
        barrier::fence_tensor_map(map);
        let map = MapAddress(map);
        match (rank, add) {
            (1, 0) => tma::store_1d(map, from, [c0]),
            (1, _) => tma::reduce_add_1d(map, from, [c0]),
            (2, 0) => tma::store_2d(map, from, [c0, c1]),
            (2, _) => tma::reduce_add_2d(map, from, [c0, c1]),
            (3, 0) => tma::store_3d(map, from, [c0, c1, c2]),
            (3, _) => tma::reduce_add_3d(map, from, [c0, c1, c2]),
            (4, 0) => tma::store_4d(map, from, [c0, c1, c2, c3]),
            (4, _) => tma::reduce_add_4d(map, from, [c0, c1, c2, c3]),
            (_, 0) => tma::store_5d(map, from, [c0, c1, c2, c3, c4]),
            _ => tma::reduce_add_5d(map, from, [c0, c1, c2, c3, c4]),
        }
        tma::commit_group();
        tma::wait_group_read::<0>();
        tma::wait_group::<0>();
    }
}

/// Copies `bytes` in, then out to `out`, and adds them as floats to `sums`.
///
/// # Safety
/// 128 threads with `bytes` (a multiple of 16) of dynamic shared memory; `x`, `out`, `sums` have as many.
#[kernel(threads = 128, arch = "sm_90a")]
pub unsafe fn unit_tma_bytes(x: u64, out: u64, sums: u64, bytes: u32) {
    let bar = one_barrier();
    let at = shared::dynamic_address();
    if thread::thread_idx_x() == 0 {
        tma::prefetch_bytes(x as *const u8, bytes);
        mbarrier::arrive_expect_bytes(bar, bytes);
        tma::load_bytes(at, x as *const u8, bytes, bar);
        mbarrier::wait(bar, 0);
        tma::store_bytes(out as *mut u8, at, bytes);
        tma::reduce_add_f32(sums as *mut f32, at, bytes);
        tma::commit_group();
        tma::wait_group::<0>();
    }
}

/// Both blocks of a cluster load half of the boxes for both: `bytes` a half, rows 0 and `rows`. Each dumps the whole.
///
/// # Safety
/// Clusters of 2 blocks of 128 threads with `2 bytes` of dynamic shared memory; `map` as in [`unit_tma_load`], rank 2.
#[kernel(threads = 128, cluster = 2, arch = "sm_90a")]
pub unsafe fn unit_tma_multicast(map: u64, out: u64, bytes: u32, rows: u32) {
    use cuda_std::cluster;
    let bar = one_barrier();
    let rank = cluster::rank();
    if thread::thread_idx_x() == 0 {
        mbarrier::arrive_expect_bytes(bar, 2 * bytes);
    }
    // The peer's barrier must be ready before bytes are counted there.
    cluster::sync();
    if thread::thread_idx_x() == 0 {
        barrier::fence_tensor_map(map);
        let to = shared::dynamic_address() + rank * bytes;
        tma::load_2d_multicast(to, MapAddress(map), bar, 0b11, [0, (rank * rows) as i32]);
    }
    mbarrier::wait(bar, 0);
    dump(out + u64::from(rank * 2 * bytes), 2 * bytes);
    cluster::sync();
}

/// A tensor map as a parameter.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct MapParameter([u64; 16]);

/// As [`unit_tma_load`] for rank 2 at the origin, with the map by value.
///
/// # Safety
/// 128 threads with `bytes` of dynamic shared memory.
#[kernel(threads = 128, tensor_maps = 1, arch = "sm_90a")]
pub unsafe fn unit_tma_parameter(_map: MapParameter, out: u64, bytes: u32) {
    let bar = one_barrier();
    if thread::thread_idx_x() == 0 {
        let map = param_tensor_map!(unit_tma_parameter, 0);
        tma::prefetch_map(map);
        mbarrier::arrive_expect_bytes(bar, bytes);
        tma::load_2d(shared::dynamic_address(), map, bar, [0, 0]);
    }
    mbarrier::wait(bar, 0);
    dump(out, bytes);
}
