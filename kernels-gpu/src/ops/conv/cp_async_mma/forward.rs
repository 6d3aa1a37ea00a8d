//! `fprop` and `dgrad`: rows are pixels of the tensor that is written.

use super::super::grouped_mma::unroll;
use super::gather::{load_filter_columns, load_filter_rows, load_windows};
use super::product::{Sums, multiply, warp_place};
use super::{div_rem, fill_taps, pipeline, split, store_pixel};
use crate::math::tensor_core::TensorCore;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{shared, warp};
use kernel_abi::ops::conv::ConvPass;
use kernel_abi::ops::conv::cp_async_mma::{CP_ASYNC_ENTRY_BYTES, CP_ASYNC_K, CpAsyncMmaParams, CpAsyncTile};

/// target = conv(source, filter). `ROWS` is `SIZE / 32`.
///
/// # Safety
/// The host passes live tensors of the extents in `p`, and shared memory for the tile.
#[inline(always)]
pub(crate) unsafe fn fprop<T: TensorCore, const V: u32, const SIZE: u32, const ROWS: usize>(p: &CpAsyncMmaParams) {
    forward::<T, V, SIZE, ROWS, false>(p)
}

/// The gradient by x.
///
/// # Safety
/// As [`fprop`].
#[inline(always)]
pub(crate) unsafe fn dgrad<T: TensorCore, const V: u32, const SIZE: u32, const ROWS: usize>(p: &CpAsyncMmaParams) {
    forward::<T, V, SIZE, ROWS, true>(p)
}

/// # Safety
/// As [`fprop`].
#[inline(always)]
unsafe fn forward<T: TensorCore, const V: u32, const SIZE: u32, const ROWS: usize, const DGRAD: bool>(
    p: &CpAsyncMmaParams,
) {
    let pass = if DGRAD { ConvPass::Dgrad } else { ConvPass::Fprop };
    let tile = CpAsyncTile(SIZE);
    // Neighbouring blocks take neighbouring channels of the same pixels.
    let (rest, n_tile) = div_rem(block_idx_x(), p.n_tiles);
    let (rest, group) = div_rem(rest, p.groups);
    let (class, m_tile) = div_rem(rest, p.m_tiles);
    let [_, class_d, class_h, class_w] = split(class, p.classes);
    let class = [class_d, class_h, class_w];
    // Positions of the class along each axis.
    let mut extents = p.target_extents;
    if DGRAD {
        unroll!(AXIS in [0 1 2] {
            extents[AXIS] = div_rem(p.target_extents[AXIS] - class[AXIS] + p.stride[AXIS] - 1, p.stride[AXIS]).0;
        });
    }
    let n_pixels = p.n * extents[0] * extents[1] * extents[2];
    let first_pixel = m_tile * SIZE;
    if first_pixel >= n_pixels {
        return;
    }
    let taps_at = shared::dynamic_address();
    let pixels_at = taps_at + tile.pixels_at(p.taps());
    let outputs_at = pixels_at + tile.pixel_entries(pass) * CP_ASYNC_ENTRY_BYTES;
    let stages = taps_at + tile.stages_at(p.taps(), pass);
    if thread_idx_x() < SIZE {
        let pixel = first_pixel + thread_idx_x();
        let [n, d, h, w] = split(pixel, extents);
        let at = [d, h, w];
        let (mut from, mut to) = ([0; 3], at);
        unroll!(AXIS in [0 1 2] {
            if DGRAD {
                from[AXIS] = at[AXIS];
                to[AXIS] = class[AXIS] + at[AXIS] * p.stride[AXIS];
            } else {
                from[AXIS] = at[AXIS] * p.stride[AXIS];
            }
        });
        let there = pixel < n_pixels;
        store_pixel(p, pixels_at + thread_idx_x() * CP_ASYNC_ENTRY_BYTES, there, n, from);
        let target = p.target_extents;
        let output = ((n * target[0] + to[0]) * target[1] + to[1]) * target[2] + to[2];
        shared::store_u32(outputs_at + 4 * thread_idx_x(), if there { output } else { NO_PIXEL });
    }
    let n_taps = fill_taps(p, taps_at, DGRAD, class);
    let steps = (n_taps * p.source_group).div_ceil(CP_ASYNC_K);
    let first_channel = n_tile * SIZE;
    let warp = warp_place::<SIZE>(warp::uniform(thread_idx_x() / 32));
    let mut sums: Sums<ROWS> = [[[0.0; 4]; 4]; ROWS];
    let b_at = tile.operand_bytes(true);
    pipeline(
        steps,
        stages,
        tile.stage_bytes(pass),
        |step, stage| {
            if step < steps {
                let first = step * CP_ASYNC_K;
                load_windows::<V, SIZE>(p, stage, pixels_at, taps_at, n_taps, group, first);
                if DGRAD {
                    load_filter_columns::<V, SIZE>(p, stage + b_at, taps_at, n_taps, group, first_channel, first);
                } else {
                    load_filter_rows::<V, SIZE>(p, stage + b_at, group, first_channel, first);
                }
            }
        },
        |stage| {
            if DGRAD {
                multiply::<T, SIZE, ROWS, false, true>(&mut sums, stage, stage + b_at, warp);
            } else {
                multiply::<T, SIZE, ROWS, false, false>(&mut sums, stage, stage + b_at, warp);
            }
        },
    );
    write::<T, ROWS>(p, &sums, outputs_at, warp, group, first_channel);
}

