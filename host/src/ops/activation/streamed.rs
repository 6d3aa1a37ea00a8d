//! An activation is a chain of one step: the streaming kernels of pointwise operations compute it.

use super::{ActivationPass, ActivationProblem};
use crate::ops::pointwise::{Argument, PointwiseProblem, Step, StepOp, Streaming};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};

/// Runs of neighbouring elements, 32 bytes of each operand a thread.
pub(super) struct Streamed;

impl Algorithm<ActivationProblem> for Streamed {
    fn name(&self) -> &'static str {
        "streamed"
    }

    fn configs(&self, problem: &ActivationProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let chain = chain(problem).map_err(|error| Refusal::new(error.to_string()))?;
        Streaming::config(&chain, context)
    }

    fn workspace_bytes(&self, _: &ActivationProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ActivationProblem, _: Config, context: &Context) -> f64 {
        Streaming::estimate_us(problem, context)
    }

    fn prepare(&self, problem: &ActivationProblem, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        Ok(Box::new(Streaming::new(&chain(problem)?, context)?))
    }
}

/// The chain with the problem's operands in their order.
fn chain(problem: &ActivationProblem) -> Result<PointwiseProblem, Error> {
    let (x, activation) = (Argument::Input(0), *problem.activation());
    let step = match problem.activation_pass() {
        ActivationPass::Forward => Step::new(StepOp::Activation(activation), &[x]),
        ActivationPass::Backward => Step::new(StepOp::ActivationBackward(activation), &[x, Argument::Input(1)]),
    };
    let step = step.map_err(|reason| Error::bad(ActivationProblem::OP, "mode", reason))?;
    let inputs: Vec<_> = [Some(problem.x()), problem.dy()].into_iter().flatten().copied().collect();
    Ok(PointwiseProblem::chain(&[step], &inputs, problem.out())?)
}
