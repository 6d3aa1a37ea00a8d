//! The sgd problem and its text form.

use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Coefficient, Operand, Problem, list_name};
use crate::step::{self, Part};
use crate::text::Fields;
use std::fmt;
use std::str::FromStr;

const OP: &str = "sgd";

/// What a step is told beside its tensors: by default nothing but the gradient counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SgdDesc {
    momentum: Coefficient,
    dampening: Coefficient,
    weight_decay: Coefficient,
    nesterov: bool,
}

impl Default for SgdDesc {
    fn default() -> Self {
        Self::new()
    }
}

impl SgdDesc {
    /// No momentum, no weight decay.
    pub fn new() -> Self {
        let zero = Coefficient::new(0.0);
        SgdDesc { momentum: zero, dampening: zero, weight_decay: zero, nesterov: false }
    }

    /// Sets the share of the old velocity.
    pub fn momentum(self, momentum: f64) -> Self {
        SgdDesc { momentum: Coefficient::new(momentum), ..self }
    }

    /// Sets the share of the gradient that the velocity does not get.
    pub fn dampening(self, dampening: f64) -> Self {
        SgdDesc { dampening: Coefficient::new(dampening), ..self }
    }

    /// Sets the pull of the parameters to 0.
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        SgdDesc { weight_decay: Coefficient::new(weight_decay), ..self }
    }

    /// Sets whether the step looks ahead.
    pub fn nesterov(self, nesterov: bool) -> Self {
        SgdDesc { nesterov, ..self }
    }
}

/// The operands of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SgdTensors {
    /// The gradient.
    pub dw: TensorDesc,
    /// The velocity; may be left out where there is no momentum.
    pub v: Option<TensorDesc>,
    /// The parameters in f32, where w has 16 bits.
    pub master: Option<TensorDesc>,
    /// The parameters.
    pub w: TensorDesc,
}

/// One step. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SgdProblem {
    desc: SgdDesc,
    tensors: Vec<SgdTensors>,
}

impl SgdProblem {
    /// A step of every tensor.
    ///
    /// # Errors
    /// `BadDescriptor` for a coefficient that is negative or not finite, no tensors, extents or types that do not fit each
    /// other, a missing velocity, or an output that overlaps itself.
    pub fn new(desc: SgdDesc, tensors: &[SgdTensors]) -> Result<Self, BadDescriptor> {
        let coefficients =
            [("momentum", desc.momentum), ("dampening", desc.dampening), ("weight_decay", desc.weight_decay)];
        for (name, value) in coefficients {
            step::check_coefficient(OP, name, value.get())?;
        }
        let n = tensors.len();
        step::check_tensors(OP, tensors, |i, tensors| {
            let name = |name| list_name(name, i, n);
            let SgdTensors { dw, v, master, w } = tensors;
            if v.is_none() && desc.momentum.get() != 0.0 {
                let reason = format!("expected a velocity for the momentum {}, given none", desc.momentum);
                return Err(BadDescriptor::new(OP, name("v"), reason));
            }
            let mut parts = vec![Part::gradient(name("dw"), dw)];
            parts.extend(v.as_ref().map(|v| Part::state(name("v"), v)));
            parts.extend(master.as_ref().map(|master| Part::master(name("master"), master)));
            Ok((name("w"), *w, parts))
        })?;
        Ok(SgdProblem { desc, tensors: tensors.to_vec() })
    }

    /// Share of the old velocity.
    pub fn momentum(&self) -> f64 {
        self.desc.momentum.get()
    }

    /// Share of the gradient that the velocity gets.
    pub fn gain(&self) -> f64 {
        1.0 - self.desc.dampening.get()
    }

    /// Pull of the parameters to 0.
    pub fn weight_decay(&self) -> f64 {
        self.desc.weight_decay.get()
    }

    /// Whether the step looks ahead.
    pub fn nesterov(&self) -> bool {
        self.desc.nesterov
    }

    /// The tensors, at least one.
    pub fn tensors(&self) -> &[SgdTensors] {
        &self.tensors
    }
}

impl Problem for SgdProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        "update"
    }

    fn operands(&self) -> Vec<Operand> {
        let n = self.tensors.len();
        let operands = self.tensors.iter().enumerate().flat_map(|(i, tensors)| {
            let name = |name| list_name(name, i, n);
            let w = if tensors.master.is_some() { Operand::result } else { Operand::update };
            [
                Some(Operand::input(name("dw"), tensors.dw)),
                tensors.v.map(|v| Operand::update(name("v"), v)),
                tensors.master.map(|master| Operand::update(name("master"), master)),
                Some(w(name("w"), tensors.w)),
            ]
        });
        operands.flatten().collect()
    }

    fn flops(&self) -> f64 {
        self.tensors.iter().map(|tensors| 6.0 * tensors.w.n_elems() as f64).sum()
    }
}

impl fmt::Display for SgdProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SgdDesc { momentum, dampening, weight_decay, nesterov } = self.desc;
        write!(f, "{OP}:update momentum={momentum}")?;
        if dampening.get() != 0.0 {
            write!(f, " dampening={dampening}")?;
        }
        write!(f, " weight_decay={weight_decay} nesterov={}", u32::from(nesterov))?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for SgdProblem {
    type Err = BadDescriptor;

    /// Coefficients are 0 unless given; a left-out dw is like w, and so is a left-out v where there is momentum.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        step::check_pass(OP, &fields)?;
        let mut number = |key| Ok(fields.take_optional(key)?.unwrap_or(0.0));
        let (momentum, dampening, weight_decay) = (number("momentum")?, number("dampening")?, number("weight_decay")?);
        let nesterov = step::take_flag(OP, &mut fields, "nesterov", false)?;
        let desc = SgdDesc::new().momentum(momentum).dampening(dampening).weight_decay(weight_decay).nesterov(nesterov);
        let tensors = step::take_tensors(&mut fields, |fields, w, name| {
            let v = fields.take_optional(name("v"))?;
            Ok(SgdTensors {
                dw: fields.take_optional(name("dw"))?.unwrap_or(w),
                v: v.or((momentum != 0.0).then_some(w)),
                master: fields.take_optional(name("master"))?,
                w,
            })
        })?;
        fields.finish()?;
        Self::new(desc, &tensors)
    }
}
