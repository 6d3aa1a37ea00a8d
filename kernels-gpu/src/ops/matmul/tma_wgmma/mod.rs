//! Tensor-core matmul for Hopper: warp-specialized, persistent.
//!
//! Grid: any number of clusters, which share the units of work round-robin, or by drawing numbers: the slices of tiles, a
//! slice being a part of the sums. Block: `MatmulTile::threads`. Warpgroup 0 is the producer: two of its warps load a's and
//! b's tiles into a ring of stages, running ahead into the next unit; where one warp loaded both, its instructions were what
//! stages of 64 x 64 waited for. The others, one to four, each compute 64 rows of the tile: 64 × N sums in N/2 registers a
//! thread; or two of them compute whole tiles in turns, so that the tensor cores have work while one's results go out.
//! Shared memory: dynamic, `MatmulTile::smem_bytes`: the stages, per consumer one or two panels of 64 × 64 elements of c on
//! their way out, a full and an empty barrier a stage, and the queue of drawn numbers.
//!
//! Two or four blocks of a cluster may be neighbours along the rows, which need the same tile of b. Each loads a part of
//! it into all of them, and a stage is free when the consumers of all have read it. Two blocks which keep their part of b
//! are neighbours along the columns instead, and share a's tiles. Blocks of a cluster may also have a slice each of the
//! same tile; both together, sharers of a slice follow each other.
//!
//! Tiles lie in the 128-byte swizzle, except what stays of b (`resident`). Where k is contiguous, a stage's tile is
//! `[mn][64 k]`; where it is the other dimension, panels of `[k][64 mn]`, which the product reads transposed. Copies clip
//! at the matrices' ends: outside reads as zero and is not written, so tails in M, N and K need no code.

mod cluster_sum;
mod epilogue;
pub(super) mod pack;
mod resident;
mod ring;

pub(super) use ring::{Ring, Sharers};

use crate::math::tickets::{Drawing, Queue};
use cuda_std::barrier::{arrive_named, sync_named};
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::wgmma::{Swizzle, descriptor, wgmma_wait};
use cuda_std::{cluster, mbarrier, schedule, shared, warp};
use kernel_abi::division::div_rem_unless_below;
use kernel_abi::ops::matmul::{
    MatmulTile, MatmulTmaParams, OUTPUT_CLUSTER, OUTPUT_MAP, OUTPUT_PARTIALS, Place, Raster,
};

/// Where the tensor maps are.
pub(super) struct Maps {
    pub(super) a: MapAddress,
    pub(super) b: MapAddress,
    pub(super) c: MapAddress,
}

/// The tile of one kernel, and the type of its elements.
pub(super) trait Tiled {
    const TILE: MatmulTile;

    /// Two sums as elements, the first in the low half.
    fn pack(low: f32, high: f32) -> u32;

    /// An element as a number.
    fn unpack(bits: u16) -> f32;
}

/// The products of one kernel: types, shape and orientations. A thread holds `S` × `R` sums, those of `S` instructions
/// along the rows.
pub(super) trait Product<const R: usize, const S: usize = 1>: Tiled {
    const A_IS_MN_MAJOR: bool;
    const B_IS_MN_MAJOR: bool;

