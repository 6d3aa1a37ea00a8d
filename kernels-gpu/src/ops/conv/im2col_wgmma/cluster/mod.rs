//! Convolution where tiles are few: the blocks of a cluster share the sum of one tile, see
//! [`kernel_abi::ops::conv::im2col_cluster`].
//!
//! Grid: a cluster of 1, 2, 4 or 8 blocks for every tile. Block: 192 threads, a warpgroup that computes and a warp for each
//! operand that loads. Shared memory: dynamic, `ConvTile::cluster_smem_bytes`.
//!
//! Such a kernel is a chain of latencies, so everything that does not need the operands stands before the wait for the
//! kernels before, and the next kernel may start at once: it fits beside this one.

mod exchange;
pub(super) mod gather;
pub(super) mod wgrad;

use super::{Half, Product, SWIZZLE_PERIOD};
use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use cuda_std::wgmma::{Swizzle, behind, descriptor};
use cuda_std::{cluster, mbarrier, schedule, shared, warp};
use exchange::{Exchange, Target};
use kernel_abi::ops::conv::im2col_cluster::{WARPGROUP, share};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, PANEL, PANEL_BYTES};

/// The thread that makes barriers ready: of a warp that loads.
const STARTER: u32 = WARPGROUP;
/// The warps that load the first and the second operand.
const LOADERS: [u32; 2] = [WARPGROUP / 32, WARPGROUP / 32 + 1];

/// A ring of stages in shared memory, and where one role stands in it.
#[derive(Clone, Copy)]
struct Ring {
    base: u32,
    tile: ConvTile,
    stage: u32,
    parity: u32,
}

impl Ring {
    #[inline(always)]
    fn new(tile: ConvTile) -> Self {
        let base = shared::dynamic_address().next_multiple_of(SWIZZLE_PERIOD);
        Ring { base, tile, stage: 0, parity: 0 }
    }

    /// Address of the first operand's tile; the second's lies behind it.
    #[inline(always)]
    fn a(&self) -> u32 {
        self.base + self.tile.cluster_stages_at() + self.stage * self.tile.stage_bytes()
    }

    /// Address of the second operand's tile.
    #[inline(always)]
    fn b(&self) -> u32 {
        self.a() + self.tile.a_bytes()
    }

    /// The descriptor in this stage of what has the given one in the first.
    #[inline(always)]
    fn of_stage(&self, first: u64) -> u64 {
        behind(first, self.stage * self.tile.stage_bytes())
    }

    /// The barrier that counts what is loaded.
    #[inline(always)]
    fn full(&self) -> u32 {
        self.base + 8 * self.stage
    }

    /// The barrier that counts who has read.
    #[inline(always)]
    fn empty(&self) -> u32 {
        self.base + 8 * (self.tile.stages + self.stage)
    }

    /// The barrier that counts what the other blocks sent.
    #[inline(always)]
    fn exchange_barrier(&self) -> u32 {
        self.base + self.tile.exchange_barrier_at()
    }

    /// Where that lies.
    #[inline(always)]
    fn exchange(&self) -> u32 {
        self.base + self.tile.exchange_at()
    }

    /// Where the addresses of the rows lie that this block writes.
    #[inline(always)]
    fn rows(&self) -> u32 {
        self.base + self.tile.rows_at()
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.stage += 1;
        if self.stage == self.tile.stages {
            self.stage = 0;
            self.parity ^= 1;
        }
    }

    /// Loads the next stage as soon as it is free: one thread of the warp queues the copies, of so many bytes, that signal the
    /// barrier it is given.
    ///
    /// # Safety
    /// All threads of a warp call it, as one that loads.
    #[inline(always)]
    unsafe fn load(&mut self, bytes: u32, queue: impl FnOnce(&Ring, u32)) {
        mbarrier::wait(self.empty(), self.parity ^ 1);
        if warp::elect() {
            let bar = self.full();
            mbarrier::arrive_expect_bytes(bar, bytes);
            queue(self, bar);
        }
        self.advance();
    }

