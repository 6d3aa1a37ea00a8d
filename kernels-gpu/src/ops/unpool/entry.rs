//! Max unpooling kernels: the rows of `unpool_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::unpool::UnpoolParams as Params;

kernel_abi::unpool_kernels!(naive_entries);
