//! The bias problem and its text form.

use super::BiasPass;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Operand, Problem, general_dtype, no_overlap, same_dims, same_dtype};
use crate::text::Fields;
use std::fmt;
use std::str::FromStr;

const OP: &str = "bias";

/// One bias pass. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BiasProblem {
    pass: BiasPass,
    /// x; None backward.
    x: Option<TensorDesc>,
    /// bias, or dbias.
    bias: TensorDesc,
    /// y, or dy.
    y: TensorDesc,
}

impl BiasProblem {
    /// `y = alpha · (x + bias) + beta · y`.
    ///
    /// # Errors
    /// `BadDescriptor` for a rank of x below 2, a bias that is not `[C]`, extents or types that differ, or a `y` that
    /// overlaps itself.
    pub fn forward(x: &TensorDesc, bias: &TensorDesc, y: &TensorDesc) -> Result<Self, BadDescriptor> {
        check_bias("x", x, "bias", bias)?;
        same_dims(OP, "y", y, "x", x)?;
        same_dtype(OP, "y", y, "x", x)?;
        no_overlap(OP, "y", y)?;
        Ok(BiasProblem { pass: BiasPass::Forward, x: Some(*x), bias: *bias, y: *y })
    }

    /// `dbias = alpha · Σ dy + beta · dbias`.
    ///
    /// # Errors
    /// As [`BiasProblem::forward`], for `dy` and `dbias`.
    pub fn backward(dy: &TensorDesc, dbias: &TensorDesc) -> Result<Self, BadDescriptor> {
        check_bias("dy", dy, "dbias", dbias)?;
        no_overlap(OP, "dbias", dbias)?;
        Ok(BiasProblem { pass: BiasPass::Backward, x: None, bias: *dbias, y: *dy })
    }

    /// Which pass.
    pub fn bias_pass(&self) -> BiasPass {
        self.pass
    }

    /// x, forward only.
    pub fn x(&self) -> Option<&TensorDesc> {
        self.x.as_ref()
    }

    /// bias, or dbias.
    pub fn bias(&self) -> &TensorDesc {
        &self.bias
    }

    /// y, or dy.
    pub fn y(&self) -> &TensorDesc {
        &self.y
    }

    /// C.
    pub fn channels(&self) -> i64 {
        self.y.dims()[1]
    }
}

fn check_bias(x_name: &str, x: &TensorDesc, name: &str, bias: &TensorDesc) -> Result<(), BadDescriptor> {
    if x.rank() < 2 {
        let reason = format!("expected a rank of at least 2, [N, C, ...], given {}", x.rank());
        return Err(BadDescriptor::new(OP, x_name, reason));
    }
    if bias.dims() != [x.dims()[1]] {
        let given = crate::text::join(bias.dims());
        let reason = format!("expected one extent, the channels {} of {x_name}, given {given}", x.dims()[1]);
        return Err(BadDescriptor::new(OP, name, reason));
    }
    general_dtype(OP, x_name, x)?;
    same_dtype(OP, name, bias, x_name, x)
}

impl Problem for BiasProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        match self.x {
            Some(x) => vec![Operand::input("x", x), Operand::input("bias", self.bias), Operand::output("y", self.y)],
            None => vec![Operand::input("dy", self.y), Operand::output("dbias", self.bias)],
        }
    }

    fn flops(&self) -> f64 {
        self.y.n_elems() as f64
    }

    fn works_in_place(&self) -> bool {
        self.pass == BiasPass::Forward
    }

    fn accumulation_length(&self) -> f64 {
        match self.pass {
            BiasPass::Forward => 1.0,
            BiasPass::Backward => (self.y.n_elems() / self.channels()) as f64,
        }
    }
}

impl fmt::Display for BiasProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{}", self.pass)?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for BiasProblem {
    type Err = BadDescriptor;

    /// A left-out bias is packed, a left-out `y` like `x`.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let packed = |x: &TensorDesc| TensorDesc::packed(x.dtype(), &[x.dims().get(1).copied().unwrap_or(1)]);
        let problem = match fields.parse_pass()? {
            BiasPass::Forward => {
                let x = fields.take_tensor("x")?;
                let bias = fields.take_optional("bias")?.map_or_else(|| packed(&x), Ok)?;
                Self::forward(&x, &bias, &fields.take_optional("y")?.unwrap_or(x))
            }
            BiasPass::Backward => {
                let dy = fields.take_tensor("dy")?;
                Self::backward(&dy, &fields.take_optional("dbias")?.map_or_else(|| packed(&dy), Ok)?)
            }
        }?;
        fields.finish()?;
        Ok(problem)
    }
}
