//! What launcher and kernels of `halo_wgmma_split` agree on.
//!
//! A tile of dw is 64 k × 64 c, for all taps along h and w of one along d. The sum runs over strips: some neighbouring
//! positions of an image, counted along rows of `pitch` positions, of which those behind the last output column are
//! zeros in dy. x lies in shared memory with the same pitch and with its halo, so that position i of dy meets position
//! `i + (r · pitch · dilation) + s · dilation` of x, whatever its row and column: a tap is a shift of addresses. A strip
//! may begin and end within a row; whole rows are loaded.

use super::halo_wgmma::MAX_SHARED_BYTES;
use crate::division::{Divisor, div_rem};

/// Channels of dy and of x of a tile.
pub const TILE: u32 = 64;
/// Warpgroups that compute: one for each tap along h.
pub const CONSUMERS: u32 = 3;
/// The most taps along w: an instruction computes those of one row.
pub const ROW_TAPS: u32 = 3;
/// Threads of a block: one producer warpgroup and the consumers.
pub const THREADS: u32 = 128 * (1 + CONSUMERS);
/// Positions that an instruction sums over.
pub const STEP: u32 = 16;
/// Bytes of a position: 64 channels.
pub const POSITION_BYTES: u32 = 128;
/// The most stages that are of use.
pub const MAX_STAGES: u32 = 4;
/// Sums of a thread of a consumer, by four.
pub const THREAD_QUADS: u32 = ROW_TAPS * TILE / 8;
/// Quads that a block of the adding kernel takes at a time.
pub const SUM_QUADS: u32 = 32;
/// Rows of threads of such a block, which share the parts.
pub const SUM_ROWS: u32 = 8;
/// What the shared buffers are aligned to: the period of the 128-byte swizzle.
const ALIGN: u32 = 1024;

/// How long strips are, and how stages of them lie in shared memory: dy, then x.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct StripStage {
    /// Instructions of a tap's sum over a strip: [`STEP`] positions each.
    pub steps: u32,
    /// Positions from row to row.
    pub pitch: Divisor,
    /// Rows that are loaded of dy, and of x.
    pub rows: [u32; 2],
    /// Positions behind those of x that are zero.
    pub tail: u32,
    /// Where x begins in a stage.
    pub x_at: u32,
    /// Bytes of a stage.
    pub bytes: u32,
    /// Stages of the ring.
    pub stages: u32,
}

impl StripStage {
    /// Strips of `steps` instructions that begin up to `most_first` positions behind the begin of a row, and whose taps
    /// reach `span_h` rows down and `span_w` positions to the side, in as many stages as there is room for.
    pub const fn new(steps: u32, pitch: u32, most_first: u32, span_h: u32, span_w: u32) -> Self {
        let rows = (most_first + steps * STEP).div_ceil(pitch);
        let x_at = (rows * pitch * POSITION_BYTES).next_multiple_of(ALIGN);
        let bytes = x_at + (((rows + span_h) * pitch + span_w) * POSITION_BYTES).next_multiple_of(ALIGN);
        let room = (MAX_SHARED_BYTES - ALIGN) / (bytes + 16);
        let stages = if room < MAX_STAGES { room } else { MAX_STAGES };
        StripStage { steps, pitch: Divisor::new(pitch), rows: [rows, rows + span_h], tail: span_w, x_at, bytes, stages }
    }

    /// Bytes that are loaded of dy and of x.
    #[inline(always)]
    pub const fn loaded_bytes(self) -> [u32; 2] {
        let row = self.pitch.divisor * POSITION_BYTES;
        [self.rows[0] * row, self.rows[1] * row]
    }

    /// Where the barriers begin: a full and an empty one a stage.
    #[inline(always)]
    pub const fn barriers_at(self) -> u32 {
        self.stages * self.bytes
    }

