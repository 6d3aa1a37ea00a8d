//! The normalization problem.

use super::{NormDesc, NormMode, NormPass, OP, Sharing};
use crate::DType;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::ops::activation::ActivationMode;
use crate::problem::{Domain, Operand, Problem, general_dtype, no_overlap, same_dims, same_dtype};
use crate::text::join;

/// The tensors of a normalization that may be left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct NormTensors {
    pub(super) scale: Option<TensorDesc>,
    pub(super) bias: Option<TensorDesc>,
    pub(super) z: Option<TensorDesc>,
    pub(super) y: Option<TensorDesc>,
    pub(super) dz: Option<TensorDesc>,
    pub(super) dscale: Option<TensorDesc>,
    pub(super) dbias: Option<TensorDesc>,
    pub(super) running: Option<TensorDesc>,
    pub(super) statistics: bool,
}

impl NormTensors {
    /// None of them.
    pub fn new() -> Self {
        Self::default()
    }

    /// A factor for each parameter.
    pub fn scale(mut self, scale: &TensorDesc) -> Self {
        self.scale = Some(*scale);
        self
    }

    /// A summand for each parameter.
    pub fn bias(mut self, bias: &TensorDesc) -> Self {
        self.bias = Some(*bias);
        self
    }

    /// Forward and inference: a tensor that is added before the activation.
    pub fn residual(mut self, z: &TensorDesc) -> Self {
        self.z = Some(*z);
        self
    }

    /// Running mean and variance, both of this form: updated by forward and finalize, read by inference.
    pub fn running(mut self, running: &TensorDesc) -> Self {
        self.running = Some(*running);
        self
    }

    /// Mean and inverse standard deviation: written by forward, read by backward.
    pub fn statistics(mut self) -> Self {
        self.statistics = true;
        self
    }

    /// Backward: the result of forward, which an activation's derivative follows from.
    pub fn result(mut self, y: &TensorDesc) -> Self {
        self.y = Some(*y);
        self
    }

    /// Backward: the gradient of the residual.
    pub fn dresidual(mut self, dz: &TensorDesc) -> Self {
        self.dz = Some(*dz);
        self
    }

    /// Backward: the gradient of scale.
    pub fn dscale(mut self, dscale: &TensorDesc) -> Self {
        self.dscale = Some(*dscale);
        self
    }

    /// Backward: the gradient of bias.
    pub fn dbias(mut self, dbias: &TensorDesc) -> Self {
        self.dbias = Some(*dbias);
        self
    }

    /// Refuses those that a pass has no use for.
    fn only(&self, pass: NormPass, known: &[&str]) -> Result<(), BadDescriptor> {
        let given = [
            ("scale", self.scale.is_some()),
            ("bias", self.bias.is_some()),
            ("z", self.z.is_some()),
            ("y", self.y.is_some()),
            ("dz", self.dz.is_some()),
            ("dscale", self.dscale.is_some()),
            ("dbias", self.dbias.is_some()),
            ("running_mean", self.running.is_some()),
            ("mean", self.statistics),
        ];
        match given.into_iter().find(|(name, given)| *given && !known.contains(name)) {
            None => Ok(()),
            Some((name, _)) => {
                let reason = format!("expected only {} beside the others of {pass}, given {name}", known.join(", "));
                Err(BadDescriptor::new(OP, name, reason))
            }
        }
    }
}

/// One normalization. See the [module](super) for the formula.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NormProblem {
    pub(super) pass: NormPass,
    pub(super) desc: NormDesc,
    /// x; of finalize, the sums.
    pub(super) x: TensorDesc,
    pub(super) dy: Option<TensorDesc>,
    /// y or dx; of finalize, the mean.
    pub(super) out: TensorDesc,
    pub(super) tensors: NormTensors,
    /// Elements of a row.
    pub(super) count: i64,
}

impl NormProblem {
    /// `y = alpha · act(x̂ · scale + bias + z) + beta · y` with the statistics of x.
    ///
    /// # Errors
    /// `BadDescriptor` for an illegal descriptor, dimensions that the mode lacks, extents or types that do not fit,
    /// tensors that this pass has no use for, or outputs that overlap themselves.
    pub fn forward(
        desc: &NormDesc,
        x: &TensorDesc,
        y: &TensorDesc,
        tensors: &NormTensors,
    ) -> Result<Self, BadDescriptor> {
        tensors.only(NormPass::Forward, &["scale", "bias", "z", "running_mean", "mean"])?;
        Self::new(NormPass::Forward, desc, x, None, y, tensors)
    }

