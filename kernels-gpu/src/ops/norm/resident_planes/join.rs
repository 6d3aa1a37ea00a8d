//! The warps that join the parts of a team.

use super::passes::origin;
use super::{Block, KNOWN, LANES, SUMMED, Turn, WARPS};
use crate::math::element::Element;
use crate::math::vector::for_each;
use crate::ops::norm::channelwise::resident::Pass;
use cuda_std::barrier::sync_named;
use cuda_std::memory::X2;
use cuda_std::thread::lane_id;
use cuda_std::{atomics, mbarrier, shared, warp};
use kernel_abi::ops::norm::resident_planes::{FACTORS, JOINERS};

/// The barrier of the warps that join.
const MEET: u32 = 1;
/// Parts that a lane has under way.
const PARTS: usize = 5;

/// Joins the parts of every [`JOINERS`]-th group from the `first_group`-th on, or of every so many as there are stages: who is
/// ahead by more would take a barrier's phase before for its own. Those of the block that is done last clear the team's
/// flags. One warp.
#[inline(always)]
pub(super) unsafe fn run<T: Element<Acc = f32>, P: Pass>(b: &Block<'_>, first_group: u32) {
    let p = b.p;
    // Lanes with the same channel are a group apart.
    let (of_group, first) = (lane_id() & (p.group - 1), lane_id() >> p.group.trailing_zeros());
    let step = LANES >> p.group.trailing_zeros();
    let joiners = if JOINERS < p.n_stages { JOINERS } else { p.n_stages };
    let mut turn = Turn::first();
    turn.advance(b, first_group);
    while turn.k < b.n_groups && first_group < joiners {
        let (slot, channel) = (turn.slot(b), b.channel(turn.k) + of_group);
        let parameters = P::parameters::<T>(&p.channels, channel, b.block == 0);
        mbarrier::wait(b.barrier(SUMMED, turn.stage), turn.parity);
        leave_part::<T, P>(b, &turn, parameters);
        let mut block = lane_id();
        while block < p.blocks {
            while atomics::load_acquire_u64(b.flag(slot, block)) != p.tag + u64::from(turn.k) + 1 {}
            block += LANES;
        }
        warp::sync_warp();
        let load = #[inline(always)]
        |block: u32| {
            let at = b.part(slot, block) * u64::from(p.group) + u64::from(of_group);
            let X2(part) = *((p.channels.partials + 8 * at) as *const X2<f32>);
            part
        };
        let reference = if P::RELATIVE { load(0)[0] } else { 0.0 };
        let mut sums = [0.0f32; 2];
        let mut block = first;
        while block < p.blocks {
            let mut parts = [[0.0f32; 2]; PARTS];
            for_each!(J < PARTS, {
                let block = block + J as u32 * step;
                if block < p.blocks {
                    parts[J] = load(block);
                }
            });
            for_each!(J < PARTS, {
                let block = block + J as u32 * step;
                if block < p.blocks {
                    let count = (p.units_of(block) * p.unit_elems) as f32;
                    let [a, c] = P::share(count, reference, parts[J]);
                    sums = [sums[0] + a, sums[1] + c];
                }
            });
            block += PARTS as u32 * step;
        }
        warp::sync_warp();
        let mut distance = LANES / 2;
        while distance >= p.group {
            sums = sums.map(|v| v + warp::shuffle_xor_f32(v, distance));
            distance /= 2;
        }
        let factors = P::finish::<T>(&p.channels, channel, first == 0, b.block == 0, reference, sums, parameters);
        if first == 0 {
            const ALL: usize = FACTORS as usize;
            for_each!(I < ALL, {
                shared::store_f32(b.factor(turn.stage, I as u32, of_group), factors[I]);
            });
            mbarrier::arrive(b.barrier(KNOWN, turn.stage));
        }
        turn.advance(b, joiners);
    }
    // What others of this block wait for has been read too.
    sync_named(MEET, JOINERS * LANES);
    if first_group == 0 {
        clear_flags(b);
    }
}

/// Joins what warps of this block have added up, and leaves it to the team.
#[inline(always)]
unsafe fn leave_part<T: Element<Acc = f32>, P: Pass>(b: &Block<'_>, turn: &Turn, parameters: [f32; 3]) {
    let p = b.p;
    let slot = turn.slot(b);
    // Lanes that have a channel of the group.
    let channel = lane_id();
    if channel < p.group {
        let warps = WARPS >> p.group.trailing_zeros();
        let [mut first, mut second] = [0.0f32; 2];
        let mut warp = 0;
        while warp < warps {
            let of_warp = shared::load_x2(b.sums(turn.stage, channel * warps + warp)).map(f32::from_bits);
            (first, second) = (first + of_warp[0], second + of_warp[1]);
            warp += 1;
        }
        let count = (b.n_units * p.unit_elems) as f32;
        let begin = b.stage(turn.stage) + channel * (p.unit_bytes >> p.group.trailing_zeros());
        let to = p.channels.partials + 8 * (b.part(slot, b.block) * u64::from(p.group) + u64::from(channel));
        let pivot = if P::BACKWARD { 0.0 } else { parameters[2] };
        *(to as *mut X2<f32>) = X2(P::part(count, origin::<T, P>(b, begin, 0.0) - pivot, [first, second]));
    }
    // Before the flag that every block has seen when it counts.
    if b.block == 0 && turn.k == 0 && lane_id() == 0 {
        *(p.counters as *mut u32).add(b.team as usize) = 0;
    }
    warp::sync_warp();
    if lane_id() == 0 {
        atomics::store_release_u64(b.flag(slot, b.block), p.tag + u64::from(turn.k) + 1);
    }
}

/// Clears the flags of the team, if its other blocks are done: the next run may have the same number.
#[inline(always)]
unsafe fn clear_flags(b: &Block<'_>) {
    let p = b.p;
    let mut done = 0;
    if lane_id() == 0 {
        done = atomics::add_acquire_release_u32((p.counters as *mut u32).add(b.team as usize), 1);
    }
    if warp::uniform(done) == p.blocks - 1 {
        let mut flag = lane_id();
        while flag < p.slots() * p.blocks {
            *b.flag(0, flag) = 0;
            flag += LANES;
        }
    }
}
