//! What launcher and kernels of `fft_tiled` and `fft` agree on.
//!
//! A tile is T × T positions of an image and channel, real numbers, or all of an image with zeros beside it; its spectrum
//! is T × (T / 2 + 1) complex ones, the others being their conjugates. All spectra stand as matrices, one for each
//! frequency: rows are tiles, and columns the real parts of a group's channels, then the imaginary parts. A filter's
//! spectrum `w` is the matrix that multiplies such rows by conj(w), `[[re w, -im w], [im w, re w]]`, so that products of
//! real matrices are all there is between the transforms. Rows of a tile's spectrum, u, stand at the places that the
//! transform leaves them at, bits reversed; those of a whole image stand in order.

use crate::division::Divisor;

/// Channels, or pairs of channels of a filter, that a block transforms: the spectra of tiles fit into 48 KB, and each has
/// a thread for two rows of a tile; of whole images two blocks, or one, fit into a multiprocessor.
pub const fn slots(size: u32) -> u32 {
    match size {
        16 => 32,
        32 => 8,
        64 => 4,
        _ => 2,
    }
}

/// Complex numbers from row to row of a whole image's spectra in shared memory: neighbouring rows lie in other banks.
pub const fn whole_row(size: u32) -> u32 {
    size + 2
}

/// Shared memory of a block that transforms whole images: spectra of pairs of rows, and T/32 rows of 32 rotations with
/// a gap between them.
pub const fn whole_bytes(size: u32) -> u32 {
    (size / 2 * whole_row(size) * slots(size) + size / 32 * 33) * 8
}

/// Complex numbers of a spectrum.
pub const fn frequencies(size: u32) -> u32 {
    size * (size / 2 + 1)
}

crate::abi_struct! {
    /// Launch parameters of the kernels between images and spectra.
    pub struct ConvFftTilesParams {
        /// The image.
        pub image: u64,
        /// The spectra.
        pub spectra: u64,
        /// Elements of the image, N, C, H, W.
        pub strides: [i64; 4],
        /// Numbers of a frequency's matrix.
        pub frequency_numbers: u64,
        /// Numbers of a row of it: twice the channels of all groups.
        pub row_numbers: u32,
        /// Channels of all groups.
        pub channels: u32,
        /// Channels of a group.
        pub group_channels: Divisor,
        /// Blocks for all channels.
        pub channel_blocks: Divisor,
        /// Tiles along H and W.
        pub tiles: [Divisor; 2],
        /// H and W.
        pub extents: [u32; 2],
        /// Where the first tile begins.
        pub origin: [i32; 2],
        /// Positions from tile to tile.
        pub step: [u32; 2],
        /// Positions of a tile that are read, or written.
        pub region: [u32; 2],
        /// Factor of what is written.
        pub alpha: f32,
        /// Factor of its prior value.
        pub beta: f32,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels between filters and spectra.
    pub struct ConvFftFilterParams {
        /// w, or dw.
        pub filter: u64,
        /// The spectra.
        pub spectra: u64,
        /// Elements of the filter, K, C, R, S.
        pub strides: [i64; 4],
        /// Numbers of a frequency's matrices, of all groups.
        pub frequency_numbers: u64,
        /// Pairs of channels.
        pub n_pairs: u32,
        /// Whether rows are K and columns C: in `dgrad`.
        pub rows_are_k: u32,
        /// Channels of a group that are rows: those summed over, or C in `wgrad`.
        pub rows: Divisor,
        /// Channels of a group that are columns.
        pub columns: Divisor,
        /// R and S.
        pub taps: [u32; 2],
        /// S.
        pub taps_across: Divisor,
        /// Positions from tap to tap.
        pub spacing: [Divisor; 2],
        /// Whether the last tap comes first.
        pub flip: u32,
        /// Factor of what is written.
        pub alpha: f32,
        /// Factor of its prior value.
        pub beta: f32,
    }
}
