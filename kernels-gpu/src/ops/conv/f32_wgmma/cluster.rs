//! `wgrad` without a workspace: the blocks of a cluster take a part each of the sum of the same tile, and add their sums up
//! through each other's shared memory, in the order of their ranks.
//!
//! Grid: a cluster of `splits` blocks for each tile. Block and shared memory are those of [`wgrad`](super::wgrad); sums are
//! left where the stages were.

use super::wgrad::{Maps, Out, Work, consume, convert, produce, store_quad};
use super::{CONSUMER_REGISTERS, CONVERTER_REGISTERS, LOADER_REGISTERS, PartsProduct};
use crate::ops::conv::im2col_wgmma::{Ring, WARPGROUP, warpgroup};
use cuda_std::barrier::sync_named;
use cuda_std::thread::thread_idx_x;
use cuda_std::{cluster, schedule, shared, tma, warp};
use kernel_abi::ops::conv::im2col_wgmma::{CONSUMERS, ConvWgradParams};

/// The named barrier of all consumers.
const ALL_CONSUMERS: u32 = 1;

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches clusters of `splits` blocks, one for each tile, of
/// `TILE.threads()` threads with `TILE.smem_bytes()` bytes of shared memory.
#[inline(always)]
pub(super) unsafe fn run<P: PartsProduct<R>, const R: usize>(p: &ConvWgradParams, maps: Maps) {
    if thread_idx_x() == 0 {
        tma::prefetch_map(maps.x);
    }
    share::<P, R>(
        p,
        maps,
        #[inline(always)]
        |ring, work| {
            // SAFETY: this function's.
            unsafe { convert(p, P::TILE, ring, work) }
        },
    )
}

/// The roles of a block, of which one takes x apart.
///
/// # Safety
/// As [`run`]; all threads of a warpgroup call `take_apart`.
#[inline(always)]
pub(super) unsafe fn share<P: PartsProduct<R>, const R: usize>(
    p: &ConvWgradParams,
    maps: Maps,
    take_apart: impl FnOnce(Ring, Work),
) {
    let ring = Ring::new(P::TILE);
    if thread_idx_x() == 0 {
        tma::prefetch_map(maps.dy);
    }
    ring.start(1);
    // Tiles of a part stand behind those of the one before.
    let work = Work { at: cluster::rank() * p.tiles() + cluster::cluster_idx_x(), step: p.tiles() * p.splits };
    let warpgroup = warpgroup();
    if warpgroup == 0 {
        schedule::release_registers::<LOADER_REGISTERS>();
        if thread_idx_x() == 0 {
            produce(p, P::TILE, &maps, ring, work);
        }
        warp::sync_warp();
        // The meeting of all sums.
        cluster::sync();
    } else if warpgroup == 1 {
        schedule::release_registers::<CONVERTER_REGISTERS>();
        take_apart(ring, work);
        cluster::sync();
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        consume::<P, R, true>(p, ring, warpgroup - 2, work);
    }
    // The other blocks may still read our sums.
    cluster::sync();
}

/// Adds up the sums of the cluster's blocks, and of their consumers where those compute stages in turns, and writes them:
/// each thread leaves its own, four at a time, at a place of its own; then the blocks take the fours in turn, and add up
/// what lies at the same place in all of them.
///
/// # Safety
/// As [`run`]; all consumers, when all that is loaded to `base` has been read by this one.
#[inline(always)]
pub(super) unsafe fn add_up<P: PartsProduct<R>, const R: usize>(out: &Out<'_>, sums: &[f32; R], base: u32) {
    let threads = CONSUMERS * WARPGROUP;
    let own = base + out.thread * 16;
    let (consumer, alike) = if P::TILE.in_turns { (out.thread / WARPGROUP, CONSUMERS) } else { (0, 1) };
    // The other consumer may still be reading the last stage.
    sync_named(ALL_CONSUMERS, threads);
    let mut quad = 0;
    while quad < R / 4 {
        let bits = |i: usize| sums.get_unchecked(4 * quad + i).to_bits();
        shared::store_x4(own + quad as u32 * threads * 16, [bits(0), bits(1), bits(2), bits(3)]);
        quad += 1;
    }
    cluster::sync();
    let thread = out.thread - consumer * WARPGROUP;
    let mut quad = cluster::rank() * alike + consumer;
    while quad < R as u32 / 4 {
        let from = base + (quad * threads + thread) * 16;
        let mut sum = [0.0f32; 4];
        let mut i = 0;
        while i < out.p.splits * alike {
            let at = cluster::map_address(from + i % alike * WARPGROUP * 16, i / alike);
            let part = cluster::load_x4(at).map(f32::from_bits);
            sum = [sum[0] + part[0], sum[1] + part[1], sum[2] + part[2], sum[3] + part[3]];
            i += 1;
        }
        store_quad(out.p, P::TILE, out.place, thread, quad, sum);
        quad += out.p.splits * alike;
    }
}
