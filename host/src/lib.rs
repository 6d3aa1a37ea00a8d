//! Deep-learning primitives for NVIDIA GPUs and CPUs, in Rust from the kernels up.
