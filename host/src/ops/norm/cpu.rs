//! Normalization on the CPU: one task a row for sums, which are kept in `f64`, then one parallel pass.

use super::{NormPass, NormProblem};
use crate::cpu::{CpuCall, CpuKernel};
use crate::ops::activation::{ActivationMode, value};
use crate::tensor::{Element, Real};
use crate::{Problem, Role};
use kernel_abi::ops::norm::PackedRows;
use rayon::prelude::*;

/// Rows in parallel.
#[derive(Clone, Copy)]
pub(super) struct Rows;

/// Elements a thread takes at a time, at least.
const CHUNK: usize = 1 << 12;

impl CpuKernel<NormProblem> for Rows {
    const NAME: &'static str = "cpu_rows";

    fn scratch_elems(problem: &NormProblem) -> u64 {
        match problem.norm_pass() {
            NormPass::Forward | NormPass::Backward => PER_ROW as u64 * problem.sharing().n_rows() as u64,
            NormPass::Inference | NormPass::Finalize => 0,
        }
    }

    fn slowness(_: &NormProblem) -> f64 {
        2.0
    }

    fn compute<A: Real>(problem: &NormProblem, call: CpuCall<'_, A>) {
        let CpuCall { inputs, outputs, scratch, .. } = call;
        let (mut given, mut wanted) = (Given::default(), Wanted::default());
        let (mut inputs, mut outputs) = (inputs.into_iter(), outputs.into_iter());
        for operand in problem.operands() {
            match operand.role {
                Role::Input => *given.slot(operand.name) = inputs.next(),
                Role::Output | Role::Update | Role::Result => *wanted.slot(operand.name) = outputs.next(),
            }
        }
        match problem.norm_pass() {
            NormPass::Forward => forward(problem, &given, wanted, scratch),
            NormPass::Inference => inference(problem, &given, wanted, scratch),
            NormPass::Backward => backward(problem, &given, wanted, scratch),
            NormPass::Finalize => finalize(problem, &given, wanted),
        }
    }
}

macro_rules! tensors {
    ($(#[$meta:meta])* $name:ident<$slice:ty> { $($field:ident),* }) => {
        $(#[$meta])*
        struct $name<'a, A> { $($field: Option<$slice>),* }

        impl<A> Default for $name<'_, A> {
            fn default() -> Self {
                $name { $($field: None),* }
            }
        }

        impl<'a, A> $name<'a, A> {
            /// The place for the operand of this name.
            fn slot(&mut self, name: &str) -> &mut Option<$slice> {
                match name {
                    $(stringify!($field) => &mut self.$field,)*
                    // The problem has no others.
                    _ => &mut self.other,
                }
            }
        }
    };
}

tensors! {
    /// Inputs by name.
    Given<&'a [A]> {
        x, y, z, dy, scale, bias, mean, inv_std, running_mean, running_var, sum, sum_squares, other
    }
}

tensors! {
    /// Outputs by name.
    Wanted<&'a mut [A]> {
        y, dx, dz, dscale, dbias, mean, inv_std, eq_scale, eq_bias, running_mean, running_var, other
    }
}

/// Numbers of scratch a row: forward mean, inverse standard deviation and variance; backward the first two, Σ h / m and
/// Σ h x̂ / m.
const PER_ROW: usize = 4;

fn forward<A: Real>(problem: &NormProblem, given: &Given<'_, A>, wanted: Wanted<'_, A>, scratch: &mut [A]) {
    let (Some(x), Some(y)) = (given.x, wanted.y) else { return };
    let rows = problem.sharing().packed_rows();
    scratch.par_chunks_mut(PER_ROW).enumerate().for_each(|(row, kept)| {
        let (mean, variance) = statistics(problem, &rows, x, row);
        kept[0] = A::real(mean);
        kept[1] = A::real(inverse_deviation(problem, variance));
        kept[2] = A::real(variance);
    });
    for (place, to) in [(0, wanted.mean), (1, wanted.inv_std)] {
        let Some(to) = to else { continue };
        to.iter_mut().zip(scratch.chunks(PER_ROW)).for_each(|(to, kept)| *to = kept[place]);
    }
    let correction = A::real(problem.correction());
    for (place, factor, to) in [(0, A::one(), wanted.running_mean), (2, correction, wanted.running_var)] {
        let Some(to) = to else { continue };
        let (keep, take) = (A::real(1.0 - problem.factor()), A::real(problem.factor()) * factor);
        to.iter_mut().zip(scratch.chunks(PER_ROW)).for_each(|(to, kept)| *to = keep * *to + take * kept[place]);
    }
    let scratch = &*scratch;
    finish(problem, given, y, |row, x| (x - scratch[PER_ROW * row]) * scratch[PER_ROW * row + 1]);
}

