//! The only lists of normalization kernels.

/// Calls `$callback!` with one row per kernel for any strides: symbol, what it computes, element type.
#[macro_export]
macro_rules! norm_kernels {
    ($callback:ident) => {
        $callback! {
            (norm_forward_naive_f32, forward, f32),
            (norm_forward_naive_f64, forward, f64),
            (norm_forward_naive_f16, forward, f16),
            (norm_forward_naive_bf16, forward, bf16),
            (norm_inference_naive_f32, inference, f32),
            (norm_inference_naive_f64, inference, f64),
            (norm_inference_naive_f16, inference, f16),
            (norm_inference_naive_bf16, inference, bf16),
            (norm_backward_naive_f32, backward, f32),
            (norm_backward_naive_f64, backward, f64),
            (norm_backward_naive_f16, backward, f16),
            (norm_backward_naive_bf16, backward, bf16),
            (norm_parameters_naive_f32, parameters, f32),
            (norm_parameters_naive_f64, parameters, f64),
            (norm_parameters_naive_f16, parameters, f16),
            (norm_parameters_naive_bf16, parameters, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel that makes statistics of channel sums: symbol, pass, type of the sums.
#[macro_export]
macro_rules! norm_finalize_kernels {
    ($callback:ident) => {
        $callback! {
            (norm_finalize_naive_f32, finalize, f32),
            (norm_finalize_naive_f64, finalize, f64),
        }
    };
}
