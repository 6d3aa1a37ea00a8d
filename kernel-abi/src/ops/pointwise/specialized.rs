//! The only lists of kernels that are made for one operation each. Their symbols begin with what they have in common, so
//! that a GPU loads no more of them than a problem needs.

/// Calls `$callback!` with one row per kernel of one input: symbol, pass, types of input and output, numbers that it
/// computes with.
#[macro_export]
macro_rules! pointwise_unary_kernels {
    ($callback:ident) => {
        $callback! {
            (unary_scale_f32, Scale, f32, f32, f32),
            (unary_scale_f16, Scale, f16, f16, Approximate),
            (unary_scale_bf16, Scale, bf16, bf16, Approximate),
            (unary_abs_f32, Abs, f32, f32, f32),
            (unary_abs_f16, Abs, f16, f16, Approximate),
            (unary_abs_bf16, Abs, bf16, bf16, Approximate),
            (unary_exp_f32, Exp, f32, f32, f32),
            (unary_exp_f16, Exp, f16, f16, Approximate),
            (unary_exp_bf16, Exp, bf16, bf16, Approximate),
            (unary_log_f32, Log, f32, f32, f32),
            (unary_log_f16, Log, f16, f16, Approximate),
            (unary_log_bf16, Log, bf16, bf16, Approximate),
            (unary_sqrt_f32, Sqrt, f32, f32, f32),
            (unary_sqrt_f16, Sqrt, f16, f16, Approximate),
            (unary_sqrt_bf16, Sqrt, bf16, bf16, Approximate),
            (unary_rsqrt_f32, Rsqrt, f32, f32, f32),
            (unary_rsqrt_f16, Rsqrt, f16, f16, Approximate),
            (unary_rsqrt_bf16, Rsqrt, bf16, bf16, Approximate),
            (unary_reciprocal_f32, Reciprocal, f32, f32, f32),
            (unary_reciprocal_f16, Reciprocal, f16, f16, Approximate),
            (unary_reciprocal_bf16, Reciprocal, bf16, bf16, Approximate),
            (unary_erf_f32, Erf, f32, f32, f32),
            (unary_erf_f16, Erf, f16, f16, Approximate),
            (unary_erf_bf16, Erf, bf16, bf16, Approximate),
            (unary_scale_f32_f16, Scale, f32, f16, f32),
            (unary_scale_f32_bf16, Scale, f32, bf16, f32),
            (unary_scale_f16_f32, Scale, f16, f32, f32),
            (unary_scale_bf16_f32, Scale, bf16, f32, f32),
        }
    };
}

/// The same for two inputs, of one type.
#[macro_export]
macro_rules! pointwise_binary_kernels {
    ($callback:ident) => {
        $callback! {
            (binary_add_f32, Add, f32, f32, f32),
            (binary_add_f16, Add, f16, f16, Approximate),
            (binary_add_bf16, Add, bf16, bf16, Approximate),
            (binary_mul_f32, Mul, f32, f32, f32),
            (binary_mul_f16, Mul, f16, f16, Approximate),
            (binary_mul_bf16, Mul, bf16, bf16, Approximate),
            (binary_div_f32, Div, f32, f32, f32),
            (binary_div_f16, Div, f16, f16, Approximate),
            (binary_div_bf16, Div, bf16, bf16, Approximate),
            (binary_min_f32, Min, f32, f32, f32),
            (binary_min_f16, Min, f16, f16, Approximate),
            (binary_min_bf16, Min, bf16, bf16, Approximate),
            (binary_max_f32, Max, f32, f32, f32),
            (binary_max_f16, Max, f16, f16, Approximate),
            (binary_max_bf16, Max, bf16, bf16, Approximate),
        }
    };
}

