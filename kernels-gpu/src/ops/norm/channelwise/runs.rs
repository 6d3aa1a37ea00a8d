//! Sums of channels by blocks that go over runs of positions, and dx by blocks that have one run each: for long tensors
//! whose channels are next to one another, and results that are made of x and dy alone.
//!
//! What a thread does for 16 bytes is little beside what it waits for them only while nothing is asked of each of them
//! again: whole runs have no bounds, and the next one's loads replace the words that were just added up. Only positions that
//! make no whole round of runs, the last ones, are asked whether they are there.

use super::backward::{SUM_SLOTS, apply_gradients, gradient_sums_in, holds_mean};
use super::forward::{MOMENT_SLOTS, statistics_in};
use super::join::{join_rows, row_pitch, row_slots};
use super::place::{Place, neighbours, store_where};
use super::rows::pivots;
use crate::math::element::Element;
use crate::math::vector::{for_each, widened};
use cuda_std::thread::{block_dim_x, block_idx_x, block_idx_y, sync_threads};
use cuda_std::{guarded, memory, shared_array};
use kernel_abi::ops::norm::channelwise::{
    ChannelwiseParams, GRADIENT_RUN, GRADIENT_SUM_BLOCK, GRADIENT_SUM_RUN, STATISTICS_BLOCK, STATISTICS_RUN, tensor,
};

/// Numbers of shared memory: of blocks that go over runs, and of those for single elements.
const STATISTICS_SLOTS: usize = most(row_slots(STATISTICS_BLOCK), MOMENT_SLOTS);
const GRADIENT_SLOTS: usize = most(row_slots(GRADIENT_SUM_BLOCK), SUM_SLOTS);

const fn most(a: usize, b: usize) -> usize {
    if a > b { a } else { b }
}

/// A thread of a block that goes over runs: its place, and its row of the block.
struct Walker {
    place: Place,
    row: u32,
}

impl Walker {
    #[inline(always)]
    fn new<const V: usize>(p: &ChannelwiseParams) -> Self {
        let (place, row, _) = Place::of_lane::<V>(p, block_idx_x(), block_idx_y(), block_dim_x());
        Walker { place, row }
    }

    /// Calls `add` with the vectors of some tensors at each of the thread's positions, and with what `begin` makes of those
    /// at one of them; gives that, and how many positions there were.
    ///
    /// # Safety
    /// The thread has channels, the tensors what its positions say, and every part a whole run.
    #[inline(always)]
    unsafe fn walk<T: Element<Acc = f32>, const V: usize, const N: usize, const K: usize, S>(
        &self,
        p: &ChannelwiseParams,
        tensors: [usize; N],
        begin: impl FnOnce(&[[u32; 4]; N]) -> S,
        add: impl Fn(&mut S, &[[u32; 4]; N]),
    ) -> (S, u32) {
        let (s, k, part) = (&p.share, K as u32, self.place.part);
        // Where the next vector lies, bytes to the one behind it, and from behind a run to the next.
        let (mut at, mut step, mut jump) = ([0u64; N], [0u64; N], [0u64; N]);
        for_each!(M < N, {
            let tensor = *tensors.get_unchecked(M);
            let row_bytes = (i64::from(s.rows) * p.strides[tensor][1] * size_of::<T>() as i64) as u64;
            *at.get_unchecked_mut(M) = self.place.address::<T>(p, tensor, 0, part * s.rows * k + self.row);
            *step.get_unchecked_mut(M) = row_bytes;
            *jump.get_unchecked_mut(M) = row_bytes.wrapping_mul(u64::from((s.n_parts - 1) * k));
        });
        let load = #[inline(always)]
        |at: &mut [u64; N]| {
            let mut loaded = [[0u32; 4]; N];
            for_each!(M < N, {
                let at = at.get_unchecked_mut(M);
                *loaded.get_unchecked_mut(M) = memory::load_x4(*at as *const u32);
                *at = at.wrapping_add(*step.get_unchecked(M));
            });
            loaded
        };
        let mut words = [[[0u32; 4]; N]; K];
        for_each!(J < K, {
            *words.get_unchecked_mut(J) = load(&mut at);
        });
        let mut state = begin(words.get_unchecked(0));
        let mut round = 1;
        while round < s.rounds {
            for_each!(M < N, {
                let at = at.get_unchecked_mut(M);
                *at = at.wrapping_add(*jump.get_unchecked(M));
            });
            for_each!(J < K, {
                add(&mut state, words.get_unchecked(J));
                *words.get_unchecked_mut(J) = load(&mut at);
            });
            round += 1;
        }
        // What makes no whole round of runs, a row of each block at a time.
        let first_left = s.rounds * s.n_parts * s.rows * k + part * s.rows + self.row;
        let is_left = #[inline(always)]
        |j: u32| first_left + j * s.n_parts * s.rows < s.positions;
        for_each!(M < N, {
            // From behind this block's row of runs to its row of what is left.
            let rows = (s.n_parts - 1) * k - part * (k - 1);
            let at = at.get_unchecked_mut(M);
            *at = at.wrapping_add(step.get_unchecked(M).wrapping_mul(u64::from(rows)));
        });
        for_each!(J < K, {
            add(&mut state, words.get_unchecked(J));
            for_each!(M < N, {
                let apart = step.get_unchecked(M).wrapping_mul(u64::from(J as u32 * s.n_parts));
                // One that the compiler does not move behind branches, where it would be under way alone.
                *words.get_unchecked_mut(J).get_unchecked_mut(M) =
                    guarded::load_x4_own(at.get_unchecked(M).wrapping_add(apart), u32::from(is_left(J as u32)));
            });
        });
        let mut count = s.rounds * k;
        for_each!(J < K, {
            if is_left(J as u32) {
                add(&mut state, words.get_unchecked(J));
                count += 1;
            }
        });
        (state, count)
    }

