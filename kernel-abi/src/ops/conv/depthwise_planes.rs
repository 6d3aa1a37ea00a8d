//! Launch parameters, kernel list and shared-memory layout of `depthwise_planes`.

use crate::division::Divisor;

/// Warps that compute. Behind them, a warp has planes brought, and one has results taken away.
pub const DEPTHWISE_PLANES_WARPS: u32 = 16;
/// Threads of a block: registers are shared out by groups of four warps.
pub const DEPTHWISE_PLANES_THREADS: u32 = 32 * (DEPTHWISE_PLANES_WARPS + 4);
/// The most images of a job: a lane copies the planes of one.
pub const DEPTHWISE_PLANES_MAX_IMAGES: u32 = 32;
/// The most places in shared memory for what jobs read.
pub const DEPTHWISE_PLANES_MAX_SLOTS: u32 = 8;
/// Places for what they write: one job's results are written, the others' are on their way out.
pub const DEPTHWISE_PLANES_RESULTS: u32 = 3;
/// Pairs of target rows of a product.
pub const DEPTHWISE_PLANES_PAIRS: u32 = 8;
/// Target columns of a product.
pub const DEPTHWISE_PLANES_COLUMNS: u32 = 8;
/// Bytes where a warp writes what is no result: 4 a lane, those of two products 16 bytes apart.
pub const DEPTHWISE_PLANES_NO_RESULTS: u32 = 4 * 32 + 16;
/// What places in shared memory are aligned to.
const ALIGN: u32 = 128;

/// What a kernel is compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DepthwisePlanesForm {
    /// R = S.
    pub extent: u32,
    /// Positions of the source between the windows of neighbouring positions of the target.
    pub stride: u32,
    /// Whether rows of the source may have an odd number of columns, so that pairs of columns lie anywhere.
    pub odd_source: bool,
    /// The same of the target.
    pub odd_target: bool,
}

/// What a block works on at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct DepthwisePlanesTile {
    /// Channels, a power of two up to [`DEPTHWISE_PLANES_WARPS`]; a warp has one.
    pub channels: u32,
    /// Images.
    pub images: u32,
    /// Bands of rows of a plane.
    pub bands: u32,
    /// Parts of its columns.
    pub parts: u32,
    /// Places for what jobs read.
    pub slots: u32,
    /// Bytes before and behind what a job reads, multiples of 16: what lies outside of rows is read and left out, which
    /// must not be another job's.
    pub gaps: [u32; 2],
}

impl DepthwisePlanesTile {
    /// Where warps write what is no result, behind the barriers.
    #[inline(always)]
    pub const fn nowhere_at() -> u32 {
        16 * (DEPTHWISE_PLANES_MAX_SLOTS + DEPTHWISE_PLANES_RESULTS)
    }

    /// Where the places for what jobs read begin.
    #[inline(always)]
    pub const fn slots_at() -> u32 {
        (Self::nowhere_at() + DEPTHWISE_PLANES_WARPS * DEPTHWISE_PLANES_NO_RESULTS).next_multiple_of(ALIGN)
    }

    /// Bytes of planes of so many bytes of a job.
    #[inline(always)]
    pub const fn job_bytes(self, plane_bytes: u32) -> u32 {
        self.images * self.channels * plane_bytes
    }

    /// Bytes from what a job reads to what the next one does, for planes of so many bytes.
    #[inline(always)]
    pub const fn slot_bytes(self, plane_bytes: u32) -> u32 {
        (self.gaps[0] + self.job_bytes(plane_bytes) + self.gaps[1]).next_multiple_of(ALIGN)
    }

    /// Bytes from one job's results to the next one's.
    #[inline(always)]
    pub const fn result_bytes(self, plane_bytes: u32) -> u32 {
        self.job_bytes(plane_bytes).next_multiple_of(ALIGN)
    }

    /// Dynamic shared memory of a block, for planes of so many bytes of the source and of the target.
    pub const fn smem_bytes(self, [source, target]: [u32; 2]) -> u32 {
        Self::slots_at() + self.slots * self.slot_bytes(source) + DEPTHWISE_PLANES_RESULTS * self.result_bytes(target)
    }
}

