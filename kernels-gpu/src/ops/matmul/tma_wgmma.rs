//! Tensor-core matmul for Hopper: warp-specialized, persistent.
//!
//! Grid: any number of clusters, which share the tiles round-robin. Block: 384 threads. Warpgroup 0 is the producer: one
//! of its threads loads tiles of a and b into a ring of stages, running ahead into the next tile of c. Warpgroups 1
//! and 2 each compute half of the tile's rows: 64 × N sums in N/2 registers a thread. Shared memory: dynamic,
//! `MatmulTile::smem_bytes`: the stages, per consumer two panels of 64 × 64 elements of c on their way out, and a
//! full and an empty barrier a stage.
//!
//! Two blocks may form a cluster: neighbours along the rows, which need the same tile of b. Each loads half of it into
//! both, and a stage is free when the consumers of both have read it.
//!
//! All tiles lie in the 128-byte swizzle. Where k is contiguous, a stage's tile is `[mn][64 k]`; where it is the other
//! dimension, panels of `[k][64 mn]`, which the product reads transposed. Copies clip at the matrices' ends: outside
//! reads as zero and is not written, so tails in M, N and K need no code.

use cuda_std::barrier::{fence_proxy_async_shared, sync_named};
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::wgmma::{Swizzle, descriptor, wgmma_wait};
use cuda_std::{cluster, ldmatrix, mbarrier, schedule, shared, warp};
use kernel_abi::ops::matmul::{MatmulTile, MatmulTmaParams, Place, Raster};

/// Where the tensor maps are.
pub(super) struct Maps {
    pub(super) a: MapAddress,
    pub(super) b: MapAddress,
    pub(super) c: MapAddress,
}

/// The products of one kernel: types, shape and orientations, in `R` registers a thread.
pub(super) trait Product<const R: usize> {
    const TILE: MatmulTile;
    const A_IS_MN_MAJOR: bool;
    const B_IS_MN_MAJOR: bool;

    /// Queues the products of one stage. `accumulate` is 0 to overwrite `d`, else 1.
    ///
    /// # Safety
    /// All threads of the warpgroup call it with descriptors of loaded tiles; `d` is not touched until [`finish`].
    ///
    /// [`finish`]: Product::finish
    unsafe fn multiply(d: &mut [f32; R], a: u64, b: u64, accumulate: u32);

    /// Waits for all queued products.
    ///
    /// # Safety
    /// All threads of the warpgroup call it.
    unsafe fn finish(d: &mut [f32; R]);

    /// Two sums as elements, the first in the low half.
    fn pack(low: f32, high: f32) -> u32;

    /// An element as a number.
    fn unpack(bits: u16) -> f32;
}

/// Registers of a thread of each role: together what a multiprocessor has.
const PRODUCER_REGISTERS: u32 = 40;
const CONSUMER_REGISTERS: u32 = 232;
/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;
/// Bytes between panels of `[64 k][64 mn]`, and between the halves of a's rows in either orientation.
const PANEL_BYTES: u32 = 64 * 128;
/// Bytes of eight rows of 128: the period of the swizzle.
const SWIZZLE_PERIOD: u32 = 1024;
/// Arrivals that free a stage: one a warp of the consumers of every block that the stage's loads reach.
const fn releases(tile: MatmulTile) -> u32 {
    4 * MatmulTile::CONSUMERS * tile.cluster
}

/// A ring of stages in shared memory, and where one role stands in it.
#[derive(Clone, Copy)]
struct Ring {
    base: u32,
    barriers: u32,
    tile: MatmulTile,
    stage: u32,
    parity: u32,
}

impl Ring {
    #[inline(always)]
    fn new(base: u32, tile: MatmulTile) -> Self {
        Ring { base, barriers: base + tile.barriers_at(), tile, stage: 0, parity: 0 }
    }

    /// Address of a's tile; b's lies behind it.
    #[inline(always)]
    fn a(&self) -> u32 {
        self.base + self.stage * self.tile.stage_bytes()
    }

    /// The barrier that counts what is loaded.
    #[inline(always)]
    fn full(&self) -> u32 {
        self.barriers + 8 * self.stage
    }

