//! Builds a Rust kernel crate into checked PTX with rustc's own NVPTX back end, behind rust-cuda's CudaBuilder interface.
