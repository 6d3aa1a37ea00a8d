//! Rows that lie contiguous, brought to rings in shared memory, backward: a block's teams go from row to row, and while one
//! works on a row, its next one is on its way.
//!
//! A thread asks for each vector of the next row when it has added up that of this row. With whole rows asked for at once,
//! two ahead, so much was under way that the memory was slower: 4096 rows of 6144 to 8192 took 5 % longer, shorter or fewer
//! ones up to 13 %. Without what is computed twice below, 8192 rows of 8192 took 8 % longer, perhaps since blocks then ask all
//! at the same time (H200, bf16).
//!
//! Block: x has as many threads as hold a row, a team, `VECTORS` vectors of 16 bytes each, thread t those at t, t + threads,
//! …; y has the teams. A thread copies its vectors to places of the ring that no other one reads, so that sums alone take
//! barriers, one each: they go through shuffles, then through shared memory, in a fixed order.
//!
//! Grid: any number of blocks, whose teams have the rows in turns. Threads keep to their columns, for which they add up dscale
//! and dbias on the way; in the end those of the teams are added, and `row_registers`' kernel adds up those of all blocks.

use super::row_registers::{over_lanes, store, store_f32s};
use crate::math::element::Element;
use crate::math::vector::{for_each, widened};
use cuda_std::barrier::sync_named;
use cuda_std::memory::X4;
use cuda_std::thread::{block_dim_x, block_dim_y, block_idx_x, grid_dim_x, sync_threads, thread_idx_x, thread_idx_y};
use cuda_std::{cp_async, guarded, shared, shared_array};
use kernel_abi::ops::norm::row_registers::{NormRowsParams, RING_ROWS};

const LANES: u32 = 32;
const VECTOR_BYTES: u32 = 16;
/// x and dy.
const TENSORS: usize = 2;

/// dx, and parts of dscale and dbias, by statistics that are given. Parameters lie as the columns do and are of x's type.
#[inline(always)]
pub unsafe fn backward<T: Element<Acc = f32>, const E: usize, const VECTORS: usize>(p: &NormRowsParams) {
    // Sums of what nobody wants would take registers.
    if p.wants_dbias != 0 { backward_with::<T, E, VECTORS, true>(p) } else { backward_with::<T, E, VECTORS, false>(p) }
}

#[inline(always)]
unsafe fn backward_with<T: Element<Acc = f32>, const E: usize, const VECTORS: usize, const BIAS: bool>(
    p: &NormRowsParams,
) {
    let mut ring = Ring::<VECTORS>::new();
    ring.bring_scale::<T, E>(p);
    let mut sums = Sums::new();
    let (mut dscale, mut dbias) = ([[0.0f32; E]; VECTORS], [[0.0f32; E]; VECTORS]);
    let (mut row, step) = (first_row(), grid_dim_x() * block_dim_y());
    for_each!(J < VECTORS, {
        ring.bring::<T, E>(p, ring.slot, row, J);
    });
    let mut next = given(p, row);
    while row < p.n_rows {
        let [mean, inv_std] = next;
        next = given(p, row + step);
        cp_async::wait_all();
        let (mut shift, mut tilt) = (0.0f32, 0.0f32);
        for_each!(J < VECTORS, {
            let column = column::<E>(J);
            if column < p.row_elems {
                let (x, g) = (widened::<T, E>(&ring.vector(0, J)), widened::<T, E>(&ring.vector(1, J)));
                let scale = ring.scale::<T, E>(p, J);
                let (dscale, dbias) = (dscale.get_unchecked_mut(J), dbias.get_unchecked_mut(J));
                for_each!(I < E, {
                    let normal = (*x.get_unchecked(I) - mean) * inv_std;
                    let g = *g.get_unchecked(I);
                    *dscale.get_unchecked_mut(I) += g * normal;
                    if BIAS {
                        *dbias.get_unchecked_mut(I) += g;
                    }
                    let h = g * *scale.get_unchecked(I);
                    shift += h;
                    tilt += h * normal;
                });
            }
            ring.bring::<T, E>(p, ring.next_slot(), row + step, J);
        });
        let [shift, tilt] = sums.of_team([shift, tilt]);
        let shift = if p.has_mean != 0 { shift * p.share } else { 0.0 };
        let tilt = tilt * p.share;
        for_each!(J < VECTORS, {
            let column = column::<E>(J);
            if column < p.row_elems {
                let (x, mut dx) = (widened::<T, E>(&ring.vector(0, J)), widened::<T, E>(&ring.vector(1, J)));
                let scale = ring.scale::<T, E>(p, J);
                for_each!(I < E, {
                    let normal = (*x.get_unchecked(I) - mean) * inv_std;
                    let dx = dx.get_unchecked_mut(I);
                    *dx = inv_std * (*dx * *scale.get_unchecked(I) - shift - normal * tilt);
                });
                store::<T, E>(p, row, column, dx, false);
            }
        });
        ring.slot = ring.next_slot();
        row += step;
    }
    if p.partials == 0 {
        return;
    }
    // Zeros come for rows that are not there; then the rings are free.
    cp_async::wait_all();
    let to = p.partials + u64::from(block_idx_x()) * 2 * u64::from(p.row_elems) * 4;
    if p.wants_dscale != 0 {
        add_up_teams::<E, VECTORS>(p, &dscale, to);
    }
    if BIAS {
        add_up_teams::<E, VECTORS>(p, &dbias, to + u64::from(p.row_elems) * 4);
    }
}

