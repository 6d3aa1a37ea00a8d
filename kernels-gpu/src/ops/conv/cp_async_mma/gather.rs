//! Copies of one stage's operands, `V` elements each.

use super::super::grouped_mma::unroll;
use super::{TileElement, split};
use crate::math::index::div_rem_u32 as div_rem;
use cuda_std::thread::thread_idx_x;
use cuda_std::{cp_async, shared};
use kernel_abi::ops::conv::cp_async_mma::{CP_ASYNC_ENTRY_BYTES, CP_ASYNC_K, CpAsyncMmaParams};

/// Copies `V` elements, or zeros.
///
/// # Safety
/// `to` is shared memory and `from`, where `there`, global memory of so many elements, both aligned to them.
#[inline(always)]
unsafe fn copy<T: TileElement, const V: u32>(to: u32, tensor: u64, offset: u64, there: bool) {
    let from = (tensor + if there { u64::from(T::BYTES) * offset } else { 0 }) as *const u8;
    let bytes = if there { T::BYTES * V } else { 0 };
    match T::BYTES * V {
        16 => cp_async::copy_x4(to, from, bytes),
        8 => cp_async::copy_x2(to, from, bytes),
        4 => cp_async::copy_x1(to, from, bytes),
        _ => shared::store_u16(to, if there { *(from as *const u16) } else { 0 }),
    }
}

/// Elements of a copy: `V`, or where that is 0 as many as `given`.
#[inline(always)]
pub(super) fn elems<const V: u32>(given: u32) -> u32 {
    if V > 0 { V } else { given }
}

/// Calls a function with the elements of a copy as its constant.
macro_rules! by_elems {
    ($V:ident or $given:expr, $name:ident::<$T:ident, $SIZE:ident>($($argument:expr),*)) => {
        match elems::<$V>($given) {
            8 if $T::BYTES == 2 => $name::<$T, 8, $SIZE>($($argument),*),
            4 => $name::<$T, 4, $SIZE>($($argument),*),
            2 => $name::<$T, 2, $SIZE>($($argument),*),
            _ => $name::<$T, 1, $SIZE>($($argument),*),
        }
    };
}

/// A run of source channels by one tap, as a thread copies it from every pixel: fixed along one dimension of a tile.
#[derive(Clone, Copy)]
pub(super) struct Run {
    there: bool,
    channel: u64,
    offsets: [u32; 4],
}

/// The run that begins with element `index` of taps and channels of a group.
///
/// # Safety
/// The table of taps at `taps_at` is filled with `n_taps`.
#[inline(always)]
pub(super) unsafe fn run_at(p: &CpAsyncMmaParams, taps_at: u32, n_taps: u32, group: u32, index: u32) -> Run {
    let (tap, channel) = div_rem(index, p.source_group);
    let there = tap < n_taps;
    let entry = taps_at + if there { tap } else { 0 } * CP_ASYNC_ENTRY_BYTES;
    let channel = u64::from(group) * u64::from(p.source_group) + u64::from(channel);
    Run { there, channel, offsets: shared::load_x4(entry) }
}

/// Copies a run of the pixel whose entry of the table lies at `pixel_at`.
///
/// # Safety
/// As [`copy`] and [`run_at`].
#[inline(always)]
unsafe fn copy_run<T: TileElement, const V: u32>(p: &CpAsyncMmaParams, to: u32, pixel_at: u32, run: &Run) {
    let pixel = shared::load_x4(pixel_at);
    let inside = |axis: usize| pixel[axis + 1].wrapping_add(run.offsets[axis + 1]) < p.source_extents[axis];
    let there = run.there && inside(0) && inside(1) && inside(2);
    let index = pixel[0].wrapping_add(run.offsets[0]);
    let channels = u64::from(p.groups * p.source_group);
    copy::<T, V>(to, p.source, u64::from(index) * channels + run.channel, there);
}

/// Rows of pixels, columns of taps and channels from `first` on: the rows' operand of `fprop` and `dgrad`.
///
/// # Safety
/// As [`copy_run`], for all pixels of the tile.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn load_windows<T: TileElement, const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    pixels_at: u32,
    taps_at: u32,
    n_taps: u32,
    group: u32,
    first: u32,
) {
    by_elems!(V or p.source_elems, windows::<T, SIZE>(p, to, pixels_at, taps_at, n_taps, group, first))
}

