//! What a consumer multiplies of a tile: tap after tap, of buffer after buffer.

use super::{CONSUMERS, PANEL, Product, SWIZZLE_PERIOD, TURN, WARPGROUP};
use crate::math::ring::Ring;
use cuda_std::barrier::{arrive_named, sync_named};
use cuda_std::mbarrier;
use cuda_std::thread::thread_idx_x;
use cuda_std::wgmma::{Swizzle, behind, descriptor};
use kernel_abi::ops::conv::halo_wgmma::{ConvHaloParams, HaloPart, MIN_BUFFERS, position_bytes};

/// Where a consumer stands among the buffers: in all of them, or in every other one.
///
/// A barrier tells phases from each other by their parity, so that who waits must have seen the one before. Of three
/// buffers, those of one consumer hold what the other one reads between two turns: each has full barriers of its own.
pub(super) struct Buffers {
    pub(super) ring: Ring,
    /// Where this consumer's first turn is, and what its full barriers lie behind those of the ring.
    consumer: u32,
    to_full: u32,
    parity: u32,
}

impl Buffers {
    #[inline(always)]
    pub(super) fn new<P: Product<R, S>, const R: usize, const S: usize>(
        p: &ConvHaloParams,
        mut ring: Ring,
        consumer: u32,
    ) -> Self {
        if P::RESIDENT && consumer > 0 {
            ring.advance();
            return Buffers { ring, consumer, to_full: p.shared.to_second_full(), parity: 0 };
        }
        Buffers { ring, consumer: 0, to_full: 0, parity: 0 }
    }

    /// Waits for what the buffer is to hold.
    ///
    /// # Safety
    /// As [`consume`](super::consume).
    #[inline(always)]
    pub(super) unsafe fn wait<P: Product<R, S>, const R: usize, const S: usize>(&self) {
        if P::RESIDENT {
            mbarrier::wait(self.ring.full() + self.to_full, self.parity);
        } else {
            mbarrier::wait(self.ring.full(), self.ring.parity);
        }
    }

    /// Goes on to the next buffer of this consumer.
    #[inline(always)]
    pub(super) fn advance<P: Product<R, S>, const R: usize, const S: usize>(&mut self) {
        self.ring.advance();
        if P::RESIDENT {
            self.ring.advance();
            // All of its buffers have had a turn.
            self.parity ^= u32::from(self.ring.index() == self.consumer);
        }
    }
}

/// Descriptors of the operands of a product: positions from the first buffer's begin, and the filter's first stage.
#[derive(Clone, Copy)]
pub(super) struct Operands {
    positions: u64,
    filter: u64,
}

impl Operands {
    #[inline(always)]
    pub(super) fn new<P: Product<R, S>, const R: usize, const S: usize>(
        base: u32,
        filter: u32,
        own_channel: u32,
    ) -> Self {
        let bytes = position_bytes(P::DEPTH);
        let swizzle = if P::DEPTH == PANEL { Swizzle::B128 } else { Swizzle::B64 };
        // 64 channels are 64 rows of a swizzled tile, or a panel.
        let channels = filter + own_channel * bytes;
        Operands {
            positions: descriptor(base, 16, 8 * bytes, swizzle),
            filter: if P::FILTER_IS_MN_MAJOR {
                descriptor(channels, 16, SWIZZLE_PERIOD, Swizzle::B128)
            } else {
                descriptor(channels, 16, 8 * bytes, swizzle)
            },
        }
    }
}

/// What the product before reads: the barriers of its stage of the filter, and of the buffer that is read to its end with
/// it; 0 where there is none.
#[derive(Clone, Copy)]
struct Read {
    stage: u32,
    buffer: u32,
}

