//! The only list of dropout kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! dropout_kernels {
    ($callback:ident) => {
        $callback! {
            (dropout_forward_naive_f32, forward, f32),
            (dropout_forward_naive_f64, forward, f64),
            (dropout_forward_naive_f16, forward, f16),
            (dropout_forward_naive_bf16, forward, bf16),
            (dropout_backward_naive_f32, backward, f32),
            (dropout_backward_naive_f64, backward, f64),
            (dropout_backward_naive_f16, backward, f16),
            (dropout_backward_naive_bf16, backward, bf16),
        }
    };
}
