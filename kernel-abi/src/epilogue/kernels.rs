//! The only list of the kernels that follow a product.

/// Calls `$callback!` with one row per kernel over y: symbol, element type, type of the channel sums.
#[macro_export]
macro_rules! epilogue_separate_kernels {
    ($callback:ident) => {
        $callback! {
            (epilogue_separate_f32, f32, f32),
            (epilogue_separate_f64, f64, f64),
            (epilogue_separate_f16, f16, f32),
            (epilogue_separate_bf16, bf16, f32),
            (epilogue_separate_f32_sums_f64, f32, f64),
            (epilogue_separate_f16_sums_f64, f16, f64),
            (epilogue_separate_bf16_sums_f64, bf16, f64),
        }
    };
}

/// Calls `$callback!` with one row per kernel that adds up parts of channel sums: symbol, type of the sums.
#[macro_export]
macro_rules! epilogue_sums_kernels {
    ($callback:ident) => {
        $callback! {
            (epilogue_sums_f32, f32),
            (epilogue_sums_f64, f64),
        }
    };
}
