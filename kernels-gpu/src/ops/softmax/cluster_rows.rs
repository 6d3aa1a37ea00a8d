//! A row in the registers of one block, or of a cluster's blocks, backward: all of it is under way at once, and what the
//! warps have summed up goes to all blocks of the cluster.
//!
//! Rows of whole pieces that lie at multiples of 16 bytes, so that threads have few instructions and registers besides
//! what they load, and there are as many of them as the multiprocessor takes.
//!
//! Grid: a cluster a row. Block: [`THREADS`]. Shared memory: a slot for each warp of the cluster.

use super::register_rows::{anew, gradients, sum_of};
use super::streamed_rows::{Finish, powers_of_warp, store};
use crate::math::rows::{MAX_LANES, Online, Vector, Words, finite, reduce};
use core::mem::size_of;
use cuda_std::{cluster, guarded, math, shared, thread};
use kernel_abi::ops::softmax::cluster_rows::{MAX_BLOCKS, THREADS};
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxLanesParams};

const LANES: u32 = 32;

/// Warps of a block.
const WARPS: u32 = THREADS / LANES;

/// Slots for a number of each warp of a cluster.
const SLOTS_OF_NUMBER: u32 = WARPS * MAX_BLOCKS;

/// Slots of a block.
pub(super) const SLOTS: usize = 2 * SLOTS_OF_NUMBER as usize;

/// Where a thread stands: its pieces of its cluster's row.
struct Place {
    row: i64,
    rank: u32,
    blocks: u32,
    n_pieces: u32,
}

impl Place {
    #[inline(always)]
    unsafe fn new<T: Vector>(p: &SoftmaxLanesParams) -> Self {
        let (rank, blocks) = (cluster::rank(), cluster::size());
        if blocks > 1 {
            // Others write into this block's memory once all have come here.
            cluster::arrive_relaxed();
        }
        let row = i64::from(cluster::cluster_idx_x());
        Place { row, rank, blocks, n_pieces: p.row_elems / T::LANES as u32 }
    }

    #[inline(always)]
    fn begin<T>(&self, address: u64, pitch: i64) -> u64 {
        (address as i64 + self.row * pitch * size_of::<T>() as i64) as u64
    }

    #[inline(always)]
    fn piece(&self, k: usize) -> u32 {
        (k as u32 * self.blocks + self.rank) * THREADS + thread::thread_idx_x()
    }

    /// The thread's pieces, 0 for those that there are not.
    #[inline(always)]
    unsafe fn load<T, const K: usize>(&self, address: u64, pitch: i64) -> [Words; K] {
        let (from, mut words) = (self.begin::<T>(address, pitch), [[0u32; 4]; K]);
        let mut k = 0;
        while k < K {
            let piece = self.piece(k);
            let at = from + u64::from(piece) * size_of::<Words>() as u64;
            *words.get_unchecked_mut(k) = guarded::load_x4(at, u32::from(piece < self.n_pieces));
            k += 1;
        }
        words
    }
}

/// y = softmax(x), `K` pieces a thread.
#[inline(always)]
pub unsafe fn forward<T: Vector, const K: usize>(p: &SoftmaxLanesParams, slots: *mut f32) {
    if p.kind == SoftmaxKind::Log as u32 {
        forward_of::<T, K, true>(p, slots)
    } else {
        forward_of::<T, K, false>(p, slots)
    }
}

#[inline(always)]
unsafe fn forward_of<T: Vector, const K: usize, const LOG: bool>(p: &SoftmaxLanesParams, slots: *mut f32) {
    let place = Place::new::<T>(p);
    let mut x: [Words; K] = place.load::<T, K>(p.input, p.in_pitch);
    let nothing = T::pack([f32::NEG_INFINITY; MAX_LANES])[0];
    let mut k = 0;
    while k < K {
        if place.piece(k) >= place.n_pieces {
            *x.get_unchecked_mut(k) = [nothing; 4];
        }
        k += 1;
    }
    let (of_warp, powers) = powers_of_warp::<T, LANES, K>(&x, p.kind == SoftmaxKind::Fast as u32);
    exchange(slots, [of_warp.max, of_warp.sum], place.rank, place.blocks);
    let (max_slots, sum_slots) = (slots, slots.add(SLOTS_OF_NUMBER as usize));
    let (lane, n) = (thread::lane_id(), place.blocks * WARPS);
    let mut max = f32::NEG_INFINITY;
    let mut slot = lane;
    while slot < n {
        max = math::max_nan_f32(max, *max_slots.add(slot as usize));
        slot += LANES;
    }
    max = reduce::<LANES>(max, slots, math::max_nan_f32);
    let mut sum = 0.0;
    slot = lane;
    while slot < n {
        let weight = T::exp(*max_slots.add(slot as usize) - finite(max));
        sum = math::fma_f32(*sum_slots.add(slot as usize), weight, sum);
        slot += LANES;
    }
    sum = reduce::<LANES>(sum, slots, |a, b| a + b);
    let finish = Finish::new::<T, LOG>(p.alpha, of_warp, Online { max, sum });
    let out = place.begin::<T>(p.out, p.out_pitch);
    k = 0;
    while k < K {
        if place.piece(k) < place.n_pieces {
            let values = finish.of::<T, LOG>(*x.get_unchecked(k), *powers.get_unchecked(k));
            store::<T>(out, place.piece(k), values, p.beta);
        }
        k += 1;
    }
}

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
    let place = Place::new::<T>(p);
    let dy: [Words; K] = place.load::<T, K>(p.dy, p.dy_pitch);
    let y: [Words; K] = place.load::<T, K>(p.input, p.in_pitch);
    let add = |a: f32, b: f32| a + b;
    let of_warp = reduce::<LANES>(sum_of::<T, K>(&y, &dy, LOG, 0.0), slots, add);
    exchange(slots, [of_warp], place.rank, place.blocks);
    let mut sum = 0.0;
    let mut slot = thread::lane_id();
    while slot < place.blocks * WARPS {
        sum += *slots.add(slot as usize);
        slot += LANES;
    }
    sum = reduce::<LANES>(sum, slots, add);
    let out = place.begin::<T>(p.out, p.out_pitch);
    let mut k = 0;
    while k < K {
        if place.piece(k) < place.n_pieces {
            // Elements are made anew from what was loaded: kept from the sum on, they would take twice its registers.
            let (y, dy) = (anew(*y.get_unchecked(k)), anew(*dy.get_unchecked(k)));
            let values = gradients::<T>(y, dy, sum, LOG).map(|value| p.alpha * value);
            store::<T>(out, place.piece(k), values, p.beta);
        }
        k += 1;
    }
}

/// A warp's numbers, the same in all of its lanes, go to its slots in all blocks of the cluster, and all have come.
#[inline(always)]
unsafe fn exchange<const N: usize>(slots: *mut f32, numbers: [f32; N], rank: u32, blocks: u32) {
    let (lane, warp) = (thread::lane_id(), thread::warp_idx());
    if blocks > 1 {
        cluster::wait();
    }
    let mut i = 0;
    while i < N {
        let own = slots.add(i * SLOTS_OF_NUMBER as usize + (rank * WARPS + warp) as usize);
        if blocks == 1 {
            if lane == 0 {
                *own = *numbers.get_unchecked(i);
            }
        } else if lane < blocks {
            cluster::store_f32(cluster::map_address(shared::address(own), lane), *numbers.get_unchecked(i));
        }
        i += 1;
    }
    if blocks == 1 {
        thread::sync_threads();
    } else {
        cluster::sync();
    }
}
