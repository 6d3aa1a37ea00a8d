//! Pooling on the CPU: one task a channel of an image.

use super::{PoolMode, PoolPass, PoolProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::tensor::Real;
use kernel_abi::ops::pool::{PoolShape, window};
use rayon::prelude::*;
use std::ops::Range;

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
        let shape = problem.shape();
        let (pixels, positions) = (volume(shape.image), volume(shape.output));
        let mode = problem.mode();
        match problem.pool_pass() {
            PoolPass::Forward => outputs[0]
                .par_chunks_mut(positions)
                .zip(inputs[0].par_chunks(pixels))
                .for_each(|(y, x)| forward(mode, &shape, x, y)),
            PoolPass::Backward if mode == PoolMode::Max => outputs[0]
                .par_chunks_mut(pixels)
                .zip(inputs[0].par_chunks(pixels))
                .zip(inputs[1].par_chunks(positions))
                .for_each(|((dx, x), dy)| backward_max(&shape, x, dy, dx)),
            PoolPass::Backward => outputs[0]
                .par_chunks_mut(pixels)
                .zip(inputs[0].par_chunks(positions))
                .for_each(|(dx, dy)| backward_average(mode, &shape, dy, dx)),
        }
    }
}

fn volume(extents: [i64; 3]) -> usize {
    extents.iter().product::<i64>() as usize
}

fn forward<A: Real>(mode: PoolMode, shape: &PoolShape, x: &[A], y: &mut [A]) {
    for_each_window(shape, |o, ranges| {
        y[o] = if mode == PoolMode::Max {
            x[first_maximum(shape, x, &ranges)]
        } else {
            let mut sum = A::zero();
            for_each_row(shape, &ranges, |row| sum = row.fold(sum, |sum, i| sum + x[i]));
            sum / divisor(mode, shape, &ranges)
        };
    });
}

fn backward_max<A: Real>(shape: &PoolShape, x: &[A], dy: &[A], dx: &mut [A]) {
    dx.fill(A::zero());
    for_each_window(shape, |o, ranges| {
        let at = first_maximum(shape, x, &ranges);
        dx[at] = dx[at] + dy[o];
    });
}

fn backward_average<A: Real>(mode: PoolMode, shape: &PoolShape, dy: &[A], dx: &mut [A]) {
    dx.fill(A::zero());
    for_each_window(shape, |o, ranges| {
        let share = dy[o] / divisor(mode, shape, &ranges);
        for_each_row(shape, &ranges, |row| dx[row].iter_mut().for_each(|dx| *dx = *dx + share));
    });
}

/// Calls `body` with each output's index and the ranges of its window inside the image.
fn for_each_window(shape: &PoolShape, mut body: impl FnMut(usize, [Range<usize>; 3])) {
    let range = |axis: usize, at: i64| {
        let (begin, end) = window(at, shape.stride[axis], shape.padding[axis], shape.window[axis], shape.image[axis]);
        begin as usize..end as usize
    };
    let mut o = 0;
    for z in 0..shape.output[0] {
        for p in 0..shape.output[1] {
            for q in 0..shape.output[2] {
                body(o, [range(0, z), range(1, p), range(2, q)]);
                o += 1;
            }
        }
    }
}

/// Calls `body` with the image indices of each of a window's rows.
fn for_each_row(shape: &PoolShape, ranges: &[Range<usize>; 3], mut body: impl FnMut(Range<usize>)) {
    for d in ranges[0].clone() {
        for h in ranges[1].clone() {
            let row = (d * shape.image[1] as usize + h) * shape.image[2] as usize;
            body(row + ranges[2].start..row + ranges[2].end);
        }
    }
}

/// Index of the first maximum, a NaN being larger than any number.
fn first_maximum<A: Real>(shape: &PoolShape, x: &[A], ranges: &[Range<usize>; 3]) -> usize {
    let mut first: Option<usize> = None;
    for_each_row(shape, ranges, |row| {
        for i in row {
            match first {
                Some(at) if !(x[i] > x[at] || (x[i].is_nan() && !x[at].is_nan())) => {}
                _ => first = Some(i),
            }
        }
    });
    // Padding is smaller than the window, so there is at least one element.
    first.unwrap_or(0)
}

fn divisor<A: Real>(mode: PoolMode, shape: &PoolShape, ranges: &[Range<usize>; 3]) -> A {
    let elems = match mode {
        PoolMode::AverageIncludePadding => volume(shape.window),
        _ => ranges.iter().map(ExactSizeIterator::len).product(),
    };
    A::real(elems as f64)
}
