//! The operators: one folder each, one file an algorithm, entries in `entry.rs`.

mod activation;
mod bias;
mod conv;
mod matmul;
mod pointwise;
mod pool;
mod sgd;
mod softmax;
mod transform;
