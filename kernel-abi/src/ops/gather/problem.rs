//! The gathering problem and its text form.

use super::GatherPass;
use crate::DType;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Domain, Operand, Precision, Problem, no_overlap, same_dtype};
use crate::text::{Fields, join};
use std::fmt;
use std::str::FromStr;

const OP: &str = "gather";

/// One gathering of rows, or its gradient. See the [module](super) for the formulas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GatherProblem {
    pass: GatherPass,
    axis: usize,
    x: TensorDesc,
    indices: TensorDesc,
    y: TensorDesc,
}

impl GatherProblem {
    /// `y[…, n, …] = alpha · x[…, indices[n], …] + beta · y[…, n, …]`.
    ///
    /// # Errors
    /// `BadDescriptor` for an axis that x does not have, indices of another rank than 1 or another type than i32 and
    /// i64, extents or types of x and y that do not fit, or a y that overlaps itself.
    pub fn forward(axis: usize, x: &TensorDesc, indices: &TensorDesc, y: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(GatherPass::Forward, axis, x, indices, y)
    }

    /// `dx[…, r, …] = alpha · Σ dy[…, n, …] + beta · dx[…, r, …]`.
    ///
    /// # Errors
    /// As [`GatherProblem::forward`].
    pub fn backward(
        axis: usize,
        indices: &TensorDesc,
        dy: &TensorDesc,
        dx: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(GatherPass::Backward, axis, dx, indices, dy)
    }

    fn new(
        pass: GatherPass,
        axis: usize,
        x: &TensorDesc,
        indices: &TensorDesc,
        y: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        let bad = |argument: &str, reason: String| Err(BadDescriptor::new(OP, argument, reason));
        let (x_name, y_name) = match pass {
            GatherPass::Forward => ("x", "y"),
            GatherPass::Backward => ("dx", "dy"),
        };
        if axis >= x.rank() {
            return bad("axis", format!("expected an axis below the rank {} of {x_name}, given {axis}", x.rank()));
        }
        if indices.rank() != 1 || !matches!(indices.dtype(), DType::I32 | DType::I64) {
            return bad("indices", format!("expected one dimension of i32 or i64, given {indices}"));
        }
        let mut expected = x.dims().to_vec();
        expected[axis] = indices.dims()[0];
        if y.dims() != expected {
            let given = join(y.dims());
            return bad(y_name, format!("expected the extents {} for these indices, given {given}", join(&expected)));
        }
        same_dtype(OP, y_name, y, x_name, x)?;
        match pass {
            GatherPass::Forward => no_overlap(OP, y_name, y)?,
            GatherPass::Backward => no_overlap(OP, x_name, x)?,
        }
        Ok(GatherProblem { pass, axis, x: *x, indices: *indices, y: *y })
    }

    /// Which pass.
    pub fn gather_pass(&self) -> GatherPass {
        self.pass
    }

    /// The dimension along which the rows lie.
    pub fn axis(&self) -> usize {
        self.axis
    }

    /// x, or dx.
    pub fn x(&self) -> &TensorDesc {
        &self.x
    }

    /// The indices.
    pub fn indices(&self) -> &TensorDesc {
        &self.indices
    }

    /// y, or dy.
    pub fn y(&self) -> &TensorDesc {
        &self.y
    }

    /// What it is computed in.
    pub fn computing(&self) -> DType {
        DType::computing_exactly([self.x.dtype()])
    }
}

impl Problem for GatherProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        // All rows from either end, and one beside them on both sides.
        let rows = self.x.dims()[self.axis];
        let domain = Domain::Integers { low: -rows - 1, high: rows };
        let indices = Operand::input("indices", self.indices).holding(domain);
        match self.pass {
            GatherPass::Forward => vec![Operand::input("x", self.x), indices, Operand::output("y", self.y)],
            GatherPass::Backward => vec![indices, Operand::input("dy", self.y), Operand::output("dx", self.x)],
        }
    }

    fn flops(&self) -> f64 {
        self.y.n_elems() as f64
    }

    /// Of x, forward reads the rows that are asked for.
    fn bytes(&self) -> f64 {
        let rows = match self.pass {
            GatherPass::Forward => self.y.data_bytes(),
            GatherPass::Backward => self.x.data_bytes(),
        };
        (rows + self.y.data_bytes() + self.indices.data_bytes()) as f64
    }

    fn accumulation_length(&self) -> f64 {
        match self.pass {
            GatherPass::Forward => 1.0,
            GatherPass::Backward => self.indices.n_elems() as f64,
        }
    }

    fn precision(&self) -> Precision {
        Precision::of([self.x.dtype()])
    }
}

impl fmt::Display for GatherProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{} axis={}", self.pass, self.axis)?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for GatherProblem {
    type Err = BadDescriptor;

    /// The axis is 0 unless given.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass = fields.parse_pass()?;
        let axis = fields.take_optional("axis")?.unwrap_or(0);
        let indices = fields.take_tensor("indices")?;
        let problem = match pass {
            GatherPass::Forward => Self::forward(axis, &fields.take_tensor("x")?, &indices, &fields.take_tensor("y")?),
            GatherPass::Backward => {
                let dy = fields.take_tensor("dy")?;
                Self::backward(axis, &indices, &dy, &fields.take_tensor("dx")?)
            }
        };
        fields.finish().and(problem)
    }
}
