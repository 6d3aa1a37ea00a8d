//! The operators: one folder each. Problems and formulas are those of `kernel-abi`.

pub mod activation;
pub mod adam;
pub mod affinegrid;
pub mod bias;
pub mod conv;
pub mod crossentropy;
pub mod ctc;
pub mod dropout;
pub mod gather;
pub mod gridsample;
pub mod lrn;
pub mod matmul;
pub mod norm;
pub mod pad;
pub mod pointwise;
pub mod pool;
pub mod reduce;
pub mod resample;
pub mod sgd;
pub mod softmax;
pub mod transform;
pub mod unpool;
