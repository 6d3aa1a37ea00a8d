//! What launcher and kernels of `im2col_wgmma` agree on: tiles, order of the tiles, launch parameters.
//!
//! `fprop` and `dgrad` are one product: rows are positions of the tensor that is written, columns its channels, and
//! the sum runs over taps and channels of the tensor that is read. A strided `dgrad` falls apart into one such
//! product for every position modulo the stride, a [`ConvClass`]: each meets only some taps of the filter.
//!
//! `wgrad` is another: rows are k, columns (t, r, s, c), and the sum runs over positions of y.

use crate::division::Divisor;
use crate::epilogue::FusedEpilogueParam;

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
    /// computes, instead of sharing each tile.
    pub in_turns: bool,
    /// Parts of the second operand that are loaded: 1, or 3 of f32 (see [`super::bf16x3_wgmma`]).
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
    /// For counts of channels that 192 divides, or nearly.
    GATHER_128X192 = [128 x 192, panel_k 64, stages 4, cluster 1, out_panels 2, in_turns false];
    /// For 128 channels.
    GATHER_256X128_C2 = [256 x 128, panel_k 64, stages 4, cluster 2, out_panels 2, in_turns false];
    /// The same for one block.
    GATHER_256X128 = [256 x 128, panel_k 64, stages 4, cluster 1, out_panels 2, in_turns false];
    /// For short sums and fewer positions.
    GATHER_128X128 = [128 x 128, panel_k 64, stages 5, cluster 1, out_panels 4, in_turns true];
    /// For 64 channels.
    GATHER_256X64 = [256 x 64, panel_k 64, stages 4, cluster 1, out_panels 2, in_turns false];
    /// For 64 channels and short sums.
    GATHER_128X64 = [128 x 64, panel_k 64, stages 8, cluster 1, out_panels 2, in_turns true];
    /// [`GATHER_128X128`] where at most 32 channels are read.
    GATHER_128X128_P32 = [128 x 128, panel_k 32, stages 5, cluster 1, out_panels 4, in_turns true];
    /// [`GATHER_256X64`] where at most 32 channels are read.
    GATHER_256X64_P32 = [256 x 64, panel_k 32, stages 4, cluster 1, out_panels 2, in_turns false];
    /// `wgrad`, many channels.
    WGRAD_128X256 = [128 x 256, panel_k 64, stages 4, cluster 1, out_panels 0, in_turns false];
    /// The same for more than 128 rows: both blocks of a cluster need the same part of x, and each loads half of it.
    WGRAD_128X256_C2 = [128 x 256, panel_k 64, stages 4, cluster 2, out_panels 0, in_turns false];
    /// For counts of panels that 3 divides.
    WGRAD_128X192 = [128 x 192, panel_k 64, stages 5, cluster 1, out_panels 0, in_turns false];
    /// For more than 128 rows and 128 columns.
    WGRAD_128X128_C2 = [128 x 128, panel_k 64, stages 7, cluster 2, out_panels 0, in_turns false];
    /// For 128 columns.
    WGRAD_128X128 = [128 x 128, panel_k 64, stages 7, cluster 1, out_panels 0, in_turns false];
    /// For 64 columns.
    WGRAD_128X64 = [128 x 64, panel_k 64, stages 9, cluster 1, out_panels 0, in_turns false];
    /// For 64 rows: the consumers share the columns.
    WGRAD_64X256 = [64 x 256, panel_k 64, stages 5, cluster 1, out_panels 0, in_turns false];
    /// For 64 rows and 128 columns.
    WGRAD_64X128 = [64 x 128, panel_k 64, stages 9, cluster 1, out_panels 0, in_turns false];
}

/// The most dynamic shared memory a block of compute capability 9.0 may have.
pub(super) const MAX_SHARED_BYTES: u32 = 232_448;

impl ConvTile {
    /// Whether its kernels of `fprop` have the code for [`access::SPREAD`]: tiles of some sizes are enough, and the others
    /// stay small.
    pub const fn spreads(self) -> bool {
        self.cluster == 1 && (self.gemm_m == 256 && self.gemm_n == 64 || self.gemm_m == 128 && self.gemm_n == 128)
    }

    /// Product instructions along the rows of one consumer.
    pub const fn subtiles(self) -> u32 {
        self.gemm_m / (SUBTILE * self.sharers())
    }

    /// Consumers that read a stage.
    pub const fn sharers(self) -> u32 {
        if self.in_turns { 1 } else { CONSUMERS }
    }

    /// Stages that hold `panels` panels of the sum.
    pub const fn stages_of(self, panels: u32) -> u32 {
        panels.div_ceil(self.k_panels())
    }

    /// Whether each consumer computes some of the columns of all rows, instead of all columns of some of the rows.
    pub const fn shares_columns(self) -> bool {
        self.gemm_m == SUBTILE
    }

    /// Columns of one consumer.
    pub const fn consumer_columns(self) -> u32 {
        if self.shares_columns() { self.gemm_n / CONSUMERS } else { self.gemm_n }
    }

