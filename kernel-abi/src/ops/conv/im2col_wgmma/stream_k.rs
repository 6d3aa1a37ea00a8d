//! What launcher and kernels of `fprop` and `dgrad` agree on where workers share the stages of all tiles evenly: who has
//! the first part of a tile's sum adds the others, which their workers leave in the workspace.

use super::{ConvGatherParams, Evenly};
use crate::division::Divisor;

crate::abi_struct! {
    /// Launch parameters of the kernels that share stages evenly.
    pub struct ConvStreamKParams {
        /// What the other kernels are given, with one class.
        pub gather: ConvGatherParams,
        /// Parts of sums, as the threads hold them.
        pub partials: u64,
        /// Flags that say that parts are there: [`FIXUP_FLAGS`](super::FIXUP_FLAGS) of each worker but the first.
        pub flags: u64,
        /// What a flag is when the sums are there.
        pub tag: u64,
        /// Stages of a tile.
        pub tile_stages: Divisor,
        /// Who has which of all stages: workers are the blocks of the grid.
        pub evenly: Evenly,
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

impl ConvStreamKParams {
    /// The first part of the stages `at..end` of a worker.
    #[inline(always)]
    pub const fn part(&self, at: u32, end: u32) -> StreamKPart {
        let (tile, begin) = self.tile_stages.div_rem(at);
        let (stages, left) = (self.tile_stages.divisor, end - at);
        let end = if stages - begin < left { stages } else { begin + left };
        StreamKPart { tile, begin, end }
    }

    /// Who has parts of a tile: the first, and one behind the last.
    #[inline(always)]
    pub const fn parts_of(&self, tile: u32) -> (u32, u32) {
        self.evenly.sharing(tile * self.tile_stages.divisor, self.tile_stages.divisor)
    }
}
