//! Affine grid kernels: the rows of `affinegrid_kernels!`.

use super::naive;
use crate::math::element::{bf16, f16};
use kernel_abi::ops::affinegrid::AffineGridParams as Params;

kernel_abi::affinegrid_kernels!(naive_entries);