    /// The barrier that counts who has read.
    #[inline(always)]
    fn empty(&self) -> u32 {
        self.barriers + 8 * (self.tile.stages + self.stage)
    }

    #[inline(always)]
    fn advance(&mut self) {
        self.stage += 1;
        if self.stage == self.tile.stages {
            self.stage = 0;
            self.parity ^= 1;
        }
    }
}

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live matrices, and launches `TILE.threads()` threads with
/// `TILE.smem_bytes()` bytes of shared memory.
#[inline(always)]
pub(super) unsafe fn run<P: Product<R>, const R: usize>(p: &MatmulTmaParams, maps: Maps) {
    let base = shared::dynamic_address().next_multiple_of(SWIZZLE_PERIOD);
    let ring = Ring::new(base, P::TILE);
    let thread = thread_idx_x();
    // Uniform, so that addresses made of it are computed once a warp.
    let warpgroup = warp::uniform(thread / WARPGROUP);
    if thread == 0 {
        tma::prefetch_map(maps.a);
        tma::prefetch_map(maps.b);
        tma::prefetch_map(maps.c);
        let mut each = ring;
        while each.parity == 0 {
            mbarrier::init(each.full(), 1);
            mbarrier::init(each.empty(), releases(P::TILE));
            each.advance();
        }
        mbarrier::fence_init();
    }
    // Nobody may signal a barrier, here or in the other block, before it is ready.
    if P::TILE.cluster > 1 {
        cluster::sync()
    } else {
        sync_threads()
    }
    let raster = Raster::new(P::TILE, p);
    if warpgroup == 0 {
        schedule::release_registers::<PRODUCER_REGISTERS>();
        if thread == 0 {
            produce::<P, R>(p, &maps, raster, ring);
        }
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        consume::<P, R>(p, &maps, raster, ring, warpgroup - 1);
    }
    if P::TILE.cluster > 1 {
        // The other block may still signal our barriers.
        cluster::sync();
    }
}

/// This block's rank in its cluster.
#[inline(always)]
fn rank(tile: MatmulTile) -> u32 {
    if tile.cluster > 1 { cluster::rank() } else { 0 }
}

/// Calls `body` with the place of every tile that is this block's, its own rows of the cluster's.
#[inline(always)]
unsafe fn for_each_place(raster: Raster, tile: MatmulTile, mut body: impl FnMut(Place)) {
    let mut index = block_idx_x() / tile.cluster;
    let step = grid_dim_x() / tile.cluster;
    let first_row = rank(tile) * tile.gemm_m;
    while index < raster.n_tiles() {
        let mut place = raster.place(index);
        place.m += first_row;
        body(place);
        index += step;
    }
}

/// Loads stage after stage, of tile after tile.
///
/// # Safety
/// As [`run`]; one thread.
#[inline(always)]
unsafe fn produce<P: Product<R>, const R: usize>(p: &MatmulTmaParams, maps: &Maps, raster: Raster, mut ring: Ring) {
    let part = rank(P::TILE);
    for_each_place(raster, P::TILE, |place| {
        let a_batch = coordinates(place.batch, p.a_batch_steps);
        let b_batch = coordinates(place.batch, p.b_batch_steps);
        let b_col = place.n + part * P::TILE.b_part();
        let mut k = 0;
        while k < p.gemm_k {
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            mbarrier::arrive_expect_bytes(ring.full(), P::TILE.stage_bytes());
            let (a, b) = (ring.a(), ring.a() + P::TILE.a_bytes() + part * P::TILE.b_part_bytes());
            let bar = ring.full();
            load(P::A_IS_MN_MAJOR, P::TILE.gemm_m, 1, a, maps.a, bar, place.m, k, a_batch);
            load(P::B_IS_MN_MAJOR, P::TILE.b_part(), P::TILE.cluster, b, maps.b, bar, b_col, k, b_batch);
            ring.advance();
            k += P::TILE.gemm_k;
        }
    });
}

/// Batch coordinates of a map, innermost first: 0 where the operand repeats.
#[inline(always)]
fn coordinates(batch: [u32; 3], steps: [u32; 3]) -> [i32; 3] {
    [(batch[2] * steps[2]) as i32, (batch[1] * steps[1]) as i32, (batch[0] * steps[0]) as i32]
}

