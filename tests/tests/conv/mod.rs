//! Convolution: against the reference, its laws and its refusals.

mod laws;
mod reference;
mod refusals;
