//! The only list of unpool kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! unpool_kernels {
    ($callback:ident) => {
        $callback! {
            (unpool_forward_naive_f32, forward, f32),
            (unpool_forward_naive_f64, forward, f64),
            (unpool_forward_naive_f16, forward, f16),
            (unpool_forward_naive_bf16, forward, bf16),
            (unpool_backward_naive_f32, backward, f32),
            (unpool_backward_naive_f64, backward, f64),
            (unpool_backward_naive_f16, backward, f16),
            (unpool_backward_naive_bf16, backward, bf16),
        }
    };
}
