//! Activation kernels: the rows of `activation_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::activation::ActivationParams as Params;

kernel_abi::activation_kernels!(naive_entries);
