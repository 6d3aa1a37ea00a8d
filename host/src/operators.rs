//! The registry: one row per operator.
//!
//! Everything that enumerates operators or algorithms reads it: the support table, the tests over every algorithm,
//! `oxidnn run` and the benchmarks. The order of an operator's algorithms stands in its own `algorithms.rs`.

use crate::microbatch::{self, BatchSplit, Name, Recalled, Times};
use crate::ops;
use crate::select::{Algorithm, Judged, Refusal, candidates, plan};
use crate::{
    Batch, Candidate, Context, DType, Division, Divisions, Error, MicroBatch, Operand, Plan, PlanRequest, Precision,
    Problem,
};
use kernel_abi::BadDescriptor;
use std::sync::Mutex;

/// An operator: a problem with algorithms for it.
// The list of algorithms is the library's own business, so the trait cannot be implemented outside of it.
#[allow(private_interfaces)]
pub trait Operation: Problem {
    /// Its passes.
    const PASSES: &'static [&'static str];
    /// Element types that some algorithm takes.
    const DTYPES: &'static [DType];
    /// Its methods, best first, naive last.
    #[doc(hidden)]
    fn algorithms() -> &'static [&'static dyn Algorithm<Self>];
    /// What each operand is to a part of the batch, or why there are no parts.
    #[doc(hidden)]
    fn batch_split(&self) -> Result<BatchSplit, Refusal>;
}

/// A problem of any operator.
// What is known of parts is the library's own business.
#[allow(private_interfaces)]
pub trait AnyProblem: Send + Sync {
    /// Its text form.
    fn text(&self) -> String;
    /// Its operator.
    fn op(&self) -> &'static str;
    /// Its pass.
    fn pass(&self) -> &'static str;
    /// The tensors a run takes.
    fn operands(&self) -> Vec<Operand>;
    /// Floating-point operations.
    fn flops(&self) -> f64;
    /// See [`Problem::bytes`].
    fn bytes(&self) -> f64;
    /// See [`Problem::accumulation_length`].
    fn accumulation_length(&self) -> f64;
    /// See [`Problem::precision`].
    fn precision(&self) -> Precision;
    /// See [`Context::plan`].
    ///
    /// # Errors
    /// As there.
    fn plan(&self, context: &Context, request: &PlanRequest) -> Result<Plan, Error>;
    /// Every algorithm's verdict on this problem.
    fn candidates(&self, context: &Context) -> Vec<Candidate>;
    /// The divisions of the batch that are worth having: those that no other is better than in time and workspace.
    ///
    /// # Errors
    /// From measurements: `OutOfMemory`, `StaleKernels`, `Driver`.
    fn divisions(&self, context: &Context, request: &PlanRequest) -> Result<Divisions, Error>;
    /// Its batch, as far as parts of it can be computed one after the other.
    ///
    /// # Errors
    /// `Unsupported` with the reason where they cannot.
    fn batch(&self, context: &Context) -> Result<Batch, Error>;
    /// A part of so many images of the batch with its algorithm, by name, and the estimate of its time.
    ///
    /// # Errors
    /// `Unsupported` where the batch has no such part, or the algorithm does not compute it.
    fn micro_batch(&self, context: &Context, images: i64, algorithm: &str, config: &str) -> Result<MicroBatch, Error>;
    /// The error for a limit of workspace that nothing is within: with what is needed at least.
    fn none_within(&self, context: &Context, request: &PlanRequest) -> Error;
    /// The plan of one of them.
    ///
    /// # Errors
    /// `Unsupported` for a division of another problem; `StaleKernels`, `Driver`.
    fn plan_division(&self, context: &Context, division: &Division) -> Result<Plan, Error>;
    /// What is known of the batch's parts without measuring.
    #[doc(hidden)]
    fn recall(&self, context: &Context, request: &PlanRequest) -> Recalled;
    /// The same of one part: its verdicts, and the places of candidates that are still to be measured.
    #[doc(hidden)]
    fn recall_part(&self, context: &Context, images: i64, request: &PlanRequest) -> (Judged, Vec<usize>);
    /// Measures a part of the batch: these candidates, or all that its other parts' times leave.
    #[doc(hidden)]
    fn measure_part(
        &self,
        context: &Context,
        part: (i64, Option<&[Name]>),
        request: &PlanRequest,
        times: &Mutex<Times>,
    ) -> Result<(), Error>;
}

