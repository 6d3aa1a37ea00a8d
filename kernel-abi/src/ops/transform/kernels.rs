//! The only lists of transform kernels.

/// Calls `$callback!` with one row per naive kernel: symbol, pass, type that it computes in.
#[macro_export]
macro_rules! transform_kernels {
    ($callback:ident) => {
        $callback! {
            (transform_forward_naive_f32, forward, f32),
            (transform_forward_naive_f64, forward, f64),
            (transform_forward_naive_i64, forward, i64),
        }
    };
}

/// Calls `$callback!` with one row per vectorized copy: symbol, 16-byte words a thread moves at a time, block size.
/// Fastest first, as measured with 1 GiB buffers (benches/results/h200/copy.csv).
#[macro_export]
macro_rules! transform_copy_kernels {
    ($callback:ident) => {
        $callback! {
            (transform_forward_vectorized_copy_x2_b1024, 2, 1024),
            (transform_forward_vectorized_copy_x4_b512, 4, 512),
            (transform_forward_vectorized_copy_x8_b256, 8, 256),
            (transform_forward_vectorized_copy_x4_b256, 4, 256),
        }
    };
}

/// Calls `$callback!` with one row per kernel that transposes matrices: symbol, bytes of an element. They run everywhere.
#[macro_export]
macro_rules! transform_transpose_kernels {
    ($callback:ident) => {
        $callback! {
            (transform_forward_tiled_transpose_b16, 2),
            (transform_forward_tiled_transpose_b32, 4),
        }
    };
}

/// The same for those that may start while the kernel before them ends (Hopper).
#[macro_export]
macro_rules! transform_transpose_sm90_kernels {
    ($callback:ident) => {
        $callback! {
            (transpose_forward_tiled_b16_sm90, 2),
            (transpose_forward_tiled_b32_sm90, 4),
        }
    };
}

/// Calls `$callback!` with one row per kernel that permutes dimensions: symbol, a number as large as an element.
#[macro_export]
macro_rules! transform_permute_kernels {
    ($callback:ident) => {
        $callback! {
            (transform_forward_tiled_permute_b8, u8),
            (transform_forward_tiled_permute_b16, u16),
            (transform_forward_tiled_permute_b32, u32),
            (transform_forward_tiled_permute_b64, u64),
        }
    };
}
