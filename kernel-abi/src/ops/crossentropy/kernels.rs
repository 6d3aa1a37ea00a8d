//! The only lists of cross-entropy kernels.

/// Calls `$callback!` with one row per kernel: symbol, pass, element type of x.
#[macro_export]
macro_rules! crossentropy_kernels {
    ($callback:ident) => {
        $callback! {
            (crossentropy_forward_naive_f32, forward, f32),
            (crossentropy_forward_naive_f64, forward, f64),
            (crossentropy_forward_naive_f16, forward, f16),
            (crossentropy_forward_naive_bf16, forward, bf16),
            (crossentropy_backward_naive_f32, backward, f32),
            (crossentropy_backward_naive_f64, backward, f64),
            (crossentropy_backward_naive_f16, backward, f16),
            (crossentropy_backward_naive_bf16, backward, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel that adds up losses and weights: symbol, pass, element type of x.
#[macro_export]
macro_rules! crossentropy_sum_kernels {
    ($callback:ident) => {
        $callback! {
            (crossentropy_sum_f32, forward, f32),
            (crossentropy_sum_f64, forward, f64),
            (crossentropy_sum_f16, forward, f16),
            (crossentropy_sum_bf16, forward, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel that goes along contiguous rows: symbol, pass, element type, threads a row,
/// pieces of 16 bytes a thread at a time, threads a block, blocks a multiprocessor has registers for.
#[macro_export]
macro_rules! crossentropy_looped_kernels {
    ($callback:ident) => {
        $callback! {
            (crossentropy_forward_looped_f32_t4_p1, forward, f32, 4, 1, 128, 8),
            (crossentropy_forward_looped_f32_t8_p2, forward, f32, 8, 2, 128, 8),
            (crossentropy_forward_looped_f32_t32_p2, forward, f32, 32, 2, 128, 8),
            (crossentropy_forward_looped_f32_t32_p4, forward, f32, 32, 4, 128, 8),
            (crossentropy_forward_looped_f32_t128_p2, forward, f32, 128, 2, 128, 8),
            (crossentropy_forward_looped_f32_t128_p4, forward, f32, 128, 4, 128, 8),
            (crossentropy_forward_looped_f32_t256_p4, forward, f32, 256, 4, 256, 4),
            (crossentropy_forward_looped_f16_t4_p1, forward, f16, 4, 1, 128, 8),
            (crossentropy_forward_looped_f16_t8_p2, forward, f16, 8, 2, 128, 8),
            (crossentropy_forward_looped_f16_t32_p2, forward, f16, 32, 2, 128, 8),
            (crossentropy_forward_looped_f16_t32_p4, forward, f16, 32, 4, 128, 8),
            (crossentropy_forward_looped_f16_t128_p2, forward, f16, 128, 2, 128, 8),
            (crossentropy_forward_looped_f16_t128_p4, forward, f16, 128, 4, 128, 8),
            (crossentropy_forward_looped_f16_t256_p4, forward, f16, 256, 4, 256, 4),
            (crossentropy_forward_looped_bf16_t4_p1, forward, bf16, 4, 1, 128, 8),
            (crossentropy_forward_looped_bf16_t8_p2, forward, bf16, 8, 2, 128, 8),
            (crossentropy_forward_looped_bf16_t32_p2, forward, bf16, 32, 2, 128, 8),
            (crossentropy_forward_looped_bf16_t32_p4, forward, bf16, 32, 4, 128, 8),
            (crossentropy_forward_looped_bf16_t128_p2, forward, bf16, 128, 2, 128, 8),
            (crossentropy_forward_looped_bf16_t128_p4, forward, bf16, 128, 4, 128, 8),
            (crossentropy_forward_looped_bf16_t256_p4, forward, bf16, 256, 4, 256, 4),
            (crossentropy_backward_looped_f32_t4_p1, backward, f32, 4, 1, 128, 8),
            (crossentropy_backward_looped_f32_t8_p2, backward, f32, 8, 2, 128, 8),
            (crossentropy_backward_looped_f32_t32_p2, backward, f32, 32, 2, 128, 8),
            (crossentropy_backward_looped_f32_t128_p2, backward, f32, 128, 2, 128, 8),
            (crossentropy_backward_looped_f32_t256_p2, backward, f32, 256, 2, 256, 4),
            (crossentropy_backward_looped_f16_t4_p1, backward, f16, 4, 1, 128, 8),
            (crossentropy_backward_looped_f16_t8_p2, backward, f16, 8, 2, 128, 7),
            (crossentropy_backward_looped_f16_t32_p2, backward, f16, 32, 2, 128, 7),
            (crossentropy_backward_looped_f16_t128_p2, backward, f16, 128, 2, 128, 7),
            (crossentropy_backward_looped_f16_t256_p2, backward, f16, 256, 2, 256, 3),
            (crossentropy_backward_looped_bf16_t4_p1, backward, bf16, 4, 1, 128, 8),
            (crossentropy_backward_looped_bf16_t8_p2, backward, bf16, 8, 2, 128, 7),
            (crossentropy_backward_looped_bf16_t32_p2, backward, bf16, 32, 2, 128, 7),
            (crossentropy_backward_looped_bf16_t128_p2, backward, bf16, 128, 2, 128, 7),
            (crossentropy_backward_looped_bf16_t256_p2, backward, bf16, 256, 2, 256, 3),
        }
    };
}

/// Calls `$callback!` with one row per kernel that shares a row among blocks: symbol, which step, element type, threads a
/// block.
#[macro_export]
macro_rules! crossentropy_split_kernels {
    ($callback:ident) => {
        $callback! {
            (crossentropy_forward_split_parts_f32, forward_parts, f32, 512),
            (crossentropy_forward_split_parts_f16, forward_parts, f16, 512),
            (crossentropy_forward_split_parts_bf16, forward_parts, bf16, 512),
            (crossentropy_forward_split_rest_f32, forward_rest, f32, 1024),
            (crossentropy_forward_split_rest_f16, forward_rest, f16, 1024),
            (crossentropy_forward_split_rest_bf16, forward_rest, bf16, 1024),
        }
    };
}
