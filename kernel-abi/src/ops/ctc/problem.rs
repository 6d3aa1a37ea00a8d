//! The ctc problem and its text form.

use super::CtcPass;
use crate::DType;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::ops::crossentropy::{CrossEntropyInput, LossReduction};
use crate::problem::{
    Domain, Operand, Problem, general_dtype, no_overlap, same_dims, same_dtype, same_or_accumulator_dtype,
};
use crate::text::{Fields, join};
use std::fmt;
use std::str::FromStr;

const OP: &str = "ctc";

/// What a ctc loss is told beside its tensors: by default from logits, the mean, class 0 blank, infinite losses kept.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct CtcDesc {
    input: CrossEntropyInput,
    reduction: LossReduction,
    blank: i64,
    zero_infinity: bool,
}

impl CtcDesc {
    /// The defaults.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets what x holds.
    pub fn input(self, input: CrossEntropyInput) -> Self {
        CtcDesc { input, ..self }
    }

    /// Sets what becomes of the sequences' losses.
    pub fn reduction(self, reduction: LossReduction) -> Self {
        CtcDesc { reduction, ..self }
    }

    /// Sets the class that is no label.
    pub fn blank(self, blank: i64) -> Self {
        CtcDesc { blank, ..self }
    }

    /// Sets whether infinite losses, and their gradients, count as 0.
    pub fn zero_infinity(self, zero_infinity: bool) -> Self {
        CtcDesc { zero_infinity, ..self }
    }
}

/// One ctc loss. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct CtcProblem {
    pass: CtcPass,
    desc: CtcDesc,
    x: TensorDesc,
    target: TensorDesc,
    x_lengths: TensorDesc,
    target_lengths: TensorDesc,
    /// loss, or dloss backward.
    loss: TensorDesc,
    dx: Option<TensorDesc>,
}

impl CtcProblem {
    /// `loss = alpha · loss(x, target) + beta · loss`, of x `[T, N, C]`, targets `[N, S]` and lengths `[N]`.
    ///
    /// # Errors
    /// `BadDescriptor` for extents or types that do not fit each other, a blank that is no class, or an output that
    /// overlaps itself.
    pub fn forward(
        desc: CtcDesc,
        x: &TensorDesc,
        target: &TensorDesc,
        x_lengths: &TensorDesc,
        target_lengths: &TensorDesc,
        loss: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(CtcPass::Forward, desc, x, target, [x_lengths, target_lengths], loss, None)
    }

    /// `dx = alpha · (gradient of Σ dloss · loss by x) + beta · dx`. Everything is computed anew from x.
    ///
    /// # Errors
    /// As [`CtcProblem::forward`].
    pub fn backward(
        desc: CtcDesc,
        x: &TensorDesc,
        target: &TensorDesc,
        x_lengths: &TensorDesc,
        target_lengths: &TensorDesc,
        dloss: &TensorDesc,
        dx: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        Self::new(CtcPass::Backward, desc, x, target, [x_lengths, target_lengths], dloss, Some(dx))
    }

    fn new(
        pass: CtcPass,
        desc: CtcDesc,
        x: &TensorDesc,
        target: &TensorDesc,
        [x_lengths, target_lengths]: [&TensorDesc; 2],
        loss: &TensorDesc,
        dx: Option<&TensorDesc>,
    ) -> Result<Self, BadDescriptor> {
        let bad = |argument: &str, reason: String| Err(BadDescriptor::new(OP, argument, reason));
        let &[_, n_sequences, n_classes] = x.dims() else {
            return bad("x", format!("expected rank 3, [T, N, C], given {}", x.rank()));
        };
        general_dtype(OP, "x", x)?;
        if !(0..n_classes).contains(&desc.blank) {
            return bad("blank", format!("expected one of {n_classes} classes, given {}", desc.blank));
        }
        match target.dims() {
            &[n, _] if n == n_sequences => {}
            dims => {
                let expected =
                    format!("expected [N, S], as many sequences as x, {n_sequences}, with room for as many labels");
                return bad("target", format!("{expected}, given {}", join(dims)));
            }
        }
        let per_sequence = |name: &str, given: &TensorDesc| {
            if given.dims() == [n_sequences] {
                return Ok(());
            }
            let reason = format!("expected one number a sequence, {n_sequences}, given {}", join(given.dims()));
            Err(BadDescriptor::new(OP, name, reason))
        };
        for (name, index) in [("target", target), ("x_lengths", x_lengths), ("target_lengths", target_lengths)] {
            if !matches!(index.dtype(), DType::I32 | DType::I64) {
                return bad(name, format!("expected i32 or i64, given {}", index.dtype()));
            }
        }
        per_sequence("x_lengths", x_lengths)?;
        per_sequence("target_lengths", target_lengths)?;
        let loss_name = if pass == CtcPass::Forward { "loss" } else { "dloss" };
        if desc.reduction == LossReduction::None {
            per_sequence(loss_name, loss)?;
        } else if loss.dims() != [1] {
            return bad(loss_name, format!("expected one number, given {}", join(loss.dims())));
        }
        same_or_accumulator_dtype(OP, loss_name, loss, "x", x)?;
        match dx {
            None => no_overlap(OP, "loss", loss)?,
            Some(dx) => {
                same_dims(OP, "dx", dx, "x", x)?;
                same_dtype(OP, "dx", dx, "x", x)?;
                no_overlap(OP, "dx", dx)?;
            }
        }
        Ok(CtcProblem {
            pass,
            desc,
            x: *x,
            target: *target,
            x_lengths: *x_lengths,
            target_lengths: *target_lengths,
            loss: *loss,
            dx: dx.copied(),
        })
    }

