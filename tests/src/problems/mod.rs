//! Random problems, by operator.

pub mod activation;
pub mod conv;
pub mod tensors;
