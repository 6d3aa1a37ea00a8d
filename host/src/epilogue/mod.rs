//! Epilogues: bias, residual, activation and channel sums behind a product, formula in [`kernel_abi::epilogue`].
//!
//! ```
//! use oxidnn::epilogue::Epilogue;
//! use oxidnn::ops::activation::ActivationMode;
//! use oxidnn::ops::conv::{ConvDesc, ConvProblem};
//! use oxidnn::{Args, Context, DType, Policy, TensorDesc};
//!
//! # fn main() -> Result<(), oxidnn::Error> {
//! let context = Context::cpu();
//! let stream = context.stream()?;
//! let x_desc = TensorDesc::nchw(DType::F32, 1, 1, 2, 2)?;
//! let w_desc = TensorDesc::nchw(DType::F32, 2, 1, 1, 1)?;
//! let y_desc = TensorDesc::nchw(DType::F32, 1, 2, 2, 2)?;
//! let bias_desc = TensorDesc::packed(DType::F32, &[2])?;
//! let epilogue = Epilogue::new().bias(&bias_desc).activation(ActivationMode::Relu, 0.0).channel_sums();
//! let problem = ConvProblem::fprop(&ConvDesc::new(), &x_desc, &w_desc, &y_desc)?.with_epilogue(epilogue)?;
//! let plan = context.plan(&problem, Policy::Heuristic)?;
//!
//! let x = context.tensor_from(&x_desc, &[1.0f32, 2.0, 3.0, 4.0])?;
//! let w = context.tensor_from(&w_desc, &[1.0f32, -1.0])?;
//! let bias = context.tensor_from(&bias_desc, &[-2.0f32, 3.0])?;
//! let (mut y, mut sum, mut squares) =
//!     (context.tensor(&y_desc)?, context.tensor(&bias_desc)?, context.tensor(&bias_desc)?);
//! let args = Args::new().input("x", &x).input("w", &w).input("bias", &bias);
//! let args = args.output("y", &mut y).output("sum", &mut sum).output("sum_squares", &mut squares);
//! plan.run(&stream, args, &mut plan.workspace()?)?;
//! assert_eq!(y.to_vec::<f32>(&stream)?, [0.0, 0.0, 1.0, 2.0, 2.0, 1.0, 0.0, 0.0]);
//! assert_eq!(sum.to_vec::<f32>(&stream)?, [3.0, 3.0]);
//! assert_eq!(squares.to_vec::<f32>(&stream)?, [5.0, 5.0]);
//! # Ok(())
//! # }
//! ```

pub(crate) mod cpu;
mod fused;
mod pass;
mod separate;

pub(crate) use fused::{bind_fused, fused};
pub(crate) use pass::{ChannelPass, ChannelPassLaunch, bind, param};
pub(crate) use separate::SeparateEpilogue;

pub use kernel_abi::epilogue::Epilogue;
