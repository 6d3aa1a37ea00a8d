//! Device prelude for Rust kernels: threads, shared memory, warps, tensor cores, TMA and math, with rust-cuda's names.
