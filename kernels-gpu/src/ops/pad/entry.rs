//! Padding kernels: the rows of `pad_kernels!`.

use super::naive;
use kernel_abi::ops::pad::PadParams as Params;

kernel_abi::pad_kernels!(naive_entries);
