//! What launcher and kernels of `im2col_wgmma` agree on: tiles, order of the tiles, launch parameters.
//!
//! `fprop` and `dgrad` are one product: rows are positions of the tensor that is written, columns its channels, and
//! the sum runs over taps and channels of the tensor that is read. A strided `dgrad` falls apart into one such
//! product for every position modulo the stride, a [`ConvClass`]: each meets only some taps of the filter.
//!
//! `wgrad` is another: rows are k, columns (t, r, s, c), and the sum runs over positions of y.

mod evenly;
mod stream_k;
mod wgrad;

pub use evenly::Evenly;
pub use stream_k::{ConvStreamKParams, StreamKPart, StreamKWork};
pub use wgrad::{
    ConvWgradFixupParams, ConvWgradParams, ConvWgradSumParams, FIXUP_FLAGS, STAGE_STEPS, SUM_RUN, SUM_THREADS,
    WgradPart, WgradPlace, WgradWork,
};

use crate::division::{Divisor, div_rem};
use crate::epilogue::FusedEpilogueParam;

/// Which of its `n` items of a tile's sum, a bit each, worker `part` of `parts` has of a holder that has so many before
/// it: those of all holders in a row are dealt out to the workers in turn.
#[inline(always)]
const fn dealt_out(before: u32, n: u32, (part, parts): (u32, u32)) -> u32 {
    let (_, first) = div_rem(before, parts);
    let mut item = if part >= first { part - first } else { part + parts - first };
    let mut items = 0;
    while item < n {
        items |= 1 << item;
        item += parts;
    }
    items
}

/// What one block computes at a time, and how deep its pipeline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvTile {
    /// Rows.
    pub gemm_m: u32,
    /// Columns.
    pub gemm_n: u32,
    /// Elements that one row of shared memory holds: 64 (128 bytes), or 32 where there are few channels, or of f32.
    pub panel_k: u32,
    /// Tiles of both operands that are loaded ahead.
    pub stages: u32,
    /// Blocks of a cluster: neighbours along the rows that share the filter's tile, of which each loads a part.
    pub cluster: u32,
    /// Panels of the result that each consumer keeps under way.
    pub out_panels: u32,
    /// Whether consumers compute whole tiles in turns, so that one's result is on its way out while the other
    /// computes, instead of sharing each tile; or, where threads read windows, stages of a tile, so that each element is
    /// taken apart by one of them.
    pub in_turns: bool,
    /// Parts of the second operand that are loaded: 1, or 3 of f32 (see [`super::f32_wgmma`]), or none where threads
    /// read it themselves.
    pub parts: u32,
    /// Buffers for the parts of a second operand that is taken apart in shared memory; 0 where it is loaded as it is
    /// multiplied.
    pub converted: u32,
}

/// Warpgroups that compute.
pub const CONSUMERS: u32 = 2;
/// Threads of a block: one producer warpgroup and the consumers.
pub const THREADS: u32 = 128 * (1 + CONSUMERS);
/// Bytes of a row of shared memory that is full.
pub const ROW_BYTES: u32 = 128;
/// Elements of the sum of one stage.
pub const GEMM_K: u32 = 64;
/// Columns of a panel: 64 elements are one swizzled row of 128 bytes.
pub const PANEL: u32 = 64;
/// Bytes of a panel of 64 rows.
pub const PANEL_BYTES: u32 = 64 * 128;
/// Rows of one product instruction.
pub const SUBTILE: u32 = 64;
/// Rows of the result that leave at once: those of a warp.
pub const OUT_ROWS: u32 = 16;
/// What the shared buffers are aligned to: the period of the 128-byte swizzle.
const ALIGN: u32 = 1024;
/// Bytes of an element.
const ELEMENT_BYTES: u32 = 2;

