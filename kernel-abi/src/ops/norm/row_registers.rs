//! What host and device agree on about rows that threads hold in registers, and longer ones.

use crate::division::Divisor;

/// Threads of a block where several rows share it.
pub const SHARED_BLOCK: u32 = 256;

/// Rows that a place of a warp has forward, at most: the grid has a place for every so many rows.
pub const SHORT_ROWS: u32 = 4;

/// Rows in a ring of shared memory. With 3 or 4 it took as long or longer at lengths from 4096 to 16384 elements of 16 bits
/// (H200): fewer blocks are there together.
pub const RING_ROWS: u32 = 2;

/// Columns of a block of the kernel that adds up the parts of gradients.
pub const SUM_COLUMNS: u32 = 32;

/// Threads that add up the parts of a column.
pub const SUM_ROWS: u32 = 32;

/// Threads of a block that goes along rows which registers do not hold.
pub const LOOPED_THREADS: u32 = 256;

/// Threads, with a vector of columns each, of a block that adds up the gradients of parameters of such rows.
pub const SUMMED_COLUMNS: u32 = 256;

crate::abi_struct! {
    /// Launch parameters of the kernels that hold rows in registers, or go along them. Rows are contiguous, and their lengths and distances
    /// multiples of 16 bytes. Addresses are multiples of 16, 0 for what is not there.
    ///
    /// What the first load needs stands first: parameters come to a block 64 bytes at a time.
    pub struct NormRowsParams {
        /// x.
        pub x: u64,
        /// Elements between neighbouring rows of x.
        pub x_pitch: i64,
        /// scale.
        pub scale: u64,
        /// bias; forward only.
        pub bias: u64,
        /// Rows.
        pub n_rows: u32,
        /// Elements of a row.
        pub row_elems: u32,
        /// 1 where the mean is subtracted.
        pub has_mean: u32,
        /// 1 where scale and bias are f32, 0 where they are of x's type.
        pub parameters_are_wide: u32,
        /// y, or dx.
        pub out: u64,
        /// Elements between neighbouring rows of what is written.
        pub out_pitch: i64,
        /// Mean.
        pub mean: u64,
        /// Inverse standard deviation.
        pub inv_std: u64,
        /// 1 / `row_elems`.
        pub share: f32,
        /// What is added to the variance.
        pub epsilon: f32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
        /// Rows until parameters repeat.
        pub period: Divisor,
        /// Neighbours in a row that have one parameter.
        pub run: Divisor,
        /// dy; backward only.
        pub dy: u64,
        /// The same of dy; backward only.
        pub dy_pitch: i64,
        /// What x̂ is more than (x − mean) · inv_std of every row, since the mean is rounded; 0 where statistics are given.
        pub rest: u64,
        /// Parts of dscale and dbias: `[block][dscale, dbias][column]`; 0 where they are not wanted. Backward only.
        pub partials: u64,
        /// Parameters that a row meets.
        pub params_per_row: u32,
        /// 1 where mean and inverse standard deviation are read, 0 where they are written.
        pub statistics_are_given: u32,
        /// 1 where parts of dscale are written.
        pub wants_dscale: u32,
        /// The same of dbias.
        pub wants_dbias: u32,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels that add up the parts of dscale and dbias.
    pub struct NormColumnSumsParams {
        /// `[part][dscale, dbias][column]`, f32.
        pub partials: u64,
        /// dscale, contiguous; 0 where it is not wanted.
        pub dscale: u64,
        /// dbias.
        pub dbias: u64,
        /// Parts.
        pub n_parts: u32,
        /// Columns.
        pub columns: u32,
        /// 1 where gradients are f32, 0 where they are of x's type.
        pub parameters_are_wide: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the prior value.
        pub beta: f32,
        /// Unused, keeps the struct's size a multiple of its alignment.
        pub reserved: u32,
    }
}