    /// Queues the products of one stage. `accumulate` is 0 to overwrite `d`, else 1.
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

/// Registers of a thread of each role: together what a multiprocessor has. One consumer has enough as it is launched.
pub(super) const PRODUCER_REGISTERS: u32 = 40;
pub(super) const CONSUMER_REGISTERS: u32 = 232;
/// Those of each of three consumers, and of four.
const THIRD_REGISTERS: u32 = 152;
const FOURTH_REGISTERS: u32 = 104;
/// Threads of a warpgroup.
pub(super) const WARPGROUP: u32 = 128;
/// Warps that load a stage: one for each operand.
const LOADERS: u32 = 2;
/// Bytes that each block brings to the second-level cache while the kernels before end: all together, what the memory
/// delivers in about a microsecond.
const EARLY_BYTES: u32 = 32 * 1024;
/// The named barrier at which the first consumer waits for its turn; the second waits at the next. Before them are those
/// of the consumers' own.
const TURN: u32 = 3;
/// Bytes of one swizzled row.
const ROW_BYTES: u32 = 128;
/// Bytes between panels of `[64 k][64 mn]`, and between the halves of a's rows in either orientation.
pub(super) const PANEL_BYTES: u32 = 64 * ROW_BYTES;
/// Bytes of eight rows of 128: the period of the swizzle.
pub(super) const SWIZZLE_PERIOD: u32 = 1024;

/// Prepares the barriers, stages being loaded by so many warps; gives the ring and this thread's warpgroup. The kernels
/// before may still be at work.
///
/// # Safety
/// As [`run`]; all threads, once.
#[inline(always)]
pub(super) unsafe fn begin(
    tile: MatmulTile,
    maps: &Maps,
    stores_by_map: bool,
    sharers: Sharers,
    loaders: u32,
) -> (Ring, u32) {
    schedule::launch_dependents();
    let base = shared::dynamic_address().next_multiple_of(SWIZZLE_PERIOD);
    let ring = Ring::new(base, tile);
    let thread = thread_idx_x();
    // Uniform, so that addresses made of it are computed once a warp.
    let warpgroup = warp::uniform(thread / WARPGROUP);
    if thread == 0 {
        tma::prefetch_map(maps.a);
        tma::prefetch_map(maps.b);
        if stores_by_map {
            tma::prefetch_map(maps.c);
        }
        let mut each = ring;
        while each.parity == 0 {
            mbarrier::init(each.full(), loaders);
            // One arrival a warp of the readers in every block that the stage's loads reach.
            mbarrier::init(each.empty(), (4 * tile.readers()) << sharers.log2);
            each.advance();
        }
        let mut block = 0;
        while block < tile.resident_blocks {
            mbarrier::init(ring.resident(block), 1);
            block += 1;
        }
        if tile.draws {
            ring.queue().init(4 * tile.consumers() + LOADERS - 1);
        }
        mbarrier::fence_init();
    }
    // Nobody may signal a barrier, here or in the other block, before it is ready.
    if sharers.log2 > 0 {
        cluster::sync()
    } else {
        sync_threads()
    }
    (ring, warpgroup)
}

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live matrices, and launches `TILE.threads()` threads with
/// `TILE.smem_bytes()` bytes of shared memory.
#[inline(always)]
pub(super) unsafe fn run<P: Product<R, S>, const R: usize, const S: usize>(p: &MatmulTmaParams, maps: Maps) {
    let sharers = Sharers::of(P::TILE, p);
    let loaders = if P::TILE.has_resident_b() { 1 } else { LOADERS };
    let (ring, warpgroup) = begin(P::TILE, &maps, p.output == OUTPUT_MAP, sharers, loaders);
    let units = Units::new(Raster::new(P::TILE, p), P::TILE, sharers);
    let adds_up = P::TILE.forms_clusters() && p.output == OUTPUT_CLUSTER;
    if warpgroup == 0 {
        if P::TILE.consumers() > 1 {
            schedule::release_registers::<PRODUCER_REGISTERS>();
        }
        let warp = warp::uniform(thread_idx_x() / 32);
        if warp == 0 {
            load_a::<P, R, S>(p, maps.a, units, ring, sharers);
        } else if warp == 1 && P::TILE.has_resident_b() {
            resident::load_b::<P, R, S>(p, maps.b, units, ring);
        } else if warp == 1 {
            load_b::<P, R, S>(p, maps.b, units, ring, sharers);
        }
        if adds_up {
            // The meeting of all sums.
            cluster::sync();
        }
    } else {
        if P::TILE.consumers() == 4 {
            schedule::acquire_registers::<FOURTH_REGISTERS>();
        } else if P::TILE.consumers() == 3 {
            schedule::acquire_registers::<THIRD_REGISTERS>();
        } else if P::TILE.consumers() == 2 {
            schedule::acquire_registers::<CONSUMER_REGISTERS>();
        }
        consume::<P, R, S>(p, &maps, units, ring, sharers, warpgroup - 1);
    }
    if adds_up {
        // The other blocks may still read our sums. What was read of theirs is there, and what was written is for others.
        cluster::arrive_relaxed();
        cluster::wait();
    }
}

/// A part of the sums of one tile.
#[derive(Clone, Copy)]
pub(super) struct Unit {
    pub(super) place: Place,
    slice: u32,
    /// The first index of the sums.
    pub(super) first_k: u32,
    /// How many blocks of k.
    pub(super) k_blocks: u32,
}

/// The units that are still to be done by this block, with its own rows of the cluster's.
pub(super) struct Units {
    raster: Raster,
    tile: MatmulTile,
    index: u32,
    /// From one to the next: how many are at work at once.
    step: u32,
    first_row: u32,
    first_col: u32,
}

impl Units {
    #[inline(always)]
    pub(super) fn new(raster: Raster, tile: MatmulTile, sharers: Sharers) -> Self {
        let (index, step) = (block_idx_x() >> sharers.log2, grid_dim_x() >> sharers.log2);
        let [rows, columns] = if tile.has_resident_b() { [0, tile.gemm_n] } else { [tile.gemm_m, 0] };
        Units { raster, tile, index, step, first_row: sharers.own * rows, first_col: sharers.own * columns }
    }

