//! The only list of gathering kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, type that it computes in.
#[macro_export]
macro_rules! gather_kernels {
    ($callback:ident) => {
        $callback! {
            (gather_forward_naive_f32, forward, f32),
            (gather_forward_naive_f64, forward, f64),
            (gather_backward_naive_f32, backward, f32),
            (gather_backward_naive_f64, backward, f64),
        }
    };
}
