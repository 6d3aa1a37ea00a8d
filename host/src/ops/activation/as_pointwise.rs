//! An activation is a chain of one step: the kernels of pointwise operations compute it.

use super::{ActivationPass, ActivationProblem};
use crate::ops::pointwise::{Argument, AsPointwise, PointwiseProblem, Step, StepOp};
use crate::{Error, Problem};

impl AsPointwise for ActivationProblem {
    fn as_pointwise(&self) -> Result<PointwiseProblem, Error> {
        let (x, activation) = (Argument::Input(0), *self.activation());
        let step = match self.activation_pass() {
            ActivationPass::Forward => Step::new(StepOp::Activation(activation), &[x]),
            ActivationPass::Backward => Step::new(StepOp::ActivationBackward(activation), &[x, Argument::Input(1)]),
        };
        let step = step.map_err(|reason| Error::bad(ActivationProblem::OP, "mode", reason))?;
        let inputs: Vec<_> = [Some(self.x()), self.dy()].into_iter().flatten().copied().collect();
        Ok(PointwiseProblem::chain(&[step], &inputs, self.out())?)
    }
}
