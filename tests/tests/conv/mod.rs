//! Convolution: against the reference, its laws and its refusals.

mod depthwise;
mod depthwise_tma;
mod fixup;
mod laws;
mod pointwise_lanes;
pub mod reference;
mod refusals;
mod single;