    /// Where a channel's two numbers of this part go.
    #[inline(always)]
    unsafe fn put(&self, p: &ChannelwiseParams, channel: u32, [a, b]: [f32; 2]) {
        let to = (p.partials as *mut f32).add((self.place.part * p.share.channels + channel) as usize);
        *to = a;
        *to.add((p.share.n_parts * p.share.channels) as usize) = b;
    }
}

/// Sums of differences from the thread's first elements, of their squares, and those elements: squares of large numbers
/// would lose the digits of small ones.
struct Differences<const V: usize> {
    origin: [f32; V],
    sums: [f32; V],
    squares: [f32; V],
}

/// [`statistics`](super::statistics) by runs.
#[inline(always)]
pub unsafe fn statistics_runs<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let slots = shared_array![f32; STATISTICS_SLOTS];
    if V == 1 {
        return statistics_in::<T, V>(p, slots);
    }
    let walker = Walker::new::<V>(p);
    let mut means = [0.0f32; V];
    let mut spreads = [0.0f32; V];
    let mut n = 0.0f32;
    if walker.place.there {
        let pivots = pivots::<T, V>(p, &walker.place);
        let (own, count) = walker.walk::<T, V, 1, { STATISTICS_RUN as usize }, _>(
            p,
            [tensor::X],
            #[inline(always)]
            |words| Differences {
                origin: widened::<T, V>(words.get_unchecked(0)),
                sums: [0.0f32; V],
                squares: [0.0f32; V],
            },
            #[inline(always)]
            |own, words| {
                let x = widened::<T, V>(words.get_unchecked(0));
                for_each!(I < V, {
                    let difference = *x.get_unchecked(I) - *own.origin.get_unchecked(I);
                    *own.sums.get_unchecked_mut(I) += difference;
                    *own.squares.get_unchecked_mut(I) += difference * difference;
                });
            },
        );
        n = count as f32;
        let each = 1.0 / n;
        let pivots = widened::<T, V>(&pivots);
        for_each!(I < V, {
            let (sum, squares) = (*own.sums.get_unchecked(I), *own.squares.get_unchecked(I));
            let mean = sum * each;
            let spread = squares - sum * mean;
            *means.get_unchecked_mut(I) = (*own.origin.get_unchecked(I) - *pivots.get_unchecked(I)) + mean;
            *spreads.get_unchecked_mut(I) = if spread < 0.0 { 0.0 } else { spread };
        });
    }
    // Rows are added up relative to the first one's means, which are near enough to all of the block's: their distance is
    // below a deviation times the root of the number of rows.
    let pitch = row_pitch(p);
    let lane = walker.place.lane::<V>(p, block_idx_x());
    let leads = walker.place.there && walker.row == 0;
    if leads {
        for_each!(I < V, {
            *slots.add((I as u32 * pitch + lane) as usize) = *means.get_unchecked(I);
        });
    }
    sync_threads();
    let mut sums = [[0.0f32; V]; 2];
    if walker.place.there {
        for_each!(I < V, {
            let reference = *slots.add((I as u32 * pitch + lane) as usize);
            let difference = *means.get_unchecked(I) - reference;
            *sums.get_unchecked_mut(0).get_unchecked_mut(I) = n * difference;
            *sums.get_unchecked_mut(1).get_unchecked_mut(I) = *spreads.get_unchecked(I) + n * difference * difference;
        });
    }
    let elems = p.share.part_elems(walker.place.part) as f32;
    let each = 1.0 / elems;
    join_rows::<V, true>(
        p,
        slots,
        walker.place.there,
        walker.row * p.share.lanes + lane,
        sums,
        #[inline(always)]
        |channel, reference, [sum, squares]| {
            let mean = sum * each;
            let spread = squares - sum * mean;
            walker.put(p, channel, [reference + mean, if spread < 0.0 { 0.0 } else { spread }]);
        },
    );
}

