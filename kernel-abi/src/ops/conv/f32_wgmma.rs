//! What launcher and kernels of f32 convolution on Hopper's 16-bit tensor cores agree on: products of parts. Tiles,
//! classes and places are those of [`im2col_wgmma`](super::im2col_wgmma); rows of shared memory hold 32 elements of f32.
//!
//! `fprop` and `dgrad` gather f32 as it lies; threads take it apart on its way from shared memory to the tensor cores.
//! Of parts there are two kinds.
//!
//! `bf16x3`: an element is the sum of three bf16 numbers, and a product of two elements the sum of nine products of
//! parts, of which six are summed ([`PART_PAIRS`](crate::ops::matmul::PART_PAIRS)). The filter is taken apart before,
//! into `[part][row][tap][channels]`: rows are channels that are written, channels those that are summed over, of each
//! group for itself and filled up with zeros to whole panels. Within each 16 channels they stand in the order of
//! [`part_channel`].
//!
//! `f16x2`: an element is, but for its last two bits, the sum of two f16 numbers once it is scaled by a power of two, and
//! three of four products of parts are summed: half the work. Scales are those of a block: of 32 neighbouring terms of a
//! row of the first operand, and of 32 terms of [`GROUP`] neighbouring columns of the second, or of each column where
//! they differ by more than 2^[`TOP`]. They bring the largest magnitude to 2^[`TOP`], so an element keeps 22 bits if it is
//! larger than 2⁻¹⁷ of that, and is at most 2⁻³⁹ of that in error if it is smaller. Both operands are taken apart in the
//! block, which needs no workspace.

use super::im2col_wgmma::{ConvGatherParams, ConvTile, ConvWgradParams, MAX_SHARED_BYTES};
use crate::division::Divisor;

/// Elements of f32 in a row of shared memory.
pub const PARTS_PANEL: u32 = 32;
/// Parts of an element.
pub const PARTS: u32 = 3;
/// Neighbouring columns of the second operand that may share a scale.
pub const GROUP: u32 = 16;
/// Lanes of a warp.
pub const WARP: u32 = 32;
/// Exponent of a block's largest magnitude once it is scaled: below f16's largest.
pub const TOP: u32 = 14;
/// Channels whose order is changed together: those of one product instruction.
pub const PART_CHUNK: u32 = 16;

