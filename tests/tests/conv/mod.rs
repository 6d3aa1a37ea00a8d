//! Convolution: against the reference, its laws and its refusals.

mod depthwise;
mod depthwise_tma;
mod fixup;
mod laws;
pub mod reference;
mod refusals;
mod single;