#[allow(private_interfaces)]
impl<P: Operation> AnyProblem for P {
    fn text(&self) -> String {
        self.to_string()
    }
    fn op(&self) -> &'static str {
        P::OP
    }
    fn pass(&self) -> &'static str {
        Problem::pass(self)
    }
    fn operands(&self) -> Vec<Operand> {
        Problem::operands(self)
    }
    fn flops(&self) -> f64 {
        Problem::flops(self)
    }
    fn bytes(&self) -> f64 {
        Problem::bytes(self)
    }
    fn accumulation_length(&self) -> f64 {
        Problem::accumulation_length(self)
    }
    fn precision(&self) -> Precision {
        Problem::precision(self)
    }
    fn plan(&self, context: &Context, request: &PlanRequest) -> Result<Plan, Error> {
        plan(context, self, request)
    }
    fn candidates(&self, context: &Context) -> Vec<Candidate> {
        candidates(context, self, None)
    }
    fn divisions(&self, context: &Context, request: &PlanRequest) -> Result<Divisions, Error> {
        microbatch::divisions(context, self, request)
    }
    fn batch(&self, context: &Context) -> Result<Batch, Error> {
        microbatch::batch(context, self)
    }
    fn micro_batch(&self, context: &Context, images: i64, algorithm: &str, config: &str) -> Result<MicroBatch, Error> {
        microbatch::micro_batch(context, self, images, (algorithm, config))
    }
    fn none_within(&self, context: &Context, request: &PlanRequest) -> Error {
        microbatch::none_within(context, self, request)
    }
    fn plan_division(&self, context: &Context, division: &Division) -> Result<Plan, Error> {
        microbatch::plan_division(context, self, division)
    }
    fn recall(&self, context: &Context, request: &PlanRequest) -> Recalled {
        microbatch::recall(context, self, request)
    }
    fn recall_part(&self, context: &Context, images: i64, request: &PlanRequest) -> (Judged, Vec<usize>) {
        microbatch::recall_part(context, self, images, request)
    }
    fn measure_part(
        &self,
        context: &Context,
        part: (i64, Option<&[Name]>),
        request: &PlanRequest,
        times: &Mutex<Times>,
    ) -> Result<(), Error> {
        microbatch::measure_part(context, self, part, request, times)
    }
}

/// A row of the registry.
#[derive(Clone, Copy)]
pub struct Operator {
    /// The first word of its problems' texts.
    pub name: &'static str,
    /// Its passes.
    pub passes: &'static [&'static str],
    /// Element types that some algorithm takes.
    pub dtypes: &'static [DType],
    algorithms: fn() -> Vec<&'static str>,
    parse: fn(&str) -> Result<Box<dyn AnyProblem>, BadDescriptor>,
}

impl Operator {
    /// Names of its algorithms, best first, naive last.
    pub fn algorithms(&self) -> Vec<&'static str> {
        (self.algorithms)()
    }

    /// Reads a problem of this operator.
    ///
    /// # Errors
    /// `BadDescriptor`.
    pub fn parse(&self, text: &str) -> Result<Box<dyn AnyProblem>, BadDescriptor> {
        (self.parse)(text)
    }
}

fn row<P: Operation>() -> Operator {
    Operator {
        name: P::OP,
        passes: P::PASSES,
        dtypes: P::DTYPES,
        algorithms: || P::algorithms().iter().map(|algorithm| algorithm.name()).collect(),
        parse: |text| Ok(Box::new(text.parse::<P>()?)),
    }
}

/// Every operator.
pub fn operators() -> Vec<Operator> {
    vec![
        row::<ops::activation::ActivationProblem>(),
        row::<ops::adam::AdamProblem>(),
        row::<ops::affinegrid::AffineGridProblem>(),
        row::<ops::bias::BiasProblem>(),
        row::<ops::conv::ConvProblem>(),
        row::<ops::crossentropy::CrossEntropyProblem>(),
        row::<ops::ctc::CtcProblem>(),
        row::<ops::dropout::DropoutProblem>(),
        row::<ops::gather::GatherProblem>(),
        row::<ops::gridsample::GridSampleProblem>(),
        row::<ops::lrn::LrnProblem>(),
        row::<ops::matmul::MatmulProblem>(),
        row::<ops::norm::NormProblem>(),
        row::<ops::pad::PadProblem>(),
        row::<ops::pointwise::PointwiseProblem>(),
        row::<ops::pool::PoolProblem>(),
        row::<ops::reduce::ReduceProblem>(),
        row::<ops::resample::ResampleProblem>(),
        row::<ops::sgd::SgdProblem>(),
        row::<ops::softmax::SoftmaxProblem>(),
        row::<ops::transform::TransformProblem>(),
        row::<ops::unpool::UnpoolProblem>(),
    ]
}

/// Reads a problem of any operator.
///
/// # Errors
/// `BadDescriptor` for an unknown operator or an illegal problem.
pub fn parse_problem(text: &str) -> Result<Box<dyn AnyProblem>, BadDescriptor> {
    let head = text.split_whitespace().next().unwrap_or_default();
    let name = head.split(':').next().unwrap_or_default();
    let operators = operators();
    match operators.iter().find(|operator| operator.name == name) {
        Some(operator) => operator.parse(text),
        None => {
            let known = operators.iter().map(|operator| operator.name).collect::<Vec<_>>().join(", ");
            Err(BadDescriptor::new("problem", "op", format!("expected one of {known}, given {name:?}")))
        }
    }
}
