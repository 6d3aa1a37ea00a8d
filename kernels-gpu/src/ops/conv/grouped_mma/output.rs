//! Sums on their way out.

use super::filter::target_channel;
use super::{tile_origin, unroll};
use crate::math::tensor_core::TensorCore;
use cuda_std::memory::X2;
use cuda_std::thread::thread_idx_x;
use cuda_std::{shared, warp};
use kernel_abi::ops::conv::grouped_mma::{GroupedMmaParams, NO_PLACE, unpack_place};

/// A tile of the tensor that is written, as one lane sees it.
#[derive(Clone, Copy)]
pub(super) struct Output {
    base: u32,
    /// Address of this lane's channels of the tile's first position, whether or not that exists.
    first: u64,
    /// Image, and row and column in elements, of the first position.
    origin: [u32; 3],
    /// Whether all positions exist.
    full: bool,
    /// Whether this lane's channels exist.
    channels: bool,
    /// What is added to a pair's channel to come from this lane's channels to those of the pair before the exchange.
    pair_offset: [i32; 2],
    /// Whether the channels of a pair before the exchange exist.
    pair_there: [bool; 2],
}

impl Output {
    #[inline(always)]
    pub(super) fn new<const WIDTH: u32>(p: &GroupedMmaParams, base: u32, tile: u32, first_channel: u32) -> Self {
        let lane = thread_idx_x() % 32;
        let [n, row, col] = tile_origin(p, tile);
        // A cell's first element may lie before the tensor; it is then beyond it, as an unsigned number.
        let row = (row * p.cell[0]).wrapping_sub(p.cell_shift[0]);
        let col = (col * p.cell[1]).wrapping_sub(p.cell_shift[1]);
        let index = (i64::from(n * p.target_extents[0]) + i64::from(row as i32)) * i64::from(p.target_extents[1])
            + i64::from(col as i32);
        let inside = |first: u32, count: u32, extent: u32| first < extent && count <= extent - first;
        let full = n + p.tile[0] <= p.n
            && inside(row, p.tile[1] * p.cell[0], p.target_extents[0])
            && inside(col, p.tile[2] * p.cell[1], p.target_extents[1]);
        let channel = if WIDTH == 8 { lane % 2 * 8 + lane % 4 / 2 * 4 } else { lane % 4 * 4 };
        let pair = |half: u32| target_channel::<WIDTH, true>(half, lane % 4 * 2) as i32 - channel as i32;
        let pair_there = |half: u32| first_channel + target_channel::<WIDTH, true>(half, lane % 4 * 2) < p.channels;
        let first = index * i64::from(p.channels) + i64::from(first_channel + channel);
        Output {
            base,
            first: p.target.wrapping_add((2 * first) as u64),
            origin: [n, row, col],
            full,
            channels: first_channel + channel < p.channels,
            pair_offset: [pair(0), pair(1)],
            pair_there: [pair_there(0), pair_there(1)],
        }
    }

    /// Writes a warp's sums of 16 positions from `row` on, of which a lane holds two, at `down` and `right` of them in
    /// a cell; those outside of the tensor are left out.
    ///
    /// # Safety
    /// The tables are filled; all lanes call it.
    #[inline(always)]
    pub(super) unsafe fn write<T: TensorCore, const WIDTH: u32>(
        &self,
        p: &GroupedMmaParams,
        sums: &[[f32; 4]; 2],
        row: u32,
        down: u32,
        right: u32,
    ) {
        let lane = thread_idx_x() % 32;
        unroll!(LOWER in [0 1] {
            let position = row + lane / 4 + 8 * LOWER as u32;
            let index = shared::load_u32(self.base + p.indices_at() + 4 * position);
            let mut there = index != NO_PLACE;
            if !self.full {
                let [n, h, w] = unpack_place(shared::load_u32(self.base + p.places_at() + 4 * position));
                let h = self.origin[1].wrapping_add(h * p.cell[0] + down);
                let w = self.origin[2].wrapping_add(w * p.cell[1] + right);
                there = there && self.origin[0] + n < p.n && h < p.target_extents[0] && w < p.target_extents[1];
            }
            let index = index + down * p.target_extents[1] + right;
            let to = self.first.wrapping_add(u64::from(index) * u64::from(2 * p.channels));
            let mut pairs = [0; 2];
            unroll!(HALF in [0 1] {
                let mut pair = [p.alpha * sums[HALF][2 * LOWER], p.alpha * sums[HALF][2 * LOWER + 1]];
                if p.beta != 0.0 && there && self.pair_there[HALF] {
                    let prior = T::unpack(*(to.wrapping_add_signed(2 * i64::from(self.pair_offset[HALF])) as *const u32));
                    pair = [pair[0] + p.beta * prior[0], pair[1] + p.beta * prior[1]];
                }
                pairs[HALF] = T::pack(pair[0], pair[1]);
            });
            if WIDTH == 8 {
                // Neighbouring lanes exchange a pair, so that each holds four channels in a row.
                let odd = lane % 2 == 1;
                let received = warp::shuffle_xor(if odd { pairs[0] } else { pairs[1] }, 1);
                pairs = if odd { [received, pairs[1]] } else { [pairs[0], received] };
            }
            if there && self.channels {
                *(to as *mut X2<u32>) = X2(pairs);
            }
        });
    }
}
