//! The only list of resampling kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! resample_kernels {
    ($callback:ident) => {
        $callback! {
            (resample_forward_naive_f32, forward, f32),
            (resample_forward_naive_f64, forward, f64),
            (resample_forward_naive_f16, forward, f16),
            (resample_forward_naive_bf16, forward, bf16),
            (resample_backward_naive_f32, backward, f32),
            (resample_backward_naive_f64, backward, f64),
            (resample_backward_naive_f16, backward, f16),
            (resample_backward_naive_bf16, backward, bf16),
        }
    };
}
