//! The matrix of input windows: one row for each (channel, filter element), one column for each output position.

use crate::ops::conv::cpu_geometry::Geometry;
use crate::tensor::Real;
use std::ops::Range;

/// Elements of a matrix of windows: about what a core's second-level cache keeps.
const COLUMNS_ELEMS: usize = 1 << 17;

/// Output positions of a tile, even if the matrix becomes larger: each tile's product reads and repacks all of w, which
/// cost more than half of the time with 32 (measured on two cores, 256 channels, 3×3).
const MIN_TILE: usize = 128;

/// Output positions that are handled at a time when the matrix has `rows` rows.
pub(super) fn tile(geometry: &Geometry, rows: usize) -> usize {
    (COLUMNS_ELEMS / rows).max(MIN_TILE).min(geometry.positions())
}

/// The pieces of a row of positions that lie in one row of the image.
struct Run {
    z: usize,
    p: usize,
    q: Range<usize>,
    /// Place in the row of the matrix.
    at: usize,
}

fn runs(geometry: &Geometry, span: Range<usize>) -> impl Iterator<Item = Run> {
    let [_, np, nq] = geometry.output;
    let mut next = span.start;
    std::iter::from_fn(move || {
        if next >= span.end {
            return None;
        }
        let (row, q) = (next / nq, next % nq);
        let end = nq.min(q + span.end - next);
        let run = Run { z: row / np, p: row % np, q: q..end, at: next - span.start };
        next += end - q;
        Some(run)
    })
}

fn intersect(a: &Range<usize>, b: &Range<usize>) -> Range<usize> {
    let start = a.start.max(b.start).min(a.end);
    start..b.end.min(a.end).max(start)
}

/// Writes the windows of the channels in `x` at the output positions `span`.
pub(super) fn im2col<A: Real>(geometry: &Geometry, x: &[A], span: Range<usize>, columns: &mut [A]) {
    let [_, height, width] = geometry.image;
    let stride = geometry.stride(2);
    for (x, columns) in x.chunks(geometry.pixels()).zip(columns.chunks_mut(geometry.taps() * span.len())) {
        for_each_tap(geometry, |taps @ [t, r, s]| {
            let row = &mut columns[geometry.filter_offset(taps) * span.len()..][..span.len()];
            let (zs, ps, qs) = (geometry.valid(0, t), geometry.valid(1, r), geometry.valid(2, s));
            for run in runs(geometry, span.clone()) {
                let row = &mut row[run.at..][..run.q.len()];
                let inside = intersect(&run.q, &qs);
                if !zs.contains(&run.z) || !ps.contains(&run.p) || inside.is_empty() {
                    row.fill(A::zero());
                    continue;
                }
                let (begin, end) = (inside.start - run.q.start, inside.end - run.q.start);
                row[..begin].fill(A::zero());
                row[end..].fill(A::zero());
                let line = (geometry.input(0, run.z, t) * height + geometry.input(1, run.p, r)) * width;
                let from = &x[line + geometry.input(2, inside.start, s)..];
                let row = &mut row[begin..end];
                if stride == 1 {
                    row.copy_from_slice(&from[..row.len()]);
                } else {
                    row.iter_mut().zip(from.iter().step_by(stride)).for_each(|(to, &from)| *to = from);
                }
            }
        });
    }
}

/// Adds what [`im2col`] would have read from each element of `x` to it: the adjoint.
pub(super) fn col2im<A: Real>(geometry: &Geometry, columns: &[A], span: Range<usize>, x: &mut [A]) {
    let [_, height, width] = geometry.image;
    let stride = geometry.stride(2);
    for (x, columns) in x.chunks_mut(geometry.pixels()).zip(columns.chunks(geometry.taps() * span.len())) {
        for_each_tap(geometry, |taps @ [t, r, s]| {
            let row = &columns[geometry.filter_offset(taps) * span.len()..][..span.len()];
            let (zs, ps, qs) = (geometry.valid(0, t), geometry.valid(1, r), geometry.valid(2, s));
            for run in runs(geometry, span.clone()) {
                let inside = intersect(&run.q, &qs);
                if !zs.contains(&run.z) || !ps.contains(&run.p) || inside.is_empty() {
                    continue;
                }
                let line = (geometry.input(0, run.z, t) * height + geometry.input(1, run.p, r)) * width;
                let to = &mut x[line + geometry.input(2, inside.start, s)..];
                let row = &row[run.at + inside.start - run.q.start..][..inside.len()];
                if stride == 1 {
                    to.iter_mut().zip(row).for_each(|(to, &from)| *to = *to + from);
                } else {
                    to.iter_mut().step_by(stride).zip(row).for_each(|(to, &from)| *to = *to + from);
                }
            }
        });
    }
}

fn for_each_tap(geometry: &Geometry, mut body: impl FnMut([usize; 3])) {
    let [nt, nr, ns] = geometry.filter;
    for t in 0..nt {
        for r in 0..nr {
            for s in 0..ns {
                body([t, r, s]);
            }
        }
    }
}
