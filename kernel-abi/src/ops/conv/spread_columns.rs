//! What launcher and kernel of `spread_columns` agree on.
//!
//! Where few channels are written, a block of neighbouring positions, with their channels, is as good as channels: they
//! read the same window. The packed filter holds, for every such column and every position of the window, the tap that
//! meets it, or zeros. Along the depth, positions are blocks of their own, and taps those of the filter.

use super::index::output_position;

crate::abi_struct! {
    /// Launch parameters of the packing kernel: w to `[columns][T][window H][window W][packed channels of the sum]`.
    pub struct ConvPackSpreadParams {
        /// w.
        pub from: u64,
        /// The packed filter.
        pub to: u64,
        /// Distances of w along the channels of the sum, those that are written, R and S, in elements.
        pub strides: [i64; 4],
        /// Elements that are written.
        pub n_elems: i64,
        /// Channels of the sum, and as many elements as are written for them.
        pub sums: [i64; 2],
        /// Channels that are written.
        pub channels: i64,
        /// R and S.
        pub filter: [i64; 2],
        /// T, where the tap of the first plane that is read lies in w, and the distance from tap to tap.
        pub depth: [i64; 3],
        /// Positions of a block along both axes.
        pub block: [i64; 2],
        /// Position a of a block meets, at position i of the window, the tap
        /// `(base + a · per_position + i · per_window) / dilation`, if that is one.
        pub base: [i64; 2],
        /// See `base`.
        pub per_position: [i64; 2],
        /// See `base`.
        pub per_window: [i64; 2],
        /// Dilation along both axes.
        pub dilation: [i64; 2],
        /// Extents of the window.
        pub window: [i64; 2],
    }
}

impl ConvPackSpreadParams {
    /// The tap along axis `axis` that position `a` of a block meets at position `i` of the window, below 0 or beyond the
    /// filter where there is none.
    #[inline(always)]
    pub const fn tap(&self, axis: usize, a: i64, i: i64) -> i64 {
        let scaled = self.base[axis] + a * self.per_position[axis] + i * self.per_window[axis];
        // Solved for the tap, it is an output position of a convolution whose stride is the dilation.
        output_position(scaled, 0, 0, self.dilation[axis], 1)
    }
}
