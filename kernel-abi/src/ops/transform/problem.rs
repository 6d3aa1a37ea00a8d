//! The transform problem and its text form.

use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Operand, Problem, no_overlap, same_dims};
use crate::text::Fields;
use crate::{Cast, DType};
use std::fmt;
use std::str::FromStr;

const OP: &str = "transform";

/// One transform. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TransformProblem {
    x: TensorDesc,
    y: TensorDesc,
    cast: Cast,
}

impl TransformProblem {
    /// `y = alpha · x + beta · y`.
    ///
    /// # Errors
    /// `BadDescriptor` for extents that differ, or a `y` that overlaps itself.
    pub fn new(x: &TensorDesc, y: &TensorDesc) -> Result<Self, BadDescriptor> {
        same_dims(OP, "y", y, "x", x)?;
        no_overlap(OP, "y", y)?;
        Ok(TransformProblem { x: *x, y: *y, cast: Cast::PLAIN })
    }

    /// Stores integers by another rule than [`Cast::PLAIN`].
    pub fn with_cast(self, cast: Cast) -> Self {
        TransformProblem { cast, ..self }
    }

    /// How numbers become integers.
    pub fn cast(&self) -> Cast {
        self.cast
    }

    /// The input.
    pub fn x(&self) -> &TensorDesc {
        &self.x
    }

    /// The output.
    pub fn y(&self) -> &TensorDesc {
        &self.y
    }

    /// Whether both have one type and lie without gaps in the same order: nothing but a copy when alpha is 1 and beta 0.
    pub fn keeps_layout(&self) -> bool {
        let same = |i: usize| self.x.dims()[i] == 1 || self.x.strides()[i] == self.y.strides()[i];
        self.x.dtype() == self.y.dtype() && self.x.is_dense() && (0..self.x.rank()).all(same)
    }

    /// What it is computed in.
    pub fn accumulator(&self) -> DType {
        DType::computing_exactly([self.x.dtype(), self.y.dtype()])
    }
}

impl Problem for TransformProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        "forward"
    }

    fn operands(&self) -> Vec<Operand> {
        vec![Operand::input("x", self.x), Operand::output("y", self.y)]
    }

    fn flops(&self) -> f64 {
        self.x.n_elems() as f64
    }

    fn works_in_place(&self) -> bool {
        true
    }
}

impl fmt::Display for TransformProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:forward")?;
        crate::text::write_cast(f, self.cast)?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for TransformProblem {
    type Err = BadDescriptor;

    /// A left-out `y` is like `x`.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        if fields.pass() != "forward" {
            let reason = format!("expected forward, given {:?}", fields.pass());
            return Err(BadDescriptor::new(OP, "pass", reason));
        }
        let x = fields.take_tensor("x")?;
        let y = fields.take_optional("y")?.unwrap_or(x);
        let cast = fields.take_cast()?;
        fields.finish()?;
        Ok(Self::new(&x, &y)?.with_cast(cast))
    }
}