/// Calls `$callback!` with one row per kernel of an activation: symbol, mode, element type, numbers that it computes with.
#[macro_export]
macro_rules! pointwise_activate_kernels {
    ($callback:ident) => {
        $callback! {
            (activate_relu_f32, Relu, f32, f32),
            (activate_relu_f16, Relu, f16, Approximate),
            (activate_relu_bf16, Relu, bf16, Approximate),
            (activate_elu_f32, Elu, f32, f32),
            (activate_elu_f16, Elu, f16, Approximate),
            (activate_elu_bf16, Elu, bf16, Approximate),
            (activate_sigmoid_f32, Sigmoid, f32, f32),
            (activate_sigmoid_f16, Sigmoid, f16, Approximate),
            (activate_sigmoid_bf16, Sigmoid, bf16, Approximate),
            (activate_tanh_f32, Tanh, f32, f32),
            (activate_tanh_f16, Tanh, f16, Approximate),
            (activate_tanh_bf16, Tanh, bf16, Approximate),
            (activate_swish_f32, Swish, f32, f32),
            (activate_swish_f16, Swish, f16, Approximate),
            (activate_swish_bf16, Swish, bf16, Approximate),
            (activate_gelu_f32, Gelu, f32, f32),
            (activate_gelu_f16, Gelu, f16, Approximate),
            (activate_gelu_bf16, Gelu, bf16, Approximate),
            (activate_gelu_tanh_f32, GeluTanh, f32, f32),
            (activate_gelu_tanh_f16, GeluTanh, f16, Approximate),
            (activate_gelu_tanh_bf16, GeluTanh, bf16, Approximate),
            (activate_softplus_f32, Softplus, f32, f32),
            (activate_softplus_f16, Softplus, f16, Approximate),
            (activate_softplus_bf16, Softplus, bf16, Approximate),
            (activate_hardsigmoid_f32, Hardsigmoid, f32, f32),
            (activate_hardsigmoid_f16, Hardsigmoid, f16, Approximate),
            (activate_hardsigmoid_bf16, Hardsigmoid, bf16, Approximate),
            (activate_hardswish_f32, Hardswish, f32, f32),
            (activate_hardswish_f16, Hardswish, f16, Approximate),
            (activate_hardswish_bf16, Hardswish, bf16, Approximate),
            (activate_mish_f32, Mish, f32, f32),
            (activate_mish_f16, Mish, f16, Approximate),
            (activate_mish_bf16, Mish, bf16, Approximate),
        }
    };
}

/// The same for an activation's slope at one input, times another input.
#[macro_export]
macro_rules! pointwise_slope_kernels {
    ($callback:ident) => {
        $callback! {
            (slope_relu_f32, Relu, f32, f32),
            (slope_relu_f16, Relu, f16, Approximate),
            (slope_relu_bf16, Relu, bf16, Approximate),
            (slope_elu_f32, Elu, f32, f32),
            (slope_elu_f16, Elu, f16, Approximate),
            (slope_elu_bf16, Elu, bf16, Approximate),
            (slope_sigmoid_f32, Sigmoid, f32, f32),
            (slope_sigmoid_f16, Sigmoid, f16, Approximate),
            (slope_sigmoid_bf16, Sigmoid, bf16, Approximate),
            (slope_tanh_f32, Tanh, f32, f32),
            (slope_tanh_f16, Tanh, f16, Approximate),
            (slope_tanh_bf16, Tanh, bf16, Approximate),
            (slope_swish_f32, Swish, f32, f32),
            (slope_swish_f16, Swish, f16, Approximate),
            (slope_swish_bf16, Swish, bf16, Approximate),
            (slope_gelu_f32, Gelu, f32, f32),
            (slope_gelu_f16, Gelu, f16, Approximate),
            (slope_gelu_bf16, Gelu, bf16, Approximate),
            (slope_gelu_tanh_f32, GeluTanh, f32, f32),
            (slope_gelu_tanh_f16, GeluTanh, f16, Approximate),
            (slope_gelu_tanh_bf16, GeluTanh, bf16, Approximate),
            (slope_softplus_f32, Softplus, f32, f32),
            (slope_softplus_f16, Softplus, f16, Approximate),
            (slope_softplus_bf16, Softplus, bf16, Approximate),
            (slope_hardsigmoid_f32, Hardsigmoid, f32, f32),
            (slope_hardsigmoid_f16, Hardsigmoid, f16, Approximate),
            (slope_hardsigmoid_bf16, Hardsigmoid, bf16, Approximate),
            (slope_hardswish_f32, Hardswish, f32, f32),
            (slope_hardswish_f16, Hardswish, f16, Approximate),
            (slope_hardswish_bf16, Hardswish, bf16, Approximate),
            (slope_mish_f32, Mish, f32, f32),
            (slope_mish_f16, Mish, f16, Approximate),
            (slope_mish_bf16, Mish, bf16, Approximate),
        }
    };
}

