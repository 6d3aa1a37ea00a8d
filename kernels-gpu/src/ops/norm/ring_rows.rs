//! Rows that lie contiguous, brought to a ring in shared memory: a block goes from row to row, and while it works on one,
//! the next ones are on their way.
//!
//! A block has as many threads as hold a row, `VECTORS` vectors of 16 bytes each, thread t those at t, t + threads, …. It
//! copies them to places of the ring that no other thread reads, so that sums alone take barriers, one each: they go
//! through shuffles, then through shared memory, in a fixed order. Deviations are summed once the mean is known.
//!
//! Grid: any number of blocks, block b has the rows b, b + blocks, …. Backward, threads keep to their columns,
//! for which they add up dscale and dbias on the way; `row_registers`' kernel adds up those of all blocks.

use super::row_registers::{anew, are_simple, neighbours, over_lanes, store, store_f32s, store_statistics};
use crate::math::approximate::inverse_sqrt;
use crate::math::element::Element;
use crate::math::vector::{for_each, widened};
use cuda_std::thread::{block_dim_x, block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::{cp_async, guarded, shared, shared_array};
use kernel_abi::ops::norm::row_registers::{NormRowsParams, RING_ROWS};

const LANES: u32 = 32;
const VECTOR_BYTES: u32 = 16;
const ROWS: usize = RING_ROWS as usize;

/// y and statistics.
#[inline(always)]
pub unsafe fn forward<T: Element<Acc = f32>, const E: usize, const VECTORS: usize>(p: &NormRowsParams) {
    if are_simple::<E>(p) { forward_with::<T, E, VECTORS, true>(p) } else { forward_with::<T, E, VECTORS, false>(p) }
}

#[inline(always)]
unsafe fn forward_with<T: Element<Acc = f32>, const E: usize, const VECTORS: usize, const SIMPLE: bool>(
    p: &NormRowsParams,
) {
    let mut ring = Ring::<VECTORS, 1>::new();
    let parameters = Parameters::<VECTORS, SIMPLE>::bring::<T, E, 1>([p.scale, p.bias], p, &ring);
    let mut sums = Sums::new();
    let mut row = block_idx_x();
    for_each!(S < ROWS, {
        ring.bring::<T, E>(p, S as u32, row + S as u32 * grid_dim_x());
    });
    while row < p.n_rows {
        cp_async::wait_group::<{ RING_ROWS - 1 }>();
        let x = ring.words(0);
        let mut mean = 0.0;
        if p.has_mean != 0 {
            let mut sum = 0.0f32;
            for_each!(J < VECTORS, {
                let values = widened::<T, E>(x.get_unchecked(J));
                for_each!(I < E, {
                    sum += *values.get_unchecked(I);
                });
            });
            [sum] = sums.of_block([sum]);
            mean = sum * p.share;
        }
        let mut squares = 0.0f32;
        for_each!(J < VECTORS, {
            if column::<E>(J) < p.row_elems {
                let values = anew::<T, E, true>(x.get_unchecked(J));
                for_each!(I < E, {
                    let deviation = *values.get_unchecked(I) - mean;
                    squares += deviation * deviation;
                });
            }
        });
        let [squares] = sums.of_block([squares]);
        // The place is free: its words are in registers.
        ring.bring::<T, E>(p, ring.slot, row + RING_ROWS * grid_dim_x());
        ring.turn();
        let inv_std = inverse_sqrt(squares * p.share + p.epsilon);
        if thread_idx_x() == 0 {
            store_statistics(p, row, mean, inv_std);
        }
        for_each!(J < VECTORS, {
            let column = column::<E>(J);
            if column < p.row_elems {
                let mut y = anew::<T, E, true>(x.get_unchecked(J));
                let scale = parameters.of::<T, E>(p, 0, J, 1.0);
                let bias = parameters.of::<T, E>(p, 1, J, 0.0);
                for_each!(I < E, {
                    let y = y.get_unchecked_mut(I);
                    *y = (*y - mean) * inv_std * *scale.get_unchecked(I) + *bias.get_unchecked(I);
                });
                store::<T, E>(p, row, column, y, false);
            }
        });
        row += grid_dim_x();
    }
}

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
    let mut ring = Ring::<VECTORS, 2>::new();
    let parameters = Parameters::<VECTORS, true>::bring::<T, E, 2>([p.scale, 0], p, &ring);
    let mut sums = Sums::new();
    let (mut dscale, mut dbias) = ([[0.0f32; E]; VECTORS], [[0.0f32; E]; VECTORS]);
    let mut row = block_idx_x();
    for_each!(S < ROWS, {
        ring.bring::<T, E>(p, S as u32, row + S as u32 * grid_dim_x());
    });
    let mut next = given(p, row);
    while row < p.n_rows {
        let [mean, inv_std] = next;
        next = given(p, row + grid_dim_x());
        cp_async::wait_group::<{ RING_ROWS - 1 }>();
        let (mut shift, mut tilt) = (0.0f32, 0.0f32);
        for_each!(J < VECTORS, {
            let column = column::<E>(J);
            if column < p.row_elems {
                let (x, g) = (widened::<T, E>(&ring.vector(0, J)), widened::<T, E>(&ring.vector(1, J)));
                let scale = parameters.of::<T, E>(p, 0, J, 1.0);
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
        });
        let [shift, tilt] = sums.of_block([shift, tilt]);
        let shift = if p.has_mean != 0 { shift * p.share } else { 0.0 };
        let tilt = tilt * p.share;
        for_each!(J < VECTORS, {
            let column = column::<E>(J);
            if column < p.row_elems {
                let (x, mut dx) = (widened::<T, E>(&ring.vector(0, J)), widened::<T, E>(&ring.vector(1, J)));
                let scale = parameters.of::<T, E>(p, 0, J, 1.0);
                for_each!(I < E, {
                    let normal = (*x.get_unchecked(I) - mean) * inv_std;
                    let dx = dx.get_unchecked_mut(I);
                    *dx = inv_std * (*dx * *scale.get_unchecked(I) - shift - normal * tilt);
                });
                store::<T, E>(p, row, column, dx, false);
            }
        });
        ring.bring::<T, E>(p, ring.slot, row + RING_ROWS * grid_dim_x());
        ring.turn();
        row += grid_dim_x();
    }
    if p.partials == 0 {
        return;
    }
    let to = p.partials + u64::from(block_idx_x()) * 2 * u64::from(p.row_elems) * 4;
    for_each!(J < VECTORS, {
        let column = column::<E>(J);
        if column < p.row_elems {
            let to = (to as *mut f32).add(column as usize);
            if p.wants_dscale != 0 {
                store_f32s(to, dscale.get_unchecked(J));
            }
            if BIAS && p.wants_dbias != 0 {
                store_f32s(to.add(p.row_elems as usize), dbias.get_unchecked(J));
            }
        }
    });
}

/// The first column of the thread's vector `j`.
#[inline(always)]
fn column<const E: usize>(j: usize) -> u32 {
    (j as u32 * block_dim_x() + thread_idx_x()) * E as u32
}

/// The parameters of the thread's columns: behind the ring where they are of x's type, for they would not stay in what the
/// ring leaves of the first-level cache; else read where they lie.
struct Parameters<const VECTORS: usize, const KEPT: bool> {
    addresses: [u64; BOTH],
    /// Shared-window address of the thread's first vector.
    first: u32,
}

/// scale and bias.
const BOTH: usize = 2;

impl<const VECTORS: usize, const KEPT: bool> Parameters<VECTORS, KEPT> {
    /// Has them copied, in the group of the first row.
    #[inline(always)]
    unsafe fn bring<T, const E: usize, const TENSORS: usize>(
        addresses: [u64; BOTH],
        p: &NormRowsParams,
        ring: &Ring<VECTORS, TENSORS>,
    ) -> Self {
        let own = Parameters { addresses, first: ring.at(RING_ROWS, 0, 0) };
        for_each!(W < BOTH, {
            let address = *addresses.get_unchecked(W);
            if KEPT && address != 0 {
                for_each!(J < VECTORS, {
                    let column = column::<E>(J);
                    if column < p.row_elems {
                        let from = address + u64::from(column) * size_of::<T>() as u64;
                        cp_async::copy_x4(own.at(W, J), from as *const u8, VECTOR_BYTES);
                    }
                });
            }
        });
        own
    }

    #[inline(always)]
    fn at(&self, which: usize, j: usize) -> u32 {
        self.first + (which * VECTORS + j) as u32 * block_dim_x() * VECTOR_BYTES
    }

    /// Those of the thread's vector `j`; `or` where there are none.
    #[inline(always)]
    unsafe fn of<T: Element<Acc = f32>, const E: usize>(
        &self,
        p: &NormRowsParams,
        which: usize,
        j: usize,
        or: f32,
    ) -> [f32; E] {
        let address = *self.addresses.get_unchecked(which);
        if address == 0 {
            [or; E]
        } else if KEPT {
            widened::<T, E>(&shared::load_x4(self.at(which, j)))
        } else {
            neighbours::<T, E>(address, p.parameters_are_wide, column::<E>(j))
        }
    }
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

/// The thread's places in the ring: of each of some rows, `TENSORS` times `VECTORS` vectors.
struct Ring<const VECTORS: usize, const TENSORS: usize> {
    /// Shared-window address of its first one.
    first: u32,
    /// Of the row at hand.
    slot: u32,
}

impl<const VECTORS: usize, const TENSORS: usize> Ring<VECTORS, TENSORS> {
    #[inline(always)]
    fn new() -> Self {
        Ring { first: shared::dynamic_address() + thread_idx_x() * VECTOR_BYTES, slot: 0 }
    }

    /// Address of vector `j` of a tensor in a slot.
    #[inline(always)]
    fn at(&self, slot: u32, tensor: usize, j: usize) -> u32 {
        let vector = (slot * TENSORS as u32 + tensor as u32) * VECTORS as u32 + j as u32;
        self.first + vector * block_dim_x() * VECTOR_BYTES
    }

    /// Has the thread's vectors of a row copied to a slot, zeros where there are none, as one group.
    #[inline(always)]
    unsafe fn bring<T: Element, const E: usize>(&self, p: &NormRowsParams, slot: u32, row: u32) {
        for_each!(M < TENSORS, {
            let (address, pitch) = if M == 0 { (p.x, p.x_pitch) } else { (p.dy, p.dy_pitch) };
            let from = address + (i64::from(row) * pitch) as u64 * size_of::<T>() as u64;
            for_each!(J < VECTORS, {
                let column = column::<E>(J);
                let there = row < p.n_rows && column < p.row_elems;
                let from = if there { from + u64::from(column) * size_of::<T>() as u64 } else { address };
                cp_async::copy_x4(self.at(slot, M, J), from as *const u8, if there { VECTOR_BYTES } else { 0 });
            });
        });
        cp_async::commit_group();
    }

    /// Vector `j` of a tensor of the row at hand.
    #[inline(always)]
    unsafe fn vector(&self, tensor: usize, j: usize) -> [u32; 4] {
        shared::load_x4(self.at(self.slot, tensor, j))
    }

    /// All vectors of a tensor of the row at hand.
    #[inline(always)]
    unsafe fn words(&self, tensor: usize) -> [[u32; 4]; VECTORS] {
        let mut words = [[0u32; 4]; VECTORS];
        for_each!(J < VECTORS, {
            *words.get_unchecked_mut(J) = self.vector(tensor, J);
        });
        words
    }

    /// Goes on to the next row.
    #[inline(always)]
    fn turn(&mut self) {
        self.slot = if self.slot + 1 == RING_ROWS { 0 } else { self.slot + 1 };
    }
}

/// Sums over a block, which leave what warps have in two places by turns: who writes one has passed the barrier behind
/// which the other was read.
struct Sums {
    turn: usize,
}

impl Sums {
    #[inline(always)]
    fn new() -> Self {
        Sums { turn: 0 }
    }

    /// Sums over the threads, in all of them. All threads of the block call it together.
    #[inline(always)]
    unsafe fn of_block<const N: usize>(&mut self, values: [f32; N]) -> [f32; N] {
        let slots = shared_array![f32; 128].add(64 * self.turn);
        self.turn ^= 1;
        let (warp_idx, lane) = (thread_idx_x() / LANES, thread_idx_x() % LANES);
        let values = over_lanes(values, LANES);
        if lane == 0 {
            for_each!(I < N, {
                *slots.add(32 * I + warp_idx as usize) = *values.get_unchecked(I);
            });
        }
        sync_threads();
        let mut others = [0.0f32; N];
        if lane < block_dim_x() / LANES {
            for_each!(I < N, {
                *others.get_unchecked_mut(I) = *slots.add(32 * I + lane as usize);
            });
        }
        over_lanes(others, LANES)
    }
}
