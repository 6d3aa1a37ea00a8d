//! Random problems, by operator.

pub mod activation;
pub mod conv;
pub mod matmul;
pub mod pool;
pub mod softmax;
pub mod tensors;
