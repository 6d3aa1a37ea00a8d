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

/// The same for the kernel that computes exactly with integers.
#[macro_export]
macro_rules! reduce_integer_kernels {
    ($callback:ident) => {
        $callback! {
            (reduce_integers_naive_i64, integers, i64),
        }
    };
}

/// Calls `$callback!` with one row per kernel that reads 16 bytes at a time: symbol, pass, element type of x.
///
/// `rows` reduces what lies contiguous, `first` with indices and `log_sum_exp` likewise; `columns` reduces what lies across
/// it, and `finish` combines the parts of rows and columns.
#[macro_export]
macro_rules! reduce_vector_kernels {
    ($callback:ident) => {
        $callback! {
            (reduce_rows_vectorized_f32, rows, f32),
            (reduce_rows_vectorized_f64, rows, f64),
            (reduce_rows_vectorized_f16, rows, f16),
            (reduce_rows_vectorized_bf16, rows, bf16),
            (reduce_first_vectorized_f32, first, f32),
            (reduce_first_vectorized_f64, first, f64),
            (reduce_first_vectorized_f16, first, f16),
            (reduce_first_vectorized_bf16, first, bf16),
            (reduce_log_sum_exp_vectorized_f32, log_sum_exp, f32),
            (reduce_log_sum_exp_vectorized_f16, log_sum_exp, f16),
            (reduce_log_sum_exp_vectorized_bf16, log_sum_exp, bf16),
            (reduce_columns_vectorized_f32, columns, f32),
            (reduce_columns_vectorized_f64, columns, f64),
            (reduce_columns_vectorized_f16, columns, f16),
            (reduce_columns_vectorized_bf16, columns, bf16),
        }
    };
}

/// The same for several runs that begin alike, no multiple of 16 bytes long.
#[macro_export]
macro_rules! reduce_run_kernels {
    ($callback:ident) => {
        $callback! {
            (reduce_runs_vectorized_f32, runs, f32),
            (reduce_runs_vectorized_f64, runs, f64),
            (reduce_runs_vectorized_f16, runs, f16),
            (reduce_runs_vectorized_bf16, runs, bf16),
        }
    };
}

/// The same for the kernels whose blocks of 1024 threads have a row each.
#[macro_export]
macro_rules! reduce_wide_kernels {
    ($callback:ident) => {
        $callback! {
            (reduce_rows_wide_f32, rows, f32),
            (reduce_rows_wide_f64, rows, f64),
            (reduce_rows_wide_f16, rows, f16),
            (reduce_rows_wide_bf16, rows, bf16),
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
