//! Taking a second operand apart whose columns lie side by side: panels of `[32 of the sum][32 columns]` of f32, as the
//! copy engine loads them, become panels of `[32 of the sum][64 columns]` of each part.

use super::Buffer;
use super::scaled::{larger, store_rows};
use crate::ops::conv::im2col_wgmma::{Ring, WARPGROUP};
use cuda_std::barrier::fence_proxy_async_shared;
use cuda_std::thread::thread_idx_x;
use cuda_std::{mbarrier, shared, warp};
use kernel_abi::ops::conv::f32_wgmma::{
    GROUP, PARTS_PANEL, WARP, half_panel_position, part_place, part_position, placed_position,
};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, ROW_BYTES};

/// Bytes of a panel: of 32 columns of f32, or of 64 of a part.
pub(super) const PANEL_BYTES: u32 = PARTS_PANEL * ROW_BYTES;

/// What a thread has of every stage: eight columns, of some of the sum's terms. A warp has all terms of its columns.
pub(super) struct Own {
    tile: ConvTile,
    /// Whether the sum's terms are written to their [`part_place`], as fragments want them that are four neighbours.
    placed: bool,
    eight: u32,
    from: u32,
    to: u32,
}

impl Own {
    #[inline(always)]
    pub(super) fn new(tile: ConvTile, placed: bool) -> Self {
        let thread = thread_idx_x() % WARPGROUP;
        let (lane, warp) = (thread % WARP, thread / WARP);
        let first_eight = warp * eights(tile);
        let (eight, position) = (first_eight + lane % eights(tile), lane / eights(tile));
        let position = if placed {
            placed_position(eights(tile), position)
        } else if eights(tile) == 4 {
            part_position(position)
        } else {
            half_panel_position(position)
        };
        let from = eight / 4 * PANEL_BYTES + position * ROW_BYTES + ((eight % 4 * 2) ^ (position % 8)) * 16;
        // Two panels of f32 make one of a part.
        let place = if placed { part_place(position) } else { position };
        let to = eight / 8 * PANEL_BYTES + place * ROW_BYTES + ((eight % 8) ^ (place % 8)) * 16;
        Own { tile, placed, eight, from, to }
    }

    /// The panel of its columns.
    #[inline(always)]
    pub(super) fn panel(&self) -> u32 {
        self.eight / 4
    }

    /// Takes a stage apart once it is there, into a buffer once that is free; zeros where the columns are not there.
    ///
    /// # Safety
    /// All threads of the warpgroup call it, for stage after stage.
    #[inline(always)]
    pub(super) unsafe fn take_apart(&self, ring: &Ring, buffer: Buffer, is_there: bool) {
        let tile = self.tile;
        let lane = thread_idx_x() % WARP;
        let n_eights = eights(tile);
        mbarrier::wait(ring.full(), ring.parity);
        mbarrier::wait(ring.parts_empty(buffer.index), buffer.parity ^ 1);
        let (from, to) = (ring.b(), buffer.at(ring));
        // The other terms are those whose number differs in one bit or two, of which the lower one is elsewhere where
        // terms change places.
        let behind = #[inline(always)]
        |i: u32, placed: bool| {
            let (eight, sixteen) = if n_eights == 4 { (i % 2, i / 2) } else { (0, i) };
            let eight = eight * if placed { 4 * ROW_BYTES + 4 * 16 } else { 8 * ROW_BYTES };
            eight + sixteen * 16 * ROW_BYTES
        };
        let to = [0, 1, 2, 3].map(|i| to + (self.to ^ behind(i, self.placed)));
        let rows = #[inline(always)]
        |i: u32| {
            let from = from + (self.from ^ behind(i, false));
            if !is_there {
                return [0; 8];
            }
            // SAFETY: the rows are those of the stage.
            let ([a, b, c, d], [e, f, g, h]) = unsafe { (shared::load_x4(from), shared::load_x4(from ^ 16)) };
            [a, b, c, d, e, f, g, h]
        };
        // Lanes that differ in these have the same columns.
        let share = #[inline(always)]
        |own: f32| {
            let own = larger(own, warp::shuffle_xor_f32(own, 16));
            let own = larger(own, warp::shuffle_xor_f32(own, 8));
            let own = larger(own, warp::shuffle_xor_f32(own, 4));
            if n_eights == 4 { own } else { larger(own, warp::shuffle_xor_f32(own, 2)) }
        };
        let part_bytes = tile.gemm_n * PARTS_PANEL * 2;
        let stored = if n_eights == 4 {
            let rows = [rows(0), rows(1), rows(2), rows(3)];
            store_rows(&rows, &to, part_bytes, share)
        } else {
            store_rows(&[rows(0), rows(1)], &[to[0], to[1]], part_bytes, share)
        };
        let factors = buffer.factors(ring);
        if lane < n_eights {
            let [a, b, c, d, e, f, g, h] = stored.columns.map(f32::to_bits);
            shared::store_x4(factors + self.eight * 32, [a, b, c, d]);
            shared::store_x4(factors + self.eight * 32 + 16, [e, f, g, h]);
        }
        if lane < n_eights && lane % 2 == 0 {
            shared::store_f32(factors + (tile.gemm_n + self.eight * 8 / GROUP) * 4, stored.group);
        }
        publish(ring, buffer);
    }
}

/// Eights of columns that a warp has.
#[inline(always)]
fn eights(tile: ConvTile) -> u32 {
    tile.gemm_n / PARTS_PANEL
}

/// Gives a buffer of parts to the consumers, and a stage back.
///
/// # Safety
/// All threads of the warpgroup call it.
#[inline(always)]
pub(super) unsafe fn publish(ring: &Ring, buffer: Buffer) {
    // The products read through another proxy.
    fence_proxy_async_shared();
    mbarrier::arrive(ring.parts_full(buffer.index));
    warp::sync_warp();
    if thread_idx_x() % WARP == 0 {
        mbarrier::arrive(ring.empty());
    }
}