/// Loads the tile of one operand into this block, or into all of the cluster: in one copy where k is contiguous, else
/// panel by panel.
///
/// # Safety
/// As [`run`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn load(
    mn_major: bool,
    width: u32,
    blocks: u32,
    to: u32,
    map: MapAddress,
    bar: u32,
    mn: u32,
    k: u32,
    [inner, middle, outer]: [i32; 3],
) {
    let copy = |to: u32, at: [i32; 5]| {
        if blocks > 1 {
            tma::load_5d_multicast(to, map, bar, (1 << blocks) - 1, at);
        } else {
            tma::load_5d(to, map, bar, at);
        }
    };
    if mn_major {
        let mut panel = 0;
        while panel < width / MatmulTile::PANEL {
            let mn = mn + panel * MatmulTile::PANEL;
            copy(to + panel * PANEL_BYTES, [mn as i32, k as i32, inner, middle, outer]);
            panel += 1;
        }
    } else {
        copy(to, [k as i32, mn as i32, inner, middle, outer]);
    }
}

/// Computes tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<P: Product<R>, const R: usize>(
    p: &MatmulTmaParams,
    maps: &Maps,
    raster: Raster,
    mut ring: Ring,
    consumer: u32,
) {
    // The leading distance is that between panels; where k is contiguous the hardware ignores it.
    let leading = |mn_major: bool| if mn_major { PANEL_BYTES } else { 16 };
    let k_blocks = p.gemm_k.div_ceil(P::TILE.gemm_k);
    let lane = thread_idx_x() % 32;
    let panels = ring.base + P::TILE.panels_at() + consumer * MatmulTile::PANEL_BUFFERS * P::TILE.panel_bytes();
    for_each_place(raster, P::TILE, |place| {
        let mut d: [f32; R] = core::mem::zeroed();
        let mut freed = ring.empty();
        let mut block = 0;
        while block < k_blocks {
            mbarrier::wait(ring.full(), ring.parity);
            let a =
                descriptor(ring.a() + consumer * PANEL_BYTES, leading(P::A_IS_MN_MAJOR), SWIZZLE_PERIOD, Swizzle::B128);
            let b = descriptor(ring.a() + P::TILE.a_bytes(), leading(P::B_IS_MN_MAJOR), SWIZZLE_PERIOD, Swizzle::B128);
            P::multiply(&mut d, a, b, u32::from(block > 0));
            // One block of products stays queued; the one before it is done and has read its stage.
            wgmma_wait!(d = &mut d, registers = 0, pending = 1);
            if block > 0 {
                release(P::TILE, freed, lane);
            }
            freed = ring.empty();
            ring.advance();
            block += 1;
        }
        P::finish(&mut d);
        release(P::TILE, freed, lane);
        epilogue::<P, R>(p, maps, &d, place, consumer, panels);
    });
}

/// Signals that this warp has read a stage, to the producers of all blocks that load into it.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn release(tile: MatmulTile, empty: u32, lane: u32) {
    if tile.cluster > 1 {
        if lane < tile.cluster {
            mbarrier::arrive_remote_after_reads(empty, lane);
        }
    } else if lane == 0 {
        mbarrier::arrive(empty);
    }
}

/// Scales the sums of a consumer, blends them with c's prior values and sends them out, panel by panel.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn epilogue<P: Product<R>, const R: usize>(
    p: &MatmulTmaParams,
    maps: &Maps,
    d: &[f32; R],
    place: Place,
    consumer: u32,
    panels: u32,
) {
    let thread = thread_idx_x() % WARPGROUP;
    let out = Out {
        first_row: place.m + consumer * P::TILE.consumer_rows(),
        first_col: place.n,
        prior: prior_address(p, place.batch),
        batch: coordinates(place.batch, [1; 3]),
        map: maps.c,
        panels,
        // Its own row of the 16 that the warp writes at a time, and which 16 bytes of two.
        row: thread / 32 * 16 + thread % 16,
        half: thread % 32 / 16,
        barrier: 1 + consumer,
        leader: thread == 0,
    };
    panel::<P, R, 0>(p, d, &out);
    panel::<P, R, 1>(p, d, &out);
    if R > 64 {
        panel::<P, R, 2>(p, d, &out);
        panel::<P, R, 3>(p, d, &out);
    }
}

