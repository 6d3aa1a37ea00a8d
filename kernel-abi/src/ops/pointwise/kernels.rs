//! The only lists of pointwise kernels.

/// Calls `$callback!` with one row per kernel that takes any problem: symbol, pass, type that it computes in.
#[macro_export]
macro_rules! pointwise_kernels {
    ($callback:ident) => {
        $callback! {
            (pointwise_any_naive_f32, any, f32),
            (pointwise_any_naive_f64, any, f64),
            (pointwise_any_naive_i64, any, i64),
        }
    };
}

/// Calls `$callback!` with one row per kernel that streams: symbol, numbers that it computes with, elements of a thread,
/// blocks that share a multiprocessor at least.
#[macro_export]
macro_rules! pointwise_stream_kernels {
    ($callback:ident) => {
        $callback! {
            (pointwise_streamed_f32, f32, 8, 3),
            (pointwise_streamed_16bit, Approximate, 16, 2),
            (pointwise_streamed_f64, f64, 4, 2),
        }
    };
}
