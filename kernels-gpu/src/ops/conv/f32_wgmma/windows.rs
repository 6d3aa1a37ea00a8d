//! `wgrad` without a workspace where the copy engine cannot gather x, or would fill up few channels to many: a warpgroup
//! reads the windows by itself, of any strides, and writes their parts with the sum contiguous.
//!
//! Columns are all taps' channels in a row. A thread has a column and 16 positions of it at a time, in registers from one
//! stage to the next, so neighbouring threads read neighbours; of few columns, the warps take the stages in turn. Where the positions of a stage begin in x, each warp finds
//! for itself, a position a lane, and keeps in shared memory. Grid and clusters are those of [`cluster`](super::cluster).

use super::cluster::share;
use super::scaled::{larger, store_columns};
use super::wgrad::{Maps, Work};
use super::{Buffer, COLUMN_BYTES, PartsProduct, Sixteen, halves, place_of_sixteen};
use crate::ops::conv::im2col_wgmma::{Ring, WARPGROUP};
use cuda_std::barrier::fence_proxy_async_shared;
use cuda_std::thread::thread_idx_x;
use cuda_std::{guarded, mbarrier, shared, warp};
use kernel_abi::ops::conv::f32_wgmma::{ConvPartsWindowsParams, GROUP, PARTS_PANEL, WARP};
use kernel_abi::ops::conv::im2col_wgmma::{WgradPlace, position};

/// So far outside that no tap leads back.
const OUTSIDE: i32 = 1 << 30;

/// The kernel.
///
/// # Safety
/// As [`super::cluster::run`], with `TILE.windows_smem_bytes()` bytes of shared memory; x is a live tensor.
#[inline(always)]
pub(super) unsafe fn run<P: PartsProduct<R>, const R: usize>(p: &ConvPartsWindowsParams, maps: Maps) {
    share::<P, R>(
        &p.wgrad,
        maps,
        #[inline(always)]
        |ring, work| {
            // SAFETY: this function's.
            unsafe { take_apart(p, ring, work) }
        },
    )
}

/// A column of a tile: where it reads, relative to a position.
struct Column {
    /// Distance in x, in bytes.
    distance: u64,
    h: i32,
    w: i32,
}

impl Column {
    /// Column `index` of a tile; one that lies outside where there is none.
    #[inline(always)]
    fn new(p: &ConvPartsWindowsParams, place: WgradPlace, index: u32) -> Self {
        let column = place.panel * PARTS_PANEL + index;
        let (tap, c) = p.channels.div_rem(column);
        let (r, s) = p.taps_w.div_rem(tap);
        let (h, w) = (r * p.dilation[0], s * p.dilation[1]);
        let [_, of_c, of_h, of_w] = p.strides;
        let channel = i64::from(place.group * p.channels.divisor + c);
        let elements = channel * of_c + i64::from(h) * of_h + i64::from(w) * of_w;
        let h = if column < p.wgrad.group_c { h as i32 } else { OUTSIDE };
        Column { distance: (elements * 4) as u64, h, w: w as i32 }
    }

    /// Its elements at 16 positions, the first eight of which are the first halves of the quads.
    ///
    /// # Safety
    /// As [`run`]; the positions stand in shared memory at `positions`.
    #[inline(always)]
    unsafe fn load(&self, p: &ConvPartsWindowsParams, positions: u32) -> Sixteen {
        let one = |i: u32| {
            let [low, high, h, w] = shared::load_x4(positions + i * 16);
            let (h, w) = (h.wrapping_add(self.h as u32), w.wrapping_add(self.w as u32));
            let inside = h < p.extents[0] && w < p.extents[1];
            let from = (u64::from(low) | u64::from(high) << 32).wrapping_add(self.distance);
            guarded::load_x1(from, u32::from(inside))[0]
        };
        let quad = |i: u32| [one(2 * i), one(2 * i + 1), one(2 * i + 8), one(2 * i + 9)];
        [quad(0), quad(1), quad(2), quad(3)]
    }
}

