//! The only lists of adam kernels.

/// Calls `$callback!` with one row per naive kernel: symbol, type of w and dw, type of m and v.
#[macro_export]
macro_rules! adam_kernels {
    ($callback:ident) => {
        $callback! {
            (adam_update_naive_f32, f32, f32),
            (adam_update_naive_f64, f64, f64),
            (adam_update_naive_f16, f16, f16),
            (adam_update_naive_f16_f32, f16, f32),
            (adam_update_naive_bf16, bf16, bf16),
            (adam_update_naive_bf16_f32, bf16, f32),
        }
    };
}

/// The same for the kernels that step many tensors in one launch.
#[macro_export]
macro_rules! adam_list_kernels {
    ($callback:ident) => {
        $callback! {
            (adam_update_list_f32, f32, f32),
            (adam_update_list_f16, f16, f16),
            (adam_update_list_f16_f32, f16, f32),
            (adam_update_list_bf16, bf16, bf16),
            (adam_update_list_bf16_f32, bf16, f32),
        }
    };
}
