//! `fprop` and `dgrad` without a workspace where the copy engine can load the filter as it lies: its tile is part of the
//! stage, in f32, and a warpgroup takes it apart for the consumers.
//!
//! Grid and block are those of [`direct`](super::direct). Columns of the filter's tile lie with the sum contiguous, as for
//! `fprop` of channels-last filters, or side by side, as for `dgrad`.

use super::gather::{consume, produce};
use super::panels::{self, publish};
use super::scaled::{larger, store_columns};
use super::{
    Buffer, COLUMN_BYTES, CONSUMER_REGISTERS, CONVERTER_REGISTERS, LOADER_REGISTERS, PartsProduct, halves,
    place_of_sixteen,
};
use crate::ops::conv::im2col_wgmma::gather::{Address, Tiles, k_panels};
use crate::ops::conv::im2col_wgmma::{Ring, WARPGROUP, warpgroup};
use cuda_std::thread::thread_idx_x;
use cuda_std::{mbarrier, schedule, shared, tma, warp};
use kernel_abi::ops::conv::f32_wgmma::{ConvPartsGatherParams, GROUP, WARP};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, ROW_BYTES};

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches `TILE.threads()` threads with `TILE.smem_bytes()`
/// bytes of shared memory.
#[inline(always)]
pub(super) unsafe fn run<P: PartsProduct<R>, const R: usize, const S: usize>(p: &ConvPartsGatherParams, at: Address) {
    let ring = Ring::new(P::TILE);
    if thread_idx_x() == 0 {
        tma::prefetch_map(at.b_map());
        let mut class = 0;
        while class < p.gather.n_classes {
            tma::prefetch_map(at.a_map(class));
            class += 1;
        }
    }
    ring.start(1);
    let warpgroup = warpgroup();
    if warpgroup == 0 {
        schedule::release_registers::<LOADER_REGISTERS>();
        if thread_idx_x() == 0 {
            produce::<P, R>(p, at, ring);
        }
    } else if warpgroup == 1 {
        schedule::release_registers::<CONVERTER_REGISTERS>();
        convert::<P, R>(p, at, ring);
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        consume::<P, R, S>(p, at, ring, warpgroup - 2);
    }
}

/// Takes the filter's tiles apart, stage after stage, of tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn convert<P: PartsProduct<R>, const R: usize>(p: &ConvPartsGatherParams, at: Address, mut ring: Ring) {
    let tile = P::TILE;
    let (sixteens, side_by_side) = (Sixteens::new(tile), panels::Own::new(tile, true));
    let mut buffer = Buffer::FIRST;
    let mut tiles = Tiles::new(tile);
    while tiles.is_left(&p.gather) {
        let (_, class) = tiles.next(&p.gather, at, tile);
        let mut left = k_panels(&p.gather, class, tile);
        while left > 0 {
            if P::B_IS_MN_MAJOR {
                side_by_side.take_apart(&ring, buffer, true);
            } else {
                sixteens.take_apart(&ring, buffer);
            }
            buffer.advance(tile);
            ring.advance();
            left -= 1;
        }
    }
}

/// What a thread has of every stage whose columns lie with the sum contiguous: half of the 32 terms of a column, or of two.
struct Sixteens {
    tile: ConvTile,
    from: u32,
    to: u32,
}

impl Sixteens {
    #[inline(always)]
    fn new(tile: ConvTile) -> Self {
        let thread = thread_idx_x() % WARPGROUP;
        let (column, sixteen) = (thread / 2, thread % 2);
        let from = column * ROW_BYTES + ((4 * sixteen) ^ (column % 8)) * 16;
        Sixteens { tile, from, to: place_of_sixteen(column, sixteen) }
    }

    /// Takes a stage apart once it is there, into a buffer once that is free.
    ///
    /// # Safety
    /// All threads of the warpgroup call it, for stage after stage.
    #[inline(always)]
    unsafe fn take_apart(&self, ring: &Ring, buffer: Buffer) {
        let tile = self.tile;
        let thread = thread_idx_x() % WARPGROUP;
        mbarrier::wait(ring.full(), ring.parity);
        mbarrier::wait(ring.parts_empty(buffer.index), buffer.parity ^ 1);
        let (from, to, factors) = (ring.b() + self.from, buffer.at(ring) + self.to, buffer.factors(ring));
        let eights = #[inline(always)]
        |from: u32| {
            // SAFETY: the column is one of the stage.
            let quad = |i: u32| unsafe { shared::load_x4(from ^ (i * 16)) };
            halves([quad(0), quad(1), quad(2), quad(3)])
        };
        let part_bytes = tile.gemm_n * COLUMN_BYTES;
        let [a, b] = eights(from);
        // Two neighbouring lanes have a column.
        let of_column = #[inline(always)]
        |a: f32, b: f32| {
            let own = larger(a, b);
            larger(own, warp::shuffle_xor_f32(own, 1))
        };
        if tile.gemm_n == WARPGROUP {
            let [c, d] = eights(from + 64 * ROW_BYTES);
            let behind = to + 64 * COLUMN_BYTES;
            let share = #[inline(always)]
            |[a, b, c, d]: [f32; 4]| {
                let (first, second) = (of_column(a, b), of_column(c, d));
                [first, first, second, second]
            };
            let stored = store_columns(&[a, b, c, d], &[to, to ^ 16, behind, behind ^ 16], part_bytes, share);
            if thread % 2 == 0 {
                shared::store_f32(factors + thread * 2, stored.columns[0]);
                shared::store_f32(factors + thread * 2 + 64 * 4, stored.columns[2]);
            }
            if thread % WARP == 0 {
                let group = factors + (tile.gemm_n + thread / WARP) * 4;
                shared::store_f32(group, stored.group);
                shared::store_f32(group + 64 / GROUP * 4, stored.group);
            }
        } else {
            let share = #[inline(always)]
            |[a, b]: [f32; 2]| [of_column(a, b); 2];
            let stored = store_columns(&[a, b], &[to, to ^ 16], part_bytes, share);
            if thread % 2 == 0 {
                shared::store_f32(factors + thread * 2, stored.columns[0]);
            }
            if thread % WARP == 0 {
                shared::store_f32(factors + (tile.gemm_n + thread / WARP) * 4, stored.group);
            }
        }
        publish(ring, buffer);
    }
}