/// Finds where the positions of stage `block` begin, for this warp.
///
/// # Safety
/// As [`run`]; all threads of a warp, with room for 32 positions at `to`.
#[inline(always)]
unsafe fn find(p: &ConvPartsWindowsParams, block: u32, to: u32) {
    let q = &p.wgrad;
    let lane = thread_idx_x() % 32;
    let linear = block * PARTS_PANEL + lane;
    let (n, [_, h, w]) = position(linear, q.extents);
    let (h, w) = ((h * q.step[1]) as i32 + q.base[1], (w * q.step[2]) as i32 + q.base[2]);
    let [of_n, _, of_h, of_w] = p.strides;
    let elements = i64::from(n) * of_n + i64::from(h) * of_h + i64::from(w) * of_w;
    let from = p.x.wrapping_add((elements * 4) as u64);
    let h = if linear < p.positions { h } else { OUTSIDE };
    // All of the warp has read the positions before.
    warp::sync_warp();
    shared::store_x4(to + lane * 16, [from as u32, (from >> 32) as u32, h as u32, w as u32]);
    warp::sync_warp();
}

/// Takes the windows of a tile apart, stage after stage.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn take_apart(p: &ConvPartsWindowsParams, ring: Ring, work: Work) {
    let tile = ring.tile;
    let thread = thread_idx_x() % WARPGROUP;
    let place = p.wgrad.place(tile, work.at);
    let positions = ring.base + tile.windows_at() + thread / 32 * (PARTS_PANEL * 16);
    let teams = tile.filter_teams();
    let team = warp::uniform(thread / (WARPGROUP / teams));
    let in_team = thread % (WARPGROUP / teams);
    // All columns for all threads: both halves of the positions.
    let two = tile.gemm_n == WARPGROUP;
    let (index, sixteen) =
        if two { (in_team, 0) } else { (in_team / WARP * GROUP + in_team % GROUP, in_team % WARP / GROUP) };
    let column = Column::new(p, place, index);
    let to = [place_of_sixteen(index, sixteen), place_of_sixteen(index, sixteen + 1)];
    let part_bytes = tile.gemm_n * COLUMN_BYTES;
    let from = positions + sixteen * 256;
    let mut buffer = Buffer::FIRST;
    let (mut block, end) = p.wgrad.k_range(place.split);
    let mut i = 0;
    while i < team {
        block += 1;
        buffer.advance(tile);
        i += 1;
    }
    find(p, block, positions);
    let mut held = column.load(p, from);
    let mut second = if two { column.load(p, from + 256) } else { [[0; 4]; 4] };
    while block < end {
        mbarrier::wait(ring.parts_empty(buffer.index), buffer.parity ^ 1);
        block += teams;
        find(p, block, positions);
        let at = buffer.at(&ring);
        let own = to.map(|to| at + to);
        let (factors, lane) = (buffer.factors(&ring), thread % WARP);
        let [a, b] = halves(held);
        if two {
            let share = #[inline(always)]
            |[a, b, c, d]: [f32; 4]| [larger(larger(a, b), larger(c, d)); 4];
            let ([c, d], to) = (halves(second), [own[0], own[0] ^ 16, own[1], own[1] ^ 16]);
            let stored = store_columns(&[a, b, c, d], &to, part_bytes, share);
            shared::store_f32(factors + index * 4, stored.columns[0]);
            if lane % GROUP == 0 {
                shared::store_f32(factors + (tile.gemm_n + index / GROUP) * 4, stored.group);
            }
        } else {
            let share = #[inline(always)]
            |[a, b]: [f32; 2]| {
                let own = larger(a, b);
                [larger(own, warp::shuffle_xor_f32(own, GROUP)); 2]
            };
            let stored = store_columns(&[a, b], &[own[0], own[0] ^ 16], part_bytes, share);
            if lane < GROUP {
                shared::store_f32(factors + index * 4, stored.columns[0]);
            }
            if lane == 0 {
                shared::store_f32(factors + (tile.gemm_n + index / GROUP) * 4, stored.group);
            }
        }
        // The products read through another proxy. The fence waits for all loads, so the next begin behind it.
        fence_proxy_async_shared();
        mbarrier::arrive(ring.parts_full(buffer.index));
        held = column.load(p, from);
        if two {
            second = column.load(p, from + 256);
        }
        let mut i = 0;
        while i < teams {
            buffer.advance(tile);
            i += 1;
        }
    }
}
