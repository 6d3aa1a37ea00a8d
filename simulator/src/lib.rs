//! A CUDA driver without a GPU: it exports the driver API and runs PTX on the CPU, for tests.

mod decode;
mod driver;
mod exec;
pub mod ptx;
pub mod units;
