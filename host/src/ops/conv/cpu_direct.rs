//! Convolution on the CPU as plain loops, without scratch memory.
//!
//! Every row of the tensor that is written is one thread's; within it, rows of the other tensors are read along the
//! innermost axis. Best where a product of matrices would be thin, as with depthwise filters.

use super::cpu_geometry::Geometry;
use super::{ConvPass, ConvProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::sum::{RowSums, Stream};
use crate::tensor::{Element, Real};
use rayon::prelude::*;

/// Plain loops.
#[derive(Clone, Copy)]
pub(super) struct CpuDirect;

/// Multiply-adds that are worth handing to another thread.
const TASK_TERMS: usize = 1 << 14;
/// Products of a row of dy whose sum is kept in the type that is computed in.
const RUN: usize = 4096;

impl CpuKernel<ConvProblem> for CpuDirect {
    const NAME: &'static str = "cpu_direct";

    fn slowness(problem: &ConvProblem) -> f64 {
        let geometry = Geometry::new(problem);
        // Short rows leave vectors half empty and spend their time on loop bounds; strides other than 1 are not
        // vectorized at all. Measured on two cores.
        let rate = if geometry.stride(2) == 1 { 0.15 } else { 1.0 };
        rate + 8.0 / geometry.output[2] as f64
    }

    fn compute<A: Real>(problem: &ConvProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let geometry = Geometry::new(problem);
        match problem.conv_pass() {
            ConvPass::Fprop => fprop(&geometry, inputs[0], inputs[1], outputs[0]),
            ConvPass::Dgrad => dgrad(&geometry, inputs[0], inputs[1], outputs[0]),
            ConvPass::Wgrad => wgrad(&geometry, inputs[0], inputs[1], outputs[0]),
        }
    }
}

/// Rows a task takes when each costs `row_terms`.
fn min_rows(row_terms: usize) -> usize {
    (TASK_TERMS / row_terms.max(1)).max(1)
}

fn fprop<A: Real>(geometry: &Geometry, x: &[A], w: &[A], y: &mut [A]) {
    let Geometry { groups, group_c, group_k, image, filter, output, .. } = *geometry;
    let ([_, height, width], [nt, nr, ns], [nz, np, nq]) = (image, filter, output);
    let (n_taps, n_pixels, stride) = (geometry.taps(), geometry.pixels(), geometry.stride(2));
    let rows = y.par_chunks_mut(nq).enumerate().with_min_len(min_rows(geometry.terms() * nq));
    rows.for_each(|(row, y)| {
        let (row, p) = (row / np, row % np);
        let (row, z) = (row / nz, row % nz);
        let (n, k) = (row / (groups * group_k), row % (groups * group_k));
        let first_channel = (n * groups + k / group_k) * group_c;
        let mut sums = RowSums::new(y);
        let (x, w) = (&x[first_channel * n_pixels..], &w[k * geometry.terms()..][..geometry.terms()]);
        for t in (0..nt).filter(|&t| geometry.valid(0, t).contains(&z)) {
            for r in (0..nr).filter(|&r| geometry.valid(1, r).contains(&p)) {
                let line = (geometry.input(0, z, t) * height + geometry.input(1, p, r)) * width;
                for s in 0..ns {
                    let qs = geometry.valid(2, s);
                    if qs.is_empty() {
                        continue;
                    }
                    let first = line + geometry.input(2, qs.start, s);
                    let end = line + geometry.input(2, qs.end - 1, s) + 1;
                    let tap = geometry.filter_offset([t, r, s]);
                    for c in 0..group_c {
                        let y = &mut sums.next()[qs.clone()];
                        add_scaled(y, 1, &x[c * n_pixels..][first..end], stride, w[c * n_taps + tap]);
                    }
                }
            }
        }
        sums.finish();
    });
}

fn dgrad<A: Real>(geometry: &Geometry, dy: &[A], w: &[A], dx: &mut [A]) {
    let Geometry { groups, group_c, group_k, image, filter, output, .. } = *geometry;
    let ([depth, height, width], [nt, nr, ns], [_, np, nq]) = (image, filter, output);
    let (n_taps, n_positions, stride) = (geometry.taps(), geometry.positions(), geometry.stride(2));
    let rows = dx.par_chunks_mut(width).enumerate().with_min_len(min_rows(group_k * n_taps * nq));
    rows.for_each(|(row, dx)| {
        let (row, h) = (row / height, row % height);
        let (row, d) = (row / depth, row % depth);
        let (n, c) = (row / (groups * group_c), row % (groups * group_c));
        let (g, c) = (c / group_c, c % group_c);
        let mut sums = RowSums::new(dx);
        let dy = &dy[(n * groups + g) * group_k * n_positions..][..group_k * n_positions];
        let w = &w[g * group_k * geometry.terms()..][..group_k * geometry.terms()];
        for (t, z) in (0..nt).filter_map(|t| Some((t, geometry.output(0, d, t)?))) {
            for (r, p) in (0..nr).filter_map(|r| Some((r, geometry.output(1, h, r)?))) {
                let line = (z * np + p) * nq;
                for s in 0..ns {
                    let qs = geometry.valid(2, s);
                    if qs.is_empty() {
                        continue;
                    }
                    let first = geometry.input(2, qs.start, s);
                    let tap = c * n_taps + geometry.filter_offset([t, r, s]);
                    for k in 0..group_k {
                        let dy = &dy[k * n_positions + line..][qs.clone()];
                        add_scaled(&mut sums.next()[first..], stride, dy, 1, w[k * geometry.terms() + tap]);
                    }
                }
            }
        }
        sums.finish();
    });
}

fn wgrad<A: Real>(geometry: &Geometry, x: &[A], dy: &[A], dw: &mut [A]) {
    let Geometry { n: n_images, groups, group_c, group_k, image, filter, output, .. } = *geometry;
    let ([_, height, width], [nt, nr, ns], [_, np, nq]) = (image, filter, output);
    let (n_pixels, n_positions, stride) = (geometry.pixels(), geometry.positions(), geometry.stride(2));
    let filters = dw.par_chunks_mut(geometry.taps()).enumerate();
    filters.with_min_len(min_rows(n_images * n_positions * geometry.taps())).for_each(|(filter, dw)| {
        let (k, c) = (filter / group_c, filter % group_c);
        let g = k / group_k;
        for t in 0..nt {
            for r in 0..nr {
                for s in 0..ns {
                    let (zs, ps, qs) = (geometry.valid(0, t), geometry.valid(1, r), geometry.valid(2, s));
                    let mut sum = Stream::new();
                    for n in 0..if qs.is_empty() { 0 } else { n_images } {
                        let x = &x[((n * groups + g) * group_c + c) * n_pixels..][..n_pixels];
                        let dy = &dy[(n * groups * group_k + k) * n_positions..][..n_positions];
                        for z in zs.clone() {
                            for p in ps.clone() {
                                let line = (geometry.input(0, z, t) * height + geometry.input(1, p, r)) * width;
                                let x = &x[line + geometry.input(2, qs.start, s)..];
                                let dy = dy[(z * np + p) * nq..][qs.clone()].chunks(RUN);
                                let runs = dy.zip(x.chunks(RUN.saturating_mul(stride)));
                                runs.for_each(|(dy, x)| sum.push(Element::to_f64(dot(dy, x, stride))));
                            }
                        }
                    }
                    dw[geometry.filter_offset([t, r, s])] = A::real(sum.finish());
                }
            }
        }
    });
}

/// `to[i · to_stride] += factor · from[i · from_stride]`, as far as both reach.
fn add_scaled<A: Real>(to: &mut [A], to_stride: usize, from: &[A], from_stride: usize, factor: A) {
    if to_stride == 1 && from_stride == 1 {
        to.iter_mut().zip(from).for_each(|(to, &from)| *to = *to + factor * from);
    } else {
        let pairs = to.iter_mut().step_by(to_stride).zip(from.iter().step_by(from_stride));
        pairs.for_each(|(to, &from)| *to = *to + factor * from);
    }
}

/// `Σ a[i] · b[i · stride]` over all of `a`.
fn dot<A: Real>(a: &[A], b: &[A], stride: usize) -> A {
    /// Partial sums, so that they can be added as a vector.
    const PARTS: usize = 8;
    let mut sums = [A::zero(); PARTS];
    if stride == 1 {
        let b = &b[..a.len()];
        let (a, b) = (a.chunks_exact(PARTS), b.chunks_exact(PARTS));
        let rest = a.remainder().iter().zip(b.remainder());
        sums.iter_mut().zip(rest).for_each(|(sum, (&a, &b))| *sum = a * b);
        for (a, b) in a.zip(b) {
            for i in 0..PARTS {
                sums[i] = sums[i] + a[i] * b[i];
            }
        }
    } else {
        sums[0] = a.iter().zip(b.iter().step_by(stride)).map(|(&a, &b)| a * b).sum();
    }
    sums.into_iter().sum()
}
