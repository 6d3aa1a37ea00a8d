//! The gradient of rows that lie to 16 bytes, in the registers of a block of `G` threads, `K` pieces of 16 bytes of y and dy
//! each. Blocks go on from row to row, and load the next while they work on one: memory does not wait for sums.
//!
//! Grid: any, one-dimensional. Shared memory: two slots a warp.

use super::register_rows::{anew, gradients, sum_of};
use crate::math::rows::{MAX_LANES, Vector, Words, reduce};
use core::mem::size_of;
use cuda_std::{guarded, math, memory, thread};
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxPitchedParams};

/// Bytes of a piece.
const PIECE: u64 = 16;

/// The thread's pieces of a row, all under way at once; zeros where there are none, or no row.
#[inline(always)]
unsafe fn load<T: Vector, const G: u32, const K: usize>(
    p: &SoftmaxPitchedParams,
    row: u32,
    tensor: u64,
    pitch: i64,
) -> [Words; K] {
    let from = tensor + (i64::from(row) * pitch) as u64 * size_of::<T>() as u64;
    let n_pieces = p.row_elems / T::LANES as u32;
    let mut words = [[0u32; 4]; K];
    let mut k = 0;
    while k < K {
        let piece = thread::thread_idx_x() + k as u32 * G;
        let there = u32::from(row < p.n_rows && piece < n_pieces);
        *words.get_unchecked_mut(k) = guarded::load_x4_streaming(from + u64::from(piece) * PIECE, there);
        k += 1;
    }
    words
}

/// dx from y and dy.
///
/// # Safety
/// As the kernels.
#[inline(always)]
pub unsafe fn backward<T: Vector, const G: u32, const K: usize>(p: &SoftmaxPitchedParams, slots: *mut f32) {
    let log = p.kind == SoftmaxKind::Log as u32;
    let n_pieces = p.row_elems / T::LANES as u32;
    let load_both =
        |row: u32| (load::<T, G, K>(p, row, p.input, p.in_pitch), load::<T, G, K>(p, row, p.dy, p.dy_pitch));
    let (mut row, mut parity) = (thread::block_idx_x(), 0);
    let mut next = load_both(row);
    while row < p.n_rows {
        let (y, dy) = next;
        let out = p.out + (i64::from(row) * p.out_pitch) as u64 * size_of::<T>() as u64;
        row += thread::grid_dim_x();
        next = load_both(row);
        // Slots in turns: who still reads the last row's is not disturbed.
        let sum = reduce::<G>(sum_of::<T, K>(&y, &dy, log, 0.0), slots.add(32 * parity), |a, b| a + b);
        parity ^= 1;
        let mut k = 0;
        while k < K {
            let piece = thread::thread_idx_x() + k as u32 * G;
            let to = out + u64::from(piece) * PIECE;
            let mut values = gradients::<T>(anew(*y.get_unchecked(k)), anew(*dy.get_unchecked(k)), sum, log);
            let there = piece < n_pieces;
            let mut prior = [0.0; MAX_LANES];
            if p.beta != 0.0 && there {
                prior = T::unpack(memory::load_x4(to as *const u32));
            }
            let mut i = 0;
            while i < T::LANES {
                let value = values.get_unchecked_mut(i);
                *value = math::fma_f32(p.beta, *prior.get_unchecked(i), p.alpha * *value);
                i += 1;
            }
            guarded::store_x4(to, T::pack(values), u32::from(there));
            k += 1;
        }
    }
}
