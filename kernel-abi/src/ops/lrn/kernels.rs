//! The only lists of local response normalization kernels.

/// Calls `$callback!` with one row per kernel: symbol, what it computes, element type.
#[macro_export]
macro_rules! lrn_kernels {
    ($callback:ident) => {
        $callback! {
            (lrn_forward_naive_f32, forward, f32),
            (lrn_forward_naive_f64, forward, f64),
            (lrn_forward_naive_f16, forward, f16),
            (lrn_forward_naive_bf16, forward, bf16),
            (lrn_powers_naive_f32, powers, f32),
            (lrn_powers_naive_f64, powers, f64),
            (lrn_powers_naive_f16, powers, f16),
            (lrn_powers_naive_bf16, powers, bf16),
            (lrn_backward_naive_f32, backward, f32),
            (lrn_backward_naive_f64, backward, f64),
            (lrn_backward_naive_f16, backward, f16),
            (lrn_backward_naive_bf16, backward, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel for windows across channels in registers: symbol, pass, element type, channels
/// on each side of a window's middle, what neighbouring threads take.
#[macro_export]
macro_rules! lrn_window_kernels {
    ($callback:ident) => {
        $callback! {
            (lrn_forward_windows_f32_n3_channels, forward, f32, 1, channels),
            (lrn_forward_windows_f32_n3_planes, forward, f32, 1, planes),
            (lrn_forward_windows_f32_n3_single, forward, f32, 1, single),
            (lrn_forward_windows_f32_n5_channels, forward, f32, 2, channels),
            (lrn_forward_windows_f32_n5_planes, forward, f32, 2, planes),
            (lrn_forward_windows_f32_n5_single, forward, f32, 2, single),
            (lrn_forward_windows_f16_n3_channels, forward, f16, 1, channels),
            (lrn_forward_windows_f16_n3_planes, forward, f16, 1, planes),
            (lrn_forward_windows_f16_n3_single, forward, f16, 1, single),
            (lrn_forward_windows_f16_n5_channels, forward, f16, 2, channels),
            (lrn_forward_windows_f16_n5_planes, forward, f16, 2, planes),
            (lrn_forward_windows_f16_n5_single, forward, f16, 2, single),
            (lrn_forward_windows_bf16_n3_channels, forward, bf16, 1, channels),
            (lrn_forward_windows_bf16_n3_planes, forward, bf16, 1, planes),
            (lrn_forward_windows_bf16_n3_single, forward, bf16, 1, single),
            (lrn_forward_windows_bf16_n5_channels, forward, bf16, 2, channels),
            (lrn_forward_windows_bf16_n5_planes, forward, bf16, 2, planes),
            (lrn_forward_windows_bf16_n5_single, forward, bf16, 2, single),
            (lrn_backward_windows_f32_n3_channels, backward, f32, 1, channels),
            (lrn_backward_windows_f32_n3_planes, backward, f32, 1, planes),
            (lrn_backward_windows_f32_n3_single, backward, f32, 1, single),
            (lrn_backward_windows_f32_n5_channels, backward, f32, 2, channels),
            (lrn_backward_windows_f32_n5_planes, backward, f32, 2, planes),
            (lrn_backward_windows_f32_n5_single, backward, f32, 2, single),
            (lrn_backward_windows_f16_n3_channels, backward, f16, 1, channels),
            (lrn_backward_windows_f16_n3_planes, backward, f16, 1, planes),
            (lrn_backward_windows_f16_n3_single, backward, f16, 1, single),
            (lrn_backward_windows_f16_n5_channels, backward, f16, 2, channels),
            (lrn_backward_windows_f16_n5_planes, backward, f16, 2, planes),
            (lrn_backward_windows_f16_n5_single, backward, f16, 2, single),
            (lrn_backward_windows_bf16_n3_channels, backward, bf16, 1, channels),
            (lrn_backward_windows_bf16_n3_planes, backward, bf16, 1, planes),
            (lrn_backward_windows_bf16_n3_single, backward, bf16, 1, single),
            (lrn_backward_windows_bf16_n5_channels, backward, bf16, 2, channels),
            (lrn_backward_windows_bf16_n5_planes, backward, bf16, 2, planes),
            (lrn_backward_windows_bf16_n5_single, backward, bf16, 2, single),
        }
    };
}
