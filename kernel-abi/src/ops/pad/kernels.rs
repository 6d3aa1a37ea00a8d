//! The only list of padding kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, type that it computes in.
#[macro_export]
macro_rules! pad_kernels {
    ($callback:ident) => {
        $callback! {
            (pad_forward_naive_f32, forward, f32),
            (pad_forward_naive_f64, forward, f64),
            (pad_forward_naive_i64, forward, i64),
            (pad_backward_naive_f32, backward, f32),
            (pad_backward_naive_f64, backward, f64),
            (pad_backward_naive_i64, backward, i64),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `rows`: symbol, bytes of an element.
#[macro_export]
macro_rules! pad_row_kernels {
    ($callback:ident) => {
        $callback! {
            (pad_rows_b1, 1),
            (pad_rows_b2, 2),
            (pad_rows_b4, 4),
            (pad_rows_b8, 8),
        }
    };
}

/// The same of `packed`.
#[macro_export]
macro_rules! pad_packed_kernels {
    ($callback:ident) => {
        $callback! {
            (pad_packed_b1, 1),
            (pad_packed_b2, 2),
            (pad_packed_b4, 4),
            (pad_packed_b8, 8),
        }
    };
}

/// Calls `$callback!` with one row per kernel of `gradient`: symbol, pass, element type.
#[macro_export]
macro_rules! pad_gradient_kernels {
    ($callback:ident) => {
        $callback! {
            (pad_gradient_f32, backward, f32),
            (pad_gradient_f64, backward, f64),
            (pad_gradient_f16, backward, f16),
            (pad_gradient_bf16, backward, bf16),
        }
    };
}

/// The same of `packed_gradient`.
#[macro_export]
macro_rules! pad_packed_gradient_kernels {
    ($callback:ident) => {
        $callback! {
            (pad_packed_gradient_f32, backward, f32),
            (pad_packed_gradient_f64, backward, f64),
            (pad_packed_gradient_f16, backward, f16),
            (pad_packed_gradient_bf16, backward, bf16),
        }
    };
}
