//! Where neighbours stay neighbours, a change of type or of distances is a pointwise operation: its streaming kernels
//! compute it.

use super::TransformProblem;
use crate::ops::pointwise::{PointwisePass, PointwiseProblem, Streaming};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error};

/// Runs of neighbouring elements, 32 bytes of each operand a thread.
pub(super) struct Streamed;

impl Algorithm<TransformProblem> for Streamed {
    fn name(&self) -> &'static str {
        "streamed"
    }

    fn configs(&self, problem: &TransformProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let scale = scale(problem).map_err(|error| Refusal::new(error.to_string()))?;
        Streaming::config(&scale, context)
    }

    fn workspace_bytes(&self, _: &TransformProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &TransformProblem, _: Config, context: &Context) -> f64 {
        Streaming::estimate_us(problem, context)
    }

    fn prepare(&self, problem: &TransformProblem, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        Ok(Box::new(Streaming::new(&scale(problem)?, context)?))
    }
}

/// The operation with the problem's operands in their order.
fn scale(problem: &TransformProblem) -> Result<PointwiseProblem, Error> {
    Ok(PointwiseProblem::unary(PointwisePass::Scale, problem.x(), problem.y())?)
}
