//! Pooling, forward and backward: formula and modes in [`kernel_abi::ops::pool`].

mod algorithms;
mod as_reduce;
mod columns;
mod cpu;
mod naive;
mod nchw_transposed;
mod planes;
mod ring_rows;
mod rows_mma;
mod strips;
mod tiles;
mod whole;

pub use kernel_abi::ops::pool::{IndexBase, PoolDesc, PoolMode, PoolNan, PoolPass, PoolProblem};
