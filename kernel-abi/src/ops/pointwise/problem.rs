//! The pointwise problem and its text form.

use super::{Argument, INPUT_NAMES, MAX_INPUTS, MAX_STEPS, PointwisePass, Step, StepOp};
use crate::cast::is_whole;
use crate::desc::{BadDescriptor, TensorDesc};
use crate::problem::{Coefficient, Operand, Problem, no_overlap};
use crate::text::{Fields, join};
use crate::{Cast, DType};
use std::fmt;
use std::str::FromStr;

const OP: &str = "pointwise";

/// One pointwise operation, or a chain of them. See the [module](super) for the formulas.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PointwiseProblem {
    pass: PointwisePass,
    steps: Vec<Step>,
    factors: [Coefficient; 2],
    inputs: Vec<TensorDesc>,
    c: TensorDesc,
    cast: Cast,
}

impl PointwiseProblem {
    /// `c = alpha · op(a, b) + beta · c`, for operations of two inputs.
    ///
    /// # Errors
    /// `BadDescriptor` for an operation of other arity, ranks that differ, an extent that is neither 1 nor c's, or a `c`
    /// that overlaps itself.
    pub fn binary(pass: PointwisePass, a: &TensorDesc, b: &TensorDesc, c: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::single(pass, &[*a, *b], None, c)
    }

    /// `c = alpha · op(a) + beta · c`, for operations of one input.
    ///
    /// # Errors
    /// As [`PointwiseProblem::binary`].
    pub fn unary(pass: PointwisePass, a: &TensorDesc, c: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::single(pass, &[*a], None, c)
    }

    /// `c = alpha · (a where t is not 0, else b) + beta · c`.
    ///
    /// # Errors
    /// As [`PointwiseProblem::binary`].
    pub fn select(a: &TensorDesc, b: &TensorDesc, t: &TensorDesc, c: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::single(PointwisePass::Select, &[*a, *b, *t], None, c)
    }

    /// `c = alpha · value + beta · c`.
    ///
    /// # Errors
    /// `BadDescriptor` for a `c` that overlaps itself.
    pub fn set(value: f64, c: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::single(PointwisePass::Set, &[], Some(value), c)
    }

    /// `c = alpha · (index along an axis) + beta · c`.
    ///
    /// # Errors
    /// `BadDescriptor` for an axis that c does not have, or a `c` that overlaps itself.
    pub fn gen_index(axis: usize, c: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::single(PointwisePass::GenIndex, &[], Some(axis as f64), c)
    }

    /// `c = alpha · (what the steps make of the first input) + beta · c`.
    ///
    /// ```
    /// use kernel_abi::ops::pointwise::PointwiseProblem;
    /// let [x, bias, y] = ["8x64x28x28:f16:nhwc", "1x64x1x1:f32", "8x64x28x28:f16:nhwc"].map(|text| text.parse().unwrap());
    /// let steps = ["add:b", "gelu", "add:t"].map(|text| text.parse().unwrap());
    /// let problem = PointwiseProblem::chain(&steps, &[x, bias, x], &y).unwrap();
    /// assert_eq!(
    ///     problem.to_string(),
    ///     "pointwise:chain steps=add:_:b,gelu:_,add:_:t alpha_a=1 alpha_b=1 a=8x64x28x28:f16:nhwc b=1x64x1x1:f32 \
    ///      t=8x64x28x28:f16:nhwc c=8x64x28x28:f16:nhwc"
    /// );
    /// ```
    ///
    /// # Errors
    /// `BadDescriptor` for no or too many steps or inputs, an argument that is no input, an input that no step uses, a
    /// bad parameter of an activation, and as [`PointwiseProblem::binary`].
    pub fn chain(steps: &[Step], inputs: &[TensorDesc], c: &TensorDesc) -> Result<Self, BadDescriptor> {
        Self::new(PointwisePass::Chain, steps.to_vec(), inputs, c)
    }

    /// Sets the factors of a and b, 1 by default.
    pub fn scaled(self, alpha_a: f64, alpha_b: f64) -> Self {
        let factor = |i: usize, given: f64| Coefficient::new(if i < self.inputs.len() { given } else { 1.0 });
        PointwiseProblem { factors: [factor(0, alpha_a), factor(1, alpha_b)], ..self }
    }

    /// Stores integers by another rule than [`Cast::PLAIN`].
    pub fn with_cast(self, cast: Cast) -> Self {
        PointwiseProblem { cast, ..self }
    }

    /// How numbers become integers in c.
    pub fn cast(&self) -> Cast {
        self.cast
    }