    /// Whether there is another one.
    ///
    /// Asked in the loop's own condition: where the loop ends by what [`Units::next`] returns, the assembler takes it for
    /// one that threads leave at different times, and computes all addresses in each of them.
    #[inline(always)]
    pub(super) fn is_left(&self, p: &MatmulTmaParams) -> bool {
        self.index < self.raster.n_tiles() * p.n_slices
    }

    /// The next one; there is one left.
    #[inline(always)]
    pub(super) fn next(&mut self, p: &MatmulTmaParams) -> Unit {
        let (tile_index, slice) = if p.output == OUTPUT_PARTIALS {
            // Blocks that start together read the same indices of k: requests of neighbours for the same lines become one
            // on the way to the second-level cache.
            let (slice, tile_index) = div_rem_unless_below(self.index, self.raster.n_tiles());
            (tile_index, slice)
        } else {
            div_rem_unless_below(self.index, p.n_slices)
        };
        self.index += self.step;
        let mut place = self.raster.place(tile_index);
        place.m += self.first_row;
        place.n += self.first_col;
        // The first slices have one block more than the others, as many as there are blocks left over.
        let longer = p.gemm_k.div_ceil(self.tile.gemm_k) - p.n_slices * p.slice_k_blocks;
        let first_block = slice * p.slice_k_blocks + if slice < longer { slice } else { longer };
        let k_blocks = p.slice_k_blocks + u32::from(slice < longer);
        Unit { place, slice, first_k: first_block * self.tile.gemm_k, k_blocks }
    }

    /// Has the warp that loads a draw which one is next.
    ///
    /// # Safety
    /// As [`load_a`], after [`Units::next`].
    #[inline(always)]
    unsafe fn draw(&mut self, p: &MatmulTmaParams, drawing: &mut Drawing) {
        if self.tile.draws {
            self.index = drawing.next(&p.tickets, self.index);
        }
    }

