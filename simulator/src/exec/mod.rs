//! Execution of kernels: warps of 32 lanes, blocks and clusters, and what goes on beside them.

mod access;
mod asynchronous;
mod barriers;
mod bulk;
mod collective;
mod fault;
mod global;
mod grid;
mod machine;
mod memory;
mod pending;
mod random;
pub mod registers;
pub(crate) mod rounded;
pub(crate) mod spaces;
mod tensor;
mod warp;

#[cfg(test)]
mod tests;

pub use fault::{Fault, Kind};
pub use global::{Allocation, Table};
pub use grid::{Launch, run};
pub(crate) use random::Random;
