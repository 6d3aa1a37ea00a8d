//! Pointwise kernels: the rows of `pointwise_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::pointwise::PointwiseParams as Params;

kernel_abi::pointwise_kernels!(naive_entries);