/// Adds up what the teams of a block have for their columns, through where the rings were, and writes the sums.
#[inline(always)]
unsafe fn add_up_teams<const E: usize, const VECTORS: usize>(p: &NormRowsParams, own: &[[f32; E]; VECTORS], to: u64) {
    let all = shared::dynamic::<f32>();
    let pitch = block_dim_x() as usize * VECTORS * E;
    // The rings, or the sums before these, have been read.
    sync_threads();
    for_each!(J < VECTORS, {
        store_f32s(all.add(thread_idx_y() as usize * pitch + column::<E>(J) as usize), own.get_unchecked(J));
    });
    sync_threads();
    let mut at = 4 * (thread_idx_y() * block_dim_x() + thread_idx_x());
    while at < p.row_elems {
        let (mut sum, mut team) = ([0.0f32; 4], 0);
        while team < block_dim_y() as usize {
            let X4(part) = *(all.add(team * pitch + at as usize) as *const X4<f32>);
            sum = [sum[0] + part[0], sum[1] + part[1], sum[2] + part[2], sum[3] + part[3]];
            team += 1;
        }
        *((to + u64::from(at) * 4) as *mut X4<f32>) = X4(sum);
        at += 4 * block_dim_x() * block_dim_y();
    }
}

/// The first row of this thread's team.
#[inline(always)]
fn first_row() -> u32 {
    let (team, block) = (thread_idx_y(), block_idx_x());
    // Where rows end amid a turn, no block of two teams has more of the last ones than another. Of more teams, whose rows are
    // short, those of a block are beside one another: 4096 columns took 5 % longer otherwise (H200).
    if block_dim_y() > 2 { block * block_dim_y() + team } else { team * grid_dim_x() + block }
}

/// The first column of the thread's vector `j`.
#[inline(always)]
fn column<const E: usize>(j: usize) -> u32 {
    (j as u32 * block_dim_x() + thread_idx_x()) * E as u32
}

/// Mean and inverse standard deviation of a row; zeros where there are none.
#[inline(always)]
unsafe fn given(p: &NormRowsParams, row: u32) -> [f32; 2] {
    [p.mean, p.inv_std].map(
        #[inline(always)]
        |address| {
            let there = row < p.n_rows && address != 0;
            let [bits] = guarded::load_x1(address + u64::from(row) * 4, u32::from(there));
            f32::from_bits(bits)
        },
    )
}

/// The thread's places in its team's ring: of each of some rows, `VECTORS` vectors of x and of dy; behind them those of scale,
/// which would not stay in what the rings leave of the first-level cache.
struct Ring<const VECTORS: usize> {
    /// Shared-window address of its first one.
    first: u32,
    /// Of the row at hand.
    slot: u32,
}

