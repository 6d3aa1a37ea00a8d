//! Square filters of 3, 5 or 7 without dilation, over packed planes.
//!
//! A warp works by itself. It copies the source rows that its part of a plane needs, or several small planes, to its
//! region of shared memory in words of 16 bytes, whatever the width: they lie together in memory. Then every lane
//! slides down a column, and writes its target elements next to its neighbours'.
//!
//! Grid: one-dimensional. Block: 256.

use super::access::{Access, add_prior};
use super::products::{element, gather_row, lines_at_once, spread_row, wgrad_row};
use super::reduce;
use crate::math::element::load;
use crate::math::index::div_rem_u32 as div_rem;
use cuda_std::{cp_async, shared, thread, warp};
use kernel_abi::ops::conv::{DepthwiseParams, REGION_BYTES, index};

/// Bytes of shared memory of a block.
pub const SHARED_BYTES: usize = 8 * REGION_BYTES as usize;

const WORD: i32 = 16;

/// This warp's number in the grid, and its region.
#[inline(always)]
unsafe fn warp_region(shared: *mut u8) -> (u32, *mut u8) {
    let in_block = thread::warp_idx();
    (thread::block_idx_x() * 8 + in_block, shared.add(in_block as usize * REGION_BYTES as usize))
}

/// Begins to copy `bytes` from `from` to a region, together with what lies before them in their first word; gives
/// where they are.
#[inline(always)]
unsafe fn copy(region: *mut u8, from: u64, bytes: i32) -> *mut u8 {
    let before = (from % WORD as u64) as i32;
    let (first, end) = (from - before as u64, if bytes > 0 { bytes + before } else { 0 });
    let to = shared::address(region);
    let mut at = thread::lane_id() as i32 * WORD;
    while at < end {
        let valid = if end - at < WORD { end - at } else { WORD };
        cp_async::copy_x4(to + at as u32, (first + at as u64) as *const u8, valid as u32);
        at += 32 * WORD;
    }
    region.add(before as usize)
}

/// Waits for this warp's copies.
#[inline(always)]
pub(super) fn wait() {
    cp_async::wait_all();
    warp::sync_warp();
}

/// Rows of a plane in shared memory, as a lane sees them: some columns of it.
struct Columns<T, const COLUMNS: usize> {
    /// Row 0, which need not be there.
    plane: *const T,
    /// First row that is there, and the one behind the last.
    rows: [i32; 2],
    width: i32,
    at: [i32; COLUMNS],
    /// All bits where there is such a column.
    masks: [u32; COLUMNS],
}

impl<T: Access<1>, const COLUMNS: usize> Columns<T, COLUMNS> {
    #[inline(always)]
    unsafe fn new(plane: *const T, rows: [i32; 2], width: i32, first: i32) -> Self {
        let (mut at, mut masks) = ([0; COLUMNS], [0; COLUMNS]);
        let mut i = 0;
        while i < COLUMNS {
            let column = first + i as i32;
            let inside = (column as u32) < width as u32;
            *at.get_unchecked_mut(i) = if inside { column } else { 0 };
            *masks.get_unchecked_mut(i) = if inside { u32::MAX } else { 0 };
            i += 1;
        }
        Columns { plane, rows, width, at, masks }
    }

    #[inline(always)]
    fn has(&self, row: i32) -> bool {
        row >= self.rows[0] && row < self.rows[1]
    }

    /// A row that is there, zeros in the columns that are not.
    #[inline(always)]
    unsafe fn row(&self, row: i32) -> [[f32; 1]; COLUMNS] {
        let mut values = [[0.0]; COLUMNS];
        let first = row * self.width;
        let mut i = 0;
        while i < COLUMNS {
            let value = (*self.plane.offset((first + *self.at.get_unchecked(i)) as isize)).widen();
            *values.get_unchecked_mut(i) = [f32::from_bits(value.to_bits() & *self.masks.get_unchecked(i))];
            i += 1;
        }
        values
    }
}

/// A part of the planes, which one warp takes.
struct Task {
    /// The first plane.
    plane: u32,
    /// How many planes there are.
    planes: i32,
    /// Which rows the warp steps through, of each.
    steps: [i32; 2],
}

