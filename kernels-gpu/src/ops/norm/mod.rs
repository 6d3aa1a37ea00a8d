//! Normalization, formula in `kernel_abi::ops::norm`.

mod channelwise;
mod entry;
mod looped_rows;
mod naive;
mod resident_channels;
mod resident_planes;
mod ring_rows;
mod row_registers;