    /// One operation of inputs, or of a number.
    fn single(
        pass: PointwisePass,
        inputs: &[TensorDesc],
        number: Option<f64>,
        c: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        if pass == PointwisePass::Chain || inputs.len() != pass.n_inputs() {
            let reason = format!("expected {} inputs for {pass}, given {}", pass.n_inputs(), inputs.len());
            return Err(BadDescriptor::new(OP, "pass", reason));
        }
        let arguments: Vec<Argument> = match number {
            Some(number) => vec![number.into()],
            None => (0..inputs.len()).map(Argument::Input).collect(),
        };
        let step = Step::new(StepOp::Pointwise(pass), &arguments);
        Self::new(pass, vec![step.map_err(|reason| BadDescriptor::new(OP, "pass", reason))?], inputs, c)
    }

    fn new(
        pass: PointwisePass,
        steps: Vec<Step>,
        inputs: &[TensorDesc],
        c: &TensorDesc,
    ) -> Result<Self, BadDescriptor> {
        let bad = |argument: &str, reason: String| Err(BadDescriptor::new(OP, argument, reason));
        if steps.is_empty() || steps.len() > MAX_STEPS {
            return bad("steps", format!("expected 1 to {MAX_STEPS} steps, given {}", steps.len()));
        }
        let mut is_used = [false; MAX_INPUTS];
        is_used[0] = true;
        let mut indices = 0;
        for step in &steps {
            for argument in step.arguments() {
                if let Argument::Input(input) = *argument {
                    if input >= inputs.len().min(MAX_INPUTS) {
                        return bad("steps", format!("expected one of {} inputs in {step}", inputs.len()));
                    }
                    is_used[input] = true;
                }
            }
            match (step.op(), &step.arguments()[0]) {
                (StepOp::Activation(activation) | StepOp::ActivationBackward(activation), _) => activation.check(OP)?,
                (StepOp::Pointwise(PointwisePass::GenIndex), Argument::Number(axis)) => {
                    indices += 1;
                    if axis.get().fract() != 0.0 || axis.get() < 0.0 || axis.get() >= c.rank() as f64 {
                        return bad("axis", format!("expected an axis below the rank {} of c, given {axis}", c.rank()));
                    }
                }
                _ => {}
            }
        }
        if inputs.len() + indices > MAX_INPUTS || (pass == PointwisePass::Chain && inputs.is_empty()) {
            let reason = format!("expected 1 to {MAX_INPUTS} inputs and indices, given {}", inputs.len() + indices);
            return bad("steps", reason);
        }
        if let Some(unused) = (0..inputs.len()).find(|&i| !is_used[i]) {
            return bad(INPUT_NAMES[unused], "expected an input that a step uses".to_owned());
        }
        for (name, desc) in INPUT_NAMES.iter().zip(inputs) {
            let fits = desc.rank() == c.rank() && desc.dims().iter().zip(c.dims()).all(|(d, c)| *d == 1 || d == c);
            if !fits {
                let (expected, given) = (join(c.dims()), join(desc.dims()));
                return bad(name, format!("expected the extents {expected} of c, or 1 in their place, given {given}"));
            }
        }
        no_overlap(OP, "c", c)?;
        Ok(PointwiseProblem {
            pass,
            steps,
            factors: [Coefficient::new(1.0); 2],
            inputs: inputs.to_vec(),
            c: *c,
            cast: Cast::PLAIN,
        })
    }

    /// Which operation.
    pub fn pointwise_pass(&self) -> PointwisePass {
        self.pass
    }

    /// What is done with the first input; of a single operation, the operation itself.
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// Factors of a and b.
    pub fn alphas(&self) -> (f64, f64) {
        (self.factors[0].get(), self.factors[1].get())
    }

    /// The factor of an input.
    pub fn factor(&self, input: usize) -> f64 {
        self.factors.get(input).map_or(1.0, |factor| factor.get())
    }

    /// The inputs.
    pub fn inputs(&self) -> &[TensorDesc] {
        &self.inputs
    }

    /// The output.
    pub fn c(&self) -> &TensorDesc {
        &self.c
    }

    /// Whether every operand is an integer: quotients are, too, then.
    pub fn is_integral(&self) -> bool {
        self.inputs.iter().chain([&self.c]).all(|desc| desc.dtype().is_integer())
    }

    /// What it is computed in.
    pub fn computing(&self) -> DType {
        let dtypes = self.inputs.iter().chain([&self.c]).map(TensorDesc::dtype);
        let whole = self.factors.iter().all(|factor| is_whole(factor.get())) && self.steps.iter().all(Step::is_whole);
        if whole { DType::computing_exactly(dtypes) } else { DType::computing(dtypes) }
    }