fn inference<A: Real>(problem: &NormProblem, given: &Given<'_, A>, wanted: Wanted<'_, A>, _: &mut [A]) {
    let Some(y) = wanted.y else { return };
    let epsilon = A::real(problem.epsilon());
    match (given.running_mean, given.running_var) {
        (Some(mean), Some(variance)) => {
            finish(problem, given, y, |row, x| (x - mean[row]) / (variance[row] + epsilon).sqrt());
        }
        _ => finish(problem, given, y, |_, x| x),
    }
}

/// y from x̂, which `normal` makes of a row and an element of x.
fn finish<A: Real>(problem: &NormProblem, given: &Given<'_, A>, y: &mut [A], normal: impl Fn(usize, A) -> A + Sync) {
    let rows = problem.sharing().packed_rows();
    let (mode, coefficient) = problem.activation();
    let parameters = mode.with_coefficient(coefficient).map(A::real);
    let Some(x) = given.x else { return };
    y.par_chunks_mut(rows.n_inner).with_min_len(CHUNK.div_ceil(rows.n_inner)).enumerate().for_each(|(piece, y)| {
        let (row, first) = (piece % rows.n_rows, piece * rows.n_inner);
        for (i, y) in y.iter_mut().enumerate() {
            let param = parameter(&rows, row, i);
            let mut sum = normal(row, x[first + i]);
            if let Some(scale) = given.scale {
                sum = sum * scale[param];
            }
            if let Some(bias) = given.bias {
                sum = sum + bias[param];
            }
            if let Some(z) = given.z {
                sum = sum + z[first + i];
            }
            *y = value(mode, parameters, sum);
        }
    });
}

fn backward<A: Real>(problem: &NormProblem, given: &Given<'_, A>, wanted: Wanted<'_, A>, scratch: &mut [A]) {
    let (Some(x), Some(dy), Some(dx)) = (given.x, given.dy, wanted.dx) else { return };
    let rows = problem.sharing().packed_rows();
    let (mode, coefficient) = problem.activation();
    let coefficient = A::real(coefficient);
    let g = |at: usize| given.y.map_or(dy[at], |y| dy[at] * slope(mode, coefficient, y[at]));
    let h = |at: usize, param: usize| given.scale.map_or(g(at), |scale| g(at) * scale[param]);
    scratch.par_chunks_mut(PER_ROW).enumerate().for_each(|(row, kept)| {
        let (mean, inv_std) = match given.inv_std {
            Some(inv_std) => (given.mean.map_or(A::zero(), |mean| mean[row]), inv_std[row]),
            None => {
                let (mean, variance) = statistics(problem, &rows, x, row);
                (A::real(mean), A::real(inverse_deviation(problem, variance)))
            }
        };
        let (mut shift, mut tilt) = (0.0, 0.0);
        for_each_of_row(&rows, row, |at, i| {
            let h = Element::to_f64(h(at, parameter(&rows, row, i)));
            shift += h;
            tilt += h * Element::to_f64((x[at] - mean) * inv_std);
        });
        let m = problem.count() as f64;
        kept[0] = mean;
        kept[1] = inv_std;
        kept[2] = if problem.mode().has_mean() { A::real(shift / m) } else { A::zero() };
        kept[3] = A::real(tilt / m);
    });
    let scratch = &*scratch;
    let normal = |row: usize, at: usize| (x[at] - scratch[PER_ROW * row]) * scratch[PER_ROW * row + 1];
    let least = CHUNK.div_ceil(rows.n_inner);
    dx.par_chunks_mut(rows.n_inner).with_min_len(least).enumerate().for_each(|(piece, dx)| {
        let (row, first) = (piece % rows.n_rows, piece * rows.n_inner);
        let kept = &scratch[PER_ROW * row..][..PER_ROW];
        for (i, dx) in dx.iter_mut().enumerate() {
            let h = h(first + i, parameter(&rows, row, i));
            *dx = kept[1] * (h - kept[2] - normal(row, first + i) * kept[3]);
        }
    });
    if let Some(dz) = wanted.dz {
        dz.par_iter_mut().with_min_len(CHUNK).enumerate().for_each(|(at, dz)| *dz = g(at));
    }
    let gradient = |to: Option<&mut [A]>, term: &(dyn Fn(usize, usize) -> A + Sync)| {
        let Some(to) = to else { return };
        to.par_iter_mut().enumerate().for_each(|(param, to)| {
            let mut sum = 0.0;
            for_each_of_parameter(&rows, param, |row, at| sum += Element::to_f64(term(row, at)));
            *to = A::real(sum);
        });
    };
    gradient(wanted.dscale, &|row, at| g(at) * normal(row, at));
    gradient(wanted.dbias, &|_, at| g(at));
}

