//! What launcher and kernels of `pointwise_strided` agree on.

use crate::division::Divisor;

crate::abi_struct! {
    /// Launch parameters of the kernels that go between planes and every so-manyth of their positions, which lie one
    /// behind the other: elements of 2 bytes.
    pub struct ConvStridedPlanesParams {
        /// The planes.
        pub planes: u64,
        /// Some of their positions: `[N][C][P][Q]`.
        pub picked: u64,
        /// Between images of the planes, in elements.
        pub image_stride: i64,
        /// Between the planes of an image, in elements.
        pub channel_stride: i64,
        /// Threads that have work.
        pub n_units: u32,
        /// With how many picked positions a thread has to do, which lie in 16, 8 or 4 bytes of the planes: 4, 2 or 1.
        /// 0 where it has a single element on either side.
        pub run: u32,
        /// Threads for a row: of picked positions, or of the planes where those are written.
        pub row_units: Divisor,
        /// Rows of them.
        pub rows: Divisor,
        /// C.
        pub channels: Divisor,
        /// Distances between picked positions along H and W.
        pub stride: [Divisor; 2],
        /// P and Q.
        pub picked_extents: [u32; 2],
        /// H and W.
        pub extents: [u32; 2],
        /// Factor of the prior value of positions that are not picked.
        pub beta: f32,
    }
}
