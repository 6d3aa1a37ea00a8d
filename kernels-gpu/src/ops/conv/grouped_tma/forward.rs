//! `fprop`, and `dgrad` with stride 1, which is `fprop` with the filter turned around.

use super::super::grouped_mma::{Filter, unroll};
use super::{CHUNK_BYTES, Tile, Work, begin, met, swizzled, window};
use crate::math::tensor_core::TensorCore;
use crate::math::vector::for_each;
use cuda_std::barrier::fence_proxy_async_shared;
use cuda_std::thread::lane_id;
use cuda_std::tma::MapAddress;
use cuda_std::{ldmatrix, mbarrier, schedule};
use kernel_abi::ops::conv::grouped_tma::{ConvGroupedTmaParams, GROUPED_TMA_PRODUCT, GroupedTmaForm};

/// The most rows of the source after which it begins anew which sums a row meets: `HELD · STRIDE`.
const PHASES: usize = 7;

/// The sums of a warp's two products, of 16 positions and 8 channels each: either half of its 16 channels, or of its 32
/// positions.
type Sums = [[f32; 4]; 2];

/// target = conv(source, filter), for groups of `WIDTH` channels, or of a divisor of 8 where that is 8, in `STEPS` products of
/// 8 channels from `PANELS` of 16; a row of the source meets up to `HELD` rows of the target. The filter's rows have
/// `ROW_TAPS` of its `TAPS`, and are as many. A warp's channels are `HALVES` times 8.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches the threads and the shared memory of the tile.
#[inline(always)]
pub(super) unsafe fn run<
    T: TensorCore,
    const WIDTH: u32,
    const STEPS: usize,
    const PANELS: usize,
    const ROW_TAPS: usize,
    const TAPS: usize,
    const HALVES: usize,
    const STRIDE: usize,
    const HELD: usize,
