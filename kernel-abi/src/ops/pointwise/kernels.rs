//! The only list of pointwise kernels.

/// Calls `$callback!` with one row per kernel that takes any problem: symbol, pass, type that it computes in.
#[macro_export]
macro_rules! pointwise_kernels {
    ($callback:ident) => {
        $callback! {
            (pointwise_any_naive_f32, any, f32),
            (pointwise_any_naive_f64, any, f64),
        }
    };
}
