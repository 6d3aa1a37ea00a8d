//! A change of type or of distances is a pointwise operation: where neighbours stay neighbours, its kernels compute it.

use super::TransformProblem;
use crate::Error;
use crate::ops::pointwise::{AsPointwise, PointwisePass, PointwiseProblem};

impl AsPointwise for TransformProblem {
    fn as_pointwise(&self) -> Result<PointwiseProblem, Error> {
        Ok(PointwiseProblem::unary(PointwisePass::Scale, self.x(), self.y())?.with_cast(self.cast()))
    }
}
