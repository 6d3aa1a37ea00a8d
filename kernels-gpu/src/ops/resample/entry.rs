//! Resampling kernels: the rows of `resample_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::resample::ResampleParams as Params;

kernel_abi::resample_kernels!(naive_entries);
