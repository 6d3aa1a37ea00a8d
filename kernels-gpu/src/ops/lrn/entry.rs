//! Local response normalization kernels: the rows of `lrn_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::lrn::LrnParams as Params;

kernel_abi::lrn_kernels!(naive_entries);
