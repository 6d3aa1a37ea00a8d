//! What launcher and kernels of `halo_wgmma` agree on.
//!
//! A tile is [`TILE_M`] neighbouring positions, or fewer, counted along rows of the tensor that is read, `pitch` a row:
//! what the tile reads, for all taps of an image plane, lies in shared memory once, and a tap is a shift of
//! addresses. Positions of a row behind its last output are computed for nothing. Of small images, a tile has several
//! whole ones, one behind the other: the padding below an image is that above the next one.
//!
//! With a stride, taps whose distance is no multiple of it read positions that no shift leads to. What is read then
//! falls into interleaved parts, each with every `step`-th row and column, its own taps and its own buffer.
//!
//! Either the two consumers share a tile, and the filter is streamed through a ring; or, where the whole filter fits,
//! it is resident and each consumer has tiles of its own, so that one computes while the other stores. A shared tile is
//! shared by its positions or channels; one of [`FEW_POSITIONS`] by its taps, whose sums are added in the end.

use crate::division::Divisor;

/// Positions of a tile.
pub const TILE_M: u32 = 256;
/// Positions of a tile where rounds of so many leave fewer multiprocessors idle.
pub const SMALLER_TILE_M: u32 = 192;
/// Positions of a tile where there are few.
pub const FEW_POSITIONS: u32 = 64;
/// Threads of a block: one producer warpgroup and two consumers.
pub const THREADS: u32 = 384;
/// Buffers for what is read: at least.
pub const MIN_BUFFERS: u32 = 2;
/// At most, where the filter's ring has stages enough.
const MAX_BUFFERS: u32 = 4;
/// The most stages of the filter's ring that are of use.
pub const MAX_STAGES: u32 = 12;
/// Stages of the filter's ring beyond which buffers are of more use.
const ENOUGH_STAGES: u32 = 6;
/// Bytes of a position of so many channels, 64 or 32: a row of the 128-byte or of the 64-byte swizzle.
pub const fn position_bytes(depth: u32) -> u32 {
    2 * depth
}

/// Bytes through which the results of one consumer leave: 64 positions of 64 channels, or 32 of f32.
pub const OUT_BYTES: u32 = 64 * 128;
/// See `stores_whole` of [`ConvHaloParams`].
pub const STORES_QUADS: u32 = 4;
/// Warpgroups that compute.
const CONSUMERS: u32 = 2;
/// What the shared buffers are aligned to: the period of the 128-byte swizzle.
const ALIGN: u32 = 1024;
/// The most dynamic shared memory a block of compute capability 9.0 may have.
pub const MAX_SHARED_BYTES: u32 = 232_448;

/// How shared memory is shared out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct HaloShared {
    /// Buffers for what is read.
    pub buffers: u32,
    /// Bytes of each.
    pub buffer_bytes: u32,
    /// Bytes of a stage of the filter's ring.
    pub stage_bytes: u32,
    /// Its stages; where the filter is resident, one for each tap and channels of a position.
    pub stages: u32,
}

impl HaloShared {
    /// Buffers for so many positions of so many bytes, and as many stages up to `most` as there is room for: fewer than
    /// `least` where it does not suffice.
    pub const fn new(positions: u32, position_bytes: u32, stage_bytes: u32, [least, most]: [u32; 2]) -> Self {
        let buffer_bytes = (positions * position_bytes).next_multiple_of(ALIGN);
        let room = MAX_SHARED_BYTES - CONSUMERS * OUT_BYTES - ALIGN;
        let (buffer, stage) = (buffer_bytes + 32, stage_bytes + 16);
        let enough = if most < ENOUGH_STAGES { most } else { ENOUGH_STAGES };
        let enough = if least > enough { least } else { enough };
        let mut buffers = MAX_BUFFERS;
        while buffers > MIN_BUFFERS && buffers * buffer + enough * stage > room {
            buffers -= 1;
        }
        let stages = room.saturating_sub(buffers * buffer) / stage;
        HaloShared { buffers, buffer_bytes, stage_bytes, stages: if stages < most { stages } else { most } }
    }

    /// Where the filter's ring begins.
    #[inline(always)]
    pub const fn ring_at(self) -> u32 {
        self.buffers * self.buffer_bytes
    }

    /// Where results pass on their way out.
    #[inline(always)]
    pub const fn out_at(self) -> u32 {
        self.ring_at() + self.stages * self.stage_bytes
    }

    /// Where the barriers begin: a full and an empty one a buffer, then a full and an empty one a stage.
    #[inline(always)]
    pub const fn barriers_at(self) -> u32 {
        self.out_at() + CONSUMERS * OUT_BYTES
    }

    /// Distance from a buffer's full barrier to that of the second consumer, where each has buffers of its own.
    #[inline(always)]
    pub const fn to_second_full(self) -> u32 {
        16 * (self.buffers + self.stages)
    }

