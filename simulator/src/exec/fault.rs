//! What stops a kernel.

/// The kind of a fault, as drivers tell them apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// An access outside of any allocation.
    IllegalAddress,
    /// An access off its alignment.
    Misaligned,
    /// An instruction that the hardware refuses.
    IllegalInstruction,
    /// An assertion of the program, or a misuse that the hardware need not notice.
    Failure,
    /// Nothing goes on.
    Timeout,
}

/// What stops a kernel.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Its kind.
    pub kind: Kind,
    /// What happened; where is added on the way up.
    pub reason: String,
}

impl Fault {
    pub(crate) fn new(kind: Kind, reason: impl Into<String>) -> Self {
        Fault { kind, reason: reason.into() }
    }

    /// A misuse of an instruction.
    pub(crate) fn misuse(reason: impl Into<String>) -> Self {
        Fault::new(Kind::Failure, reason)
    }
}
