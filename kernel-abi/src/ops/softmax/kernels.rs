//! The only list of softmax kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! softmax_kernels {
    ($callback:ident) => {
        $callback! {
            (softmax_forward_naive_f32, forward, f32),
            (softmax_forward_naive_f64, forward, f64),
            (softmax_forward_naive_f16, forward, f16),
            (softmax_forward_naive_bf16, forward, bf16),
            (softmax_backward_naive_f32, backward, f32),
            (softmax_backward_naive_f64, backward, f64),
            (softmax_backward_naive_f16, backward, f16),
            (softmax_backward_naive_bf16, backward, bf16),
        }
    };
}
