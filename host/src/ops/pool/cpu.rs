//! Pooling on the CPU: one task a channel of an image.

use super::{IndexBase, PoolMode, PoolNan, PoolPass, PoolProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::sum::{Reals, Scattered, Stream};
use crate::tensor::{Element, Real};
use kernel_abi::ops::pool::PoolAxis;
use rayon::prelude::*;

/// One task a channel of an image; the backward pass scatters within it, in a fixed order.
#[derive(Clone, Copy)]
pub(super) struct Planes;

impl CpuKernel<PoolProblem> for Planes {
    const NAME: &'static str = "cpu_planes";

    fn slowness(_: &PoolProblem) -> f64 {
        4.0
    }

    fn compute<A: Real>(problem: &PoolProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, mut outputs, .. } = call;
        let plane = Plane::new(problem);
        let (pixels, positions) = (volume(|a| plane.axes[a].image), volume(|a| plane.axes[a].output));
        let base = |i: usize| match problem.index_base() {
            IndexBase::Plane => A::zero(),
            IndexBase::Tensor => A::real((i * pixels) as f64),
        };
        match (problem.pool_pass(), problem.index().is_some()) {
            (PoolPass::Forward, false) => outputs[0]
                .par_chunks_mut(positions)
                .zip(inputs[0].par_chunks(pixels))
                .for_each(|(y, x)| plane.forward(x, y)),
            (PoolPass::Forward, true) => {
                let (y, index) = outputs.split_at_mut(1);
                let index = index[0].par_chunks_mut(positions);
                y[0].par_chunks_mut(positions)
                    .zip(index)
                    .zip(inputs[0].par_chunks(pixels))
                    .enumerate()
                    .for_each(|(i, ((y, index), x))| plane.forward_with_index(x, y, index, base(i)));
            }
            (PoolPass::Backward, true) => outputs[0]
                .par_chunks_mut(pixels)
                .zip(inputs[0].par_chunks(positions))
                .zip(inputs[1].par_chunks(positions))
                .enumerate()
                .for_each(|(i, ((dx, index), dy))| plane.backward_from_index(index, dy, dx, base(i))),
            (PoolPass::Backward, false) if problem.reads_x() => outputs[0]
                .par_chunks_mut(pixels)
                .zip(inputs[0].par_chunks(pixels))
                .zip(inputs[1].par_chunks(positions))
                .for_each(|((dx, x), dy)| plane.backward(x, dy, dx)),
            (PoolPass::Backward, false) => outputs[0]
                .par_chunks_mut(pixels)
                .zip(inputs[0].par_chunks(positions))
                .for_each(|(dx, dy)| plane.backward_average(dy, dx)),
        }
    }
}

fn volume(extent: impl Fn(usize) -> i64) -> usize {
    (0..3).map(extent).product::<i64>() as usize
}

/// What is computed for each channel of an image.
struct Plane {
    axes: [PoolAxis; 3],
    mode: PoolMode,
    nan: PoolNan,
    exponent: f64,
}

/// An output: its number, its position, and the positions of its window by axis.
struct Window {
    output: usize,
    at: [i64; 3],
    ranges: [(i64, i64); 3],
}

impl Plane {
    fn new(problem: &PoolProblem) -> Self {
        let (mode, nan) = (problem.mode(), problem.nan());
        Plane { axes: problem.shape().axes, mode, nan, exponent: problem.exponent() }
    }

    fn forward<A: Real>(&self, x: &[A], y: &mut [A]) {
        self.for_each_window(|window| {
            y[window.output] = match self.mode {
                PoolMode::Max => x[self.first_maximum(x, &window)],
                PoolMode::Lp => self.norm(x, &window),
                _ => {
                    let mut sum = Stream::new();
                    self.for_each_element(&window, |i| sum.push(Element::to_f64(x[i])));
                    A::real(sum.finish() / Element::to_f64(self.divisor::<A>(&window)))
                }
            };
        });
    }

    fn forward_with_index<A: Real>(&self, x: &[A], y: &mut [A], index: &mut [A], base: A) {
        self.for_each_window(|window| {
            let first = self.first_maximum(x, &window);
            (y[window.output], index[window.output]) = (x[first], base + A::real(first as f64));
        });
    }

