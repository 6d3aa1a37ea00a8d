//! How the sums of `wgrad` are shared out over the multiprocessors.

use super::wgrad::WgradView;
use super::{CYCLES_PER_US, ENDS_US, halves_cycles, stage_cycles};
use kernel_abi::ops::conv::im2col_wgmma::ConvTile;

/// How the sums of all tiles are shared out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(in crate::ops::conv) enum Cut {
    /// Every tile's sum is cut into so many parts.
    Splits(u64),
    /// The same, and the worker of each part adds up a share of its tile.
    Shares(u64),
    /// So many workers take the same number of stages each, one tile after the other (stream-K: Osama et al.,
    /// "Stream-K", PPoPP 2023).
    Evenly {
        /// Clusters.
        workers: u64,
    },
}

/// Blocks at work at once on the devices the kernels run on: the splits, and so the order of the additions and the
/// workspace, are the same on all of them.
pub(in crate::ops::conv) const MULTIPROCESSORS: u64 = 132;

/// A cut that a config names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Rule {
    /// All clusters that there is room for take the same number of stages.
    Evenly,
    /// Half of them do: the memory serves fewer blocks as fast, and there are fewer partial sums.
    Half,
    /// As many parts as are at work at once.
    Once,
    /// Twice as many.
    Twice,
    /// As many parts as are at work at once, each of whose workers adds up a share.
    Equal,
}

impl Rule {
    /// All.
    pub(super) const ALL: [Rule; 5] = [Rule::Evenly, Rule::Half, Rule::Once, Rule::Twice, Rule::Equal];
}

impl WgradView {
    /// The cut by a rule, unless there are too few stages for it.
    pub(super) fn cut_by(&self, tile: ConvTile, rule: Rule) -> Option<Cut> {
        /// Stages of a part, at least.
        const STAGES: u64 = 4;
        let (tiles, clusters) = (self.tiles(tile), MULTIPROCESSORS / u64::from(tile.cluster));
        let stages = tiles * self.k_blocks();
        let evenly = |workers: u64| {
            (stages >= STAGES * workers && stages < u64::from(u32::MAX)).then_some(Cut::Evenly { workers })
        };
        let parts = |rounds: u64| (rounds * clusters / tiles).min(self.k_blocks() / STAGES);
        let splits = |rounds: u64| (parts(rounds) > 0).then(|| Cut::Splits(parts(rounds)));
        match rule {
            Rule::Evenly => evenly(clusters),
            Rule::Half => evenly(clusters / 2),
            Rule::Once => splits(1),
            Rule::Twice => splits(2),
            Rule::Equal => (parts(1) > 1).then(|| Cut::Shares(parts(1))),
        }
    }

    /// How the sum is cut without measuring: what is fastest by `time_us`.
    pub(in crate::ops::conv) fn cut(&self, tile: ConvTile) -> Cut {
        let (tiles, clusters) = (self.tiles(tile), MULTIPROCESSORS / u64::from(tile.cluster));
        // A part has some stages at least, and all parts are at work at once, or there is only one. Stages of parts take
        // several times as long, so that rounds that leave no multiprocessor idle are worth more partial sums.
        let (stages, rounds) = if tile.converted > 0 { (12, 16) } else { (4, 2) };
        let most = (self.k_blocks() / stages).min(rounds * clusters / tiles.max(1)).max(1);
        let evenly = tile.converted == 0
            && tiles * self.k_blocks() >= stages * clusters
            && tiles * self.k_blocks() < u64::from(u32::MAX);
        let cuts = (1..=most).map(Cut::Splits).chain(evenly.then_some(Cut::Evenly { workers: clusters }));
        let time = |cut: &Cut| self.time_us(tile, *cut);
        cuts.min_by(|a, b| time(a).total_cmp(&time(b))).unwrap_or(Cut::Splits(1))
    }

