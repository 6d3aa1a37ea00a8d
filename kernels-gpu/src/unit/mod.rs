//! Kernels that test one family of `cuda_std` each, with exact integers; driven by `tests/tests/device_units`.
//!
//! They take plain addresses and numbers, so that they need no agreement in `kernel-abi`. Every one is safe to launch
//! only as its comment says.

mod atomics;
mod cluster;
mod convert;
mod cp_async;
mod math;
mod matrix;
mod mbarrier;
mod mma;
mod schedule;
mod shared;
mod threads;
mod tma;
mod vector;
mod warp;
mod wgmma;