impl Task {
    /// Task `at` over `n_planes`, each of `n_steps` rows.
    #[inline(always)]
    fn new(p: &DepthwiseParams, at: u32, n_planes: u32, n_steps: i32) -> Self {
        let bands = div_rem((n_steps + p.item_rows - 1) as u32, p.item_rows as u32).0;
        let (group, band) = div_rem(at, bands);
        let plane = group * p.channel_run as u32;
        let rest = n_planes - plane;
        let planes = if rest < p.channel_run as u32 { rest as i32 } else { p.channel_run };
        Task { plane, planes, steps: band_rows(p, band, n_steps) }
    }
}

/// The rows of a band.
#[inline(always)]
pub(super) fn band_rows(p: &DepthwiseParams, band: u32, n_rows: i32) -> [i32; 2] {
    let first = band as i32 * p.item_rows;
    [first, if first + p.item_rows < n_rows { first + p.item_rows } else { n_rows }]
}

/// Of `wanted` rows, those in a plane of `height`; all of it when a warp takes several planes, which it copies whole.
#[inline(always)]
fn rows_to_copy(p: &DepthwiseParams, wanted: [i32; 2], height: i32) -> [i32; 2] {
    if p.channel_run > 1 {
        return [0, height];
    }
    let first = if wanted[0] > 0 { wanted[0] } else { 0 };
    let end = if wanted[1] < height { wanted[1] } else { height };
    [first, if end > first { end } else { first }]
}

/// Copies rows of planes; gives row 0 of the first plane.
#[inline(always)]
unsafe fn copy_rows<T>(
    region: *mut u8,
    address: u64,
    dims: [i32; 2],
    plane: u32,
    planes: i32,
    rows: [i32; 2],
) -> *const T {
    let size = size_of::<T>() as i32;
    let elems = if planes > 1 { planes * dims[0] * dims[1] } else { (rows[1] - rows[0]) * dims[1] };
    let first = plane as i64 * (dims[0] * dims[1]) as i64 + (rows[0] * dims[1]) as i64;
    let there = copy(region, address + first as u64 * size as u64, elems * size);
    there.cast::<T>().wrapping_sub((rows[0] * dims[1]) as usize)
}

/// The taps of a channel, times alpha.
#[inline(always)]
unsafe fn taps<T: Access<1>, const R: usize>(p: &DepthwiseParams, c: u32) -> [[[f32; 1]; R]; R] {
    let mut values = [[[0.0; 1]; R]; R];
    let first = c as i64 * p.w_strides[0];
    let flip = p.flip != 0;
    let mut r = 0;
    while r < R {
        let mut s = 0;
        while s < R {
            let at = first
                + index::filter_index(r as i64, R as i64, flip) * p.w_strides[1]
                + index::filter_index(s as i64, R as i64, flip) * p.w_strides[2];
            *element(&mut values, r, s, 0) = p.alpha * load::<T>(p.w, at);
            s += 1;
        }
        r += 1;
    }
    values
}

/// Writes an element of the target.
#[inline(always)]
unsafe fn store<T: Access<1>>(p: &DepthwiseParams, to: u64, sum: [f32; 1], condition: bool) {
    if p.beta == 0.0 {
        T::store(to, sum, u32::from(condition));
    } else if condition {
        add_prior::<T, 1>(to, sum, p.beta);
    }
}

/// target = conv(source, w): a step takes `STRIDE` source rows and ends a target row.
pub unsafe fn gather<T: Access<1>, const R: usize, const STRIDE: usize, const RING: usize>(
    p: &DepthwiseParams,
    shared: *mut u8,
) {
    let (at, region) = warp_region(shared);
    if at >= p.n_items as u32 {
        return;
    }
    let [height, width] = p.target_dims;
    let n_planes = p.n as u32 * p.c as u32;
    let task = Task::new(p, at, n_planes, height);
    let [begin, end] = task.steps;
    let first_row = begin * STRIDE as i32 - p.padding[0];
    let wanted = [first_row, (end - 1) * STRIDE as i32 - p.padding[0] + R as i32];
    let rows = rows_to_copy(p, wanted, p.source_dims[0]);
    let source = copy_rows::<T>(region, p.source, p.source_dims, task.plane, task.planes, rows);
    wait();

    let mut item = thread::lane_id();
    while item < task.planes as u32 * width as u32 {
        let (plane, q) = div_rem(item, width as u32);
        let w = taps::<T, R>(p, div_rem(task.plane + plane, p.c as u32).1);
        let here = source.wrapping_add((plane as i32 * p.source_dims[0] * p.source_dims[1]) as usize);
        let columns = Columns::<T, R>::new(here, rows, p.source_dims[1], q as i32 * STRIDE as i32 - p.padding[1]);
        let target = (task.plane + plane) as i64 * (height * width) as i64 + (begin * width) as i64 + q as i64;
        let mut to = p.target + target as u64 * size_of::<T>() as u64;

        let mut row = first_row;
        let mut sums = [[[0.0f32; 1]; 1]; RING];
        let mut ended = begin - (RING as i32 - 1);
        while ended < end {
            if columns.has(row) {
                gather_row::<1, R, STRIDE, RING, 1, R, 0>(&mut sums, &columns.row(row), &w);
            }
            if STRIDE == 2 && columns.has(row + 1) {
                gather_row::<1, R, STRIDE, RING, 1, R, 1>(&mut sums, &columns.row(row + 1), &w);
            }
            if ended >= begin {
                store::<T>(p, to, sums[RING - 1][0], true);
                to += width as u64 * size_of::<T>() as u64;
            }
            row += STRIDE as i32;
            ended += 1;
            let mut j = RING - 1;
            while j > 0 {
                *sums.get_unchecked_mut(j) = *sums.get_unchecked(j - 1);
                j -= 1;
            }
            sums[0] = [[0.0]];
        }
        item += 32;
    }
}

