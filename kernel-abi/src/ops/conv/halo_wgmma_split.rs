//! What launcher and kernels of `halo_wgmma_split` agree on.
//!
//! A tile of dw is 64 k × 64 c, 32 × 32, or 40 × 64, for all taps along h and w of one along d. The sum runs over strips:
//! some neighbouring positions of an image, counted along rows of `pitch` positions, of which those behind the last output
//! column are zeros in dy. x lies in shared memory with the same pitch and with its halo, so that position i of dy meets
//! position `i + (r · pitch · dilation) + s · dilation` of x, whatever its row and column: a tap is a shift of addresses.
//! A strip may begin and end within a row; whole rows are loaded.
//!
//! An instruction has 64 rows. Those of a narrow tile are its k twice, and the second time dy is read from `dilation`
//! rows further down: what meets x for taps r of the first half meets it there for taps r − 1. So that each half reads
//! all of dy, strips begin as many rows above the image, where dy is zeros.
//!
//! A tile of 40 k has its c as rows, which fill instructions that its k would not: each tap is an instruction with 40
//! columns.

use super::halo_wgmma::MAX_SHARED_BYTES;
use crate::division::{Divisor, div_rem};

/// Rows of an instruction.
pub const INSTRUCTION_ROWS: u32 = 64;
/// Warpgroups that compute: as many as there are taps along h.
pub const CONSUMERS: u32 = 3;
/// The most taps along w: an instruction computes those of one row.
pub const ROW_TAPS: u32 = 3;
/// Threads of a block: one producer warpgroup and the consumers.
pub const THREADS: u32 = 128 * (1 + CONSUMERS);
/// Positions that an instruction sums over.
pub const STEP: u32 = 16;
/// The most stages that are of use: many where strips are short, as of images of 7 × 7, whose products take half as long as a
/// strip is under way.
pub const MAX_STAGES: u32 = 8;
/// Quads that a block of the adding kernel takes at a time.
pub const SUM_QUADS: u32 = 32;
/// Rows of threads of such a block, which share the parts.
pub const SUM_ROWS: u32 = 8;
/// What the shared buffers are aligned to: the longest period of a swizzle.
pub const ALIGN: u32 = 1024;

/// How a tile fills instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub struct Form {
    /// Channels of dy of a tile.
    pub tile_k: u32,
    /// Channels of x of a tile. Of both operands as many are loaded.
    pub tile_c: u32,
}

impl Form {
    /// An instruction computes one row of taps.
    pub const WIDE: Form = Form { tile_k: 64, tile_c: 64 };
    /// An instruction computes two rows of taps.
    pub const NARROW: Form = Form { tile_k: 32, tile_c: 32 };
    /// An instruction computes one tap: its rows are channels of x.
    pub const FEW_K: Form = Form { tile_k: 40, tile_c: 64 };
    /// All of them.
    pub const ALL: [Form; 3] = [Form::WIDE, Form::NARROW, Form::FEW_K];

    /// Bytes of a position in shared memory, which are also the width of the swizzle.
    pub const fn position_bytes(self) -> u32 {
        2 * self.tile_c
    }

    /// Whether rows of sums are channels of x, and columns those of dy.
    pub const fn rows_are_c(self) -> bool {
        self.tile_k != self.tile_c
    }

    /// Rows of taps that a warpgroup computes.
    pub const fn tap_rows(self) -> u32 {
        INSTRUCTION_ROWS / self.tile_c
    }

    /// Warpgroups that compute where there are `taps` along h.
    pub const fn warpgroups(self, taps: u32) -> u32 {
        taps.div_ceil(self.tap_rows())
    }

    /// Instructions of a warpgroup in a step, which share the taps of a row.
    pub const fn instructions(self) -> u32 {
        if self.rows_are_c() { ROW_TAPS } else { 1 }
    }

    /// Columns of sums: a row's taps.
    pub const fn columns(self) -> u32 {
        ROW_TAPS * self.tile_k
    }

    /// Rows of dy by which the second half of an instruction's rows is ahead of the first, of `taps` along h that lie
    /// `dilation` apart.
    pub const fn lead(self, taps: u32, dilation: u32) -> u32 {
        if self.tap_rows() > 1 && taps > 1 { dilation } else { 0 }
    }
}