>(
    p: &ConvGroupedTmaParams,
    maps: [MapAddress; 2],
    transposed: bool,
) {
    let form = GroupedTmaForm { stride: STRIDE as u32, taps: ROW_TAPS as u32, wgrad: false };
    let Some(Work { share, source: mut ring, mut results }) = begin(p, maps, WIDTH, form) else { return };
    let (strip, part) = (share.warp / share.parts, share.warp % share.parts);
    let first_channel = share.first_channel + part * form.channels();
    let filter = Filter { at: p.filter, channels: p.channels, width: p.width, flip: p.flip, transposed };
    let filters = &filter.load::<WIDTH, STEPS, false, TAPS>(first_channel);
    let (lower, upper) = (lane_id() % GROUPED_TMA_PRODUCT, lane_id() / GROUPED_TMA_PRODUCT);
    // Eight of the slice's channels, and a position of the tile's row, of either product.
    let place = |product: u32| {
        let first = strip * form.strip() + lower;
        if HALVES == 2 { (part * 2 + product, first) } else { (part, first + product * GROUPED_TMA_PRODUCT) }
    };
    let mut windows = [0; ROW_TAPS];
    unroll!(I in [0 1 2 3 4 5 6] {
        if I < ROW_TAPS {
            let ((chunk, position), s) = if WIDTH > 8 {
                let first = if WIDTH == 32 { part / 2 * 4 } else { part * 2 };
                ((first + upper, place(0).1), I as u32)
            } else if I < ROW_TAPS - 1 {
                // Two taps of eight channels make one product of 16: those of the first product, then of the second.
                let (product, pair) = (I / (ROW_TAPS / 2), I % (ROW_TAPS / 2));
                (place(product as u32), 2 * pair as u32 + upper)
            } else {
                // The last taps of both come together.
                (place(upper), I as u32)
            };
            windows[I] = window(p, form, position, chunk, s);
        }
    });
    let (chunk, position) = place(upper);
    let result = swizzled(p, position, chunk);
    let mut read = 0;
    let mut sums: [Sums; HELD] = [[[0.0; 4]; 2]; HELD];
    let mut index = share.slab;
    while index < p.n_tiles {
        let tile = Tile::new(p, index);
        let (first, end) = (tile.source_row(p, form), tile.source_rows(form));
        let mut row = 0;
        'rows: loop {
            // Written out, so that sums need not be moved from one row to the next.
            for_each!(PHASE < PHASES, {
                if PHASE < HELD * STRIDE {
                    if PHASE % STRIDE == 0 {
                        *sums.get_unchecked_mut(PHASE / STRIDE % HELD) = [[0.0; 4]; 2];
                    }
                    if ((first + row as i32) as u32) < p.source_rows {
                        let at = ring.take(&mut read);
                        let x = windows.map(
                            #[inline(always)]
                            |window| load::<PANELS>(at, window),
                        );
                        if WIDTH == 8 {
                            narrow::<T, STEPS, PANELS, ROW_TAPS, TAPS, HALVES, STRIDE, HELD, PHASE>(
                                &mut sums, filters, &x,
                            );
                        } else {
                            unroll!(S in [0 1 2] {
                                if S < ROW_TAPS {
                                    column::<T, STEPS, PANELS, ROW_TAPS, TAPS, STRIDE, HELD, PHASE, S>(
                                        &mut sums, filters, &x[S],
                                    );
                                }
                            });
                        }
                    }
                    if let Some(slot) = met::<STRIDE, HELD>(PHASE, ROW_TAPS - 1)
                        && row >= ROW_TAPS as u32 - 1
                    {
                        let sums = sums.get_unchecked_mut(slot);
                        if p.alpha != 1.0 {
                            scale(p, sums);
                        }
                        if p.beta != 0.0 {
                            // Found anew each time: what is known of a tile's positions takes registers that are not left.
                            let first = [schedule::opaque(strip) * form.strip(), first_channel];
                            let line = tile.row + (row + 1 - ROW_TAPS as u32) / STRIDE as u32;
                            add_prior::<T, HALVES>(p, sums, &tile, line, first);
                        }
                        mbarrier::wait(results.empty(), results.parity ^ 1);
                        let [a, b] = sums;
                        let pairs =
                            [T::pack(a[0], a[1]), T::pack(a[2], a[3]), T::pack(b[0], b[1]), T::pack(b[2], b[3])];
                        ldmatrix::store_x4(results.at() + result, pairs);
                        fence_proxy_async_shared();
                        results.hand_on();
                    }
                    row += 1;
                    if row == end {
                        break 'rows;
                    }
                }
            });
        }
        index += p.slabs;
    }
}

