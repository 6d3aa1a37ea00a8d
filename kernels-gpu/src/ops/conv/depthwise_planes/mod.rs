//! Depthwise convolution of 16-bit packed planes on Hopper, by tensor cores: runs of planes stream through shared memory
//! by the copy engine, and so do the results.
//!
//! The planes of some neighbouring channels of an image are one run of memory, whatever the rows are aligned to. A block
//! goes from job to job, such runs of some images; one warp has them brought, some jobs ahead, one has results taken
//! away, and the others multiply. A computing warp has one of the channels, whose filter stays in its registers until
//! the block comes to other channels.
//!
//! Products are those of `depthwise/toeplitz.rs`: a row of the filter is a Toeplitz matrix of source columns × 8 target
//! columns. Of the 16 target rows of a product a lane has two, which are neighbours here: their windows share all rows
//! of the source but the first and the last, or two of each with stride 2, so that a lane reads `R + STRIDE` rows in place
//! of `2 · R`. Where planes have so few rows, a product has those of several images.
//!
//! Grid: one-dimensional. Block: [`DEPTHWISE_PLANES_THREADS`](kernel_abi::ops::conv::depthwise_planes::DEPTHWISE_PLANES_THREADS).

mod entry;
mod products;

use super::depthwise::{Taps, matrices};
use crate::math::index::div_rem_u32 as div_rem;
use crate::math::tensor_core::TensorCore;
use cuda_std::barrier::{fence_proxy_async_shared, sync_threads};
use cuda_std::thread::{block_idx_x, lane_id, thread_idx_x, warp_idx};
use cuda_std::{mbarrier, schedule, shared, tma, warp};
use kernel_abi::ops::conv::depthwise_planes::{
    ConvDepthwisePlanesParams, DEPTHWISE_PLANES_MAX_SLOTS, DEPTHWISE_PLANES_RESULTS, DEPTHWISE_PLANES_WARPS,
    DepthwisePlanesTile,
};
use products::{Place, Products};

/// Registers of threads that move planes, which leave theirs to those that compute.
const MOVING_REGISTERS: u32 = 32;
const COMPUTING_REGISTERS: u32 = 112;
/// Bytes of an element.
const ELEMENT_BYTES: u32 = 2;

/// The kernel. `BLOCKS` blocks of 8 source columns meet 8 target columns, `ROWS` source rows two target rows.
///
/// # Safety
/// The host passes addresses and extents of live tensors, and launches the threads and the shared memory of the tile.
#[inline(always)]
unsafe fn run<
    T: TensorCore,
    const R: usize,
    const STRIDE: usize,
    const BLOCKS: usize,
    const ROWS: usize,
    const ODD_SOURCE: bool,
    const ODD_TARGET: bool,
>(
    p: &ConvDepthwisePlanesParams,
) {
    schedule::launch_dependents();
    let rings = Rings::new(p);
    if thread_idx_x() == 0 {
        rings.init();
    }
    sync_threads();
    schedule::wait_for_predecessors();
    let block = block_idx_x();
    let more = if block < p.jobs_left { block } else { p.jobs_left };
    let first = block * p.jobs + more;
    let jobs = [first, first + p.jobs + u32::from(block < p.jobs_left)];
    let warp = warp::uniform(warp_idx());
    if warp < DEPTHWISE_PLANES_WARPS {
        schedule::acquire_registers::<COMPUTING_REGISTERS>();
        compute::<T, R, STRIDE, BLOCKS, ROWS, ODD_SOURCE, ODD_TARGET>(p, &rings, jobs, warp);
        return;
    }
    schedule::release_registers::<MOVING_REGISTERS>();
    if warp == DEPTHWISE_PLANES_WARPS {
        bring(p, &rings, jobs);
    } else if warp == DEPTHWISE_PLANES_WARPS + 1 {
        send(p, &rings, jobs);
    }
}

/// Places in shared memory that jobs take in turns.
#[derive(Clone, Copy)]
struct Ring {
    /// The first place.
    at: u32,
    /// Bytes from a place to the next one.
    place_bytes: u32,
    places: u32,
    /// The barrier of the first place that is full when a job's data are there; the next one's is 8 bytes behind it.
    full: u32,
    /// The same of places that are free again.
    free: u32,
}

/// A place of a ring, and the parity of its phase.
#[derive(Clone, Copy)]
struct Turn {
    place: u32,
    parity: u32,
}

impl Turn {
    const FIRST: Self = Turn { place: 0, parity: 0 };

    #[inline(always)]
    fn advance(&mut self, ring: &Ring) {
        self.place += 1;
        if self.place == ring.places {
            *self = Turn { place: 0, parity: self.parity ^ 1 };
        }
    }
}