/// How long strips are, and how stages of them lie in shared memory: dy, then x.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct StripStage {
    /// Instructions of a tap's sum over a strip: [`STEP`] positions each.
    pub steps: u32,
    /// Positions from row to row.
    pub pitch: Divisor,
    /// Bytes from row to row.
    pub row_bytes: u32,
    /// Rows of dy that strips begin above the image: [`Form::lead`].
    pub lead: u32,
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
    pub const fn new(
        form: Form,
        steps: u32,
        pitch: u32,
        most_first: u32,
        lead: u32,
        [span_h, span_w]: [u32; 2],
    ) -> Self {
        let row_bytes = pitch * form.position_bytes();
        let rows = (most_first + steps * STEP).div_ceil(pitch);
        let rows = [rows + lead, rows + span_h];
        let x_at = (rows[0] * row_bytes).next_multiple_of(ALIGN);
        let bytes = x_at + (rows[1] * row_bytes + span_w * form.position_bytes()).next_multiple_of(ALIGN);
        let room = (MAX_SHARED_BYTES - ALIGN) / (bytes + 16);
        let stages = if room < MAX_STAGES { room } else { MAX_STAGES };
        StripStage { steps, pitch: Divisor::new(pitch), row_bytes, lead, rows, tail: span_w, x_at, bytes, stages }
    }

    /// Bytes that are loaded of dy and of x.
    #[inline(always)]
    pub const fn loaded_bytes(self) -> [u32; 2] {
        [self.rows[0] * self.row_bytes, self.rows[1] * self.row_bytes]
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
        /// The kernel's form.
        pub form: Form,
        /// Length of a strip, and its stage.
        pub stage: StripStage,
        /// Output columns of a part of a row but for the last.
        pub part_w: u32,
        /// Parts of a row.
        pub row_parts: Divisor,
        /// Strips of an image plane, or of such parts of its rows, and of the rows above.
        pub row_blocks: Divisor,
        /// Z.
        pub planes: Divisor,
        /// Strips of all images.
        pub n_strips: u32,
        /// Tiles of dw.
        pub n_tiles: u32,
        /// Into how many parts the sum of each is split. Parts take the strips in turns, so that those that are read at
        /// a time lie together, and the cache has the rows and planes that they share.
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
    /// Row of its first position, negative above the image.
    pub p: i32,
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
        TilePlace { t, group, k: k * self.form.tile_k, c: c * self.form.tile_c }
    }

    /// A strip: neighbours share rows, so they follow one another.
    #[inline(always)]
    pub const fn strip(&self, index: u32) -> StripPlace {
        let (rest, block) = self.row_blocks.div_rem(index);
        let (rest, part) = self.row_parts.div_rem(rest);
        let (image, z) = self.planes.div_rem(rest);
        let (p, first) = self.stage.pitch.div_rem(block * (self.stage.steps * STEP));
        StripPlace { image, z, p: p as i32 - self.stage.lead as i32, first, part }
    }

    /// Warpgroups that compute.
    #[inline(always)]
    pub const fn consumers(&self) -> u32 {
        self.form.warpgroups(self.taps[1])
    }

    /// The row of taps that is computed at a place: rows of [`Form::tile_c`] rows of sums, warpgroup by warpgroup. Those of
    /// a warpgroup follow upwards, and behind the last place there may be one that no tap has.
    #[inline(always)]
    pub const fn tap_row(&self, place: u32) -> u32 {
        self.taps[1] - 1 - place
    }

    /// Threads of a block that hold sums of dw: two for each row of them.
    #[inline(always)]
    pub const fn sum_threads(&self) -> u32 {
        2 * self.form.tile_c * self.taps[1]
    }

    /// Sums of each, by four, that are part of dw but for tails.
    #[inline(always)]
    pub const fn thread_quads(&self) -> u32 {
        self.taps[2] * (self.form.tile_k / 8)
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
        for (form, steps, pitch) in Form::ALL
            .iter()
            .flat_map(|&form| (1..40).flat_map(move |steps| (1..200).map(move |pitch| (form, steps, pitch))))
        {
            for (span_h, span_w, lead) in [(0, 2, 0), (2, 2, 0), (1, 4, 1), (6, 6, 3)] {
                for first in [0, pitch / 2, pitch - 1] {
                    let stage = StripStage::new(form, steps, pitch, first, lead, [span_h, span_w]);
                    assert!(stage.stages == 0 || stage.smem_bytes() <= MAX_SHARED_BYTES, "{stage:?}");
                    assert!(stage.x_at.is_multiple_of(ALIGN) && stage.bytes.is_multiple_of(ALIGN));
                    let [dy, x] = stage.loaded_bytes();
                    let read = (first + steps * STEP) * form.position_bytes();
                    assert!(read + lead * stage.row_bytes <= dy && dy <= stage.x_at);
                    // The last tap's last instruction.
                    let tail = stage.tail * form.position_bytes();
                    assert!(read + span_h * stage.row_bytes + span_w * form.position_bytes() <= x + tail);
                    assert!(stage.x_at + x + tail <= stage.bytes);
                }
            }
        }
    }
}