    /// The axes of `gen_index` steps, in their order.
    pub fn index_axes(&self) -> impl Iterator<Item = usize> {
        self.steps.iter().filter_map(|step| match (step.op(), step.arguments()) {
            (StepOp::Pointwise(PointwisePass::GenIndex), [Argument::Number(axis)]) => Some(axis.get() as usize),
            _ => None,
        })
    }

    /// An input with c's extents: stride 0 where it is repeated.
    pub fn repeated(&self, input: &TensorDesc) -> TensorDesc {
        let strides: Vec<i64> = (0..input.rank())
            .map(|i| if input.dims()[i] == self.c.dims()[i] { input.strides()[i] } else { 0 })
            .collect();
        // The extents are c's, and the span is the input's: both are legal.
        TensorDesc::strided(input.dtype(), self.c.dims(), &strides).unwrap_or(*input)
    }
}

impl Problem for PointwiseProblem {
    const OP: &'static str = OP;

    fn pass(&self) -> &'static str {
        self.pass.name()
    }

    fn operands(&self) -> Vec<Operand> {
        let inputs = INPUT_NAMES.iter().zip(&self.inputs).map(|(name, desc)| Operand::input(name, *desc));
        inputs.chain([Operand::output("c", self.c)]).collect()
    }

    fn flops(&self) -> f64 {
        self.c.n_elems() as f64 * self.steps.len() as f64
    }

    fn works_in_place(&self) -> bool {
        true
    }
}

impl fmt::Display for PointwiseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{OP}:{}", self.pass)?;
        if self.pass == PointwisePass::Chain {
            let steps: Vec<String> = self.steps.iter().map(Step::to_string).collect();
            write!(f, " steps={}", steps.join(","))?;
        }
        for (name, factor) in INPUT_NAMES.iter().zip(self.factors).take(self.inputs.len()) {
            write!(f, " alpha_{name}={factor}")?;
        }
        let key = match self.pass {
            PointwisePass::Set => "value",
            PointwisePass::GenIndex => "axis",
            _ => "",
        };
        if let (false, Argument::Number(number)) = (key.is_empty(), self.steps[0].arguments()[0]) {
            write!(f, " {key}={number}")?;
        }
        crate::text::write_cast(f, self.cast)?;
        crate::problem::write_operands(f, self)
    }
}

impl FromStr for PointwiseProblem {
    type Err = BadDescriptor;

    /// Factors are 1 and the value 0 unless given; a left-out `c` is like `a`.
    fn from_str(text: &str) -> Result<Self, BadDescriptor> {
        let mut fields = Fields::parse(OP, text)?;
        let pass: PointwisePass = fields.parse_pass()?;
        let steps = fields.take_word("steps");
        let alpha_a = fields.take_optional("alpha_a")?.unwrap_or(1.0);
        let alpha_b = fields.take_optional("alpha_b")?.unwrap_or(1.0);
        let number = match pass {
            PointwisePass::Set => Some(fields.take_optional("value")?.unwrap_or(0.0)),
            PointwisePass::GenIndex => Some(fields.take::<usize>("axis")? as f64),
            _ => None,
        };
        let mut inputs: Vec<TensorDesc> = Vec::new();
        for (i, name) in INPUT_NAMES.into_iter().enumerate() {
            let Some(desc) = fields.take_optional(name)? else { continue };
            if i != inputs.len() {
                let reason = format!("expected {name}=… behind {}=…", INPUT_NAMES[i - 1]);
                return Err(BadDescriptor::new(OP, name, reason));
            }
            inputs.push(desc);
        }
        let c = match (fields.take_optional("c")?, inputs.first()) {
            (Some(c), _) => c,
            (None, Some(a)) => *a,
            (None, None) => return Err(BadDescriptor::new(OP, "c", "expected c=…, given nothing")),
        };
        let cast = fields.take_cast()?;
        fields.finish()?;
        let problem = match (pass, steps) {
            (PointwisePass::Chain, Some(steps)) => {
                let steps = steps.split(',').map(Step::from_str).collect::<Result<Vec<_>, _>>();
                let steps = steps.map_err(|reason| BadDescriptor::new(OP, "steps", reason))?;
                Self::chain(&steps, &inputs, &c)
            }
            (PointwisePass::Chain, None) => {
                Err(BadDescriptor::new(OP, "steps", "expected steps=… of a chain, given nothing"))
            }
            (_, Some(steps)) => {
                Err(BadDescriptor::new(OP, "steps", format!("expected steps of a chain only, given {steps:?}")))
            }
            (_, None) => Self::single(pass, &inputs, number, &c),
        }?;
        Ok(problem.scaled(alpha_a, alpha_b).with_cast(cast))
    }
}