/// In the table of outputs: the tile has no such pixel.
const NO_PIXEL: u32 = u32::MAX;

/// Writes a warp's sums.
///
/// # Safety
/// As [`fprop`]; the table of outputs is filled.
#[inline(always)]
unsafe fn write<T: TensorCore, const ROWS: usize>(
    p: &CpAsyncMmaParams,
    sums: &Sums<ROWS>,
    outputs_at: u32,
    [row, column]: [u32; 2],
    group: u32,
    first_channel: u32,
) {
    let lane = thread_idx_x() % 32;
    let channels = u64::from(p.groups * p.target_group);
    unroll!(I in [0 1 2 3] {
        if I < ROWS {
            unroll!(LOWER in [0 1] {
                let pixel = shared::load_u32(outputs_at + 4 * (row + 16 * I as u32 + 8 * LOWER as u32 + lane / 4));
                let first = p.target + 2 * (u64::from(pixel) * channels + u64::from(group * p.target_group));
                unroll!(J in [0 1 2 3] {
                    let channel = first_channel + column + 8 * J as u32 + lane % 4 * 2;
                    let sums = [sums[I % ROWS][J][2 * LOWER], sums[I % ROWS][J][2 * LOWER + 1]];
                    if pixel != NO_PIXEL {
                        write_pair::<T>(p, first + 2 * u64::from(channel), channel, sums);
                    }
                });
            });
        }
    });
}

/// Writes two neighbouring channels of a group, as far as there are.
///
/// # Safety
/// `at` is the place of channel `channel` of the target.
#[inline(always)]
unsafe fn write_pair<T: TensorCore>(p: &CpAsyncMmaParams, at: u64, channel: u32, sums: [f32; 2]) {
    let mut pair = [p.alpha * sums[0], p.alpha * sums[1]];
    if p.pairs != 0 {
        if channel < p.target_group {
            let to = at as *mut u32;
            if p.beta != 0.0 {
                let prior = T::unpack(*to);
                pair = [pair[0] + p.beta * prior[0], pair[1] + p.beta * prior[1]];
            }
            *to = T::pack(pair[0], pair[1]);
        }
        return;
    }
    unroll!(I in [0 1] {
        if channel + (I as u32) < p.target_group {
            let to = (at as *mut T).add(I);
            if p.beta != 0.0 {
                pair[I] += p.beta * (*to).widen();
            }
            *to = T::narrow(pair[I]);
        }
    });
}