/// Adds up the products of a tile, whose positions begin so many bytes behind a buffer.
///
/// What stands in the loop over a row's taps is what products of few channels wait for: some four cycles an instruction,
/// where those of 32 channels and 256 positions take 256 cycles.
///
/// # Safety
/// As [`consume`](super::consume).
#[inline(always)]
pub(super) unsafe fn multiply_tile<P: Product<R, S>, const R: usize, const S: usize>(
    p: &ConvHaloParams,
    d: &mut [[f32; R]; S],
    operands: Operands,
    first_position: u32,
    halo: &mut Buffers,
    filter: &mut Ring,
    consumer: u32,
) {
    let lane = thread_idx_x() % 32;
    let [row_bytes, column_bytes] =
        [p.shift[0] * p.pitch.divisor, p.shift[1]].map(|positions| positions * position_bytes(P::DEPTH));
    let mut read = Read { stage: 0, buffer: 0 };
    // Taps of the next row that are done, and whether the next one is the other consumer's.
    let mut done = 0;
    let mut passes = P::SHARES_TAPS && consumer > 0;
    let mut accumulate = u32::from(!P::SHARES_TAPS);
    if !P::SHARES_TAPS {
        // The first tap apart: its products overwrite the sums, and nothing else sets them.
        begin_buffer::<P, R, S>(halo, consumer);
        multiply_tap::<P, R, S>(p, d, operands, halo.ring.behind_first() + first_position, 0, filter, &mut read, lane);
        done = 1;
    }
    let mut plane = 0;
    while plane < p.taps[0] {
        let mut panel = 0;
        while panel < p.panels {
            let mut part = HaloPart::FIRST;
            loop {
                if done == 0 {
                    if P::RESIDENT && read.buffer != 0 && p.shared.buffers == MIN_BUFFERS {
                        // There is one buffer for each: what is still read from it must be done before it is loaded anew.
                        P::finish(d);
                        leave(read.buffer, lane);
                        read.buffer = 0;
                    }
                    begin_buffer::<P, R, S>(halo, consumer);
                }
                let [rows, columns] = part.taps(p);
                let (mut first_of_row, mut row) = (halo.ring.behind_first() + first_position, 0);
                while row < rows {
                    let (mut at, mut column) = (first_of_row + done * column_bytes, done);
                    done = 0;
                    while column < columns {
                        if passes {
                            filter.advance();
                        } else {
                            multiply_tap::<P, R, S>(p, d, operands, at, accumulate, filter, &mut read, lane);
                            accumulate = 1;
                        }
                        passes = P::SHARES_TAPS && !passes;
                        at += column_bytes;
                        column += 1;
                    }
                    first_of_row += row_bytes;
                    row += 1;
                }
                if P::SHARES_TAPS && read.buffer != 0 {
                    // All of this buffer's taps were the other consumer's, and the one before is read to its end.
                    P::finish(d);
                    leave(read.buffer, lane);
                }
                read.buffer = halo.ring.empty();
                if P::RESIDENT {
                    // The other one's products may queue behind ours.
                    arrive_named(TURN + 1 - consumer, CONSUMERS * WARPGROUP);
                }
                halo.advance::<P, R, S>();
                part = part.next(p);
                if part == HaloPart::FIRST {
                    break;
                }
            }
            panel += 1;
        }
        plane += 1;
    }
    P::finish(d);
    leave(read.stage, lane);
    leave(read.buffer, lane);
}

/// Waits for what the buffer is to hold, and for this consumer's turn.
///
/// # Safety
/// As [`consume`](super::consume).
#[inline(always)]
unsafe fn begin_buffer<P: Product<R, S>, const R: usize, const S: usize>(halo: &Buffers, consumer: u32) {
    halo.wait::<P, R, S>();
    if P::RESIDENT {
        sync_named(TURN + consumer, CONSUMERS * WARPGROUP);
    }
}

/// Queues the products of the next tap, whose positions begin so many bytes behind those of the first buffer.
///
/// # Safety
/// As [`consume`](super::consume).
#[inline(always)]
#[allow(clippy::too_many_arguments)]
unsafe fn multiply_tap<P: Product<R, S>, const R: usize, const S: usize>(
    p: &ConvHaloParams,
    d: &mut [[f32; R]; S],
    operands: Operands,
    at: u32,
    accumulate: u32,
    filter: &mut Ring,
    read: &mut Read,
    lane: u32,
) {
    if !P::RESIDENT {
        mbarrier::wait(filter.full(), if p.filter_stays() { 0 } else { filter.parity });
    }
    P::multiply(d, behind(operands.positions, at), behind(operands.filter, filter.behind_first()), accumulate);
    // The product before is done, and with the last tap of a buffer the buffer.
    if !P::RESIDENT {
        leave(read.stage, lane);
        read.stage = filter.empty();
    }
    leave(read.buffer, lane);
    read.buffer = 0;
    filter.advance();
}

/// Leaves what a barrier, if it is not 0, belongs to to the loading warp.
///
/// # Safety
/// As [`consume`](super::consume).
#[inline(always)]
unsafe fn leave(barrier: u32, lane: u32) {
    if barrier != 0 && lane == 0 {
        mbarrier::arrive(barrier);
    }
}
