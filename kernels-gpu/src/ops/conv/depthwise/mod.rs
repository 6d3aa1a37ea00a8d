//! Depthwise convolution: every channel has one filter of its own, and memory decides the time.

mod access;
mod channels_last;
mod entry;
mod looped;
mod planes;
mod products;
mod reduce;
mod toeplitz;
mod windows;

pub(super) use products::gather_row;
pub(super) use toeplitz::{Taps, matrices};
