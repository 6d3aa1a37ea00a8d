//! The only list of pooling kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! pool_kernels {
    ($callback:ident) => {
        $callback! {
            (pool_forward_naive_f32, forward, f32),
            (pool_forward_naive_f64, forward, f64),
            (pool_forward_naive_f16, forward, f16),
            (pool_forward_naive_bf16, forward, bf16),
            (pool_backward_naive_f32, backward, f32),
            (pool_backward_naive_f64, backward, f64),
            (pool_backward_naive_f16, backward, f16),
            (pool_backward_naive_bf16, backward, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `strips`: symbol, action (`pairs` are maxima of two neighbouring columns),
/// element type, elements an access, and for windows
/// of 3 × 3 in one plane that side and the stride of rows; 0 and 0 for others.
#[macro_export]
macro_rules! pool_strip_kernels {
    ($callback:ident) => {
        $callback! {
            (pool_forward_strips_maximum_f32_v4_3x3_s1, maximum, f32, 4, 3, 1),
            (pool_forward_strips_maximum_f32_v1_3x3_s1, maximum, f32, 1, 3, 1),
            (pool_forward_strips_maximum_f16_v8_3x3_s1, maximum, f16, 8, 3, 1),
            (pool_forward_strips_maximum_f16_v1_3x3_s1, maximum, f16, 1, 3, 1),
            (pool_forward_strips_maximum_bf16_v8_3x3_s1, maximum, bf16, 8, 3, 1),
            (pool_forward_strips_maximum_bf16_v1_3x3_s1, maximum, bf16, 1, 3, 1),
            (pool_forward_strips_maximum_f32_v4_3x3_s2, maximum, f32, 4, 3, 2),
            (pool_forward_strips_maximum_f32_v1_3x3_s2, maximum, f32, 1, 3, 2),
            (pool_forward_strips_maximum_f16_v8_3x3_s2, maximum, f16, 8, 3, 2),
            (pool_forward_strips_maximum_f16_v1_3x3_s2, maximum, f16, 1, 3, 2),
            (pool_forward_strips_maximum_bf16_v8_3x3_s2, maximum, bf16, 8, 3, 2),
            (pool_forward_strips_maximum_bf16_v1_3x3_s2, maximum, bf16, 1, 3, 2),
            (pool_forward_strips_maximum_f32_v4, maximum, f32, 4, 0, 0),
            (pool_forward_strips_maximum_f32_v1, maximum, f32, 1, 0, 0),
            (pool_forward_strips_maximum_f16_v8, maximum, f16, 8, 0, 0),
            (pool_forward_strips_maximum_f16_v1, maximum, f16, 1, 0, 0),
            (pool_forward_strips_maximum_bf16_v8, maximum, bf16, 8, 0, 0),
            (pool_forward_strips_maximum_bf16_v1, maximum, bf16, 1, 0, 0),
            (pool_forward_strips_pairs_f16_v1_3x3_s1, pairs, f16, 1, 3, 1),
            (pool_forward_strips_pairs_bf16_v1_3x3_s1, pairs, bf16, 1, 3, 1),
            (pool_forward_strips_pairs_f16_v1_3x3_s2, pairs, f16, 1, 3, 2),
            (pool_forward_strips_pairs_bf16_v1_3x3_s2, pairs, bf16, 1, 3, 2),
            (pool_forward_strips_average_f32_v4_3x3_s1, average, f32, 4, 3, 1),
            (pool_forward_strips_average_f32_v1_3x3_s1, average, f32, 1, 3, 1),
            (pool_forward_strips_average_f16_v8_3x3_s1, average, f16, 8, 3, 1),
            (pool_forward_strips_average_f16_v1_3x3_s1, average, f16, 1, 3, 1),
            (pool_forward_strips_average_bf16_v8_3x3_s1, average, bf16, 8, 3, 1),
            (pool_forward_strips_average_bf16_v1_3x3_s1, average, bf16, 1, 3, 1),
            (pool_forward_strips_average_f32_v4_3x3_s2, average, f32, 4, 3, 2),
            (pool_forward_strips_average_f32_v1_3x3_s2, average, f32, 1, 3, 2),
            (pool_forward_strips_average_f16_v8_3x3_s2, average, f16, 8, 3, 2),
            (pool_forward_strips_average_f16_v1_3x3_s2, average, f16, 1, 3, 2),
            (pool_forward_strips_average_bf16_v8_3x3_s2, average, bf16, 8, 3, 2),
            (pool_forward_strips_average_bf16_v1_3x3_s2, average, bf16, 1, 3, 2),
            (pool_forward_strips_average_f32_v4, average, f32, 4, 0, 0),
            (pool_forward_strips_average_f32_v1, average, f32, 1, 0, 0),
            (pool_forward_strips_average_f16_v8, average, f16, 8, 0, 0),
            (pool_forward_strips_average_f16_v1, average, f16, 1, 0, 0),
            (pool_forward_strips_average_bf16_v8, average, bf16, 8, 0, 0),
            (pool_forward_strips_average_bf16_v1, average, bf16, 1, 0, 0),
            (pool_backward_strips_shares_f32_v4, shares, f32, 4, 0, 0),
            (pool_backward_strips_shares_f32_v1, shares, f32, 1, 0, 0),
            (pool_backward_strips_shares_f16_v8, shares, f16, 8, 0, 0),
            (pool_backward_strips_shares_f16_v1, shares, f16, 1, 0, 0),
            (pool_backward_strips_shares_bf16_v8, shares, bf16, 8, 0, 0),
            (pool_backward_strips_shares_bf16_v1, shares, bf16, 1, 0, 0),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `tiles`: symbol, element type, elements an access.
#[macro_export]
macro_rules! pool_tile_kernels {
    ($callback:ident) => {
        $callback! {
            (pool_backward_tiles_f32_v4, f32, 4),
            (pool_backward_tiles_f32_v1, f32, 1),
            (pool_backward_tiles_f16_v8, f16, 8),
            (pool_backward_tiles_f16_v1, f16, 1),
            (pool_backward_tiles_bf16_v8, bf16, 8),
            (pool_backward_tiles_bf16_v1, bf16, 1),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `planes`: symbol, element type, side and stride of the windows.
#[macro_export]
macro_rules! pool_plane_kernels {
    ($callback:ident) => {
        $callback! {
            (pool_backward_planes_f32_3x3_s1, f32, 3, 1),
            (pool_backward_planes_f16_3x3_s1, f16, 3, 1),
            (pool_backward_planes_bf16_3x3_s1, bf16, 3, 1),
            (pool_backward_planes_f32_3x3_s2, f32, 3, 2),
            (pool_backward_planes_f16_3x3_s2, f16, 3, 2),
            (pool_backward_planes_bf16_3x3_s2, bf16, 3, 2),
            (pool_backward_planes_f32_2x2_s2, f32, 2, 2),
            (pool_backward_planes_f16_2x2_s2, f16, 2, 2),
            (pool_backward_planes_bf16_2x2_s2, bf16, 2, 2),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `columns`: symbol, element type, elements an access, side and stride of
/// the windows.
#[macro_export]
macro_rules! pool_column_kernels {
    ($callback:ident) => {
        $callback! {
            (pool_backward_columns_f32_v4_3x3_s1, f32, 4, 3, 1),
            (pool_backward_columns_f16_v8_3x3_s1, f16, 8, 3, 1),
            (pool_backward_columns_bf16_v8_3x3_s1, bf16, 8, 3, 1),
            (pool_backward_columns_f32_v4_3x3_s2, f32, 4, 3, 2),
            (pool_backward_columns_f16_v8_3x3_s2, f16, 8, 3, 2),
            (pool_backward_columns_bf16_v8_3x3_s2, bf16, 8, 3, 2),
            (pool_backward_columns_f32_v4_2x2_s2, f32, 4, 2, 2),
            (pool_backward_columns_f16_v8_2x2_s2, f16, 8, 2, 2),
            (pool_backward_columns_bf16_v8_2x2_s2, bf16, 8, 2, 2),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `rows_mma`: symbol, element type.
#[macro_export]
macro_rules! pool_rows_mma_kernels {
    ($callback:ident) => {
        $callback! {
            (pool_backward_rows_mma_f16_3x3_s1_sm90, f16),
            (pool_backward_rows_mma_bf16_3x3_s1_sm90, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `ring_rows`: symbol, element type.
#[macro_export]
macro_rules! pool_ring_rows_kernels {
    ($callback:ident) => {
        $callback! {
            (pool_backward_ring_rows_f16_3x3_s2_sm90, f16),
            (pool_backward_ring_rows_bf16_3x3_s2_sm90, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `whole`: symbol, action, what lies together, element type, elements an
/// access.
#[macro_export]
macro_rules! pool_whole_kernels {
    ($callback:ident) => {
        $callback! {
            (pool_forward_whole_maximum_columns_f32_v4, maximum, columns, f32, 4),
            (pool_forward_whole_maximum_columns_f16_v8, maximum, columns, f16, 8),
            (pool_forward_whole_maximum_columns_bf16_v8, maximum, columns, bf16, 8),
            (pool_forward_whole_maximum_rows_f32_v4, maximum, rows, f32, 4),
            (pool_forward_whole_maximum_rows_f16_v8, maximum, rows, f16, 8),
            (pool_forward_whole_maximum_rows_bf16_v8, maximum, rows, bf16, 8),
            (pool_forward_whole_average_columns_f32_v4, average, columns, f32, 4),
            (pool_forward_whole_average_columns_f16_v8, average, columns, f16, 8),
            (pool_forward_whole_average_columns_bf16_v8, average, columns, bf16, 8),
            (pool_forward_whole_average_rows_f32_v4, average, rows, f32, 4),
            (pool_forward_whole_average_rows_f16_v8, average, rows, f16, 8),
            (pool_forward_whole_average_rows_bf16_v8, average, rows, bf16, 8),
            (pool_backward_whole_shares_rows_f32_v4, shares, rows, f32, 4),
            (pool_backward_whole_shares_rows_f16_v8, shares, rows, f16, 8),
            (pool_backward_whole_shares_rows_bf16_v8, shares, rows, bf16, 8),
        }
    };
}