/// What all panels of a tile share.
struct Out {
    first_row: u32,
    first_col: u32,
    prior: u64,
    batch: [i32; 3],
    map: MapAddress,
    panels: u32,
    row: u32,
    half: u32,
    barrier: u32,
    leader: bool,
}

/// Panel `N` of a consumer's sums.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn panel<P: Product<R>, const R: usize, const N: usize>(p: &MatmulTmaParams, d: &[f32; R], out: &Out) {
    let col = out.first_col + N as u32 * MatmulTile::PANEL;
    if col >= p.gemm_n || out.first_row >= p.gemm_m {
        return;
    }
    let buffer = out.panels + (N as u32 % MatmulTile::PANEL_BUFFERS) * P::TILE.panel_bytes();
    // The store that last read this buffer is the one before the last.
    if out.leader {
        tma::wait_group_read::<1>();
    }
    sync_named(out.barrier, WARPGROUP);
    chunk::<P, R, N, 0>(p, d, out, buffer, col);
    chunk::<P, R, N, 1>(p, d, out, buffer, col);
    chunk::<P, R, N, 2>(p, d, out, buffer, col);
    chunk::<P, R, N, 3>(p, d, out, buffer, col);
    fence_proxy_async_shared();
    sync_named(out.barrier, WARPGROUP);
    if out.leader {
        let [inner, middle, outer] = out.batch;
        tma::store_5d(out.map, buffer, [col as i32, out.first_row as i32, inner, middle, outer]);
        tma::commit_group();
    }
}

/// Columns `16 J` to `16 J + 15` of panel `N`: eight sums a thread.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn chunk<P: Product<R>, const R: usize, const N: usize, const J: usize>(
    p: &MatmulTmaParams,
    d: &[f32; R],
    out: &Out,
    buffer: u32,
    panel_col: u32,
) {
    let at = 8 * (4 * N + J);
    let sum = |i: usize| p.alpha * *d.get_unchecked(at + i);
    let mut v = [sum(0), sum(1), sum(2), sum(3), sum(4), sum(5), sum(6), sum(7)];
    if p.beta != 0.0 {
        let thread = thread_idx_x() % WARPGROUP;
        let row = out.first_row + thread / 32 * 16 + thread % 32 / 4;
        let col = panel_col + 16 * J as u32 + thread % 4 * 2;
        let blend = |v: f32, row: u32, col: u32| v + p.beta * prior::<P, R>(p, out.prior, row, col);
        v = [
            blend(v[0], row, col),
            blend(v[1], row, col + 1),
            blend(v[2], row + 8, col),
            blend(v[3], row + 8, col + 1),
            blend(v[4], row, col + 8),
            blend(v[5], row, col + 9),
            blend(v[6], row + 8, col + 8),
            blend(v[7], row + 8, col + 9),
        ];
    }
    let packed = [P::pack(v[0], v[1]), P::pack(v[2], v[3]), P::pack(v[4], v[5]), P::pack(v[6], v[7])];
    let chunk = (2 * J as u32 + out.half) ^ (out.row % 8);
    ldmatrix::store_x4(buffer + out.row * 128 + chunk * 16, packed);
}

/// Address of a matrix of c.
#[inline(always)]
fn prior_address(p: &MatmulTmaParams, batch: [u32; 3]) -> u64 {
    let [s0, s1, s2] = p.c.batch_strides;
    let offset = i64::from(batch[0]) * s0 + i64::from(batch[1]) * s1 + i64::from(batch[2]) * s2;
    p.c.address + offset as u64 * 2
}

/// An element of c before the run; 0 outside.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn prior<P: Product<R>, const R: usize>(p: &MatmulTmaParams, matrix: u64, row: u32, col: u32) -> f32 {
    if row >= p.gemm_m || col >= p.gemm_n {
        return 0.0;
    }
    let offset = i64::from(row) * p.c.row_stride + i64::from(col);
    P::unpack(*(matrix as *const u16).offset(offset as isize))
}