/// [`load_windows`], `V` elements a copy.
///
/// # Safety
/// As [`load_windows`].
#[inline(always)]
unsafe fn windows<T: TileElement, const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    pixels_at: u32,
    taps_at: u32,
    n_taps: u32,
    group: u32,
    first: u32,
) {
    let tile = T::tile(SIZE);
    let per_row = CP_ASYNC_K / V;
    let column = thread_idx_x() % per_row * V;
    let run = run_at(p, taps_at, n_taps, group, first + column);
    let mut row = thread_idx_x() / per_row;
    while row < SIZE {
        let at = to + tile.along(row, column);
        copy_run::<T, V>(p, at, pixels_at + row * CP_ASYNC_ENTRY_BYTES, &run);
        row += tile.threads() / per_row;
    }
}

/// Rows of target channels from `first_channel` on, columns of filter elements from `first` on: the columns' operand of
/// `fprop`.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub(super) unsafe fn load_filter_rows<T: TileElement, const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    group: u32,
    first_channel: u32,
    first: u32,
) {
    by_elems!(V or p.other_elems, filter_rows::<T, SIZE>(p, to, group, first_channel, first))
}

/// [`load_filter_rows`], `V` elements a copy.
///
/// # Safety
/// As [`load_filter_rows`].
#[inline(always)]
unsafe fn filter_rows<T: TileElement, const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    group: u32,
    first_channel: u32,
    first: u32,
) {
    let tile = T::tile(SIZE);
    let per_row = CP_ASYNC_K / V;
    let column = thread_idx_x() % per_row * V;
    let length = p.taps() * p.source_group;
    let mut row = thread_idx_x() / per_row;
    while row < SIZE {
        let channel = first_channel + T::column_of_row(row);
        let there = channel < p.target_group && first + column < length;
        let offset = u64::from(group * p.target_group + channel) * u64::from(length) + u64::from(first + column);
        copy::<T, V>(to + tile.along(row, column), p.filter, offset, there);
        row += tile.threads() / per_row;
    }
}

/// Rows of taps and source channels from `first` on, columns of target channels from `first_channel` on: the columns'
/// operand of `dgrad`.
///
/// # Safety
/// As [`copy`] and [`run_at`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn load_filter_columns<T: TileElement, const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    taps_at: u32,
    n_taps: u32,
    group: u32,
    first_channel: u32,
    first: u32,
) {
    by_elems!(V or p.other_elems, filter_columns::<T, SIZE>(p, to, taps_at, n_taps, group, first_channel, first))
}

/// [`load_filter_columns`], `V` elements a copy.
///
/// # Safety
/// As [`load_filter_columns`].
#[inline(always)]
unsafe fn filter_columns<T: TileElement, const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    taps_at: u32,
    n_taps: u32,
    group: u32,
    first_channel: u32,
    first: u32,
) {
    let tile = T::tile(SIZE);
    let per_row = SIZE / V;
    let column = thread_idx_x() % per_row * V;
    let mut row = thread_idx_x() / per_row;
    while row < CP_ASYNC_K {
        let (tap, source_channel) = div_rem(first + row, p.source_group);
        let there = tap < n_taps && first_channel + column < p.target_group;
        let element =
            shared::load_u32(taps_at + p.taps() * CP_ASYNC_ENTRY_BYTES + 4 * if tap < n_taps { tap } else { 0 });
        let row_of_filter =
            u64::from(group * p.source_group + source_channel) * u64::from(p.taps()) + u64::from(element);
        let offset = row_of_filter * u64::from(p.target_group) + u64::from(first_channel + column);
        copy::<T, V>(to + tile.across(row, column), p.filter, offset, there);
        row += tile.threads() / per_row;
    }
}

