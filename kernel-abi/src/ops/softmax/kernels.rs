//! The only lists of softmax kernels.

/// Calls `$callback!` with one row per naive kernel: symbol, pass, element type.
#[macro_export]
macro_rules! softmax_kernels {
    ($callback:ident) => {
        $callback! {
            (softmax_forward_naive_f32, forward, f32),
            (softmax_forward_naive_f64, forward, f64),
            (softmax_forward_naive_f16, forward, f16),
            (softmax_forward_naive_bf16, forward, bf16),
            (softmax_backward_naive_f32, backward, f32),
            (softmax_backward_naive_f64, backward, f64),
            (softmax_backward_naive_f16, backward, f16),
            (softmax_backward_naive_bf16, backward, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel whose lanes have an element of a short row each: symbol, pass, element type,
/// lanes of a row.
#[macro_export]
macro_rules! softmax_lane_kernels {
    ($callback:ident) => {
        $callback! {
            (softmax_forward_lanes_f32_t8, forward, f32, 8),
            (softmax_forward_lanes_f32_t16, forward, f32, 16),
            (softmax_forward_lanes_f32_t32, forward, f32, 32),
            (softmax_forward_lanes_f16_t8, forward, f16, 8),
            (softmax_forward_lanes_f16_t16, forward, f16, 16),
            (softmax_forward_lanes_f16_t32, forward, f16, 32),
            (softmax_forward_lanes_bf16_t8, forward, bf16, 8),
            (softmax_forward_lanes_bf16_t16, forward, bf16, 16),
            (softmax_forward_lanes_bf16_t32, forward, bf16, 32),
            (softmax_backward_lanes_f32_t8, backward, f32, 8),
            (softmax_backward_lanes_f32_t16, backward, f32, 16),
            (softmax_backward_lanes_f32_t32, backward, f32, 32),
            (softmax_backward_lanes_f16_t8, backward, f16, 8),
            (softmax_backward_lanes_f16_t16, backward, f16, 16),
            (softmax_backward_lanes_f16_t32, backward, f16, 32),
            (softmax_backward_lanes_bf16_t8, backward, bf16, 8),
            (softmax_backward_lanes_bf16_t16, backward, bf16, 16),
            (softmax_backward_lanes_bf16_t32, backward, bf16, 32),
        }
    };
}

/// Calls `$callback!` with one row per kernel that holds rows in registers: symbol, pass, element type, threads a row,
/// elements a thread, threads a block, blocks a multiprocessor at least.
#[macro_export]
macro_rules! softmax_register_kernels {
    ($callback:ident) => {
        $callback! {
            (softmax_forward_register_f32_t4_e8, forward, f32, 4, 8, 128, 1),
            (softmax_forward_register_f32_t8_e8, forward, f32, 8, 8, 128, 1),
            (softmax_forward_register_f32_t16_e8, forward, f32, 16, 8, 128, 1),
            (softmax_forward_register_f32_t32_e8, forward, f32, 32, 8, 128, 1),
            (softmax_forward_register_f32_t32_e16, forward, f32, 32, 16, 128, 1),
            (softmax_forward_register_f32_t32_e32, forward, f32, 32, 32, 128, 1),
            (softmax_forward_register_f32_t128_e32, forward, f32, 128, 32, 128, 1),
            (softmax_forward_register_f32_t256_e32, forward, f32, 256, 32, 256, 1),
            (softmax_forward_register_f16_t4_e8, forward, f16, 4, 8, 128, 1),
            (softmax_forward_register_f16_t8_e8, forward, f16, 8, 8, 128, 1),
            (softmax_forward_register_f16_t16_e8, forward, f16, 16, 8, 128, 1),
            (softmax_forward_register_f16_t32_e8, forward, f16, 32, 8, 128, 1),
            (softmax_forward_register_f16_t32_e16, forward, f16, 32, 16, 128, 1),
            (softmax_forward_register_f16_t32_e32, forward, f16, 32, 32, 128, 1),
            (softmax_forward_register_f16_t128_e32, forward, f16, 128, 32, 128, 1),
            (softmax_forward_register_f16_t256_e32, forward, f16, 256, 32, 256, 1),
            (softmax_forward_register_f16_t512_e32, forward, f16, 512, 32, 512, 1),
            (softmax_forward_register_bf16_t4_e8, forward, bf16, 4, 8, 128, 1),
            (softmax_forward_register_bf16_t8_e8, forward, bf16, 8, 8, 128, 1),
            (softmax_forward_register_bf16_t16_e8, forward, bf16, 16, 8, 128, 1),
            (softmax_forward_register_bf16_t32_e8, forward, bf16, 32, 8, 128, 1),
            (softmax_forward_register_bf16_t32_e16, forward, bf16, 32, 16, 128, 1),
            (softmax_forward_register_bf16_t32_e32, forward, bf16, 32, 32, 128, 1),
            (softmax_forward_register_bf16_t128_e32, forward, bf16, 128, 32, 128, 1),
            (softmax_forward_register_bf16_t256_e32, forward, bf16, 256, 32, 256, 1),
            (softmax_forward_register_bf16_t512_e32, forward, bf16, 512, 32, 512, 1),
            (softmax_backward_register_f32_t4_e8, backward, f32, 4, 8, 128, 1),
            (softmax_backward_register_f32_t8_e8, backward, f32, 8, 8, 128, 1),
            (softmax_backward_register_f32_t16_e8, backward, f32, 16, 8, 128, 1),
            (softmax_backward_register_f32_t32_e8, backward, f32, 32, 8, 128, 1),
            (softmax_backward_register_f32_t32_e16, backward, f32, 32, 16, 128, 1),
            (softmax_backward_register_f32_t128_e16, backward, f32, 128, 16, 128, 1),
            (softmax_backward_register_f32_t256_e16, backward, f32, 256, 16, 256, 1),
            (softmax_backward_register_f32_t512_e16, backward, f32, 512, 16, 512, 1),
            (softmax_backward_register_f32_t1024_e16, backward, f32, 1024, 16, 1024, 1),
            (softmax_backward_register_f16_t4_e8, backward, f16, 4, 8, 128, 1),
            (softmax_backward_register_f16_t8_e8, backward, f16, 8, 8, 128, 1),
            (softmax_backward_register_f16_t16_e8, backward, f16, 16, 8, 128, 1),
            (softmax_backward_register_f16_t32_e8, backward, f16, 32, 8, 128, 1),
            (softmax_backward_register_f16_t32_e16, backward, f16, 32, 16, 128, 1),
            (softmax_backward_register_f16_t32_e32, backward, f16, 32, 32, 128, 4),
            (softmax_backward_register_f16_t128_e16, backward, f16, 128, 16, 128, 8),
            (softmax_backward_register_f16_t256_e16, backward, f16, 256, 16, 256, 4),
            (softmax_backward_register_f16_t256_e32, backward, f16, 256, 32, 256, 2),
            (softmax_backward_register_f16_t512_e16, backward, f16, 512, 16, 512, 2),
            (softmax_backward_register_f16_t512_e32, backward, f16, 512, 32, 512, 1),
            (softmax_backward_register_bf16_t4_e8, backward, bf16, 4, 8, 128, 1),
            (softmax_backward_register_bf16_t8_e8, backward, bf16, 8, 8, 128, 1),
            (softmax_backward_register_bf16_t16_e8, backward, bf16, 16, 8, 128, 1),
            (softmax_backward_register_bf16_t32_e8, backward, bf16, 32, 8, 128, 1),
            (softmax_backward_register_bf16_t32_e16, backward, bf16, 32, 16, 128, 1),
            (softmax_backward_register_bf16_t32_e32, backward, bf16, 32, 32, 128, 4),
            (softmax_backward_register_bf16_t128_e16, backward, bf16, 128, 16, 128, 8),
            (softmax_backward_register_bf16_t256_e16, backward, bf16, 256, 16, 256, 4),
            (softmax_backward_register_bf16_t256_e32, backward, bf16, 256, 32, 256, 2),
            (softmax_backward_register_bf16_t512_e16, backward, bf16, 512, 16, 512, 2),
            (softmax_backward_register_bf16_t512_e32, backward, bf16, 512, 32, 512, 1),
        }
    };
}

/// Calls `$callback!` with one row per kernel whose clusters hold a row in registers: symbol, pass, element type, pieces of
/// 16 bytes a thread, blocks a multiprocessor at least.
#[macro_export]
macro_rules! softmax_cluster_kernels {
    ($callback:ident) => {
        $callback! {
            (softmax_forward_cluster_f32_v4, forward, f32, 4, 2),
            (softmax_forward_cluster_f16_v4, forward, f16, 4, 2),
            (softmax_forward_cluster_bf16_v4, forward, bf16, 4, 2),
            (softmax_backward_cluster_f32_v1, backward, f32, 1, 4),
            (softmax_backward_cluster_f32_v2, backward, f32, 2, 2),
            (softmax_backward_cluster_f32_v4, backward, f32, 4, 1),
            (softmax_backward_cluster_f16_v1, backward, f16, 1, 4),
            (softmax_backward_cluster_f16_v2, backward, f16, 2, 2),
            (softmax_backward_cluster_f16_v4, backward, f16, 4, 1),
            (softmax_backward_cluster_bf16_v1, backward, bf16, 1, 4),
            (softmax_backward_cluster_bf16_v2, backward, bf16, 2, 2),
            (softmax_backward_cluster_bf16_v4, backward, bf16, 4, 1),
        }
    };
}

/// Calls `$callback!` with one row per kernel whose clusters pass rows through rings: symbol, pass, element type.
#[macro_export]
macro_rules! softmax_ring_kernels {
    ($callback:ident) => {
        $callback! {
            (softmax_forward_rings_f32, forward, f32),
            (softmax_forward_rings_f16, forward, f16),
            (softmax_forward_rings_bf16, forward, bf16),
            (softmax_backward_rings_f32, backward, f32),
            (softmax_backward_rings_f16, backward, f16),
            (softmax_backward_rings_bf16, backward, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel whose blocks have a row in shared memory: symbol, element type.
#[macro_export]
macro_rules! softmax_resident_kernels {
    ($callback:ident) => {
        $callback! {
            (softmax_forward_resident_f32, f32),
            (softmax_forward_resident_f16, f16),
            (softmax_forward_resident_bf16, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel whose blocks go on from row to row: symbol, pass, element type, threads a row,
/// pieces of 16 bytes a thread, threads a block, blocks a multiprocessor.
#[macro_export]
macro_rules! softmax_streamed_kernels {
    ($callback:ident) => {
        $callback! {
            (softmax_forward_streamed_f32_t32_v1, forward, f32, 32, 1, 256, 6),
            (softmax_forward_streamed_f32_t32_v2, forward, f32, 32, 2, 256, 5),
            (softmax_forward_streamed_f32_t32_v4, forward, f32, 32, 4, 256, 4),
            (softmax_forward_streamed_f32_t128_v2, forward, f32, 128, 2, 128, 12),
            (softmax_forward_streamed_f32_t128_v4, forward, f32, 128, 4, 128, 8),
            (softmax_forward_streamed_f32_t256_v4, forward, f32, 256, 4, 256, 4),
            (softmax_forward_streamed_f32_t512_v4, forward, f32, 512, 4, 512, 2),
            (softmax_forward_streamed_f32_t1024_v4, forward, f32, 1024, 4, 1024, 1),
            (softmax_forward_streamed_f16_t32_v1, forward, f16, 32, 1, 256, 6),
            (softmax_forward_streamed_f16_t16_v4, forward, f16, 16, 4, 256, 4),
            (softmax_forward_streamed_f16_t32_v4, forward, f16, 32, 4, 256, 4),
            (softmax_forward_streamed_f16_t128_v2, forward, f16, 128, 2, 128, 12),
            (softmax_forward_streamed_f16_t128_v4, forward, f16, 128, 4, 128, 8),
            (softmax_forward_streamed_f16_t256_v4, forward, f16, 256, 4, 256, 4),
            (softmax_forward_streamed_f16_t512_v4, forward, f16, 512, 4, 512, 2),
            (softmax_forward_streamed_f16_t1024_v4, forward, f16, 1024, 4, 1024, 1),
            (softmax_forward_streamed_bf16_t32_v1, forward, bf16, 32, 1, 256, 6),
            (softmax_forward_streamed_bf16_t16_v4, forward, bf16, 16, 4, 256, 4),
            (softmax_forward_streamed_bf16_t32_v4, forward, bf16, 32, 4, 256, 4),
            (softmax_forward_streamed_bf16_t128_v2, forward, bf16, 128, 2, 128, 12),
            (softmax_forward_streamed_bf16_t128_v4, forward, bf16, 128, 4, 128, 8),
            (softmax_forward_streamed_bf16_t256_v4, forward, bf16, 256, 4, 256, 4),
            (softmax_forward_streamed_bf16_t512_v4, forward, bf16, 512, 4, 512, 2),
            (softmax_forward_streamed_bf16_t1024_v4, forward, bf16, 1024, 4, 1024, 1),
            (softmax_backward_streamed_f32_t32_v1, backward, f32, 32, 1, 256, 6),
            (softmax_backward_streamed_f32_t32_v2, backward, f32, 32, 2, 256, 4),
            (softmax_backward_streamed_f32_t32_v4, backward, f32, 32, 4, 256, 4),
            (softmax_backward_streamed_f32_t128_v2, backward, f32, 128, 2, 128, 12),
            (softmax_backward_streamed_f32_t128_v4, backward, f32, 128, 4, 128, 8),
            (softmax_backward_streamed_f32_t256_v4, backward, f32, 256, 4, 256, 4),
            (softmax_backward_streamed_f32_t512_v4, backward, f32, 512, 4, 512, 2),
            (softmax_backward_streamed_f32_t1024_v4, backward, f32, 1024, 4, 1024, 1),
            (softmax_backward_streamed_f16_t32_v1, backward, f16, 32, 1, 256, 6),
            (softmax_backward_streamed_f16_t32_v2, backward, f16, 32, 2, 256, 5),
            (softmax_backward_streamed_f16_t32_v4, backward, f16, 32, 4, 256, 4),
            (softmax_backward_streamed_f16_t128_v2, backward, f16, 128, 2, 128, 12),
            (softmax_backward_streamed_f16_t128_v4, backward, f16, 128, 4, 128, 8),
            (softmax_backward_streamed_f16_t256_v4, backward, f16, 256, 4, 256, 4),
            (softmax_backward_streamed_f16_t512_v4, backward, f16, 512, 4, 512, 2),
            (softmax_backward_streamed_f16_t1024_v4, backward, f16, 1024, 4, 1024, 1),
            (softmax_backward_streamed_bf16_t32_v1, backward, bf16, 32, 1, 256, 6),
            (softmax_backward_streamed_bf16_t32_v2, backward, bf16, 32, 2, 256, 5),
            (softmax_backward_streamed_bf16_t32_v4, backward, bf16, 32, 4, 256, 4),
            (softmax_backward_streamed_bf16_t128_v2, backward, bf16, 128, 2, 128, 12),
            (softmax_backward_streamed_bf16_t128_v4, backward, bf16, 128, 4, 128, 8),
            (softmax_backward_streamed_bf16_t256_v4, backward, bf16, 256, 4, 256, 4),
            (softmax_backward_streamed_bf16_t512_v4, backward, bf16, 512, 4, 512, 2),
            (softmax_backward_streamed_bf16_t1024_v4, backward, bf16, 1024, 4, 1024, 1),
        }
    };
}

/// Calls `$callback!` with one row per kernel whose blocks go along a row twice: symbol, pass, element type, and where the
/// row is read from the second time.
#[macro_export]
macro_rules! softmax_looped_kernels {
    ($callback:ident) => {
        $callback! {
            (softmax_forward_looped_f32, forward, f32, cache),
            (softmax_forward_looped_f16, forward, f16, cache),
            (softmax_forward_looped_bf16, forward, bf16, cache),
            (softmax_forward_looped_f32_shared, forward, f32, shared),
            (softmax_forward_looped_f16_shared, forward, f16, shared),
            (softmax_forward_looped_bf16_shared, forward, bf16, shared),
            (softmax_backward_looped_f32, backward, f32, cache),
            (softmax_backward_looped_f32_shared, backward, f32, shared),
            (softmax_backward_looped_f16, backward, f16, cache),
            (softmax_backward_looped_f16_shared, backward, f16, shared),
            (softmax_backward_looped_bf16, backward, bf16, cache),
            (softmax_backward_looped_bf16_shared, backward, bf16, shared),
        }
    };
}

/// Calls `$callback!` with one row per kernel that shares a row among blocks: symbol, which step, element type.
#[macro_export]
macro_rules! softmax_split_kernels {
    ($callback:ident) => {
        $callback! {
            (softmax_forward_split_parts_f32, forward_parts, f32),
            (softmax_forward_split_parts_f16, forward_parts, f16),
            (softmax_forward_split_parts_bf16, forward_parts, bf16),
            (softmax_forward_split_rest_f32, forward_rest, f32),
            (softmax_forward_split_rest_f16, forward_rest, f16),
            (softmax_forward_split_rest_bf16, forward_rest, bf16),
            (softmax_backward_split_parts_f32, backward_parts, f32),
            (softmax_backward_split_parts_f16, backward_parts, f16),
            (softmax_backward_split_parts_bf16, backward_parts, bf16),
            (softmax_backward_split_rest_f32, backward_rest, f32),
            (softmax_backward_split_rest_f16, backward_rest, f16),
            (softmax_backward_split_rest_bf16, backward_rest, bf16),
        }
    };
}

/// Calls `$callback!` with one row per kernel for rows side by side: symbol, pass, element type, whether an access has 16
/// bytes, whether rows of up to 32 elements stay in registers.
#[macro_export]
macro_rules! softmax_column_kernels {
    ($callback:ident) => {
        $callback! {
            (softmax_forward_columns_f32_wide_held, forward, f32, true, true),
            (softmax_forward_columns_f32_wide, forward, f32, true, false),
            (softmax_forward_columns_f32_held, forward, f32, false, true),
            (softmax_forward_columns_f32, forward, f32, false, false),
            (softmax_forward_columns_f16_wide_held, forward, f16, true, true),
            (softmax_forward_columns_f16_wide, forward, f16, true, false),
            (softmax_forward_columns_f16_held, forward, f16, false, true),
            (softmax_forward_columns_f16, forward, f16, false, false),
            (softmax_forward_columns_bf16_wide_held, forward, bf16, true, true),
            (softmax_forward_columns_bf16_wide, forward, bf16, true, false),
            (softmax_forward_columns_bf16_held, forward, bf16, false, true),
            (softmax_forward_columns_bf16, forward, bf16, false, false),
            (softmax_backward_columns_f32_wide_held, backward, f32, true, true),
            (softmax_backward_columns_f32_wide, backward, f32, true, false),
            (softmax_backward_columns_f32_held, backward, f32, false, true),
            (softmax_backward_columns_f32, backward, f32, false, false),
            (softmax_backward_columns_f16_wide_held, backward, f16, true, true),
            (softmax_backward_columns_f16_wide, backward, f16, true, false),
            (softmax_backward_columns_f16_held, backward, f16, false, true),
            (softmax_backward_columns_f16, backward, f16, false, false),
            (softmax_backward_columns_bf16_wide_held, backward, bf16, true, true),
            (softmax_backward_columns_bf16_wide, backward, bf16, true, false),
            (softmax_backward_columns_bf16_held, backward, bf16, false, true),
            (softmax_backward_columns_bf16, backward, bf16, false, false),
        }
    };
}

/// Calls `$callback!` with one row per kernel whose threads have some words of rows side by side: symbol, pass, element
/// type, words of 4 bytes.
#[macro_export]
macro_rules! softmax_pair_kernels {
    ($callback:ident) => {
        $callback! {
            (softmax_forward_columns_f32_pairs, forward, f32, 1),
            (softmax_forward_columns_f16_pairs, forward, f16, 1),
            (softmax_forward_columns_bf16_pairs, forward, bf16, 1),
            (softmax_backward_columns_f32_pairs, backward, f32, 1),
            (softmax_backward_columns_f16_pairs, backward, f16, 1),
            (softmax_backward_columns_bf16_pairs, backward, bf16, 1),
            (softmax_forward_columns_f32_pairs_x2, forward, f32, 2),
            (softmax_forward_columns_f16_pairs_x2, forward, f16, 2),
            (softmax_forward_columns_bf16_pairs_x2, forward, bf16, 2),
        }
    };
}
