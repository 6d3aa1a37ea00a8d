//! Convolution on the CPU as matrix products.
//!
//! For an image and a group, w is a matrix of K / G rows and (C / G) T R S columns, y one of K / G rows and Z P Q
//! columns, and the windows of x (`im2col`) one of (C / G) T R S rows and Z P Q columns:
//! `y = w · columns`, `columns(dx) = wᵀ · dy`, `dw = Σ_n dy · columnsᵀ`. Windows are made for a tile of output
//! positions at a time. Where windows are single elements, the tensors themselves are multiplied.

mod columns;
mod wgrad;

use super::algorithms::padding_spread;
use super::cpu_geometry::Geometry;
use super::{ConvPass, ConvProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::launch::cpu_gemm::{MatrixMut, MatrixRef};
use crate::select::Spread;
use crate::tensor::Real;
use columns::{col2im, im2col, tile};
use rayon::prelude::*;

/// Matrix products over windows of the input.
#[derive(Clone, Copy)]
pub(super) struct CpuGemm;

impl CpuKernel<ConvProblem> for CpuGemm {
    const NAME: &'static str = "cpu_gemm";

    fn scratch_elems(problem: &ConvProblem) -> u64 {
        let geometry = Geometry::new(problem);
        match problem.conv_pass() {
            ConvPass::Fprop | ConvPass::Dgrad => {
                let n_lanes = (geometry.n * geometry.groups).min(rayon::current_num_threads());
                (n_lanes as u64).saturating_mul(columns_elems(&geometry) as u64)
            }
            ConvPass::Wgrad => wgrad::scratch_elems(&geometry),
        }
    }

    /// Windows hold zeros for the padding; of the products of `dgrad` those in the padding are left out.
    fn spread(problem: &ConvProblem) -> Spread {
        match problem.conv_pass() {
            ConvPass::Fprop | ConvPass::Wgrad => padding_spread(problem),
            ConvPass::Dgrad => Spread::None,
        }
    }

    fn slowness(problem: &ConvProblem) -> f64 {
        let geometry = Geometry::new(problem);
        // Products run at many times the plain rate; making the windows, or handling thin matrices, does not, and is
        // shared by the output channels of a group. Measured on two cores.
        0.06 + 4.0 / geometry.group_k as f64
    }

    fn compute<A: Real>(problem: &ConvProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, scratch, .. } = call;
        let geometry = Geometry::new(problem);
        match problem.conv_pass() {
            ConvPass::Fprop => fprop(&geometry, inputs[0], inputs[1], outputs[0], scratch),
            ConvPass::Dgrad => dgrad(&geometry, inputs[0], inputs[1], outputs[0], scratch),
            ConvPass::Wgrad => wgrad::wgrad(&geometry, inputs[0], inputs[1], outputs[0], scratch),
        }
    }
}

/// Elements of the windows that one lane holds in `fprop` and `dgrad`.
fn columns_elems(geometry: &Geometry) -> usize {
    if geometry.is_pointwise() { 0 } else { geometry.terms().saturating_mul(tile(geometry, geometry.terms())) }
}

/// Calls `body` for every (image, group), given by its number, with its part of `output` and a matrix of windows.
///
/// Images are dealt out to as many lanes as there are matrices; `body` is also told into how many parts it should
/// split its own work so that every thread has some.
fn for_each_image<A: Real>(
    geometry: &Geometry,
    output: &mut [A],
    scratch: &mut [A],
    body: impl Fn(usize, &mut [A], &mut [A], usize) + Sync,
) {
    let n_images = geometry.n * geometry.groups;
    let image_elems = output.len() / n_images;
    let columns_elems = columns_elems(geometry);
    let n_threads = rayon::current_num_threads();
    if columns_elems == 0 {
        let n_parts = n_threads.div_ceil(n_images);
        output.par_chunks_mut(image_elems).enumerate().for_each(|(i, output)| body(i, output, &mut [], n_parts));
        return;
    }
    let n_lanes = scratch.len() / columns_elems;
    let n_parts = n_threads.div_ceil(n_lanes);
    let lane_images = n_images.div_ceil(n_lanes);
    output.par_chunks_mut(image_elems * lane_images).zip(scratch.par_chunks_mut(columns_elems)).enumerate().for_each(
        |(lane, (outputs, columns))| {
            for (i, output) in outputs.chunks_mut(image_elems).enumerate() {
                body(lane * lane_images + i, output, columns, n_parts);
            }
        },
    );
}

/// The tiles of the output's positions.
fn spans(geometry: &Geometry, tile: usize) -> impl Iterator<Item = std::ops::Range<usize>> + use<> {
    let n_positions = geometry.positions();
    (0..n_positions).step_by(tile).map(move |begin| begin..n_positions.min(begin + tile))
}

