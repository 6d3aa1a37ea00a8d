//! Real two-dimensional Fourier transforms of images, or their tiles, and of filters, and back: see
//! `kernel_abi::ops::conv::fft`.
//!
//! Grid: one-dimensional, a block for each tile and block of channels, or for so many pairs of channels.

mod entry;
mod line;
mod operands;
mod tiled;
mod whole;