    /// Time with the given cut, by which it is chosen.
    pub(in crate::ops::conv) fn time_us(&self, tile: ConvTile, cut: Cut) -> f64 {
        /// Bytes of partial sums that are written or read in a microsecond, from and to the second-level cache.
        const PARTIALS: f64 = 3.0e6;
        /// From the end of the first kernel to that of the second, without its work.
        const SECOND_KERNEL_US: f64 = 2.5;
        /// Cycles from a tile's last product to its last store, when sums are stored as they are.
        const EPILOGUE: f64 = 1500.0;
        /// Cycles for a column of a tile that goes to dw by pairs of elements.
        const PAIRS: f64 = 20.0;
        /// Bytes from memory in a microsecond, and those that a block at work loads of them.
        const MEMORY: f64 = 4.0e6;
        const OF_BLOCK: f64 = 56e3;
        /// Bytes of operands that stay in the second-level cache while workers at unlike places of the sum come by.
        const CACHED: f64 = 30e6;
        let stage = if tile.converted > 0 {
            halves_cycles(tile)
        } else {
            let shared = tile.a_bytes() + tile.b_bytes() / tile.cluster;
            stage_cycles(tile, tile.consumer_columns(), shared)
        };
        let (tiles, clusters) = (self.tiles(tile), MULTIPROCESSORS / u64::from(tile.cluster));
        let active = self.active(tile, cut) as f64;
        let (rounds, stages) = match cut {
            Cut::Splits(splits) | Cut::Shares(splits) => {
                ((tiles * splits).div_ceil(clusters) as f64, self.k_blocks().div_ceil(splits) as f64)
            }
            // Every worker ends one tile and begins another.
            Cut::Evenly { workers } => {
                let stages = (tiles * self.k_blocks()).div_ceil(workers) as f64;
                let parts = 1.0 + (tiles as f64 / workers as f64).max(1.0);
                (parts, stages / parts)
            }
        };
        let pairs = if cut == Cut::Splits(1) { PAIRS * f64::from(tile.consumer_columns()) } else { 0.0 };
        let products = rounds * (stages * stage + EPILOGUE + pairs) / CYCLES_PER_US;
        let mut bytes = self.operand_bytes() as f64;
        if matches!(cut, Cut::Evenly { .. }) && bytes > CACHED {
            // Tiles that read the same do so at other times.
            let each = f64::from(tile.a_bytes() * tile.cluster + tile.b_bytes());
            bytes = bytes.max(each * (tiles * self.k_blocks()) as f64);
        }
        let sums = match self.slots(tile, cut) {
            0 => 0.0,
            slots => {
                let bytes = (slots * u64::from(tile.partials()) * 4) as f64;
                SECOND_KERNEL_US + 2.0 * bytes / PARTIALS
            }
        };
        ENDS_US + products.max(bytes / MEMORY.min(active * OF_BLOCK)) + sums
    }

    /// Blocks at work at once.
    pub(super) fn active(&self, tile: ConvTile, cut: Cut) -> u64 {
        let cluster = u64::from(tile.cluster);
        cluster
            * match cut {
                Cut::Splits(splits) | Cut::Shares(splits) => (self.tiles(tile) * splits).min(MULTIPROCESSORS / cluster),
                Cut::Evenly { workers } => workers,
            }
    }

    /// Places for partial sums of a block's tile.
    pub(super) fn slots(&self, tile: ConvTile, cut: Cut) -> u64 {
        let of_clusters = match cut {
            Cut::Splits(1) => 0,
            Cut::Splits(splits) | Cut::Shares(splits) => splits * self.tiles(tile),
            Cut::Evenly { workers } => 2 * workers,
        };
        of_clusters * u64::from(tile.cluster)
    }

    /// Workspace for the partial sums.
    pub(in crate::ops::conv) fn partials_bytes(&self, tile: ConvTile, cut: Cut) -> u64 {
        self.slots(tile, cut) * u64::from(tile.partials()) * 4
    }
}
