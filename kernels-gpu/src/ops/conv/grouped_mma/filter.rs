//! Filters of narrow groups, as products take them.

use super::{CHUNK, unroll};
use cuda_std::thread::thread_idx_x;

/// The filters of a convolution: `[K][R][S][C / G]`, dense.
#[derive(Clone, Copy)]
pub(in crate::ops::conv) struct Filter {
    /// Address.
    pub(in crate::ops::conv) at: u64,
    /// C = K.
    pub(in crate::ops::conv) channels: u32,
    /// C / G = K / G.
    pub(in crate::ops::conv) width: u32,
    /// 1 when it is read from its far end.
    pub(in crate::ops::conv) flip: u32,
    /// Whether the channels that are read are K's, for `dgrad`.
    pub(in crate::ops::conv) transposed: bool,
}

impl Filter {
    /// The filters of a warp's 16 channels, for each tap, each half of those and each 8 source channels: what a lane holds
    /// of `mma`'s B. Zero between groups and beyond the last channel.
    ///
    /// # Safety
    /// The filter is live.
    #[inline(always)]
    pub(in crate::ops::conv) unsafe fn load<
        const WIDTH: u32,
        const STEPS: usize,
        const PAIRED: bool,
        const TAPS: usize,
    >(
        self,
        first_channel: u32,
    ) -> [[[u32; STEPS]; 2]; TAPS] {
        let lane = thread_idx_x() % 32;
        let (column, row) = (lane / 4, lane % 4 * 2);
        // Widths are powers of two; those that fill a product are known when this is compiled.
        let width = if WIDTH == 8 { self.width } else { WIDTH };
        let (rank, filter_elems) = (width - 1, TAPS as u32 * width);
        let mut filters = [[[0; STEPS]; 2]; TAPS];
        unroll!(HALF in [0 1] {
            let to = first_channel + target_channel::<WIDTH, PAIRED>(HALF as u32, column);
            unroll!(STEP in [0 1 2 3] {
                if STEP < STEPS {
                    let from = source_channel::<WIDTH>(first_channel, HALF as u32) + CHUNK * STEP as u32 + row;
                    // A register's elements are of channels `from` and the next: in the next row, or the next column, where
                    // groups have more than one.
                    let (k, c, next) =
                        if self.transposed { (from, to & rank, filter_elems) } else { (to, from & rank, rank.min(1)) };
                    let of_group = |from: u32| to < self.channels && from & !rank == to & !rank;
                    let (low, high) = (of_group(from), of_group(from + 1));
                    let at = (self.at as *const u16).wrapping_add((k * filter_elems + c) as usize);
                    unroll!(TAP in [
                        0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24
                        25 26 27 28 29 30 31 32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48
                    ] {
                        if TAP < TAPS {
                            let at = at.wrapping_add(TAP * width as usize);
                            if WIDTH > 8 && !self.transposed {
                                // Both lie beside each other, in the group.
                                filters[TAP][HALF][STEP] = if low { *(at as *const u32) } else { 0 };
                            } else {
                                let low = if low { u32::from(*at) } else { 0 };
                                let high = if high { u32::from(*at.wrapping_add(next as usize)) } else { 0 };
                                filters[TAP][HALF][STEP] = low | high << 16;
                            }
                        }
                    });
                }
            });
        });
        if self.flip != 0 {
            unroll!(TAP in [0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23] {
                if TAP < TAPS / 2 {
                    (filters[TAP], filters[TAPS - 1 - TAP]) = (filters[TAPS - 1 - TAP], filters[TAP]);
                }
            });
        }
        filters
    }
}

/// The channel, of a warp's 16, that column `column` of a product's half stands for.
///
/// Where all 16 read the same channels, a thread's two pairs of columns may lie beside each other, to be written as one:
/// where they are `PAIRED`.
#[inline(always)]
pub(super) const fn target_channel<const WIDTH: u32, const PAIRED: bool>(half: u32, column: u32) -> u32 {
    if WIDTH == 8 || !PAIRED { 8 * half + column } else { column / 2 * 4 + 2 * half + column % 2 }
}

/// The first channel that a half of a warp's 16 channels reads.
#[inline(always)]
const fn source_channel<const WIDTH: u32>(first_channel: u32, half: u32) -> u32 {
    match WIDTH {
        8 => first_channel + 8 * half,
        _ => first_channel / WIDTH * WIDTH,
    }
}
