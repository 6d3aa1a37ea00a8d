//! Why a case was not computed.

use oxidnn::{BadDescriptor, Error};
use std::fmt::Display;

/// Why a node was not computed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stop {
    /// Our operators do not have what it asks for: a sentence that says what.
    Refused(String),
    /// It should have been computed and was not.
    Failed(String),
}

impl Stop {
    /// A refusal.
    pub fn refused(reason: impl Display) -> Self {
        Stop::Refused(reason.to_string())
    }

    /// A failure.
    pub fn failed(reason: impl Display) -> Self {
        Stop::Failed(reason.to_string())
    }
}

/// A problem or descriptor that is not legal: the operator does not have it.
impl From<BadDescriptor> for Stop {
    fn from(e: BadDescriptor) -> Self {
        Stop::refused(e)
    }
}

impl From<Error> for Stop {
    fn from(e: Error) -> Self {
        match e {
            Error::BadDescriptor(_) | Error::Unsupported { .. } => Stop::refused(e),
            _ => Stop::failed(e),
        }
    }
}
