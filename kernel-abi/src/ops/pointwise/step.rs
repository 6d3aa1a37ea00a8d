//! Steps of a pointwise operation and their text form.

use super::{INPUT_NAMES, PointwisePass, StepParam, argument, step_op};
use crate::cast::is_whole;
use crate::ops::activation::{Activation, ActivationMode};
use crate::problem::Coefficient;
use std::fmt;
use std::str::FromStr;

/// Where a step takes a number from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Argument {
    /// The result so far.
    Running,
    /// The input with this number.
    Input(usize),
    /// The number itself.
    Number(Coefficient),
}

impl From<f64> for Argument {
    fn from(number: f64) -> Self {
        Argument::Number(Coefficient::new(number))
    }
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StepOp {
    /// An operation of as many arguments as it has inputs.
    Pointwise(PointwisePass),
    /// An activation of one argument.
    Activation(Activation),
    /// The activation's slope at the first argument, times the second.
    ActivationBackward(Activation),
}

impl StepOp {
    /// How many arguments it has.
    pub fn n_arguments(&self) -> usize {
        match self {
            StepOp::Pointwise(PointwisePass::Set | PointwisePass::GenIndex) => 1,
            StepOp::Pointwise(pass) => pass.n_inputs(),
            StepOp::Activation(_) => 1,
            StepOp::ActivationBackward(_) => 2,
        }
    }
}

/// One step of a chain: an operation and its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Step {
    op: StepOp,
    arguments: Vec<Argument>,
}

impl Step {
    /// An operation. Where one argument is missing, it is the result so far: the first argument, or the last of an
    /// activation's backward pass, whose first is where the slope is taken.
    ///
    /// # Errors
    /// A sentence for another number of arguments, or for arguments that the operation cannot have.
    pub fn new(op: StepOp, arguments: &[Argument]) -> Result<Self, String> {
        let expected = op.n_arguments();
        let mut all = arguments.to_vec();
        if all.len() + 1 == expected {
            match op {
                StepOp::ActivationBackward(_) => all.push(Argument::Running),
                _ => all.insert(0, Argument::Running),
            }
        }
        let step = Step { op, arguments: all };
        if step.arguments.len() != expected {
            return Err(format!("expected {expected} arguments of {step}, or one less, given {}", arguments.len()));
        }
        let is_number = |argument: &Argument| matches!(argument, Argument::Number(_));
        match op {
            StepOp::Pointwise(PointwisePass::Chain) => Err("expected a step that is no chain itself".to_owned()),
            StepOp::Pointwise(PointwisePass::Set | PointwisePass::GenIndex) if !is_number(&step.arguments[0]) => {
                Err(format!("expected a number as the argument of {step}"))
            }
            StepOp::Activation(_) | StepOp::ActivationBackward(_) if step.arguments.iter().any(is_number) => {
                Err(format!("expected inputs as the arguments of {step}"))
            }
            _ => Ok(step),
        }
    }

    /// What it does.
    pub fn op(&self) -> &StepOp {
        &self.op
    }

    /// All its arguments.
    pub fn arguments(&self) -> &[Argument] {
        &self.arguments
    }

    /// Whether it makes integers of integers: no number is a fraction, and the function is none of real numbers.
    pub fn is_whole(&self) -> bool {
        use PointwisePass::{Atan2, Cos, Erf, Exp, Log, Reciprocal, Rsqrt, Sin, Sqrt, Tan};
        let real = match self.op {
            StepOp::Pointwise(pass) => {
                matches!(pass, Atan2 | Cos | Erf | Exp | Log | Reciprocal | Rsqrt | Sin | Sqrt | Tan)
            }
            StepOp::Activation(_) | StepOp::ActivationBackward(_) => true,
        };
        let whole = |argument: &Argument| match argument {
            Argument::Number(number) => is_whole(number.get()),
            Argument::Running | Argument::Input(_) => true,
        };
        !real && self.arguments.iter().all(whole)
    }

    /// The form kernels take. `integers` says that all operands are integers; `next_input` is the number of the input
    /// that holds the indices of the next `gen_index`.
    pub fn param(&self, integers: bool, next_input: &mut usize) -> StepParam {
        let mut param = StepParam::NONE;
        for (i, given) in self.arguments.iter().enumerate() {
            param.arguments[i] = match given {
                Argument::Running => argument::RUNNING,
                Argument::Input(input) => *input as u32,
                Argument::Number(number) => {
                    param.numbers[i] = number.get();
                    argument::NUMBER
                }
            };
        }
        match &self.op {
            StepOp::Pointwise(PointwisePass::Div) if integers => param.op = step_op::DIV_INTEGERS,
            StepOp::Pointwise(PointwisePass::GenIndex) => {
                param.op = PointwisePass::Scale as u32;
                param.arguments[0] = *next_input as u32;
                *next_input += 1;
            }
            StepOp::Pointwise(PointwisePass::Set) => param.op = PointwisePass::Scale as u32,
            StepOp::Pointwise(pass) => param.op = *pass as u32,
            StepOp::Activation(activation) | StepOp::ActivationBackward(activation) => {
                let backward = matches!(self.op, StepOp::ActivationBackward(_));
                param.op = if backward { step_op::ACTIVATION_BACKWARD } else { step_op::ACTIVATION };
                (param.mode, param.numbers) = (activation.mode() as u32, activation.parameters());
            }
        }
        param
    }
}

