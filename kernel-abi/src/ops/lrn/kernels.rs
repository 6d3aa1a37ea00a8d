//! The only list of local response normalization kernels.

/// Calls `$callback!` with one row per kernel: symbol, what it computes, element type.
#[macro_export]
macro_rules! lrn_kernels {
    ($callback:ident) => {
        $callback! {
            (lrn_forward_naive_f32, forward, f32),
            (lrn_forward_naive_f64, forward, f64),
            (lrn_forward_naive_f16, forward, f16),
            (lrn_forward_naive_bf16, forward, bf16),
            (lrn_powers_naive_f32, powers, f32),
            (lrn_powers_naive_f64, powers, f64),
            (lrn_powers_naive_f16, powers, f16),
            (lrn_powers_naive_bf16, powers, bf16),
            (lrn_backward_naive_f32, backward, f32),
            (lrn_backward_naive_f64, backward, f64),
            (lrn_backward_naive_f16, backward, f16),
            (lrn_backward_naive_bf16, backward, bf16),
        }
    };
}