    /// Makes the barriers ready. The others of the cluster may be sent to after [`cluster::wait`].
    ///
    /// # Safety
    /// All threads call it once, before any uses a barrier.
    #[inline(always)]
    unsafe fn start(self, share: Share) {
        if thread_idx_x() == STARTER {
            let mut each = self;
            while each.parity == 0 {
                mbarrier::init(each.full(), LOADERS.len() as u32);
                mbarrier::init(each.empty(), WARPGROUP / 32);
                each.advance();
            }
            mbarrier::init(self.exchange_barrier(), 1);
            mbarrier::fence_init();
            // Every block of the cluster sends an equal part but this one.
            let own = self.tile.sums_bytes() >> share.shift;
            mbarrier::arrive_expect_bytes(self.exchange_barrier(), self.tile.sums_bytes() - own);
        }
        sync_threads();
        if share.shift > 0 {
            cluster::arrive_relaxed();
        }
    }
}

/// This block in its cluster.
#[derive(Clone, Copy)]
struct Share {
    rank: u32,
    /// Blocks of the cluster, as a power of two.
    shift: u32,
}

impl Share {
    #[inline(always)]
    fn new() -> Self {
        let blocks = cluster::size();
        Share { rank: cluster::rank(), shift: if blocks > 1 { blocks.trailing_zeros() } else { 0 } }
    }

    /// The tile of this block's cluster.
    #[inline(always)]
    fn tile(self) -> u32 {
        block_idx_x() >> self.shift
    }

    /// This block's panels of `n`.
    #[inline(always)]
    fn of(self, n: u32) -> (u32, u32) {
        share(n, self.rank, self.shift)
    }
}

/// Computes a block's share of a tile and sends it on its way.
///
/// # Safety
/// All threads of the warpgroup call it; `n_panels` stages are loaded, and the target's addresses are those of live
/// tensors.
#[inline(always)]
unsafe fn consume<P: Product<R, S>, E: Half, T: Target, const R: usize, const S: usize>(
    ring: Ring,
    share: Share,
    n_panels: u32,
    target: &T,
) {
    // Else the assembler takes the loop for one that threads leave at different times, and each computes all addresses.
    let n_panels = warp::uniform_register(n_panels);
    match warp::uniform_register(share.shift) {
        0 => consume_of::<P, E, T, R, S, 1>(ring, share, n_panels, target),
        1 => consume_of::<P, E, T, R, S, 2>(ring, share, n_panels, target),
        2 => consume_of::<P, E, T, R, S, 4>(ring, share, n_panels, target),
        _ => consume_of::<P, E, T, R, S, 8>(ring, share, n_panels, target),
    }
}

/// [`consume`] for `N` blocks.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn consume_of<P: Product<R, S>, E: Half, T: Target, const R: usize, const S: usize, const N: usize>(
    mut ring: Ring,
    share: Share,
    n_panels: u32,
    target: &T,
) {
    let exchange = Exchange::<R, S, N>::new(ring, share.rank, target);
    // What is written may still be read by the kernels before.
    schedule::wait_for_predecessors();
    let lane = thread_idx_x() % 32;
    let narrow = P::B_IS_MN_MAJOR && P::TILE.gemm_n < PANEL;
    let (period, swizzle) = if narrow { (SWIZZLE_PERIOD / 2, Swizzle::B64) } else { (SWIZZLE_PERIOD, Swizzle::B128) };
    // The distance between panels counts where the sum's dimension is not contiguous.
    let a = descriptor(ring.a(), PANEL_BYTES, SWIZZLE_PERIOD, Swizzle::B128);
    let b = descriptor(ring.b(), PANEL_BYTES, period, swizzle);
    let mut d: [[f32; R]; S] = core::mem::zeroed();
    let mut freed = ring.empty();
    let mut panel = 0;
    while panel < n_panels {
        mbarrier::wait(ring.full(), ring.parity);
        P::multiply(&mut d, ring.of_stage(a), ring.of_stage(b), u32::from(panel > 0));
        if panel > 0 && lane == 0 {
            mbarrier::arrive(freed);
        }
        freed = ring.empty();
        ring.advance();
        panel += 1;
    }
    // Also where there was none: the sums must be the compiler's again on every path.
    P::finish(&mut d);
    exchange.leave::<E, T>(&d, target);
}
