//! Depthwise convolution: every channel has one filter of its own, and memory decides the time.

mod access;
mod entry;
mod looped;
mod reduce;
