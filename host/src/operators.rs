//! The registry: one row per operator.
//!
//! Everything that enumerates operators or algorithms reads it: the support table, the tests over every algorithm,
//! `oxidnn run` and the benchmarks. The order of an operator's algorithms stands in its own `algorithms.rs`.

use crate::ops;
use crate::select::{Algorithm, candidates, plan};
use crate::{Candidate, Context, DType, Error, Operand, Plan, PlanRequest, Precision, Problem};
use kernel_abi::BadDescriptor;

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
}

/// A problem of any operator.
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
    /// Bytes of every operand once.
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
}

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
