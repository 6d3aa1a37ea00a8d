//! The operators: one folder each, one file an algorithm, entries in `entry.rs`.

mod activation;
mod matmul;
mod pool;
mod softmax;
