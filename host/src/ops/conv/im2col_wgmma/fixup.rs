//! `wgrad` without a second kernel: the worker with the first part of a tile's sum adds the others (stream-K's fix-up), or
//! all workers of a tile add up a share of it.
//!
//! Of the former, one block reads all other parts of its tile alone, while a second kernel would have all blocks read: so it
//! is for tiles of few parts, or of one, which these kernels write to dw by more bytes at a time. The latter takes as many
//! parts of every tile ([`Cut::Shares`]), and is launched behind the end of what was before, since all must be at work at once.
//! Of 167 problems timed in both ways on H200s (`oxidnn compare` with `--quick --verbose`, of unet3d, deepbench_conv,
//! densenet40 and the suites of images, at 0b6f5e2 and 8bb68df, and at 296ab29), those below 20 us took 0.6 to 1.6 us longer
//! where all add three or seven parts, of four parts 0.8 less to 0.1 longer, and of eight 1.6 less to 0.1 longer.

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
        let cuts = (1..=most.max(1)).map(Cut::Splits).chain((2..=most).map(Cut::Shares));
        let cuts = cuts.chain(self.cut_by(tile, Rule::Evenly));
        let time = |cut: &Cut| self.fixup_us(tile, *cut);
        cuts.filter(|cut| self.takes_fixup(tile, *cut)).min_by(|a, b| time(a).total_cmp(&time(b)))
    }

    /// Whether workers may add the parts of sums that are cut in this way, and had better do so: not where so few parts
    /// leave more than half of the multiprocessors idle that a second kernel would have at work.
    pub(super) fn takes_fixup(&self, tile: ConvTile, cut: Cut) -> bool {
        let is_one_round = match cut {
            Cut::Splits(parts) | Cut::Shares(parts) => {
                self.tiles(tile) * parts <= MULTIPROCESSORS / u64::from(tile.cluster)
            }
            Cut::Evenly { .. } => true,
        };
        let are_few = match cut {
            Cut::Shares(parts) => parts <= MOST_PARTS,
            _ => self.first_reads(tile, cut) <= MOST_READ,
        };
        let lengths = [self.group_c, self.dw.k_stride, self.dw.tap_stride];
        let whole_runs = self.packed.is_none() && lengths.iter().all(|length| length % RUN == 0);
        let is_busy = 2 * self.active(tile, cut) >= self.active(tile, self.cut(tile));
        is_one_round && are_few && whole_runs && is_busy
    }

    /// Whether a device of so many multiprocessors has room for all blocks that wait for one another.
    pub(super) fn fixup_has_room(&self, tile: ConvTile, cut: Cut, units: u64) -> bool {
        match cut {
            Cut::Shares(parts) => self.tiles(tile) * parts * u64::from(tile.cluster) <= units,
            _ => true,
        }
    }

    /// Bytes of other parts that the block with the first part of a tile adds, at most.
    pub(super) fn first_reads(&self, tile: ConvTile, cut: Cut) -> u64 {
        let others = match cut {
            Cut::Splits(parts) | Cut::Shares(parts) => parts - 1,
            Cut::Evenly { workers } => workers.div_ceil(self.tiles(tile)),
        };
        others * u64::from(tile.partials()) * 4
    }

    /// Places for parts of a block's tile, and flags of each. Where who has the first part adds, first parts need none.
    fn fixup_slots(&self, tile: ConvTile, cut: Cut) -> (u64, u32) {
        let (of_clusters, flags) = match cut {
            Cut::Shares(parts) => (parts * self.tiles(tile), tile.all_runs()),
            Cut::Splits(parts) => ((parts - 1) * self.tiles(tile), FIXUP_FLAGS),
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