/// [`gradient_sums`](super::gradient_sums) by runs, of x and dy.
#[inline(always)]
pub unsafe fn gradient_sums_runs<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    let slots = shared_array![f32; GRADIENT_SLOTS];
    if V == 1 {
        return gradient_sums_in::<T, V>(p, slots);
    }
    let walker = Walker::new::<V>(p);
    let at = u64::from(walker.place.channel) * 4;
    let mut sums = [[0.0f32; V]; 2];
    if walker.place.there {
        let ((_, [g_sums, mut gx_sums]), _) = walker.walk::<T, V, 2, { GRADIENT_SUM_RUN as usize }, _>(
            p,
            [tensor::X, tensor::DY],
            #[inline(always)]
            |_| (neighbours::<V>(p.mean + at), [[0.0f32; V]; 2]),
            #[inline(always)]
            |(mean, [g_sums, gx_sums]), words| {
                let (x, g) = (widened::<T, V>(words.get_unchecked(0)), widened::<T, V>(words.get_unchecked(1)));
                for_each!(I < V, {
                    let g = *g.get_unchecked(I);
                    *g_sums.get_unchecked_mut(I) += g;
                    *gx_sums.get_unchecked_mut(I) += g * (*x.get_unchecked(I) - *mean.get_unchecked(I));
                });
            },
        );
        let inv_std = neighbours::<V>(p.inv_std + at);
        let rest = if p.rest == 0 { [0.0; V] } else { neighbours::<V>(p.rest + at) };
        for_each!(I < V, {
            let gx = gx_sums.get_unchecked_mut(I);
            *gx = *gx * *inv_std.get_unchecked(I) + *g_sums.get_unchecked(I) * *rest.get_unchecked(I);
        });
        sums = [g_sums, gx_sums];
    }
    let lane = walker.place.lane::<V>(p, block_idx_x());
    join_rows::<V, false>(
        p,
        slots,
        walker.place.there,
        walker.row * p.share.lanes + lane,
        sums,
        #[inline(always)]
        |channel, _, sums| walker.put(p, channel, sums),
    );
}

/// [`apply_gradients`](super::apply_gradients) by blocks that have a short run each, the last positions first, of what
/// [`finish_gradients`](super::finish_gradients) leaves for them.
#[inline(always)]
pub unsafe fn apply_gradients_runs<T: Element<Acc = f32>, const V: usize>(p: &ChannelwiseParams) {
    if V == 1 {
        return apply_gradients::<T, V>(p);
    }
    const N: usize = 2;
    const K: usize = GRADIENT_RUN as usize;
    let place = Place::of_run::<V, true>(p);
    let [first, step, end] = place.positions;
    if !place.there {
        return;
    }
    let is_there = #[inline(always)]
    |j: u32| first + j * step < end;
    // An address a tensor, and how far from it the next position's is.
    let at = #[inline(always)]
    |tensor: usize| {
        let apart = i64::from(step) * p.strides[tensor][1] * size_of::<T>() as i64;
        (place.address::<T>(p, tensor, 0, first), apart as u64)
    };
    let ((x, x_apart), (dy, dy_apart)) = (at(tensor::X), at(tensor::DY));
    let mut words = [[[0u32; 4]; N]; K];
    for_each!(J < K, {
        let there = u32::from(is_there(J as u32));
        let [of_x, of_dy] = words.get_unchecked_mut(J);
        *of_x = guarded::load_x4_own(x.wrapping_add((J as u64).wrapping_mul(x_apart)), there);
        *of_dy = guarded::load_x4_own(dy.wrapping_add((J as u64).wrapping_mul(dy_apart)), there);
    });
    // Behind those loads: under way with them.
    let of_channel = u64::from(place.channel) * 4;
    let (slope, tilt) = (neighbours::<V>(p.slope + of_channel), neighbours::<V>(p.tilt + of_channel));
    let shift = neighbours::<V>(p.shift + of_channel);
    let mean = if holds_mean::<T>() { [0.0; V] } else { neighbours::<V>(p.mean + of_channel) };
    let (to, apart) = at(tensor::OUT);
    for_each!(J < K, {
        let [of_x, of_dy] = words.get_unchecked(J);
        let (x, mut dx) = (widened::<T, V>(of_x), widened::<T, V>(of_dy));
        for_each!(I < V, {
            let from_mean = *x.get_unchecked(I) - *mean.get_unchecked(I);
            let share = *tilt.get_unchecked(I) * from_mean + *shift.get_unchecked(I);
            let dx = dx.get_unchecked_mut(I);
            *dx = *slope.get_unchecked(I) * *dx + share;
        });
        store_where::<T, V>(p, to.wrapping_add((J as u64).wrapping_mul(apart)), dx, is_there(J as u32));
    });
}
