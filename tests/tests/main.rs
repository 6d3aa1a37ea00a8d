//! The property tests of every operator: one executable, so that the library and its kernels are linked once.

mod activation;
mod bias;
mod conv;
mod errors;
mod matmul;
mod pointwise;
mod pool;
mod registry;
mod sgd;
mod sharing;
mod softmax;
mod transform;
