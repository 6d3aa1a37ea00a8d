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

/// Calls `$callback!` with one row per kernel that makes statistics of channel sums: symbol, type of the sums, type of
/// all else.
#[macro_export]
macro_rules! norm_finalize_kernels {
    ($callback:ident) => {
        $callback! {
            (norm_finalize_naive_f32, f32, f32),
            (norm_finalize_naive_f64, f64, f64),
            (norm_finalize_naive_f64_f32, f64, f32),
        }
    };
}

/// Calls `$callback!` with one row per kernel that holds rows in registers: symbol, pass, element type, threads of a row,
/// vectors of 16 bytes that each of them holds, threads of a block, blocks of a multiprocessor that registers are left to,
/// and whether they are scarce.
#[macro_export]
macro_rules! norm_row_kernels {
    ($callback:ident) => {
        $callback! {
            (norm_forward_row_registers_f32_t8_v1, forward, f32, 8, 1, 256, 4, false),
            (norm_forward_row_registers_f32_t16_v1, forward, f32, 16, 1, 256, 4, false),
            (norm_forward_row_registers_f32_t32_v1, forward, f32, 32, 1, 256, 4, false),
            (norm_forward_row_registers_f32_t32_v2, forward, f32, 32, 2, 256, 4, false),
            (norm_forward_row_registers_f32_t32_v4, forward, f32, 32, 4, 256, 3, true),
            (norm_forward_row_registers_f32_t128_v1, forward, f32, 128, 1, 128, 8, false),
            (norm_forward_row_registers_f32_t256_v1, forward, f32, 256, 1, 256, 4, false),
            (norm_forward_row_registers_f32_t512_v1, forward, f32, 512, 1, 512, 2, false),
            (norm_forward_row_registers_f32_t128_v4, forward, f32, 128, 4, 128, 8, true),
            (norm_forward_row_registers_f32_t256_v4, forward, f32, 256, 4, 256, 4, true),
            (norm_forward_row_registers_f32_t512_v4, forward, f32, 512, 4, 512, 2, true),
            (norm_forward_row_registers_f32_t1024_v4, forward, f32, 1024, 4, 1024, 1, true),
            (norm_forward_row_registers_f16_t8_v1, forward, f16, 8, 1, 256, 4, false),
            (norm_forward_row_registers_f16_t16_v1, forward, f16, 16, 1, 256, 4, false),
            (norm_forward_row_registers_f16_t32_v1, forward, f16, 32, 1, 256, 4, false),
            (norm_forward_row_registers_f16_t32_v2, forward, f16, 32, 2, 256, 4, false),
            (norm_forward_row_registers_f16_t32_v4, forward, f16, 32, 4, 256, 3, true),
            (norm_forward_row_registers_f16_t128_v1, forward, f16, 128, 1, 128, 8, false),
            (norm_forward_row_registers_f16_t256_v1, forward, f16, 256, 1, 256, 4, false),
            (norm_forward_row_registers_f16_t512_v1, forward, f16, 512, 1, 512, 2, false),
            (norm_forward_row_registers_f16_t128_v4, forward, f16, 128, 4, 128, 8, true),
            (norm_forward_row_registers_f16_t256_v4, forward, f16, 256, 4, 256, 4, true),
            (norm_forward_row_registers_f16_t512_v4, forward, f16, 512, 4, 512, 2, true),
            (norm_forward_row_registers_f16_t1024_v4, forward, f16, 1024, 4, 1024, 1, true),
            (norm_forward_row_registers_bf16_t8_v1, forward, bf16, 8, 1, 256, 4, false),
            (norm_forward_row_registers_bf16_t16_v1, forward, bf16, 16, 1, 256, 4, false),
            (norm_forward_row_registers_bf16_t32_v1, forward, bf16, 32, 1, 256, 4, false),
            (norm_forward_row_registers_bf16_t32_v2, forward, bf16, 32, 2, 256, 4, false),
            (norm_forward_row_registers_bf16_t32_v4, forward, bf16, 32, 4, 256, 3, true),
            (norm_forward_row_registers_bf16_t128_v1, forward, bf16, 128, 1, 128, 8, false),
            (norm_forward_row_registers_bf16_t256_v1, forward, bf16, 256, 1, 256, 4, false),
            (norm_forward_row_registers_bf16_t512_v1, forward, bf16, 512, 1, 512, 2, false),
            (norm_forward_row_registers_bf16_t128_v4, forward, bf16, 128, 4, 128, 8, true),
            (norm_forward_row_registers_bf16_t256_v4, forward, bf16, 256, 4, 256, 4, true),
            (norm_forward_row_registers_bf16_t512_v4, forward, bf16, 512, 4, 512, 2, true),
            (norm_forward_row_registers_bf16_t1024_v4, forward, bf16, 1024, 4, 1024, 1, true),
            (norm_backward_row_registers_f32_t8_v1, backward, f32, 8, 1, 256, 2, false),
            (norm_backward_row_registers_f32_t16_v1, backward, f32, 16, 1, 256, 2, false),
            (norm_backward_row_registers_f32_t32_v1, backward, f32, 32, 1, 256, 2, false),
            (norm_backward_row_registers_f32_t32_v2, backward, f32, 32, 2, 256, 2, true),
            (norm_backward_row_registers_f32_t128_v1, backward, f32, 128, 1, 128, 4, false),
            (norm_backward_row_registers_f32_t128_v2, backward, f32, 128, 2, 128, 4, true),
            (norm_backward_row_registers_f32_t256_v2, backward, f32, 256, 2, 256, 2, true),
            (norm_backward_row_registers_f32_t256_v4, backward, f32, 256, 4, 256, 2, true),
            (norm_backward_row_registers_f32_t512_v4, backward, f32, 512, 4, 512, 1, true),
            (norm_backward_row_registers_f16_t8_v1, backward, f16, 8, 1, 256, 2, false),
            (norm_backward_row_registers_f16_t16_v1, backward, f16, 16, 1, 256, 2, false),
            (norm_backward_row_registers_f16_t32_v1, backward, f16, 32, 1, 256, 2, false),
            (norm_backward_row_registers_f16_t32_v2, backward, f16, 32, 2, 256, 2, true),
            (norm_backward_row_registers_f16_t128_v1, backward, f16, 128, 1, 128, 4, false),
            (norm_backward_row_registers_f16_t128_v2, backward, f16, 128, 2, 128, 4, true),
            (norm_backward_row_registers_f16_t256_v2, backward, f16, 256, 2, 256, 2, true),
            (norm_backward_row_registers_f16_t512_v2, backward, f16, 512, 2, 512, 1, true),
            (norm_backward_row_registers_bf16_t8_v1, backward, bf16, 8, 1, 256, 2, false),
            (norm_backward_row_registers_bf16_t16_v1, backward, bf16, 16, 1, 256, 2, false),
            (norm_backward_row_registers_bf16_t32_v1, backward, bf16, 32, 1, 256, 2, false),
            (norm_backward_row_registers_bf16_t32_v2, backward, bf16, 32, 2, 256, 2, true),
            (norm_backward_row_registers_bf16_t128_v1, backward, bf16, 128, 1, 128, 4, false),
            (norm_backward_row_registers_bf16_t128_v2, backward, bf16, 128, 2, 128, 4, true),
            (norm_backward_row_registers_bf16_t256_v2, backward, bf16, 256, 2, 256, 2, true),
            (norm_backward_row_registers_bf16_t512_v2, backward, bf16, 512, 2, 512, 1, true),
        }
    };
}

