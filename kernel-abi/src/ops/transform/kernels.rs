//! The only lists of transform kernels.

/// Calls `$callback!` with one row per naive kernel: symbol, type of x, type of y.
#[macro_export]
macro_rules! transform_kernels {
    ($callback:ident) => {
        $callback! {
            (transform_forward_naive_f32_f32, f32, f32),
            (transform_forward_naive_f32_f64, f32, f64),
            (transform_forward_naive_f32_f16, f32, f16),
            (transform_forward_naive_f32_bf16, f32, bf16),
            (transform_forward_naive_f32_i8, f32, i8),
            (transform_forward_naive_f32_i32, f32, i32),
            (transform_forward_naive_f32_f8e4m3, f32, f8e4m3),
            (transform_forward_naive_f32_f8e5m2, f32, f8e5m2),
            (transform_forward_naive_f64_f32, f64, f32),
            (transform_forward_naive_f64_f64, f64, f64),
            (transform_forward_naive_f64_f16, f64, f16),
            (transform_forward_naive_f64_bf16, f64, bf16),
            (transform_forward_naive_f64_i8, f64, i8),
            (transform_forward_naive_f64_i32, f64, i32),
            (transform_forward_naive_f64_f8e4m3, f64, f8e4m3),
            (transform_forward_naive_f64_f8e5m2, f64, f8e5m2),
            (transform_forward_naive_f16_f32, f16, f32),
            (transform_forward_naive_f16_f64, f16, f64),
            (transform_forward_naive_f16_f16, f16, f16),
            (transform_forward_naive_f16_bf16, f16, bf16),
            (transform_forward_naive_f16_i8, f16, i8),
            (transform_forward_naive_f16_i32, f16, i32),
            (transform_forward_naive_f16_f8e4m3, f16, f8e4m3),
            (transform_forward_naive_f16_f8e5m2, f16, f8e5m2),
            (transform_forward_naive_bf16_f32, bf16, f32),
            (transform_forward_naive_bf16_f64, bf16, f64),
            (transform_forward_naive_bf16_f16, bf16, f16),
            (transform_forward_naive_bf16_bf16, bf16, bf16),
            (transform_forward_naive_bf16_i8, bf16, i8),
            (transform_forward_naive_bf16_i32, bf16, i32),
            (transform_forward_naive_bf16_f8e4m3, bf16, f8e4m3),
            (transform_forward_naive_bf16_f8e5m2, bf16, f8e5m2),
            (transform_forward_naive_i8_f32, i8, f32),
            (transform_forward_naive_i8_f64, i8, f64),
            (transform_forward_naive_i8_f16, i8, f16),
            (transform_forward_naive_i8_bf16, i8, bf16),
            (transform_forward_naive_i8_i8, i8, i8),
            (transform_forward_naive_i8_i32, i8, i32),
            (transform_forward_naive_i8_f8e4m3, i8, f8e4m3),
            (transform_forward_naive_i8_f8e5m2, i8, f8e5m2),
            (transform_forward_naive_i32_f32, i32, f32),
            (transform_forward_naive_i32_f64, i32, f64),
            (transform_forward_naive_i32_f16, i32, f16),
            (transform_forward_naive_i32_bf16, i32, bf16),
            (transform_forward_naive_i32_i8, i32, i8),
            (transform_forward_naive_i32_i32, i32, i32),
            (transform_forward_naive_i32_f8e4m3, i32, f8e4m3),
            (transform_forward_naive_i32_f8e5m2, i32, f8e5m2),
            (transform_forward_naive_f8e4m3_f32, f8e4m3, f32),
            (transform_forward_naive_f8e4m3_f64, f8e4m3, f64),
            (transform_forward_naive_f8e4m3_f16, f8e4m3, f16),
            (transform_forward_naive_f8e4m3_bf16, f8e4m3, bf16),
            (transform_forward_naive_f8e4m3_i8, f8e4m3, i8),
            (transform_forward_naive_f8e4m3_i32, f8e4m3, i32),
            (transform_forward_naive_f8e4m3_f8e4m3, f8e4m3, f8e4m3),
            (transform_forward_naive_f8e4m3_f8e5m2, f8e4m3, f8e5m2),
            (transform_forward_naive_f8e5m2_f32, f8e5m2, f32),
            (transform_forward_naive_f8e5m2_f64, f8e5m2, f64),
            (transform_forward_naive_f8e5m2_f16, f8e5m2, f16),
            (transform_forward_naive_f8e5m2_bf16, f8e5m2, bf16),
            (transform_forward_naive_f8e5m2_i8, f8e5m2, i8),
            (transform_forward_naive_f8e5m2_i32, f8e5m2, i32),
            (transform_forward_naive_f8e5m2_f8e4m3, f8e5m2, f8e4m3),
            (transform_forward_naive_f8e5m2_f8e5m2, f8e5m2, f8e5m2),
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
