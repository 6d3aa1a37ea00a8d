//! Clusters and distributed shared memory.

use cuda_std::{barrier, cluster, kernel, mbarrier, shared, shared_array, thread};

/// Two blocks write into and read from each other's memory in every way; rows of `out` are listed in the test.
///
/// # Safety
/// A grid of clusters of 2 blocks of 64 threads; `out` has 10 rows of 64 numbers a block.
#[kernel(threads = 64, cluster = 2, arch = "sm_90a")]
pub unsafe fn unit_cluster_exchange(out: u64) {
    let (t, rank, block) = (thread::thread_idx_x(), cluster::rank(), thread::block_idx_x());
    let peer = rank ^ 1;
    let own = shared::address(shared_array![u32; 64]);
    let stored = shared::address(shared_array![u32; 64]);
    let stored_wide = shared::address(shared_array![u32; 256]);
    let stored_async = shared::address(shared_array![u32; 64]);
    let stored_async_wide = shared::address(shared_array![u32; 256]);
    let copied = shared::address(shared_array![u32; 64]);
    let counters = shared::address(shared_array![u32; 4]);
    let bars = shared::address(shared_array![u64; 2]);
    let (bytes_bar, arrivals_bar) = (bars, bars + 8);

    shared::store_u32(own + 4 * t, 100 * block + t);
    if t == 0 {
        shared::store_x4(counters, [0; 4]);
        mbarrier::init(bytes_bar, 1);
        mbarrier::init(arrivals_bar, 64);
        mbarrier::fence_init();
        // What the peer will send: a word, four words and an addition a thread, and one copy.
        mbarrier::arrive_expect_bytes(bytes_bar, 64 * (4 + 16 + 4) + 256);
    }
    barrier::fence_proxy_async_shared();
    cluster::sync();

    let mut at = (out as *mut u32).add((10 * 64 * block + t) as usize);
    let mut put = |value: u32| {
        *at = value;
        at = at.add(64);
    };
    put(rank | cluster::size() << 8 | cluster::cluster_idx_x() << 16 | cluster::cluster_dim_x() << 24);
    put(cluster::load_u32(cluster::map_address(own + 4 * t, peer)));
    put(cluster::load_x4(cluster::map_address(own + 16 * (t / 4), peer))[2]);
    cluster::store_u32(cluster::map_address(stored + 4 * t, peer), 1000 * block + t);
    cluster::store_x4(cluster::map_address(stored_wide + 16 * t, peer), [block, t, 2 * t, 3 * t]);
    cluster::add_u32(cluster::map_address(counters, 0), t);
    let mapped_bar = cluster::map_address(bytes_bar, peer);
    cluster::store_async_u32(cluster::map_address(stored_async + 4 * t, peer), 2000 * block + t, mapped_bar);
    let wide = cluster::map_address(stored_async_wide + 16 * t, peer);
    cluster::store_async_x4(wide, [t, block, 5 * t, 7 * t], mapped_bar);
    cluster::reduce_add_async_u32(cluster::map_address(counters + 4, peer), t + 1, mapped_bar);
    if t == 0 {
        cluster::copy_bytes(cluster::map_address(copied, peer), own, 256, mapped_bar);
    }
    mbarrier::arrive_remote(arrivals_bar, peer);
    mbarrier::wait_cluster(bytes_bar, 0);
    put(shared::load_u32(stored_async + 4 * t));
    let [a, b, c, d] = shared::load_x4(stored_async_wide + 16 * t);
    put(a + 64 * b + c + d);
    put(shared::load_u32(counters + 4));
    put(shared::load_u32(copied + 4 * t));
    mbarrier::wait_cluster(arrivals_bar, 0);
    put(shared::load_u32(stored + 4 * t));
    let [a, b, c, d] = shared::load_x4(stored_wide + 16 * t);
    put(64 * a + b + c + d);
    cluster::sync();
    put(shared::load_u32(counters));
    // Nobody may leave while the other one still reads.
    cluster::arrive_relaxed();
    cluster::wait();
}
