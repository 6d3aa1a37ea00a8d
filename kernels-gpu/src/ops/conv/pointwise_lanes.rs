//! Filters of one tap between channels-last tensors of which one has few channels: a team of lanes has the channels of a
//! position of the other, 16 bytes each, and multiplies them by the filter, which lies in shared memory as f32. Memory is
//! read and written once, at its speed: there are few products an element.
//!
//! Where few channels are written, the lanes of a team add up by shuffles. Grid: one-dimensional, a block for
//! [`ConvPointwiseLanesParams::block_positions`]. Block: [`THREADS`].

use crate::math::element::{Element, load};
use crate::math::vector::{for_each, narrowed, read, widened};
use cuda_std::memory::{load_x4, store_x4};
use cuda_std::thread::{block_idx_x, lane_id, sync_threads, thread_idx_x};
use cuda_std::{shared, warp};
use kernel_abi::ops::conv::pointwise_lanes::{AT_ONCE, ConvPointwiseLanesParams, LANES, THREADS};

const ALL_AT_ONCE: usize = AT_ONCE as usize;

/// What a lane has of every position.
struct Lane<'a, const V: usize, const FEW: usize> {
    p: &'a ConvPointwiseLanesParams,
    /// Its number within the team, and its first channel.
    own: u32,
    channel: u32,
    /// Whether there are such channels.
    there: bool,
    /// Positions that a warp has side by side, and the lane's among them.
    beside: u32,
    first: u32,
    /// The filter: for each channel of the narrow tensor those of the wide one.
    w: [[f32; V]; FEW],
}

impl<'a, const V: usize, const FEW: usize> Lane<'a, V, FEW> {
    /// Has the filter brought to shared memory, with zeros where there is none.
    #[inline(always)]
    unsafe fn new<T: Element<Acc = f32>>(p: &'a ConvPointwiseLanesParams, filter: *mut f32) -> Self {
        let team = 1 << p.team_log2;
        let row = team * V as u32;
        let mut i = thread_idx_x();
        while i < FEW as u32 * row {
            let (few, wide) = (i / row, i % row);
            let mut value = 0.0;
            if few < p.n_few && wide < p.n_wide {
                value = load::<T>(p.w, i64::from(few) * p.w_few_stride + i64::from(wide) * p.w_wide_stride);
            }
            *filter.add(i as usize) = value;
            i += THREADS;
        }
        sync_threads();
        let own = lane_id() & (team - 1);
        let channel = own * V as u32;
        let mut w = [[0.0f32; V]; FEW];
        let at = shared::address(filter) + 4 * channel;
        for_each!(F < FEW, {
            let row = w.get_unchecked_mut(F);
            for_each!(I < V, {
                *row.get_unchecked_mut(I) = shared::load_f32(at + 4 * (F as u32 * (team * V as u32) + I as u32));
            });
        });
        let beside = LANES >> p.team_log2;
        let warp_positions = beside * AT_ONCE * p.rounds;
        let first =
            block_idx_x() * p.block_positions() + thread_idx_x() / LANES * warp_positions + (lane_id() >> p.team_log2);
        Lane { p, own, channel, there: channel < p.n_wide, beside, first, w }
    }

    /// The lane's position `j` of a round.
    #[inline(always)]
    fn position(&self, round: u32, j: usize) -> u32 {
        self.first + (round * AT_ONCE + j as u32) * self.beside
    }

    #[inline(always)]
    fn wide<T>(&self, position: u32) -> u64 {
        let offset = i64::from(position) * self.p.wide_pitch + i64::from(self.channel);
        self.p.wide + offset as u64 * size_of::<T>() as u64
    }

    #[inline(always)]
    fn few(&self, position: u32, channel: u32) -> i64 {
        i64::from(position) * self.p.few_pitch + i64::from(channel) * self.p.few_stride
    }
}

