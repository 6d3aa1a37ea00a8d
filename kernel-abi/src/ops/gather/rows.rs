//! What host and kernels agree on for `rows`.

use crate::division::Divisor;

/// Threads of a block.
pub const ROWS_THREADS: u32 = 256;

/// Rows that a thread copies at once.
pub const ROWS_AT_ONCE: usize = 4;

/// The most rows of dx that a block sums up: one a thread sorts what belongs to it.
pub const MAX_BLOCK_ROWS: i64 = ROWS_THREADS as i64;

/// Indices that a thread looks at between two barriers.
pub const INDICES_AT_ONCE: usize = 4;

/// Rows of dy that a block has room for in its list.
pub const LIST_ROWS: usize = 2048;

crate::abi_struct! {
    /// Rows of a tensor, as seen from the gathered dimension.
    pub struct RowsTensor {
        /// Device address.
        pub address: u64,
        /// Between rows along the axis, and along up to two dimensions around it: bytes forward, elements backward.
        pub strides: [i64; 3],
    }
}

impl RowsTensor {
    /// Where a row begins.
    #[inline(always)]
    pub const fn offset(&self, row: i64, outer: [u32; 2]) -> i64 {
        row * self.strides[0] + outer[0] as i64 * self.strides[1] + outer[1] as i64 * self.strides[2]
    }
}

crate::abi_struct! {
    /// The indices.
    pub struct RowIndices {
        /// Device address.
        pub address: u64,
        /// Elements between them.
        pub stride: i64,
        /// Rows that they count.
        pub rows: i64,
        /// How many there are.
        pub n: u32,
        /// Bytes of one.
        pub bytes: u32,
    }
}

crate::abi_struct! {
    /// Launch parameters of the copies of rows.
    pub struct GatherRowsParams {
        /// The indices.
        pub indices: RowIndices,
        /// x, in bytes.
        pub x: RowsTensor,
        /// y, in bytes.
        pub y: RowsTensor,
        /// Indices, to divide by.
        pub per_outer: Divisor,
        /// Extent of the inner dimension around the axis.
        pub inner: Divisor,
        /// Rows of y.
        pub n_rows: u32,
        /// Accesses to a row.
        pub accesses: u32,
        /// Threads of a row are this power of two.
        pub threads_log2: u32,
        /// Nothing.
        pub unused: u32,
    }
}

crate::abi_struct! {
    /// Launch parameters of the sums of rows.
    pub struct GatherSumParams {
        /// The indices.
        pub indices: RowIndices,
        /// dy.
        pub dy: RowsTensor,
        /// dx.
        pub dx: RowsTensor,
        /// Blocks along a row.
        pub slabs: Divisor,
        /// Blocks along the rows.
        pub row_blocks: Divisor,
        /// Extent of the inner dimension around the axis.
        pub inner: Divisor,
        /// Rows of a block.
        pub block_rows: u32,
        /// Accesses to a row.
        pub accesses: u32,
        /// Threads of a row are this power of two.
        pub threads_log2: u32,
        /// Factor of the sum.
        pub alpha: f32,
        /// Factor of dx's prior value.
        pub beta: f32,
    }
}
