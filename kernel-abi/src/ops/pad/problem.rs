//! The padding problem and its text form.

use super::{PadAxis, PadMode, PadPass};
use crate::DType;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Coefficient, Operand, Problem, no_overlap, same_dtype};
use crate::text::{Fields, join};
use std::fmt;
use std::str::FromStr;

const OP: &str = "pad";

/// One padding, cropping or slicing. See the [module](super) for the formulas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PadProblem {
    pass: PadPass,
    mode: PadMode,
    value: Coefficient,
    before: Vec<i64>,
    step: Vec<i64>,
    x: TensorDesc,
    y: TensorDesc,
}

impl PadProblem {
    /// `y = alpha · (x with `before` positions before it in each dimension) + beta · y`, in steps of 1.
    ///
    /// # Errors
    /// `BadDescriptor` for ranks or types that differ, as many numbers as x has no dimensions, positions beyond 2⁶², or
    /// a y that overlaps itself.
    pub fn forward(mode: PadMode, before: &[i64], x: &TensorDesc, y: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(PadPass::Forward, mode, before, &vec![1; before.len()], x, y)
    }

    /// `dx = alpha · (the sum of dy over what was copied from x's element) + beta · dx`.
    ///
    /// # Errors
    /// As [`PadProblem::forward`].
    pub fn backward(mode: PadMode, before: &[i64], dy: &TensorDesc, dx: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(PadPass::Backward, mode, before, &vec![1; before.len()], dx, dy)
    }

    /// Every `step`-th element from `start` on, in each dimension: ONNX's Slice.
    ///
    /// # Errors
    /// As [`PadProblem::forward`], and as [`PadProblem::with_steps`].
    pub fn slice(start: &[i64], step: &[i64], x: &TensorDesc, y: &TensorDesc) -> Result<Self, BadDescriptor> {
        let before: Vec<i64> = start.iter().map(|start| start.saturating_neg()).collect();
        Self::new(PadPass::Forward, PadMode::Constant, &before, step, x, y)
    }

    /// The same in other steps.
    ///
    /// # Errors
    /// `BadDescriptor` for a step of 0, or another number of them than x has dimensions.
    pub fn with_steps(self, step: &[i64]) -> Result<Self, BadDescriptor> {
        let value = self.value;
        let problem = Self::new(self.pass, self.mode, &self.before, step, &self.x, &self.y)?;
        Ok(PadProblem { value, ..problem })
    }

    /// The same with this value outside; 0 by default. Only `constant` looks at it.
    pub fn with_value(self, value: f64) -> Self {
        let value = if self.mode == PadMode::Constant && self.pass == PadPass::Forward { value } else { 0.0 };
        PadProblem { value: Coefficient::new(value), ..self }
    }

    fn new(
        pass: PadPass,
        mode: PadMode,
        before: &[i64],
        step: &[i64],
        x: &TensorDesc,
        y: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        let bad = |argument: &str, reason: String| Err(BadDescriptor::new(OP, argument, reason));
        let (x_name, y_name) = match pass {
            PadPass::Forward => ("x", "y"),
            PadPass::Backward => ("dx", "dy"),
        };
        if y.rank() != x.rank() {
            return bad(y_name, format!("expected the rank {} of {x_name}, given {}", x.rank(), y.rank()));
        }
        for (name, numbers) in [("before", before), ("step", step)] {
            if numbers.len() != x.rank() {
                return bad(name, format!("expected {} numbers, one a dimension, given {}", x.rank(), numbers.len()));
            }
        }
        if step.contains(&0) {
            return bad("step", format!("expected other steps than 0, given {}", join(step)));
        }
        let last = |i: usize| step[i].checked_mul(y.dims()[i]).and_then(|last| last.checked_sub(before[i]));
        const MOST: i64 = 1 << 62;
        let fits =
            |i: usize| before[i].checked_abs().is_some_and(|n| n < MOST) && last(i).is_some_and(|n| n.abs() < MOST);
        if let Some(i) = (0..x.rank()).find(|&i| !fits(i)) {
            let (before, step) = (before[i], step[i]);
            return bad("before", format!("expected positions below 2^62, given {before} with steps of {step}"));
        }
        same_dtype(OP, y_name, y, x_name, x)?;
        match pass {
            PadPass::Forward => no_overlap(OP, y_name, y)?,
            PadPass::Backward => no_overlap(OP, x_name, x)?,
        }
        let value = Coefficient::new(0.0);
        Ok(PadProblem { pass, mode, value, before: before.to_vec(), step: step.to_vec(), x: *x, y: *y })
    }

    /// Which pass.
    pub fn pad_pass(&self) -> PadPass {
        self.pass
    }

    /// What stands outside.
    pub fn mode(&self) -> PadMode {
        self.mode
    }

    /// The value outside.
    pub fn value(&self) -> f64 {
        self.value.get()
    }

    /// The value as an integer type has it, without its fraction and within its range; as it is for others.
    pub fn filling(&self) -> f64 {
        let value = self.value();
        match self.x.dtype() {
            DType::I8 => f64::from(value as i8),
            DType::U8 => f64::from(value as u8),
            DType::I32 => f64::from(value as i32),
            DType::I64 => value as i64 as f64,
            _ => value,
        }
    }

    /// x, or dx.
    pub fn x(&self) -> &TensorDesc {
        &self.x
    }

    /// y, or dy.
    pub fn y(&self) -> &TensorDesc {
        &self.y
    }

    /// The dimensions.
    pub fn axes(&self) -> impl Iterator<Item = PadAxis> {
        (0..self.x.rank()).map(|i| PadAxis {
            x: self.x.dims()[i],
            y: self.y.dims()[i],
            before: self.before[i],
            step: self.step[i],
        })
    }

    /// What it is computed in.
    pub fn computing(&self) -> DType {
        DType::computing_exactly([self.x.dtype()])
    }
}

impl Problem for PadProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        match self.pass {
            PadPass::Forward => vec![Operand::input("x", self.x), Operand::output("y", self.y)],
            PadPass::Backward => vec![Operand::input("dy", self.y), Operand::output("dx", self.x)],
        }
    }

    fn flops(&self) -> f64 {
        self.y.n_elems() as f64
    }

    fn accumulation_length(&self) -> f64 {
        match self.pass {
            PadPass::Forward => 1.0,
            PadPass::Backward => (self.y.n_elems() as f64 / self.x.n_elems() as f64).max(1.0),
        }
    }
}

impl fmt::Display for PadProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{} mode={}", self.pass, self.mode)?;
        if self.value.get() != 0.0 {
            write!(f, " value={}", self.value)?;
        }
        write!(f, " before={} step={}", join(&self.before), join(&self.step))?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for PadProblem {
    type Err = BadDescriptor;

    /// Steps are 1 and the value 0 unless given.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass = fields.parse_pass()?;
        let mode = fields.take("mode")?;
        let value = fields.take_optional("value")?.unwrap_or(0.0);
        let before = fields.take_numbers("before")?;
        let step = fields.take_numbers("step")?;
        let (x, y) = match pass {
            PadPass::Forward => (fields.take_tensor("x")?, fields.take_tensor("y")?),
            PadPass::Backward => (fields.take_tensor("dx")?, fields.take_tensor("dy")?),
        };
        fields.finish()?;
        let before = before.unwrap_or_else(|| vec![0; x.rank()]);
        let step = step.unwrap_or_else(|| vec![1; x.rank()]);
        Ok(Self::new(pass, mode, &before, &step, &x, &y)?.with_value(value))
    }
}