/// The same for the activation of a sum, with or without another input behind it.
#[macro_export]
macro_rules! pointwise_biased_kernels {
    ($callback:ident) => {
        $callback! {
            (biased_identity_f32, Identity, f32, f32),
            (biased_identity_f16, Identity, f16, Approximate),
            (biased_identity_bf16, Identity, bf16, Approximate),
            (biased_relu_f32, Relu, f32, f32),
            (biased_relu_f16, Relu, f16, Approximate),
            (biased_relu_bf16, Relu, bf16, Approximate),
            (biased_sigmoid_f32, Sigmoid, f32, f32),
            (biased_sigmoid_f16, Sigmoid, f16, Approximate),
            (biased_sigmoid_bf16, Sigmoid, bf16, Approximate),
            (biased_tanh_f32, Tanh, f32, f32),
            (biased_tanh_f16, Tanh, f16, Approximate),
            (biased_tanh_bf16, Tanh, bf16, Approximate),
            (biased_swish_f32, Swish, f32, f32),
            (biased_swish_f16, Swish, f16, Approximate),
            (biased_swish_bf16, Swish, bf16, Approximate),
            (biased_gelu_f32, Gelu, f32, f32),
            (biased_gelu_f16, Gelu, f16, Approximate),
            (biased_gelu_bf16, Gelu, bf16, Approximate),
            (biased_gelu_tanh_f32, GeluTanh, f32, f32),
            (biased_gelu_tanh_f16, GeluTanh, f16, Approximate),
            (biased_gelu_tanh_bf16, GeluTanh, bf16, Approximate),
        }
    };
}

/// Calls `$callback!` with one row per kernel that Hopper has besides, which begins while the kernel before it ends: of
/// operations that take no longer than memory does, which that makes up to 1 % faster. Symbol, which is another one's and
/// `_sm90`, list that has that, pass or mode, types of input and output, numbers that it computes with.
#[macro_export]
macro_rules! pointwise_early_kernels {
    ($callback:ident) => {
        $callback! {
            (activate_relu_f32_sm90, activate, Relu, f32, f32, f32),
            (activate_relu_f16_sm90, activate, Relu, f16, f16, Approximate),
            (activate_relu_bf16_sm90, activate, Relu, bf16, bf16, Approximate),
            (slope_relu_f32_sm90, slope, Relu, f32, f32, f32),
            (slope_relu_f16_sm90, slope, Relu, f16, f16, Approximate),
            (slope_relu_bf16_sm90, slope, Relu, bf16, bf16, Approximate),
            (biased_relu_f32_sm90, biased, Relu, f32, f32, f32),
            (biased_relu_f16_sm90, biased, Relu, f16, f16, Approximate),
            (biased_relu_bf16_sm90, biased, Relu, bf16, bf16, Approximate),
            (binary_add_f32_sm90, binary, Add, f32, f32, f32),
            (binary_add_f16_sm90, binary, Add, f16, f16, Approximate),
            (binary_add_bf16_sm90, binary, Add, bf16, bf16, Approximate),
            (binary_mul_f32_sm90, binary, Mul, f32, f32, f32),
            (binary_mul_f16_sm90, binary, Mul, f16, f16, Approximate),
            (binary_mul_bf16_sm90, binary, Mul, bf16, bf16, Approximate),
            (unary_scale_f32_sm90, unary, Scale, f32, f32, f32),
            (unary_scale_f16_sm90, unary, Scale, f16, f16, Approximate),
            (unary_scale_bf16_sm90, unary, Scale, bf16, bf16, Approximate),
            (unary_scale_f32_f16_sm90, unary, Scale, f32, f16, f32),
            (unary_scale_f32_bf16_sm90, unary, Scale, f32, bf16, f32),
        }
    };
}
