//! The only lists of sgd kernels.

/// Calls `$callback!` with one row per naive kernel: symbol, type of w and dw, type of v.
#[macro_export]
macro_rules! sgd_kernels {
    ($callback:ident) => {
        $callback! {
            (sgd_update_naive_f32, f32, f32),
            (sgd_update_naive_f64, f64, f64),
            (sgd_update_naive_f16, f16, f16),
            (sgd_update_naive_f16_f32, f16, f32),
            (sgd_update_naive_bf16, bf16, bf16),
            (sgd_update_naive_bf16_f32, bf16, f32),
        }
    };
}

/// The same for the kernels that step many tensors in one launch.
#[macro_export]
macro_rules! sgd_list_kernels {
    ($callback:ident) => {
        $callback! {
            (sgd_update_list_f32, f32, f32),
            (sgd_update_list_f16, f16, f16),
            (sgd_update_list_f16_f32, f16, f32),
            (sgd_update_list_bf16, bf16, bf16),
            (sgd_update_list_bf16_f32, bf16, f32),
        }
    };
}
