//! Pooling, formula in `kernel_abi::ops::pool`.

mod columns;
mod entry;
mod naive;
mod planes;
mod ring_rows;
mod rows_mma;
mod strips;
mod tiles;
mod whole;
