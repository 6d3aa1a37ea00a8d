//! The one error type.

use crate::driver::DriverError;
use kernel_abi::BadDescriptor;
use thiserror::Error as ThisError;

/// Why a call was refused or failed. Outputs are untouched unless the variant says otherwise.
#[derive(Debug, ThisError)]
#[non_exhaustive]
pub enum Error {
    /// A descriptor, argument or tensor is illegal: no device or algorithm would accept it.
    #[error(transparent)]
    BadDescriptor(#[from] BadDescriptor),

    /// The problem is legal and no algorithm here computes it.
    #[error("no algorithm for {problem}: {}", list(reasons))]
    Unsupported {
        /// The problem's text form.
        problem: String,
        /// Each algorithm with its reason.
        reasons: Vec<(String, String)>,
    },

    /// The workspace given to a run is smaller than the plan's.
    #[error("workspace too small: the plan needs {needed_bytes} bytes, given {given_bytes}")]
    WorkspaceTooSmall {
        /// What [`Plan::workspace_bytes`](crate::Plan::workspace_bytes) says.
        needed_bytes: u64,
        /// What was given.
        given_bytes: u64,
    },

    /// The layers of a network need more workspace together than they are given.
    #[error("workspace too small: the network's layers need at least {needed_bytes} bytes, the total is {total_bytes}")]
    WorkspaceTotal {
        /// The sum of the least needs of all layers.
        needed_bytes: u64,
        /// What there is for all of them.
        total_bytes: u64,
    },

    /// Memory of the device, or of the host, is exhausted.
    #[error("out of memory: {bytes} bytes asked for on {device}")]
    OutOfMemory {
        /// What was asked for.
        bytes: u64,
        /// The device's name.
        device: String,
    },

    /// What an algorithm from outside the crate answered.
    #[error("provided algorithm {algorithm}: {reason}")]
    Provider {
        /// The algorithm, empty where it is about the provider as a whole.
        algorithm: &'static str,
        /// What went wrong.
        reason: String,
    },

    /// There is no such GPU, or no driver.
    #[error("no device: {reason}")]
    NoDevice {
        /// What was looked for and not found.
        reason: String,
    },

    /// Two things that belong to different devices were used together.
    #[error("{what}: expected memory of {expected}, given memory of {given}")]
    WrongDevice {
        /// The operand or object.
        what: String,
        /// Device of the plan.
        expected: String,
        /// Device of the operand.
        given: String,
    },

    /// The kernels in this binary are missing, or do not fit its host code.
    #[error("stale kernels: expected {expected}, found {found}")]
    StaleKernels {
        /// What the host code needs.
        expected: String,
        /// What there is, and the command that mends it.
        found: String,
    },

    /// A kernel could not be launched.
    #[error("launch of {kernel} failed: {source}")]
    Launch {
        /// Its symbol.
        kernel: String,
        /// The driver's answer.
        source: DriverError,
    },

    /// The driver refused a call.
    #[error(transparent)]
    Driver(DriverError),

    /// An environment variable holds something that cannot be read.
    #[error("environment variable {name}: {reason}")]
    BadSetting {
        /// The variable.
        name: &'static str,
        /// What was expected and given.
        reason: String,
    },
}

fn list(reasons: &[(String, String)]) -> String {
    reasons.iter().map(|(algorithm, reason)| format!("{algorithm}: {reason}")).collect::<Vec<_>>().join("; ")
}

impl Error {
    pub(crate) fn bad(op: &'static str, argument: impl Into<String>, reason: impl Into<String>) -> Self {
        Error::BadDescriptor(BadDescriptor::new(op, argument, reason))
    }
}
