//! A row in the registers of one block, or of a cluster's blocks, backward: all of it is under way at once, and what the
//! warps have summed up goes to all blocks of the cluster.
//!
//! Rows of whole pieces that lie at multiples of 16 bytes, so that threads have few instructions and registers besides
//! what they load, and there are as many of them as the multiprocessor takes.
//!
//! Grid: a cluster a row. Block: [`THREADS`]. Shared memory: a slot for each warp of the cluster.

use super::register_rows::{gradients, sum_of};
use crate::math::rows::{Vector, Words, reduce};
use core::mem::size_of;
use cuda_std::{cluster, guarded, math, memory, schedule, shared, thread};
use kernel_abi::ops::softmax::cluster_rows::{MAX_BLOCKS, THREADS};
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxLanesParams};

const LANES: u32 = 32;

/// Warps of a block.
const WARPS: u32 = THREADS / LANES;

/// Slots of a block.
pub(super) const SLOTS: usize = (WARPS * MAX_BLOCKS) as usize;

/// dx from y and dy, `K` pieces a thread.
#[inline(always)]
pub unsafe fn backward<T: Vector, const K: usize>(p: &SoftmaxLanesParams, slots: *mut f32) {
    if p.kind == SoftmaxKind::Log as u32 {
        backward_of::<T, K, true>(p, slots)
    } else {
        backward_of::<T, K, false>(p, slots)
    }
}

#[inline(always)]
unsafe fn backward_of<T: Vector, const K: usize, const LOG: bool>(p: &SoftmaxLanesParams, slots: *mut f32) {
    let (rank, blocks) = (cluster::rank(), cluster::size());
    if blocks > 1 {
        // Others write into this block's memory once all have come here.
        cluster::arrive_relaxed();
    }
    let row = i64::from(cluster::cluster_idx_x());
    let begin = |address: u64, pitch: i64| (address as i64 + row * pitch * size_of::<T>() as i64) as u64;
    let n_pieces = p.row_elems / T::LANES as u32;
    let piece = |k: usize| (k as u32 * blocks + rank) * THREADS + thread::thread_idx_x();
    let load = |from: u64| {
        let mut words = [[0u32; 4]; K];
        let mut k = 0;
        while k < K {
            let at = from + u64::from(piece(k)) * size_of::<Words>() as u64;
            *words.get_unchecked_mut(k) = guarded::load_x4_streaming(at, u32::from(piece(k) < n_pieces));
            k += 1;
        }
        words
    };
    let dy = load(begin(p.dy, p.dy_pitch));
    let y = load(begin(p.input, p.in_pitch));
    let sum = sum_of_cluster(sum_of::<T, K>(&y, &dy, LOG, 0.0), slots, rank, blocks);
    let out = begin(p.out, p.out_pitch);
    let mut k = 0;
    while k < K {
        if piece(k) < n_pieces {
            // Elements are made anew from what was loaded: kept from the sum on, they would take twice its registers.
            let [y, dy] = [*y.get_unchecked(k), *dy.get_unchecked(k)].map(|words: Words| words.map(schedule::opaque));
            let mut values = gradients::<T>(y, dy, sum, LOG).map(|value| p.alpha * value);
            let to = (out + u64::from(piece(k)) * size_of::<Words>() as u64) as *mut u32;
            if p.beta != 0.0 {
                let prior = T::unpack(memory::load_x4(to));
                let mut i = 0;
                while i < T::LANES {
                    let value = values.get_unchecked_mut(i);
                    *value = math::fma_f32(p.beta, *prior.get_unchecked(i), *value);
                    i += 1;
                }
            }
            memory::store_x4(to, T::pack(values));
        }
        k += 1;
    }
}

/// The sum over all threads of the cluster, in all of them, always in the same order.
#[inline(always)]
unsafe fn sum_of_cluster(value: f32, slots: *mut f32, rank: u32, blocks: u32) -> f32 {
    let add = |a: f32, b: f32| a + b;
    let sum = reduce::<LANES>(value, slots, add);
    let (lane, warp) = (thread::lane_id(), thread::warp_idx());
    let own = slots.add((rank * WARPS + warp) as usize);
    if blocks == 1 {
        if lane == 0 {
            *own = sum;
        }
        thread::sync_threads();
    } else {
        cluster::wait();
        if lane < blocks {
            cluster::store_f32(cluster::map_address(shared::address(own), lane), sum);
        }
        cluster::sync();
    }
    let mut sum = 0.0;
    let mut slot = lane;
    while slot < blocks * WARPS {
        sum += *slots.add(slot as usize);
        slot += LANES;
    }
    reduce::<LANES>(sum, slots, add)
}
