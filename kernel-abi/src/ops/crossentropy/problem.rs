//! The cross-entropy problem and its text form.

use super::{CrossEntropyInput, CrossEntropyPass, LossReduction};
use crate::DType;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{
    Coefficient, Domain, Operand, Problem, general_dtype, no_overlap, same_dims, same_dtype, same_or_accumulator_dtype,
};
use crate::text::{Fields, join};
use std::fmt;
use std::str::FromStr;

const OP: &str = "crossentropy";

/// What a cross-entropy is told beside its tensors: by default from logits, the mean, all classes count, no smoothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CrossEntropyDesc {
    input: CrossEntropyInput,
    reduction: LossReduction,
    ignore_index: Option<i64>,
    smoothing: Coefficient,
}

impl Default for CrossEntropyDesc {
    fn default() -> Self {
        Self::new()
    }
}

impl CrossEntropyDesc {
    /// The defaults.
    pub fn new() -> Self {
        CrossEntropyDesc {
            input: CrossEntropyInput::Logits,
            reduction: LossReduction::Mean,
            ignore_index: None,
            smoothing: Coefficient::new(0.0),
        }
    }

    /// Sets what x holds.
    pub fn input(self, input: CrossEntropyInput) -> Self {
        CrossEntropyDesc { input, ..self }
    }

    /// Sets what becomes of the rows' losses.
    pub fn reduction(self, reduction: LossReduction) -> Self {
        CrossEntropyDesc { reduction, ..self }
    }

    /// Sets the class that does not count. It need not be one of the classes.
    pub fn ignore_index(self, class: i64) -> Self {
        CrossEntropyDesc { ignore_index: Some(class), ..self }
    }

    /// Sets the share of the loss that all classes have, from 0 to 1.
    pub fn label_smoothing(self, share: f64) -> Self {
        CrossEntropyDesc { smoothing: Coefficient::new(share), ..self }
    }
}

/// One cross-entropy. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CrossEntropyProblem {
    pass: CrossEntropyPass,
    desc: CrossEntropyDesc,
    x: TensorDesc,
    target: TensorDesc,
    weight: Option<TensorDesc>,
    /// loss, or dloss backward.
    loss: TensorDesc,
    lse: Option<TensorDesc>,
    total: Option<TensorDesc>,
    dx: Option<TensorDesc>,
}

impl CrossEntropyProblem {
    /// `loss = alpha · loss(x, target) + beta · loss`; also lse and total where they are asked for.
    ///
    /// # Errors
    /// `BadDescriptor` for an x without classes, extents or types that do not fit each other, a smoothing outside of 0 to
    /// 1, an ignored class of probabilities, an lse of logarithms of probabilities, a total of another loss than the mean
    /// of classes, or an output that overlaps itself.
    pub fn forward(
        desc: CrossEntropyDesc,
        x: &TensorDesc,
        target: &TensorDesc,
        weight: Option<&TensorDesc>,
        loss: &TensorDesc,
        lse: Option<&TensorDesc>,
        total: Option<&TensorDesc>,
    ) -> Result<Self, BadDescriptor> {
        let problem = CrossEntropyProblem {
            pass: CrossEntropyPass::Forward,
            desc,
            x: *x,
            target: *target,
            weight: weight.copied(),
            loss: *loss,
            lse: lse.copied(),
            total: total.copied(),
            dx: None,
        };
        problem.check()
    }

    /// `dx = alpha · (gradient of Σ dloss · loss by x) + beta · dx`, from the lse and total of the forward pass.
    ///
    /// # Errors
    /// As [`CrossEntropyProblem::forward`]; also where lse or total is missing.
    #[allow(clippy::too_many_arguments)]
    pub fn backward(
        desc: CrossEntropyDesc,
        x: &TensorDesc,
        target: &TensorDesc,
        weight: Option<&TensorDesc>,
        lse: Option<&TensorDesc>,
        total: Option<&TensorDesc>,
        dloss: &TensorDesc,
        dx: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        let problem = CrossEntropyProblem {
            pass: CrossEntropyPass::Backward,
            desc,
            x: *x,
            target: *target,
            weight: weight.copied(),
            loss: *dloss,
            lse: lse.copied(),
            total: total.copied(),
            dx: Some(*dx),
        };
        problem.check()
    }