/// What stands for the result so far.
const RUNNING: &str = "_";

/// What ends the name of an activation's backward pass.
const BACKWARD: &str = "_backward";

/// `add:_:b`, `swish:_:coef=1.5`: every argument, the result so far included.
impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.op {
            StepOp::Pointwise(pass) => write!(f, "{pass}")?,
            StepOp::Activation(activation) => write!(f, "{}", activation.mode())?,
            StepOp::ActivationBackward(activation) => write!(f, "{}{BACKWARD}", activation.mode())?,
        }
        for argument in &self.arguments {
            match argument {
                Argument::Running => write!(f, ":{RUNNING}")?,
                Argument::Input(input) => write!(f, ":{}", INPUT_NAMES.get(*input).copied().unwrap_or("?"))?,
                Argument::Number(number) => write!(f, ":{number}")?,
            }
        }
        if let StepOp::Activation(activation) | StepOp::ActivationBackward(activation) = &self.op {
            for ((name, _), given) in activation.mode().parameters().iter().zip(activation.parameters()) {
                write!(f, ":{name}={given}")?;
            }
        }
        Ok(())
    }
}

impl FromStr for Step {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut words = text.split(':');
        let name = words.next().unwrap_or_default();
        let (mut arguments, mut parameters) = (Vec::new(), Vec::new());
        for word in words {
            let number = |word: &str| word.parse::<f64>().map_err(|_| format!("expected a number, given {word:?}"));
            if let Some((name, value)) = word.split_once('=') {
                parameters.push((name, number(value)?));
            } else if word == RUNNING {
                arguments.push(Argument::Running);
            } else if let Some(input) = INPUT_NAMES.iter().position(|name| *name == word) {
                arguments.push(Argument::Input(input));
            } else {
                arguments.push(number(word)?.into());
            }
        }
        let activation = |mode: ActivationMode| {
            let mut values = mode.defaults();
            for (name, value) in &parameters {
                let known = mode.parameters().iter().position(|(known, _)| known == name);
                values[known.ok_or_else(|| format!("expected a parameter of {mode}, given {name:?}"))?] = *value;
            }
            Ok::<_, String>(Activation::new(mode, &values))
        };
        let op = if let Ok(pass) = name.parse::<PointwisePass>() {
            if let Some((name, _)) = parameters.first() {
                return Err(format!("expected no parameters of {pass}, given {name:?}"));
            }
            StepOp::Pointwise(pass)
        } else if let Some(mode) = name.strip_suffix(BACKWARD) {
            StepOp::ActivationBackward(activation(mode.parse()?)?)
        } else {
            let mode = name.parse().map_err(|_| format!("expected an operation or activation, given {name:?}"))?;
            StepOp::Activation(activation(mode)?)
        };
        Step::new(op, &arguments)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_round_trips() {
        let whole = |text: &str| text.parse::<Step>().unwrap().to_string();
        assert_eq!(whole("add:b"), "add:_:b");
        assert_eq!(whole("div:1:_"), "div:1:_");
        assert_eq!(whole("select:b:t"), "select:_:b:t");
        assert_eq!(whole("swish:coef=1.5"), "swish:_:coef=1.5");
        assert_eq!(whole("relu:upper=6"), "relu:_:lower=0:upper=6:slope=0");
        assert_eq!(whole("gelu_backward:b"), "gelu_backward:b:_");
        assert_eq!(whole("exp"), "exp:_");
        for text in ["add:_:b", "relu:_:lower=0:upper=inf:slope=0.1", "mul:_:-0.5", "gelu_backward:b:_", "set:3"] {
            assert_eq!(whole(text), text);
        }
    }

    #[test]
    fn refusals_name_what_is_wrong() {
        let refused = |text: &str| text.parse::<Step>().unwrap_err();
        assert!(refused("cube").contains("an operation or activation, given \"cube\""));
        assert!(refused("add").contains("expected 2 arguments"));
        assert!(refused("add:a:b:t").contains("given 3"));
        assert!(refused("add:x").contains("a number, given \"x\""));
        assert!(refused("add:b:coef=1").contains("no parameters of add"));
        assert!(refused("swish:slope=1").contains("a parameter of swish, given \"slope\""));
        assert!(refused("relu:2").contains("expected inputs"));
        assert!(refused("gen_index:a").contains("expected a number"));
        assert!(refused("chain").contains("no chain"));
    }
}
