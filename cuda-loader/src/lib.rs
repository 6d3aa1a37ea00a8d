//! Resolves the CUDA driver at run time, so that one binary starts with or without a GPU.
//!
//! `cust` links against libcuda. An empty archive in its place satisfies the linker; the functions are defined here
//! ([`forwards`]) and forward to the driver that is found when the first of them is called. Without a driver they
//! answer `CUDA_ERROR_NO_DEVICE`. [`driver`] gives typed access to what `cust`'s 2022 bindings lack, [`ptx`] makes of
//! portable PTX what newer devices take.

pub mod driver;
pub mod forwards;
pub mod ptx;
mod resolve;

pub use resolve::{NO_DEVICE, NOT_FOUND, has_driver};
