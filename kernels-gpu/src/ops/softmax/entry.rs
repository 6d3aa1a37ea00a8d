//! Softmax kernels: the rows of `softmax_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::softmax::SoftmaxParams as Params;

kernel_abi::softmax_kernels!(naive_entries);
