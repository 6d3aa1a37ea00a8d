//! Grid sampling on the CPU: one task a channel of an image, or for the gradient of grid an image.

use super::{GridSamplePass, GridSampleProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::sum::{Reals, Scattered};
use crate::tensor::{Element, Real};
use kernel_abi::ops::gridsample::Place;
use rayon::prelude::*;

/// Neighbours of every output first; gradients of x are scattered within a channel, in a fixed order.
#[derive(Clone, Copy)]
pub(super) struct Planes;

/// A neighbour in the image: its number in the plane, its weight, and how fast that grows with each coordinate.
struct Neighbour<A> {
    at: usize,
    weight: A,
    slopes: [A; 3],
}

impl CpuKernel<GridSampleProblem> for Planes {
    const NAME: &'static str = "cpu_planes";

    fn slowness(_: &GridSampleProblem) -> f64 {
        8.0
    }

    fn compute<A: Real>(problem: &GridSampleProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let shape = problem.shape();
        let (channels, n_axes) = (shape.c as usize, shape.n_axes);
        let pixels = shape.image.iter().product::<i64>() as usize;
        let positions = shape.output.iter().product::<i64>() as usize;
        let pass = problem.sample_pass();
        let grid = if pass == GridSamplePass::BackwardData { inputs[0] } else { inputs[1] };
        let places = grid.par_chunks(n_axes).map(|coordinates| neighbours(problem, coordinates, pass));
        let places: Vec<Vec<Neighbour<A>>> = places.collect();
        let of_plane = |plane: usize| &places[plane / channels * positions..][..positions];
        match pass {
            GridSamplePass::Forward => {
                let planes = outputs[0].par_chunks_mut(positions).zip(inputs[0].par_chunks(pixels)).enumerate();
                planes.for_each(|(plane, (y, x))| {
                    for (y, neighbours) in y.iter_mut().zip(of_plane(plane)) {
                        *y = neighbours.iter().map(|neighbour| neighbour.weight * x[neighbour.at]).sum();
                    }
                });
            }
            GridSamplePass::BackwardData => {
                let planes = outputs[0].par_chunks_mut(pixels).zip(inputs[1].par_chunks(positions)).enumerate();
                planes.for_each(|(plane, (dx, dy))| {
                    let mut sums = Reals::new(pixels);
                    for (dy, neighbours) in dy.iter().zip(of_plane(plane)) {
                        for neighbour in neighbours {
                            sums.add(neighbour.at, neighbour.weight * *dy);
                        }
                    }
                    sums.finish(dx);
                });
            }
            GridSamplePass::BackwardGrid => {
                let images = inputs[0].par_chunks(pixels * channels).zip(inputs[2].par_chunks(positions * channels));
                let images = outputs[0].par_chunks_mut(positions * n_axes).zip(images).enumerate();
                images.for_each(|(n, (dgrid, (x, dy)))| {
                    for (o, dplace) in dgrid.chunks_mut(n_axes).enumerate() {
                        dplace.fill(A::zero());
                        for neighbour in &places[n * positions + o] {
                            let term = |c: usize| Element::to_f64(x[c * pixels + neighbour.at] * dy[c * positions + o]);
                            let product = A::real((0..channels).map(term).sum());
                            for (sum, slope) in dplace.iter_mut().zip(neighbour.slopes) {
                                // A slope of nothing counts as none, whatever the product.
                                *sum = if slope == A::zero() { *sum } else { *sum + slope * product };
                            }
                        }
                    }
                });
            }
        }
    }
}

/// The neighbours in the image of the place that coordinates name, of which a pass has terms.
fn neighbours<A: Real>(problem: &GridSampleProblem, coordinates: &[A], pass: GridSamplePass) -> Vec<Neighbour<A>> {
    let (sampler, image) = (problem.sampler(), problem.shape().image);
    let only = Place { centre: 0.0, slope: 0.0, begin: 0, n: 1 };
    // The last axis has the first coordinate.
    let place =
        |a: usize| coordinates.get(2 - a).map_or(only, |g| sampler.place(g.to_f64().unwrap_or(f64::NAN), image[a]));
    let places = [place(0), place(1), place(2)];
    let mut found = Vec::new();
    for d in 0..places[0].n {
        for h in 0..places[1].n {
            for w in 0..places[2].n {
                let neighbour = [places[0].begin + d, places[1].begin + h, places[2].begin + w];
                let at: [i64; 3] = std::array::from_fn(|a| sampler.position(neighbour[a], image[a]));
                if at.iter().any(|&at| at < 0) {
                    continue;
                }
                let weights: [f64; 3] = std::array::from_fn(|a| sampler.weight(&places[a], neighbour[a]));
                let slope = |a: usize| sampler.weight_slope(&places[a], neighbour[a]);
                let [d, h, w] = weights;
                let slopes = [d * h * slope(2), d * slope(1) * w, slope(0) * h * w];
                let weight = d * h * w;
                // What weighs nothing is left out: it may be infinite.
                let counts = match pass {
                    GridSamplePass::BackwardGrid => slopes.iter().any(|&slope| slope != 0.0),
                    _ => weight != 0.0,
                };
                if counts {
                    found.push(Neighbour {
                        at: ((at[0] * image[1] + at[1]) * image[2] + at[2]) as usize,
                        weight: A::real(weight),
                        slopes: slopes.map(A::real),
                    });
                }
            }
        }
    }
    found
}
