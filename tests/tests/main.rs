//! The property tests of every operator: one executable, so that the library and its kernels are linked once.

mod activation;
mod bias;
mod conv;
mod matmul;
mod pointwise;
mod pool;
mod sgd;
mod softmax;
mod transform;
