//! Normalization (batch, layer, RMS, group and instance norm): formula in [`kernel_abi::ops::norm`].

mod algorithms;
mod channelwise;
mod cpu;
mod looped_rows;
mod naive;
mod resident_channels;
mod resident_planes;
mod ring_rows;
mod row_registers;

pub use kernel_abi::ops::norm::{NormDesc, NormMode, NormPass, NormProblem, NormTensors};
