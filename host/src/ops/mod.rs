//! The operators: one folder each. Problems and formulas are those of `kernel-abi`.

pub mod activation;
pub mod conv;
pub mod matmul;
pub mod pool;
pub mod softmax;
