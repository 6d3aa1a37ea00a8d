//! The only lists of cross-entropy kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type of x.
#[macro_export]
macro_rules! crossentropy_kernels {
    ($callback:ident) => {
        $callback! {
            (crossentropy_forward_naive_f32, forward, f32),
            (crossentropy_forward_naive_f64, forward, f64),
            (crossentropy_forward_naive_f16, forward, f16),
            (crossentropy_forward_naive_bf16, forward, bf16),
            (crossentropy_backward_naive_f32, backward, f32),
            (crossentropy_backward_naive_f64, backward, f64),
            (crossentropy_backward_naive_f16, backward, f16),
            (crossentropy_backward_naive_bf16, backward, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel that adds up losses and weights: symbol, pass, accumulator type.
#[macro_export]
macro_rules! crossentropy_sum_kernels {
    ($callback:ident) => {
        $callback! {
            (crossentropy_sum_f32, forward, f32),
            (crossentropy_sum_f64, forward, f64),
        }
    };
}
