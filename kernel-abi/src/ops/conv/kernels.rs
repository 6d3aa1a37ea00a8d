//! The only list of convolution kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! conv_kernels {
    ($callback:ident) => {
        $callback! {
            (conv_fprop_naive_f32, fprop, f32),
            (conv_fprop_naive_f64, fprop, f64),
            (conv_fprop_naive_f16, fprop, f16),
            (conv_fprop_naive_bf16, fprop, bf16),
            (conv_dgrad_naive_f32, dgrad, f32),
            (conv_dgrad_naive_f64, dgrad, f64),
            (conv_dgrad_naive_f16, dgrad, f16),
            (conv_dgrad_naive_bf16, dgrad, bf16),
            (conv_wgrad_naive_f32, wgrad, f32),
            (conv_wgrad_naive_f64, wgrad, f64),
            (conv_wgrad_naive_f16, wgrad, f16),
            (conv_wgrad_naive_bf16, wgrad, bf16),
        }
    };
}
