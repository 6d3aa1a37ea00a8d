//! Pointwise kernels: the rows of `pointwise_kernels!`.

use super::naive;
use kernel_abi::ops::pointwise::PointwiseParams as Params;

kernel_abi::pointwise_kernels!(naive_entries);