crate::abi_struct! {
    /// Launch parameters of `depthwise_planes`.
    ///
    /// The *source* is read: x in `fprop`, dy in `dgrad`. The *target* is the other image. A *job* is the planes of some
    /// neighbouring channels of some images, which for each image are one run of memory.
    pub struct ConvDepthwisePlanesParams {
        /// Address of the source.
        pub source: u64,
        /// Address of the target.
        pub target: u64,
        /// Address of w.
        pub w: u64,
        /// Distances in w between neighbouring channels, rows and columns, in elements.
        pub w_strides: [i64; 3],
        /// N.
        pub n: i32,
        /// C.
        pub c: i32,
        /// Height and width of the source.
        pub source_dims: [i32; 2],
        /// Height and width of the target.
        pub target_dims: [i32; 2],
        /// The first source position that the target's first one meets, negated; any sign.
        pub padding: [i32; 2],
        /// 1 when tap 0 is the filter's last element.
        pub flip: u32,
        /// What a block works on at a time.
        pub tile: DepthwisePlanesTile,
        /// Pairs of rows of a plane of the target; the last one may have one row.
        pub pairs: u32,
        /// Pairs of rows of a band, up to [`DEPTHWISE_PLANES_PAIRS`].
        pub band_pairs: Divisor,
        /// Parts of the columns.
        pub parts: Divisor,
        /// Images whose planes a product has, more than one where they are that small.
        pub unit_images: u32,
        /// Groups of images: jobs of the same channels.
        pub sets: Divisor,
        /// Products beside each other in a part.
        pub part_columns: u32,
        /// Jobs of every block.
        pub jobs: u32,
        /// Blocks that have one job more, the first ones.
        pub jobs_left: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the output's prior value.
        pub beta: f32,
    }
}

/// Calls `$callback!` with one row per kernel: symbol, filter extent, stride, whether rows of the source and of the target
/// may be odd, element type.
#[macro_export]
macro_rules! conv_depthwise_planes_kernels {
    ($callback:ident) => {
        $callback! {
            (depthwiseplanes_3x3_s1_bf16_sm90, 3, 1, false, false, bf16),
            (depthwiseplanes_3x3_s1_f16_sm90, 3, 1, false, false, f16),
            (depthwiseplanes_3x3_s1_odd_bf16_sm90, 3, 1, true, true, bf16),
            (depthwiseplanes_3x3_s1_odd_f16_sm90, 3, 1, true, true, f16),
            (depthwiseplanes_3x3_s2_bf16_sm90, 3, 2, false, false, bf16),
            (depthwiseplanes_3x3_s2_f16_sm90, 3, 2, false, false, f16),
            (depthwiseplanes_3x3_s2_odd_bf16_sm90, 3, 2, false, true, bf16),
            (depthwiseplanes_3x3_s2_odd_f16_sm90, 3, 2, false, true, f16),
            (depthwiseplanes_5x5_s1_bf16_sm90, 5, 1, false, false, bf16),
            (depthwiseplanes_5x5_s1_f16_sm90, 5, 1, false, false, f16),
            (depthwiseplanes_5x5_s1_odd_bf16_sm90, 5, 1, true, true, bf16),
            (depthwiseplanes_5x5_s1_odd_f16_sm90, 5, 1, true, true, f16),
            (depthwiseplanes_5x5_s2_bf16_sm90, 5, 2, false, false, bf16),
            (depthwiseplanes_5x5_s2_f16_sm90, 5, 2, false, false, f16),
            (depthwiseplanes_5x5_s2_odd_bf16_sm90, 5, 2, false, true, bf16),
            (depthwiseplanes_5x5_s2_odd_f16_sm90, 5, 2, false, true, f16),
            (depthwiseplanes_7x7_s1_bf16_sm90, 7, 1, false, false, bf16),
            (depthwiseplanes_7x7_s1_f16_sm90, 7, 1, false, false, f16),
            (depthwiseplanes_7x7_s1_odd_bf16_sm90, 7, 1, true, true, bf16),
            (depthwiseplanes_7x7_s1_odd_f16_sm90, 7, 1, true, true, f16),
        }
    };
}
