//! Element types and index arithmetic.

pub mod element;
pub mod index;
pub mod kmajor;
pub mod tensor_core;
