//! Tiles in shared memory, any strides: the kernel that accepts every legal problem.
//!
//! Grid: linear over tiles of `NAIVE_TILE` × `NAIVE_TILE` of all matrices, striding. Block: 256 threads, each with
//! 2 × 2 elements, 16 apart. Shared memory: two slices of `SLICE_ELEMS` accumulators. No alignment is asked.

use crate::math::element::{Accumulator, Element, Factor, Term, load_term};
use crate::math::epilogue::finish;
use crate::math::index::div_rem;
use crate::math::sum::{self, Blocks};
use crate::math::vector::for_each;
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use kernel_abi::ops::matmul::{MatmulOperand, MatmulParams, NAIVE_TILE};

/// Length of the sums between two barriers.
const DEPTH: u32 = 16;

const TILE: i64 = NAIVE_TILE as i64;
/// Distance of a slice's rows: one more than the tile, so that neighbours along k lie in different banks.
const PITCH: usize = NAIVE_TILE as usize + 1;
/// Elements of a slice.
pub(super) const SLICE_ELEMS: usize = PITCH * DEPTH as usize;
const HALF: usize = NAIVE_TILE as usize / 2;
const THREADS: i64 = 256;

/// c = a b. `a_slice` is `[k][m]`, `b_slice` `[k][n]`, both in shared memory.
///
/// # Safety
/// The matrices exist; the slices have `SLICE_ELEMS` elements each.
pub(super) unsafe fn forward<A: Factor, B: Factor<Term = A::Term>, C: Element>(
    p: &MatmulParams,
    a_slice: *mut A::Term,
    b_slice: *mut A::Term,
) {
    let thread = thread_idx_x() as i64;
    let (row, col) = (thread as usize / HALF, thread as usize % HALF);
    let (m_blocks, n_blocks) = ((p.gemm_m + TILE - 1) / TILE, (p.gemm_n + TILE - 1) / TILE);
    let n_tiles = m_blocks * n_blocks * p.batch_dims[0] * p.batch_dims[1] * p.batch_dims[2];
    let mut tile = block_idx_x() as i64;
    while tile < n_tiles {
        let (rest, n_block) = div_rem(tile, n_blocks);
        let (matrix, m_block) = div_rem(rest, m_blocks);
        let (first_m, first_n) = (m_block * TILE, n_block * TILE);
        let (a_at, b_at) = (start(&p.a, p, matrix), start(&p.b, p, matrix));
        let at = [start(&p.c, p, matrix), start(&p.z, p, matrix)];
        let mut blocks = [Blocks::<A::Term>::EMPTY; 4];
        let mut sums = [A::Term::EMPTY; 4];
        let mut k = 0;
        while k < p.gemm_k {
            // Two elements of each slice a thread. Neighbours in the order of memory, where there is one.
            let mut i = 0;
            while i < 2 {
                let linear = thread + i * THREADS;
                let (m, kk) = spread(linear, p.a.col_stride < p.a.row_stride);
                put::<A>(a_slice, m, kk, &p.a, a_at, (first_m + m, k + kk), (p.gemm_m, p.gemm_k), false);
                let (n, kk) = spread(linear, p.b.row_stride < p.b.col_stride);
                put::<B>(b_slice, n, kk, &p.b, b_at, (first_n + n, k + kk), (p.gemm_n, p.gemm_k), true);
                i += 1;
            }
            sync_threads();
            let mut kk = 0;
            while kk < DEPTH as usize {
                let (a, b) = (a_slice.add(kk * PITCH), b_slice.add(kk * PITCH));
                let (a0, a1, b0, b1) = (*a.add(row), *a.add(row + HALF), *b.add(col), *b.add(col + HALF));
                sums = [
                    a0.multiply_add(b0, sums[0]),
                    a0.multiply_add(b1, sums[1]),
                    a1.multiply_add(b0, sums[2]),
                    a1.multiply_add(b1, sums[3]),
                ];
                kk += 1;
            }
            sync_threads();
            k += DEPTH as i64;
            if k % i64::from(sum::BLOCK) == 0 || k >= p.gemm_k {
                for_each!(I < 4, {
                    blocks[I].push(sums[I]);
                });
                sums = [A::Term::EMPTY; 4];
            }
        }
        let (m, n) = (first_m + row as i64, first_n + col as i64);
        let half = HALF as i64;
        store::<C>(p, at, m, n, blocks[0].finish());
        store::<C>(p, at, m, n + half, blocks[1].finish());
        store::<C>(p, at, m + half, n, blocks[2].finish());
        store::<C>(p, at, m + half, n + half, blocks[3].finish());
        tile += grid_dim_x() as i64;
    }
}

/// Offset of a matrix of the batch.
#[inline(always)]
fn start(operand: &MatmulOperand, p: &MatmulParams, matrix: i64) -> i64 {
    let (rest, inner) = div_rem(matrix, p.batch_dims[2]);
    let (outer, middle) = div_rem(rest, p.batch_dims[1]);
    let [s0, s1, s2] = operand.batch_strides;
    outer * s0 + middle * s1 + inner * s2
}

/// Element `linear` of a slice: its index along m or n, and along k. Where k has the smaller stride, neighbours differ
/// in k.
#[inline(always)]
fn spread(linear: i64, along_k: bool) -> (i64, i64) {
    let depth = DEPTH as i64;
    if along_k { (linear / depth, linear % depth) } else { (linear % TILE, linear / TILE) }
}

/// Element (`mn`, `k`) of an operand into its slice, 0 outside.
///
/// # Safety
/// As [`forward`].
#[inline(always)]
unsafe fn put<T: Factor>(
    slice: *mut T::Term,
    slice_mn: i64,
    slice_k: i64,
    operand: &MatmulOperand,
    start: i64,
    (mn, k): (i64, i64),
    (mn_end, k_end): (i64, i64),
    k_is_row: bool,
) {
    let (mn_stride, k_stride) =
        if k_is_row { (operand.col_stride, operand.row_stride) } else { (operand.row_stride, operand.col_stride) };
    let value = if mn < mn_end && k < k_end {
        load_term::<T>(operand.address, start + mn * mn_stride + k * k_stride)
    } else {
        T::Term::EMPTY
    };
    *slice.add(slice_k as usize * PITCH + slice_mn as usize) = value;
}

/// Makes an element of c of a sum. c and z begin at the offsets `at`.
///
/// # Safety
/// As [`forward`].
#[inline(always)]
unsafe fn store<C: Element>(p: &MatmulParams, at: [i64; 2], m: i64, n: i64, sum: f64) {
    if m < p.gemm_m && n < p.gemm_n {
        let c = (p.c.address, at[0] + m * p.c.row_stride + n * p.c.col_stride);
        let z = (p.z.address, at[1] + m * p.z.row_stride + n * p.z.col_stride);
        finish::<C>(&p.epilogue, c, z, n, C::Acc::from_f64(sum), p.alpha, p.beta);
    }
}
