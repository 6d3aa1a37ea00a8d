//! The only list of resampling kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! resample_kernels {
    ($callback:ident) => {
        $callback! {
            (resample_forward_naive_f32, forward, f32),
            (resample_forward_naive_f64, forward, f64),
            (resample_forward_naive_f16, forward, f16),
            (resample_forward_naive_bf16, forward, bf16),
            (resample_backward_naive_f32, backward, f32),
            (resample_backward_naive_f64, backward, f64),
            (resample_backward_naive_f16, backward, f16),
            (resample_backward_naive_bf16, backward, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `given_tables`: symbol, element type, elements an access, neighbours along an
/// axis.
#[macro_export]
macro_rules! resample_given_kernels {
    ($callback:ident) => {
        $callback! {
            (resample_given_f32_v4_x2, f32, 4, 2),
            (resample_given_f32_v4_x4, f32, 4, 4),
            (resample_given_f32_v1_x2, f32, 1, 2),
            (resample_given_f32_v1_x4, f32, 1, 4),
            (resample_given_f16_v8_x2, f16, 8, 2),
            (resample_given_f16_v8_x4, f16, 8, 4),
            (resample_given_f16_v1_x2, f16, 1, 2),
            (resample_given_f16_v1_x4, f16, 1, 4),
            (resample_given_bf16_v8_x2, bf16, 8, 2),
            (resample_given_bf16_v8_x4, bf16, 8, 4),
            (resample_given_bf16_v1_x2, bf16, 1, 2),
            (resample_given_bf16_v1_x4, bf16, 1, 4),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `tables`: symbol, element type, elements an access, columns read at once.
#[macro_export]
macro_rules! resample_table_kernels {
    ($callback:ident) => {
        $callback! {
            (resample_tables_f32_v4_x1, f32, 4, 1),
            (resample_tables_f32_v4_x2, f32, 4, 2),
            (resample_tables_f32_v4_x4, f32, 4, 4),
            (resample_tables_f32_v1_x1, f32, 1, 1),
            (resample_tables_f32_v1_x2, f32, 1, 2),
            (resample_tables_f32_v1_x4, f32, 1, 4),
            (resample_tables_f16_v8_x1, f16, 8, 1),
            (resample_tables_f16_v8_x2, f16, 8, 2),
            (resample_tables_f16_v8_x4, f16, 8, 4),
            (resample_tables_f16_v1_x1, f16, 1, 1),
            (resample_tables_f16_v1_x2, f16, 1, 2),
            (resample_tables_f16_v1_x4, f16, 1, 4),
            (resample_tables_bf16_v8_x1, bf16, 8, 1),
            (resample_tables_bf16_v8_x2, bf16, 8, 2),
            (resample_tables_bf16_v8_x4, bf16, 8, 4),
            (resample_tables_bf16_v1_x1, bf16, 1, 1),
            (resample_tables_bf16_v1_x2, bf16, 1, 2),
            (resample_tables_bf16_v1_x4, bf16, 1, 4),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `separable`: symbol, element type, elements of 16 bytes, neighbours along
/// an axis, blocks of a multiprocessor.
#[macro_export]
macro_rules! resample_separable_kernels {
    ($callback:ident) => {
        $callback! {
            (resample_separable_f32_x1, f32, 4, 1, 3),
            (resample_separable_f32_x2, f32, 4, 2, 4),
            (resample_separable_f32_x4, f32, 4, 4, 3),
            (resample_separable_f16_x1, f16, 8, 1, 3),
            (resample_separable_f16_x2, f16, 8, 2, 4),
            (resample_separable_f16_x4, f16, 8, 4, 4),
            (resample_separable_bf16_x1, bf16, 8, 1, 3),
            (resample_separable_bf16_x2, bf16, 8, 2, 4),
            (resample_separable_bf16_x4, bf16, 8, 4, 4),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `channel_vectors`: symbol, element type, elements of 16 bytes, neighbours along
/// an axis, blocks of a multiprocessor.
#[macro_export]
macro_rules! resample_channel_kernels {
    ($callback:ident) => {
        $callback! {
            (resample_channels_f32_x1, f32, 4, 1, 4),
            (resample_channels_f32_x2, f32, 4, 2, 4),
            (resample_channels_f32_x4, f32, 4, 4, 3),
            (resample_channels_f16_x1, f16, 8, 1, 4),
            (resample_channels_f16_x2, f16, 8, 2, 4),
            (resample_channels_f16_x4, f16, 8, 4, 3),
            (resample_channels_bf16_x1, bf16, 8, 1, 4),
            (resample_channels_bf16_x2, bf16, 8, 2, 4),
            (resample_channels_bf16_x4, bf16, 8, 4, 3),
        }
    };
}