/// Multiplies all sums with alpha.
#[inline(always)]
fn scale(p: &ConvGroupedTmaParams, sums: &mut Sums) {
    unroll!(HALF in [0 1] { sums[HALF] = sums[HALF].map(#[inline(always)] |sum| p.alpha * sum) });
}

/// Adds `beta · prior` to the sums of a row of the target, where there is one, of which the warp has the positions and channels
/// from `first` on.
///
/// # Safety
/// The host passes a live target.
#[inline(always)]
unsafe fn add_prior<T: TensorCore, const HALVES: usize>(
    p: &ConvGroupedTmaParams,
    sums: &mut Sums,
    tile: &Tile,
    row: u32,
    first: [u32; 2],
) {
    let [height, width] = p.target_dims;
    unroll!(PRODUCT in [0 1] {
        let (positions, channels) =
            if HALVES == 2 { (0, 8 * PRODUCT as u32) } else { (PRODUCT as u32 * GROUPED_TMA_PRODUCT, 0) };
        unroll!(LOWER in [0 1] {
            let position = first[0] + positions + lane_id() / 4 + 8 * LOWER as u32;
            let (image, column) = p.columns.div_rem(position);
            let (image, column) = (tile.image + image, tile.column + column);
            let channel = first[1] + channels + lane_id() % 4 * 2;
            if position < p.tile.positions() && image < p.n && column < width && channel < p.channels {
                let row = u64::from(image) * u64::from(height) + u64::from(row);
                let place = row * u64::from(width) + u64::from(column);
                let at = p.target + 2 * (place * u64::from(p.channels) + u64::from(channel));
                let prior = T::unpack(*(at as *const u32));
                sums[PRODUCT][2 * LOWER] += p.beta * prior[0];
                sums[PRODUCT][2 * LOWER + 1] += p.beta * prior[1];
            }
        });
    });
}

/// A shift of a row, 16 channels a panel.
///
/// # Safety
/// All threads of the warp call it with an address in a stage that is full.
#[inline(always)]
unsafe fn load<const PANELS: usize>(at: u32, window: u32) -> [[u32; 4]; PANELS] {
    let mut x = [[0; 4]; PANELS];
    x[0] = ldmatrix::load_x4(at + window);
    if PANELS == 2 {
        // The panel's number is a bit of the chunk's, which the swizzle only turns over.
        x[1 % PANELS] = ldmatrix::load_x4(at + (window ^ 2 * CHUNK_BYTES));
    }
    x
}

/// Adds the products of a shift of a row of the source to the rows of the target that it meets.
///
/// # Safety
/// All threads of the warp call it.
#[inline(always)]
unsafe fn column<
    T: TensorCore,
    const STEPS: usize,
    const PANELS: usize,
    const ROW_TAPS: usize,
    const TAPS: usize,
    const STRIDE: usize,
    const HELD: usize,
    const PHASE: usize,
    const S: usize,
>(
    sums: &mut [Sums; HELD],
    filters: &[[[u32; STEPS]; 2]; TAPS],
    x: &[[u32; 4]; PANELS],
) {
    // Products that follow each other have other sums.
    unroll!(PANEL in [0 1] {
        if PANEL < PANELS {
            unroll!(R in [0 1 2] {
                if R < ROW_TAPS && let Some(slot) = met::<STRIDE, HELD>(PHASE, R) {
                    let sums = sums.get_unchecked_mut(slot);
                    unroll!(HALF in [0 1] {
                        let steps = &filters[ROW_TAPS * R + S][HALF];
                        let steps = [steps[2 * PANEL % STEPS], steps[(2 * PANEL + 1) % STEPS]];
                        T::multiply(&mut sums[HALF], x[PANEL % PANELS], steps);
                    });
                }
            });
        }
    });
}

/// The same of all shifts, for groups of up to 8 channels: of each product, two taps at a time, and the last of both.
///
/// # Safety
/// All threads of the warp call it.
#[inline(always)]
unsafe fn narrow<
    T: TensorCore,
    const STEPS: usize,
    const PANELS: usize,
    const ROW_TAPS: usize,
    const TAPS: usize,
    const HALVES: usize,
    const STRIDE: usize,
    const HELD: usize,
    const PHASE: usize,
>(
    sums: &mut [Sums; HELD],
    filters: &[[[u32; STEPS]; 2]; TAPS],
    x: &[[[u32; 4]; PANELS]; ROW_TAPS],
) {
    unroll!(PAIR in [0 1 2] {
        if PAIR < ROW_TAPS / 2 {
            unroll!(R in [0 1 2 3 4 5 6] {
                if R < ROW_TAPS && let Some(slot) = met::<STRIDE, HELD>(PHASE, R) {
                    let sums = sums.get_unchecked_mut(slot);
                    let first = ROW_TAPS * R + 2 * PAIR;
                    unroll!(PRODUCT in [0 1] {
                        let x = x[PRODUCT * (ROW_TAPS / 2) + PAIR][0];
                        let half = PRODUCT % HALVES;
                        let taps = [filters[first][half][0], filters[first + 1][half][0]];
                        T::multiply(&mut sums[PRODUCT], x, taps);
                    });
                }
            });
        }
    });
    let last = x[ROW_TAPS - 1][0];
    unroll!(R in [0 1 2 3 4 5 6] {
        if R < ROW_TAPS && let Some(slot) = met::<STRIDE, HELD>(PHASE, R) {
            let sums = sums.get_unchecked_mut(slot);
            let filter = &filters[ROW_TAPS * R + ROW_TAPS - 1];
            unroll!(PRODUCT in [0 1] {
                let x = [last[2 * PRODUCT], last[2 * PRODUCT + 1]];
                T::multiply_half(&mut sums[PRODUCT], x, filter[PRODUCT % HALVES][0]);
            });
        }
    });
}
