//! The sum of what the blocks of a cluster have of one tile, and its way into c.

use super::epilogue::{Out, element, prior};
use super::{Tiled, WARPGROUP};
use cuda_std::barrier::sync_named;
use cuda_std::{cluster, shared, warp};
use kernel_abi::ops::matmul::MatmulTmaParams;

/// The named barrier of all consumers; each has its own, 1 to 3, besides.
const ALL_CONSUMERS: u32 = 4;

/// Slices whose sums are loaded at once, of two groups of columns.
const LOADED_SLICES: usize = 4;

/// Adds up the sums of the blocks that have the slices of the same tile, in the order of the slices.
///
/// Each thread leaves four sums, those of 8 columns, at a place of its own in the memory of the stages; then the blocks
/// take the groups of 8 columns in turn, and add up what lies at the same place in all of them.
///
/// # Safety
/// As `leave`; all blocks of the cluster.
#[inline(always)]
pub(super) unsafe fn add_up<P: Tiled, const R: usize>(p: &MatmulTmaParams, d: &[f32; R], out: &Out, stages: u32) {
    let n_groups = R as u32 / 4;
    let threads = P::TILE.consumers() * WARPGROUP;
    let own = stages + (out.consumer * WARPGROUP + out.thread) * 16;
    // Other consumers may still be reading the last stage.
    sync_named(ALL_CONSUMERS, threads);
    let mut group = 0;
    while group < R / 4 {
        let bits = |i: usize| d.get_unchecked(4 * group + i).to_bits();
        shared::store_x4(own + group as u32 * threads * 16, [bits(0), bits(1), bits(2), bits(3)]);
        group += 1;
    }
    cluster::sync();
    let mut group = out.slice;
    while group < n_groups {
        let second = group + p.n_slices;
        let mut sums = [[0.0f32; 4]; 2];
        let mut first = 0;
        while first < p.n_slices {
            // All are under way before the first is there.
            let mut parts = [[[0u32; 4]; 2]; LOADED_SLICES];
            let mut i = 0;
            while i < LOADED_SLICES {
                let slice = first + i as u32;
                let (rank, there) = (out.sharers.rank_of(slice), slice < p.n_slices);
                parts[i][0] = cluster::load_x4_if(own + group * threads * 16, rank, u32::from(there));
                // Of one group in two blocks' turns there is no second.
                if R > 8 {
                    let there = there && second < n_groups;
                    parts[i][1] = cluster::load_x4_if(own + second * threads * 16, rank, u32::from(there));
                }
                i += 1;
            }
            let mut i = 0;
            while i < LOADED_SLICES {
                let mut j = 0;
                while j < 4 {
                    sums[0][j] += f32::from_bits(parts[i][0][j]);
                    sums[1][j] += f32::from_bits(parts[i][1][j]);
                    j += 1;
                }
                i += 1;
            }
            first += LOADED_SLICES as u32;
        }
        store::<P, R>(p, out, out.col() + 8 * group, sums[0]);
        if R > 8 && second < n_groups {
            store::<P, R>(p, out, out.col() + 8 * second, sums[1]);
        }
        group = second + p.n_slices;
    }
}

/// Scales the sums of two neighbouring columns in this thread's two rows, blends them with c's prior values and stores
/// them, where they lie in c.
///
/// # Safety
/// As [`add_up`]; all threads of a warp.
#[inline(always)]
unsafe fn store<P: Tiled, const R: usize>(p: &MatmulTmaParams, out: &Out, col: u32, sums: [f32; 4]) {
    let mut v = [p.alpha * sums[0], p.alpha * sums[1], p.alpha * sums[2], p.alpha * sums[3]];
    let rows = [out.row(), out.row() + 8];
    if p.beta != 0.0 {
        let [upper, lower] = [prior::<P, R>(p, out, rows[0], col), prior::<P, R>(p, out, rows[1], col)];
        v = [v[0] + upper[0], v[1] + upper[1], v[2] + lower[0], v[3] + lower[1]];
    }
    let pairs = [P::pack(v[0], v[1]), P::pack(v[2], v[3])];
    if p.store_bytes < 4 {
        let mut i = 0;
        while i < 2 {
            if rows[i] < p.gemm_m && col < p.gemm_n {
                *element(p, out.matrix, rows[i], col) = pairs[i] as u16;
                if col + 1 < p.gemm_n {
                    *element(p, out.matrix, rows[i], col + 1) = (pairs[i] >> 16) as u16;
                }
            }
            i += 1;
        }
        return;
    }
    // Elements lie in whole pairs: of a row, or of a column, whose other row is four lanes away. Two such threads
    // have two columns, and each takes one.
    let odd = if p.transposed != 0 { rows[0] % 2 } else { 0 };
    let mut i = 0;
    while i < 2 {
        let own = pairs[i];
        let pair = if p.transposed == 0 {
            own
        } else {
            let theirs = warp::shuffle_xor(if odd == 0 { own >> 16 } else { own }, 4);
            if odd == 0 { own & 0xffff | theirs << 16 } else { own & 0xffff_0000 | theirs & 0xffff }
        };
        let (row, col) = (rows[i] - odd, col + odd);
        if row < p.gemm_m && col < p.gemm_n {
            *(element(p, out.matrix, row, col) as *mut u32) = pair;
        }
        i += 1;
    }
}
