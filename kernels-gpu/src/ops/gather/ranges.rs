//! Indices sorted into ranges of rows, in order, so that sums look through those of their range alone. Each range looks
//! through all indices, chunk by chunk: first it counts its own, then it lists them behind those of the ranges and chunks
//! before.
//!
//! Grid: a block for each chunk of each range. Block: 256 threads.

use super::rows::{Entries, List, N_WARPS, row};
use crate::math::vector;
use cuda_std::thread::{block_idx_x, lane_id, sync_threads, thread_idx_x, warp_idx};
use cuda_std::warp;
use kernel_abi::ops::gather::{GatherRangesParams, ROWS_THREADS};

/// Counts the block's indices.
pub unsafe fn count(p: &GatherRangesParams, totals: *mut u32) {
    let (range, begin, end) = work(p);
    let first = i64::from(range) * i64::from(p.range_rows);
    let (mut mine, mut n) = (0, begin + thread_idx_x());
    while n < end {
        let target = row(&p.indices, n) - first;
        mine += u32::from(target >= 0 && target < i64::from(p.range_rows));
        n += ROWS_THREADS;
    }
    let all = total(mine, totals);
    if thread_idx_x() == 0 {
        *(p.workspace as *mut u32).add(block_idx_x() as usize) = all;
    }
}

/// Lists them.
pub unsafe fn fill(p: &GatherRangesParams, totals: *mut u32) {
    let (range, begin, end) = work(p);
    let words = p.workspace as *mut u32;
    let (block, n_blocks) = (block_idx_x(), p.n_ranges * p.n_chunks);
    let (mut before, mut i) = (0, thread_idx_x());
    while i < block {
        before += *words.add(i as usize);
        i += ROWS_THREADS;
    }
    let before = total(before, totals);
    let sources = words.add(p.list() as usize + before as usize);
    let targets = sources.add(p.indices.n as usize);
    let list = List { sources, targets, sorted: sources, ends: totals, totals, room: u32::MAX };
    let entries = Entries { indices: &p.indices, ranges: None };
    let first = i64::from(range) * i64::from(p.range_rows);
    let (found, _) = list.collect(&entries, first, p.range_rows, begin, end);
    if thread_idx_x() == 0 {
        if block == range * p.n_chunks {
            *words.add(p.start(range) as usize) = before;
        }
        if block + 1 == n_blocks {
            *words.add(p.start(p.n_ranges) as usize) = before + found;
        }
    }
}

/// The block's range, and its chunk of the indices.
#[inline(always)]
unsafe fn work(p: &GatherRangesParams) -> (u32, u32, u32) {
    let range = core::intrinsics::unchecked_div(block_idx_x(), p.n_chunks);
    let begin = (block_idx_x() - range * p.n_chunks) * p.chunk;
    let end = if p.indices.n - begin < p.chunk { p.indices.n } else { begin + p.chunk };
    (range, begin, end)
}

/// The sum over the block's threads, in all of them.
#[inline(always)]
unsafe fn total(value: u32, totals: *mut u32) -> u32 {
    warp::sync_warp();
    // All lanes must be asked for the warp's index, and so before the branch.
    let (up_to_me, my_warp) = (warp::prefix_sum_u32(value), warp_idx());
    if lane_id() == 31 {
        *totals.add(my_warp as usize) = up_to_me;
    }
    sync_threads();
    let mut all = 0;
    vector::for_each!(W < N_WARPS, {
        all += *totals.add(W);
    });
    sync_threads();
    all
}