/// target = transposed conv(source, w) with stride 2: a step takes a source row and ends two target rows, of which a
/// lane has two columns. `RING = ⌈R / 2⌉`.
pub unsafe fn spread<T: Access<1>, const R: usize, const RING: usize>(p: &DepthwiseParams, shared: *mut u8) {
    let (at, region) = warp_region(shared);
    if at >= p.n_items as u32 {
        return;
    }
    let [height, width] = p.target_dims;
    // The taps came turned around, and with the padding that goes with it.
    let padding = [R as i32 - 1 - p.padding[0], R as i32 - 1 - p.padding[1]];
    let pairs = (width + padding[1] + 1) / 2;
    let n_planes = p.n as u32 * p.c as u32;
    let task = Task::new(p, at, n_planes, (height + padding[0] + 1) / 2);
    let [begin, end] = task.steps;
    let rows = rows_to_copy(p, [begin - (RING as i32 - 1), end], p.source_dims[0]);
    let source = copy_rows::<T>(region, p.source, p.source_dims, task.plane, task.planes, rows);
    wait();

    let mut item = thread::lane_id();
    while item < task.planes as u32 * pairs as u32 {
        let (plane, pair) = div_rem(item, pairs as u32);
        let w = taps::<T, R>(p, div_rem(task.plane + plane, p.c as u32).1);
        let here = source.wrapping_add((plane as i32 * p.source_dims[0] * p.source_dims[1]) as usize);
        let columns = Columns::<T, RING>::new(here, rows, p.source_dims[1], pair as i32 - (RING as i32 - 1));
        let column = 2 * pair as i32 - padding[1];
        let target = (task.plane + plane) as i64 * (height * width) as i64 + column as i64;
        let size = size_of::<T>() as i64;
        let to = p.target.wrapping_add((target * size) as u64);

        let mut row = begin - (RING as i32 - 1);
        let mut sums = [[[0.0f32; 1]; 2]; R];
        while row < end {
            if columns.has(row) {
                spread_row::<1, R, RING, 2, RING>(&mut sums, &columns.row(row), &w);
            }
            if row >= begin {
                let mut j = 0;
                while j < 2 {
                    let target_row = 2 * row - padding[0] + j as i32;
                    if target_row >= 0 && target_row < height {
                        let sums = sums.get_unchecked(j);
                        let to = to.wrapping_add((target_row * width) as i64 as u64 * size as u64);
                        store::<T>(p, to, sums[0], (column as u32) < width as u32);
                        store::<T>(p, to.wrapping_add(size as u64), sums[1], ((column + 1) as u32) < width as u32);
                    }
                    j += 1;
                }
            }
            row += 1;
            let mut j = 0;
            while j < R {
                *sums.get_unchecked_mut(j) = if j + 2 < R { *sums.get_unchecked(j + 2) } else { [[0.0]; 2] };
                j += 1;
            }
        }
        item += 32;
    }
}

