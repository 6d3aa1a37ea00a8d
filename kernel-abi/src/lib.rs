//! What host and device agree on.
//!
//! The device half (element types, launch parameters, kernel lists, index arithmetic) is `no_std` and compiled
//! into the kernels as well. The host half (descriptors, problems and their text form) exists only off the device.
//! A problem holds no pointer; launch parameters hold nothing but numbers and addresses.
#![cfg_attr(target_arch = "nvptx64", no_std)]

pub mod cast;
mod channels;
pub mod division;
pub mod dtype;
pub mod epilogue;
pub mod fp8;
pub mod layout;
pub mod math;
mod names;
pub mod ops;
pub mod store;
pub mod tensor_list;
pub mod tickets;

#[cfg(not(target_arch = "nvptx64"))]
pub mod desc;
#[cfg(not(target_arch = "nvptx64"))]
pub mod problem;
#[cfg(not(target_arch = "nvptx64"))]
mod step;
#[cfg(not(target_arch = "nvptx64"))]
pub mod text;
#[cfg(not(target_arch = "nvptx64"))]
mod views;

pub use cast::{Cast, Overflow, Rounding};
pub use channels::ChannelTensor;
pub use dtype::DType;
pub use layout::{MAX_RANK, TensorParam, abi_fingerprint};
pub use math::Math;

#[cfg(not(target_arch = "nvptx64"))]
pub use desc::{BadDescriptor, TensorDesc};
#[cfg(not(target_arch = "nvptx64"))]
pub use problem::{Domain, Operand, Precision, Problem, Role};
