//! Launch parameters of the matmul kernels.

use super::MAX_BATCH_DIMS;
use crate::epilogue::{EpilogueParam, FusedEpilogueParam};
use crate::store::StoreParams;
use crate::tickets::TicketsParam;

/// A batch of strided matrices as a kernel sees it. Strides are in elements.
#[derive(Clone, Copy, Debug, PartialEq)]
#[repr(C)]
pub struct MatmulOperand {
    /// Device address of the first element.
    pub address: u64,
    /// Distances along the batch dimensions, outermost first.
    pub batch_strides: [i64; MAX_BATCH_DIMS],
    /// Distance between rows.
    pub row_stride: i64,
    /// Distance between columns.
    pub col_stride: i64,
}

crate::abi_struct! {
    /// Launch parameters of the naive kernels.
    pub struct MatmulParams {
        /// Rows of the product.
        pub gemm_m: i64,
        /// Columns of the product.
        pub gemm_n: i64,
        /// Length of the sums.
        pub gemm_k: i64,
        /// Extents of the batch dimensions, outermost first; unused leading ones are 1.
        pub batch_dims: [i64; MAX_BATCH_DIMS],
        /// Factor of the product.
        pub alpha: f64,
        /// Factor of c's prior value.
        pub beta: f64,
        /// `[…, m, k]`.
        pub a: MatmulOperand,
        /// `[…, k, n]`.
        pub b: MatmulOperand,
        /// `[…, m, n]`.
        pub c: MatmulOperand,
        /// The residual; address 0 for none.
        pub z: MatmulOperand,
        /// What becomes of the sums.
        pub epilogue: EpilogueParam,
    }
}

crate::abi_struct! {
    /// Launch parameters of the Hopper kernels.
    ///
    /// The maps stand first: the hardware wants each at an address that is a multiple of 64, which their offsets and
    /// the parameter's alignment give. All maps are five-dimensional, fastest first: the contiguous matrix dimension,
    /// the other one, then three batch dimensions, innermost first.
    pub struct MatmulTmaParams {
        /// Map of a.
        pub a_map: [u64; 16],
        /// Map of b.
        pub b_map: [u64; 16],
        /// Map of c, for stores; unused but for [`OUTPUT_MAP`].
        pub c_map: [u64; 16],
        /// c itself, for its prior value and for stores without a map.
        pub c: MatmulOperand,
        /// Where the parts of a split sum go, for [`OUTPUT_PARTIALS`]: `[slice][matrix][gemm_m][partial_pitch]` f32.
        pub partials: u64,
        /// Rows of the product.
        pub gemm_m: u32,
        /// Columns of the product.
        pub gemm_n: u32,
        /// Length of the sums.
        pub gemm_k: u32,
        /// Number of matrices.
        pub n_batch: u32,
        /// Extents of the batch dimensions, outermost first; unused leading ones are 1.
        pub batch_dims: [u32; MAX_BATCH_DIMS],
        /// Rows of tiles that are walked together, so that what they share stays in the L2 cache.
        pub raster_rows: u32,
        /// 1 where a has its own matrices along a batch dimension, 0 where it repeats: what batch indices are
        /// multiplied with to give a coordinate of its map.
        pub a_batch_steps: [u32; MAX_BATCH_DIMS],
        /// Factor of the product.
        pub alpha: f32,
        /// As for a.
        pub b_batch_steps: [u32; MAX_BATCH_DIMS],
        /// Factor of c's prior value.
        pub beta: f32,
        /// How the sums leave: one of the `OUTPUT_` constants.
        pub output: u32,
        /// 1 where c's rows, not its columns, are contiguous: what leaves through shared memory is then transposed.
        pub transposed: u32,
        /// Parts into which each sum is split.
        pub n_slices: u32,
        /// Blocks of k of each part, at least one; those left over go to the first parts, one each.
        pub slice_k_blocks: u32,
        /// Bytes that [`OUTPUT_THREADS`] stores at a time: 2, 4, 8 or 16.
        pub store_bytes: u32,
        /// Elements between rows of the parts, a multiple of 4.
        pub partial_pitch: u32,
        /// Rows of a's map from one part of its elements to the next, for kernels whose elements come in parts.
        pub a_part_rows: u32,
        /// The same of b.
        pub b_part_rows: u32,
        /// Blocks of k for each value of an outer index of the sums; all of them where there is none.
        pub outer_blocks: u32,
        /// 1 where the outer index is added to a's innermost batch coordinate, else 0.
        pub a_outer_batch: u32,
        /// 1 where the outer index is added to b's innermost batch coordinate, else 0.
        pub b_outer_batch: u32,
        /// The logarithm of how many blocks of a cluster share b's tile (a's where b's part stays), of kernels whose
        /// launches decide it. They are neighbours along the rows (the columns where b's part stays); where the blocks
        /// of a cluster also have slices of the sums, those of the first slice come first.
        pub sharers_log2: u32,
        /// 1 where the second-level cache is asked to give up last what is read.
        pub keep: u32,
        /// 1 where the bias belongs to rows of what is computed, as where that is the transpose of c.
        pub bias_along_rows: u32,
        /// What becomes of the sums.
        pub epilogue: FusedEpilogueParam,
        /// Elements of the residual between matrices, outermost dimension first.
        pub z_batch_strides: [i64; MAX_BATCH_DIMS],
        /// Elements of the residual between rows; its columns are contiguous.
        pub z_row_stride: i64,
        /// What blocks draw their tiles from, of tiles with [`draws`](super::MatmulTile::draws).
        pub tickets: TicketsParam,
    }
}

