//! The operators: one folder each.

pub mod activation;
pub mod conv;
pub mod matmul;
pub mod pool;
pub mod softmax;

/// Layout hashes of every launch-parameter struct, in a fixed order (see [`crate::abi_fingerprint`]).
pub const LAYOUT_HASHES: &[u64] = &[
    activation::ActivationParams::LAYOUT_HASH,
    conv::ConvParams::LAYOUT_HASH,
    matmul::MatmulParams::LAYOUT_HASH,
    matmul::MatmulTmaParams::LAYOUT_HASH,
    pool::PoolParams::LAYOUT_HASH,
    softmax::SoftmaxParams::LAYOUT_HASH,
];
