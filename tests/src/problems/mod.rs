//! Random problems, by operator.

pub mod activation;
pub mod matmul;
pub mod tensors;
