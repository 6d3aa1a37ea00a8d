//! The activation problem and its text form.

use super::{ActivationMode, ActivationPass};
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Coefficient, Operand, Problem, general_dtype, no_overlap, same_dims, same_dtype};
use crate::text::Fields;
use std::fmt;
use std::str::FromStr;

const OP: &str = "activation";

/// One activation. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ActivationProblem {
    pass: ActivationPass,
    mode: ActivationMode,
    coefficient: Coefficient,
    x: TensorDesc,
    dy: Option<TensorDesc>,
    out: TensorDesc,
}

impl ActivationProblem {
    /// `y = alpha · f(x) + beta · y`.
    ///
    /// `coefficient` is the ceiling of `clipped_relu` and the c of `elu` and `swish`; the other modes ignore it.
    ///
    /// # Errors
    /// `BadDescriptor` when extents or types of `x` and `y` differ, `y` overlaps itself, or the coefficient is not
    /// finite, or is a negative ceiling.
    pub fn forward(
        mode: ActivationMode,
        coefficient: f64,
        x: &TensorDesc,
        y: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(ActivationPass::Forward, mode, coefficient, *x, None, ("y", *y))
    }

    /// `dx = alpha · f'(x) · dy + beta · dx`.
    ///
    /// # Errors
    /// As [`ActivationProblem::forward`].
    pub fn backward(
        mode: ActivationMode,
        coefficient: f64,
        x: &TensorDesc,
        dy: &TensorDesc,
        dx: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(ActivationPass::Backward, mode, coefficient, *x, Some(*dy), ("dx", *dx))
    }

    fn new(
        pass: ActivationPass,
        mode: ActivationMode,
        coefficient: f64,
        x: TensorDesc,
        dy: Option<TensorDesc>,
        (out_name, out): (&'static str, TensorDesc),
    ) -> Result<Self, BadDescriptor> {
        if !coefficient.is_finite() || (mode == ActivationMode::ClippedRelu && coefficient < 0.0) {
            let reason = format!("expected a finite number, for clipped_relu at least 0, given {coefficient}");
            return Err(BadDescriptor::new(OP, "coef", reason));
        }
        general_dtype(OP, "x", &x)?;
        for (name, desc) in dy.iter().map(|dy| ("dy", dy)).chain([(out_name, &out)]) {
            same_dims(OP, name, desc, "x", &x)?;
            same_dtype(OP, name, desc, "x", &x)?;
        }
        no_overlap(OP, out_name, &out)?;
        let coefficient = Coefficient::new(if mode.has_coefficient() { coefficient } else { 0.0 });
        Ok(ActivationProblem { pass, mode, coefficient, x, dy, out })
    }

    /// Which pass.
    pub fn activation_pass(&self) -> ActivationPass {
        self.pass
    }

    /// Which function.
    pub fn mode(&self) -> ActivationMode {
        self.mode
    }

    /// Ceiling of `clipped_relu`, c of `elu` and `swish`, 0 for the others.
    pub fn coefficient(&self) -> f64 {
        self.coefficient.get()
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
        write!(f, "{OP}:{} mode={}", self.pass, self.mode)?;
        if self.mode.has_coefficient() {
            write!(f, " coef={}", self.coefficient)?;
        }
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for ActivationProblem {
    type Err = BadDescriptor;

    /// Tensors other than `x` may be left out; they are then like `x`.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass = fields.parse_pass()?;
        let mode = fields.take("mode")?;
        let coefficient = fields.take_optional("coef")?.unwrap_or(1.0);
        let x = fields.take_tensor("x")?;
        let mut like_x = |name| fields.take_optional(name).map(|desc| desc.unwrap_or(x));
        let problem = match pass {
            ActivationPass::Forward => Self::forward(mode, coefficient, &x, &like_x("y")?),
            ActivationPass::Backward => Self::backward(mode, coefficient, &x, &like_x("dy")?, &like_x("dx")?),
        }?;
        fields.finish()?;
        Ok(problem)
    }
}