fn fprop<A: Real>(geometry: &Geometry, x: &[A], w: &[A], y: &mut [A], scratch: &mut [A]) {
    let Geometry { groups, group_c, group_k, .. } = *geometry;
    let (n_terms, n_positions, n_taps) = (geometry.terms(), geometry.positions(), geometry.taps());
    let tile = tile(geometry, n_terms);
    for_each_image(geometry, y, scratch, |i, y, columns, n_parts| {
        let x = &x[i * group_c * geometry.pixels()..][..group_c * geometry.pixels()];
        let w = &w[i % groups * group_k * n_terms..][..group_k * n_terms];
        let part_k = group_k.div_ceil(n_parts);
        // Rows of w and y are dealt out to the parts; all read the same windows.
        let multiply_span = |windows: MatrixRef<'_, A>, y: &mut [A], begin: usize| {
            let rows = y.par_chunks_mut(part_k * n_positions).zip(w.par_chunks(part_k * n_terms));
            rows.for_each(|(y, w)| {
                let w = MatrixRef::row_major(w, w.len() / n_terms, n_terms);
                let y = MatrixMut {
                    data: &mut y[begin..],
                    rows: w.rows,
                    cols: windows.cols,
                    row_stride: n_positions,
                    col_stride: 1,
                };
                multiply(w, windows, A::zero(), y);
            });
        };
        if geometry.is_pointwise() {
            return multiply_span(MatrixRef::row_major(x, n_terms, n_positions), y, 0);
        }
        let part_c = group_c.div_ceil(n_parts);
        for span in spans(geometry, tile) {
            let columns = &mut columns[..n_terms * span.len()];
            columns
                .par_chunks_mut(part_c * n_taps * span.len())
                .zip(x.par_chunks(part_c * geometry.pixels()))
                .for_each(|(columns, x)| im2col(geometry, x, span.clone(), columns));
            multiply_span(MatrixRef::row_major(columns, n_terms, span.len()), y, span.start);
        }
    });
}

fn dgrad<A: Real>(geometry: &Geometry, dy: &[A], w: &[A], dx: &mut [A], scratch: &mut [A]) {
    let Geometry { groups, group_c, group_k, .. } = *geometry;
    let (n_terms, n_positions, n_taps) = (geometry.terms(), geometry.positions(), geometry.taps());
    let n_pixels = geometry.pixels();
    let tile = tile(geometry, n_terms);
    for_each_image(geometry, dx, scratch, |i, dx, columns, n_parts| {
        let dy = &dy[i * group_k * n_positions..][..group_k * n_positions];
        let w = &w[i % groups * group_k * n_terms..][..group_k * n_terms];
        // Channels of dx, which are rows of wᵀ, are dealt out to the parts.
        let part_c = group_c.div_ceil(n_parts);
        let filter_rows = |part: usize, n_rows: usize| MatrixRef {
            data: &w[part * part_c * n_taps..],
            rows: n_rows,
            cols: group_k,
            row_stride: 1,
            col_stride: n_terms,
        };
        if geometry.is_pointwise() {
            let dy = MatrixRef::row_major(dy, group_k, n_positions);
            dx.par_chunks_mut(part_c * n_pixels).enumerate().for_each(|(part, dx)| {
                let n_rows = dx.len() / n_pixels;
                multiply(filter_rows(part, n_rows), dy, A::zero(), MatrixMut::row_major(dx, n_rows, n_pixels));
            });
            return;
        }
        dx.fill(A::zero());
        for span in spans(geometry, tile) {
            let dy = MatrixRef {
                data: &dy[span.start..],
                rows: group_k,
                cols: span.len(),
                row_stride: n_positions,
                col_stride: 1,
            };
            let parts = dx
                .par_chunks_mut(part_c * n_pixels)
                .zip(columns[..n_terms * span.len()].par_chunks_mut(part_c * n_taps * span.len()));
            parts.enumerate().for_each(|(part, (dx, columns))| {
                let n_rows = columns.len() / span.len();
                let product = MatrixMut::row_major(columns, n_rows, span.len());
                multiply(filter_rows(part, n_rows), dy, A::zero(), product);
                col2im(geometry, columns, span.clone(), dx);
            });
        }
    });
}

/// `c = a b + beta · c`.
fn multiply<A: Real>(a: MatrixRef<'_, A>, b: MatrixRef<'_, A>, beta: A, c: MatrixMut<'_, A>) {
    A::gemm(A::one(), a, b, beta, c).expect("all extents come from one problem");
}