crate::abi_struct! {
    /// Launch parameters of the Hopper kernels whose operands have the dimension of the sum contiguous.
    pub struct MatmulKMajorParams {
        /// As for 16-bit elements, but that `gemm_k` and `slice_k_blocks` count units of 2 bytes, whatever the element;
        /// of the output, extents and strides only.
        pub product: MatmulTmaParams,
        /// How c is written.
        pub store: StoreParams,
    }
}

/// c leaves by tensor map: its rows are multiples of 16 bytes.
pub const OUTPUT_MAP: u32 = 0;
/// c leaves by stores of threads, with any strides.
pub const OUTPUT_THREADS: u32 = 1;
/// Each slice's sums go to the workspace, and another kernel adds them up.
pub const OUTPUT_PARTIALS: u32 = 2;
/// The blocks of a cluster each have a slice of one tile and add up through shared memory.
pub const OUTPUT_CLUSTER: u32 = 3;

crate::abi_struct! {
    /// Launch parameters of the kernels that add up the parts of split sums.
    pub struct MatmulPartialsParams {
        /// `[slice][matrix][gemm_m][partial_pitch]` f32.
        pub partials: u64,
        /// `[…, m, n]`.
        pub c: MatmulOperand,
        /// Rows of the product.
        pub gemm_m: u32,
        /// Columns of the product.
        pub gemm_n: u32,
        /// Number of matrices.
        pub n_batch: u32,
        /// Extents of the batch dimensions, outermost first; unused leading ones are 1.
        pub batch_dims: [u32; MAX_BATCH_DIMS],
        /// Parts of each sum.
        pub n_slices: u32,
        /// Elements between rows of the parts, a multiple of 4.
        pub partial_pitch: u32,
        /// Factor of the product.
        pub alpha: f32,
        /// Factor of c's prior value.
        pub beta: f32,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels that copy matrices to 2-byte elements in rows of a multiple of 16 bytes.
    pub struct MatmulPackParams {
        /// The matrices.
        pub from: u64,
        /// The copy: all matrices one after the other.
        pub to: u64,
        /// Elements between matrices, outermost dimension first.
        pub batch_strides: [i64; MAX_BATCH_DIMS],
        /// Elements between rows.
        pub row_stride: i64,
        /// Elements between columns.
        pub col_stride: i64,
        /// Rows of a matrix.
        pub rows: u64,
        /// Columns of a matrix.
        pub cols: u64,
        /// Elements between rows of the copy, a multiple of [`ELEMS`](Self::ELEMS).
        pub pitch: u64,
        /// Extents of the batch dimensions, outermost first; 1 where matrices repeat.
        pub batch_dims: [u64; MAX_BATCH_DIMS],
        /// Rows of a matrix of the copy, or of each of its parts; those behind the last row are zero.
        pub part_rows: u64,
    }
}

impl MatmulPackParams {
    /// Elements that a thread copies at a time: 16 bytes.
    pub const ELEMS: u32 = 8;
}

/// Parts of an f32 element: bf16 numbers, each what the ones before it leave.
pub const F32_PARTS: u32 = 3;

/// The products of parts that are summed, the small ones first, as pairs of a's and b's part. Those that are left out
/// are below half a unit in the last place of the product.
pub const PART_PAIRS: [[u32; 2]; 6] = [[2, 0], [0, 2], [1, 1], [1, 0], [0, 1], [0, 0]];

crate::abi_struct! {
    /// Launch parameters of the portable kernels that keep tiles in shared memory: a block for each slice of each tile.
    pub struct MatmulBlockParams {
        /// `[…, m, k]`.
        pub a: MatmulOperand,
        /// `[…, k, n]`.
        pub b: MatmulOperand,
        /// `[…, m, n]`.
        pub c: MatmulOperand,
        /// Where the parts of split sums go: `[slice][matrix][gemm_m][partial_pitch]` in the type of the sums.
        pub partials: u64,
        /// Rows of the product.
        pub gemm_m: u32,
        /// Columns of the product.
        pub gemm_n: u32,
        /// Length of the sums.
        pub gemm_k: u32,
        /// Number of matrices.
        pub n_batch: u32,
        /// Extents of the batch dimensions, outermost first; unused leading ones are 1.
        pub batch_dims: [u32; MAX_BATCH_DIMS],
        /// Rows of tiles that are walked together.
        pub raster_rows: u32,
        /// Bytes that can be loaded of a at a time along its contiguous dimension; 0 where none is contiguous.
        pub a_load_bytes: u32,
        /// Bytes that can be loaded of b at a time along its contiguous dimension; 0 where none is contiguous.
        pub b_load_bytes: u32,
        /// 1 where four neighbouring columns of c can be stored in one access.
        pub stores_whole: u32,
        /// Parts into which each sum is split; with more than one, `partials` is written and not c.
        pub n_slices: u32,
        /// Blocks of k of each part, at least one; those left over go to the first parts, one each.
        pub slice_k_blocks: u32,
        /// Elements between rows of the parts, a multiple of 4.
        pub partial_pitch: u32,
        /// Factor of the product.
        pub alpha: f32,
        /// Factor of c's prior value.
        pub beta: f32,
    }
}

impl MatmulBlockParams {
    /// The first block of k of a slice of sums of `k_blocks` blocks, and how many it has.
    #[inline(always)]
    pub const fn slice(&self, k_blocks: u32, slice: u32) -> (u32, u32) {
        let longer = k_blocks - self.n_slices * self.slice_k_blocks;
        let earlier = if slice < longer { slice } else { longer };
        (slice * self.slice_k_blocks + earlier, self.slice_k_blocks + (slice < longer) as u32)
    }
}

const _: () = assert!(core::mem::offset_of!(MatmulTmaParams, b_map) % 64 == 0);
const _: () = assert!(core::mem::offset_of!(MatmulTmaParams, c_map) % 64 == 0);
