//! The only list of affinegrid kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! affinegrid_kernels {
    ($callback:ident) => {
        $callback! {
            (affinegrid_forward_naive_f32, forward, f32),
            (affinegrid_forward_naive_f64, forward, f64),
            (affinegrid_forward_naive_f16, forward, f16),
            (affinegrid_forward_naive_bf16, forward, bf16),
            (affinegrid_backward_naive_f32, backward, f32),
            (affinegrid_backward_naive_f64, backward, f64),
            (affinegrid_backward_naive_f16, backward, f16),
            (affinegrid_backward_naive_bf16, backward, bf16),
        }
    };
}
