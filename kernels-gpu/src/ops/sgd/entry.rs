//! Sgd kernels: the rows of `sgd_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::sgd::SgdParams as Params;

kernel_abi::sgd_kernels!(naive_entries);
