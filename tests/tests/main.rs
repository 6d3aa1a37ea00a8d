//! The tests of every operator and of the device prelude: one executable, so that the library and its kernels are linked once.

mod activation;
mod adam;
mod affinegrid;
mod bias;
mod conv;
mod crossentropy;
mod ctc;
mod dropout;
mod epilogue;
mod errors;
mod goldens;
mod gridsample;
mod lrn;
mod matmul;
mod narrow;
mod norm;
mod pointwise;
mod pool;
mod registry;
mod resample;
mod sgd;
mod sharing;
mod softmax;
mod transform;
mod unpool;
