//! Resampling on the CPU: one task a channel of an image.

use super::{ResamplePass, ResampleProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::sum::{Reals, Scattered};
use crate::tensor::{Element, Real};
use kernel_abi::ops::resample::{ResampleAxis, ResampleFilter};
use rayon::prelude::*;

/// Weights of each axis first, then one task a channel of an image; the backward pass scatters within it, in a fixed order.
#[derive(Clone, Copy)]
pub(super) struct Planes;

/// The neighbours of each output position of an axis, with their weights; none for outputs outside a cropped region.
type Neighbours<A> = Vec<Option<Vec<(usize, A)>>>;

impl CpuKernel<ResampleProblem> for Planes {
    const NAME: &'static str = "cpu_planes";

    fn slowness(_: &ResampleProblem) -> f64 {
        4.0
    }

    fn compute<A: Real>(problem: &ResampleProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let shape = problem.shape();
        let axes = shape.axes.each_ref().map(|axis| neighbours::<A>(axis, &shape.filter));
        let extents = shape.axes.map(|axis| axis.image as usize);
        let pixels = extents.iter().product();
        let positions = axes.iter().map(Vec::len).product();
        match problem.resample_pass() {
            ResamplePass::Forward => {
                let beyond = A::real(problem.extrapolation());
                outputs[0].par_chunks_mut(positions).zip(inputs[0].par_chunks(pixels)).for_each(|(y, x)| {
                    for_each_output(&axes, |o, taps| {
                        y[o] = taps.map_or(beyond, |taps| {
                            let mut sum = 0.0;
                            for_each_neighbour(taps, extents, |i, weight| sum += Element::to_f64(weight * x[i]));
                            A::real(sum)
                        });
                    });
                });
            }
            ResamplePass::Backward => {
                outputs[0].par_chunks_mut(pixels).zip(inputs[0].par_chunks(positions)).for_each(|(dx, dy)| {
                    let mut sums = Reals::new(pixels);
                    for_each_output(&axes, |o, taps| {
                        if let Some(taps) = taps {
                            for_each_neighbour(taps, extents, |i, weight| sums.add(i, weight * dy[o]));
                        }
                    });
                    sums.finish(dx);
                });
            }
        }
    }
}

fn neighbours<A: Real>(axis: &ResampleAxis, filter: &ResampleFilter) -> Neighbours<A> {
    (0..axis.output)
        .map(|output| {
            let taps = axis.taps(filter, output);
            let weighed = |i: i64| (axis.inside(i) as usize, axis.weight(filter, &taps, i));
            // What weighs nothing is left out: it may be infinite.
            let list = (taps.begin..taps.end).map(weighed).filter(|&(_, weight)| weight != 0.0);
            axis.has(taps.centre).then(|| list.map(|(i, weight)| (i, A::real(weight))).collect())
        })
        .collect()
}

type Taps<'a, A> = [&'a [(usize, A)]; 3];

/// Calls `body` with each output's number and its neighbours along each axis.
fn for_each_output<A>(axes: &[Neighbours<A>; 3], mut body: impl FnMut(usize, Option<Taps<'_, A>>)) {
    let mut o = 0;
    for d in &axes[0] {
        for h in &axes[1] {
            for w in &axes[2] {
                body(o, d.as_ref().zip(h.as_ref()).zip(w.as_ref()).map(|((d, h), w)| [&d[..], &h[..], &w[..]]));
                o += 1;
            }
        }
    }
}

/// Calls `body` with each neighbour's number in the image and its weight.
fn for_each_neighbour<A: Real>(taps: Taps<'_, A>, extents: [usize; 3], mut body: impl FnMut(usize, A)) {
    for &(d, of_plane) in taps[0] {
        for &(h, of_row) in taps[1] {
            let row = (d * extents[1] + h) * extents[2];
            taps[2].iter().for_each(|&(w, weight)| body(row + w, of_plane * of_row * weight));
        }
    }
}