/// Sums of a slab's products for every tap of the warp's channels. Slabs take bands in turns. A single slab's sums are
/// the gradient.
pub unsafe fn wgrad<T: Access<1>, const R: usize, const STRIDE: usize, const RING: usize>(
    p: &DepthwiseParams,
    shared: *mut u8,
) {
    let (at, region) = warp_region(shared);
    if at >= p.n_items as u32 {
        return;
    }
    let lane = thread::lane_id();
    let [height, width] = p.target_dims;
    let groups = div_rem((p.c + p.channel_run - 1) as u32, p.channel_run as u32).0;
    let (slab, group) = div_rem(at, groups);
    let c = group as i32 * p.channel_run;
    let planes = if p.c - c < p.channel_run { p.c - c } else { p.channel_run };
    let bands = div_rem((height + p.item_rows - 1) as u32, p.item_rows as u32).0;
    let n_bands = p.n as u32 * bands;
    let items = planes as u32 * width as u32;

    let mut totals = [[[0.0f32; 1]; R]; R];
    let mut at = slab;
    while at < n_bands {
        let (n, band) = div_rem(at, bands);
        let [begin, end] = band_rows(p, band, height);
        let first_row = begin * STRIDE as i32 - p.padding[0];
        let wanted = [first_row, (end - 1) * STRIDE as i32 - p.padding[0] + R as i32];
        let rows = rows_to_copy(p, wanted, p.source_dims[0]);
        let y_rows = rows_to_copy(p, [begin, end], height);
        let plane = n * p.c as u32 + c as u32;
        // The last band's readers are done.
        warp::sync_warp();
        let y = copy_rows::<T>(region, p.target, p.target_dims, plane, planes, y_rows);
        let y_elems = if planes > 1 { planes * height * width } else { (end - begin) * width };
        // As far as the words of dy reach, wherever they begin.
        let y_bytes = (y_elems * size_of::<T>() as i32 + 2 * WORD - 1) / WORD * WORD;
        let x = copy_rows::<T>(region.add(y_bytes as usize), p.source, p.source_dims, plane, planes, rows);
        wait();

        let mut item = lane;
        while item < items {
            let (plane, q) = div_rem(item, width as u32);
            let x = x.wrapping_add((plane as i32 * p.source_dims[0] * p.source_dims[1]) as usize);
            let columns = Columns::<T, R>::new(x, rows, p.source_dims[1], q as i32 * STRIDE as i32 - p.padding[1]);
            let mut y = y.wrapping_add((plane as i32 * height * width + begin * width) as usize + q as usize);
            // ring[j]: the element of dy j rows above the newest one.
            let mut ring = [[[0.0f32; 1]; 1]; RING];
            let mut row = first_row;
            let mut step = begin;
            while step < end + RING as i32 - 1 {
                let mut j = RING - 1;
                while j > 0 {
                    *ring.get_unchecked_mut(j) = *ring.get_unchecked(j - 1);
                    j -= 1;
                }
                ring[0] = [[0.0]];
                if step < end {
                    ring[0] = [[(*y).widen()]];
                    y = y.wrapping_add(width as usize);
                }
                if columns.has(row) {
                    wgrad_row::<1, R, STRIDE, RING, 1, R, 0>(&mut totals, &columns.row(row), &ring);
                }
                if STRIDE == 2 && columns.has(row + 1) {
                    wgrad_row::<1, R, STRIDE, RING, 1, R, 1>(&mut totals, &columns.row(row + 1), &ring);
                }
                row += STRIDE as i32;
                step += 1;
            }
            item += 32;
        }
        at += p.n_slabs as u32;
    }

    // Some lines of taps at a time, lanes write their totals and add up those of a channel.
    let sums = region.cast::<f32>();
    let mut first = 0;
    while first < R {
        let lines = if R - first < lines_at_once(R) { R - first } else { lines_at_once(R) };
        warp::sync_warp();
        let mut r = 0;
        while r < lines {
            let mut s = 0;
            while s < R {
                *sums.add((r * R + s) * 32 + lane as usize) = *element(&mut totals, first + r, s, 0);
                s += 1;
            }
            r += 1;
        }
        warp::sync_warp();
        let n_taps = (lines * R) as i32;
        let mut at = lane as i32;
        while at < planes * n_taps {
            let (plane, tap) = (at / n_taps, at % n_taps);
            // Several channels have a lane a column.
            let first_lane = if p.channel_run > 1 { plane * width } else { 0 };
            let end = if p.channel_run > 1 { first_lane + width } else { 32 };
            let mut total = 0.0;
            let mut from = first_lane;
            while from < end {
                total += *sums.add((tap * 32 + from) as usize);
                from += 1;
            }
            let tap = (first * R) as i64 + tap as i64;
            reduce::write_or_leave::<T>(p, slab as i64, tap, (c + plane) as i64, total);
            at += 32;
        }
        first += lines_at_once(R);
    }
}