    /// The same with running statistics, or without any.
    ///
    /// # Errors
    /// As [`NormProblem::forward`]; also for a mode whose rows are not the same for every batch.
    pub fn inference(
        desc: &NormDesc,
        x: &TensorDesc,
        y: &TensorDesc,
        tensors: &NormTensors,
    ) -> Result<Self, BadDescriptor> {
        tensors.only(NormPass::Inference, &["scale", "bias", "z", "running_mean"])?;
        if !desc.mode.has_running_statistics() {
            let reason = format!("expected batch or per_activation for inference, given {}", desc.mode.name());
            return Err(BadDescriptor::new(OP, "mode", reason));
        }
        Self::new(NormPass::Inference, desc, x, None, y, tensors)
    }

    /// `dx`, and whichever of `dz`, `dscale` and `dbias` are among the tensors. `scale` must be there if forward had it.
    ///
    /// # Errors
    /// As [`NormProblem::forward`]; also for `swish`, whose derivative does not follow from its value, for an activation
    /// without y, and for a dscale without scale.
    pub fn backward(
        desc: &NormDesc,
        x: &TensorDesc,
        dy: &TensorDesc,
        dx: &TensorDesc,
        tensors: &NormTensors,
    ) -> Result<Self, BadDescriptor> {
        tensors.only(NormPass::Backward, &["scale", "y", "dz", "dscale", "dbias", "mean"])?;
        match (desc.activation, tensors.y) {
            (ActivationMode::Swish, _) => {
                let reason = "expected an activation whose derivative follows from its value, given swish";
                return Err(BadDescriptor::new(OP, "act", reason));
            }
            (ActivationMode::Identity, Some(_)) => {
                return Err(BadDescriptor::new(OP, "y", "expected no y without an activation, given one"));
            }
            (ActivationMode::Identity, None) | (_, Some(_)) => {}
            (mode, None) => {
                return Err(BadDescriptor::new(OP, "y", format!("expected y for the activation {mode}, given none")));
            }
        }
        if tensors.dscale.is_some() && tensors.scale.is_none() {
            return Err(BadDescriptor::new(OP, "dscale", "expected no dscale without a scale, given one"));
        }
        Self::new(NormPass::Backward, desc, x, Some(*dy), dx, tensors)
    }

    /// Statistics, and scale and bias that have them in, of channel sums over `count` elements a channel.
    ///
    /// All results have the element type of scale, bias and running statistics: that of the sums where there are none.
    /// Sums in f64 may have results in f32.
    ///
    /// # Errors
    /// `BadDescriptor` for another mode than `batch`, an activation, a count below 1, sums that are no packed vector of
    /// f32 or f64, or tensors of other extents or types.
    pub fn finalize(
        desc: &NormDesc,
        count: i64,
        sum: &TensorDesc,
        tensors: &NormTensors,
    ) -> Result<Self, BadDescriptor> {
        tensors.only(NormPass::Finalize, &["scale", "bias", "running_mean"])?;
        if desc.mode != NormMode::Batch {
            let reason = format!("expected batch for finalize, given {}", desc.mode.name());
            return Err(BadDescriptor::new(OP, "mode", reason));
        }
        if desc.activation != ActivationMode::Identity {
            let reason = format!("expected none for finalize, given {}", desc.activation);
            return Err(BadDescriptor::new(OP, "act", reason));
        }
        if count < 1 {
            return Err(BadDescriptor::new(OP, "count", format!("expected at least 1, given {count}")));
        }
        if sum.rank() != 1 || !sum.is_packed() || !matches!(sum.dtype(), DType::F32 | DType::F64) {
            let reason = format!("expected a packed vector of f32 or f64, given {sum}");
            return Err(BadDescriptor::new(OP, "sum", reason));
        }
        desc.check()?;
        let problem = NormProblem {
            pass: NormPass::Finalize,
            desc: *desc,
            x: *sum,
            dy: None,
            out: TensorDesc::packed(Self::finalized_dtype(sum, tensors), sum.dims())?,
            tensors: *tensors,
            count,
        };
        problem.check_small(&sum.dims()[..1], &sum.dims()[..1])?;
        Ok(problem.without_idle_words())
    }

    /// The element type of all that finalize gives.
    fn finalized_dtype(sum: &TensorDesc, tensors: &NormTensors) -> DType {
        let given = tensors.scale.or(tensors.bias).or(tensors.running);
        given.map(|desc| desc.dtype()).filter(|&dtype| dtype == DType::F32).unwrap_or(sum.dtype())
    }

