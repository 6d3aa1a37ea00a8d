//! The gradient of the image: a tile of dx a block, of some channels, a position a thread.
//!
//! A block looks through all outputs of its image and lists those that read its tile, in order. Of some of the list at a
//! time, the weights go to shared memory: of the tile's plane, of each row and of each column, whose products are the
//! weights of positions. Then each thread adds up, in the order of the list, what its position has a weight for; a warp
//! has a row, and passes over outputs that do not read it together.
//!
//! Grid: exact, one-dimensional. Block: 256 threads.

use super::naive::place;
use crate::math::element::{Element, blend, load};
use crate::math::index::spatial_offset;
use crate::math::vector;
use cuda_std::thread::{block_idx_x, lane_id, sync_threads, thread_idx_x, warp_idx};
use cuda_std::{math, warp};
use kernel_abi::ops::gridsample::{GridSampleTileParams, TILE, TILE_CHANNELS, TILE_THREADS};

/// Outputs that a list has room for.
const LIST: usize = 1024;

/// Outputs whose weights are in shared memory at a time.
const BATCH: u32 = 128;

/// Weights of an output: the plane's, those of rows, those of columns.
const SLOTS: usize = 1 + (TILE[0] + TILE[1]) as usize;

const N_WARPS: usize = TILE_THREADS as usize / 32;

/// Numbers in shared memory for weights.
pub const N_WEIGHTS: usize = BATCH as usize * SLOTS;

/// Words of shared memory for the list, and for what each warp found.
pub const N_OUTPUTS: usize = LIST + N_WARPS;

/// A block's part of dx.
struct Tile {
    n: i64,
    /// The first position, and behind the last.
    first: [i64; 3],
    end: [i64; 3],
}

/// Positions of an output.
#[inline(always)]
fn position(p: &GridSampleTileParams, output: u32) -> [i64; 3] {
    let (rest, column) = p.columns.div_rem(output);
    let (plane, row) = p.rows.div_rem(rest);
    [i64::from(plane), i64::from(row), i64::from(column)]
}

/// Whether an output reads the tile along one axis.
#[inline(always)]
unsafe fn reads<T: Element>(p: &GridSampleTileParams, tile: &Tile, output: [i64; 3], a: usize) -> bool {
    let place = place::<T>(&p.sample, tile.n, output, a);
    let (first, end) = (*tile.first.get_unchecked(a), *tile.end.get_unchecked(a));
    let (mut i, mut found) = (place.begin, false);
    while i < place.begin + place.n {
        let at = p.sample.sampler.position(i, *p.sample.image.get_unchecked(a));
        found |= at >= first && at < end;
        i += 1;
    }
    found
}

/// Lists outputs from `start` on that read the tile: how many, and where it stopped for want of room.
#[inline(always)]
unsafe fn collect<T: Element>(p: &GridSampleTileParams, tile: &Tile, list: *mut u32, start: u32) -> (u32, u32) {
    let totals = list.add(LIST);
    let (mut found, mut next) = (0, start);
    let my_warp = warp_idx();
    while next < p.n_outputs && found + TILE_THREADS <= LIST as u32 {
        let mine = next + thread_idx_x();
        let mut hit = false;
        if mine < p.n_outputs {
            let output = position(p, mine);
            hit = reads::<T>(p, tile, output, 1) && reads::<T>(p, tile, output, 2) && reads::<T>(p, tile, output, 0);
        }
        warp::sync_warp();
        let hits = warp::ballot(hit);
        if lane_id() == 0 {
            *totals.add(my_warp as usize) = hits.count_ones();
        }
        sync_threads();
        let mut at = found + (hits & ((1 << lane_id()) - 1)).count_ones();
        vector::for_each!(W < N_WARPS, {
            let of_warp = *totals.add(W);
            at += if (W as u32) < my_warp { of_warp } else { 0 };
            found += of_warp;
        });
        if hit {
            *list.add(at as usize) = mine;
        }
        sync_threads();
        next += TILE_THREADS;
    }
    (found, next)
}

