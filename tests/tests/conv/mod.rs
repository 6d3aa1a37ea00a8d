//! Convolution: against the reference, its laws and its refusals.

mod depthwise;
mod depthwise_planes;
mod depthwise_tma;
mod fixup;
mod grouped_tma;
mod laws;
mod pointwise_lanes;
pub mod reference;
mod refusals;
mod rings;
mod single;
