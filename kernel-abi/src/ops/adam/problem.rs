//! The adam problem and its text form.

use super::AdamMode;
use crate::DType;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Coefficient, Domain, Operand, Problem, list_name};
use crate::step::{self, Part};
use crate::text::Fields;
use std::fmt;
use std::str::FromStr;

const OP: &str = "adam";

/// What a step is told beside its tensors: by default PyTorch's beta1 0.9, beta2 0.999 and eps 1e-8, the bias corrected,
/// and no weight decay.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdamDesc {
    mode: AdamMode,
    beta1: Coefficient,
    beta2: Coefficient,
    eps: Coefficient,
    weight_decay: Coefficient,
    corrects_bias: bool,
}

impl AdamDesc {
    /// The defaults.
    pub fn new(mode: AdamMode) -> Self {
        AdamDesc {
            mode,
            beta1: Coefficient::new(0.9),
            beta2: Coefficient::new(0.999),
            eps: Coefficient::new(1e-8),
            weight_decay: Coefficient::new(0.0),
            corrects_bias: true,
        }
    }

    /// Sets the shares of the old moments, at least 0 and below 1.
    pub fn betas(self, beta1: f64, beta2: f64) -> Self {
        AdamDesc { beta1: Coefficient::new(beta1), beta2: Coefficient::new(beta2), ..self }
    }

    /// Sets what is added to the root.
    pub fn eps(self, eps: f64) -> Self {
        AdamDesc { eps: Coefficient::new(eps), ..self }
    }

    /// Sets the pull of the parameters to 0.
    pub fn weight_decay(self, weight_decay: f64) -> Self {
        AdamDesc { weight_decay: Coefficient::new(weight_decay), ..self }
    }

    /// Sets whether moments are corrected for having begun at 0, which takes the operand `step`.
    pub fn corrects_bias(self, corrects_bias: bool) -> Self {
        AdamDesc { corrects_bias, ..self }
    }
}

/// The operands of one tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AdamTensors {
    /// The gradient.
    pub dw: TensorDesc,
    /// The first moment.
    pub m: TensorDesc,
    /// The second moment.
    pub v: TensorDesc,
    /// The parameters in f32, where w has 16 bits.
    pub master: Option<TensorDesc>,
    /// The parameters.
    pub w: TensorDesc,
}

/// One step. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct AdamProblem {
    desc: AdamDesc,
    tensors: Vec<AdamTensors>,
}

impl AdamProblem {
    /// A step of every tensor.
    ///
    /// # Errors
    /// `BadDescriptor` for a coefficient out of its range, no tensors, extents or types that do not fit each other, or an
    /// output that overlaps itself.
    pub fn new(desc: AdamDesc, tensors: &[AdamTensors]) -> Result<Self, BadDescriptor> {
        for (name, value) in [("eps", desc.eps), ("weight_decay", desc.weight_decay)] {
            step::check_coefficient(OP, name, value.get())?;
        }
        for (name, value) in [("beta1", desc.beta1), ("beta2", desc.beta2)] {
            if !(0.0..1.0).contains(&value.get()) {
                let reason = format!("expected a number of at least 0 and below 1, given {value}");
                return Err(BadDescriptor::new(OP, name, reason));
            }
        }
        let n = tensors.len();
        step::check_tensors(OP, tensors, |i, AdamTensors { dw, m, v, master, w }| {
            let name = |name| list_name(name, i, n);
            let mut parts = vec![Part::gradient(name("dw"), dw), Part::state(name("m"), m), Part::state(name("v"), v)];
            parts.extend(master.as_ref().map(|master| Part::master(name("master"), master)));
            Ok((name("w"), *w, parts))
        })?;
        Ok(AdamProblem { desc, tensors: tensors.to_vec() })
    }

    /// Where the weight decay acts.
    pub fn mode(&self) -> AdamMode {
        self.desc.mode
    }

