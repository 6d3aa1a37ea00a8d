//! The softmax problem and its text form.

use super::{SoftmaxKind, SoftmaxMode, SoftmaxPass};
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Operand, Problem, general_dtype, no_overlap, same_dims, same_dtype};
use crate::text::Fields;
use std::fmt;
use std::str::FromStr;

const OP: &str = "softmax";

/// One softmax. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct SoftmaxProblem {
    pass: SoftmaxPass,
    kind: SoftmaxKind,
    mode: SoftmaxMode,
    /// x, or y backward.
    input: TensorDesc,
    dy: Option<TensorDesc>,
    /// y, or dx backward.
    out: TensorDesc,
}

/// Rows of a packed tensor: element e of row (outer, inner) lies at `(outer · row_elems + e) · inner_rows + inner`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SoftmaxRows {
    /// Rows that lie behind one another.
    pub outer_rows: i64,
    /// Elements of a row.
    pub row_elems: i64,
    /// Rows whose elements alternate.
    pub inner_rows: i64,
}

impl SoftmaxProblem {
    /// `y = alpha · softmax(x) + beta · y`.
    ///
    /// # Errors
    /// `BadDescriptor` for a rank below 2, extents or types that differ, or a `y` that overlaps itself.
    pub fn forward(
        kind: SoftmaxKind,
        mode: SoftmaxMode,
        x: &TensorDesc,
        y: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(SoftmaxPass::Forward, kind, mode, ("x", *x), None, ("y", *y))
    }

    /// `dx = alpha · (gradient of Σ dy · softmax(x) by x) + beta · dx`, from y.
    ///
    /// # Errors
    /// As [`SoftmaxProblem::forward`].
    pub fn backward(
        kind: SoftmaxKind,
        mode: SoftmaxMode,
        y: &TensorDesc,
        dy: &TensorDesc,
        dx: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(SoftmaxPass::Backward, kind, mode, ("y", *y), Some(*dy), ("dx", *dx))
    }

    fn new(
        pass: SoftmaxPass,
        kind: SoftmaxKind,
        mode: SoftmaxMode,
        (in_name, input): (&str, TensorDesc),
        dy: Option<TensorDesc>,
        (out_name, out): (&str, TensorDesc),
    ) -> Result<Self, BadDescriptor> {
        if input.rank() < 2 {
            let reason = format!("expected a rank of at least 2, [N, C, ...], given {}", input.rank());
            return Err(BadDescriptor::new(OP, in_name, reason));
        }
        general_dtype(OP, in_name, &input)?;
        for (name, desc) in dy.iter().map(|dy| ("dy", dy)).chain([(out_name, &out)]) {
            same_dims(OP, name, desc, in_name, &input)?;
            same_dtype(OP, name, desc, in_name, &input)?;
        }
        no_overlap(OP, out_name, &out)?;
        Ok(SoftmaxProblem { pass, kind, mode, input, dy, out })
    }

    /// Which pass.
    pub fn softmax_pass(&self) -> SoftmaxPass {
        self.pass
    }

    /// Which formula.
    pub fn kind(&self) -> SoftmaxKind {
        self.kind
    }

    /// What a row is.
    pub fn mode(&self) -> SoftmaxMode {
        self.mode
    }

    /// x, or y backward.
    pub fn input(&self) -> &TensorDesc {
        &self.input
    }

    /// dy, backward only.
    pub fn dy(&self) -> Option<&TensorDesc> {
        self.dy.as_ref()
    }

    /// y, or dx backward.
    pub fn out(&self) -> &TensorDesc {
        &self.out
    }

    /// The rows of a packed tensor of these extents.
    pub fn rows(&self) -> SoftmaxRows {
        let dims = self.input.dims();
        let behind: i64 = dims[2..].iter().product();
        match self.mode {
            SoftmaxMode::Instance => SoftmaxRows { outer_rows: dims[0], row_elems: dims[1] * behind, inner_rows: 1 },
            SoftmaxMode::Channel => SoftmaxRows { outer_rows: dims[0], row_elems: dims[1], inner_rows: behind },
        }
    }
}

impl Problem for SoftmaxProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        match self.dy {
            None => vec![Operand::input("x", self.input), Operand::output("y", self.out)],
            Some(dy) => {
                vec![Operand::input("y", self.input), Operand::input("dy", dy), Operand::output("dx", self.out)]
            }
        }
    }

    fn flops(&self) -> f64 {
        4.0 * self.input.n_elems() as f64
    }

    fn accumulation_length(&self) -> f64 {
        self.rows().row_elems as f64
    }
}

impl fmt::Display for SoftmaxProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{} kind={} mode={}", self.pass, self.kind, self.mode)?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for SoftmaxProblem {
    type Err = BadDescriptor;

    /// The kind is `accurate` and the mode `channel` unless given; tensors behind the first are like it unless given.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass = fields.parse_pass()?;
        let kind = fields.take_optional("kind")?.unwrap_or(SoftmaxKind::Accurate);
        let mode = fields.take_optional("mode")?.unwrap_or(SoftmaxMode::Channel);
        let problem = match pass {
            SoftmaxPass::Forward => {
                let x = fields.take_tensor("x")?;
                Self::forward(kind, mode, &x, &fields.take_optional("y")?.unwrap_or(x))
            }
            SoftmaxPass::Backward => {
                let y = fields.take_tensor("y")?;
                let dy = fields.take_optional("dy")?.unwrap_or(y);
                Self::backward(kind, mode, &y, &dy, &fields.take_optional("dx")?.unwrap_or(y))
            }
        }?;
        fields.finish()?;
        Ok(problem)
    }
}
