//! Why an algorithm does not compute a problem, and what many of them ask of a device.

use crate::{BadDescriptor, Context, Error};
use std::fmt::Display;

/// Why an algorithm does not compute a problem: which check failed, with both numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

impl Refusal {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Refusal(reason.into())
    }

    /// The error of a plan for `problem`, for what is refused when `algorithm`'s launch is prepared.
    pub(crate) fn into_error(self, algorithm: &str, problem: &impl Display) -> Error {
        Error::Unsupported { problem: problem.to_string(), reasons: vec![(algorithm.to_owned(), self.0)] }
    }
}

impl From<BadDescriptor> for Refusal {
    fn from(error: BadDescriptor) -> Self {
        Refusal(error.to_string())
    }
}

/// Refuses the CPU.
pub(crate) fn check_gpu(context: &Context) -> Result<(), Refusal> {
    if context.is_gpu() {
        return Ok(());
    }
    Err(Refusal::new(format!("runs on a GPU, the device is {}", context.info().name)))
}

/// Refuses other devices than GPUs of compute capability 9.0, whose instructions no later one has.
pub(crate) fn check_hopper(context: &Context) -> Result<(), Refusal> {
    check_gpu(context)?;
    match context.info().compute_capability {
        (9, 0) => Ok(()),
        (major, minor) => Err(Refusal::new(format!("needs compute capability 9.0, the device has {major}.{minor}"))),
    }
}
