//! Pooling kernels: the rows of `pool_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::pool::PoolParams as Params;

kernel_abi::pool_kernels!(naive_entries);
