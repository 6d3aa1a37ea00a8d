//! The only lists of dropout kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! dropout_kernels {
    ($callback:ident) => {
        $callback! {
            (dropout_forward_naive_f32, forward, f32),
            (dropout_forward_naive_f64, forward, f64),
            (dropout_forward_naive_f16, forward, f16),
            (dropout_forward_naive_bf16, forward, bf16),
            (dropout_backward_naive_f32, backward, f32),
            (dropout_backward_naive_f64, backward, f64),
            (dropout_backward_naive_f16, backward, f16),
            (dropout_backward_naive_bf16, backward, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel for tensors in the order of counting: symbol, pass, element type.
#[macro_export]
macro_rules! dropout_vectorized_kernels {
    ($callback:ident) => {
        $callback! {
            (dropout_forward_vectorized_f32, forward, f32),
            (dropout_forward_vectorized_f64, forward, f64),
            (dropout_forward_vectorized_f16, forward, f16),
            (dropout_forward_vectorized_bf16, forward, bf16),
            (dropout_backward_vectorized_f32, backward, f32),
            (dropout_backward_vectorized_f64, backward, f64),
            (dropout_backward_vectorized_f16, backward, f16),
            (dropout_backward_vectorized_bf16, backward, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel for tensors in the order of counting that are so small that no thread has more
/// than one round: symbol, pass, element type.
#[macro_export]
macro_rules! dropout_once_kernels {
    ($callback:ident) => {
        $callback! {
            (dropout_forward_once_f32, forward, f32),
            (dropout_forward_once_f64, forward, f64),
            (dropout_forward_once_f16, forward, f16),
            (dropout_forward_once_bf16, forward, bf16),
            (dropout_backward_once_f32, backward, f32),
            (dropout_backward_once_f64, backward, f64),
            (dropout_backward_once_f16, backward, f16),
            (dropout_backward_once_bf16, backward, bf16),
        }
    };
}

/// Calls `$callback!` with the kernel that only writes the state behind a run: symbol, pass, an element type that it has no
/// use for.
#[macro_export]
macro_rules! dropout_next_kernels {
    ($callback:ident) => {
        $callback! {
            (dropout_next, forward, f32),
        }
    };
}
