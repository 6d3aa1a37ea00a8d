//! The only list of bias kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! bias_kernels {
    ($callback:ident) => {
        $callback! {
            (bias_forward_naive_f32, forward, f32),
            (bias_forward_naive_f64, forward, f64),
            (bias_forward_naive_f16, forward, f16),
            (bias_forward_naive_bf16, forward, bf16),
            (bias_backward_naive_f32, backward, f32),
            (bias_backward_naive_f64, backward, f64),
            (bias_backward_naive_f16, backward, f16),
            (bias_backward_naive_bf16, backward, bf16),
        }
    };
}
