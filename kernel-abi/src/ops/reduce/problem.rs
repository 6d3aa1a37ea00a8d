//! The reduction problem and its text form.

use super::ReducePass;
use crate::DType;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Operand, Precision, Problem, no_overlap, same_dims};
use crate::text::{Fields, join};
use std::fmt;
use std::str::FromStr;

const OP: &str = "reduce";

/// One reduction. See the [module](super) for the formulas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ReduceProblem {
    pass: ReducePass,
    x: TensorDesc,
    y: TensorDesc,
    indices: Option<TensorDesc>,
}

impl ReduceProblem {
    /// `y = alpha · (x reduced where y has extent 1) + beta · y`.
    ///
    /// # Errors
    /// `BadDescriptor` for ranks that differ, an extent of y that is neither 1 nor x's, or a y that overlaps itself.
    pub fn new(pass: ReducePass, x: &TensorDesc, y: &TensorDesc) -> Result<Self, BadDescriptor> {
        let fits = y.rank() == x.rank() && y.dims().iter().zip(x.dims()).all(|(y, x)| *y == 1 || y == x);
        if !fits {
            let (expected, given) = (join(x.dims()), join(y.dims()));
            let reason = format!("expected the extents {expected} of x, or 1 where it is reduced, given {given}");
            return Err(BadDescriptor::new(OP, "y", reason));
        }
        no_overlap(OP, "y", y)?;
        Ok(ReduceProblem { pass, x: *x, y: *y, indices: None })
    }

    /// The same, which also gives the index of each result.
    ///
    /// # Errors
    /// `BadDescriptor` for a pass whose results have none, other extents than y's, another type than i32 or i64, one
    /// that does not hold the largest index, or indices that overlap themselves.
    pub fn with_indices(self, indices: &TensorDesc) -> Result<Self, BadDescriptor> {
        let bad = |reason: String| Err(BadDescriptor::new(OP, "indices", reason));
        if !self.pass.has_indices() {
            return bad(format!("expected min, max or amax, whose results have an index, given {}", self.pass));
        }
        same_dims(OP, "indices", indices, "y", &self.y)?;
        if !matches!(indices.dtype(), DType::I32 | DType::I64) {
            return bad(format!("expected the element type i32 or i64, given {}", indices.dtype()));
        }
        if indices.dtype() == DType::I32 && self.n_reduced() > i64::from(i32::MAX) {
            return bad(format!("expected i64 for {} elements of each result, given i32", self.n_reduced()));
        }
        no_overlap(OP, "indices", indices)?;
        Ok(ReduceProblem { indices: Some(*indices), ..self })
    }

    /// Which operation.
    pub fn reduce_pass(&self) -> ReducePass {
        self.pass
    }

    /// The input.
    pub fn x(&self) -> &TensorDesc {
        &self.x
    }

    /// The output.
    pub fn y(&self) -> &TensorDesc {
        &self.y
    }

    /// Where the indices go.
    pub fn indices(&self) -> Option<&TensorDesc> {
        self.indices.as_ref()
    }

    /// Elements of x for each element of y.
    pub fn n_reduced(&self) -> i64 {
        self.x.n_elems() / self.y.n_elems()
    }

    /// The dimensions that are kept, and those that are reduced. A dimension of extent 1 is kept.
    pub fn split_dims(&self) -> (Vec<usize>, Vec<usize>) {
        (0..self.x.rank()).partition(|&i| self.x.dims()[i] == self.y.dims()[i])
    }

    /// What it is computed in.
    pub fn computing(&self) -> DType {
        let dtypes = [self.x.dtype(), self.y.dtype()];
        match self.pass {
            ReducePass::Norm2 | ReducePass::LogSum | ReducePass::LogSumExp => DType::computing(dtypes),
            _ => DType::computing_exactly(dtypes),
        }
    }
}

impl Problem for ReduceProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        let indices = self.indices.map(|indices| Operand::result("indices", indices));
        [Operand::input("x", self.x), Operand::output("y", self.y)].into_iter().chain(indices).collect()
    }

    fn flops(&self) -> f64 {
        self.x.n_elems() as f64
    }

    fn accumulation_length(&self) -> f64 {
        if self.pass.has_indices() { 1.0 } else { self.n_reduced() as f64 }
    }

    fn precision(&self) -> Precision {
        Precision::of([self.x.dtype(), self.y.dtype()])
    }
}

impl fmt::Display for ReduceProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{}", self.pass)?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for ReduceProblem {
    type Err = BadDescriptor;

    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass = fields.parse_pass()?;
        let (x, y) = (fields.take_tensor("x")?, fields.take_tensor("y")?);
        let indices = fields.take_optional("indices")?;
        fields.finish()?;
        let problem = Self::new(pass, &x, &y)?;
        match indices {
            Some(indices) => problem.with_indices(&indices),
            None => Ok(problem),
        }
    }
}
