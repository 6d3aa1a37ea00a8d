//! What exists only on the device.

pub mod atomics;
pub mod barrier;
pub mod cluster;
pub mod convert;
pub mod cp_async;
pub mod guarded;
pub mod ldmatrix;
pub mod math;
pub mod mbarrier;
pub mod memory;
pub mod mma;
pub mod schedule;
pub mod shared;
pub mod thread;
pub mod tma;
pub mod warp;
pub mod wgmma;
