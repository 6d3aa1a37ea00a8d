//! Gathering kernels: the rows of `gather_kernels!`.

use super::naive;
use kernel_abi::ops::gather::GatherParams as Params;

kernel_abi::gather_kernels!(naive_entries);
