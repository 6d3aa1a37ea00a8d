//! What launcher and kernels of `wgrad` agree on: launch parameters, and who computes which stages of which tile.

use super::{CONSUMERS, ConvTile, Evenly, GEMM_K, dealt_out};
use crate::division::{Divisor, div_rem, div_rem_unless_below};

crate::abi_struct! {
    /// Launch parameters of the kernels for `wgrad`.
    pub struct ConvWgradParams {
        /// Map of dy: `[K, positions]`, fastest first.
        pub dy_map: [u64; 16],
        /// Map of x.
        pub x_map: [u64; 16],
        /// How x is loaded, of [`access`](super::access).
        pub x_access: u32,
        /// K of a group.
        pub group_k: u32,
        /// C of a group.
        pub group_c: u32,
        /// Groups.
        pub groups: u32,
        /// Panels of input channels of a group: so many as a tile has in one, `ConvTile::panel_k`.
        pub c_panels: Divisor,
        /// Taps along each axis.
        pub taps: [Divisor; 3],
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
        /// Steps of an instruction of the last of them, of 16 positions of 16-bit types, that are there: 1 to 4.
        pub last_steps: u32,
        /// Into how many parts the sum of every tile is split, where there are no `workers`.
        pub splits: u32,
        /// Stages of each part, but for one more that the first of them have, and how many those are.
        pub split_blocks: [u32; 2],
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
    /// Its number among all tiles.
    pub tile: u32,
    /// Which of the tile's parts these stages are, counted as by [`ConvWgradParams::parts_of`].
    pub number: u32,
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

    /// The place of tile `index`: all tiles of a split first, since they read the same positions; of these, bands of
    /// `BAND_ROWS`, column after column.
    #[inline(always)]
    pub const fn place(&self, tile: ConvTile, index: u32) -> WgradPlace {
        let (split, index) = div_rem_unless_below(index, self.tiles());
        let (group, index) = div_rem_unless_below(index, self.m_blocks * self.n_blocks);
        let (band_blocks, _) = div_rem(BAND_ROWS, tile.cluster_rows());
        let (band, index) = div_rem_unless_below(index, band_blocks * self.n_blocks);
        let first = band * band_blocks;
        let left = self.m_blocks - first;
        // Of a whole band it is a shift.
        let (n, m) = if left < band_blocks { div_rem(index, left) } else { div_rem(index, band_blocks) };
        WgradPlace { split, group, m: (first + m) * tile.cluster_rows(), panel: n * (tile.gemm_n / tile.panel_k) }
    }

    /// Behind the last stage of a part, which ends before `end`, that is multiplied as a whole: all are but the last of the sum
    /// where some steps of it are not there.
    #[inline(always)]
    pub const fn whole_stages(&self, end: u32) -> u32 {
        end - (end == self.k_blocks && self.last_steps < STAGE_STEPS) as u32
    }

    /// The work of worker `worker` of `n`.
    #[inline(always)]
    pub const fn work(&self, worker: u32, n: u32) -> WgradWork {
        if self.workers == 0 {
            return WgradWork { at: worker, end: self.tiles() * self.splits, step: n, worker };
        }
        let (at, end) = self.evenly().of(worker);
        WgradWork { at, end, step: 0, worker }
    }

    /// All stages of all tiles, where workers share them evenly.
    #[inline(always)]
    const fn evenly(&self) -> Evenly {
        Evenly::new(self.tiles() * self.k_blocks, self.workers)
    }

    /// The first part of what a worker has left, and how far it is to the next one.
    #[inline(always)]
    pub const fn part(&self, tile: ConvTile, work: WgradWork) -> (WgradPart, u32) {
        if self.workers == 0 {
            let place = self.place(tile, work.at);
            let (begin, end) = self.k_range(place.split);
            let (tile, number) = (work.at - place.split * self.tiles(), place.split);
            return (
                WgradPart { place, tile, number, begin, end, slot: work.at, is_whole: self.splits == 1 },
                work.step,
            );
        }
        let (index, begin) = div_rem(work.at, self.k_blocks);
        let left = work.end - work.at;
        let end = if self.k_blocks - begin < left { self.k_blocks } else { begin + left };
        let is_whole = begin == 0 && end == self.k_blocks;
        // At most two parts of a worker are not whole: one that begins inside a tile, and one that ends inside another.
        let slot = 2 * work.worker + (begin == 0) as u32;
        let place = self.place(tile, index);
        (WgradPart { place, tile: index, number: work.worker, begin, end, slot, is_whole }, end - begin)
    }

    /// Who has parts of the sum of a tile: the first, and one behind the last.
    #[inline(always)]
    pub const fn parts_of(&self, index: u32) -> (u32, u32) {
        if self.workers == 0 {
            return (0, self.splits);
        }
        let first = index * self.k_blocks;
        self.evenly().sharing(first, self.k_blocks)
    }

    /// The slot of one of them, `first` being the first of the tile.
    #[inline(always)]
    pub const fn slot_of(&self, index: u32, part: u32, first: u32) -> u32 {
        if self.workers == 0 { part * self.tiles() + index } else { 2 * part + (part == first) as u32 }
    }

    /// The tap along each axis and the first channel of a panel, `width` wide, of a group's filter.
    #[inline(always)]
    pub const fn tap_and_channel(&self, panel: u32, width: u32) -> ([u32; 3], u32) {
        let (linear, c_panel) = self.c_panels.div_rem(panel);
        let (rest, s) = self.taps[2].div_rem(linear);
        let (t, r) = self.taps[1].div_rem(rest);
        ([t, r, s], c_panel * width)
    }

    /// The number of a panel's tap among those of all axes in a row, as dw has them, and its first channel.
    #[inline(always)]
    pub const fn linear_tap_and_channel(&self, panel: u32, width: u32) -> (u32, u32) {
        let (tap, c_panel) = self.c_panels.div_rem(panel);
        let [t, r, s] = self.taps;
        let tap = if self.flip != 0 { t.divisor * r.divisor * s.divisor - 1 - tap } else { tap };
        (tap, c_panel * width)
    }

    /// Stages `begin..end` of a split.
    #[inline(always)]
    pub const fn k_range(&self, split: u32) -> (u32, u32) {
        let [each, rest] = self.split_blocks;
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
        /// Columns of a panel of it.
        pub panel: u32,
        /// Blocks of its cluster.
        pub cluster: u32,
        /// Threads that share the parts of a run of sums: a power of two, at most [`SUM_THREADS`].
        pub sharers: u32,
    }
}

crate::abi_struct! {
    /// Launch parameters of the kernels for `wgrad` that add the parts of a tile's sum themselves.
    ///
    /// Workers leave parts in the workspace: every part has a place there, and flags that say that its sums are there.
    pub struct ConvWgradFixupParams {
        /// What the other kernels are given.
        pub wgrad: ConvWgradParams,
        /// The flags: of every place those of a block's consumers' warps.
        pub flags: u64,
        /// What a flag is when the sums are there.
        pub tag: u64,
        /// 1 where every tile's sum is split into as many parts, all workers of a tile leave theirs, and each adds up an
        /// equal share of the tile; 0 where whoever has a tile's first part adds the others to it.
        pub all_add: u32,
    }
}

impl ConvWgradFixupParams {
    /// Where the parts of tile `index` are, counted in tiles of clusters: the place of part 0, and how far it is to the
    /// next part's. Where who has part 0 adds the others, it has none, and the place lies before all others. Of work that
    /// is shared evenly, a worker has one other part at most, that of the tile in which it begins.
    #[inline(always)]
    pub const fn places(&self, index: u32) -> (u32, u32) {
        let (first, step) = if self.wgrad.workers == 0 { (index, self.wgrad.tiles()) } else { (0, 1) };
        (if self.all_add == 0 { first.wrapping_sub(step) } else { first }, step)
    }

    /// Which runs of the quads of warp `warp` of all parts the worker of part `number` adds up, a bit each. Those of all
    /// warps in a row are dealt out to the workers in turn.
    #[inline(always)]
    pub const fn own_runs(&self, tile: ConvTile, warp: u32, number: u32) -> u32 {
        dealt_out(warp * tile.sum_runs(), tile.sum_runs(), (number, self.wgrad.splits))
    }
}

/// Rows of dw that neighbouring blocks go through together. Some 16 of them are at work side by side in a graphics
/// processing cluster, whose requests for the same lines become one on the way to the second-level cache, and what comes
/// from there is least where they need about as many rows as columns.
const BAND_ROWS: u32 = 512;

/// Steps of an instruction in a stage of 16-bit types.
pub const STAGE_STEPS: u32 = GEMM_K / 16;

/// Flags of a part: one a warp of the consumers.
pub const FIXUP_FLAGS: u32 = 4 * CONSUMERS;

/// Threads of a block of the kernels that add.
pub const SUM_THREADS: u32 = 256;

/// Quads of sums that a thread adds up, of columns that lie in one panel.
pub const SUM_RUN: u32 = 4;

/// Sums that a thread of a consumer holds.
const fn sums_of_thread(tile: ConvTile) -> u32 {
    if tile.shares_columns() { tile.consumer_columns() / 2 } else { tile.gemm_n / 2 * tile.subtiles() }
}

impl ConvTile {
    /// Partial sums of a tile, of all threads.
    pub const fn partials(self) -> u32 {
        sums_of_thread(self) * 128 * CONSUMERS
    }

    /// Runs of [`SUM_RUN`] quads of a thread.
    pub const fn sum_runs(self) -> u32 {
        sums_of_thread(self) / (4 * SUM_RUN)
    }

    /// Runs of all warps.
    pub const fn all_runs(self) -> u32 {
        FIXUP_FLAGS * self.sum_runs()
    }
}

const _: () = assert!(SUM_THREADS == 128 * CONSUMERS);