/// Rows of distances and source channels from `first` on, columns of classes and target channels from `first_column` on:
/// the columns' operand of a `dgrad` whose classes lie beside each other. Where a class has no tap at a distance are zeros.
///
/// # Safety
/// As [`copy`] and [`run_at`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn load_spread_columns<T: TileElement, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    taps_at: u32,
    n_taps: u32,
    group: u32,
    first_column: u32,
    first: u32,
) {
    let tile = T::tile(SIZE);
    let column = thread_idx_x() % SIZE;
    let (class, channel) = div_rem(first_column + column, p.target_group);
    let [beyond, class_d, class_h, class_w] = split(class, p.stride);
    let from = [class_d as i32 + p.padding[0], class_h as i32 + p.padding[1], class_w as i32 + p.padding[2]];
    let mut row = thread_idx_x() / SIZE;
    let (mut tap, mut source_channel) = div_rem(first + row, p.source_group);
    while row < CP_ASYNC_K {
        let mut there = tap < n_taps && beyond == 0;
        let distance = shared::load_x4(taps_at + if tap < n_taps { tap } else { 0 } * CP_ASYNC_ENTRY_BYTES);
        let mut element = 0;
        unroll!(AXIS in [0 1 2] {
            let at = (from[AXIS] - distance[AXIS + 1] as i32 * p.stride[AXIS] as i32) as u32;
            there = there && at < p.filter_extents[AXIS];
            element = u32::wrapping_add(u32::wrapping_mul(element, p.filter_extents[AXIS]), at);
        });
        if p.flip != 0 {
            element = (p.taps() - 1).wrapping_sub(element);
        }
        let row_of_filter =
            u64::from(group * p.source_group + source_channel) * u64::from(p.taps()) + u64::from(element);
        let offset = row_of_filter * u64::from(p.target_group) + u64::from(channel);
        copy::<T, 1>(to + tile.across(row, column), p.filter, offset, there);
        let step = tile.threads() / SIZE;
        row += step;
        source_channel += step;
        while source_channel >= p.source_group {
            source_channel -= p.source_group;
            tap += 1;
        }
    }
}

/// Rows of the target's pixels `first..end`, columns of its channels from `first_channel` on: the rows' operand of
/// `wgrad`.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub(super) unsafe fn load_target<T: TileElement, const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    group: u32,
    first_channel: u32,
    first: u32,
    end: u32,
) {
    by_elems!(V or p.other_elems, target::<T, SIZE>(p, to, group, first_channel, first, end))
}

/// [`load_target`], `V` elements a copy.
///
/// # Safety
/// As [`load_target`].
#[inline(always)]
unsafe fn target<T: TileElement, const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    group: u32,
    first_channel: u32,
    first: u32,
    end: u32,
) {
    let tile = T::tile(SIZE);
    let per_row = SIZE / V;
    let column = thread_idx_x() % per_row * V;
    let channels = u64::from(p.groups * p.target_group);
    let channel = u64::from(group * p.target_group + first_channel + column);
    let mut row = thread_idx_x() / per_row;
    while row < CP_ASYNC_K {
        let there = first + row < end && first_channel + column < p.target_group;
        let offset = u64::from(first + row) * channels + channel;
        copy::<T, V>(to + tile.across(row, column), p.target, offset, there);
        row += tile.threads() / per_row;
    }
}

/// Rows of the pixels of a table, columns of a thread's run: the columns' operand of `wgrad`.
///
/// # Safety
/// As [`copy_run`]; `run` is that of this thread's column.
#[inline(always)]
pub(super) unsafe fn load_runs<T: TileElement, const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    pixels_at: u32,
    run: &Run,
) {
    by_elems!(V or p.source_elems, runs::<T, SIZE>(p, to, pixels_at, run))
}

/// [`load_runs`], `V` elements a copy.
///
/// # Safety
/// As [`load_runs`].
#[inline(always)]
unsafe fn runs<T: TileElement, const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    pixels_at: u32,
    run: &Run,
) {
    let tile = T::tile(SIZE);
    let per_row = SIZE / V;
    let column = thread_idx_x() % per_row * V;
    let mut row = thread_idx_x() / per_row;
    while row < CP_ASYNC_K {
        let at = to + tile.across(row, column);
        copy_run::<T, V>(p, at, pixels_at + row * CP_ASYNC_ENTRY_BYTES, run);
        row += tile.threads() / per_row;
    }
}