    fn check(self) -> Result<Self, BadDescriptor> {
        let bad = |argument: &str, reason: String| Err(BadDescriptor::new(OP, argument, reason));
        let (x, desc) = (&self.x, &self.desc);
        if x.rank() < 2 {
            return bad("x", format!("expected a rank of at least 2, [N, C, ...], given {}", x.rank()));
        }
        general_dtype(OP, "x", x)?;
        let smoothing = desc.smoothing.get();
        if !(0.0..=1.0).contains(&smoothing) {
            return bad("smoothing", format!("expected a number from 0 to 1, given {smoothing}"));
        }
        let positions = self.positions();
        if self.has_classes() {
            expect_dims("target", &self.target, &positions, "x without its classes")?;
        } else {
            if !self.target.dtype().is_general() {
                let given = self.target.dtype();
                return bad(
                    "target",
                    format!("expected classes as i32 or i64, or probabilities as {}, given {given}", x.dtype()),
                );
            }
            same_dims(OP, "target", &self.target, "x", x)?;
            same_dtype(OP, "target", &self.target, "x", x)?;
            if let Some(class) = desc.ignore_index {
                return bad("ignore", format!("expected no ignored class with probabilities, given {class}"));
            }
        }
        let sums = x.dtype().accumulator();
        let loss_name = if self.pass == CrossEntropyPass::Forward { "loss" } else { "dloss" };
        if desc.reduction == LossReduction::None {
            expect_dims(loss_name, &self.loss, &positions, "x without its classes")?;
        } else {
            expect_dims(loss_name, &self.loss, &[1], "one number")?;
        }
        same_or_accumulator_dtype(OP, loss_name, &self.loss, "x", x)?;
        for (name, desc) in [("lse", &self.lse), ("total", &self.total)] {
            if let Some(desc) = desc
                && desc.dtype() != sums
            {
                return bad(name, format!("expected the accumulator type {sums} of x, given {}", desc.dtype()));
            }
        }
        if let Some(weight) = &self.weight {
            same_or_accumulator_dtype(OP, "weight", weight, "x", x)?;
            expect_dims("weight", weight, &[x.dims()[1]], "the classes of x")?;
        }
        if let Some(lse) = &self.lse {
            expect_dims("lse", lse, &positions, "x without its classes")?;
        }
        if let Some(total) = &self.total {
            expect_dims("total", total, &[1], "one number")?;
        }
        let (needs_lse, needs_total) =
            (desc.input == CrossEntropyInput::Logits, desc.reduction == LossReduction::Mean && self.has_classes());
        if self.lse.is_some() && !needs_lse {
            return bad("lse", "expected none for logarithms of probabilities, given one".to_owned());
        }
        if self.total.is_some() && !needs_total {
            return bad("total", "expected none but for the mean over classes, given one".to_owned());
        }
        match &self.dx {
            None => {
                let written = [("loss", Some(&self.loss)), ("lse", self.lse.as_ref()), ("total", self.total.as_ref())];
                written
                    .into_iter()
                    .try_for_each(|(name, desc)| desc.map_or(Ok(()), |desc| no_overlap(OP, name, desc)))?;
            }
            Some(dx) => {
                same_dims(OP, "dx", dx, "x", x)?;
                same_dtype(OP, "dx", dx, "x", x)?;
                no_overlap(OP, "dx", dx)?;
                if needs_lse && self.lse.is_none() {
                    return bad("lse", "expected that of the forward pass, given none".to_owned());
                }
                if needs_total && self.total.is_none() {
                    return bad("total", "expected that of the forward pass, given none".to_owned());
                }
            }
        }
        Ok(self)
    }

    /// Which pass.
    pub fn crossentropy_pass(&self) -> CrossEntropyPass {
        self.pass
    }

    /// What x holds.
    pub fn input(&self) -> CrossEntropyInput {
        self.desc.input
    }

    /// What becomes of the rows' losses.
    pub fn reduction(&self) -> LossReduction {
        self.desc.reduction
    }

    /// The class that does not count.
    pub fn ignore_index(&self) -> Option<i64> {
        self.desc.ignore_index
    }

    /// The share of the loss that all classes have.
    pub fn smoothing(&self) -> f64 {
        self.desc.smoothing.get()
    }

    /// x.
    pub fn x(&self) -> &TensorDesc {
        &self.x
    }

    /// Classes or probabilities.
    pub fn target(&self) -> &TensorDesc {
        &self.target
    }

    /// Whether targets are classes, and not probabilities.
    pub fn has_classes(&self) -> bool {
        matches!(self.target.dtype(), DType::I32 | DType::I64)
    }

    /// Weights of classes.
    pub fn weight(&self) -> Option<&TensorDesc> {
        self.weight.as_ref()
    }

    /// The loss, or dloss backward.
    pub fn loss(&self) -> &TensorDesc {
        &self.loss
    }

    /// The rows' logarithms of sums.
    pub fn lse(&self) -> Option<&TensorDesc> {
        self.lse.as_ref()
    }

    /// The sum of the rows' weights.
    pub fn total(&self) -> Option<&TensorDesc> {
        self.total.as_ref()
    }