    fn new(
        pass: NormPass,
        desc: &NormDesc,
        x: &TensorDesc,
        dy: Option<TensorDesc>,
        out: &TensorDesc,
        tensors: &NormTensors,
    ) -> Result<Self, BadDescriptor> {
        desc.check()?;
        general_dtype(OP, "x", x)?;
        desc.mode.check("x", x)?;
        let out_name = if pass == NormPass::Backward { "dx" } else { "y" };
        let others = [("dy", &dy), ("z", &tensors.z), ("y", &tensors.y), ("dz", &tensors.dz)];
        let others = others.into_iter().filter_map(|(name, desc)| desc.as_ref().map(|desc| (name, desc)));
        for (name, desc) in others.chain([(out_name, out)]) {
            same_dims(OP, name, desc, "x", x)?;
            same_dtype(OP, name, desc, "x", x)?;
        }
        no_overlap(OP, out_name, out)?;
        if let Some(dz) = &tensors.dz {
            no_overlap(OP, "dz", dz)?;
        }
        let sharing = Sharing::new(desc.mode, x);
        if tensors.running.is_some() && !desc.mode.has_running_statistics() {
            let reason = format!("expected none for mode {}, given one", desc.mode.name());
            return Err(BadDescriptor::new(OP, "running_mean", reason));
        }
        let count = sharing.row_elems();
        let problem = NormProblem { pass, desc: *desc, x: *x, dy, out: *out, tensors: *tensors, count };
        problem.check_small(&sharing.parameter_extents(), &sharing.statistic_extents())?;
        Ok(problem.without_idle_words())
    }

    /// Checks the tensors that have an element for each parameter or row.
    fn check_small(&self, parameters: &[i64], rows: &[i64]) -> Result<(), BadDescriptor> {
        let t = &self.tensors;
        let (dtype, accumulator) = match self.pass {
            NormPass::Finalize => (self.out.dtype(), self.out.dtype()),
            _ => (self.x.dtype(), self.x.dtype().accumulator()),
        };
        let mut first: Option<(&str, TensorDesc)> = None;
        let all = [("scale", t.scale), ("bias", t.bias), ("dscale", t.dscale), ("dbias", t.dbias)];
        for (name, desc) in all.into_iter().filter_map(|(name, desc)| desc.map(|desc| (name, desc))) {
            check_extents(name, &desc, parameters, "parameters")?;
            check_type(name, &desc, dtype, accumulator)?;
            let (first_name, first_desc) = *first.get_or_insert((name, desc));
            same_dtype(OP, name, &desc, first_name, &first_desc)?;
            if name == "dscale" || name == "dbias" {
                no_overlap(OP, name, &desc)?;
            }
        }
        if let Some(running) = &t.running {
            check_extents("running_mean", running, rows, "rows")?;
            check_type("running_mean", running, dtype, accumulator)?;
            if self.pass != NormPass::Inference {
                no_overlap(OP, "running_mean", running)?;
            }
        }
        Ok(())
    }

    /// With defaults in place of what this problem does not use, so that equal problems are equal.
    fn without_idle_words(mut self) -> Self {
        if !self.updates_running() {
            let default = NormDesc::new(self.desc.mode);
            (self.desc.factor, self.desc.unbiased) = (default.factor, default.unbiased);
        }
        self
    }

    /// Which pass.
    pub fn norm_pass(&self) -> NormPass {
        self.pass
    }

    /// Which elements are normalized together.
    pub fn mode(&self) -> NormMode {
        self.desc.mode
    }

    /// What is added to the variance.
    pub fn epsilon(&self) -> f64 {
        self.desc.epsilon.get()
    }

    /// The activation, `identity` where there is none, and its coefficient.
    pub fn activation(&self) -> (ActivationMode, f64) {
        (self.desc.activation, self.desc.coefficient.get())
    }

    /// Share of the new statistics in the running ones.
    pub fn factor(&self) -> f64 {
        self.desc.factor.get()
    }

    /// Factor of the variance in the running one.
    pub fn correction(&self) -> f64 {
        if self.desc.unbiased && self.count > 1 { self.count as f64 / (self.count - 1) as f64 } else { 1.0 }
    }

    /// Whether running statistics are written.
    pub fn updates_running(&self) -> bool {
        self.tensors.running.is_some() && matches!(self.pass, NormPass::Forward | NormPass::Finalize)
    }

    /// Elements of a row; of finalize, the count given.
    pub fn count(&self) -> i64 {
        self.count
    }

    /// x; of finalize, the sums.
    pub fn x(&self) -> &TensorDesc {
        &self.x
    }

    /// y or dx; of finalize, the mean.
    pub fn out(&self) -> &TensorDesc {
        &self.out
    }

    /// Which elements share what. Not for finalize, which has none.
    pub fn sharing(&self) -> Sharing {
        Sharing::new(self.desc.mode, &self.x)
    }