fn finalize<A: Real>(problem: &NormProblem, given: &Given<'_, A>, mut wanted: Wanted<'_, A>) {
    let (Some(sum), Some(squares)) = (given.sum, given.sum_squares) else { return };
    let count = problem.count() as f64;
    let set = |to: &mut Option<&mut [A]>, c: usize, v: f64| {
        if let Some(to) = to {
            to[c] = A::real(v);
        }
    };
    let blend = |to: &mut Option<&mut [A]>, c: usize, v: f64| {
        if let Some(to) = to {
            to[c] = A::real((1.0 - problem.factor()) * Element::to_f64(to[c]) + problem.factor() * v);
        }
    };
    for c in 0..sum.len() {
        let mean = Element::to_f64(sum[c]) / count;
        let spread = Element::to_f64(squares[c]) / count - mean * mean;
        // A comparison and not `max`, which would drop a NaN.
        let variance = if spread < 0.0 { 0.0 } else { spread };
        let inv_std = inverse_deviation(problem, variance);
        let eq_scale = given.scale.map_or(1.0, |scale| Element::to_f64(scale[c])) * inv_std;
        let bias = given.bias.map_or(0.0, |bias| Element::to_f64(bias[c]));
        set(&mut wanted.mean, c, mean);
        set(&mut wanted.inv_std, c, inv_std);
        set(&mut wanted.eq_scale, c, eq_scale);
        set(&mut wanted.eq_bias, c, bias - mean * eq_scale);
        blend(&mut wanted.running_mean, c, mean);
        blend(&mut wanted.running_var, c, problem.correction() * variance);
    }
}

fn inverse_deviation(problem: &NormProblem, variance: f64) -> f64 {
    1.0 / (variance + problem.epsilon()).sqrt()
}

/// Mean and variance of a row.
fn statistics<A: Real>(problem: &NormProblem, rows: &PackedRows, x: &[A], row: usize) -> (f64, f64) {
    let m = problem.count() as f64;
    let mut sum = 0.0;
    if problem.mode().has_mean() {
        for_each_of_row(rows, row, |at, _| sum += Element::to_f64(x[at]));
    }
    let mean = sum / m;
    let mut squares = 0.0;
    for_each_of_row(rows, row, |at, _| {
        let deviation = Element::to_f64(x[at]) - mean;
        squares += deviation * deviation;
    });
    (mean, squares / m)
}

/// The parameter of element `i` of a piece of a row.
fn parameter(rows: &PackedRows, row: usize, i: usize) -> usize {
    row % rows.period * rows.params_per_row + if rows.run == 1 { i } else { i / rows.run }
}

/// Calls `body` with the place in memory of each element of a row, and its place in its piece.
fn for_each_of_row(rows: &PackedRows, row: usize, mut body: impl FnMut(usize, usize)) {
    for outer in 0..rows.n_outer {
        let first = (outer * rows.n_rows + row) * rows.n_inner;
        (0..rows.n_inner).for_each(|i| body(first + i, i));
    }
}

/// Calls `body` with row and place in memory of each element of a parameter.
fn for_each_of_parameter(rows: &PackedRows, param: usize, mut body: impl FnMut(usize, usize)) {
    let within = param % rows.params_per_row * rows.run;
    for outer in 0..rows.n_outer {
        for row in (param / rows.params_per_row..rows.n_rows).step_by(rows.period) {
            let first = (outer * rows.n_rows + row) * rows.n_inner + within;
            (first..first + rows.run).for_each(|at| body(row, at));
        }
    }
}

/// The activation's derivative from its value.
fn slope<A: Real>(mode: ActivationMode, c: A, y: A) -> A {
    let (zero, one) = (A::zero(), A::one());
    let step = |inside: bool| if inside { one } else { zero };
    match mode {
        ActivationMode::Relu => step(y > zero),
        ActivationMode::ClippedRelu => step(y > zero && y < c),
        ActivationMode::Elu => {
            if y > zero {
                one
            } else {
                y + c
            }
        }
        ActivationMode::Sigmoid => y * (one - y),
        ActivationMode::Tanh => one - y * y,
        // Identity; others are refused backward.
        _ => one,
    }
}