    /// Elements of the sum of one stage, where it is loaded in parts.
    pub const fn stage_k(self) -> u32 {
        if self.parts > 1 { self.panel_k } else { GEMM_K }
    }

    /// Bytes of the first operand's tile in one stage.
    pub const fn a_bytes(self) -> u32 {
        self.gemm_m * ROW_BYTES
    }

    /// Bytes of the second operand's tile in one stage.
    pub const fn b_bytes(self) -> u32 {
        self.gemm_n * self.stage_k() * ELEMENT_BYTES * self.parts
    }

    /// Bytes of one stage.
    pub const fn stage_bytes(self) -> u32 {
        self.a_bytes() + self.b_bytes()
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

    /// Dynamic shared memory of a block, with room for aligning its start.
    pub const fn smem_bytes(self) -> u32 {
        self.barriers_at() + 2 * 8 * (self.stages + self.converted) + ALIGN
    }

    /// Bytes of a buffer of parts: three bf16 for every f32 of the second operand's tile.
    pub const fn converted_bytes(self) -> u32 {
        self.b_bytes() / 4 * 3 * ELEMENT_BYTES
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

    /// Bytes of one such panel of the first operand.
    pub const fn a_panel_bytes(self) -> u32 {
        self.a_bytes() / self.k_panels()
    }
}

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

crate::abi_struct! {
    /// Launch parameters of the kernels for `wgrad`.
    pub struct ConvWgradParams {
        /// Map of dy: `[K, positions]`, fastest first.
        pub dy_map: [u64; 16],
        /// Map of x.
        pub x_map: [u64; 16],
        /// How x is loaded, of [`access`].
        pub x_access: u32,
        /// K of a group.
        pub group_k: u32,
        /// C of a group.
        pub group_c: u32,
        /// Groups.
        pub groups: u32,
        /// Panels of input channels of a group: 64, or 32 of f32.
        pub c_panels: u32,
        /// Taps along each axis.
        pub taps: [u32; 3],
        /// Panels of a group's filter: `c_panels` for each tap.
        pub n_panels: u32,
        /// Z, P, Q.
        pub extents: [Divisor; 3],
        /// Where position 0 reads with its first tap.
        pub base: [i32; 3],
        /// Distance between read positions of neighbouring positions of y.
        pub step: [u32; 3],
        /// Distance in x between neighbouring taps.
        pub tap_offset: [u32; 3],
        /// Stages of the whole sum.
        pub k_blocks: u32,
        /// Into how many parts the sum of every tile is split, where there are no `workers`.
        pub splits: u32,
        /// How many share all stages of all tiles evenly, one tile after the other; 0 where `splits` counts.
        pub workers: u32,
        /// Tiles along the rows of a group.
        pub m_blocks: u32,
        /// Tiles along the columns of a group.
        pub n_blocks: u32,
        /// 1 when the filter is read from its far end.
        pub flip: u32,
        /// Not 0 when x is packed: channel i of a tap along h is channel `i % packed_c` of tap `i / packed_c` along w.
        pub packed_c: u32,
        /// C of dw when x is packed.
        pub real_c: u32,
        /// Distance in dw between neighbouring channels when x is packed.
        pub c_stride: i64,
        /// Distance in dw between neighbouring taps along w when x is packed.
        pub s_stride: i64,
        /// Partial sums when there are several splits.
        pub partials: u64,
        /// dw.
        pub dw: u64,
        /// Distance in dw between neighbours along k, in elements.
        pub k_stride: i64,
        /// Distance in dw between neighbouring taps of all axes counted in a row, in elements.
        pub tap_stride: i64,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the prior value.
        pub beta: f32,
    }
}

/// A tile of `wgrad`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WgradPlace {
    /// Which part of the sum.
    pub split: u32,
    /// Group.
    pub group: u32,
    /// First row within the group.
    pub m: u32,
    /// First panel within the group.
    pub panel: u32,
}

/// What one worker has to do.
#[derive(Clone, Copy, Debug)]
pub struct WgradWork {
    /// The next part or, of evenly shared work, stage.
    pub at: u32,
    /// Behind the last one.
    pub end: u32,
    step: u32,
    worker: u32,
}

/// Some stages of one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WgradPart {
    /// The tile.
    pub place: WgradPlace,
    /// The first stage.
    pub begin: u32,
    /// Behind the last stage.
    pub end: u32,
    /// Where its sums go in the workspace, in tiles.
    pub slot: u32,
    /// Whether these are all stages of the tile, so that the sums go to dw.
    pub is_whole: bool,
}

impl ConvWgradParams {
    /// Tiles, those of a cluster counted once.
    #[inline(always)]
    pub const fn tiles(&self) -> u32 {
        self.m_blocks * self.n_blocks * self.groups
    }

    /// The place of tile `index`: all tiles of a split first, since they read the same positions.
    #[inline(always)]
    pub const fn place(&self, tile: ConvTile, index: u32) -> WgradPlace {
        let (split, index) = div_rem(index, self.tiles());
        let (rest, m) = div_rem(index, self.m_blocks);
        let (group, n) = div_rem(rest, self.n_blocks);
        WgradPlace { split, group, m: m * tile.cluster_rows(), panel: n * (tile.gemm_n / tile.panel_k) }
    }