/// Fills in the weights of `n` outputs of the list.
#[inline(always)]
unsafe fn weigh<T: Element>(p: &GridSampleTileParams, tile: &Tile, list: *const u32, n: u32, weights: *mut f32) {
    let entry = thread_idx_x() % BATCH;
    if entry >= n {
        return;
    }
    let output = position(p, *list.add(entry as usize));
    let to = weights.add(entry as usize * SLOTS);
    if thread_idx_x() < BATCH {
        weigh_axis::<T, 0>(p, tile, output, to, 1);
        weigh_axis::<T, 2>(p, tile, output, to.add(1 + TILE[0] as usize), TILE[1]);
    } else {
        weigh_axis::<T, 1>(p, tile, output, to.add(1), TILE[0]);
    }
}

/// The weights of an output along one axis.
#[inline(always)]
unsafe fn weigh_axis<T: Element, const A: usize>(
    p: &GridSampleTileParams,
    tile: &Tile,
    output: [i64; 3],
    to: *mut f32,
    slots: i64,
) {
    let mut i = 0;
    while i < slots {
        *to.add(i as usize) = 0.0;
        i += 1;
    }
    let place = place::<T>(&p.sample, tile.n, output, A);
    let (first, end) = (tile.first[A], tile.end[A]);
    // Of neighbours that are read at one position the weights are added up.
    i = place.begin;
    while i < place.begin + place.n {
        let at = p.sample.sampler.position(i, p.sample.image[A]);
        if at >= first && at < end {
            *to.add((at - first) as usize) += p.sample.sampler.weight(&place, i) as f32;
        }
        i += 1;
    }
}

/// dx from grid and dy.
pub unsafe fn backward_data<T: Element<Acc = f32>>(p: &GridSampleTileParams, weights: *mut f32, list: *mut u32) {
    let (rest, along) = p.tiles_along.div_rem(block_idx_x());
    let (rest, down) = p.tiles_down.div_rem(rest);
    let (rest, plane) = p.planes.div_rem(rest);
    let (n, group) = p.groups.div_rem(rest);
    let first = [i64::from(plane), i64::from(down) * TILE[0], i64::from(along) * TILE[1]];
    let tile = Tile { n: i64::from(n), first, end: [first[0] + 1, first[1] + TILE[0], first[2] + TILE[1]] };
    let (row, column) = (thread_idx_x() as usize / 32, lane_id() as usize);
    let channel = i64::from(group) * TILE_CHANNELS as i64;
    let gradient = tile.n * p.sample.y.strides[0] + channel * p.sample.y.strides[1];
    let mut sums = [0.0f32; TILE_CHANNELS];
    let mut next = 0;
    while next < p.n_outputs {
        let (found, behind) = collect::<T>(p, &tile, list, next);
        next = behind;
        let mut done = 0;
        while done < found {
            let batch = if found - done < BATCH { found - done } else { BATCH };
            weigh::<T>(p, &tile, list.add(done as usize), batch, weights);
            sync_threads();
            let mut entry = 0;
            while entry < batch {
                let of = weights.add(entry as usize * SLOTS);
                let of_row = *of * *of.add(1 + row);
                // The same in all lanes.
                if of_row != 0.0 {
                    let weight = of_row * *of.add(1 + TILE[0] as usize + column);
                    if weight != 0.0 {
                        let output = position(p, *list.add((done + entry) as usize));
                        let at = gradient + spatial_offset(&p.sample.y, output);
                        vector::for_each!(K < TILE_CHANNELS, {
                            if channel + (K as i64) < p.sample.c {
                                let dy = load::<T>(p.sample.y.address, at + K as i64 * p.sample.y.strides[1]);
                                let sum = sums.get_unchecked_mut(K);
                                *sum = math::fma_f32(weight, dy, *sum);
                            }
                        });
                    }
                }
                entry += 1;
            }
            sync_threads();
            done += BATCH;
        }
    }
    let at = [first[0], first[1] + row as i64, first[2] + column as i64];
    if at[1] < p.sample.image[1] && at[2] < p.sample.image[2] {
        let to = tile.n * p.sample.x.strides[0] + channel * p.sample.x.strides[1] + spatial_offset(&p.sample.x, at);
        vector::for_each!(K < TILE_CHANNELS, {
            if channel + (K as i64) < p.sample.c {
                let to = to + K as i64 * p.sample.x.strides[1];
                blend::<T>(p.sample.x.address, to, *sums.get_unchecked(K), p.sample.alpha, p.sample.beta);
            }
        });
    }
}