impl<const VECTORS: usize> Ring<VECTORS> {
    #[inline(always)]
    fn new() -> Self {
        let vectors = (RING_ROWS * TENSORS as u32 + 1) * VECTORS as u32 * block_dim_x();
        let first = thread_idx_y() * vectors + thread_idx_x();
        Ring { first: shared::dynamic_address() + first * VECTOR_BYTES, slot: 0 }
    }

    /// Address of vector `j` of a tensor in a slot.
    #[inline(always)]
    fn at(&self, slot: u32, tensor: usize, j: usize) -> u32 {
        let vector = (slot * TENSORS as u32 + tensor as u32) * VECTORS as u32 + j as u32;
        self.first + vector * block_dim_x() * VECTOR_BYTES
    }

    /// Has the thread's vectors of scale copied.
    #[inline(always)]
    unsafe fn bring_scale<T, const E: usize>(&self, p: &NormRowsParams) {
        if p.scale != 0 {
            for_each!(J < VECTORS, {
                let column = column::<E>(J);
                if column < p.row_elems {
                    let from = p.scale + u64::from(column) * size_of::<T>() as u64;
                    cp_async::copy_x4(self.at(RING_ROWS, 0, J), from as *const u8, VECTOR_BYTES);
                }
            });
        }
    }

    /// The thread's vector `j` of scale; ones where there is none.
    #[inline(always)]
    unsafe fn scale<T: Element<Acc = f32>, const E: usize>(&self, p: &NormRowsParams, j: usize) -> [f32; E] {
        if p.scale == 0 {
            return [1.0; E];
        }
        widened::<T, E>(&shared::load_x4(self.at(RING_ROWS, 0, j)))
    }

    /// Has the thread's vector `j` of x and dy of a row copied to a slot, zeros where there is none.
    #[inline(always)]
    unsafe fn bring<T: Element, const E: usize>(&self, p: &NormRowsParams, slot: u32, row: u32, j: usize) {
        for_each!(M < TENSORS, {
            let (address, pitch) = if M == 0 { (p.x, p.x_pitch) } else { (p.dy, p.dy_pitch) };
            let from = address + (i64::from(row) * pitch) as u64 * size_of::<T>() as u64;
            let column = column::<E>(j);
            let there = row < p.n_rows && column < p.row_elems;
            let from = if there { from + u64::from(column) * size_of::<T>() as u64 } else { address };
            cp_async::copy_x4(self.at(slot, M, j), from as *const u8, if there { VECTOR_BYTES } else { 0 });
        });
    }

    /// Vector `j` of a tensor of the row at hand.
    #[inline(always)]
    unsafe fn vector(&self, tensor: usize, j: usize) -> [u32; 4] {
        shared::load_x4(self.at(self.slot, tensor, j))
    }

    /// Where the row after the one at hand goes.
    #[inline(always)]
    fn next_slot(&self) -> u32 {
        if self.slot + 1 == RING_ROWS { 0 } else { self.slot + 1 }
    }
}

/// Sums over a team, which leave what warps have in two places by turns: who writes one has passed the barrier behind which the
/// other was read.
struct Sums {
    turn: usize,
}

/// Warps of a block: at most.
const WARPS: usize = 16;

impl Sums {
    #[inline(always)]
    fn new() -> Self {
        Sums { turn: 0 }
    }

    /// Sums over the threads, in all of them. All threads of the team call it together.
    #[inline(always)]
    unsafe fn of_team<const N: usize>(&mut self, values: [f32; N]) -> [f32; N] {
        let slots = shared_array![f32; 4 * WARPS].add(2 * WARPS * self.turn);
        self.turn ^= 1;
        let (warps, lane) = (block_dim_x() / LANES, thread_idx_x() % LANES);
        let first_warp = thread_idx_y() * warps;
        let values = over_lanes(values, LANES);
        if lane == 0 {
            for_each!(I < N, {
                *slots.add(WARPS * I + (first_warp + thread_idx_x() / LANES) as usize) = *values.get_unchecked(I);
            });
        }
        // Barrier 0 is that of the block.
        sync_named(1 + thread_idx_y(), block_dim_x());
        let mut others = [0.0f32; N];
        if lane < warps {
            for_each!(I < N, {
                *others.get_unchecked_mut(I) = *slots.add(WARPS * I + (first_warp + lane) as usize);
            });
        }
        over_lanes(others, LANES)
    }
}
