//! Batch norm of planar tensors that are read once: teams of blocks that stay take channel after channel, whose planes lie
//! in shared memory from their sums to their results. See [`kernel_abi::ops::norm::resident_planes`] for who has what.
//!
//! Each block is a line of five roles with a ring of stages, and each role is at another channel:
//!
//! | role | warps | |
//! | --- | --- | --- |
//! | bring | 1 | copies the block's units of x, and of what goes with it, to the next stage that is empty |
//! | add up | 8 | leaves the channel's sums in shared memory, each warp its own |
//! | join | 4, in turns | leaves the block's part of the sums in the workspace, and a flag; waits for the flags of the team, joins its parts, leaves the channel's factors in shared memory |
//! | write | 8 | overwrites the stage with the results |
//! | send | 1 | copies them to memory, and says that the stage is empty |
//!
//! Parts are joined in the order of blocks, by every block: results are the same in all of them, and from run to run.
//! Forward, they are joined by Chan's formula for many parts (Chan, Golub and LeVeque 1979), relative to the first block's
//! mean: M₂ = Σ M₂ᵦ + Σ nᵦ dᵦ² − (Σ nᵦ dᵦ)² / N.
//!
//! Flags begin with a random number, so that nobody clears the workspace before; the block of a team that is done last
//! clears its flags. Its counter is set to 0 before the first block's first flag says so.
//!
//! Grid: blocks of a team along x, teams along y, all resident. Block: [`THREADS`] threads. Shared memory: the stages of the
//! ring in the dynamic area, the rest as [`Shared`] says.

mod join;
mod passes;
mod walk;

use crate::math::element::Element;
use crate::math::vector::for_each;
use crate::ops::norm::channelwise::resident::{Backward, Forward, Pass};
use cuda_std::barrier::fence_proxy_async_shared;
use cuda_std::thread::{block_idx_x, block_idx_y, lane_id, sync_threads, thread_idx_x};
use cuda_std::tma;
use cuda_std::{mbarrier, schedule, shared, warp};
use kernel_abi::ops::norm::channelwise::tensor;
use kernel_abi::ops::norm::resident_planes::{FACTORS, MAX_GROUP, MAX_STAGES, ROLE, ResidentPlanesParams, STAGE_ALIGN};
use passes::{known_ahead, origin};
use walk::Walk;

const LANES: u32 = 32;
/// Warps that add up, and that write.
const WARPS: u32 = ROLE / LANES;
/// Tensors that may be brought, in the order of their places in a stage.
const BROUGHT: [usize; 3] = [tensor::X, tensor::DY, tensor::Y];

/// A block's arrays.
pub struct Shared {
    /// Those of a kind, for all stages, then those of the next kind.
    pub barriers: *mut u64,
    /// `[stage][warp][which]`.
    pub sums: *mut f32,
    /// `[stage][which][channel of the group]`.
    pub factors: *mut f32,
}

/// Statistics and y.
#[inline(always)]
pub unsafe fn forward<T: Element<Acc = f32>, const V: usize>(p: &ResidentPlanesParams, shared: Shared) {
    run::<T, V, Forward>(p, shared);
}

/// dscale, dbias, dx and dz.
#[inline(always)]
pub unsafe fn backward<T: Element<Acc = f32>, const V: usize>(p: &ResidentPlanesParams, shared: Shared) {
    run::<T, V, Backward>(p, shared);
}

#[inline(always)]
unsafe fn run<T: Element<Acc = f32>, const V: usize, P: Pass>(p: &ResidentPlanesParams, shared: Shared) {
    let b = Block::new(p, &shared);
    if thread_idx_x() == 0 {
        let mut stage = 0;
        while stage < p.n_stages {
            mbarrier::init(b.barrier(FULL, stage), 1);
            mbarrier::init(b.barrier(SUMMED, stage), WARPS);
            mbarrier::init(b.barrier(KNOWN, stage), p.group);
            mbarrier::init(b.barrier(DONE, stage), WARPS);
            mbarrier::init(b.barrier(EMPTY, stage), 1);
            stage += 1;
        }
        mbarrier::fence_init();
    }
    sync_threads();
    schedule::wait_for_predecessors();
    let warp = warp::uniform(thread_idx_x() / LANES);
    if warp < WARPS {
        match (P::BACKWARD, p.tensors) {
            (false, _) => add_up::<T, V, P, 1, 4>(&b),
            (true, 2) => add_up::<T, V, P, 2, 2>(&b),
            _ => add_up::<T, V, P, 3, 2>(&b),
        }
    } else if warp < 2 * WARPS {
        match p.tensors {
            1 => write::<T, V, P, 1, 4>(&b),
            2 => write::<T, V, P, 2, 2>(&b),
            _ => write::<T, V, P, 3, 2>(&b),
        }
    } else if warp == 2 * WARPS {
        bring::<T>(&b);
    } else if warp == 2 * WARPS + 1 {
        send::<T, P>(&b);
    } else {
        join::run::<T, P>(&b, warp - 2 * WARPS - 2);
    }
}