impl Ring {
    #[inline(always)]
    fn place(&self, turn: Turn) -> u32 {
        self.at + turn.place * self.place_bytes
    }

    #[inline(always)]
    unsafe fn wait_full(&self, turn: Turn) {
        mbarrier::wait(self.full + 8 * turn.place, turn.parity);
    }

    /// Waits until what was there the round before is not needed any more; at first, nothing is.
    #[inline(always)]
    unsafe fn wait_free(&self, turn: Turn) {
        mbarrier::wait(self.free + 8 * turn.place, turn.parity ^ 1);
    }
}

/// A block's shared memory.
struct Rings {
    /// What jobs read, and what they write.
    source: Ring,
    target: Ring,
}

impl Rings {
    #[inline(always)]
    fn new(p: &ConvDepthwisePlanesParams) -> Self {
        let barriers = shared::dynamic_address();
        let [source, target] = plane_bytes(p);
        let source_at = barriers + DepthwisePlanesTile::slots_at();
        let source_bytes = p.tile.slot_bytes(source);
        let others = barriers + 16 * DEPTHWISE_PLANES_MAX_SLOTS;
        Rings {
            source: Ring {
                at: source_at + p.tile.gaps[0],
                place_bytes: source_bytes,
                places: p.tile.slots,
                full: barriers,
                free: barriers + 8 * DEPTHWISE_PLANES_MAX_SLOTS,
            },
            target: Ring {
                at: source_at + p.tile.slots * source_bytes,
                place_bytes: p.tile.result_bytes(target),
                places: DEPTHWISE_PLANES_RESULTS,
                full: others,
                free: others + 8 * DEPTHWISE_PLANES_RESULTS,
            },
        }
    }

    /// Makes the barriers, by one thread.
    #[inline(always)]
    unsafe fn init(&self) {
        let mut place = 0;
        while place < self.source.places {
            mbarrier::init(self.source.full + 8 * place, 1);
            mbarrier::init(self.source.free + 8 * place, DEPTHWISE_PLANES_WARPS);
            place += 1;
        }
        let mut place = 0;
        while place < self.target.places {
            mbarrier::init(self.target.full + 8 * place, DEPTHWISE_PLANES_WARPS);
            mbarrier::init(self.target.free + 8 * place, 1);
            place += 1;
        }
        mbarrier::fence_init();
    }
}

/// Bytes of a row of an image of so many rows and columns.
#[inline(always)]
fn row_bytes(dims: [i32; 2]) -> u32 {
    ELEMENT_BYTES * dims[1] as u32
}

/// Bytes of a plane of the source and of the target.
#[inline(always)]
fn plane_bytes(p: &ConvDepthwisePlanesParams) -> [u32; 2] {
    [p.source_dims[0] as u32 * row_bytes(p.source_dims), p.target_dims[0] as u32 * row_bytes(p.target_dims)]
}

/// What a job is of.
struct Job {
    /// The group of channels.
    group: u32,
    /// First channel, and how many there are.
    channel: u32,
    channels: u32,
    /// First image, and how many there are.
    image: u32,
    images: u32,
}

impl Job {
    #[inline(always)]
    fn new(p: &ConvDepthwisePlanesParams, job: u32) -> Self {
        let least = |a: u32, b: u32| if a < b { a } else { b };
        let (group, set) = p.sets.div_rem(job);
        let (channel, image) = (group * p.tile.channels, set * p.tile.images);
        Job {
            group,
            channel,
            channels: least(p.c as u32 - channel, p.tile.channels),
            image,
            images: least(p.n as u32 - image, p.tile.images),
        }
    }

    /// The run of a lane's image: where it begins in a tensor of such planes, and in a place.
    #[inline(always)]
    fn run(&self, p: &ConvDepthwisePlanesParams, plane_bytes: u32, lane: u32) -> (u64, u32) {
        let plane = u64::from(self.image + lane) * u64::from(p.c as u32) + u64::from(self.channel);
        (plane * u64::from(plane_bytes), lane * p.tile.channels * plane_bytes)
    }
}

/// Has the jobs' planes brought, by one warp.
#[inline(always)]
unsafe fn bring(p: &ConvDepthwisePlanesParams, rings: &Rings, [first, end]: [u32; 2]) {
    let [plane_bytes, _] = plane_bytes(p);
    let (ring, lane) = (rings.source, lane_id());
    let mut turn = Turn::FIRST;
    let mut at = first;
    while at < end {
        let job = Job::new(p, at);
        let bytes = job.channels * plane_bytes;
        let (from, to) = job.run(p, plane_bytes, lane);
        let full = ring.full + 8 * turn.place;
        ring.wait_free(turn);
        if lane == 0 {
            mbarrier::arrive_expect_bytes(full, job.images * bytes);
        }
        warp::sync_warp();
        if lane < job.images {
            tma::load_bytes(ring.place(turn) + to, (p.source + from) as *const u8, bytes, full);
        }
        turn.advance(&ring);
        at += 1;
    }
}

