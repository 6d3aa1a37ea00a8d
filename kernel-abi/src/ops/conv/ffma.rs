//! What launcher and kernels of `ffma` agree on: f32 convolution in scalar arithmetic, operands of any strides.
//!
//! `fprop` and `dgrad` are one product: rows are positions of the tensor that is written, columns its channels, and the
//! sum runs over taps and channels of the tensor that is read. The positions of a strided `dgrad` fall into classes that
//! meet the same taps, each a launch. `wgrad`: rows are k, columns (t, r, s, c), and the sum runs over positions of y.

use crate::division::Divisor;

/// Terms of the sum between two barriers.
pub const FFMA_K: u32 = 8;
/// Tiles in shared memory: the one that is computed with, and those under way.
pub const FFMA_STAGES: u32 = 4;

/// Rows and columns of a block's square tile, of which each thread computes 8 × 8.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FfmaTile(pub u32);

impl FfmaTile {
    /// Threads of a block.
    pub const fn threads(self) -> u32 {
        self.0 * self.0 / 64
    }

    /// Threads that load for the same term of the sum.
    pub const fn lanes(self) -> u32 {
        self.threads() / FFMA_K
    }

    /// Bytes from a term's row or column in shared memory to the next's: both in other banks.
    pub const fn pitch(self) -> u32 {
        (self.0 + 4) * 4
    }

    /// Bytes of one operand in one stage.
    pub const fn operand_bytes(self) -> u32 {
        FFMA_K * self.pitch()
    }

    /// Dynamic shared memory of a block.
    pub const fn smem_bytes(self) -> u32 {
        FFMA_STAGES * 2 * self.operand_bytes()
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernel for `fprop` and `dgrad`, for positions that meet the same taps. Spatial arrays
    /// are in the order depth, height, width; distances are in elements.
    pub struct ConvFfmaParams {
        /// The tensor that is read.
        pub read: u64,
        /// Its distances along images, channels and the axes.
        pub read_strides: [i64; 5],
        /// The filter.
        pub filter: u64,
        /// Distances in it between groups, between channels that are written, and between those that are read.
        pub filter_strides: [i64; 3],
        /// Where its first tap lies.
        pub first_tap: i64,
        /// From one tap to the next, along each axis.
        pub tap_steps: [i64; 3],
        /// The tensor that is written, from the first position on.
        pub out: u64,
        /// Its distances along images, channels and the axes.
        pub out_strides: [i64; 5],
        /// Extents of the tensor that is read.
        pub read_extents: [u32; 3],
        /// Where the first position reads with its first tap.
        pub base: [i32; 3],
        /// Distance between read positions of neighbouring written positions.
        pub step: [u32; 3],
        /// Distance in the tensor that is read between neighbouring taps.
        pub tap_offset: [u32; 3],
        /// Taps along each axis.
        pub taps: [u32; 3],
        /// Positions of all images.
        pub gemm_m: u32,
        /// Their extents.
        pub extents: [Divisor; 3],
        /// Channels of a group that are written.
        pub gemm_n: u32,
        /// Tiles along them.
        pub n_blocks: Divisor,
        /// Groups.
        pub groups: Divisor,
        /// Channels of a group that are read.
        pub channels: u32,
        /// 1 when neighbouring threads load neighbouring positions, else neighbouring channels.
        pub positions_first: u32,
        /// 1 when neighbouring threads load neighbouring written channels of the filter, else neighbouring read ones.
        pub columns_first: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the prior value.
        pub beta: f32,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernel for `wgrad`. Spatial arrays are in the order depth, height, width; distances are
    /// in elements.
    pub struct ConvFfmaWgradParams {
        /// dy.
        pub dy: u64,
        /// Its distances along images, channels and the axes.
        pub dy_strides: [i64; 5],
        /// x.
        pub x: u64,
        /// Its distances.
        pub x_strides: [i64; 5],
        /// dw.
        pub dw: u64,
        /// Its distances along k, c and the axes.
        pub dw_strides: [i64; 5],
        /// Positions of y of all images.
        pub positions: u32,
        /// Z, P, Q.
        pub output: [Divisor; 3],
        /// D, H, W.
        pub image: [u32; 3],
        /// Padding at the begin.
        pub padding: [i32; 3],
        /// Stride.
        pub stride: [u32; 3],
        /// Dilation.
        pub dilation: [u32; 3],
        /// T, R, S.
        pub filter: [Divisor; 3],
        /// C of a group.
        pub group_c: Divisor,
        /// K of a group.
        pub group_k: u32,
        /// Columns: filter elements of a k.
        pub columns: u32,
        /// Tiles along the rows, and along the columns.
        pub m_blocks: Divisor,
        /// Tiles along the columns.
        pub n_blocks: Divisor,
        /// 1 when the filter is read from its far end.
        pub flip: u32,
        /// 1 when neighbouring threads load neighbouring positions, else neighbouring channels.
        pub positions_first: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the prior value.
        pub beta: f32,
    }
}
