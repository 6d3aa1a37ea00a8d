//! Random problems, by operator.

pub mod activation;
pub mod tensors;
