//! A CUDA driver without a GPU: it exports the driver API and runs PTX on the CPU, for tests.
//!
//! What it does as hardware does, what it checks beyond that, and what it leaves out is in `simulator/README.md`. It
//! shares nothing with the library that it tests.

mod decode;
mod driver;
mod exec;
pub mod ptx;
pub mod units;
