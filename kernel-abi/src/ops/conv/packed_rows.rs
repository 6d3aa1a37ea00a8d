//! What launcher and kernel of `packed_rows_wgmma` agree on.
//!
//! With few channels, a filter's row is a run of neighbouring elements of a channels-last image: the taps along w and
//! the channels together are as good as channels. Packing makes such runs what the copy engine can gather: padding
//! along w written out, channels filled up with zeros, so that windows begin at multiples of 16 bytes.

crate::abi_struct! {
    /// Launch parameters of the packing kernel: `[N, C, H, W]` of any strides to `[N][H][packed W][packed C]`.
    pub struct ConvPackRowsParams {
        /// The tensor that is read.
        pub from: u64,
        /// The tensor that is written.
        pub to: u64,
        /// Distances of the tensor that is read along N, C, H, W, in elements.
        pub strides: [i64; 4],
        /// Runs of 8 elements that are written.
        pub n_runs: i64,
        /// C.
        pub c: u32,
        /// H.
        pub h: u32,
        /// W.
        pub w: u32,
        /// Where in a written row the first position of a read one lies; below 0, modulo 2³², where it is left out.
        pub padding: u32,
        /// Written positions of a row.
        pub packed_w: u32,
        /// Written channels: 4, 8 or 16.
        pub packed_c: u32,
    }
}