macro_rules! tiles {
    ($($(#[$meta:meta])* $name:ident = [$m:literal x $n:literal, stages $s:literal, parts $p:literal,
       converted $c:literal];)*) => { $(
        $(#[$meta])*
        pub const $name: ConvTile = ConvTile {
            gemm_m: $m,
            gemm_n: $n,
            panel_k: PARTS_PANEL,
            stages: $s,
            cluster: 1,
            out_panels: 0,
            in_turns: false,
            parts: $p,
            converted: $c,
        };
        const _: () = assert!($name.smem_bytes() <= MAX_SHARED_BYTES);
    )* };
}

tiles! {
    /// `fprop` and `dgrad`, many channels.
    PARTS_GATHER_128X128 = [128 x 128, stages 5, parts 3, converted 0];
    /// For 64 channels.
    PARTS_GATHER_256X64 = [256 x 64, stages 5, parts 3, converted 0];
    /// For 16 channels, or columns that are positions and channels.
    PARTS_GATHER_256X16 = [256 x 16, stages 5, parts 3, converted 0];
    /// For 64 channels and fewer positions.
    PARTS_GATHER_128X64 = [128 x 64, stages 7, parts 3, converted 0];
    /// [`PARTS_GATHER_128X128`] where the filter is taken apart in the block.
    PARTS_DIRECT_128X128 = [128 x 128, stages 7, parts 0, converted 4];
    /// [`PARTS_GATHER_256X64`] likewise.
    PARTS_DIRECT_256X64 = [256 x 64, stages 5, parts 0, converted 4];
    /// [`PARTS_GATHER_256X16`] likewise.
    PARTS_DIRECT_256X16 = [256 x 16, stages 5, parts 0, converted 4];
    /// [`PARTS_GATHER_128X64`] likewise.
    PARTS_DIRECT_128X64 = [128 x 64, stages 7, parts 0, converted 5];
    /// [`PARTS_DIRECT_128X128`] where the copy engine loads the filter.
    PARTS_STAGED_128X128 = [128 x 128, stages 5, parts 1, converted 3];
    /// [`PARTS_DIRECT_256X64`] likewise.
    PARTS_STAGED_256X64 = [256 x 64, stages 5, parts 1, converted 3];
    /// [`PARTS_DIRECT_128X64`] likewise.
    PARTS_STAGED_128X64 = [128 x 64, stages 7, parts 1, converted 4];
    /// `wgrad`, many channels.
    PARTS_WGRAD_128X128 = [128 x 128, stages 5, parts 1, converted 3];
    /// For 64 columns.
    PARTS_WGRAD_128X64 = [128 x 64, stages 7, parts 1, converted 3];
    /// For 64 rows: the consumers share the columns.
    PARTS_WGRAD_64X128 = [64 x 128, stages 6, parts 1, converted 3];
}

/// A tile of 64 rows of `wgrad` whose windows threads read.
const fn windows(columns: u32, converted: u32) -> ConvTile {
    ConvTile { gemm_n: columns, stages: 8, parts: 0, converted, in_turns: true, ..PARTS_WGRAD_64X128 }
}

/// `wgrad` whose windows threads read, many of them.
pub const PARTS_WINDOWS_64X128: ConvTile = windows(128, 4);
/// For fewer tiles.
pub const PARTS_WINDOWS_64X64: ConvTile = windows(64, 6);
/// For the fewest.
pub const PARTS_WINDOWS_64X32: ConvTile = windows(32, 6);
const _: () = assert!(PARTS_WINDOWS_64X128.windows_smem_bytes() <= MAX_SHARED_BYTES);

crate::abi_struct! {
    /// Launch parameters of the kernels for `fprop` and `dgrad`.
    pub struct ConvPartsGatherParams {
        /// As for 16-bit types; the filter's map is `[channels, taps, rows, parts]`, fastest first.
        pub gather: ConvGatherParams,
        /// Distance between channels of the tensor that is written, in elements.
        pub channel_stride: i64,
        /// Bytes that a thread stores at a time: 8 where that is always possible, else 4.
        pub store_bytes: u32,
        /// Nothing.
        pub unused: u32,
    }
}

crate::abi_struct! {
    /// A filter as kernels read it that take it apart themselves: rows are channels that are written, and the sum runs
    /// over the others. Distances are in elements.
    pub struct ConvFilterSource {
        /// The filter.
        pub from: u64,
        /// Distance between groups of rows.
        pub group_stride: i64,
        /// Distance between rows of a group, or channels that are written, where columns are positions and channels.
        pub row_stride: i64,
        /// Distance between channels of the sum.
        pub channel_stride: i64,
        /// Distance between neighbouring taps of all axes counted in a row.
        pub tap_stride: i64,
        /// Bytes that a thread copies at a time: 16 where four channels of the sum lie side by side, or with `rows_first`
        /// four rows, else 4.
        pub load_bytes: u32,
        /// 1 when neighbouring threads take neighbouring rows, else neighbouring channels of the sum.
        pub rows_first: u32,
        /// Where columns are positions and channels: distances between taps along H and W.
        pub tap_strides: [i64; 2],
        /// Position a meets, at position i of the window, the tap `(base + a - i · step) / dilation`, if that is one.
        pub base: [i32; 2],
        /// See `base`.
        pub step: [i32; 2],
        /// See `base`.
        pub dilation: [Divisor; 2],
        /// Taps along H and W.
        pub taps: [u32; 2],
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels for `fprop` and `dgrad` that take the filter apart themselves.
    pub struct ConvPartsDirectParams {
        /// As for the others, but for the filter's map.
        pub gather: ConvPartsGatherParams,
        /// The filter.
        pub filter: ConvFilterSource,
    }
}

const _: () = assert!(size_of::<ConvPartsDirectParams>() <= 4096);

crate::abi_struct! {
    /// Launch parameters of the kernels for `wgrad` that read x by threads: columns are all taps' channels in a row,
    /// which stand in `wgrad` as those of a single tap, packed.
    pub struct ConvPartsWindowsParams {
        /// As for the others, but for x's map.
        pub wgrad: ConvWgradParams,
        /// x.
        pub x: u64,
        /// Distances along N, C, H, W, in elements.
        pub strides: [i64; 4],
        /// H and W.
        pub extents: [u32; 2],
        /// Dilation along them.
        pub dilation: [u32; 2],
        /// Channels of a group.
        pub channels: Divisor,
        /// Taps along W.
        pub taps_w: Divisor,
        /// Positions of all images.
        pub positions: u32,
        /// Nothing.
        pub unused: u32,
    }
}

impl ConvTile {
    /// Where the kernels that read windows by threads keep where the positions of a stage begin.
    pub const fn windows_at(self) -> u32 {
        self.filter_copies_at()
    }

    /// Their dynamic shared memory: 16 bytes more for each position of a stage and each of four warps.
    pub const fn windows_smem_bytes(self) -> u32 {
        self.smem_bytes() + 4 * PARTS_PANEL * 16
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernel that takes filters apart.
    pub struct ConvFilterPartsParams {
        /// The filter.
        pub from: u64,
        /// Its parts.
        pub to: u64,
        /// Rows.
        pub rows: i64,
        /// Rows of a group.
        pub group_rows: i64,
        /// Distance between groups of rows, in elements.
        pub group_stride: i64,
        /// Distance between rows of a group.
        pub row_stride: i64,
        /// Taps.
        pub taps: [i64; 3],
        /// Distances between them.
        pub tap_strides: [i64; 3],
        /// Chunks of [`PART_CHUNK`] channels.
        pub chunks: i64,
        /// Channel i is `i % inner` of `i / inner`.
        pub inner: i64,
        /// How many there are of each.
        pub counts: [i64; 2],
        /// Distances between them: along `i / inner` and along `i % inner`.
        pub strides: [i64; 2],
        /// 1 when neighbouring threads take neighbouring rows, else neighbouring chunks.
        pub rows_first: u32,
        /// Nothing.
        pub unused: u32,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernel that copies f32 tensors `[N, C, D, H, W]` of any strides to
    /// `[N][D][H][packed W][packed C]`, with zeros where there is nothing.
    pub struct ConvPackF32Params {
        /// The tensor that is read.
        pub from: u64,
        /// The tensor that is written.
        pub to: u64,
        /// Distances of the tensor that is read along N, C, D, H, W, in elements.
        pub strides: [i64; 5],
        /// N, C, D, H, W.
        pub dims: [i64; 5],
        /// Where in a written row the first position of a read one lies.
        pub padding: i64,
        /// Written positions of a row.
        pub packed_w: i64,
        /// Written channels: a multiple of 4.
        pub packed_c: i64,
        /// 1 when neighbouring threads take neighbouring positions of a row, else neighbouring channels.
        pub w_first: u32,
        /// Nothing.
        pub unused: u32,
    }
}

/// Where, of the 16 channels of a product instruction, the one stands that counts as the i-th: a thread that loads four
/// neighbours from shared memory then has what the instruction expects of it, the pairs i = 2 t and 2 t + 8.
#[inline(always)]
pub const fn part_channel(i: u32) -> u32 {
    4 * (i % 8 / 2) + i / 8 * 2 + i % 2
}

/// Which row of eight a thread reads for row `g` of a product instruction, so that eight neighbouring threads, of two
/// rows, read from all banks.
#[inline(always)]
pub const fn part_row(g: u32) -> u32 {
    g / 2 + g % 2 * 4
}

/// Which of eight positions the `i`-th group of four threads takes apart: two neighbouring groups then read from all
/// banks, and write to all.
#[inline(always)]
pub const fn part_position(i: u32) -> u32 {
    let i = i % 8;
    (i / 2) ^ (i % 2 * 5)
}

/// Which of 32 positions the `i`-th pair of threads takes apart first, and of the next 16: four neighbouring pairs then
/// read from all banks, and write to all.
#[inline(always)]
pub const fn half_panel_position(i: u32) -> u32 {
    let (four, one) = (i / 4 % 4, i % 4);
    // 0 3 4 7, then 1 2 5 6.
    let in_eight = (one / 2 * 4) | if four % 2 == 0 { one % 2 * 3 } else { 1 + one % 2 };
    four / 2 * 8 + in_eight
}

/// Where a channel of 16 counts among those of a product instruction: what [`part_channel`] leads back from.
#[inline(always)]
pub const fn part_place(channel: u32) -> u32 {
    channel % 16 / 4 * 2 + channel % 4 / 2 * 8 + channel % 2
}

/// As [`part_position`] and [`half_panel_position`], where positions are written to their [`part_place`]: with `eights`
/// threads a position, 4 or 2.
#[inline(always)]
pub const fn placed_position(eights: u32, i: u32) -> u32 {
    if eights == 4 {
        return i % 8 / 2 * 2 + i % 2 * 9;
    }
    // 0 9 4 13, 2 11 6 15, 8 1 12 5, 10 3 14 7.
    let (four, one) = (i / 4 % 4, i % 4);
    (one % 2 * 9 + one / 2 * 4 + four % 2 * 2) ^ (four / 2 * 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_permutation(n: u32, of: fn(u32) -> u32) -> bool {
        let mut seen: Vec<u32> = (0..n).map(of).collect();
        seen.sort_unstable();
        seen == (0..n).collect::<Vec<_>>()
    }

    #[test]
    fn orders_leave_nothing_out() {
        assert!(is_permutation(16, part_channel));
        assert!(is_permutation(8, part_row));
        assert!(is_permutation(8, part_position));
        assert!(is_permutation(16, half_panel_position));
        assert!((0..16).all(|i| part_place(part_channel(i)) == i));
        // Four eights: what differs from the first ones' by a multiple of eight is taken apart by the same threads.
        assert!(is_permutation(16, |i| placed_position(4, i % 8) ^ (i / 8 * 8)));
        assert!(is_permutation(16, |i| placed_position(2, i)));
    }

    /// The fragment of A: thread t of four holds k = 2 t, 2 t + 1, 2 t + 8, 2 t + 9.
    #[test]
    fn a_thread_loads_neighbours() {
        for t in 0..4 {
            let held = [2 * t, 2 * t + 1, 2 * t + 8, 2 * t + 9].map(part_channel);
            assert_eq!(held, [4 * t, 4 * t + 1, 4 * t + 2, 4 * t + 3]);
        }
    }

    /// 16-byte chunks of rows of 128 bytes as they lie swizzled: eight threads meet eight.
    fn all_banks(chunks: impl Iterator<Item = (u32, u32)>) -> bool {
        let mut banks: Vec<u32> = chunks.map(|(row, chunk)| chunk ^ (row % 8)).collect();
        banks.sort_unstable();
        banks == [0, 1, 2, 3, 4, 5, 6, 7]
    }

    #[test]
    fn no_bank_is_met_twice() {
        for eight in 0..4 {
            let lanes = || (0..8).map(move |i| 8 * eight + i);
            // Fragments of A in K-major rows: four chunks of two rows.
            assert!((0..2).all(|step| all_banks(lanes().map(|lane| (part_row(lane / 4), 4 * step + lane % 4)))));
            // Taking apart: two chunks of four lanes' eight channels are read, one of each part is written.
            assert!((0..2).all(|j| all_banks(lanes().map(|lane| (part_position(lane / 4), 2 * (lane % 4) + j)))));
            assert!((0..2).all(|half| all_banks(lanes().map(|lane| (part_position(lane / 4), 4 * half + lane % 4)))));
            // The same with two lanes a position.
            let of_two = |lane: u32| half_panel_position(lane / 2);
            assert!((0..4).all(|i| all_banks(lanes().map(|lane| (of_two(lane), i / 2 * 4 + 2 * (lane % 2) + i % 2)))));
            assert!((0..4).all(|pair| all_banks(lanes().map(|lane| (of_two(lane), 2 * pair + lane % 2)))));
            // The same where positions change places.
            for eights in [2, 4] {
                let from = |lane: u32| placed_position(eights, lane / eights);
                let reads = |i: u32| all_banks(lanes().map(|lane| (from(lane), 2 * (lane % eights) + i)));
                let writes = |i: u32| all_banks(lanes().map(|lane| (part_place(from(lane)), i + lane % eights)));
                assert!((0..2).all(reads) && writes(0) && writes(4), "{eights}");
            }
        }
    }
}
