//! The only list of pointwise kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! pointwise_kernels {
    ($callback:ident) => {
        $callback! {
            (pointwise_add_naive_f32, add, f32),
            (pointwise_add_naive_f64, add, f64),
            (pointwise_add_naive_f16, add, f16),
            (pointwise_add_naive_bf16, add, bf16),
            (pointwise_mul_naive_f32, mul, f32),
            (pointwise_mul_naive_f64, mul, f64),
            (pointwise_mul_naive_f16, mul, f16),
            (pointwise_mul_naive_bf16, mul, bf16),
            (pointwise_min_naive_f32, min, f32),
            (pointwise_min_naive_f64, min, f64),
            (pointwise_min_naive_f16, min, f16),
            (pointwise_min_naive_bf16, min, bf16),
            (pointwise_max_naive_f32, max, f32),
            (pointwise_max_naive_f64, max, f64),
            (pointwise_max_naive_f16, max, f16),
            (pointwise_max_naive_bf16, max, bf16),
            (pointwise_sqrt_naive_f32, sqrt, f32),
            (pointwise_sqrt_naive_f64, sqrt, f64),
            (pointwise_sqrt_naive_f16, sqrt, f16),
            (pointwise_sqrt_naive_bf16, sqrt, bf16),
            (pointwise_not_naive_f32, not, f32),
            (pointwise_not_naive_f64, not, f64),
            (pointwise_not_naive_f16, not, f16),
            (pointwise_not_naive_bf16, not, bf16),
            (pointwise_scale_naive_f32, scale, f32),
            (pointwise_scale_naive_f64, scale, f64),
            (pointwise_scale_naive_f16, scale, f16),
            (pointwise_scale_naive_bf16, scale, bf16),
            (pointwise_set_naive_f32, set, f32),
            (pointwise_set_naive_f64, set, f64),
            (pointwise_set_naive_f16, set, f16),
            (pointwise_set_naive_bf16, set, bf16),
        }
    };
}
