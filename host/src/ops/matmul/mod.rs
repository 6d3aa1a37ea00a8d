//! Batched matrix product: formula and layouts in [`kernel_abi::ops::matmul`].
//!
//! ```
//! use oxidnn::{Args, Context, DType, Policy, TensorDesc};
//! use oxidnn::ops::matmul::MatmulProblem;
//!
//! # fn main() -> Result<(), oxidnn::Error> {
//! let context = Context::cpu();
//! let stream = context.stream()?;
//! let (a_desc, b_desc, c_desc) = (
//!     TensorDesc::packed(DType::F32, &[2, 3])?,
//!     TensorDesc::packed(DType::F32, &[3, 1])?,
//!     TensorDesc::packed(DType::F32, &[2, 1])?,
//! );
//! let a = context.tensor_from(&a_desc, &[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0])?;
//! let b = context.tensor_from(&b_desc, &[1.0f32, 0.0, -1.0])?;
//! let mut c = context.tensor(&c_desc)?;
//! let plan = context.plan(&MatmulProblem::new(&a_desc, &b_desc, &c_desc)?, Policy::Heuristic)?;
//! let mut workspace = plan.workspace()?;
//! plan.run(&stream, Args::new().input("a", &a).input("b", &b).output("c", &mut c), &mut workspace)?;
//! assert_eq!(c.to_vec::<f32>(&stream)?, [-2.0, -2.0]);
//! # Ok(())
//! # }
//! ```

mod algorithms;
mod bf16x3_wgmma;
mod cp_async_mma;
mod cpu;
mod ffma;
mod kmajor_wgmma;
mod naive;
mod split;
mod tma_wgmma;

pub(in crate::ops) use tma_wgmma::Product;
pub(in crate::ops) use tma_wgmma::launch::TmaLaunch;

pub use kernel_abi::ops::matmul::{MatmulDesc, MatmulProblem};
