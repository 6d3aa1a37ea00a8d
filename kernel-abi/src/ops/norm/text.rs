//! The text form of normalization problems.

use super::{NormDesc, NormMode, NormPass, NormProblem, NormTensors, OP};
use crate::desc::{BadDescriptor, TensorDesc};
use crate::ops::activation::ActivationMode;
use crate::text::Fields;
use std::fmt;
use std::str::FromStr;

impl fmt::Display for NormProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{} mode={}", self.pass, self.desc.mode.name())?;
        match self.desc.mode {
            NormMode::Layer { axis } | NormMode::Rms { axis } => write!(f, " axis={axis}")?,
            NormMode::Group { groups } => write!(f, " groups={groups}")?,
            NormMode::Batch | NormMode::PerActivation | NormMode::Instance => {}
        }
        write!(f, " eps={}", self.desc.epsilon)?;
        let (mode, coefficient) = self.activation();
        if mode != ActivationMode::Identity {
            write!(f, " act={mode}")?;
        }
        if mode.has_coefficient() {
            write!(f, " coef={coefficient}")?;
        }
        if self.updates_running() {
            write!(f, " factor={} unbiased={}", self.desc.factor, u32::from(self.desc.unbiased))?;
        }
        if self.pass == NormPass::Finalize {
            write!(f, " count={}", self.count)?;
        }
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for NormProblem {
    type Err = BadDescriptor;

    /// Epsilon is 10⁻⁵, the axis the last dimension, a coefficient 1 and the factor 0.1 unless given; y, dy and dx are
    /// like x, running_var like running_mean. Other tensors are there if they are given, mean and inv_std together.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass: NormPass = fields.parse_pass()?;
        let x = fields.take_tensor(if pass == NormPass::Finalize { "sum" } else { "x" })?;
        let desc = parse_desc(&mut fields, &x)?;
        let mut tensors = NormTensors {
            scale: fields.take_optional("scale")?,
            bias: fields.take_optional("bias")?,
            z: fields.take_optional("z")?,
            running: parse_pair(&mut fields, "running_mean", "running_var")?,
            ..NormTensors::new()
        };
        let finalized: [Option<TensorDesc>; 3] = if pass == NormPass::Finalize {
            [fields.take_optional("sum_squares")?, fields.take_optional("eq_scale")?, fields.take_optional("eq_bias")?]
        } else {
            [None; 3]
        };
        let statistics: [Option<TensorDesc>; 2] = [fields.take_optional("mean")?, fields.take_optional("inv_std")?];
        tensors.statistics = pass != NormPass::Finalize && statistics.iter().any(Option::is_some);
        let problem = match pass {
            NormPass::Forward | NormPass::Inference => {
                let y = fields.take_optional("y")?.unwrap_or(x);
                let make = if pass == NormPass::Forward { Self::forward } else { Self::inference };
                make(&desc, &x, &y, &tensors)
            }
            NormPass::Backward => {
                let dy = fields.take_optional("dy")?.unwrap_or(x);
                let dx = fields.take_optional("dx")?.unwrap_or(x);
                tensors.y = fields.take_optional("y")?;
                if desc.activation != ActivationMode::Identity {
                    tensors.y = tensors.y.or(Some(x));
                }
                tensors.dz = fields.take_optional("dz")?;
                tensors.dscale = fields.take_optional("dscale")?;
                tensors.dbias = fields.take_optional("dbias")?;
                Self::backward(&desc, &x, &dy, &dx, &tensors)
            }
            NormPass::Finalize => Self::finalize(&desc, fields.take("count")?, &x, &tensors),
        }?;
        fields.finish()?;
        problem.check_given("sum_squares", finalized[0])?;
        problem.check_given("eq_scale", finalized[1])?;
        problem.check_given("eq_bias", finalized[2])?;
        problem.check_given("mean", statistics[0])?;
        problem.check_given("inv_std", statistics[1])?;
        Ok(problem)
    }
}

impl NormProblem {
    /// Refuses a tensor that the text gave another form than it has.
    fn check_given(&self, name: &'static str, given: Option<TensorDesc>) -> Result<(), BadDescriptor> {
        let Some(given) = given else { return Ok(()) };
        match self.operand(name) {
            Some((_, expected)) if expected == given => Ok(()),
            Some((_, expected)) => Err(BadDescriptor::new(OP, name, format!("expected {expected}, given {given}"))),
            None => {
                let reason = format!("expected none for mode {}, given {given}", self.desc.mode.name());
                Err(BadDescriptor::new(OP, name, reason))
            }
        }
    }
}

fn parse_desc(fields: &mut Fields<'_>, x: &TensorDesc) -> Result<NormDesc, BadDescriptor> {
    let word: String = fields.take("mode")?;
    let mut axis = || fields.take_optional("axis").map(|axis| axis.unwrap_or(x.rank() - 1));
    let mode = match word.as_str() {
        "batch" => NormMode::Batch,
        "per_activation" => NormMode::PerActivation,
        "layer" => NormMode::Layer { axis: axis()? },
        "rms" => NormMode::Rms { axis: axis()? },
        "group" => NormMode::Group { groups: fields.take("groups")? },
        "instance" => NormMode::Instance,
        _ => {
            let known = "batch, per_activation, layer, rms, group, instance";
            return Err(BadDescriptor::new(OP, "mode", format!("expected one of {known}, given {word:?}")));
        }
    };
    let mut desc = NormDesc::new(mode);
    if let Some(epsilon) = fields.take_optional("eps")? {
        desc = desc.epsilon(epsilon);
    }
    if let Some(activation) = fields.take_optional("act")? {
        desc = desc.activation(activation, fields.take_optional("coef")?.unwrap_or(1.0));
    }
    if let Some(factor) = fields.take_optional("factor")? {
        desc = desc.factor(factor);
    }
    match fields.take_optional::<u32>("unbiased")? {
        None | Some(1) => Ok(desc),
        Some(0) => Ok(desc.unbiased(false)),
        Some(other) => Err(BadDescriptor::new(OP, "unbiased", format!("expected 0 or 1, given {other}"))),
    }
}

/// Two tensors of one form, of which the second may be left out.
fn parse_pair(
    fields: &mut Fields<'_>,
    first: &'static str,
    second: &'static str,
) -> Result<Option<TensorDesc>, BadDescriptor> {
    let pair: [Option<TensorDesc>; 2] = [fields.take_optional(first)?, fields.take_optional(second)?];
    match pair {
        [Some(a), None] => Ok(Some(a)),
        [Some(a), Some(b)] if a == b => Ok(Some(a)),
        [None, None] => Ok(None),
        [a, b] => {
            let text = |desc: Option<TensorDesc>| desc.map_or("none".to_owned(), |desc| desc.to_string());
            let reason = format!("expected the form of {first}, {}, given {}", text(a), text(b));
            Err(BadDescriptor::new(OP, second, reason))
        }
    }
}