/// Reads the wide tensor and writes few channels.
///
/// # Safety
/// The host passes live tensors of these extents; `filter` holds `FEW` rows of a team's channels.
#[inline(always)]
pub unsafe fn gather<T: Element<Acc = f32>, const V: usize, const FEW: usize>(
    p: &ConvPointwiseLanesParams,
    filter: *mut f32,
) {
    let lane = Lane::<V, FEW>::new::<T>(p, filter);
    let mut round = 0;
    while round < p.rounds {
        let mut words = [[0u32; 4]; ALL_AT_ONCE];
        for_each!(J < ALL_AT_ONCE, {
            let position = lane.position(round, J);
            if lane.there && position < p.n_positions {
                *words.get_unchecked_mut(J) = load_x4(lane.wide::<T>(position) as *const u32);
            }
        });
        for_each!(J < ALL_AT_ONCE, {
            let x = widened::<T, V>(words.get_unchecked(J));
            let mut sums = [0.0f32; FEW];
            for_each!(F < FEW, {
                let sum = sums.get_unchecked_mut(F);
                let w = lane.w.get_unchecked(F);
                for_each!(I < V, {
                    *sum += *x.get_unchecked(I) * *w.get_unchecked(I);
                });
            });
            let mut apart = 0;
            while apart < p.team_log2 {
                for_each!(F < FEW, {
                    let sum = sums.get_unchecked_mut(F);
                    *sum += warp::shuffle_xor_f32(*sum, 1 << apart);
                });
                apart += 1;
            }
            let position = lane.position(round, J);
            if position < p.n_positions {
                for_each!(F < FEW, {
                    // Each lane of the team writes what is its own turn's.
                    let channel = F as u32;
                    if channel < p.n_few && channel & ((1 << p.team_log2) - 1) == lane.own {
                        let at = lane.few(position, channel);
                        let mut sum = p.alpha * *sums.get_unchecked(F);
                        if p.beta != 0.0 {
                            sum += p.beta * load::<T>(p.few, at);
                        }
                        *((p.few as *mut T).offset(at as isize)) = T::narrow(sum);
                    }
                });
            }
        });
        round += 1;
    }
}

/// Reads few channels and writes the wide tensor.
///
/// # Safety
/// As [`gather`].
#[inline(always)]
pub unsafe fn spread<T: Element<Acc = f32>, const V: usize, const FEW: usize>(
    p: &ConvPointwiseLanesParams,
    filter: *mut f32,
) {
    let lane = Lane::<V, FEW>::new::<T>(p, filter);
    let mut round = 0;
    while round < p.rounds {
        let mut values = [[0.0f32; FEW]; ALL_AT_ONCE];
        for_each!(J < ALL_AT_ONCE, {
            let position = lane.position(round, J);
            let values = values.get_unchecked_mut(J);
            for_each!(F < FEW, {
                if position < p.n_positions && (F as u32) < p.n_few {
                    *values.get_unchecked_mut(F) = load::<T>(p.few, lane.few(position, F as u32));
                }
            });
        });
        for_each!(J < ALL_AT_ONCE, {
            let position = lane.position(round, J);
            if lane.there && position < p.n_positions {
                let to = lane.wide::<T>(position);
                let mut sums = [0.0f32; V];
                for_each!(F < FEW, {
                    let value = *values.get_unchecked(J).get_unchecked(F);
                    let w = lane.w.get_unchecked(F);
                    for_each!(I < V, {
                        *sums.get_unchecked_mut(I) += value * *w.get_unchecked(I);
                    });
                });
                let mut prior = [0.0f32; V];
                if p.beta != 0.0 {
                    prior = read::<T, V>(to);
                }
                for_each!(I < V, {
                    let sum = sums.get_unchecked_mut(I);
                    *sum = p.alpha * *sum + p.beta * *prior.get_unchecked(I);
                });
                store_x4(to as *mut u32, narrowed::<T, V>(&sums));
            }
        });
        round += 1;
    }
}
