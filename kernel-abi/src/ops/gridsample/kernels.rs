//! The only list of gridsample kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type.
#[macro_export]
macro_rules! gridsample_kernels {
    ($callback:ident) => {
        $callback! {
            (gridsample_forward_naive_f32, forward, f32),
            (gridsample_forward_naive_f64, forward, f64),
            (gridsample_forward_naive_f16, forward, f16),
            (gridsample_forward_naive_bf16, forward, bf16),
            (gridsample_backward_data_naive_f32, backward_data, f32),
            (gridsample_backward_data_naive_f64, backward_data, f64),
            (gridsample_backward_data_naive_f16, backward_data, f16),
            (gridsample_backward_data_naive_bf16, backward_data, bf16),
            (gridsample_backward_grid_naive_f32, backward_grid, f32),
            (gridsample_backward_grid_naive_f64, backward_grid, f64),
            (gridsample_backward_grid_naive_f16, backward_grid, f16),
            (gridsample_backward_grid_naive_bf16, backward_grid, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `tiles`: symbol, pass, element type.
#[macro_export]
macro_rules! gridsample_tile_kernels {
    ($callback:ident) => {
        $callback! {
            (gridsample_backward_data_tiles_f32, backward_data, f32),
            (gridsample_backward_data_tiles_f16, backward_data, f16),
            (gridsample_backward_data_tiles_bf16, backward_data, bf16),
        }
    };
}