/// Has the jobs' results taken away, by one warp.
#[inline(always)]
unsafe fn send(p: &ConvDepthwisePlanesParams, rings: &Rings, [first, end]: [u32; 2]) {
    let [_, plane_bytes] = plane_bytes(p);
    let (ring, lane) = (rings.target, lane_id());
    let mut turn = Turn::FIRST;
    let mut before = 0;
    let mut at = first;
    while at < end {
        let job = Job::new(p, at);
        let (to, from) = job.run(p, plane_bytes, lane);
        ring.wait_full(turn);
        if lane < job.images {
            tma::store_bytes((p.target + to) as *mut u8, ring.place(turn) + from, job.channels * plane_bytes);
        }
        tma::commit_group();
        if at > first {
            // The job before has left, while this one leaves.
            tma::wait_group_read::<1>();
            warp::sync_warp();
            if lane == 0 {
                mbarrier::arrive(ring.free + 8 * before);
            }
        }
        before = turn.place;
        turn.advance(&ring);
        at += 1;
    }
    // Another kernel's blocks take the shared memory over as soon as this block ends.
    tma::wait_group_read::<0>();
}

/// Computes a warp's channel of the jobs.
#[inline(always)]
unsafe fn compute<
    T: TensorCore,
    const R: usize,
    const STRIDE: usize,
    const BLOCKS: usize,
    const ROWS: usize,
    const ODD_SOURCE: bool,
    const ODD_TARGET: bool,
>(
    p: &ConvDepthwisePlanesParams,
    rings: &Rings,
    [first_job, end]: [u32; 2],
    warp: u32,
) {
    let lane = lane_id();
    // Channels are a power of two.
    let in_group = warp & (p.tile.channels - 1);
    let channels_bits = p.tile.channels.trailing_zeros();
    // The warps that share a channel take its bands and parts in turns, and where those are fewer, images too.
    let (of_channel, n_warps) = (warp >> channels_bits, DEPTHWISE_PLANES_WARPS >> channels_bits);
    let n_places = p.tile.bands * p.tile.parts;
    let (first_unit, first_place, step) = if n_places <= n_warps {
        let (first_unit, place) = div_rem(of_channel, n_places);
        (first_unit, place, div_rem(n_warps, n_places).0)
    } else {
        (0, of_channel, 1)
    };
    let is_needed = first_unit < step;
    let mut place = Place::<ROWS>::new::<ODD_SOURCE, ODD_TARGET>(p, STRIDE as i32, in_group, first_place);
    let is_plain = p.alpha == 1.0 && p.beta == 0.0;
    let taps = Taps { w: p.w, strides: p.w_strides, flip: p.flip != 0 };
    let products = Products::<T, R, STRIDE, BLOCKS, ROWS, ODD_SOURCE, ODD_TARGET>::new(p);
    let unit_bytes = plane_bytes(p).map(
        #[inline(always)]
        |bytes| p.unit_images * p.tile.channels * bytes,
    );
    let (mut source, mut target) = (Turn::FIRST, Turn::FIRST);
    let mut w = [[0; BLOCKS]; R];
    let mut group = u32::MAX;
    let mut at = first_job;
    while at < end {
        let job = Job::new(p, at);
        let is_there = is_needed && in_group < job.channels;
        let channel = job.channel + in_group;
        if job.group != group {
            group = job.group;
            // Source columns are counted from an even one.
            w = matrices::<R, STRIDE, BLOCKS>(&taps, p.padding[1] & 1, if is_there { channel } else { 0 });
        }
        rings.source.wait_full(source);
        rings.target.wait_free(target);
        let mut index = first_place;
        while index < n_places && is_there {
            if n_places > n_warps {
                place = Place::new::<ODD_SOURCE, ODD_TARGET>(p, STRIDE as i32, in_group, index);
            }
            let mut unit = first_unit;
            while unit * p.unit_images < job.images {
                let at = [
                    rings.source.place(source) + unit * unit_bytes[0],
                    rings.target.place(target) + unit * unit_bytes[1],
                ];
                let of = [job.image + unit * p.unit_images, channel];
                if is_plain {
                    products.unit::<true>(&w, &mut place, at, of);
                } else {
                    products.unit::<false>(&w, &mut place, at, of);
                }
                unit += step;
            }
            index += n_warps;
        }
        fence_proxy_async_shared();
        warp::sync_warp();
        if lane == 0 {
            mbarrier::arrive(rings.source.free + 8 * source.place);
            mbarrier::arrive(rings.target.full + 8 * target.place);
        }
        source.advance(&rings.source);
        target.advance(&rings.target);
        at += 1;
    }
}