    /// Dynamic shared memory of a block, with room for aligning its start.
    pub const fn smem_bytes(self) -> u32 {
        self.barriers_at() + 16 * self.stages + ALIGN
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels.
    ///
    /// The maps stand first: the hardware wants each at an address that is a multiple of 64.
    pub struct ConvHaloWgradParams {
        /// Map of dy where rows are cut into parts, without the last part, `[K, part, parts, P, N · Z]`, fastest first:
        /// columns of the next part lie outside.
        pub dy_map: [u64; 16],
        /// Map of dy for the last part of a row, `[K, Q, P, Z, N]`.
        pub dy_last_map: [u64; 16],
        /// Map of x, `[C, W, H, D, N]`.
        pub x_map: [u64; 16],
        /// Length of a strip, and its stage.
        pub stage: StripStage,
        /// Output columns of a part of a row but for the last.
        pub part_w: u32,
        /// Parts of a row.
        pub row_parts: Divisor,
        /// Strips of an image plane, or of such parts of its rows.
        pub row_blocks: Divisor,
        /// Z.
        pub planes: Divisor,
        /// Strips of all images.
        pub n_strips: u32,
        /// Tiles of dw.
        pub n_tiles: u32,
        /// Into how many parts the sum of each is split.
        pub splits: u32,
        /// Where position 0 reads with its first tap: D, H, W.
        pub base: [i32; 3],
        /// Distance in x between neighbouring taps.
        pub tap_offset: [u32; 3],
        /// Taps along each axis.
        pub taps: [u32; 3],
        /// K of a group.
        pub group_k: u32,
        /// C of a group.
        pub group_c: u32,
        /// Groups.
        pub groups: u32,
        /// Tiles along K of a group.
        pub k_blocks: u32,
        /// Tiles along C of a group.
        pub c_blocks: u32,
        /// 1 when the filter is read from its far end.
        pub flip: u32,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the prior value.
        pub beta: f32,
        /// Partial sums.
        pub partials: u64,
        /// dw.
        pub dw: u64,
        /// Distance in dw between neighbours along k, in elements.
        pub k_stride: i64,
        /// Distance in dw between neighbouring taps of all axes counted in a row, in elements.
        pub tap_stride: i64,
    }
}

/// A tile of dw.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TilePlace {
    /// Tap along d.
    pub t: u32,
    /// Group.
    pub group: u32,
    /// First k within the group.
    pub k: u32,
    /// First c within the group.
    pub c: u32,
}

/// A strip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StripPlace {
    /// Image.
    pub image: u32,
    /// Position of dy along Z.
    pub z: u32,
    /// Row of its first position.
    pub p: u32,
    /// Where in that row it begins.
    pub first: u32,
    /// Which part of the row.
    pub part: u32,
}

impl ConvHaloWgradParams {
    /// Part of the sum and tile of unit `index`: all tiles of a part first, since they read the same strips.
    #[inline(always)]
    pub const fn unit(&self, index: u32) -> (u32, TilePlace) {
        let (split, tile) = div_rem(index, self.n_tiles);
        (split, self.tile(tile))
    }

    /// A tile.
    #[inline(always)]
    pub const fn tile(&self, tile: u32) -> TilePlace {
        let (rest, c) = div_rem(tile, self.c_blocks);
        let (rest, k) = div_rem(rest, self.k_blocks);
        let (t, group) = div_rem(rest, self.groups);
        TilePlace { t, group, k: k * TILE, c: c * TILE }
    }

    /// Strips `begin..end` of a part.
    #[inline(always)]
    pub const fn strips_of(&self, split: u32) -> (u32, u32) {
        let (each, rest) = div_rem(self.n_strips, self.splits);
        // The first parts take one strip of the rest each.
        let begin = split * each + if split < rest { split } else { rest };
        (begin, begin + each + (split < rest) as u32)
    }

    /// A strip: neighbours share rows, so they follow one another.
    #[inline(always)]
    pub const fn strip(&self, index: u32) -> StripPlace {
        let (rest, block) = self.row_blocks.div_rem(index);
        let (rest, part) = self.row_parts.div_rem(rest);
        let (image, z) = self.planes.div_rem(rest);
        let (p, first) = self.stage.pitch.div_rem(block * (self.stage.steps * STEP));
        StripPlace { image, z, p, first, part }
    }

    /// Threads of a block that hold sums.
    #[inline(always)]
    pub const fn sum_threads(&self) -> u32 {
        128 * self.taps[1]
    }

    /// Sums of each, by four, that are part of dw but for tails.
    #[inline(always)]
    pub const fn thread_quads(&self) -> u32 {
        self.taps[2] * (TILE / 8)
    }

    /// Quads of a tile's partial sums: those of a thread lie `sum_threads` apart.
    #[inline(always)]
    pub const fn tile_quads(&self) -> u32 {
        self.sum_threads() * self.thread_quads()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_fit_shared_memory_and_hold_what_is_read() {
        for steps in 1..40 {
            for pitch in 1..200 {
                for (span_h, span_w) in [(0, 2), (2, 2), (1, 4), (6, 6)] {
                    for first in [0, pitch / 2, pitch - 1] {
                        let stage = StripStage::new(steps, pitch, first, span_h, span_w);
                        assert!(stage.stages == 0 || stage.smem_bytes() <= MAX_SHARED_BYTES, "{stage:?}");
                        assert!(stage.x_at.is_multiple_of(ALIGN) && stage.bytes.is_multiple_of(ALIGN));
                        let [dy, x] = stage.loaded_bytes();
                        let read = (first + steps * STEP) * POSITION_BYTES;
                        assert!(read <= dy && dy <= stage.x_at);
                        // The last tap's last instruction.
                        let tail = stage.tail * POSITION_BYTES;
                        assert!(read + (span_h * pitch + span_w) * POSITION_BYTES <= x + tail);
                        assert!(stage.x_at + x + tail <= stage.bytes);
                    }
                }
            }
        }
    }
}