    /// The operand of this name, if the problem has it, and its place among all.
    pub fn operand(&self, name: &str) -> Option<(usize, TensorDesc)> {
        let operands = self.operands();
        let at = operands.iter().position(|operand| operand.name == name)?;
        Some((at, operands[at].desc))
    }

    /// The form of mean and inverse standard deviation.
    pub fn statistic(&self) -> TensorDesc {
        if self.pass == NormPass::Finalize {
            return self.out;
        }
        let extents = self.sharing().statistic_extents();
        let packed = TensorDesc::packed(self.x.dtype().accumulator(), &extents);
        // Extents of x itself, so their size was judged with it, but for a wider type: then x is as good an answer.
        packed.unwrap_or(self.x)
    }
}

fn check_extents(name: &str, desc: &TensorDesc, expected: &[i64], of: &str) -> Result<(), BadDescriptor> {
    if desc.dims() == expected {
        return Ok(());
    }
    let reason = format!("expected the extents {} of the {of}, given {}", join(expected), join(desc.dims()));
    Err(BadDescriptor::new(OP, name, reason))
}

fn check_type(name: &str, desc: &TensorDesc, x: DType, accumulator: DType) -> Result<(), BadDescriptor> {
    if desc.dtype() == x || desc.dtype() == accumulator {
        return Ok(());
    }
    let reason = format!("expected the element type {x} of x or {accumulator}, given {}", desc.dtype());
    Err(BadDescriptor::new(OP, name, reason))
}

impl Problem for NormProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        let t = &self.tensors;
        let statistic = self.statistic();
        let mean = self.desc.mode.has_mean().then_some(statistic);
        let running = |role: fn(&'static str, TensorDesc) -> Operand| {
            t.running.into_iter().flat_map(move |desc| {
                [role("running_mean", desc), role("running_var", desc).holding(Domain::NonNegative)]
            })
        };
        let input = |name, desc: Option<TensorDesc>| desc.map(|desc| Operand::input(name, desc));
        let output = |name, desc: Option<TensorDesc>| desc.map(|desc| Operand::output(name, desc));
        let affine = input("scale", t.scale).into_iter().chain(input("bias", t.bias));
        let mut operands = Vec::new();
        match self.pass {
            NormPass::Forward => {
                operands.push(Operand::input("x", self.x));
                operands.extend(affine.chain(input("z", t.z)));
                operands.push(Operand::output("y", self.out));
                if t.statistics {
                    operands.extend(mean.map(|mean| Operand::result("mean", mean)));
                    operands.push(Operand::result("inv_std", statistic));
                }
                operands.extend(running(Operand::update));
            }
            NormPass::Inference => {
                operands.push(Operand::input("x", self.x));
                operands.extend(affine.chain(input("z", t.z)).chain(running(Operand::input)));
                operands.push(Operand::output("y", self.out));
            }
            NormPass::Backward => {
                operands.push(Operand::input("x", self.x));
                operands.extend(input("y", t.y).into_iter().chain(input("dy", self.dy)).chain(input("scale", t.scale)));
                if t.statistics {
                    operands.extend(input("mean", mean));
                    operands.push(Operand::input("inv_std", statistic).holding(Domain::NonNegative));
                }
                operands.push(Operand::output("dx", self.out));
                operands.extend(output("dz", t.dz).into_iter().chain(output("dscale", t.dscale)));
                operands.extend(output("dbias", t.dbias));
            }
            NormPass::Finalize => {
                let squares = Operand::input("sum_squares", self.x).holding(Domain::NonNegative);
                operands.extend([Operand::input("sum", self.x), squares]);
                operands.extend(affine);
                let written = ["mean", "inv_std", "eq_scale", "eq_bias"];
                operands.extend(written.map(|name| Operand::result(name, self.out)));
                operands.extend(running(Operand::update));
            }
        }
        operands
    }

    fn flops(&self) -> f64 {
        let per_element = match self.pass {
            NormPass::Forward => 8.0,
            NormPass::Inference => 2.0,
            NormPass::Backward => 12.0,
            NormPass::Finalize => 10.0,
        };
        per_element * self.x.n_elems() as f64
    }

    /// y may be x or z where it is all that is written: a row is read before it is written.
    fn works_in_place(&self) -> bool {
        match self.pass {
            NormPass::Forward => !self.tensors.statistics && !self.updates_running(),
            NormPass::Inference => true,
            NormPass::Backward | NormPass::Finalize => false,
        }
    }

    fn accumulation_length(&self) -> f64 {
        match self.pass {
            NormPass::Forward => self.count as f64,
            NormPass::Backward => self.count.max(self.sharing().param_elems()) as f64,
            NormPass::Inference | NormPass::Finalize => 1.0,
        }
    }
}
