//! The only list of sgd kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! sgd_kernels {
    ($callback:ident) => {
        $callback! {
            (sgd_update_naive_f32, update, f32),
            (sgd_update_naive_f64, update, f64),
            (sgd_update_naive_f16, update, f16),
            (sgd_update_naive_bf16, update, bf16),
        }
    };
}
