//! Tensor-core convolution for Hopper: an implicit matrix product, warp-specialized and persistent.
//!
//! Grid: any number of clusters, which share the tiles round-robin. Block: 384 threads. Warpgroup 0 is the producer: two
//! of its warps load tiles of one operand each into a ring of stages, running ahead into the next tile; where one warp
//! loaded both, it was what stages of 128 x 128 waited for. Warpgroups 1 and 2 compute. Shared memory: dynamic,
//! `ConvTile::smem_bytes`: the stages, panels of the result on their way out, and a full and an empty barrier a stage.
//!
//! The copy engine gathers: a tile's rows are a run of positions that may begin and end anywhere in an image and go on
//! into the next one; where a tap meets the padding it delivers zeros.

mod cluster;
mod entry;
mod epilogue;
mod exchange;
mod filter_rows;
mod fixup;
pub(super) mod gather;
mod left_sums;
mod parts;
mod quads;
mod slots;
mod stream_k;
pub(super) mod sum;
mod wgrad;

use cuda_std::thread::{sync_threads, thread_idx_x};
use cuda_std::wgmma::behind;
use cuda_std::{mbarrier, schedule, shared, warp};
use kernel_abi::ops::conv::im2col_wgmma::ConvTile;

/// The product instructions of one kernel: types, shape and orientations. A thread holds `S` × `R` sums, those of `S`
/// instructions along the rows.
trait Product<const R: usize, const S: usize> {
    const TILE: ConvTile;
    const B_IS_MN_MAJOR: bool;

    /// Queues the products of one stage. `accumulate` is 0 to overwrite `d`, else 1. All but one of the groups queued
    /// before are done afterwards.
    ///
    /// # Safety
    /// All threads of the warpgroup call it with descriptors of loaded tiles; `d` is not touched until [`finish`].
    ///
    /// [`finish`]: Product::finish
    unsafe fn multiply(d: &mut [[f32; R]; S], a: u64, b: u64, accumulate: u32);

    /// Waits for all queued products.
    ///
    /// # Safety
    /// All threads of the warpgroup call it.
    unsafe fn finish(d: &mut [[f32; R]; S]);
}

/// A product whose last stage may be short.
trait PartProduct<const R: usize>: Product<R, 1> {
    /// As [`Product::multiply`], of the first `steps` times 16 terms of the sum, and all are done afterwards.
    ///
    /// # Safety
    /// As [`Product::multiply`].
    unsafe fn multiply_steps(d: &mut [[f32; R]; 1], a: u64, b: u64, accumulate: u32, steps: u32);
}

/// A 16-bit element type.
pub(super) trait Half {
    /// Two numbers as elements, the first in the low half.
    fn pack(low: f32, high: f32) -> u32;

    /// An element as a number.
    fn unpack(bits: u16) -> f32;
}

/// bf16.
pub(super) struct Bf16;
/// f16.
pub(super) struct F16;

impl Half for Bf16 {
    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        cuda_std::convert::bf16x2_from_f32(low, high)
    }
    #[inline(always)]
    fn unpack(bits: u16) -> f32 {
        cuda_std::convert::f32_from_bf16(bits)
    }
}

impl Half for F16 {
    #[inline(always)]
    fn pack(low: f32, high: f32) -> u32 {
        cuda_std::convert::f16x2_from_f32(low, high)
    }
    #[inline(always)]
    fn unpack(bits: u16) -> f32 {
        cuda_std::convert::f32_from_f16(bits)
    }
}

/// Registers of a thread of each role: together what a multiprocessor has.
///
/// The roles part where the registers are shared out and do not meet again before the end: otherwise the assembler
/// finds the producer short of the registers that the consumers' code needs, and leaves all of them as they were.
pub(super) const PRODUCER_REGISTERS: u32 = 56;
pub(super) const CONSUMER_REGISTERS: u32 = 224;
/// Threads of a warpgroup.
pub(super) const WARPGROUP: u32 = 128;
/// Warps that load a stage: one for each operand.
const LOADERS: u32 = 2;
/// Bytes of eight rows of 128: the period of the swizzle.
pub(super) const SWIZZLE_PERIOD: u32 = 1024;

/// A ring of stages in shared memory, and where one role stands in it.
#[derive(Clone, Copy)]
pub(super) struct Ring {
    pub(super) base: u32,
    pub(super) barriers: u32,
    pub(super) tile: ConvTile,
    pub(super) stage: u32,
    pub(super) parity: u32,
}