/// Calls `$callback!` with one row per forward kernel that holds a row in few registers of a block: symbol, element type,
/// threads, vectors of 16 bytes that each of them holds, and blocks of a multiprocessor that registers are left to.
#[macro_export]
macro_rules! norm_lean_row_kernels {
    ($callback:ident) => {
        $callback! {
            (norm_forward_lean_rows_f32_t128_v2, f32, 128, 2, 16),
            (norm_forward_lean_rows_f32_t128_v4, f32, 128, 4, 10),
            (norm_forward_lean_rows_f32_t256_v4, f32, 256, 4, 5),
            (norm_forward_lean_rows_f32_t512_v4, f32, 512, 4, 2),
            (norm_forward_lean_rows_f32_t1024_v4, f32, 1024, 4, 1),
            (norm_forward_lean_rows_f32_t512_v2, f32, 512, 2, 4),
            (norm_forward_lean_rows_f32_t256_v2, f32, 256, 2, 8),
            (norm_forward_lean_rows_f16_t128_v2, f16, 128, 2, 16),
            (norm_forward_lean_rows_f16_t128_v4, f16, 128, 4, 12),
            (norm_forward_lean_rows_f16_t256_v4, f16, 256, 4, 6),
            (norm_forward_lean_rows_f16_t512_v4, f16, 512, 4, 3),
            (norm_forward_lean_rows_f16_t1024_v4, f16, 1024, 4, 1),
            (norm_forward_lean_rows_f16_t512_v2, f16, 512, 2, 4),
            (norm_forward_lean_rows_f16_t256_v2, f16, 256, 2, 8),
            (norm_forward_lean_rows_bf16_t128_v2, bf16, 128, 2, 16),
            (norm_forward_lean_rows_bf16_t128_v4, bf16, 128, 4, 12),
            (norm_forward_lean_rows_bf16_t256_v4, bf16, 256, 4, 6),
            (norm_forward_lean_rows_bf16_t512_v4, bf16, 512, 4, 3),
            (norm_forward_lean_rows_bf16_t1024_v4, bf16, 1024, 4, 1),
            (norm_forward_lean_rows_bf16_t512_v2, bf16, 512, 2, 4),
            (norm_forward_lean_rows_bf16_t256_v2, bf16, 256, 2, 8),
        }
    };
}

