//! Pointwise operations, formulas in [`kernel_abi::ops::pointwise`].

use super::activation;
use crate::Judge;
use crate::integers::low_bits;
use kernel_abi::TensorDesc;
use kernel_abi::ops::pointwise::{Argument, PointwisePass, PointwiseProblem, Step, StepOp};
use kernel_abi::{Cast, DType};

impl Judge for PointwiseProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let inputs: Vec<(&TensorDesc, &[f64])> = self.inputs().iter().zip(operands.iter().map(Vec::as_slice)).collect();
        vec![evaluate(self, &inputs)]
    }

    fn judge_integers(&self, operands: &[Vec<i128>]) -> Option<Vec<Vec<i128>>> {
        (self.computing() == DType::I64)
            .then(|| vec![(0..self.c().n_elems()).map(|i| integer(self, operands, i)).collect()])
    }

    fn cast(&self) -> Cast {
        PointwiseProblem::cast(self)
    }

    /// Of every step's result the largest there is: a later step may make a small number of a large one that was rounded.
    fn judge_magnitudes(&self, operands: &[Vec<f64>], _: f64, _: f64) -> Vec<Vec<f64>> {
        let magnitude = |i: i64| {
            let input = |n: usize| self.factor(n).abs() * operands[n][repeated(self.c(), &self.inputs()[n], i)];
            let mut running = if self.inputs().is_empty() { 0.0 } else { input(0) };
            let mut largest: f64 = 0.0;
            for step in self.steps() {
                let at = |argument: &Argument| match argument {
                    Argument::Running => running,
                    Argument::Input(n) => input(*n),
                    Argument::Number(number) => number.get().abs(),
                };
                let arguments: Vec<f64> = step.arguments().iter().map(at).collect();
                // Differences are sums of magnitudes.
                running = match step.op() {
                    StepOp::Pointwise(PointwisePass::Sub | PointwisePass::Not) => arguments.iter().sum::<f64>(),
                    _ => operation(self, step, &arguments, i).abs(),
                };
                largest = if running.is_finite() { largest.max(running) } else { largest };
            }
            largest
        };
        vec![(0..self.c().n_elems()).map(magnitude).collect()]
    }
}

/// Element `i` of c, modulo 2⁶⁴.
fn integer(problem: &PointwiseProblem, inputs: &[Vec<i128>], i: i64) -> i128 {
    let wrapped = |value: i128| low_bits(DType::I64, value);
    let input = |n: usize| {
        let element = inputs[n][repeated(problem.c(), &problem.inputs()[n], i)];
        wrapped(problem.factor(n) as i128 * element)
    };
    let mut running = if problem.inputs().is_empty() { 0 } else { input(0) };
    for step in problem.steps() {
        let at = |argument: &Argument| match argument {
            Argument::Running => running,
            Argument::Input(n) => input(*n),
            Argument::Number(number) => number.get() as i128,
        };
        let arguments: Vec<i128> = step.arguments().iter().map(at).collect();
        let (a, b) = (arguments[0], arguments.get(1).copied().unwrap_or(0));
        let StepOp::Pointwise(pass) = step.op() else { return running };
        running = wrapped(match pass {
            PointwisePass::Add => a + b,
            PointwisePass::Sub => a - b,
            PointwisePass::Mul => a * b,
            PointwisePass::Min => a.min(b),
            PointwisePass::Max => a.max(b),
            PointwisePass::Not => 1 - a,
            PointwisePass::Div | PointwisePass::Mod if b == 0 => 0,
            PointwisePass::Div => a / b,
            PointwisePass::Mod => a % b,
            PointwisePass::Pow if b < 0 && a.abs() != 1 => 0,
            // Of 1 and -1, only the last bit of the exponent counts; of others modulo 2⁶⁴, by squares.
            PointwisePass::Pow => (0..64).rev().fold(1, |product, bit| {
                let square = wrapped(product * product);
                if b.unsigned_abs() >> bit & 1 == 1 { wrapped(square * a) } else { square }
            }),
            PointwisePass::AddSquare => a + wrapped(b * b),
            PointwisePass::Prelu if a > 0 => a,
            PointwisePass::Prelu => a * b,
            PointwisePass::CmpEq => i128::from(a == b),
            PointwisePass::CmpNeq => i128::from(a != b),
            PointwisePass::CmpGt => i128::from(a > b),
            PointwisePass::CmpGe => i128::from(a >= b),
            PointwisePass::CmpLt => i128::from(a < b),
            PointwisePass::CmpLe => i128::from(a <= b),
            PointwisePass::LogicalAnd => i128::from(a != 0 && b != 0),
            PointwisePass::LogicalOr => i128::from(a != 0 || b != 0),
            PointwisePass::LogicalXor => i128::from((a != 0) != (b != 0)),
            PointwisePass::LogicalNot => i128::from(a == 0),
            PointwisePass::Abs => a.abs(),
            PointwisePass::Neg => -a,
            PointwisePass::Sign => a.signum(),
            PointwisePass::Select if arguments[2] == 0 => b,
            PointwisePass::GenIndex => operation(problem, step, &[a as f64], i) as i128,
            _ => a,
        });
    }
    running
}

