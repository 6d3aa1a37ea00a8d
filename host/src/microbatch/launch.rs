//! Running the parts of a batch, one behind the other on the stream.

use crate::plan::{Call, Launch, List};
use crate::{Error, Stream};

/// The parts of a batch. They share the workspace: each begins when the one before has ended, as plans on a stream do.
pub(super) struct Parts {
    launches: Vec<Box<dyn Launch>>,
    steps: Vec<Step>,
    /// Whether parts after the first add to what is there, whatever the caller's beta.
    accumulates: bool,
}

struct Step {
    launch: usize,
    /// Start and end of what it takes of each operand, in bytes.
    ranges: Vec<(u64, u64)>,
}

impl Parts {
    pub(super) fn new(accumulates: bool) -> Self {
        Parts { launches: Vec::new(), steps: Vec::new(), accumulates }
    }

    pub(super) fn push(&mut self, launch: usize, ranges: Vec<(u64, u64)>) {
        self.steps.push(Step { launch, ranges });
    }

    pub(super) fn with_launches(self, launches: Vec<Box<dyn Launch>>) -> Self {
        Parts { launches, ..self }
    }
}

impl Launch for Parts {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        for (i, step) in self.steps.iter().enumerate() {
            let mut operands = List::new();
            for (bound, &(start, end)) in call.operands.iter_mut().zip(&step.ranges) {
                operands.push(bound.part(start, end));
            }
            let beta = if i > 0 && self.accumulates { 1.0 } else { call.beta };
            let mut part = Call { operands, workspace: call.workspace.reborrow(), alpha: call.alpha, beta };
            self.launches[step.launch].launch(stream, &mut part)?;
        }
        Ok(())
    }
}