    /// Takes what that warp has drawn.
    ///
    /// # Safety
    /// As [`load_b`] or [`consume`], after [`Units::next`].
    #[inline(always)]
    unsafe fn take(&mut self, queue: &mut Queue) {
        if self.tile.draws {
            self.index = queue.take();
        }
    }
}

/// Loads a's tile of stage after stage, or this block's part of it, of unit after unit, and draws these.
///
/// All threads of a warp compute where, so that addresses are computed once for all of them, and one queues the copies.
///
/// # Safety
/// As [`run`]; all threads of one warp.
#[inline(always)]
unsafe fn load_a<P: Product<R, S>, const R: usize, const S: usize>(
    p: &MatmulTmaParams,
    map: MapAddress,
    mut units: Units,
    mut ring: Ring,
    sharers: Sharers,
) {
    let rows = P::TILE.a_part(sharers.log2);
    let first_row = sharers.own * (rows % P::TILE.gemm_m);
    let sharers_of_a = if P::TILE.has_resident_b() { sharers } else { Sharers::ALONE };
    let policy = policy(p);
    // Where blocks are bound by the memory, a is what much is read of.
    let mut is_early = P::TILE.forms_clusters() || P::TILE.draws;
    let mut drawing = Drawing::new(ring.queue());
    while units.is_left(p) {
        let unit = units.next(p);
        units.draw(p, &mut drawing);
        let batch = coordinates(unit.place.batch, p.a_batch_steps);
        if is_early {
            if warp::elect() {
                let (_, first) = div_rem_unless_below(unit.first_k / P::TILE.gemm_k, p.outer_blocks);
                let mut ahead = 0;
                while ahead < EARLY_BYTES / P::TILE.a_bytes() {
                    if ahead < unit.k_blocks {
                        let k = (first + ahead) * P::TILE.gemm_k;
                        prefetch(P::A_IS_MN_MAJOR, P::TILE.gemm_m, map, unit.place.m, k, batch);
                    }
                    ahead += 1;
                }
            }
            is_early = false;
        }
        let load_block = |ring: &Ring, k: u32, batch: [i32; 3]| {
            let (to, m) = (ring.a() + first_row * ROW_BYTES, unit.place.m + first_row);
            mbarrier::arrive_expect_bytes(ring.full(), P::TILE.a_bytes());
            load(P::A_IS_MN_MAJOR, rows, sharers_of_a, to, map, ring.full(), policy, m, k, batch);
        };
        load_blocks(p, &unit, &mut ring, P::TILE, (batch, p.a_outer_batch), load_block);
    }
    if P::TILE.draws {
        drawing.end(&p.tickets);
    }
    if sharers.in_cluster {
        // Consumers signal our barriers as those of other blocks do, until they have read the last stage.
        let mut stage = 0;
        while stage < P::TILE.stages {
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            ring.advance();
            stage += 1;
        }
    }
}

/// Loads b's tile of stage after stage, or this block's part of it, of unit after unit.
///
/// # Safety
/// As [`load_a`].
#[inline(always)]
unsafe fn load_b<P: Product<R, S>, const R: usize, const S: usize>(
    p: &MatmulTmaParams,
    map: MapAddress,
    mut units: Units,
    mut ring: Ring,
    sharers: Sharers,
) {
    // This block's part of the tile, of which some dimension is whole.
    let [columns, depth] = P::TILE.b_part(sharers.log2, P::B_IS_MN_MAJOR);
    let first_col = sharers.own * (columns % P::TILE.gemm_n);
    let first_k = sharers.own * (depth % P::TILE.gemm_k);
    let at = P::TILE.a_bytes() + (first_col + first_k) * ROW_BYTES;
    let policy = policy(p);
    let mut queue = ring.queue();
    while units.is_left(p) {
        let unit = units.next(p);
        units.take(&mut queue);
        let batch = coordinates(unit.place.batch, p.b_batch_steps);
        let load_block = |ring: &Ring, k: u32, batch: [i32; 3]| {
            let (to, bar) = (ring.a() + at, ring.full());
            mbarrier::arrive_expect_bytes(bar, P::TILE.loaded_bytes(P::B_IS_MN_MAJOR) - P::TILE.a_bytes());
            let (n, k) = (unit.place.n + first_col, k + first_k);
            load(P::B_IS_MN_MAJOR, columns, sharers, to, map, bar, policy, n, k, batch);
        };
        load_blocks(p, &unit, &mut ring, P::TILE, (batch, p.b_outer_batch), load_block);
    }
}

/// Has a thread load one operand's tile of all stages of a unit, told the first index of the sums and the batch
/// coordinates, which count up with the outer index of the sums. No kernel before this one is at work any more then.
///
/// What stands in the inner loop is what short stages wait for: some four cycles an instruction.
///
/// # Safety
/// As [`load_a`].
#[inline(always)]
unsafe fn load_blocks(
    p: &MatmulTmaParams,
    unit: &Unit,
    ring: &mut Ring,
    tile: MatmulTile,
    (mut batch, outer_batch): ([i32; 3], u32),
    load_block: impl Fn(&Ring, u32, [i32; 3]),
) {
    let (outer, mut block) = div_rem_unless_below(unit.first_k / tile.gemm_k, p.outer_blocks);
    batch[0] += (outer * outer_batch) as i32;
    // All of the above may run beside the kernel before this one.
    schedule::wait_for_predecessors();
    let mut left = unit.k_blocks;
    while left > 0 {
        let of_outer = p.outer_blocks - block;
        let n = if left < of_outer { left } else { of_outer };
        let (mut k, end) = (block * tile.gemm_k, (block + n) * tile.gemm_k);
        while k < end {
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            if warp::elect() {
                load_block(ring, k, batch);
            }
            ring.advance();
            k += tile.gemm_k;
        }
        batch[0] += outer_batch as i32;
        block = 0;
        left -= n;
    }
}

/// How the second-level cache is to treat what is read.
#[inline(always)]
fn policy(p: &MatmulTmaParams) -> u64 {
    tma::policy_of(p.keep != 0)
}

/// Batch coordinates of a map, innermost first: 0 where the operand repeats.
#[inline(always)]
pub(super) fn coordinates(batch: [u32; 3], steps: [u32; 3]) -> [i32; 3] {
    [(batch[2] * steps[2]) as i32, (batch[1] * steps[1]) as i32, (batch[0] * steps[0]) as i32]
}

/// Loads the tile of one operand into this block, or a part of it into all that share it: in one copy where k is
/// contiguous, else panel by panel.
///
/// # Safety
/// As [`run`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn load(
    mn_major: bool,
    width: u32,
    sharers: Sharers,
    to: u32,
    map: MapAddress,
    bar: u32,
    policy: u64,
    mn: u32,
    k: u32,
    [inner, middle, outer]: [i32; 3],
) {
    let copy = |to: u32, at: [i32; 5]| {
        if sharers.log2 > 0 {
            let mask = ((1 << sharers.count()) - 1) << sharers.first;
            tma::load_5d_multicast_cached(to, map, bar, mask as u16, policy, at);
        } else {
            tma::load_5d_cached(to, map, bar, policy, at);
        }
    };
    for_each_box(mn_major, [width, MatmulTile::PANEL], mn, k, |at, [x, y]| copy(to + at, [x, y, inner, middle, outer]));
}

