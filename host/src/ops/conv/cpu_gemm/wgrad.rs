//! `dw = Σ dy · columnsᵀ` over all images.
//!
//! A job is a block of input channels of one group with a share of all (image, tile) pairs; it has a sum of its own.
//! The jobs depend on the problem alone and their sums are added in a fixed order, so that a result does not depend
//! on the number of threads.

use super::columns::{im2col, tile};
use super::{multiply, spans};
use crate::launch::cpu_gemm::{MatrixMut, MatrixRef};
use crate::ops::conv::cpu_geometry::Geometry;
use crate::tensor::Real;
use rayon::prelude::*;

/// Jobs there should be: enough for the cores of a large host.
const JOBS: usize = 64;

/// Rows a block of windows should have, so that reading dy for it is worth while.
const BLOCK_ROWS: usize = 64;

/// The most elements of all jobs' sums, unless dw alone has more.
const SUMS_ELEMS: usize = 1 << 22;

/// How the work is cut.
struct Jobs {
    /// Input channels of a block.
    block_c: usize,
    /// Blocks of a group.
    n_blocks: usize,
    /// Parts that the (image, tile) pairs are cut into.
    n_shares: usize,
    /// Output positions of a tile.
    tile: usize,
    /// (image, tile) pairs.
    n_pairs: usize,
    /// Elements of a job's sum.
    sum_elems: usize,
    /// Elements of a job's windows.
    columns_elems: usize,
}

impl Jobs {
    fn new(geometry: &Geometry) -> Self {
        let block_c = BLOCK_ROWS.div_ceil(geometry.taps()).min(geometry.group_c);
        let n_blocks = geometry.group_c.div_ceil(block_c);
        let block_rows = block_c * geometry.taps();
        let tile = tile(geometry, block_rows);
        let n_pairs = geometry.n * geometry.positions().div_ceil(tile);
        let sum_elems = geometry.group_k * block_rows;
        let all_sums = sum_elems * n_blocks * geometry.groups;
        let n_shares =
            JOBS.div_ceil(n_blocks * geometry.groups).min(SUMS_ELEMS / all_sums.min(SUMS_ELEMS)).min(n_pairs);
        let columns_elems = if geometry.is_pointwise() { 0 } else { block_rows.saturating_mul(tile) };
        Jobs { block_c, n_blocks, n_shares, tile, n_pairs, sum_elems, columns_elems }
    }

    fn n_jobs(&self, geometry: &Geometry) -> usize {
        geometry.groups * self.n_blocks * self.n_shares
    }
}

pub(super) fn scratch_elems(geometry: &Geometry) -> u64 {
    let jobs = Jobs::new(geometry);
    let n_jobs = jobs.n_jobs(geometry);
    let n_lanes = n_jobs.min(rayon::current_num_threads());
    let sums = (n_jobs as u64).saturating_mul(jobs.sum_elems as u64);
    (n_lanes as u64).saturating_mul(jobs.columns_elems as u64).saturating_add(sums)
}

pub(super) fn wgrad<A: Real>(geometry: &Geometry, x: &[A], dy: &[A], dw: &mut [A], scratch: &mut [A]) {
    let jobs = Jobs::new(geometry);
    let n_jobs = jobs.n_jobs(geometry);
    let (sums, columns) = scratch.split_at_mut(n_jobs * jobs.sum_elems);
    match columns.len().checked_div(jobs.columns_elems) {
        None => sums
            .par_chunks_mut(jobs.sum_elems)
            .enumerate()
            .for_each(|(job, sum)| one_job(geometry, &jobs, job, x, dy, sum, &mut [])),
        Some(n_lanes) => {
            let lane_jobs = n_jobs.div_ceil(n_lanes);
            let lanes = sums.par_chunks_mut(jobs.sum_elems * lane_jobs).zip(columns.par_chunks_mut(jobs.columns_elems));
            lanes.enumerate().for_each(|(lane, (sums, columns))| {
                for (i, sum) in sums.chunks_mut(jobs.sum_elems).enumerate() {
                    one_job(geometry, &jobs, lane * lane_jobs + i, x, dy, sum, columns);
                }
            });
        }
    }
    gather_sums(geometry, &jobs, sums, dw);
}

/// The sum of one job: `[K / G, block_c · T R S]`, fewer columns in a group's last block.
fn one_job<A: Real>(geometry: &Geometry, jobs: &Jobs, job: usize, x: &[A], dy: &[A], sum: &mut [A], columns: &mut [A]) {
    let Geometry { groups, group_c, group_k, .. } = *geometry;
    let (n_positions, n_pixels) = (geometry.positions(), geometry.pixels());
    let (share, block) = (job % jobs.n_shares, job / jobs.n_shares);
    let (g, block) = (block / jobs.n_blocks, block % jobs.n_blocks);
    let begin_c = block * jobs.block_c;
    let n_channels = jobs.block_c.min(group_c - begin_c);
    let n_rows = n_channels * geometry.taps();
    let pair = |share: usize| share * jobs.n_pairs / jobs.n_shares;
    let pairs = (0..geometry.n).flat_map(|n| spans(geometry, jobs.tile).map(move |span| (n, span)));
    let mut beta = A::zero();
    for (n, span) in pairs.skip(pair(share)).take(pair(share + 1) - pair(share)) {
        let image = n * groups + g;
        let x = &x[(image * group_c + begin_c) * n_pixels..][..n_channels * n_pixels];
        let dy = MatrixRef {
            data: &dy[image * group_k * n_positions + span.start..],
            rows: group_k,
            cols: span.len(),
            row_stride: n_positions,
            col_stride: 1,
        };
        let windows = if jobs.columns_elems == 0 {
            let data = &x[span.start..];
            MatrixRef { data, rows: n_rows, cols: span.len(), row_stride: n_positions, col_stride: 1 }
        } else {
            let columns = &mut columns[..n_rows * span.len()];
            im2col(geometry, x, span.clone(), columns);
            MatrixRef::row_major(columns, n_rows, span.len())
        };
        multiply(dy, windows.transposed(), beta, MatrixMut::row_major(&mut *sum, group_k, n_rows));
        beta = A::one();
    }
}

/// Adds the sums of all shares and puts the blocks side by side.
fn gather_sums<A: Real>(geometry: &Geometry, jobs: &Jobs, sums: &[A], dw: &mut [A]) {
    let (group_k, n_terms) = (geometry.group_k, geometry.terms());
    dw.par_chunks_mut(n_terms).enumerate().for_each(|(k, dw)| {
        let (g, k) = (k / group_k, k % group_k);
        for (block, dw) in dw.chunks_mut(jobs.block_c * geometry.taps()).enumerate() {
            let first = (g * jobs.n_blocks + block) * jobs.n_shares;
            let n_cols = dw.len();
            let row = |share: usize| &sums[(first + share) * jobs.sum_elems + k * n_cols..][..n_cols];
            dw.copy_from_slice(row(0));
            for share in 1..jobs.n_shares {
                dw.iter_mut().zip(row(share)).for_each(|(to, &from)| *to = *to + from);
            }
        }
    });
}
