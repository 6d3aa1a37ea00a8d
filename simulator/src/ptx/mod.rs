//! PTX text: its tokens and its grammar.

mod lexer;
mod syntax;
mod types;

pub use syntax::{Function, Instruction, Module, Operand, Statement, Variable, parse};
pub use types::{Space, Type};

/// What is wrong with a text, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The line, counted from 1.
    pub line: u32,
    /// What is wrong there.
    pub reason: String,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "PTX line {}: {}", self.line, self.reason)
    }
}

/// The result of everything that reads PTX.
pub type Result<T> = std::result::Result<T, Fault>;
