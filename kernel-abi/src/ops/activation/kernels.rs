//! The only list of activation kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! activation_kernels {
    ($callback:ident) => {
        $callback! {
            (activation_forward_naive_f32, forward, f32),
            (activation_forward_naive_f64, forward, f64),
            (activation_forward_naive_f16, forward, f16),
            (activation_forward_naive_bf16, forward, bf16),
            (activation_backward_naive_f32, backward, f32),
            (activation_backward_naive_f64, backward, f64),
            (activation_backward_naive_f16, backward, f16),
            (activation_backward_naive_bf16, backward, bf16),
        }
    };
}
