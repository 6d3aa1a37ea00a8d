//! The CUDA driver: the only foreign calls, with `cust` where its types fit and `cuda-loader` for the rest.
//!
//! Everything here makes its context current before a call and restores the thread's previous one afterwards.

mod context;
mod error;
mod graph;
mod memory;
mod module;
mod raw;
mod stream;
mod tensor_map;

pub use context::{GpuContext, driver_version};
pub use error::DriverError;
pub use graph::Graph;
pub use memory::{DeviceMemory, DeviceSpan};
pub use module::{Function, FunctionAttributes, Module};
pub use stream::{Event, GpuStream};
pub use tensor_map::{Im2col, Swizzle, TensorMap, Tiled, TmaType};
