//! Dropout kernels: the rows of `dropout_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::dropout::DropoutParams as Params;

kernel_abi::dropout_kernels!(naive_entries);