/// Brings the tile of one operand to the second-level cache, before the kernels before are done: what they still write
/// of it passes there. With an outer index of the sums it may be another tile, which does no harm.
///
/// # Safety
/// As [`run`].
#[inline(always)]
unsafe fn prefetch(mn_major: bool, width: u32, map: MapAddress, mn: u32, k: u32, [inner, middle, outer]: [i32; 3]) {
    for_each_box(mn_major, [width, MatmulTile::PANEL], mn, k, |_, [x, y]| {
        tma::prefetch_5d(map, [x, y, inner, middle, outer])
    });
}

/// The boxes of a tile of so many rows or columns, with so many of them in a panel: where they lie behind its begin, and
/// their first two coordinates.
#[inline(always)]
fn for_each_box(mn_major: bool, [width, panel]: [u32; 2], mn: u32, k: u32, mut f: impl FnMut(u32, [i32; 2])) {
    if mn_major {
        let mut first = 0;
        while first < width {
            // 64 elements of k for each of a panel's columns.
            f(first * ROW_BYTES, [(mn + first) as i32, k as i32]);
            first += panel;
        }
    } else {
        f(0, [k as i32, mn as i32]);
    }
}

/// Computes tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<P: Product<R, S>, const R: usize, const S: usize>(
    p: &MatmulTmaParams,
    maps: &Maps,
    mut units: Units,
    mut ring: Ring,
    sharers: Sharers,
    consumer: u32,
) {
    // What is in c may be theirs.
    schedule::wait_for_predecessors();
    let mut turn = 0;
    let mut queue = ring.queue();
    if P::TILE.in_turns && consumer > 0 {
        // The first consumer begins.
        arrive_named(TURN, 2 * WARPGROUP);
    }
    while units.is_left(p) {
        if P::TILE.in_turns && turn != consumer {
            ring.skip(units.next(p).k_blocks);
            units.take(&mut queue);
        } else {
            compute::<P, R, S>(p, maps, &mut units, &mut queue, &mut ring, sharers, consumer);
        }
        turn ^= 1;
    }
    // The next kernel's blocks take the shared memory over as soon as this block ends.
    tma::wait_group_read::<0>();
}

