//! `wgrad` without a second kernel: all workers of a tile add up a share of it, or, of work that is shared evenly, the
//! worker with the first part of a tile's sum adds the others (stream-K's fix-up).
//!
//! Of the latter, one block reads all other parts of its tile alone, while a second kernel would have all blocks read: so it
//! is for tiles of few parts, or of one, which these kernels write to dw by more bytes at a time. The others stay with the
//! second kernel.

use super::cuts::{Cut, MULTIPROCESSORS, Rule};
use super::wgrad::WgradView;
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, FIXUP_FLAGS};

/// The most bytes of other parts that a block adds up: four of the largest tile's, some 5 us.
const MOST_READ: u64 = 4 * 128 * 256 * 4;

/// The most parts of which workers add up shares: a warp reads all parts of a share, four at a time.
const MOST_PARTS: u64 = 16;

/// Elements that are written to dw at a time.
const RUN: i64 = 8;

impl WgradView {
    /// The cut for a tile whose parts the workers add, which is fastest by estimate.
    pub(super) fn fixup_cut(&self, tile: ConvTile) -> Option<Cut> {
        let most = (MULTIPROCESSORS / u64::from(tile.cluster) / self.tiles(tile).max(1)).min(self.k_blocks() / 4);
        let cuts = (1..=most.max(1)).map(Cut::Splits).chain(self.cut_by(tile, Rule::Evenly));
        let time = |cut: &Cut| self.fixup_us(tile, *cut);
        cuts.filter(|cut| self.takes_fixup(tile, *cut)).min_by(|a, b| time(a).total_cmp(&time(b)))
    }

    /// Whether workers may add the parts of sums that are cut in this way, and had better do so: not where so few parts
    /// leave more than half of the multiprocessors idle that a second kernel would have at work.
    pub(super) fn takes_fixup(&self, tile: ConvTile, cut: Cut) -> bool {
        let are_few = match cut {
            Cut::Splits(splits) => {
                splits <= MOST_PARTS && self.tiles(tile) * splits <= MULTIPROCESSORS / u64::from(tile.cluster)
            }
            Cut::Evenly { workers } => self.first_reads(tile, workers) <= MOST_READ,
        };
        let lengths = [self.group_c, self.dw.k_stride, self.dw.tap_stride];
        let whole_runs = self.packed.is_none() && lengths.iter().all(|length| length % RUN == 0);
        let is_busy = 2 * self.active(tile, cut) >= self.active(tile, self.cut(tile));
        are_few && whole_runs && is_busy
    }

    /// Whether a device of so many multiprocessors has room for all blocks that wait for one another.
    pub(super) fn fixup_has_room(&self, tile: ConvTile, cut: Cut, units: u64) -> bool {
        match cut {
            Cut::Splits(1) | Cut::Evenly { .. } => true,
            Cut::Splits(splits) => self.tiles(tile) * splits * u64::from(tile.cluster) <= units,
        }
    }

    /// Bytes of other parts that the block with the first part of a tile adds, at most.
    pub(super) fn first_reads(&self, tile: ConvTile, workers: u64) -> u64 {
        workers.div_ceil(self.tiles(tile)) * u64::from(tile.partials()) * 4
    }

    /// Places for parts of a block's tile, and flags of each. Where work is shared evenly, first parts need none.
    fn fixup_slots(&self, tile: ConvTile, cut: Cut) -> (u64, u32) {
        let (of_clusters, flags) = match cut {
            Cut::Splits(1) => (0, 0),
            Cut::Splits(splits) => (splits * self.tiles(tile), tile.all_runs()),
            Cut::Evenly { workers } => (workers - 1, FIXUP_FLAGS),
        };
        (of_clusters * u64::from(tile.cluster), flags)
    }

    /// Workspace for the parts.
    pub(super) fn fixup_partials_bytes(&self, tile: ConvTile, cut: Cut) -> u64 {
        self.fixup_slots(tile, cut).0 * u64::from(tile.partials()) * 4
    }

    /// Workspace for the parts, and for the flags behind them.
    pub(super) fn fixup_bytes(&self, tile: ConvTile, cut: Cut) -> u64 {
        let (slots, flags) = self.fixup_slots(tile, cut);
        self.fixup_partials_bytes(tile, cut) + slots * u64::from(flags) * 8
    }
}
