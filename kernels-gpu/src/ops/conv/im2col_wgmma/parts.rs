//! Parts of a tile's sum, which workers leave in the workspace for one another.
//!
//! They lie there as threads hold them, so each warp needs only what the same warp of the other workers has left, and waits
//! for its flags alone.

use super::WARPGROUP;
use cuda_std::{atomics, warp};
use kernel_abi::ops::conv::im2col_wgmma::{CONSUMERS, ConvTile, FIXUP_FLAGS};

/// Threads that hold a tile's sums.
pub(super) const HOLDERS: u32 = CONSUMERS * WARPGROUP;

/// Bytes of a quad of sums.
pub(super) const QUAD_BYTES: u32 = 16;

/// The parts of one tile, numbered, as a thread sees them.
#[derive(Clone, Copy)]
pub(super) struct Parts {
    pub(super) partials: u64,
    pub(super) flags: u64,
    /// What a flag is when the sums are there.
    pub(super) tag: u64,
    pub(super) tile: ConvTile,
    /// Flags of a warp in each part.
    pub(super) warp_flags: u32,
    /// The place of part 0, which may have none and so lie before all others, in tiles of blocks; and how far it is to the
    /// next part's.
    pub(super) first: u32,
    pub(super) step: u32,
    /// This thread, of those that hold the tile's sums.
    pub(super) warp: u32,
    pub(super) lane: u32,
}

impl Parts {
    /// Has them lie where they do for this block of a cluster: told were places in tiles of clusters, whose blocks have
    /// neighbouring ones.
    #[inline(always)]
    pub(super) fn of_block(self, rank: u32) -> Self {
        let cluster = self.tile.cluster;
        Parts { first: self.first.wrapping_mul(cluster).wrapping_add(rank), step: self.step * cluster, ..self }
    }

    /// This thread's quad `quad` of part `number`; the next one is [`HOLDERS`] further.
    #[inline(always)]
    pub(super) fn quad(&self, number: u32, quad: u32) -> *mut [u32; 4] {
        let of_place = u64::from(self.place(number)) * u64::from(self.tile.partials() / 4);
        let index = of_place + u64::from(quad * HOLDERS + self.warp * 32 + self.lane);
        (self.partials + index * u64::from(QUAD_BYTES)) as *mut [u32; 4]
    }

    /// Tells that what flag `flag` of this warp's stands for is there, of part `number`.
    ///
    /// # Safety
    /// A thread of the warp, all of whose threads have met since they left it; the part has a place.
    #[inline(always)]
    pub(super) unsafe fn tell(&self, number: u32, flag: u32) {
        atomics::store_release_u64(self.flag(number, flag), self.tag);
    }

    /// Waits for flag `flag` of this warp's in parts `first` to `end - 1` but for `own`, and takes the flags back for the
    /// next launch.
    ///
    /// # Safety
    /// All threads of the warp; the parts have places, and their workers are at work or have been.
    #[inline(always)]
    pub(super) unsafe fn wait(&self, (first, end): (u32, u32), own: u32, flag: u32) {
        let mut begin = first;
        while begin < end {
            let number = begin + self.lane;
            let is_other = number < end && number != own;
            let at = self.flag(if number < end { number } else { end - 1 }, flag);
            while !warp::all(!is_other || atomics::load_acquire_u64(at) == self.tag) {}
            if is_other {
                *at = 0;
            }
            begin += 32;
        }
        // What one lane has seen is there for all.
        warp::sync_warp();
    }

    #[inline(always)]
    fn place(&self, number: u32) -> u32 {
        self.first.wrapping_add(number * self.step)
    }

    #[inline(always)]
    fn flag(&self, number: u32, flag: u32) -> *mut u64 {
        let index = (self.place(number) * FIXUP_FLAGS + self.warp) * self.warp_flags + flag;
        (self.flags + u64::from(index) * 8) as *mut u64
    }
}

/// A thread's quad `quad`.
///
/// # Safety
/// It has that many.
#[inline(always)]
pub(super) unsafe fn quad_of<const R: usize>(d: &[f32; R], quad: usize) -> [f32; 4] {
    let sum = |i: usize| *d.get_unchecked(4 * quad + i);
    [sum(0), sum(1), sum(2), sum(3)]
}