macro_rules! tiles {
    ($($(#[$meta:meta])* $name:ident = [$m:literal x $n:literal, panel_k $p:literal, stages $s:literal, cluster $c:literal,
       out_panels $o:literal, in_turns $t:literal];)*) => { $(
        $(#[$meta])*
        pub const $name: ConvTile =
            ConvTile { gemm_m: $m, gemm_n: $n, panel_k: $p, stages: $s, cluster: $c, out_panels: $o, in_turns: $t,
                       parts: 1, converted: 0 };
        const _: () = assert!($name.smem_bytes() <= MAX_SHARED_BYTES);
    )* };
}

tiles! {
    /// `fprop` and `dgrad`, many channels and positions: fewest bytes loaded a product.
    GATHER_128X256_C2 = [128 x 256, panel_k 64, stages 4, cluster 2, out_panels 2, in_turns false];
    /// The same for one block.
    GATHER_128X256 = [128 x 256, panel_k 64, stages 4, cluster 1, out_panels 2, in_turns false];
    /// For counts of channels that 192 divides, or nearly; there is room for all of the result on its way out.
    GATHER_128X192 = [128 x 192, panel_k 64, stages 4, cluster 1, out_panels 3, in_turns false];
    /// For 128 channels.
    GATHER_256X128_C2 = [256 x 128, panel_k 64, stages 4, cluster 2, out_panels 2, in_turns false];
    /// The same for one block.
    GATHER_256X128 = [256 x 128, panel_k 64, stages 4, cluster 1, out_panels 2, in_turns false];
    /// For short sums and fewer positions.
    GATHER_128X128 = [128 x 128, panel_k 64, stages 6, cluster 1, out_panels 2, in_turns true];
    /// For 64 channels.
    GATHER_256X64 = [256 x 64, panel_k 64, stages 4, cluster 1, out_panels 2, in_turns false];
    /// For 64 channels and short sums.
    GATHER_128X64 = [128 x 64, panel_k 64, stages 8, cluster 1, out_panels 2, in_turns true];
    /// [`GATHER_128X128`] where at most 32 channels are read.
    GATHER_128X128_P32 = [128 x 128, panel_k 32, stages 5, cluster 1, out_panels 4, in_turns true];
    /// [`GATHER_256X64`] where at most 32 channels are read.
    GATHER_256X64_P32 = [256 x 64, panel_k 32, stages 4, cluster 1, out_panels 2, in_turns false];
    /// For few tiles, whose stages are shared out; of more columns it is [`GATHER_128X256`] that they are shared out
    /// of, or [`GATHER_128X256_C2`].
    STREAM_128X128 = [128 x 128, panel_k 64, stages 6, cluster 1, out_panels 2, in_turns false];
    /// The same for two blocks of one after the other's positions: each loads half of the filter's stage for both.
    STREAM_128X128_C2 = [128 x 128, panel_k 64, stages 6, cluster 2, out_panels 2, in_turns false];
    /// For counts of channels that 160 divides, or nearly, where every worker of a tile adds up some panels of it. The last
    /// panel is half as wide.
    STREAM_128X160 = [128 x 160, panel_k 64, stages 5, cluster 1, out_panels 1, in_turns false];
    /// `wgrad`, many channels. Panels on their way out are for the kernels that add the parts of a sum themselves.
    WGRAD_128X256 = [128 x 256, panel_k 64, stages 4, cluster 1, out_panels 1, in_turns false];
    /// The same for more than 128 rows: both blocks of a cluster need the same part of x, and each loads half of it.
    WGRAD_128X256_C2 = [128 x 256, panel_k 64, stages 4, cluster 2, out_panels 1, in_turns false];
    /// For counts of panels that 3 divides.
    WGRAD_128X192 = [128 x 192, panel_k 64, stages 5, cluster 1, out_panels 1, in_turns false];
    /// For more than 128 rows and 128 columns.
    WGRAD_128X128_C2 = [128 x 128, panel_k 64, stages 7, cluster 2, out_panels 0, in_turns false];
    /// For 128 columns.
    WGRAD_128X128 = [128 x 128, panel_k 64, stages 7, cluster 1, out_panels 0, in_turns false];
    /// For 64 columns.
    WGRAD_128X64 = [128 x 64, panel_k 64, stages 9, cluster 1, out_panels 0, in_turns false];
    /// For 64 rows: the consumers share the columns.
    WGRAD_64X256 = [64 x 256, panel_k 64, stages 5, cluster 1, out_panels 1, in_turns false];
    /// For 64 rows and 128 columns.
    WGRAD_64X128 = [64 x 128, panel_k 64, stages 9, cluster 1, out_panels 0, in_turns false];
    /// [`WGRAD_128X128_C2`] with room for panels on their way out.
    FIXUP_128X128_C2 = [128 x 128, panel_k 64, stages 6, cluster 2, out_panels 1, in_turns false];
    /// [`WGRAD_128X128`] likewise.
    FIXUP_128X128 = [128 x 128, panel_k 64, stages 6, cluster 1, out_panels 1, in_turns false];
    /// [`WGRAD_128X64`] likewise.
    FIXUP_128X64 = [128 x 64, panel_k 64, stages 8, cluster 1, out_panels 1, in_turns false];
    /// [`WGRAD_64X256`] in panels of half as many channels, for counts of which 64 would leave more unused.
    WGRAD_64X256_P32 = [64 x 256, panel_k 32, stages 5, cluster 1, out_panels 0, in_turns false];
    /// The same for more columns.
    WGRAD_64X320_P32 = [64 x 320, panel_k 32, stages 4, cluster 1, out_panels 0, in_turns false];
}

/// The most dynamic shared memory a block of compute capability 9.0 may have.
pub(super) const MAX_SHARED_BYTES: u32 = 232_448;

impl ConvTile {
    /// Whether its kernels of `fprop` have the code for [`access::SPREAD`]: tiles of some sizes are enough, and the others
    /// stay small.
    pub const fn spreads(self) -> bool {
        self.cluster == 1 && (self.gemm_m == 256 && self.gemm_n == 64 || self.gemm_n == 128 && self.in_turns)
    }

    /// Product instructions along the rows of one consumer.
    pub const fn subtiles(self) -> u32 {
        self.gemm_m / (SUBTILE * self.sharers())
    }

    /// Consumers that read a stage.
    pub const fn sharers(self) -> u32 {
        if self.in_turns { 1 } else { CONSUMERS }
    }

    /// Whether each consumer computes some of the columns of all rows, instead of all columns of some of the rows.
    pub const fn shares_columns(self) -> bool {
        self.gemm_m == SUBTILE && !self.in_turns
    }

    /// Columns of one consumer.
    pub const fn consumer_columns(self) -> u32 {
        if self.shares_columns() { self.gemm_n / CONSUMERS } else { self.gemm_n }
    }

    /// Elements of the sum of one stage, where it is loaded in parts.
    pub const fn stage_k(self) -> u32 {
        if self.parts == 1 { GEMM_K } else { self.panel_k }
    }

    /// Bytes of the first operand's tile in one stage.
    pub const fn a_bytes(self) -> u32 {
        self.gemm_m * ROW_BYTES
    }

    /// Bytes of the second operand's tile in one stage.
    pub const fn b_bytes(self) -> u32 {
        self.gemm_n * self.stage_k() * ELEMENT_BYTES * self.parts
    }

    /// Bytes that the second operand's tile takes up in one stage: where the sum's dimension is not contiguous, and there is
    /// more than a panel of columns, it is loaded in whole ones.
    pub const fn b_room(self) -> u32 {
        if self.gemm_n > PANEL {
            self.b_bytes() / self.gemm_n * self.gemm_n.next_multiple_of(PANEL)
        } else {
            self.b_bytes()
        }
    }

    /// Bytes of one stage.
    pub const fn stage_bytes(self) -> u32 {
        self.a_bytes() + self.b_room()
    }

    /// Panels of columns, of which the last may be narrower.
    pub const fn n_panels(self) -> u32 {
        self.gemm_n.div_ceil(PANEL)
    }

    /// Columns of the last panel of a tile that has wider ones too.
    pub const fn narrow_columns(self) -> Option<u32> {
        if self.gemm_n > PANEL && !self.gemm_n.is_multiple_of(PANEL) { Some(self.gemm_n % PANEL) } else { None }
    }

    /// Where the panels of the result begin, behind the stages.
    pub const fn panels_at(self) -> u32 {
        self.stages * self.stage_bytes()
    }

    /// Where the buffers of parts begin, behind the panels.
    pub const fn converted_at(self) -> u32 {
        self.panels_at() + CONSUMERS * self.out_panels * PANEL_BYTES
    }

    /// Where the barriers begin: a full and an empty one of 8 bytes a stage, then the same a buffer of parts.
    pub const fn barriers_at(self) -> u32 {
        self.converted_at() + self.converted * self.converted_bytes()
    }

    /// Where, for each buffer of parts, what undoes its columns' scales lies, behind the barriers.
    pub const fn factors_at(self) -> u32 {
        (self.barriers_at() + 2 * 8 * (self.stages + self.converted)).next_multiple_of(16)
    }

    /// Bytes of these of a buffer: f32 of each column, and of each 16.
    pub const fn factor_bytes(self) -> u32 {
        self.gemm_n * 4 + (self.gemm_n / 16 * 4).next_multiple_of(16)
    }

    /// Where copies of the filter lie, behind them, where it is read and taken apart in the block.
    pub const fn filter_copies_at(self) -> u32 {
        self.factors_at() + self.converted * self.factor_bytes()
    }

    /// Bytes of the copies of one stage of each team: 64 for a piece.
    pub const fn filter_copy_bytes(self) -> u32 {
        if self.reads_filter() { 128 * self.filter_pieces() * 64 } else { 0 }
    }

    /// Dynamic shared memory of a block, with room for aligning its start.
    pub const fn smem_bytes(self) -> u32 {
        self.filter_copies_at() + FILTER_COPIES * self.filter_copy_bytes() + ALIGN
    }

    /// Bytes of a buffer of parts: two f16 for every f32 of the second operand's tile, of 32 terms of the sum.
    pub const fn converted_bytes(self) -> u32 {
        self.gemm_n * (ROW_BYTES / 4) * 2 * ELEMENT_BYTES
    }

    /// Whether a warpgroup of the block reads the filter and takes it apart.
    pub const fn reads_filter(self) -> bool {
        self.converted > 0 && self.parts == 0 && !self.in_turns
    }

    /// Pieces of a stage, 16 terms of a column.
    const fn pieces(self) -> u32 {
        self.gemm_n * (self.panel_k / 16)
    }

    /// Pieces that a thread has at a time of a filter that it reads.
    pub const fn filter_pieces(self) -> u32 {
        if self.reads_filter() && self.pieces() >= 64 { 2 } else { 1 }
    }

    /// Into how many teams the warpgroup that reads and takes apart an operand falls, which take its stages in turn.
    pub const fn filter_teams(self) -> u32 {
        let at_a_time = 128 * self.filter_pieces();
        if self.parts > 0 || self.pieces() >= at_a_time { 1 } else { at_a_time / self.pieces() }
    }

    /// Threads of a block: those of [`THREADS`], and a warpgroup that takes operands apart.
    pub const fn threads(self) -> u32 {
        if self.converted > 0 { THREADS + 128 } else { THREADS }
    }

    /// Rows that a cluster computes at a time.
    pub const fn cluster_rows(self) -> u32 {
        self.gemm_m * self.cluster
    }

    /// Columns of the filter that each block of a cluster loads.
    pub const fn b_part(self) -> u32 {
        self.gemm_n / self.cluster
    }

    /// Whether kernels for `fprop` compute epilogues: where consumers hold the sums of a whole wide tile in turns, they have
    /// no registers left for what is added.
    pub const fn has_epilogues(self) -> bool {
        !(self.in_turns && self.gemm_n > 64)
    }

    /// Whether its kernels have the code for [`access::ROWS`], for which the others have no registers left.
    pub const fn writes_rows(self) -> bool {
        self.gemm_n == 64 || self.in_turns
    }

    /// Panels of the sum in a stage.
    pub const fn k_panels(self) -> u32 {
        self.stage_k() / self.panel_k
    }

    /// Bytes of a panel of columns of `wgrad`: all positions of a stage.
    pub const fn column_panel_bytes(self) -> u32 {
        GEMM_K * self.panel_k * ELEMENT_BYTES
    }

    /// Bytes of one such panel of the first operand.
    pub const fn a_panel_bytes(self) -> u32 {
        self.a_bytes() / self.k_panels()
    }
}

/// Stages of a filter that are copied ahead where the block takes it apart.
pub const FILTER_COPIES: u32 = 2;

/// The most classes of positions that one launch takes: a stride of 2 along three axes.
pub const MAX_CLASSES: usize = 8;

/// How tiles of positions are loaded, or stored.
pub mod access {
    /// Positions lie one behind the other: a plain matrix.
    pub const LINEAR: u32 = 0;
    /// im2col of two axes.
    pub const IM2COL_2D: u32 = 1;
    /// im2col of three axes.
    pub const IM2COL_3D: u32 = 2;
    /// Stores only: columns are positions and channels, see `ConvGatherParams::spread`.
    pub const SPREAD: u32 = 3;
    /// Stores only: channels lie apart, and positions one behind the other, as in NCHW, or apart as well.
    pub const PLANES: u32 = 4;
    /// Stores only: channels are contiguous, and any number of them.
    pub const ROWS: u32 = 5;
}

/// Positions of the written tensor that meet the same taps.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[repr(C)]
pub struct ConvClass {
    /// Its tiles are those from here to the next class's.
    pub first_tile: u32,
    /// Positions of all images.
    pub gemm_m: u32,
    /// Extents, outermost axis first.
    pub extents: [Divisor; 3],
    /// Taps along each axis that it meets.
    pub taps: [u32; 3],
    /// Where position 0 reads with its first tap.
    pub base: [i32; 3],
    /// Distance in the tensor that is read between neighbouring taps.
    pub tap_offset: [u32; 3],
    /// The filter element of the first tap of all axes, as a linear index.
    pub first_tap: i32,
    /// From one tap to the next, along each axis.
    pub tap_step: [i32; 3],
    /// Distance of its first element from the written tensor's.
    pub offset: i64,
    /// Distances between its positions along the axes, in elements.
    pub strides: [i64; 3],
}

crate::abi_struct! {
    /// Launch parameters of the kernels for `fprop` and `dgrad`.
    ///
    /// The maps stand first: the hardware wants each at an address that is a multiple of 64.
    pub struct ConvGatherParams {
        /// Maps of the tensor that is read, one a class.
        pub a_maps: [[u64; 16]; MAX_CLASSES],
        /// Maps of the tensor that is written, one a class.
        pub out_maps: [[u64; 16]; MAX_CLASSES],
        /// Map of the filter `[C of a group, taps, K]`, fastest first.
        pub b_map: [u64; 16],
        /// The classes.
        pub classes: [ConvClass; MAX_CLASSES],
        /// How many there are.
        pub n_classes: u32,
        /// All tiles.
        pub n_tiles: u32,
        /// How the tensor that is read is loaded, of [`access`].
        pub a_access: u32,
        /// How the tensor that is written is stored, of [`access`].
        pub out_access: u32,
        /// Distance between read positions of neighbouring written positions, along each axis.
        pub step: [u32; 3],
        /// Channels of a group that are written.
        pub gemm_n: u32,
        /// Tiles along them.
        pub n_blocks: Divisor,
        /// Channels of a group that are read.
        pub channels: u32,
        /// Groups.
        pub groups: Divisor,
        /// From group to group: distance along the filter's k.
        pub group_k: u32,
        /// With [`access::SPREAD`], what a column is: `(a · spread[1] + b) · spread[2] + c` is channel c of position
        /// `(spread[0] · row + a, spread[1] · column + b)`.
        pub spread: [Divisor; 3],
        /// With [`access::SPREAD`], extents H and W and distances along them and between channels.
        pub spread_extents: [u32; 2],
        /// Bytes that are stored at a time. With [`access::PLANES`] 2, 4, 8 or 16, which divide the positions of an image;
        /// with [`access::ROWS`] 2, 4 or 8, which divide channels and strides; with [`access::SPREAD`] likewise 2 or 4;
        /// else 16.
        pub store_bytes: u32,
        /// See `spread_extents`.
        pub spread_strides: [i64; 3],
        /// The tensor that is written, for reading its prior value.
        pub out: u64,
        /// Distance between its images, in elements.
        pub image_stride: i64,
        /// Distance between its channels, in elements.
        pub channel_stride: i64,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the prior value.
        pub beta: f32,
        /// 1 where the second-level cache is asked to give up last what is read as a plain matrix, of 16-bit types.
        pub keep: u32,
        /// What becomes of the sums of `fprop`.
        pub epilogue: FusedEpilogueParam,
        /// Distance between images of the residual, in elements.
        pub z_image_stride: i64,
        /// Distances between its positions along the axes.
        pub z_strides: [i64; 3],
    }
}

const _: () = assert!(size_of::<ConvGatherParams>() <= 4096);

/// A tile of `fprop` or `dgrad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GatherPlace {
    /// Index of its class.
    pub class: u32,
    /// First row of the cluster's tile.
    pub m: u32,
    /// First column.
    pub n: u32,
    /// Group.
    pub group: u32,
}

impl GatherPlace {
    /// The place of the tile with the given index among those of its class: columns first, since they read the same
    /// positions; then groups, then rows.
    #[inline(always)]
    pub const fn new(p: &ConvGatherParams, tile: ConvTile, class: u32, index: u32) -> Self {
        let (rest, n) = p.n_blocks.div_rem(index);
        let (m, group) = p.groups.div_rem(rest);
        GatherPlace { class, m: m * tile.cluster_rows(), n: n * tile.gemm_n, group }
    }
}

/// Image and position of a linear position index.
#[inline(always)]
pub const fn position(linear: u32, extents: [Divisor; 3]) -> (u32, [u32; 3]) {
    let (rest, w) = extents[2].div_rem(linear);
    let (rest, h) = extents[1].div_rem(rest);
    let (n, d) = extents[0].div_rem(rest);
    (n, [d, h, w])
}
