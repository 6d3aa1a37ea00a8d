//! What launcher and kernel of `spread_columns` agree on.
//!
//! In a strided `dgrad` of few channels, the positions of dx between two steps of the stride, with their channels, are
//! as good as channels: they read the same window of dy. The packed filter holds, for every such column and every
//! position of the window, the tap that meets it, or zeros.

crate::abi_struct! {
    /// Launch parameters of the packing kernel: w to `[columns][window H][window W][packed K]`.
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
        /// Stride along both axes.
        pub stride: [i64; 2],
        /// Padding along both axes.
        pub padding: [i64; 2],
        /// Dilation along both axes.
        pub dilation: [i64; 2],
        /// Where the window begins, relative to the position of the step.
        pub first: [i64; 2],
        /// Extents of the window.
        pub window: [i64; 2],
    }
}
