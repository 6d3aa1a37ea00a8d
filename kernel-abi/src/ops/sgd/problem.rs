//! The sgd problem and its text form.

use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Coefficient, Operand, Problem, general_dtype, no_overlap, same_dims, same_dtype};
use crate::text::Fields;
use std::fmt;
use std::str::FromStr;

const OP: &str = "sgd";

/// One step. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SgdProblem {
    momentum: Coefficient,
    weight_decay: Coefficient,
    nesterov: bool,
    dw: TensorDesc,
    v: TensorDesc,
    w: TensorDesc,
}

impl SgdProblem {
    /// A step of `w` and its velocity `v` by the gradient `dw`.
    ///
    /// # Errors
    /// `BadDescriptor` for a momentum or weight decay that is negative or not finite, extents or types that differ, or
    /// a `v` or `w` that overlaps itself.
    pub fn new(
        momentum: f64,
        weight_decay: f64,
        nesterov: bool,
        dw: &TensorDesc,
        v: &TensorDesc,
        w: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        for (name, value) in [("momentum", momentum), ("weight_decay", weight_decay)] {
            if !(value >= 0.0 && value.is_finite()) {
                let reason = format!("expected a finite number of at least 0, given {value}");
                return Err(BadDescriptor::new(OP, name, reason));
            }
        }
        general_dtype(OP, "dw", dw)?;
        for (name, desc) in [("v", v), ("w", w)] {
            same_dims(OP, name, desc, "dw", dw)?;
            same_dtype(OP, name, desc, "dw", dw)?;
            no_overlap(OP, name, desc)?;
        }
        let (momentum, weight_decay) = (Coefficient::new(momentum), Coefficient::new(weight_decay));
        Ok(SgdProblem { momentum, weight_decay, nesterov, dw: *dw, v: *v, w: *w })
    }

    /// Share of the old velocity.
    pub fn momentum(&self) -> f64 {
        self.momentum.get()
    }

    /// Pull of the parameters to 0.
    pub fn weight_decay(&self) -> f64 {
        self.weight_decay.get()
    }

    /// Whether the step looks ahead.
    pub fn nesterov(&self) -> bool {
        self.nesterov
    }

    /// The gradient.
    pub fn dw(&self) -> &TensorDesc {
        &self.dw
    }

    /// The velocity.
    pub fn v(&self) -> &TensorDesc {
        &self.v
    }

    /// The parameters.
    pub fn w(&self) -> &TensorDesc {
        &self.w
    }
}

impl Problem for SgdProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        "update"
    }

    fn operands(&self) -> Vec<Operand> {
        vec![Operand::input("dw", self.dw), Operand::update("v", self.v), Operand::update("w", self.w)]
    }

    fn flops(&self) -> f64 {
        6.0 * self.w.n_elems() as f64
    }
}

impl fmt::Display for SgdProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (momentum, decay, nesterov) = (self.momentum, self.weight_decay, u32::from(self.nesterov));
        write!(f, "{OP}:update momentum={momentum} weight_decay={decay} nesterov={nesterov}")?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for SgdProblem {
    type Err = BadDescriptor;

    /// Coefficients are 0 unless given; a left-out `v` or `dw` is like `w`.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        if fields.pass() != "update" {
            let reason = format!("expected update, given {:?}", fields.pass());
            return Err(BadDescriptor::new(OP, "pass", reason));
        }
        let momentum = fields.take_optional("momentum")?.unwrap_or(0.0);
        let weight_decay = fields.take_optional("weight_decay")?.unwrap_or(0.0);
        let nesterov: u32 = fields.take_optional("nesterov")?.unwrap_or(0);
        if nesterov > 1 {
            return Err(BadDescriptor::new(OP, "nesterov", format!("expected 0 or 1, given {nesterov}")));
        }
        let w = fields.take_tensor("w")?;
        let dw = fields.take_optional("dw")?.unwrap_or(w);
        let v = fields.take_optional("v")?.unwrap_or(w);
        fields.finish()?;
        Self::new(momentum, weight_decay, nesterov == 1, &dw, &v, &w)
    }
}