impl Ring {
    #[inline(always)]
    pub(super) fn new(tile: ConvTile) -> Self {
        let base = shared::dynamic_address().next_multiple_of(SWIZZLE_PERIOD);
        Ring { base, barriers: base + tile.barriers_at(), tile, stage: 0, parity: 0 }
    }

    /// Address of the first operand's tile; the second's lies behind it.
    #[inline(always)]
    pub(super) fn a(&self) -> u32 {
        self.base + self.stage * self.tile.stage_bytes()
    }

    /// Address of the second operand's tile.
    #[inline(always)]
    pub(super) fn b(&self) -> u32 {
        self.a() + self.tile.a_bytes()
    }

    /// The descriptor in this stage of what has the given one in the first.
    #[inline(always)]
    pub(super) fn of_stage(&self, first: u64) -> u64 {
        behind(first, self.stage * self.tile.stage_bytes())
    }

    /// The barrier that counts what is loaded.
    #[inline(always)]
    pub(super) fn full(&self) -> u32 {
        self.barriers + 8 * self.stage
    }

    /// The barrier that counts who has read.
    #[inline(always)]
    pub(super) fn empty(&self) -> u32 {
        self.barriers + 8 * (self.tile.stages + self.stage)
    }

    #[inline(always)]
    pub(super) fn advance(&mut self) {
        self.stage += 1;
        if self.stage == self.tile.stages {
            self.stage = 0;
            self.parity ^= 1;
        }
    }

    /// The barrier that counts who has written the parts of buffer `i`.
    #[inline(always)]
    pub(super) fn parts_full(&self, i: u32) -> u32 {
        self.barriers + 8 * (2 * self.tile.stages + i)
    }

    /// The barrier that counts who has read them.
    #[inline(always)]
    pub(super) fn parts_empty(&self, i: u32) -> u32 {
        self.parts_full(i) + 8 * self.tile.converted
    }

    /// Arrivals that free a stage: one a warp of the consumers of every block that the stage's loads reach, and of those
    /// that take a second operand apart that is loaded.
    const fn releases(tile: ConvTile) -> u32 {
        4 * tile.sharers() * tile.cluster + if tile.converted > 0 && tile.parts > 0 { 4 } else { 0 }
    }

    /// Makes the barriers ready, and waits for the kernels before. So many warps load each stage.
    ///
    /// # Safety
    /// All threads of the cluster call it, before any uses a barrier.
    #[inline(always)]
    pub(super) unsafe fn start(self, loaders: u32) {
        schedule::launch_dependents();
        if thread_idx_x() == 0 {
            let mut each = self;
            while each.parity == 0 {
                mbarrier::init(each.full(), loaders);
                mbarrier::init(each.empty(), Ring::releases(self.tile));
                each.advance();
            }
            let mut i = 0;
            while i < self.tile.converted {
                mbarrier::init(self.parts_full(i), WARPGROUP / self.tile.filter_teams());
                mbarrier::init(self.parts_empty(i), WARPGROUP * self.tile.sharers());
                i += 1;
            }
            mbarrier::fence_init();
        }
        // Nobody may signal a barrier, here or in the other block, before it is ready.
        if self.tile.cluster > 1 {
            cuda_std::cluster::sync()
        } else {
            sync_threads()
        }
        // Also those who only write: what they write may still be read.
        schedule::wait_for_predecessors();
    }

    /// Signals that this warp has read a stage, to the producers of all blocks that load into it.
    ///
    /// # Safety
    /// As [`Ring::start`]; `empty` is the barrier of a stage that was waited for.
    #[inline(always)]
    pub(super) unsafe fn release(tile: ConvTile, empty: u32, lane: u32) {
        if tile.cluster > 1 {
            if lane < tile.cluster {
                mbarrier::arrive_remote_after_reads(empty, lane);
            }
        } else if lane == 0 {
            mbarrier::arrive(empty);
        }
    }
}

/// The number of this thread's warp, uniform.
#[inline(always)]
pub(super) fn warp_of_block() -> u32 {
    warp::uniform(thread_idx_x() / 32)
}

/// The number of this thread's warpgroup, uniform, so that addresses made of it are computed once a warp.
#[inline(always)]
pub(super) fn warpgroup() -> u32 {
    warp::uniform(thread_idx_x() / WARPGROUP)
}
