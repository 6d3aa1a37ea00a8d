//! What launcher and kernels of `explicit_gemm` agree on: the matrix of an image's windows.
//!
//! The matrix has a row for each output position, batch, z, p and q from the outermost in, and a column for each element
//! of a filter in each group. Columns lie as w does, so that w is the other factor as it is: the group outermost, then
//! `t, r, s, c` where w is channels-last, else `c, t, r, s`.

use crate::division::Divisor;

crate::abi_struct! {
    /// Launch parameters of the kernels between images and their windows.
    ///
    /// A unit is an element, or what lies in 16 bytes of channels; every stride and extent of channels counts units.
    pub struct ConvWindowsParams {
        /// x, or dx.
        pub image: u64,
        /// The windows.
        pub windows: u64,
        /// Units of the image, N, C, D, H, W.
        pub image_strides: [i64; 5],
        /// Units of the windows, from row to row and from column to column.
        pub window_strides: [i64; 2],
        /// Threads that have work: a unit of the windows each, or of dx.
        pub n_units: u32,
        /// Whether neighbouring threads take neighbouring columns, or channels of dx; else rows, or positions.
        pub channels_inside: u32,
        /// Rows or columns of the windows, whichever is inside.
        pub inner: Divisor,
        /// Whether a column's channel changes fastest; else its tap does.
        pub taps_outside: u32,
        /// Channels of a group.
        pub group_channels: Divisor,
        /// C.
        pub channels: Divisor,
        /// T, R, S.
        pub filter: [Divisor; 3],
        /// Z, P, Q.
        pub output: [Divisor; 3],
        /// D, H, W.
        pub extents: [Divisor; 3],
        /// Between windows.
        pub stride: [Divisor; 3],
        /// Where tap 0 of output 0 lies.
        pub origin: [i32; 3],
        /// Positions from tap to tap: the dilation, below 0 where the filter is read from its far end.
        pub step: [i32; 3],
        /// Factor of the sums of windows.
        pub alpha: f32,
        /// Factor of dx's prior value.
        pub beta: f32,
        /// 0.
        pub unused: u32,
    }
}
