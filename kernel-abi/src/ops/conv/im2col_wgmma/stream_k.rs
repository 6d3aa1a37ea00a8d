//! What launcher and kernels of `fprop` and `dgrad` agree on where workers share the stages of tiles: who has the first
//! part of a tile's sum adds the others, which their workers leave in the workspace. All tiles are shared, or those that are
//! left over when every worker has had as many whole ones.
//!
//! Or every tile has the same number of parts, and each of their workers adds up some panels of the tile's columns.

use super::{ConvGatherParams, ConvTile, Evenly, dealt_out};
use crate::division::{Divisor, div_rem};

crate::abi_struct! {
    /// Launch parameters of the kernels that share stages evenly.
    pub struct ConvStreamKParams {
        /// What the other kernels are given, with one class.
        pub gather: ConvGatherParams,
        /// Parts of sums, as the threads hold them.
        pub partials: u64,
        /// Flags that say that parts are there: [`FIXUP_FLAGS`](super::FIXUP_FLAGS) of each sharer but the first, or, where
        /// tiles have the same number of parts, of each part as many as there are runs of sums.
        pub flags: u64,
        /// What a flag is when the sums are there.
        pub tag: u64,
        /// Stages of a tile.
        pub tile_stages: Divisor,
        /// Tiles that are not shared: those before the others. Workers, the clusters of the grid, take them in turn.
        pub whole_tiles: u32,
        /// How many workers share the others: those with the first numbers.
        pub sharers: u32,
        /// Who has which of their stages; or which part has which stages of a tile.
        pub evenly: Evenly,
        /// Parts of every tile, all of whose workers add up some of it; 0 where stages are shared otherwise.
        pub parts: u32,
    }
}

const _: () = assert!(size_of::<ConvStreamKParams>() <= 4096);

/// Some stages of one tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKPart {
    /// The tile.
    pub tile: u32,
    /// The first stage.
    pub begin: u32,
    /// Behind the last stage.
    pub end: u32,
}

/// What a worker has left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamKWork {
    /// The next whole tile, and how far it is to the one after it.
    pub tile: u32,
    /// From one to the next.
    pub step: u32,
    /// Its stages of the shared tiles, counted from the first of these: the next, and one behind the last.
    pub at: u32,
    /// One behind the last.
    pub end: u32,
}

impl ConvStreamKParams {
    /// The work of worker `worker` of `n`.
    #[inline(always)]
    pub const fn work(&self, worker: u32, n: u32) -> StreamKWork {
        if self.parts > 0 {
            let (part, tile) = div_rem(worker, self.gather.n_tiles);
            let (begin, end) = self.evenly.of(part);
            let first = tile * self.tile_stages.divisor;
            return StreamKWork { tile: 0, step: n, at: first + begin, end: first + end };
        }
        let (at, end) = if worker < self.sharers { self.evenly.of(worker) } else { (0, 0) };
        StreamKWork { tile: worker, step: n, at, end }
    }

    /// Which part of its tile a worker has, where all tiles have as many: the same parts of all tiles are neighbours, since
    /// they read the same of the filter.
    #[inline(always)]
    pub const fn part_of(&self, worker: u32) -> u32 {
        div_rem(worker, self.gather.n_tiles).0
    }

    /// Which panels of the columns of a consumer's rows the worker of part `part` adds up, a bit each: those of all
    /// consumers are dealt out to the workers in turn.
    #[inline(always)]
    pub const fn own_panels(&self, tile: ConvTile, consumer: u32, part: u32) -> u32 {
        let n_panels = tile.n_panels();
        dealt_out(consumer * n_panels, n_panels, (part, self.parts))
    }

    /// Whether there is any left.
    #[inline(always)]
    pub const fn is_left(&self, work: &StreamKWork) -> bool {
        work.tile < self.whole_tiles || work.at < work.end
    }

    /// The next part of what a worker has left: first what it leaves to others, so that it is there when they come for it;
    /// then whole tiles; and last the first part of a tile, whose others it adds.
    #[inline(always)]
    pub const fn next(&self, work: &mut StreamKWork) -> StreamKPart {
        let stages = self.tile_stages.divisor;
        let (tile, begin) = self.tile_stages.div_rem(work.at);
        if work.tile < self.whole_tiles && (begin == 0 || work.at == work.end) {
            let part = StreamKPart { tile: work.tile, begin: 0, end: stages };
            work.tile += work.step;
            return part;
        }
        let left = work.end - work.at;
        let end = if stages - begin < left { stages } else { begin + left };
        work.at += end - begin;
        StreamKPart { tile: self.whole_tiles + tile, begin, end }
    }

    /// Who has parts of a shared tile: the first, and one behind the last.
    #[inline(always)]
    pub const fn parts_of(&self, tile: u32) -> (u32, u32) {
        let stages = self.tile_stages.divisor;
        self.evenly.sharing((tile - self.whole_tiles) * stages, stages)
    }
}