    /// Share of the old first moment.
    pub fn beta1(&self) -> f64 {
        self.desc.beta1.get()
    }

    /// Share of the old second moment.
    pub fn beta2(&self) -> f64 {
        self.desc.beta2.get()
    }

    /// What is added to the root.
    pub fn eps(&self) -> f64 {
        self.desc.eps.get()
    }

    /// Pull of the parameters to 0.
    pub fn weight_decay(&self) -> f64 {
        self.desc.weight_decay.get()
    }

    /// Whether moments are corrected for having begun at 0.
    pub fn corrects_bias(&self) -> bool {
        self.desc.corrects_bias
    }

    /// The tensors, at least one.
    pub fn tensors(&self) -> &[AdamTensors] {
        &self.tensors
    }
}

impl Problem for AdamProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        "update"
    }

    fn operands(&self) -> Vec<Operand> {
        let n = self.tensors.len();
        let step = TensorDesc::packed(DType::F32, &[1]).expect("one element is legal");
        let step = Operand::input("step", step).holding(Domain::Integers { low: 1, high: 1000 });
        let operands = self.tensors.iter().enumerate().flat_map(|(i, tensors)| {
            let name = |name| list_name(name, i, n);
            let w = if tensors.master.is_some() { Operand::result } else { Operand::update };
            [
                Some(Operand::input(name("dw"), tensors.dw)),
                Some(Operand::update(name("m"), tensors.m)),
                Some(Operand::update(name("v"), tensors.v).holding(Domain::NonNegative)),
                tensors.master.map(|master| Operand::update(name("master"), master)),
                Some(w(name("w"), tensors.w)),
            ]
        });
        self.corrects_bias().then_some(step).into_iter().chain(operands.flatten()).collect()
    }

    fn flops(&self) -> f64 {
        self.tensors.iter().map(|tensors| 16.0 * tensors.w.n_elems() as f64).sum()
    }
}

impl fmt::Display for AdamProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let AdamDesc { mode, beta1, beta2, eps, weight_decay, corrects_bias } = self.desc;
        write!(f, "{OP}:update mode={mode} beta1={beta1} beta2={beta2} eps={eps} weight_decay={weight_decay}")?;
        write!(f, " bias_correction={}", u32::from(corrects_bias))?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for AdamProblem {
    type Err = BadDescriptor;

    /// The mode is adam and other defaults those of [`AdamDesc`]; left-out operands are like w, and there is no master
    /// unless it is given.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        step::check_pass(OP, &fields)?;
        let defaults = AdamDesc::new(fields.take_optional("mode")?.unwrap_or(AdamMode::Adam));
        let mut number = |key, default: Coefficient| Ok(fields.take_optional(key)?.unwrap_or(default.get()));
        let desc = defaults
            .betas(number("beta1", defaults.beta1)?, number("beta2", defaults.beta2)?)
            .eps(number("eps", defaults.eps)?)
            .weight_decay(number("weight_decay", defaults.weight_decay)?)
            .corrects_bias(step::take_flag(OP, &mut fields, "bias_correction", true)?);
        let step: Option<TensorDesc> = fields.take_optional("step")?;
        if let Some(step) = step.filter(|step| !desc.corrects_bias || step.to_string() != "1:f32") {
            let expected = if desc.corrects_bias { "1:f32" } else { "none without bias correction" };
            return Err(BadDescriptor::new(OP, "step", format!("expected {expected}, given {step}")));
        }
        let tensors = step::take_tensors(&mut fields, |fields, w, name| {
            Ok(AdamTensors {
                dw: fields.take_optional(name("dw"))?.unwrap_or(w),
                m: fields.take_optional(name("m"))?.unwrap_or(w),
                v: fields.take_optional(name("v"))?.unwrap_or(w),
                master: fields.take_optional(name("master"))?,
                w,
            })
        })?;
        fields.finish()?;
        Self::new(desc, &tensors)
    }
}
