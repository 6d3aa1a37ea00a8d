//! The only lists of reduction kernels.

/// Calls `$callback!` with one row per kernel that takes any problem: symbol, pass, type that it computes in.
#[macro_export]
macro_rules! reduce_kernels {
    ($callback:ident) => {
        $callback! {
            (reduce_any_naive_f32, any, f32),
            (reduce_any_naive_f64, any, f64),
        }
    };
}

/// Calls `$callback!` with one row per kernel that reads 16 bytes at a time: symbol, pass, element type of x.
///
/// `rows` reduces what lies contiguous, `columns` what lies across it, and `finish` adds up the parts of either.
#[macro_export]
macro_rules! reduce_vector_kernels {
    ($callback:ident) => {
        $callback! {
            (reduce_rows_vectorized_f32, rows, f32),
            (reduce_rows_vectorized_f64, rows, f64),
            (reduce_rows_vectorized_f16, rows, f16),
            (reduce_rows_vectorized_bf16, rows, bf16),
            (reduce_columns_vectorized_f32, columns, f32),
            (reduce_columns_vectorized_f64, columns, f64),
            (reduce_columns_vectorized_f16, columns, f16),
            (reduce_columns_vectorized_bf16, columns, bf16),
        }
    };
}

/// The same for the kernels that combine parts: symbol, pass, type of the parts.
#[macro_export]
macro_rules! reduce_finish_kernels {
    ($callback:ident) => {
        $callback! {
            (reduce_finish_vectorized_f32, finish, f32),
            (reduce_finish_vectorized_f64, finish, f64),
        }
    };
}