/// Calls `$callback!` with one row per kernel that brings rows to rings: symbol, pass, element type, vectors of 16 bytes
/// that a thread holds of a row, and the most threads of a block.
#[macro_export]
macro_rules! norm_ring_kernels {
    ($callback:ident) => {
        $callback! {
            (norm_backward_ring_rows_f32_v4, backward, f32, 4, 512),
            (norm_backward_ring_rows_f16_v4, backward, f16, 4, 512),
            (norm_backward_ring_rows_bf16_v4, backward, bf16, 4, 512),
        }
    };
}

/// Calls `$callback!` with one row per kernel that goes along rows: symbol, what it computes, element type.
#[macro_export]
macro_rules! norm_looped_kernels {
    ($callback:ident) => {
        $callback! {
            (norm_forward_looped_f32, forward, f32),
            (norm_forward_looped_f16, forward, f16),
            (norm_forward_looped_bf16, forward, bf16),
            (norm_backward_looped_f32, backward, f32),
            (norm_backward_looped_f16, backward, f16),
            (norm_backward_looped_bf16, backward, bf16),
            (norm_columns_looped_f32, columns, f32),
            (norm_columns_looped_f16, columns, f16),
            (norm_columns_looped_bf16, columns, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel that adds up parts of gradients: symbol, element type.
#[macro_export]
macro_rules! norm_column_sums_kernels {
    ($callback:ident) => {
        $callback! {
            (norm_column_sums_f32, f32),
            (norm_column_sums_f16, f16),
            (norm_column_sums_bf16, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel for channels: symbol, what it computes, element type.
#[macro_export]
macro_rules! norm_channelwise_kernels {
    ($callback:ident) => {
        $callback! {
            (norm_channelwise_statistics_f32, statistics, f32),
            (norm_channelwise_statistics_f16, statistics, f16),
            (norm_channelwise_statistics_bf16, statistics, bf16),
            (norm_channelwise_statistics_runs_f32, statistics_runs, f32),
            (norm_channelwise_statistics_runs_f16, statistics_runs, f16),
            (norm_channelwise_statistics_runs_bf16, statistics_runs, bf16),
            (norm_channelwise_finish_statistics_f32, finish_statistics, f32),
            (norm_channelwise_finish_statistics_f16, finish_statistics, f16),
            (norm_channelwise_finish_statistics_bf16, finish_statistics, bf16),
            (norm_channelwise_apply_f32, apply, f32),
            (norm_channelwise_apply_f16, apply, f16),
            (norm_channelwise_apply_bf16, apply, bf16),
            (norm_channelwise_apply_runs_f32, apply_runs, f32),
            (norm_channelwise_apply_runs_f16, apply_runs, f16),
            (norm_channelwise_apply_runs_bf16, apply_runs, bf16),
            (norm_channelwise_infer_f32, infer, f32),
            (norm_channelwise_infer_f16, infer, f16),
            (norm_channelwise_infer_bf16, infer, bf16),
            (norm_channelwise_infer_runs_f32, infer_runs, f32),
            (norm_channelwise_infer_runs_f16, infer_runs, f16),
            (norm_channelwise_infer_runs_bf16, infer_runs, bf16),
            (norm_channelwise_gradient_sums_f32, gradient_sums, f32),
            (norm_channelwise_gradient_sums_f16, gradient_sums, f16),
            (norm_channelwise_gradient_sums_bf16, gradient_sums, bf16),
            (norm_channelwise_gradient_sums_runs_f32, gradient_sums_runs, f32),
            (norm_channelwise_gradient_sums_runs_f16, gradient_sums_runs, f16),
            (norm_channelwise_gradient_sums_runs_bf16, gradient_sums_runs, bf16),
            (norm_channelwise_finish_gradients_f32, finish_gradients, f32),
            (norm_channelwise_finish_gradients_f16, finish_gradients, f16),
            (norm_channelwise_finish_gradients_bf16, finish_gradients, bf16),
            (norm_channelwise_apply_gradients_f32, apply_gradients, f32),
            (norm_channelwise_apply_gradients_f16, apply_gradients, f16),
            (norm_channelwise_apply_gradients_bf16, apply_gradients, bf16),
            (norm_channelwise_apply_gradients_runs_f32, apply_gradients_runs, f32),
            (norm_channelwise_apply_gradients_runs_f16, apply_gradients_runs, f16),
            (norm_channelwise_apply_gradients_runs_bf16, apply_gradients_runs, bf16),
            (norm_channelwise_whole_forward_f32, whole_forward, f32),
            (norm_channelwise_whole_forward_f16, whole_forward, f16),
            (norm_channelwise_whole_forward_bf16, whole_forward, bf16),
            (norm_channelwise_whole_backward_f32, whole_backward, f32),
            (norm_channelwise_whole_backward_f16, whole_backward, f16),
            (norm_channelwise_whole_backward_bf16, whole_backward, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel that keeps elements on the chip: symbol, pass, element type, threads beside
/// each other along channels, and vectors of a tensor's chunk that each has: backward, where chunks of two tensors and more
/// come together, as few as make 16 KB of them.
#[macro_export]
macro_rules! norm_resident_kernels {
    ($callback:ident) => {
        $callback! {
            (norm_forward_resident_channels_f32_l8, forward, f32, 8, 2),
            (norm_forward_resident_channels_f32_l16, forward, f32, 16, 4),
            (norm_forward_resident_channels_f32_l18, forward, f32, 18, 4),
            (norm_forward_resident_channels_f16_l8, forward, f16, 8, 2),
            (norm_forward_resident_channels_f16_l16, forward, f16, 16, 4),
            (norm_forward_resident_channels_f16_l18, forward, f16, 18, 4),
            (norm_forward_resident_channels_bf16_l8, forward, bf16, 8, 2),
            (norm_forward_resident_channels_bf16_l16, forward, bf16, 16, 4),
            (norm_forward_resident_channels_bf16_l18, forward, bf16, 18, 4),
            (norm_backward_resident_channels_f32_l8, backward, f32, 8, 1),
            (norm_backward_resident_channels_f32_l16, backward, f32, 16, 1),
            (norm_backward_resident_channels_f16_l8, backward, f16, 8, 1),
            (norm_backward_resident_channels_f16_l16, backward, f16, 16, 1),
            (norm_backward_resident_channels_bf16_l8, backward, bf16, 8, 1),
            (norm_backward_resident_channels_bf16_l16, backward, bf16, 16, 1),
        }
    };
}

/// Calls `$callback!` with one row per kernel that keeps planes on the chip: symbol, pass, element type, and bytes of a
/// vector.
#[macro_export]
macro_rules! norm_resident_planes_kernels {
    ($callback:ident) => {
        $callback! {
            (norm_forward_resident_planes_f32_w16, forward, f32, 16),
            (norm_forward_resident_planes_f32_w8, forward, f32, 8),
            (norm_forward_resident_planes_f32_w4, forward, f32, 4),
            (norm_forward_resident_planes_f16_w16, forward, f16, 16),
            (norm_forward_resident_planes_f16_w8, forward, f16, 8),
            (norm_forward_resident_planes_f16_w2, forward, f16, 2),
            (norm_forward_resident_planes_bf16_w16, forward, bf16, 16),
            (norm_forward_resident_planes_bf16_w8, forward, bf16, 8),
            (norm_forward_resident_planes_bf16_w2, forward, bf16, 2),
            (norm_backward_resident_planes_f32_w16, backward, f32, 16),
            (norm_backward_resident_planes_f32_w8, backward, f32, 8),
            (norm_backward_resident_planes_f32_w4, backward, f32, 4),
            (norm_backward_resident_planes_f16_w16, backward, f16, 16),
            (norm_backward_resident_planes_f16_w8, backward, f16, 8),
            (norm_backward_resident_planes_f16_w2, backward, f16, 2),
            (norm_backward_resident_planes_bf16_w16, backward, bf16, 16),
            (norm_backward_resident_planes_bf16_w8, backward, bf16, 8),
            (norm_backward_resident_planes_bf16_w2, backward, bf16, 2),
        }
    };
}
