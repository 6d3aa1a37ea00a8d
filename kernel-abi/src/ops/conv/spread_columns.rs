//! What launcher and kernel of `spread_columns` agree on.
//!
//! In a `dgrad` of few channels, a block of neighbouring positions of dx, with their channels, is as good as channels:
//! they read the same window of dy. The packed filter holds, for every such column and every position of the window,
//! the tap that meets it, or zeros. Along the depth, positions are steps of their own, and the taps those of dx.

crate::abi_struct! {
    /// Launch parameters of the packing kernel: w to
    /// `[columns][T, the last first][window H][window W][packed K]`.
    pub struct ConvPackSpreadParams {
        /// w.
        pub from: u64,
        /// The packed filter.
        pub to: u64,
        /// Distances of w along K, C, R, S, in elements.
        pub strides: [i64; 4],
        /// Elements that are written.
        pub n_elems: i64,
        /// K, and as many elements as are written for them.
        pub k: [i64; 2],
        /// C.
        pub c: i64,
        /// R and S.
        pub filter: [i64; 2],
        /// T, and the distance of w along it.
        pub depth: [i64; 2],
        /// Positions of a block along both axes: multiples of the strides.
        pub block: [i64; 2],
        /// Stride along both axes.
        pub stride: [i64; 2],
        /// Padding along both axes.
        pub padding: [i64; 2],
        /// Dilation along both axes.
        pub dilation: [i64; 2],
        /// Where the window begins, relative to the first position of dy that belongs to the block.
        pub first: [i64; 2],
        /// Extents of the window.
        pub window: [i64; 2],
    }
}