    /// Dynamic shared memory of a block, with room for aligning its start.
    pub const fn bytes(self) -> u32 {
        self.barriers_at() + self.to_second_full() + 16 * self.buffers + ALIGN
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels.
    ///
    /// The maps stand first: the hardware wants each at an address that is a multiple of 64.
    pub struct ConvHaloParams {
        /// Map of the tensor that is read, `[C, W, H, D, N]`, fastest first.
        pub a_map: [u64; 16],
        /// Map of the filter, `[C, taps, K]`, fastest first.
        pub b_map: [u64; 16],
        /// How shared memory is shared out.
        pub shared: HaloShared,
        /// Positions from row to row of what is read.
        pub pitch: Divisor,
        /// Rows that are read, of all images of a tile.
        pub rows: u32,
        /// Positions behind them that are zero.
        pub tail: u32,
        /// Images of a tile.
        pub images: u32,
        /// Rows from one image of a tile to the next.
        pub image_rows: Divisor,
        /// All images.
        pub n_images: u32,
        /// Tiles of a group.
        pub n_tiles: u32,
        /// Groups.
        pub groups: Divisor,
        /// Channels of a group that are read.
        pub channels: u32,
        /// From group to group: distance along the filter's k.
        pub group_k: u32,
        /// Tiles along the columns.
        pub n_blocks: Divisor,
        /// Tiles of a strip.
        pub m_blocks: Divisor,
        /// Strips of a plane.
        pub strips: Divisor,
        /// Output positions of a row of a strip.
        pub strip_w: u32,
        /// Extents of the tensor that is written: D, H, W.
        pub extents: [u32; 3],
        /// D again.
        pub planes: Divisor,
        /// Distance between read positions of neighbouring written positions, along each axis.
        pub step: [u32; 3],
        /// Where position 0 reads with its first tap.
        pub base: [i32; 3],
        /// Taps along each axis.
        pub taps: [u32; 3],
        /// Parts of what is read along H and W: the first begins with the first tap, the next one with the next.
        pub parts: [u32; 2],
        /// Taps of a part along H and W, but for the first parts that have one more, and how many those are.
        pub part_taps: [u32; 2],
        /// See `part_taps`.
        pub longer_parts: [u32; 2],
        /// Distance between neighbouring taps of a part in its positions.
        pub shift: [u32; 2],
        /// Distance between neighbouring taps in what is read, along each axis.
        pub tap_offset: [u32; 3],
        /// The filter element of the first tap of all axes, as a linear index.
        pub first_tap: i32,
        /// From one tap to the next, along each axis.
        pub tap_step: [i32; 3],
        /// Panels of channels that are read.
        pub panels: u32,
        /// Columns of a group.
        pub gemm_n: u32,
        /// What a column is: `(a · spread[1] + b) · spread[2] + c` is channel c of position
        /// `(spread[0] · row + a, spread[1] · column + b)`.
        pub spread: [Divisor; 3],
        /// H and W of the tensor that is written, in positions of its own.
        pub spread_extents: [u32; 2],
        /// 16 or 8 where columns are neighbouring channels that may be written by as many bytes; [`STORES_QUADS`] where
        /// they are blocks of positions, of whose rows four elements may be written by 8 bytes; else 0.
        pub stores_whole: u32,
        /// Columns of a row of a block of positions, in fours.
        pub run: Divisor,
        /// The tensor that is written.
        pub out: u64,
        /// Distances in it between images, along D, H and W, and between channels, in elements.
        pub strides: [i64; 5],
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the prior value.
        pub beta: f32,
    }
}

/// A tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HaloPlace {
    /// The first image.
    pub image: u32,
    /// Group.
    pub group: u32,
    /// Position along D.
    pub plane: u32,
    /// First output position along W.
    pub strip: u32,
    /// First position within the strip.
    pub m: u32,
    /// First column.
    pub n: u32,
}

impl ConvHaloParams {
    /// Whether all tiles multiply by the same filter, and it fits the ring: then it is loaded once.
    #[inline(always)]
    pub const fn filter_stays(&self) -> bool {
        let products = self.taps[0] * self.taps[1] * self.taps[2] * self.panels;
        products <= self.shared.stages && self.n_blocks.divisor * self.groups.divisor == 1
    }

    /// The place of a tile of so many positions and channels: columns first, since they read the same positions, then
    /// neighbours, which share rows.
    #[inline(always)]
    pub const fn place(&self, positions: u32, channels: u32, index: u32, group: u32) -> HaloPlace {
        let (rest, n) = self.n_blocks.div_rem(index);
        let (rest, m) = self.m_blocks.div_rem(rest);
        let (rest, strip) = self.strips.div_rem(rest);
        let (images, plane) = self.planes.div_rem(rest);
        HaloPlace {
            image: images * self.images,
            group,
            plane,
            strip: strip * self.strip_w,
            m: m * positions,
            n: n * channels,
        }
    }
}

/// A part of what is read: the first of its taps along H and W.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HaloPart {
    /// Along H.
    pub h: u32,
    /// Along W.
    pub w: u32,
}

impl HaloPart {
    /// The first one.
    pub const FIRST: HaloPart = HaloPart { h: 0, w: 0 };

    /// Its taps along H and W.
    #[inline(always)]
    pub const fn taps(self, p: &ConvHaloParams) -> [u32; 2] {
        let longer = [(self.h < p.longer_parts[0]) as u32, (self.w < p.longer_parts[1]) as u32];
        [p.part_taps[0] + longer[0], p.part_taps[1] + longer[1]]
    }

    /// The next one; behind the last the first.
    #[inline(always)]
    pub const fn next(self, p: &ConvHaloParams) -> HaloPart {
        match self {
            HaloPart { h, w } if w + 1 < p.parts[1] => HaloPart { h, w: w + 1 },
            HaloPart { h, .. } if h + 1 < p.parts[0] => HaloPart { h: h + 1, w: 0 },
            _ => HaloPart::FIRST,
        }
    }
}