/// What barriers of a stage say: that it is full, its sums are there, its factors are known, its results are there, and it is
/// empty.
const FULL: u32 = 0;
const SUMMED: u32 = 1;
const KNOWN: u32 = 2;
const DONE: u32 = 3;
const EMPTY: u32 = 4;

/// What all threads of a block know.
struct Block<'a> {
    p: &'a ResidentPlanesParams,
    team: u32,
    block: u32,
    /// Groups of the team.
    n_groups: u32,
    /// Units of the block, and the first of them.
    n_units: u32,
    first_unit: u32,
    ring: u32,
    stage_bytes: u32,
    barriers: u32,
    sums: u32,
    factors: u32,
}

impl<'a> Block<'a> {
    #[inline(always)]
    fn new(p: &'a ResidentPlanesParams, shared: &Shared) -> Self {
        let (block, team) = (block_idx_x(), block_idx_y());
        Block {
            p,
            team,
            block,
            n_groups: p.groups_of(team),
            n_units: p.units_of(block),
            first_unit: p.first_unit_of(block),
            ring: (shared::dynamic_address() + STAGE_ALIGN - 1) & !(STAGE_ALIGN - 1),
            stage_bytes: p.tensors * p.pitch,
            barriers: shared::address(shared.barriers),
            sums: shared::address(shared.sums),
            factors: shared::address(shared.factors),
        }
    }

    #[inline(always)]
    fn barrier(&self, which: u32, stage: u32) -> u32 {
        self.barriers + 8 * (which * MAX_STAGES + stage)
    }

    #[inline(always)]
    fn stage(&self, stage: u32) -> u32 {
        self.ring + stage * self.stage_bytes
    }

    /// The first channel of the team's group `k`.
    #[inline(always)]
    fn channel(&self, k: u32) -> u32 {
        (self.team + k * self.p.teams) * self.p.group
    }

    /// Which of a team's parts, or flags, is that of a block of group `k`.
    #[inline(always)]
    fn part(&self, slot: u32, block: u32) -> u64 {
        u64::from((self.team * self.p.slots() + slot) * self.p.blocks + block)
    }

    #[inline(always)]
    fn flag(&self, slot: u32, block: u32) -> *mut u64 {
        (self.p.flags + 8 * self.part(slot, block)) as *mut u64
    }

    /// Where the sums of a warp are.
    #[inline(always)]
    fn sums(&self, stage: u32, warp: u32) -> u32 {
        self.sums + 8 * (stage * WARPS + warp)
    }

    /// Where a factor of a channel of the group is.
    #[inline(always)]
    fn factor(&self, stage: u32, which: u32, channel: u32) -> u32 {
        self.factors + 4 * ((stage * FACTORS + which) * MAX_GROUP + channel)
    }

    /// Where a unit of the group that begins with a channel lies in a tensor.
    #[inline(always)]
    fn address<T>(&self, tensor: usize, channel: u32, unit: u32) -> u64 {
        let p = &self.p.channels;
        let (image, piece) = self.p.pieces.div_rem(self.first_unit + unit);
        // SAFETY: one of the tensors.
        let (address, [of_image, _, of_channel]) =
            unsafe { (*p.addresses.get_unchecked(tensor), *p.strides.get_unchecked(tensor)) };
        let offset = i64::from(image) * of_image + i64::from(channel) * of_channel;
        address + offset as u64 * size_of::<T>() as u64 + u64::from(piece * self.p.unit_bytes)
    }
}

/// Where a role stands: a group of the team, and its stage.
struct Turn {
    k: u32,
    stage: u32,
    parity: u32,
}

impl Turn {
    #[inline(always)]
    fn first() -> Self {
        Turn { k: 0, stage: 0, parity: 0 }
    }

    #[inline(always)]
    fn advance(&mut self, b: &Block<'_>, groups: u32) {
        self.k += groups;
        self.stage += groups;
        while self.stage >= b.p.n_stages {
            self.stage -= b.p.n_stages;
            self.parity ^= 1;
        }
    }

    /// Where the parts of the group are.
    #[inline(always)]
    fn slot(&self, b: &Block<'_>) -> u32 {
        self.stage + self.parity * b.p.n_stages
    }
}

/// Brings group after group. One warp.
#[inline(always)]
unsafe fn bring<T>(b: &Block<'_>) {
    let p = b.p;
    let bytes = p.tensors * b.n_units * p.unit_bytes;
    let mut turn = Turn::first();
    while turn.k < b.n_groups {
        let (full, channel) = (b.barrier(FULL, turn.stage), b.channel(turn.k));
        mbarrier::wait(b.barrier(EMPTY, turn.stage), turn.parity ^ 1);
        if lane_id() == 0 {
            mbarrier::arrive_expect_bytes(full, bytes);
        }
        warp::sync_warp();
        let mut unit = lane_id();
        while unit < b.n_units {
            let to = b.stage(turn.stage) + unit * p.unit_bytes;
            const ALL: usize = BROUGHT.len();
            for_each!(I < ALL, {
                if (I as u32) < p.tensors {
                    let from = b.address::<T>(BROUGHT[I], channel, unit) as *const u8;
                    tma::load_bytes(to + I as u32 * p.pitch, from, p.unit_bytes, full);
                }
            });
            unit += LANES;
        }
        turn.advance(b, 1);
    }
}