    /// The work of worker `worker` of `n`.
    #[inline(always)]
    pub const fn work(&self, worker: u32, n: u32) -> WgradWork {
        if self.workers == 0 {
            return WgradWork { at: worker, end: self.tiles() * self.splits, step: n, worker };
        }
        WgradWork { at: self.first_stage(worker), end: self.first_stage(worker + 1), step: 0, worker }
    }

    /// The first of a worker's stages, those of all tiles counted in a row.
    #[inline(always)]
    const fn first_stage(&self, worker: u32) -> u32 {
        let (each, rest) = div_rem(self.tiles() * self.k_blocks, self.workers);
        worker * each + if worker < rest { worker } else { rest }
    }

    /// The worker whose stage this is.
    #[inline(always)]
    const fn worker_of(&self, stage: u32) -> u32 {
        let (each, rest) = div_rem(self.tiles() * self.k_blocks, self.workers);
        let longer = rest * (each + 1);
        if stage < longer { div_rem(stage, each + 1).0 } else { rest + div_rem(stage - longer, each).0 }
    }

    /// The first part of what a worker has left, and how far it is to the next one.
    #[inline(always)]
    pub const fn part(&self, tile: ConvTile, work: WgradWork) -> (WgradPart, u32) {
        if self.workers == 0 {
            let place = self.place(tile, work.at);
            let (begin, end) = self.k_range(place.split);
            return (WgradPart { place, begin, end, slot: work.at, is_whole: self.splits == 1 }, work.step);
        }
        let (index, begin) = div_rem(work.at, self.k_blocks);
        let left = work.end - work.at;
        let end = if self.k_blocks - begin < left { self.k_blocks } else { begin + left };
        let is_whole = begin == 0 && end == self.k_blocks;
        // At most two parts of a worker are not whole: one that begins inside a tile, and one that ends inside another.
        let slot = 2 * work.worker + (begin == 0) as u32;
        (WgradPart { place: self.place(tile, index), begin, end, slot, is_whole }, end - begin)
    }

    /// Who has parts of the sum of a tile: the first, and one behind the last.
    #[inline(always)]
    pub const fn parts_of(&self, index: u32) -> (u32, u32) {
        if self.workers == 0 {
            return (0, self.splits);
        }
        let first = index * self.k_blocks;
        (self.worker_of(first), self.worker_of(first + self.k_blocks - 1) + 1)
    }

    /// The slot of one of them, `first` being the first of the tile.
    #[inline(always)]
    pub const fn slot_of(&self, index: u32, part: u32, first: u32) -> u32 {
        if self.workers == 0 { part * self.tiles() + index } else { 2 * part + (part == first) as u32 }
    }

    /// The tap along each axis and the first channel of a panel, `width` wide, of a group's filter.
    #[inline(always)]
    pub const fn tap_and_channel(&self, panel: u32, width: u32) -> ([u32; 3], u32) {
        let (linear, c_panel) = div_rem(panel, self.c_panels);
        let (rest, s) = div_rem(linear, self.taps[2]);
        let (t, r) = div_rem(rest, self.taps[1]);
        ([t, r, s], c_panel * width)
    }

    /// Stages `begin..end` of a split.
    #[inline(always)]
    pub const fn k_range(&self, split: u32) -> (u32, u32) {
        let (each, rest) = div_rem(self.k_blocks, self.splits);
        // The first splits take one stage of the rest each.
        let begin = split * each + if split < rest { split } else { rest };
        (begin, begin + each + (split < rest) as u32)
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels that add the partial sums of `wgrad`.
    pub struct ConvWgradSumParams {
        /// What the first kernel was given.
        pub wgrad: ConvWgradParams,
        /// Rows of its tile.
        pub tile_m: u32,
        /// Columns of its tile.
        pub tile_n: u32,
        /// Blocks of its cluster.
        pub cluster: u32,
        /// Threads that share the parts of four sums: a power of two, at most [`SUM_THREADS`].
        pub sharers: u32,
    }
}

/// Threads of a block of the kernels that add.
pub const SUM_THREADS: u32 = 256;

/// Sums that a thread of a consumer holds.
const fn sums_of_thread(tile: ConvTile) -> u32 {
    if tile.shares_columns() { tile.consumer_columns() / 2 } else { tile.gemm_n / 2 * tile.subtiles() }
}

impl ConvTile {
    /// Partial sums of a tile, of all threads.
    pub const fn partials(self) -> u32 {
        sums_of_thread(self) * 128 * CONSUMERS
    }
}

/// Quotient and remainder. Extents are at least 1; without the check, device code would carry a panic for 0.
#[inline(always)]
const fn div_rem(a: u32, b: u32) -> (u32, u32) {
    match a.checked_div(b) {
        Some(quotient) => (quotient, a - quotient * b),
        None => (0, 0),
    }
}