    /// dx of `max` and `lp`.
    fn backward<A: Real>(&self, x: &[A], dy: &[A], dx: &mut [A]) {
        let mut sums = Reals::new(dx.len());
        self.for_each_window(|window| {
            let dy = dy[window.output];
            if self.mode == PoolMode::Max {
                let at = self.first_maximum(x, &window);
                sums.add(at, dy);
                return;
            }
            let norm = self.norm(x, &window);
            self.for_each_element(&window, |i| {
                if x[i] != A::zero() {
                    let slope = (x[i].abs() / norm).powf(A::real(self.exponent - 1.0));
                    sums.add(i, dy * slope * x[i].signum());
                }
            });
        });
        sums.finish(dx);
    }

    fn backward_from_index<A: Real>(&self, index: &[A], dy: &[A], dx: &mut [A], base: A) {
        let mut sums = Reals::new(dx.len());
        self.for_each_window(|window| {
            let wanted = index[window.output] - base;
            self.for_each_element(&window, |i| {
                if A::real(i as f64) == wanted {
                    sums.add(i, dy[window.output]);
                }
            });
        });
        sums.finish(dx);
    }

    fn backward_average<A: Real>(&self, dy: &[A], dx: &mut [A]) {
        let mut sums = Reals::new(dx.len());
        self.for_each_window(|window| {
            let share = dy[window.output] / self.divisor(&window);
            self.for_each_element(&window, |i| sums.add(i, share));
        });
        sums.finish(dx);
    }

    /// Calls `body` with each output's window.
    fn for_each_window(&self, mut body: impl FnMut(Window)) {
        let axes = &self.axes;
        let mut output = 0;
        for z in 0..axes[0].output {
            for p in 0..axes[1].output {
                for q in 0..axes[2].output {
                    let ranges = [axes[0].window(z), axes[1].window(p), axes[2].window(q)];
                    body(Window { output, at: [z, p, q], ranges });
                    output += 1;
                }
            }
        }
    }

    /// Calls `body` with the index in the plane of each of a window's elements, in row-major order.
    fn for_each_element(&self, window: &Window, mut body: impl FnMut(usize)) {
        let along = |a: usize| {
            let (begin, end) = window.ranges[a];
            (begin..end).step_by(self.axes[a].dilation as usize)
        };
        for d in along(0) {
            for h in along(1) {
                let row = (d * self.axes[1].image + h) * self.axes[2].image;
                along(2).for_each(|w| body((row + w) as usize));
            }
        }
    }

    /// Index of the first maximum.
    fn first_maximum<A: Real>(&self, x: &[A], window: &Window) -> usize {
        let exceeds = |a: A, b: A| match self.nan {
            PoolNan::Propagate => a > b || (a.is_nan() && !b.is_nan()),
            PoolNan::Ignore => a > b || (b.is_nan() && !a.is_nan()),
        };
        let mut first: Option<usize> = None;
        self.for_each_element(window, |i| match first {
            Some(at) if !exceeds(x[i], x[at]) => {}
            _ => first = Some(i),
        });
        // Every window holds at least one element.
        first.unwrap_or(0)
    }

    /// The window's norm, its terms in relation to the largest, so that none overflows.
    fn norm<A: Real>(&self, x: &[A], window: &Window) -> A {
        let mut most = A::zero();
        self.for_each_element(window, |i| {
            let x = x[i].abs();
            // A NaN stays.
            most = if x > most || x.is_nan() { x } else { most };
        });
        if most == A::zero() || !most.is_finite() {
            return most;
        }
        let (p, mut sum) = (A::real(self.exponent), Stream::new());
        self.for_each_element(window, |i| sum.push(Element::to_f64((x[i].abs() / most).powf(p))));
        most * A::real(sum.finish().powf(1.0 / self.exponent))
    }

    fn divisor<A: Real>(&self, window: &Window) -> A {
        let elems = match self.mode {
            PoolMode::AverageIncludePadding => volume(|a| self.axes[a].padded(window.at[a])),
            _ => volume(|a| self.axes[a].inside(window.at[a])),
        };
        A::real(elems as f64)
    }
}
