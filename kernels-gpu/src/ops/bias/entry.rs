//! Bias kernels: the rows of `bias_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::bias::BiasParams as Params;

kernel_abi::bias_kernels!(naive_entries);
