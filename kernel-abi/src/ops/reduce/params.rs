//! Launch parameters of the reduction kernels.

use crate::TensorParam;
use crate::division::Divisor;

/// The most loops that the vectorized kernels go through within one result.
pub const MAX_LEVELS: usize = 3;

/// The most terms that a thread of the vectorized kernels adds one after the other.
pub const MOST_TERMS: u32 = 4096;

/// Parts of a result that a thread of the kernel that combines them has under way together.
pub const FINISH_LOADS: u32 = 16;

/// Loads that a thread has under way together of what it looks for the place of the smallest or largest element in.
pub const FIRST_LOADS: u32 = 8;

crate::abi_struct! {
    /// Launch parameters of the kernels that take any problem. x stands twice: with the dimensions that y has, and with
    /// those that are reduced, unused dimensions first.
    pub struct ReduceParams {
        /// Elements of y.
        pub n_outputs: i64,
        /// Elements of x for each of them.
        pub n_reduced: i64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// A [`ReducePass`](super::ReducePass) as a number.
        pub op: u32,
        /// Element type of x, a [`DType`](crate::DType) as a number.
        pub x_dtype: u32,
        /// Element type of y.
        pub y_dtype: u32,
        /// Element type of the indices.
        pub indices_dtype: u32,
        /// Output.
        pub y: TensorParam,
        /// Indices; address 0 for none.
        pub indices: TensorParam,
        /// Where the elements of x for an element of y begin.
        pub x: TensorParam,
        /// The elements of x for one element of y.
        pub reduced: TensorParam,
    }
}

crate::abi_struct! {
    /// Launch parameters of the vectorized kernels.
    ///
    /// A result is made of items: 16 bytes of a row, or elements of a column at intervals. Item
    /// `(i2 · middle + i1) · inner + i0` lies `Σ i · strides` elements behind the first, but for rows' `i0`, which counts
    /// multiples of 16 bytes.
    ///
    /// What the first load needs stands first: parameters come to a block 64 bytes at a time.
    pub struct ReducePartsParams {
        /// What is reduced.
        pub x: u64,
        /// Elements between those of x that neighbouring results begin with, where `is_pitched`.
        pub x_pitch: i64,
        /// Elements of y.
        pub n_outputs: i64,
        /// `rows`: threads of a result, a power of two up to 32 or a block's. `columns`: threads beside one another, a power
        /// of two.
        pub lanes: u32,
        /// `rows`: 1 where every run begins and ends at multiples of 16 bytes. `columns`: 1 where 16 bytes are read at a
        /// time, 0 for single elements.
        pub vectors: u32,
        /// Items of a result.
        pub items: u32,
        /// Items of a part.
        pub part_items: u32,
        /// A [`ReducePass`](super::ReducePass) as a number.
        pub op: u32,
        /// 1 where results lie along one dimension.
        pub is_pitched: u32,
        /// Items of the innermost loop.
        pub inner: Divisor,
        /// Element type of y, a [`DType`](crate::DType) as a number.
        pub y_dtype: u32,
        /// Elements of x for each of them.
        pub n_reduced: i64,
        /// Factor of the result.
        pub alpha: f64,
        /// Factor of the output's prior value.
        pub beta: f64,
        /// Where parts go, `[part][output]`, each with the factor of its elements; 0 where there is one part, which is the
        /// result.
        pub partials: u64,
        /// Elements between neighbouring results, where `is_pitched`.
        pub y_pitch: i64,
        /// What lies behind it.
        pub x_end: u64,
        /// Between items, in elements.
        pub strides: [i64; MAX_LEVELS],
        /// Items of the loop around it.
        pub middle: Divisor,
        /// `columns`: blocks of a run of outputs.
        pub blocks: Divisor,
        /// Parts.
        pub n_parts: u32,
        /// Element type of the indices.
        pub indices_dtype: u32,
        /// `finish`: threads beside one another, a power of two.
        pub finish_lanes: u32,
        /// Elements that lie contiguous: of a row, or outputs of `columns`.
        pub run: u32,
        /// Output.
        pub y: TensorParam,
        /// Indices; used by `first` alone.
        pub indices: TensorParam,
        /// Where the elements of x for an element of y begin.
        pub kept: TensorParam,
    }
}