/// Computes the next tile; there is one left.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
unsafe fn compute<P: Product<R, S>, const R: usize, const S: usize>(
    p: &MatmulTmaParams,
    maps: &Maps,
    units: &mut Units,
    queue: &mut Queue,
    ring: &mut Ring,
    sharers: Sharers,
    consumer: u32,
) {
    // The leading distance is that between panels; where k is contiguous the hardware ignores it.
    let leading = |mn_major: bool| if mn_major { PANEL_BYTES } else { 16 };
    let lane = thread_idx_x() % 32;
    let first_row = P::TILE.first_row(consumer);
    // 64 rows are 64 rows of 128 bytes, or a panel of as many.
    let a = ring.base + first_row / MatmulTile::SUBTILE * PANEL_BYTES;
    let a = descriptor(a, leading(P::A_IS_MN_MAJOR), SWIZZLE_PERIOD, Swizzle::B128);
    let b = if P::TILE.has_resident_b() {
        resident::first_descriptor::<P, R, S>(ring)
    } else {
        descriptor(ring.base + P::TILE.a_bytes(), leading(P::B_IS_MN_MAJOR), SWIZZLE_PERIOD, Swizzle::B128)
    };
    let products = |d: &mut [[f32; R]; S], ring: &Ring, block: u32, accumulate: u32| {
        let b = if P::TILE.has_resident_b() { resident::wait(ring, b, block) } else { ring.of_stage(b) };
        mbarrier::wait(ring.full(), ring.parity);
        P::multiply(d, ring.of_stage(a), b, accumulate);
    };
    if P::TILE.in_turns {
        sync_named(TURN + consumer, 2 * WARPGROUP);
    }
    let mut d: [[f32; R]; S] = core::mem::zeroed();
    // The first block apart, which there is: its products overwrite the sums, and nothing else sets them.
    products(&mut d, ring, 0, 0);
    let mut freed = ring.empty();
    ring.advance();
    // Beside them: where the unit is takes several divisions.
    let Unit { place, slice, k_blocks, .. } = units.next(p);
    units.take(queue);
    let k_blocks = warp::uniform(k_blocks);
    let mut block = 1;
    while block < k_blocks {
        products(&mut d, ring, block, 1);
        // One block of products stays queued; the one before it is done and has read its stage.
        wgmma_wait!(d = &mut d[0], registers = 0, pending = 1);
        release(sharers, freed, lane);
        freed = ring.empty();
        ring.advance();
        block += 1;
    }
    if P::TILE.in_turns {
        // The other one's products may queue behind ours.
        arrive_named(TURN + 1 - consumer, 2 * WARPGROUP);
    }
    P::finish(&mut d);
    release(sharers, freed, lane);
    let panels = ring.base + P::TILE.panels_at() + consumer * P::TILE.panel_buffers() * P::TILE.panel_bytes();
    let out = epilogue::Out::new(p, maps.c, place, first_row, slice, sharers, consumer, panels);
    epilogue::leave::<P, R>(p, d.get_unchecked_mut(0), &out, ring.base);
    if S > 1 {
        epilogue::leave::<P, R>(p, d.get_unchecked_mut(S - 1), &out.below(), ring.base);
    }
}

/// Signals that this warp has read a stage, to the producers of all blocks that load into it.
///
/// # Safety
/// As [`consume`].
#[inline(always)]
pub(super) unsafe fn release(sharers: Sharers, empty: u32, lane: u32) {
    if sharers.in_cluster {
        // Also where this block is alone: one way is shorter than asking which.
        if lane < sharers.count() {
            mbarrier::arrive_remote_after_reads(empty, sharers.first + lane);
        }
    } else if lane == 0 {
        mbarrier::arrive(empty);
    }
}
