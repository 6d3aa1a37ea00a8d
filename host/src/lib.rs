//! Deep-learning primitives for NVIDIA GPUs and CPUs, in Rust from the kernels up.
//!
//! A [`Context`] is a device. A problem ([`ops`]) says what is to be computed, with all its sizes and no pointer.
//! [`Context::plan`] chooses an algorithm for it and gives a [`Plan`], which runs any number of times, on any
//! [`Stream`], without allocating or synchronizing.
//!
//! ```
//! use oxidnn::{Args, Context, DType, Policy, TensorDesc};
//! use oxidnn::ops::activation::{ActivationMode, ActivationProblem};
//!
//! # fn main() -> Result<(), oxidnn::Error> {
//! let context = Context::best()?; // the first GPU, else the CPU
//! let stream = context.stream()?;
//! let desc = TensorDesc::nchw(DType::F32, 1, 1, 2, 2)?;
//! let x = context.tensor_from(&desc, &[-1.0f32, 2.0, -3.0, 4.0])?;
//! let mut y = context.tensor(&desc)?;
//! let problem = ActivationProblem::forward(ActivationMode::Relu, &desc, &desc)?;
//! let plan = context.plan(&problem, Policy::Heuristic)?;
//! let mut workspace = plan.workspace()?;
//! plan.run(&stream, Args::new().input("x", &x).output("y", &mut y), &mut workspace)?;
//! assert_eq!(y.to_vec::<f32>(&stream)?, [0.0, 2.0, 0.0, 4.0]);
//! # Ok(())
//! # }
//! ```

pub mod driver;
pub mod epilogue;
pub mod launch;
pub mod operators;
pub mod ops;

mod context;
mod cpu;
mod error;
mod kernels;
mod microbatch;
mod plan;
mod select;
mod settings;
mod stream;
mod sum;
mod tensor;

pub use context::{Context, DeviceInfo, DeviceKind};
pub use error::Error;
pub use half;
pub use kernel_abi::{BadDescriptor, DType, Domain, Math, Operand, Precision, Problem, Role, TensorDesc};
pub use kernels::{EmbeddedCubin, EmbeddedModule, Image, KernelsState, LoadedModule, embedded_modules, kernels_state};
pub use microbatch::{
    Aim, Batch, BatchSizes, Division, Divisions, Effort, LayerChoice, MicroBatch, Network, NetworkChoice, NetworkPlan,
};
pub use plan::{Args, Plan, Workspace};
pub use select::{
    Candidate, FindOptions, FindProgress, FindStage, Measured, NonFinite, Origin, PlanRequest, Policy, Spread,
    StoreLocation, StoreStatus, Verdict, measured_times,
};
pub use stream::{Stream, Timer};
pub use tensor::{Boolean, Element, Tensor, TensorView, TensorViewMut, f8e4m3, f8e5m2};

/// The README's example, compiled and run with the documentation's.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;