/// c for the given inputs.
pub fn evaluate(problem: &PointwiseProblem, inputs: &[(&TensorDesc, &[f64])]) -> Vec<f64> {
    (0..problem.c().n_elems())
        .map(|i| {
            let input = |n: usize| problem.factor(n) * inputs[n].1[repeated(problem.c(), inputs[n].0, i)];
            let mut running = if inputs.is_empty() { 0.0 } else { input(0) };
            for step in problem.steps() {
                let at = |argument: &Argument| match argument {
                    Argument::Running => running,
                    Argument::Input(n) => input(*n),
                    Argument::Number(number) => number.get(),
                };
                let arguments: Vec<f64> = step.arguments().iter().map(at).collect();
                running = operation(problem, step, &arguments, i);
            }
            running
        })
        .collect()
}

/// What a step makes of its arguments at element `i` of c.
fn operation(problem: &PointwiseProblem, step: &Step, arguments: &[f64], i: i64) -> f64 {
    let a = arguments[0];
    let b = arguments.get(1).copied().unwrap_or(0.0);
    let truth = |holds: bool| f64::from(holds);
    let pass = match step.op() {
        StepOp::Pointwise(pass) => *pass,
        StepOp::Activation(function) => return activation::value(function, a),
        StepOp::ActivationBackward(function) => return activation::slope(function, a) * b,
    };
    match pass {
        PointwisePass::Add => a + b,
        PointwisePass::Mul => a * b,
        PointwisePass::Min | PointwisePass::Max if a.is_nan() || b.is_nan() => f64::NAN,
        PointwisePass::Min => a.min(b),
        PointwisePass::Max => a.max(b),
        PointwisePass::Sqrt => a.sqrt(),
        PointwisePass::Not => 1.0 - a,
        PointwisePass::Scale | PointwisePass::Set | PointwisePass::Chain => a,
        PointwisePass::Sub => a - b,
        PointwisePass::Div if problem.is_integral() => (a / b).trunc(),
        PointwisePass::Div => a / b,
        PointwisePass::Mod => a % b,
        PointwisePass::Pow => a.powf(b),
        PointwisePass::AddSquare => a + b * b,
        PointwisePass::Atan2 => a.atan2(b),
        PointwisePass::Prelu => {
            if a >= 0.0 {
                a
            } else {
                a * b
            }
        }
        PointwisePass::CmpEq => truth(a == b),
        PointwisePass::CmpNeq => truth(a != b),
        PointwisePass::CmpGt => truth(a > b),
        PointwisePass::CmpGe => truth(a >= b),
        PointwisePass::CmpLt => truth(a < b),
        PointwisePass::CmpLe => truth(a <= b),
        PointwisePass::LogicalAnd => truth(a != 0.0 && b != 0.0),
        PointwisePass::LogicalOr => truth(a != 0.0 || b != 0.0),
        PointwisePass::LogicalXor => truth((a != 0.0) != (b != 0.0)),
        PointwisePass::LogicalNot => truth(a == 0.0),
        PointwisePass::Abs => a.abs(),
        PointwisePass::Ceil => a.ceil(),
        PointwisePass::Cos => a.cos(),
        PointwisePass::Erf => libm::erf(a),
        PointwisePass::Exp => a.exp(),
        PointwisePass::Floor => a.floor(),
        PointwisePass::Log => a.ln(),
        PointwisePass::Neg => -a,
        PointwisePass::Reciprocal => 1.0 / a,
        PointwisePass::Round => a.round_ties_even(),
        PointwisePass::Rsqrt => 1.0 / a.sqrt(),
        PointwisePass::Sign if a == 0.0 => 0.0,
        PointwisePass::Sign => a.signum(),
        PointwisePass::Sin => a.sin(),
        PointwisePass::Tan => a.tan(),
        PointwisePass::Select => {
            if arguments[2] != 0.0 {
                a
            } else {
                b
            }
        }
        PointwisePass::GenIndex => {
            let (axis, dims) = (a as usize, problem.c().dims());
            let inner: i64 = dims[axis + 1..].iter().product();
            (i / inner % dims[axis]) as f64
        }
    }
}

/// Row-major index in `input` of the element that meets element `i` of `c`.
fn repeated(c: &TensorDesc, input: &TensorDesc, mut i: i64) -> usize {
    let (mut at, mut stride) = (0, 1);
    for (c_dim, dim) in c.dims().iter().zip(input.dims()).rev() {
        at += (i % c_dim) % dim * stride;
        stride *= dim;
        i /= c_dim;
    }
    at as usize
}
