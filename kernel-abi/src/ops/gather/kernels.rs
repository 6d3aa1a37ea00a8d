//! The only list of gathering kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, type that it computes in.
#[macro_export]
macro_rules! gather_kernels {
    ($callback:ident) => {
        $callback! {
            (gather_forward_naive_f32, forward, f32),
            (gather_forward_naive_f64, forward, f64),
            (gather_forward_naive_i64, forward, i64),
            (gather_backward_naive_f32, backward, f32),
            (gather_backward_naive_f64, backward, f64),
            (gather_backward_naive_i64, backward, i64),
        }
    };
}

/// Calls `$callback!` with one row per kernel that copies rows: symbol, bytes an access.
#[macro_export]
macro_rules! gather_copy_kernels {
    ($callback:ident) => {
        $callback! {
            (gather_forward_rows_b16, 16),
            (gather_forward_rows_b8, 8),
            (gather_forward_rows_b4, 4),
            (gather_forward_rows_b2, 2),
            (gather_forward_rows_b1, 1),
        }
    };
}

/// Calls `$callback!` with one row per kernel that sums rows up: symbol, element type, elements an access.
#[macro_export]
macro_rules! gather_sum_kernels {
    ($callback:ident) => {
        $callback! {
            (gather_backward_rows_f32_v4, f32, 4),
            (gather_backward_rows_f32_v1, f32, 1),
            (gather_backward_rows_f16_v8, f16, 8),
            (gather_backward_rows_f16_v1, f16, 1),
            (gather_backward_rows_bf16_v8, bf16, 8),
            (gather_backward_rows_bf16_v1, bf16, 1),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `ranges` that sorts indices: symbol, step.
#[macro_export]
macro_rules! gather_range_kernels {
    ($callback:ident) => {
        $callback! {
            (gather_ranges_count, count),
            (gather_ranges_fill, fill),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `ranges` that sums rows up: symbol, element type, elements an access.
#[macro_export]
macro_rules! gather_listed_kernels {
    ($callback:ident) => {
        $callback! {
            (gather_backward_listed_f32_v4, f32, 4),
            (gather_backward_listed_f32_v1, f32, 1),
            (gather_backward_listed_f16_v8, f16, 8),
            (gather_backward_listed_f16_v1, f16, 1),
            (gather_backward_listed_bf16_v8, bf16, 8),
            (gather_backward_listed_bf16_v1, bf16, 1),
        }
    };
}