    /// dx, backward only.
    pub fn dx(&self) -> Option<&TensorDesc> {
        self.dx.as_ref()
    }

    /// C.
    pub fn n_classes(&self) -> i64 {
        self.x.dims()[1]
    }

    /// Positions, each with a row of classes.
    pub fn n_rows(&self) -> i64 {
        self.x.n_elems() / self.n_classes()
    }

    /// Extents of the positions: those of x without its classes.
    pub fn positions(&self) -> Vec<i64> {
        let dims = self.x.dims();
        [&dims[..1], &dims[2..]].concat()
    }
}

fn expect_dims(name: &str, desc: &TensorDesc, dims: &[i64], whose: &str) -> Result<(), BadDescriptor> {
    if desc.dims() == dims {
        return Ok(());
    }
    let reason = format!("expected the extents {} of {whose}, given {}", join(dims), join(desc.dims()));
    Err(BadDescriptor::new(OP, name, reason))
}

impl Problem for CrossEntropyProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        let classes = Domain::Integers { low: 0, high: self.n_classes() - 1 };
        let domain = if self.has_classes() { classes } else { Domain::NonNegative };
        let mut operands = vec![Operand::input("x", self.x), Operand::input("target", self.target).holding(domain)];
        operands.extend(self.weight.map(|weight| Operand::input("weight", weight).holding(Domain::NonNegative)));
        match self.dx {
            None => {
                operands.push(Operand::output("loss", self.loss));
                operands.extend(self.lse.map(|lse| Operand::result("lse", lse)));
                operands.extend(self.total.map(|total| Operand::result("total", total)));
            }
            Some(dx) => {
                operands.extend(self.lse.map(|lse| Operand::input("lse", lse)));
                // As many rows as count.
                operands.extend(
                    self.total
                        .map(|total| Operand::input("total", total).holding(Domain::Integers { low: 1, high: 100 })),
                );
                operands.extend([Operand::input("dloss", self.loss), Operand::output("dx", dx)]);
            }
        }
        operands
    }

    fn works_in_place(&self) -> bool {
        // A row's gradient is written by who has read its target.
        self.dx.is_some()
    }

    fn flops(&self) -> f64 {
        5.0 * self.x.n_elems() as f64
    }

    fn accumulation_length(&self) -> f64 {
        let rows = if self.desc.reduction == LossReduction::None { 0 } else { self.n_rows() };
        (self.n_classes() + rows) as f64
    }
}

impl fmt::Display for CrossEntropyProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CrossEntropyDesc { input, reduction, ignore_index, smoothing } = self.desc;
        write!(f, "{OP}:{} input={input} reduction={reduction}", self.pass)?;
        if let Some(class) = ignore_index {
            write!(f, " ignore={class}")?;
        }
        write!(f, " smoothing={smoothing}")?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for CrossEntropyProblem {
    type Err = BadDescriptor;

    /// Defaults are those of [`CrossEntropyDesc`]; a left-out dx is like x, and a left-out loss is packed, of the accumulator type.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass = fields.parse_pass()?;
        let desc = CrossEntropyDesc {
            input: fields.take_optional("input")?.unwrap_or_default(),
            reduction: fields.take_optional("reduction")?.unwrap_or_default(),
            ignore_index: fields.take_optional("ignore")?,
            smoothing: Coefficient::new(fields.take_optional("smoothing")?.unwrap_or(0.0)),
        };
        let x = fields.take_tensor("x")?;
        let target: TensorDesc = fields.take_tensor("target")?;
        let weight = fields.take_optional("weight")?;
        let lse = fields.take_optional("lse")?;
        let total = fields.take_optional("total")?;
        let packed_loss = || {
            let dims = x.dims();
            let positions = [&dims[..1], dims.get(2..).unwrap_or_default()].concat();
            let extents = if desc.reduction == LossReduction::None { positions } else { vec![1] };
            TensorDesc::packed(x.dtype().accumulator(), &extents)
        };
        let mut take_loss = |key| fields.take_optional(key)?.map_or_else(packed_loss, Ok);
        let problem = match pass {
            CrossEntropyPass::Forward => {
                let loss = take_loss("loss")?;
                Self::forward(desc, &x, &target, weight.as_ref(), &loss, lse.as_ref(), total.as_ref())
            }
            CrossEntropyPass::Backward => {
                let dloss = take_loss("dloss")?;
                let dx = fields.take_optional("dx")?.unwrap_or(x);
                Self::backward(desc, &x, &target, weight.as_ref(), lse.as_ref(), total.as_ref(), &dloss, &dx)
            }
        }?;
        fields.finish()?;
        Ok(problem)
    }
}
