//! What a pointwise problem is to the kernels that are made for one operation each.

use super::{Argument, INPUT_NAMES, PointwisePass, PointwiseProblem, Step, StepOp};
use crate::TensorDesc;
use crate::select::Refusal;
use kernel_abi::desc::collapse;
use kernel_abi::ops::activation::{Activation, ActivationMode};
use kernel_abi::{MAX_RANK, TensorParam};

/// What a kernel is made for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Function {
    /// An operation of one or two inputs.
    Pass(PointwisePass),
    /// An activation.
    Activation(ActivationMode),
    /// Its slope at the first input, times the second.
    Slope(ActivationMode),
    /// The activation of the sum of two inputs, the second repeated or not; a third is added where there is one.
    Biased(ActivationMode),
}

/// Where c has b's elements: element `(i / period) % places`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Repeated {
    pub(super) period: i64,
    pub(super) places: i64,
}

/// A problem of tensors that are alike in memory, but for a repeated b.
#[derive(Debug)]
pub(super) struct Form {
    pub(super) function: Function,
    /// Factors of a and b.
    pub(super) factors: [f64; 2],
    pub(super) parameters: [f64; 3],
    /// How b is read where it is added first.
    pub(super) repeated: Option<Repeated>,
}

impl Form {
    pub(super) fn new(problem: &PointwiseProblem) -> Result<Self, Refusal> {
        let (a, b) = problem.alphas();
        let Some((function, activation, signs)) = function(problem.steps(), problem.inputs().len()) else {
            let steps: Vec<String> = problem.steps().iter().map(Step::to_string).collect();
            return Err(Refusal::new(format!(
                "computes an operation, an activation or its slope, or one of a sum of two inputs with or without a third \
                 behind it, given {}",
                steps.join(",")
            )));
        };
        let mut form = Form {
            function,
            factors: [signs[0] * a, signs[1] * b],
            parameters: activation.map_or([0.0; 3], |activation| activation.parameters()),
            repeated: None,
        };
        let inputs: Vec<TensorDesc> = problem.inputs().iter().map(|input| problem.repeated(input)).collect();
        let c = problem.c();
        let of = |i: usize| inputs.get(i).unwrap_or(c);
        let [c_param, tensors @ ..] = collapse([c, of(0), of(1), of(2)]);
        let dense = dense_strides(&c_param);
        if c_param.strides != dense {
            return Err(Refusal::new(format!("writes a tensor without gaps, given {c}")));
        }
        for (i, tensor) in tensors.iter().enumerate().take(inputs.len()) {
            if tensor.strides == dense {
                continue;
            }
            let repeated = if i == 1 { repeated(&c_param, tensor) } else { None };
            match (repeated, form.function) {
                // One operation on b as it is has kernels that read it without a division.
                (Some(repeated), Function::Pass(PointwisePass::Add)) => {
                    form.function = Function::Biased(ActivationMode::Identity);
                    form.repeated = Some(repeated);
                }
                (Some(repeated), Function::Biased(_)) => form.repeated = Some(repeated),
                _ => {
                    let (name, given) = (INPUT_NAMES[i], &problem.inputs()[i]);
                    return Err(Refusal::new(format!(
                        "reads tensors that lie as c does, or a first summand b repeated along two sides at most, given \
                         {name}={given} and c={c}"
                    )));
                }
            }
        }
        if matches!(form.function, Function::Biased(_)) && form.repeated.is_none() {
            form.repeated = Some(Repeated { period: 1, places: c.n_elems() });
        }
        Ok(form)
    }

    /// Whether no factor is anything but 1, and relu the usual one.
    pub(super) fn is_plain(&self) -> bool {
        use ActivationMode::Relu;
        let is_relu =
            matches!(self.function, Function::Activation(Relu) | Function::Slope(Relu) | Function::Biased(Relu));
        self.factors == [1.0; 2] && (!is_relu || self.parameters == [0.0, f64::INFINITY, 0.0])
    }
}

/// The strides of a collapsed tensor that has no gaps.
fn dense_strides(c: &TensorParam) -> [i64; MAX_RANK] {
    let mut strides = [0; MAX_RANK];
    let mut elems = 1;
    for i in (0..MAX_RANK).rev() {
        strides[i] = if c.dims[i] > 1 { elems } else { 0 };
        elems *= c.dims[i];
    }
    strides
}

/// How c repeats b, if b has its own elements along one collapsed dimension, one behind the other.
fn repeated(c: &TensorParam, b: &TensorParam) -> Option<Repeated> {
    let along = (0..MAX_RANK).find(|&i| b.strides[i] != 0)?;
    let others = (0..MAX_RANK).filter(|&i| i != along).all(|i| b.strides[i] == 0);
    let period = c.dims[along + 1..].iter().product();
    (others && b.strides[along] == 1).then_some(Repeated { period, places: c.dims[along] })
}

/// The function of some steps, its activation, and the signs of a and b.
fn function(steps: &[Step], n_inputs: usize) -> Option<(Function, Option<Activation>, [f64; 2])> {
    let mut list: Vec<(StepOp, &[Argument])> = steps.iter().map(|step| (*step.op(), step.arguments())).collect();
    let first = |argument: &Argument| matches!(argument, Argument::Running | Argument::Input(0));
    // Whether the first two arguments are the result so far, or a, and this input.
    let pair = |arguments: &[Argument], input: usize, running: bool| match arguments {
        [x, y] => (*x == Argument::Running || (!running && first(x))) && *y == Argument::Input(input),
        _ => false,
    };
    if let [(op, arguments)] = list[..] {
        let one = arguments.len() == 1 && first(&arguments[0]) && n_inputs == 1;
        let two = pair(arguments, 1, false) && n_inputs == 2;
        let (function, activation, signs) = match op {
            StepOp::Pointwise(PointwisePass::Neg) if one => (Function::Pass(PointwisePass::Scale), None, [-1.0, 1.0]),
            StepOp::Pointwise(PointwisePass::Sub) if two => (Function::Pass(PointwisePass::Add), None, [1.0, -1.0]),
            StepOp::Pointwise(pass) if one || two => (Function::Pass(pass), None, [1.0; 2]),
            StepOp::Activation(activation) if one => match activation.mode() {
                ActivationMode::Identity => (Function::Pass(PointwisePass::Scale), None, [1.0; 2]),
                ActivationMode::Exp => (Function::Pass(PointwisePass::Exp), None, [1.0; 2]),
                mode => (Function::Activation(mode), Some(activation), [1.0; 2]),
            },
            StepOp::ActivationBackward(activation) if two => {
                (Function::Slope(activation.mode()), Some(activation), [1.0; 2])
            }
            _ => return None,
        };
        return Some((function, activation, signs));
    }
    let is_add = |op: &StepOp| *op == StepOp::Pointwise(PointwisePass::Add);
    if n_inputs == 3 {
        let (op, arguments) = list.pop()?;
        if !is_add(&op) || !pair(arguments, 2, true) {
            return None;
        }
    }
    let (sum, rest) = list.split_first()?;
    if n_inputs < 2 || !is_add(&sum.0) || !pair(sum.1, 1, false) {
        return None;
    }
    match rest {
        [] => Some((Function::Biased(ActivationMode::Identity), None, [1.0; 2])),
        [(StepOp::Activation(activation), [Argument::Running])] => {
            Some((Function::Biased(activation.mode()), Some(*activation), [1.0; 2]))
        }
        _ => None,
    }
}
