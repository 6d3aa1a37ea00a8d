//! Grid sampling kernels: the rows of `gridsample_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::gridsample::GridSampleParams as Params;

kernel_abi::gridsample_kernels!(naive_entries);
