//! The only list of pooling kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! pool_kernels {
    ($callback:ident) => {
        $callback! {
            (pool_forward_naive_f32, forward, f32),
            (pool_forward_naive_f64, forward, f64),
            (pool_forward_naive_f16, forward, f16),
            (pool_forward_naive_bf16, forward, bf16),
            (pool_backward_naive_f32, backward, f32),
            (pool_backward_naive_f64, backward, f64),
            (pool_backward_naive_f16, backward, f16),
            (pool_backward_naive_bf16, backward, bf16),
        }
    };
}