    /// What x holds.
    pub fn input(&self) -> CrossEntropyInput {
        self.desc.input
    }

    /// What becomes of the sequences' losses.
    pub fn reduction(&self) -> LossReduction {
        self.desc.reduction
    }

    /// The class that is no label.
    pub fn blank(&self) -> i64 {
        self.desc.blank
    }

    /// Whether infinite losses count as 0.
    pub fn zero_infinity(&self) -> bool {
        self.desc.zero_infinity
    }

    /// x.
    pub fn x(&self) -> &TensorDesc {
        &self.x
    }

    /// Labels.
    pub fn target(&self) -> &TensorDesc {
        &self.target
    }

    /// Steps of each sequence.
    pub fn x_lengths(&self) -> &TensorDesc {
        &self.x_lengths
    }

    /// Labels of each sequence.
    pub fn target_lengths(&self) -> &TensorDesc {
        &self.target_lengths
    }

    /// The loss, or dloss backward.
    pub fn loss(&self) -> &TensorDesc {
        &self.loss
    }

    /// dx, backward only.
    pub fn dx(&self) -> Option<&TensorDesc> {
        self.dx.as_ref()
    }

    /// T, N and C.
    pub fn extents(&self) -> [i64; 3] {
        [self.x.dims()[0], self.x.dims()[1], self.x.dims()[2]]
    }

    /// Labels that there is room for in a sequence.
    pub fn n_labels(&self) -> i64 {
        self.target.dims()[1]
    }

    /// States of a sequence with as many labels as there is room for.
    pub fn n_states(&self) -> i64 {
        2 * self.n_labels() + 1
    }
}

impl Problem for CtcProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        let [n_steps, _, n_classes] = self.extents();
        let upto = |high| Domain::Integers { low: 0, high };
        let mut operands = vec![
            Operand::input("x", self.x),
            Operand::input("target", self.target).holding(upto(n_classes - 1)),
            Operand::input("x_lengths", self.x_lengths).holding(upto(n_steps)),
            Operand::input("target_lengths", self.target_lengths).holding(upto(self.n_labels())),
        ];
        match self.dx {
            None => operands.push(Operand::output("loss", self.loss)),
            Some(dx) => operands.extend([Operand::input("dloss", self.loss), Operand::output("dx", dx)]),
        }
        operands
    }

    fn flops(&self) -> f64 {
        let [n_steps, n_sequences, n_classes] = self.extents();
        let states = if self.dx.is_some() { 3 } else { 1 } * self.n_states();
        (n_steps * n_sequences) as f64 * (5 * n_classes + 12 * states) as f64
    }

    fn accumulation_length(&self) -> f64 {
        // Errors of T sums, each of which is relative to a logarithm that grows with T.
        let [n_steps, n_sequences, n_classes] = self.extents();
        (n_steps * n_steps + n_sequences + n_classes) as f64
    }
}

impl fmt::Display for CtcProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CtcDesc { input, reduction, blank, zero_infinity } = self.desc;
        write!(f, "{OP}:{} input={input} reduction={reduction} blank={blank}", self.pass)?;
        write!(f, " zero_infinity={}", u32::from(zero_infinity))?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for CtcProblem {
    type Err = BadDescriptor;

    /// Defaults are those of [`CtcDesc`]; left-out lengths are i32, a left-out loss is packed, of the accumulator
    /// type, and a left-out dx like x.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass = fields.parse_pass()?;
        let desc = CtcDesc {
            input: fields.take_optional("input")?.unwrap_or_default(),
            reduction: fields.take_optional("reduction")?.unwrap_or_default(),
            blank: fields.take_optional("blank")?.unwrap_or(0),
            zero_infinity: crate::step::take_flag(OP, &mut fields, "zero_infinity", false)?,
        };
        let x = fields.take_tensor("x")?;
        let target = fields.take_tensor("target")?;
        let n = x.dims().get(1).copied().unwrap_or(1);
        let mut take = |key, dtype, n: i64| match fields.take_optional(key)? {
            Some(desc) => Ok(desc),
            None => TensorDesc::packed(dtype, &[n]),
        };
        let x_lengths = take("x_lengths", DType::I32, n)?;
        let target_lengths = take("target_lengths", DType::I32, n)?;
        let n_losses = if desc.reduction == LossReduction::None { n } else { 1 };
        let loss_name = if pass == CtcPass::Forward { "loss" } else { "dloss" };
        let loss = take(loss_name, x.dtype().accumulator(), n_losses)?;
        let problem = match pass {
            CtcPass::Forward => Self::forward(desc, &x, &target, &x_lengths, &target_lengths, &loss),
            CtcPass::Backward => {
                let dx = fields.take_optional("dx")?.unwrap_or(x);
                Self::backward(desc, &x, &target, &x_lengths, &target_lengths, &loss, &dx)
            }
        }?;
        fields.finish()?;
        Ok(problem)
    }
}
