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

/// Numbers of scratch a row, by [`kept`].
const PER_ROW: usize = kept::COUNT;

/// Places of what is kept of a row: x̂ = ((x · scale − high) − low) · inverse, with the mean in two numbers.
///
/// One number would be off by up to half a unit in its last place, which is much of a deviation that is small beside it. The
/// power of two keeps what lies between from overflow.
mod kept {
    pub const SCALE: usize = 0;
    pub const HIGH: usize = 1;
    pub const LOW: usize = 2;
    pub const INVERSE: usize = 3;
    pub const INV_STD: usize = 4;
    /// Forward: mean and variance as they are stored.
    pub const MEAN: usize = 5;
    pub const VARIANCE: usize = 6;
    /// Backward: Σ h / m and Σ h x̂ / m.
    pub const SHIFT: usize = 5;
    pub const TILT: usize = 6;
    pub const COUNT: usize = 7;
}

/// x̂ of an element, by what is kept of its row.
fn normal<A: Real>(kept: &[A], x: A) -> A {
    ((x * kept[kept::SCALE] - kept[kept::HIGH]) - kept[kept::LOW]) * kept[kept::INVERSE]
}

fn forward<A: Real>(problem: &NormProblem, given: &Given<'_, A>, wanted: Wanted<'_, A>, scratch: &mut [A]) {
    let (Some(x), Some(y)) = (given.x, wanted.y) else { return };
    let rows = problem.sharing().packed_rows();
    scratch.par_chunks_mut(PER_ROW).enumerate().for_each(|(row, kept)| {
        let own = statistics(problem, &rows, x, row);
        own.keep(kept);
        kept[kept::MEAN] = A::real(own.mean());
        kept[kept::VARIANCE] = A::real(own.variance / own.scale / own.scale);
    });
    for (place, to) in [(kept::MEAN, wanted.mean), (kept::INV_STD, wanted.inv_std)] {
        let Some(to) = to else { continue };
        to.iter_mut().zip(scratch.chunks(PER_ROW)).for_each(|(to, kept)| *to = kept[place]);
    }
    let correction = A::real(problem.correction());
    for (place, factor, to) in
        [(kept::MEAN, A::one(), wanted.running_mean), (kept::VARIANCE, correction, wanted.running_var)]
    {
        let Some(to) = to else { continue };
        let (keep, take) = (A::real(1.0 - problem.factor()), A::real(problem.factor()) * factor);
        to.iter_mut().zip(scratch.chunks(PER_ROW)).for_each(|(to, kept)| *to = keep * *to + take * kept[place]);
    }
    let scratch = &*scratch;
    finish(problem, given, y, |row, x| normal(&scratch[PER_ROW * row..][..PER_ROW], x));
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
        match given.inv_std {
            Some(inv_std) => {
                kept[kept::SCALE] = A::one();
                kept[kept::HIGH] = given.mean.map_or(A::zero(), |mean| mean[row]);
                kept[kept::LOW] = A::zero();
                kept[kept::INVERSE] = inv_std[row];
                kept[kept::INV_STD] = inv_std[row];
            }
            None => statistics(problem, &rows, x, row).keep(kept),
        }
        let (mut shift, mut tilt) = (0.0, 0.0);
        for_each_of_row(&rows, row, |at, i| {
            let h = Element::to_f64(h(at, parameter(&rows, row, i)));
            shift += h;
            tilt += h * Element::to_f64(normal(kept, x[at]));
        });
        let m = problem.count() as f64;
        kept[kept::SHIFT] = if problem.mode().has_mean() { A::real(shift / m) } else { A::zero() };
        kept[kept::TILT] = A::real(tilt / m);
    });
    let scratch = &*scratch;
    let normal = |row: usize, at: usize| normal(&scratch[PER_ROW * row..][..PER_ROW], x[at]);
    let least = CHUNK.div_ceil(rows.n_inner);
    dx.par_chunks_mut(rows.n_inner).with_min_len(least).enumerate().for_each(|(piece, dx)| {
        let (row, first) = (piece % rows.n_rows, piece * rows.n_inner);
        let kept = &scratch[PER_ROW * row..][..PER_ROW];
        for (i, dx) in dx.iter_mut().enumerate() {
            let h = h(first + i, parameter(&rows, row, i));
            *dx = kept[kept::INV_STD] * (h - kept[kept::SHIFT] - normal(row, first + i) * kept[kept::TILT]);
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

/// Statistics of a row's elements times a power of two. The mean is the sum of two numbers.
struct Statistics<A> {
    scale: f64,
    high: A,
    low: f64,
    variance: f64,
    /// 1 / √(variance + ε · scale²).
    inverse: f64,
}

impl<A: Real> Statistics<A> {
    fn mean(&self) -> f64 {
        let high = Element::to_f64(self.high);
        (if high.is_finite() { high + self.low } else { high }) / self.scale
    }

    /// Leaves what elements are made normal with.
    fn keep(&self, kept: &mut [A]) {
        kept[kept::SCALE] = A::real(self.scale);
        kept[kept::HIGH] = self.high;
        kept[kept::LOW] = A::real(self.low);
        kept[kept::INVERSE] = A::real(self.inverse);
        kept[kept::INV_STD] = A::real(self.inverse * self.scale);
    }
}

/// The power of two that brings rows whose largest magnitude is this where squares neither overflow nor vanish beside ε, in
/// the exponents that `A` has.
fn scale_of<A>(largest: f64, epsilon: f64) -> f64 {
    let power: i32 = if size_of::<A>() == size_of::<f64>() { 520 } else { 80 };
    if largest > 2f64.powi(power - 40) {
        2f64.powi(-power)
    } else if largest < 2f64.powi(70 - power) && epsilon < 2f64.powi(-power) {
        2f64.powi(power)
    } else {
        1.0
    }
}

/// Those of a row. Deviations are from the mean as it was found before: so the mean of equal numbers is that number.
fn statistics<A: Real>(problem: &NormProblem, rows: &PackedRows, x: &[A], row: usize) -> Statistics<A> {
    let m = problem.count() as f64;
    let mut largest = 0.0f64;
    for_each_of_row(rows, row, |at, _| largest = largest.max(Element::to_f64(x[at]).abs()));
    let scale = scale_of::<A>(largest, problem.epsilon());
    let scaled = |at: usize| Element::to_f64(x[at] * A::real(scale));
    let (mut high, mut low) = (A::zero(), 0.0);
    if problem.mode().has_mean() {
        const ROUNDS: usize = 3;
        for _ in 0..ROUNDS {
            let near = Element::to_f64(high) + low;
            if !near.is_finite() {
                break;
            }
            high = A::real(near);
            let from = Element::to_f64(high);
            let mut sum = 0.0;
            for_each_of_row(rows, row, |at, _| sum += scaled(at) - from);
            low = sum / m;
        }
    }
    let from = Element::to_f64(high);
    let mut squares = 0.0;
    for_each_of_row(rows, row, |at, _| {
        let deviation = (scaled(at) - from) - low;
        squares += deviation * deviation;
    });
    let variance = squares / m;
    Statistics { scale, high, low, variance, inverse: 1.0 / (variance + problem.epsilon() * scale * scale).sqrt() }
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
