//! The way of a warp's sums to dw through shared memory: its threads leave them as they hold them, and take rows of them by 16
//! bytes, neighbours those of one row.

use super::{Half, Ring};
use crate::math::vector;
use cuda_std::{ldmatrix, memory, shared, warp};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, ConvWgradParams, OUT_ROWS, ROW_BYTES, SUBTILE, WgradPlace};

/// Channels of 16 bytes.
const CHUNK: u32 = 8;

/// The rows of dw that a warp has, as a lane sees them.
pub(super) struct FilterRows<'a> {
    p: &'a ConvWgradParams,
    /// The first, within the group, and k of it.
    row: u32,
    k: u32,
    /// Where they lie in shared memory.
    room: u32,
    lane: u32,
}

impl<'a> FilterRows<'a> {
    /// Those of warp `warp` of the consumers.
    #[inline(always)]
    pub(super) fn new(p: &'a ConvWgradParams, tile: ConvTile, place: WgradPlace, (warp, lane): (u32, u32)) -> Self {
        const WARPS: u32 = SUBTILE / OUT_ROWS;
        let mut row = place.m + warp % WARPS * OUT_ROWS;
        if !tile.shares_columns() {
            row += warp / WARPS * SUBTILE;
        }
        let room = Ring::new(tile).base + tile.panels_at() + warp * OUT_ROWS * ROW_BYTES;
        FilterRows { p, row, k: place.group * p.group_k + row, room, lane }
    }

    /// Where 16 bytes of a row lie.
    #[inline(always)]
    fn cell(&self, row: u32, chunk: u32) -> u32 {
        self.room + row * ROW_BYTES + (chunk ^ row % 8) * 16
    }

    /// Where this lane's row of the four matrices of two neighbouring quads lies.
    #[inline(always)]
    fn matrix_row(&self, pair: usize) -> u32 {
        self.cell(self.lane % 16, 2 * pair as u32 + self.lane / 16)
    }

    /// Writes the sums of pairs of neighbouring quads, from channel `c` of a tap on, but for those of rows and channels that are not
    /// there. Channels and distances of dw are multiples of 8.
    ///
    /// # Safety
    /// All lanes of the warp, with room for a panel of each consumer; dw is live.
    #[inline(always)]
    pub(super) unsafe fn write<E: Half, const PAIRS: usize>(&self, tap: u32, c: u32, mut sums: [[[f32; 4]; 2]; PAIRS]) {
        let p = self.p;
        let lanes = 2 * PAIRS as u32;
        let (first_row, chunk) = (self.lane / lanes, self.lane % lanes);
        let c = c + chunk * CHUNK;
        let offset = i64::from(self.k + first_row) * p.k_stride + i64::from(tap) * p.tap_stride + i64::from(c);
        let step = (i64::from(32 / lanes) * p.k_stride) as u64 * 2;
        let first = p.dw.wrapping_add(offset as u64 * 2);
        let row = |i: usize| first_row + i as u32 * (32 / lanes);
        let at = |i: usize| first.wrapping_add(i as u64 * step) as *mut u32;
        let is_there = |i: usize| self.row + row(i) < p.group_k && c < p.group_c;
        vector::for_each!(I < PAIRS, { sums[I] = sums[I].map(|quad| quad.map(|sum| sum * p.alpha)) });
        if p.beta != 0.0 {
            vector::for_each!(I < PAIRS, {
                let prior = if is_there(I) { memory::load_x4(at(I)) } else { [0; 4] };
                shared::store_x4(self.cell(row(I), chunk), prior);
            });
            warp::sync_warp();
            vector::for_each!(I < PAIRS, {
                let [a, b, c, d] = ldmatrix::load_x4(self.matrix_row(I));
                blend::<E>(&mut sums[I][0], [a, b], p.beta);
                blend::<E>(&mut sums[I][1], [c, d], p.beta);
            });
            warp::sync_warp();
        }
        vector::for_each!(I < PAIRS, {
            let [[a, b, c, d], [e, f, g, h]] = sums[I];
            let words = [E::pack(a, b), E::pack(c, d), E::pack(e, f), E::pack(g, h)];
            ldmatrix::store_x4(self.matrix_row(I), words);
        });
        warp::sync_warp();
        vector::for_each!(I < PAIRS, {
            let words = shared::load_x4(self.cell(row(I), chunk));
            if is_there(I) {
                memory::store_x4(at(I), words);
            }
        });
        // Before what comes next takes their place.
        warp::sync_warp();
    }
}

/// Adds `beta` times the prior values of two neighbours in each of two rows.
#[inline(always)]
fn blend<E: Half>(sums: &mut [f32; 4], [upper, lower]: [u32; 2], beta: f32) {
    let [a, b, c, d] = *sums;
    let prior = |word: u32| [E::unpack(word as u16), E::unpack((word >> 16) as u16)];
    let ([e, f], [g, h]) = (prior(upper), prior(lower));
    *sums = [a + beta * e, b + beta * f, c + beta * g, d + beta * h];
}