/// Adds up group after group. `N` tensors are read, `K` vectors of each under way.
#[inline(always)]
unsafe fn add_up<T: Element<Acc = f32>, const V: usize, P: Pass, const N: usize, const K: usize>(b: &Block<'_>) {
    let p = b.p;
    let walk = Walk::new::<T, V>(b, thread_idx_x());
    let mut turn = Turn::first();
    let mut known = known_ahead::<P>(b, walk.channel, 0);
    while turn.k < b.n_groups {
        let ahead = known;
        if turn.k + 1 < b.n_groups {
            known = known_ahead::<P>(b, walk.channel, turn.k + 1);
        }
        mbarrier::wait(b.barrier(FULL, turn.stage), turn.parity);
        let stage = b.stage(turn.stage);
        let origin = [origin::<T, P>(b, stage + walk.begin, ahead); V];
        let mut sums = [[0.0f32; V]; 2];
        walk.visit::<K>(
            #[inline(always)]
            |offsets, left| {
                let words = walk::load::<T, V, N, K>(stage, p.pitch, offsets, left);
                for_each!(J < K, {
                    if (J as u32) < left {
                        P::add::<T, V, N>(&p.channels, &origin, words.get_unchecked(J), &mut sums);
                    }
                });
            },
        );
        let mut own = [0.0f32; 2];
        for_each!(I < V, {
            own[0] += *sums[0].get_unchecked(I);
            own[1] += *sums[1].get_unchecked(I);
        });
        warp::sync_warp();
        let own = own.map(warp::sum_f32);
        if lane_id() == 0 {
            shared::store_x2(b.sums(turn.stage, thread_idx_x() / LANES), own.map(f32::to_bits));
            mbarrier::arrive(b.barrier(SUMMED, turn.stage));
        }
        turn.advance(b, 1);
    }
}

/// Overwrites stage after stage with results. `N` tensors are read, `K` vectors of each under way.
#[inline(always)]
unsafe fn write<T: Element<Acc = f32>, const V: usize, P: Pass, const N: usize, const K: usize>(b: &Block<'_>) {
    let p = b.p;
    let walk = Walk::new::<T, V>(b, thread_idx_x() - ROLE);
    let mut turn = Turn::first();
    while turn.k < b.n_groups {
        mbarrier::wait(b.barrier(FULL, turn.stage), turn.parity);
        mbarrier::wait(b.barrier(KNOWN, turn.stage), turn.parity);
        let stage = b.stage(turn.stage);
        let mut factors = [[0.0f32; V]; FACTORS as usize];
        const ALL: usize = FACTORS as usize;
        for_each!(I < ALL, {
            factors[I] = [shared::load_f32(b.factor(turn.stage, I as u32, walk.channel)); V];
        });
        walk.visit::<K>(
            #[inline(always)]
            |offsets, left| {
                let words = walk::load::<T, V, N, K>(stage, p.pitch, offsets, left);
                for_each!(J < K, {
                    if (J as u32) < left {
                        passes::write::<T, P, V, N>(
                            b,
                            &factors,
                            words.get_unchecked(J),
                            stage + *offsets.get_unchecked(J),
                        );
                    }
                });
            },
        );
        fence_proxy_async_shared();
        warp::sync_warp();
        if lane_id() == 0 {
            mbarrier::arrive(b.barrier(DONE, turn.stage));
        }
        turn.advance(b, 1);
    }
}

/// Sends stage after stage. One warp.
#[inline(always)]
unsafe fn send<T, P: Pass>(b: &Block<'_>) {
    let p = b.p;
    let mut turn = Turn::first();
    while turn.k < b.n_groups {
        let channel = b.channel(turn.k);
        mbarrier::wait(b.barrier(DONE, turn.stage), turn.parity);
        let mut unit = lane_id();
        while unit < b.n_units {
            let from = b.stage(turn.stage) + unit * p.unit_bytes;
            tma::store_bytes(b.address::<T>(tensor::OUT, channel, unit) as *mut u8, from, p.unit_bytes);
            if P::BACKWARD && p.channels.addresses[tensor::DZ] != 0 {
                let to = b.address::<T>(tensor::DZ, channel, unit) as *mut u8;
                tma::store_bytes(to, from + p.pitch, p.unit_bytes);
            }
            unit += LANES;
        }
        tma::commit_group();
        // Before the stage is filled again, or by another kernel's blocks behind this one.
        tma::wait_group_read::<0>();
        warp::sync_warp();
        if lane_id() == 0 {
            mbarrier::arrive(b.barrier(EMPTY, turn.stage));
        }
        turn.advance(b, 1);
    }
}
