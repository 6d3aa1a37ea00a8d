//! Convolution, passes fprop, dgrad and wgrad: formula, extents and layouts in [`kernel_abi::ops::conv`].
//!
//! ```
//! use oxidnn::ops::conv::{ConvDesc, ConvProblem};
//! use oxidnn::{Args, Context, DType, Policy, TensorDesc};
//!
//! # fn main() -> Result<(), oxidnn::Error> {
//! let context = Context::best()?;
//! let stream = context.stream()?;
//! let desc = ConvDesc::new().padding(&[1]).stride(&[2]);
//! let x_desc = TensorDesc::nchw(DType::F32, 1, 1, 4, 4)?;
//! let w_desc = TensorDesc::nchw(DType::F32, 1, 1, 3, 3)?;
//! let y_desc = TensorDesc::packed(DType::F32, &desc.output_dims(&x_desc, &w_desc)?)?;
//! let plan = context.plan(&ConvProblem::fprop(&desc, &x_desc, &w_desc, &y_desc)?, Policy::Heuristic)?;
//!
//! let x = context.tensor_from(&x_desc, &[1.0f32; 16])?;
//! let w = context.tensor_from(&w_desc, &[1.0f32; 9])?;
//! let mut y = context.tensor(&y_desc)?;
//! let args = Args::new().input("x", &x).input("w", &w).output("y", &mut y);
//! plan.run(&stream, args, &mut plan.workspace()?)?;
//! // How much of each window lies in the image.
//! assert_eq!(y.to_vec::<f32>(&stream)?, [4.0, 6.0, 6.0, 9.0]);
//! # Ok(())
//! # }
//! ```

mod algorithms;
mod cp_async_mma;
mod cpu_direct;
mod cpu_gemm;
mod cpu_geometry;
mod depthwise;
mod depthwise_planes;
mod depthwise_tma;
mod diagonal_mma;
mod explicit_gemm;
mod f32_wgmma;
mod ffma;
mod fft;
mod grouped_mma;
mod grouped_tma;
mod halo_wgmma;
mod halo_wgmma_split;
mod im2col_wgmma;
mod kmajor_wgmma;
mod merged_groups;
mod naive;
mod nchw_transposed;
mod overlap_wgmma;
mod packed_rows;
mod padded_channels;
mod pointwise_lanes;
mod pointwise_matmul;
mod pointwise_strided;
mod provided;
mod spread_columns;
mod tf32x3_mma;
mod winograd;

pub use provided::{ConvOffer, ConvProvider, ProvidedConv};

pub use kernel_abi::ops::conv::{ConvAxis, ConvDesc, ConvMode, ConvPass, ConvProblem, ConvShape};
