//! Matmul on the CPU: `matrixmultiply`, spread over threads by blocks of rows of all matrices.

use super::MatmulProblem;
use crate::cpu::{CpuCall, CpuKernel};
use crate::launch::cpu_gemm::{MatrixMut, MatrixRef};
use crate::tensor::Real;
use rayon::prelude::*;

/// Blocks of rows in parallel, each through `matrixmultiply`.
#[derive(Clone, Copy)]
pub(super) struct Gemm;

/// Multiply-adds below which a block is not split further: about 50 µs of one core.
const BLOCK_WORK: usize = 1 << 20;

/// Blocks a thread gets for each matrix that is large enough: several, so that the last ones even out.
const BLOCKS_PER_THREAD: usize = 3;

/// Rows of a block are a multiple of this, the height of the routine's own blocks of registers.
const ROW_GRAIN: usize = 8;

impl CpuKernel<MatmulProblem> for Gemm {
    const NAME: &'static str = "cpu_gemm";

    // Vector units make products about ten times as fast as the plain rate of estimates.
    fn slowness(_: &MatmulProblem) -> f64 {
        0.1
    }

    fn compute<A: Real>(problem: &MatmulProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let [gemm_m, gemm_n, gemm_k] =
            [problem.gemm_m(), problem.gemm_n(), problem.gemm_k()].map(|extent| extent as usize);
        let desc = problem.desc();
        let (a, b) = (inputs[0], inputs[1]);
        let rows = block_rows(gemm_m, gemm_n, gemm_k, rayon::current_num_threads());
        let c = outputs[0].par_chunks_mut(gemm_m * gemm_n);
        c.zip(a.par_chunks(gemm_m * gemm_k)).zip(b.par_chunks(gemm_k * gemm_n)).for_each(|((c, a), b)| {
            let b = oriented(b, gemm_k, gemm_n, desc.transpose_b);
            c.par_chunks_mut(rows * gemm_n).enumerate().for_each(|(block, c)| {
                let (first, n_rows) = (block * rows, c.len() / gemm_n);
                let a = oriented(a, gemm_m, gemm_k, desc.transpose_a);
                let a = MatrixRef { data: &a.data[first * a.row_stride..], rows: n_rows, ..a };
                A::gemm(A::one(), a, b, A::zero(), MatrixMut::row_major(c, n_rows, gemm_n))
                    .expect("blocks lie within the operands");
            });
        });
    }
}

/// A packed matrix, or one stored transposed, with its extents in the formula.
fn oriented<A>(data: &[A], rows: usize, cols: usize, transposed: bool) -> MatrixRef<'_, A> {
    if transposed {
        MatrixRef::row_major(data, cols, rows).transposed()
    } else {
        MatrixRef::row_major(data, rows, cols)
    }
}

/// Rows of a block: few enough to feed all threads, enough that packing b again for each block does not show.
fn block_rows(gemm_m: usize, gemm_n: usize, gemm_k: usize, n_threads: usize) -> usize {
    let row_work = gemm_n.saturating_mul(gemm_k).max(1);
    let share = gemm_m.div_ceil(n_threads * BLOCKS_PER_THREAD);
    share.max(BLOCK_WORK.div_ceil(row_work)).next_multiple_of(ROW_GRAIN).min(gemm_m.next_multiple_of(ROW_GRAIN))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_feed_the_threads_without_getting_tiny() {
        assert_eq!(block_rows(4096, 4096, 4096, 4), 344);
        assert_eq!(block_rows(10, 10, 10, 4), 16);
        assert_eq!(block_rows(1, 1 << 20, 1, 8), 8);
    }
}
