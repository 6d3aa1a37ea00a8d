//! Ctc kernels: the rows of `ctc_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::ctc::CtcParams as Params;

kernel_abi::ctc_kernels!(naive_entries);
