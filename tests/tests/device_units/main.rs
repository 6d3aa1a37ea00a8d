//! Every family of `cuda_std` on a GPU, by the unit kernels, exactly.
//!
//! Inputs are small integers, so that results have one right value whatever the order of additions. Layouts (fragments,
//! swizzles, descriptors, boxes) are computed here from their documentation, element by element.

mod block;
mod clusters;
mod copies;
mod encode;
mod numbers;
mod products;
mod tma;
mod unit;
mod wgmma;
