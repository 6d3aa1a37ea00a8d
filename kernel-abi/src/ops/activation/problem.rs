//! The activation problem and its text form.

use super::{ActivationMode, ActivationPass, MAX_PARAMETERS};
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Coefficient, Operand, Problem, general_dtype, no_overlap, same_dims, same_dtype};
use crate::text::Fields;
use std::fmt;
use std::str::FromStr;

const OP: &str = "activation";

/// A function with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Activation {
    mode: ActivationMode,
    parameters: [Coefficient; MAX_PARAMETERS],
}

impl Activation {
    /// A mode with these parameters, in the order of [`ActivationMode::parameters`]; the defaults for those left out.
    /// Who takes it judges it; surplus ones are not looked at.
    pub fn new(mode: ActivationMode, parameters: &[f64]) -> Self {
        let mut all = mode.defaults();
        let n = mode.parameters().len().min(parameters.len());
        all[..n].copy_from_slice(&parameters[..n]);
        // Zeros without a sign, which problem texts do not show.
        Activation { mode, parameters: all.map(|parameter| Coefficient::new(parameter + 0.0)) }
    }

    /// Which function.
    pub fn mode(&self) -> ActivationMode {
        self.mode
    }

    /// Its parameters, 0 behind the last.
    pub fn parameters(&self) -> [f64; MAX_PARAMETERS] {
        self.parameters.map(Coefficient::get)
    }

    /// Checks the parameters.
    pub(crate) fn check(&self, op: &'static str) -> Result<(), BadDescriptor> {
        let mode = self.mode;
        let [first, second, _] = self.parameters();
        for ((name, default), given) in mode.parameters().iter().zip(self.parameters()) {
            let unbounded = mode == ActivationMode::Relu && *name != "slope" && !given.is_nan();
            if !given.is_finite() && !unbounded {
                let reason = format!("expected a finite number, as {default}, for {mode}, given {given}");
                return Err(BadDescriptor::new(op, *name, reason));
            }
        }
        let (name, reason) = match mode {
            ActivationMode::Relu if first > second => {
                ("lower", format!("expected a lower bound up to the upper one, {second}, given {first}"))
            }
            ActivationMode::ClippedRelu if first < 0.0 => {
                ("coef", format!("expected a number of at least 0 for {mode}, given {first}"))
            }
            ActivationMode::Softplus | ActivationMode::Celu if first == 0.0 => {
                ("coef", format!("expected another number than 0 for {mode}, given {first}"))
            }
            _ => return Ok(()),
        };
        Err(BadDescriptor::new(op, name, reason))
    }

    /// Takes the parameters of a mode from a problem's text.
    pub(crate) fn parse(mode: ActivationMode, fields: &mut Fields<'_>) -> Result<Self, BadDescriptor> {
        let mut parameters = mode.defaults();
        for (parameter, (name, _)) in parameters.iter_mut().zip(mode.parameters()) {
            *parameter = fields.take_optional(name)?.unwrap_or(*parameter);
        }
        Ok(Activation::new(mode, &parameters))
    }
}

impl From<ActivationMode> for Activation {
    /// With the default parameters.
    fn from(mode: ActivationMode) -> Self {
        Activation::new(mode, &[])
    }
}

impl From<(ActivationMode, f64)> for Activation {
    /// With this coefficient, if it has one.
    fn from((mode, coefficient): (ActivationMode, f64)) -> Self {
        Activation::new(mode, &mode.with_coefficient(coefficient))
    }
}

/// ` mode=elu coef=0.5`: the coefficient, and of other parameters those that are not the defaults.
impl fmt::Display for Activation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, " mode={}", self.mode)?;
        for ((name, default), given) in self.mode.parameters().iter().zip(self.parameters) {
            if *name == "coef" || given.get() != *default {
                write!(f, " {name}={given}")?;
            }
        }
        Ok(())
    }
}

/// One activation. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ActivationProblem {
    pass: ActivationPass,
    activation: Activation,
    x: TensorDesc,
    dy: Option<TensorDesc>,
    out: TensorDesc,
}

impl ActivationProblem {
    /// `y = alpha · f(x) + beta · y`.
    ///
    /// The function is a mode, which has the default parameters then, a mode with its coefficient, or an
    /// [`Activation`].
    ///
    /// # Errors
    /// `BadDescriptor` when extents or types of `x` and `y` differ, `y` overlaps itself, or a parameter is not finite
    /// or outside of what its mode takes.
    pub fn forward(activation: impl Into<Activation>, x: &TensorDesc, y: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(ActivationPass::Forward, activation.into(), *x, None, ("y", *y))
    }

    /// `dx = alpha · f'(x) · dy + beta · dx`.
    ///
    /// # Errors
    /// As [`ActivationProblem::forward`].
    pub fn backward(
        activation: impl Into<Activation>,
        x: &TensorDesc,
        dy: &TensorDesc,
        dx: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(ActivationPass::Backward, activation.into(), *x, Some(*dy), ("dx", *dx))
    }

    fn new(
        pass: ActivationPass,
        activation: Activation,
        x: TensorDesc,
        dy: Option<TensorDesc>,
        (out_name, out): (&'static str, TensorDesc),
    ) -> Result<Self, BadDescriptor> {
        activation.check(OP)?;
        general_dtype(OP, "x", &x)?;
        for (name, desc) in dy.iter().map(|dy| ("dy", dy)).chain([(out_name, &out)]) {
            same_dims(OP, name, desc, "x", &x)?;
            same_dtype(OP, name, desc, "x", &x)?;
        }
        no_overlap(OP, out_name, &out)?;
        Ok(ActivationProblem { pass, activation, x, dy, out })
    }

    /// Which pass.
    pub fn activation_pass(&self) -> ActivationPass {
        self.pass
    }

    /// Which function, with its parameters.
    pub fn activation(&self) -> &Activation {
        &self.activation
    }

    /// Which function.
    pub fn mode(&self) -> ActivationMode {
        self.activation.mode
    }

    /// The input.
    pub fn x(&self) -> &TensorDesc {
        &self.x
    }

    /// The output's gradient, backward only.
    pub fn dy(&self) -> Option<&TensorDesc> {
        self.dy.as_ref()
    }

    /// `y` forward, `dx` backward.
    pub fn out(&self) -> &TensorDesc {
        &self.out
    }
}

impl Problem for ActivationProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        match &self.dy {
            None => vec![Operand::input("x", self.x), Operand::output("y", self.out)],
            Some(dy) => {
                vec![Operand::input("x", self.x), Operand::input("dy", *dy), Operand::output("dx", self.out)]
            }
        }
    }

    fn flops(&self) -> f64 {
        self.x.n_elems() as f64
    }

    fn works_in_place(&self) -> bool {
        true
    }
}

impl fmt::Display for ActivationProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{}{}", self.pass, self.activation)?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for ActivationProblem {
    type Err = BadDescriptor;

    /// Tensors other than `x` may be left out; they are then like `x`.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass = fields.parse_pass()?;
        let activation = Activation::parse(fields.take("mode")?, &mut fields)?;
        let x = fields.take_tensor("x")?;
        let mut like_x = |name| fields.take_optional(name).map(|desc| desc.unwrap_or(x));
        let problem = match pass {
            ActivationPass::Forward => Self::forward(activation, &x, &like_x("y")?),
            ActivationPass::Backward => Self::backward(activation, &x, &like_x("dy")?, &like_x("dx")?),
        };
        fields.finish().and(problem)
    }
}
