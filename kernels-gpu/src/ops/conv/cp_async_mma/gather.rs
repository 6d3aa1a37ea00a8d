//! Copies of one stage's operands, `V` elements each.

use super::div_rem;
use cuda_std::thread::thread_idx_x;
use cuda_std::{cp_async, shared};
use kernel_abi::ops::conv::cp_async_mma::{
    CP_ASYNC_ENTRY_BYTES, CP_ASYNC_K, CP_ASYNC_ROW_BYTES, CpAsyncMmaParams, CpAsyncTile,
};

/// Copies `V` elements, or zeros.
///
/// # Safety
/// `to` is shared memory and `from`, where `there`, global memory of so many elements, both aligned to them.
#[inline(always)]
pub(super) unsafe fn copy<const V: u32>(to: u32, tensor: u64, offset: u64, there: bool) {
    let from = (tensor + if there { 2 * offset } else { 0 }) as *const u8;
    let bytes = if there { 2 * V } else { 0 };
    match V {
        8 => cp_async::copy_x4(to, from, bytes),
        4 => cp_async::copy_x2(to, from, bytes),
        2 => cp_async::copy_x1(to, from, bytes),
        _ => shared::store_u16(to, if there { *(from as *const u16) } else { 0 }),
    }
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
pub(super) unsafe fn copy_run<const V: u32>(p: &CpAsyncMmaParams, to: u32, pixel_at: u32, run: &Run) {
    let pixel = shared::load_x4(pixel_at);
    let inside = |axis: usize| pixel[axis + 1].wrapping_add(run.offsets[axis + 1]) < p.source_extents[axis];
    let there = run.there && inside(0) && inside(1) && inside(2);
    let index = pixel[0].wrapping_add(run.offsets[0]);
    let channels = u64::from(p.groups * p.source_group);
    copy::<V>(to, p.source, u64::from(index) * channels + run.channel, there);
}

/// Rows of pixels, columns of taps and channels from `first` on: the rows' operand of `fprop` and `dgrad`.
///
/// # Safety
/// As [`copy_run`], for all pixels of the tile.
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn load_windows<const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    pixels_at: u32,
    taps_at: u32,
    n_taps: u32,
    group: u32,
    first: u32,
) {
    let per_row = CP_ASYNC_K / V;
    let column = thread_idx_x() % per_row * V;
    let run = run_at(p, taps_at, n_taps, group, first + column);
    let mut row = thread_idx_x() / per_row;
    while row < SIZE {
        let at = to + row * CP_ASYNC_ROW_BYTES + 2 * column;
        copy_run::<V>(p, at, pixels_at + row * CP_ASYNC_ENTRY_BYTES, &run);
        row += CpAsyncTile(SIZE).threads() / per_row;
    }
}

/// Rows of target channels from `first_channel` on, columns of filter elements from `first` on: the columns' operand of
/// `fprop`.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub(super) unsafe fn load_filter_rows<const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    group: u32,
    first_channel: u32,
    first: u32,
) {
    let per_row = CP_ASYNC_K / V;
    let column = thread_idx_x() % per_row * V;
    let length = p.taps() * p.source_group;
    let mut row = thread_idx_x() / per_row;
    while row < SIZE {
        let channel = first_channel + row;
        let there = channel < p.target_group && first + column < length;
        let offset = u64::from(group * p.target_group + channel) * u64::from(length) + u64::from(first + column);
        copy::<V>(to + row * CP_ASYNC_ROW_BYTES + 2 * column, p.filter, offset, there);
        row += CpAsyncTile(SIZE).threads() / per_row;
    }
}

/// Rows of taps and source channels from `first` on, columns of target channels from `first_channel` on: the columns'
/// operand of `dgrad`.
///
/// # Safety
/// As [`copy`] and [`run_at`].
#[inline(always)]
#[allow(clippy::too_many_arguments)]
pub(super) unsafe fn load_filter_columns<const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    taps_at: u32,
    n_taps: u32,
    group: u32,
    first_channel: u32,
    first: u32,
) {
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
        copy::<V>(to + row * CpAsyncTile(SIZE).wide_row_bytes() + 2 * column, p.filter, offset, there);
        row += CpAsyncTile(SIZE).threads() / per_row;
    }
}

/// Rows of the target's pixels `first..end`, columns of its channels from `first_channel` on: the rows' operand of
/// `wgrad`.
///
/// # Safety
/// As [`copy`].
#[inline(always)]
pub(super) unsafe fn load_target<const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    group: u32,
    first_channel: u32,
    first: u32,
    end: u32,
) {
    let per_row = SIZE / V;
    let column = thread_idx_x() % per_row * V;
    let channels = u64::from(p.groups * p.target_group);
    let channel = u64::from(group * p.target_group + first_channel + column);
    let mut row = thread_idx_x() / per_row;
    while row < CP_ASYNC_K {
        let there = first + row < end && first_channel + column < p.target_group;
        let offset = u64::from(first + row) * channels + channel;
        copy::<V>(to + row * CpAsyncTile(SIZE).wide_row_bytes() + 2 * column, p.target, offset, there);
        row += CpAsyncTile(SIZE).threads() / per_row;
    }
}

/// Rows of the pixels of a table, columns of a thread's run: the columns' operand of `wgrad`.
///
/// # Safety
/// As [`copy_run`]; `run` is that of this thread's column.
#[inline(always)]
pub(super) unsafe fn load_runs<const V: u32, const SIZE: u32>(
    p: &CpAsyncMmaParams,
    to: u32,
    pixels_at: u32,
    run: &Run,
) {
    let per_row = SIZE / V;
    let column = thread_idx_x() % per_row * V;
    let mut row = thread_idx_x() / per_row;
    while row < CP_ASYNC_K {
        let at = to + row * CpAsyncTile(SIZE).wide_row_bytes() + 2 * column;
        copy_run::<V>(p, at, pixels_at + row * CP_ASYNC_ENTRY_BYTES, run);
        row += CpAsyncTile(SIZE).threads() / per_row;
    }
}
