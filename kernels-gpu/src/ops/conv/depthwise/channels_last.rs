//! Square filters of 3, 5 or 7 without dilation, over channels-last images.
//!
//! A block takes a run of neighbouring groups of `VEC` channels, whose taps it brings to shared memory and then to
//! registers. A thread has one group and a strip of columns, and slides down rows: it loads every source row once, a
//! step or more ahead of its use, and keeps the sums of all target rows that the source row meets, so that nothing but
//! the columns between two strips and the rows between two items is loaded twice.
//!
//! Grid: one-dimensional, runs fastest. Block: 256, groups of the run fastest; the threads left over idle.

use super::access::{Access, add_prior};
use super::products::{element, gather_row, lines_at_once, spread_row, wgrad_row};
use crate::math::index::div_rem_u32 as div_rem;
use cuda_std::{barrier, thread};
use kernel_abi::ops::conv::{DepthwiseParams, RUN_MAX, index};

const THREADS: i32 = 256;

/// One thread's place in the grid.
struct Place {
    /// Which of the block's sets of groups.
    slot: i32,
    /// Which group of the run.
    group: i32,
    /// First channel of the run.
    run_channel: i32,
    /// Which block among those of the run.
    block: u32,
    /// Sets of groups that a block has.
    slots: i32,
    /// Whether there is such a slot and group.
    able: bool,
}

impl Place {
    #[inline(always)]
    fn new<const VEC: usize>(p: &DepthwiseParams) -> Self {
        let me = thread::thread_idx_x() as i32;
        let groups = p.c / VEC as i32;
        let (slot, group) = div_rem(me as u32, p.channel_run as u32);
        let (slots, _) = div_rem(THREADS as u32, p.channel_run as u32);
        let runs = div_rem((groups + p.channel_run - 1) as u32, p.channel_run as u32).0;
        let (block, run) = div_rem(thread::block_idx_x(), runs);
        let first = run as i32 * p.channel_run;
        Place {
            slot: slot as i32,
            group: group as i32,
            run_channel: first * VEC as i32,
            block,
            slots: slots as i32,
            able: slot < slots && first + (group as i32) < groups,
        }
    }

    /// Items are below 2³¹, threads fewer than that beyond them.
    #[inline(always)]
    fn first_item(&self) -> u32 {
        self.block * self.slots as u32 + self.slot as u32
    }

    #[inline(always)]
    fn channel<const VEC: usize>(&self) -> i32 {
        self.run_channel + self.group * VEC as i32
    }
}

/// A strip of columns and rows of one image.
struct Item {
    n: u32,
    /// Index of the strip along rows.
    strip: i32,
    /// First row, and the one behind the last.
    rows: [i32; 2],
}

impl Item {
    /// Item `at` of those with `strips` strips in each of `n_rows` rows.
    #[inline(always)]
    fn new(p: &DepthwiseParams, at: u32, strips: i32, n_rows: i32) -> Self {
        let (rest, strip) = div_rem(at, strips as u32);
        let parts = div_rem((n_rows + p.item_rows - 1) as u32, p.item_rows as u32).0;
        let (n, part) = div_rem(rest, parts);
        let first = part as i32 * p.item_rows;
        let end = if first + p.item_rows < n_rows { first + p.item_rows } else { n_rows };
        Item { n, strip: strip as i32, rows: [first, end] }
    }
}

/// Loads of taps that a thread has under way at once.
const TAPS_AT_ONCE: usize = 4;

/// Brings the taps of the block's channels, times alpha, to shared memory, `[tap][channel of the run]`, and waits.
#[inline(always)]
unsafe fn stage_taps<T: Access<1>, const VEC: usize, const R: usize>(
    p: &DepthwiseParams,
    place: &Place,
    taps: *mut f32,
) {
    let channels = p.channel_run * VEC as i32;
    let n_taps = channels * (R * R) as i32;
    let flip = p.flip != 0;
    let mut first = thread::thread_idx_x() as i32;
    while first < n_taps {
        let mut packed = [T::ZEROS; TAPS_AT_ONCE];
        let mut i = 0;
        while i < TAPS_AT_ONCE {
            let at = first + i as i32 * THREADS;
            // Taps of a channel lie together in memory, channels behind one another.
            let (channel, tap) = (at / (R * R) as i32, at % (R * R) as i32);
            let c = place.run_channel + channel;
            let (r, s) = (tap / R as i32, tap % R as i32);
            let offset = c as i64 * p.w_strides[0]
                + index::filter_index(r as i64, R as i64, flip) * p.w_strides[1]
                + index::filter_index(s as i64, R as i64, flip) * p.w_strides[2];
            let from = p.w.wrapping_add((offset * size_of::<T>() as i64) as u64);
            *packed.get_unchecked_mut(i) = T::load(from, u32::from(at < n_taps && c < p.c));
            i += 1;
        }
        let mut i = 0;
        while i < TAPS_AT_ONCE {
            let at = first + i as i32 * THREADS;
            let (channel, tap) = (at / (R * R) as i32, at % (R * R) as i32);
            if at < n_taps {
                let [value] = T::unpack(*packed.get_unchecked(i));
                *taps.add((tap * channels + channel) as usize) = p.alpha * value;
            }
            i += 1;
        }
        first += TAPS_AT_ONCE as i32 * THREADS;
    }
    barrier::sync_threads();
}

/// The taps of this thread's channels.
#[inline(always)]
unsafe fn read_taps<const VEC: usize, const R: usize>(
    p: &DepthwiseParams,
    place: &Place,
    taps: *const f32,
) -> [[[f32; VEC]; R]; R] {
    let mut values = [[[0.0; VEC]; R]; R];
    let mut r = 0;
    while r < R {
        let mut s = 0;
        while s < R {
            let at = ((r * R + s) as i32 * p.channel_run + place.group) * VEC as i32;
            let mut v = 0;
            while v < VEC {
                *element(&mut values, r, s, v) = *taps.add(at as usize + v);
                v += 1;
            }
            s += 1;
        }
        r += 1;
    }
    values
}

/// Elements of shared memory for the taps.
pub const fn n_taps(vec: usize, r: usize) -> usize {
    RUN_MAX as usize * vec * r * r
}

/// Rows of an image, as far as a strip's columns go.
struct Rows<const COLUMNS: usize> {
    /// Address of the first column in row 0; it need not exist.
    first: u64,
    row_bytes: i32,
    column_bytes: u32,
    /// Bit i: column i exists.
    columns: u32,
    /// The rows that exist and are needed: those below.
    end: i32,
}

impl<const COLUMNS: usize> Rows<COLUMNS> {
    /// Rows below `end` from column `column` of image `n`, for the channels from `c` on.
    #[inline(always)]
    fn new<T>(address: u64, dims: [i32; 2], channels: i32, n: u32, c: i32, column: i32, end: i32) -> Self {
        let size = size_of::<T>() as i32;
        let column_bytes = channels * size;
        let row_bytes = dims[1] * column_bytes;
        let in_image = column * column_bytes + c * size;
        let first = n as i64 * (dims[0] * row_bytes) as i64 + in_image as i64;
        let mut columns = 0;
        let mut i = 0;
        while i < COLUMNS {
            columns |= u32::from(((column + i as i32) as u32) < dims[1] as u32) << i;
            i += 1;
        }
        Rows {
            first: address.wrapping_add(first as u64),
            row_bytes,
            column_bytes: column_bytes as u32,
            columns,
            end: if end < dims[0] { end } else { dims[0] },
        }
    }

    /// Address of a row's first column.
    #[inline(always)]
    fn row(&self, row: i32) -> u64 {
        self.first.wrapping_add((row * self.row_bytes) as i64 as u64)
    }

    /// A row, zeros where there is none.
    #[inline(always)]
    unsafe fn load<T: Access<VEC>, const VEC: usize>(&self, row: i32) -> [T::Packed; COLUMNS] {
        let mut packed = [T::ZEROS; COLUMNS];
        let columns = if row >= 0 && row < self.end { self.columns } else { 0 };
        let mut at = self.row(row);
        let mut i = 0;
        while i < COLUMNS {
            *packed.get_unchecked_mut(i) = T::load(at, columns & (1 << i));
            at = at.wrapping_add(self.column_bytes as u64);
            i += 1;
        }
        packed
    }
}

#[inline(always)]
fn unpack<T: Access<VEC>, const VEC: usize, const COLUMNS: usize>(
    packed: [T::Packed; COLUMNS],
) -> [[f32; VEC]; COLUMNS] {
    let mut values = [[0.0; VEC]; COLUMNS];
    let mut i = 0;
    while i < COLUMNS {
        // SAFETY: both have COLUMNS elements.
        unsafe { *values.get_unchecked_mut(i) = T::unpack(*packed.get_unchecked(i)) };
        i += 1;
    }
    values
}

/// Writes a strip of a row.
#[inline(always)]
unsafe fn store<T: Access<VEC>, const VEC: usize, const STRIP: usize>(
    p: &DepthwiseParams,
    rows: &Rows<STRIP>,
    row: i32,
    sums: &[[f32; VEC]; STRIP],
) {
    let mut at = rows.row(row);
    let mut i = 0;
    if p.beta == 0.0 {
        while i < STRIP {
            T::store(at, *sums.get_unchecked(i), rows.columns & (1 << i));
            at = at.wrapping_add(rows.column_bytes as u64);
            i += 1;
        }
    } else {
        while i < STRIP {
            if rows.columns & (1 << i) != 0 {
                add_prior::<T, VEC>(at, *sums.get_unchecked(i), p.beta);
            }
            at = at.wrapping_add(rows.column_bytes as u64);
            i += 1;
        }
    }
}

/// Source rows that `gather` loads ahead of its products: what registers hold.
pub const fn rows_ahead(r: usize, stride: usize, strip: usize) -> usize {
    match (r, stride, strip) {
        (3, 1, 4) => 3,
        (3, 2, 2) => 4,
        _ => stride,
    }
}

/// target = conv(source, w): each step takes `STRIDE` source rows and ends one target row.
///
/// `RING = ⌈R / STRIDE⌉` target rows are under way at once; `COLUMNS = (STRIP - 1) · STRIDE + R`. Loads run `AHEAD`
/// source rows, whole steps, ahead of the products, the first of them while the taps come.
pub unsafe fn gather<
    T: Access<VEC> + Access<1>,
    const VEC: usize,
    const R: usize,
    const STRIDE: usize,
    const RING: usize,
    const STRIP: usize,
    const COLUMNS: usize,
    const AHEAD: usize,
>(
    p: &DepthwiseParams,
    taps: *mut f32,
) {
    let place = Place::new::<VEC>(p);
    let at = place.first_item();
    let able = place.able && at < p.n_items as u32;
    let strips = (p.target_dims[1] + STRIP as i32 - 1) / STRIP as i32;
    let item = Item::new(p, at, strips, p.target_dims[0]);
    let [begin, end] = item.rows;
    let (column, c) = (item.strip * STRIP as i32, place.channel::<VEC>());
    let to = Rows::<STRIP>::new::<T>(p.target, p.target_dims, p.c, item.n, c, column, end);
    let last = (end - 1) * STRIDE as i32 - p.padding[0] + R as i32;
    let column = column * STRIDE as i32 - p.padding[1];
    // A thread without an item helps with the taps, and has no rows.
    let last = if able { last } else { 0 };
    let from = Rows::<COLUMNS>::new::<T>(p.source, p.source_dims, p.c, item.n, c, column, last);

    // Steps whose rows lie above the image are left out.
    let mut next = begin * STRIDE as i32 - p.padding[0];
    let above = if next < 0 { -next / STRIDE as i32 } else { 0 };
    let above = if above < RING as i32 - 1 { above } else { RING as i32 - 1 };
    next += above * STRIDE as i32;
    let mut ended = begin - (RING as i32 - 1) + above;
    let mut packed = [[<T as Access<VEC>>::ZEROS; COLUMNS]; AHEAD];
    let mut i = 0;
    while i < AHEAD {
        *packed.get_unchecked_mut(i) = from.load::<T, VEC>(next + i as i32);
        i += 1;
    }
    stage_taps::<T, VEC, R>(p, &place, taps);
    if !able {
        return;
    }
    let w = read_taps::<VEC, R>(p, &place, taps);
    // sums[j]: of the target row j above the newest one.
    let mut sums = [[[0.0f32; VEC]; STRIP]; RING];
    'rows: loop {
        // Unrolled: every row that is under way has registers of its own, and none is waited for to be moved.
        let mut i = 0;
        while i < AHEAD {
            let x = unpack::<T, VEC, COLUMNS>(*packed.get_unchecked(i));
            *packed.get_unchecked_mut(i) = from.load::<T, VEC>(next + (i + AHEAD) as i32);
            gather_row::<VEC, R, STRIDE, RING, STRIP, COLUMNS, 0>(&mut sums, &x, &w);
            if STRIDE == 2 {
                let x = unpack::<T, VEC, COLUMNS>(*packed.get_unchecked(i + 1));
                *packed.get_unchecked_mut(i + 1) = from.load::<T, VEC>(next + (i + 1 + AHEAD) as i32);
                gather_row::<VEC, R, STRIDE, RING, STRIP, COLUMNS, 1>(&mut sums, &x, &w);
            }
            if ended >= begin {
                store::<T, VEC, STRIP>(p, &to, ended, sums.get_unchecked(RING - 1));
            }
            ended += 1;
            if ended == end {
                break 'rows;
            }
            let mut j = RING - 1;
            while j > 0 {
                *sums.get_unchecked_mut(j) = *sums.get_unchecked(j - 1);
                j -= 1;
            }
            *sums.get_unchecked_mut(0) = [[0.0; VEC]; STRIP];
            i += STRIDE;
        }
        next += AHEAD as i32;
    }
}

/// target = transposed conv(source, w) with stride 2: each step takes a source row and ends two target rows.
///
/// `RING = ⌈R / 2⌉` source rows meet a target row, `WIDE = 2 · STRIP`, `COLUMNS = STRIP + RING - 1`. Source columns and
/// target columns of a strip begin where tap 0 has them meet.
pub unsafe fn spread<
    T: Access<VEC> + Access<1>,
    const VEC: usize,
    const R: usize,
    const RING: usize,
    const STRIP: usize,
    const WIDE: usize,
    const COLUMNS: usize,
>(
    p: &DepthwiseParams,
    taps: *mut f32,
) {
    let place = Place::new::<VEC>(p);
    let at = place.first_item();
    let able = place.able && at < p.n_items as u32;
    // The taps came turned around, and with the padding that goes with it.
    let padding = [R as i32 - 1 - p.padding[0], R as i32 - 1 - p.padding[1]];
    let strips = (p.target_dims[1] + padding[1] + WIDE as i32 - 1) / WIDE as i32;
    let item = Item::new(p, at, strips, (p.target_dims[0] + padding[0] + 1) / 2);
    let [begin, end] = item.rows;
    let (column, c) = (item.strip * STRIP as i32, place.channel::<VEC>());
    let to = Rows::<WIDE>::new::<T>(p.target, p.target_dims, p.c, item.n, c, 2 * column - padding[1], i32::MAX);
    let column = column - (RING as i32 - 1);
    // A thread without an item helps with the taps, and has no rows.
    let last = if able { end } else { 0 };
    let from = Rows::<COLUMNS>::new::<T>(p.source, p.source_dims, p.c, item.n, c, column, last);

    let mut row = begin - (RING as i32 - 1);
    // The first row comes while the taps do.
    let mut packed = from.load::<T, VEC>(row);
    stage_taps::<T, VEC, R>(p, &place, taps);
    if !able {
        return;
    }
    let w = read_taps::<VEC, R>(p, &place, taps);
    // sums[j]: of target row `2 · row - padding + j`.
    let mut sums = [[[0.0f32; VEC]; WIDE]; R];
    while row < end {
        let x = unpack::<T, VEC, COLUMNS>(packed);
        packed = from.load::<T, VEC>(row + 1);
        spread_row::<VEC, R, RING, WIDE, COLUMNS>(&mut sums, &x, &w);
        if row >= begin {
            let first = 2 * row - padding[0];
            if first >= 0 && first < to.end {
                store::<T, VEC, WIDE>(p, &to, first, &sums[0]);
            }
            if first + 1 >= 0 && first + 1 < to.end {
                store::<T, VEC, WIDE>(p, &to, first + 1, &sums[1]);
            }
        }
        row += 1;
        let mut j = 0;
        while j < R {
            *sums.get_unchecked_mut(j) = if j + 2 < R { *sums.get_unchecked(j + 2) } else { [[0.0; VEC]; WIDE] };
            j += 1;
        }
    }
}

/// Elements of shared memory for the sums of a block, so many lines of taps at a time.
pub const fn n_sums(vec: usize, r: usize) -> usize {
    THREADS as usize * vec * r * lines_at_once(r)
}

/// Sums of a slab's products for every tap. Slabs take items in turns.
///
/// `RING = ⌈R / STRIDE⌉` rows of dy meet a row of x; `COLUMNS = (STRIP - 1) · STRIDE + R`.
pub unsafe fn wgrad<
    T: Access<VEC>,
    const VEC: usize,
    const R: usize,
    const STRIDE: usize,
    const RING: usize,
    const STRIP: usize,
    const COLUMNS: usize,
>(
    p: &DepthwiseParams,
    shared: *mut f32,
) {
    let place = Place::new::<VEC>(p);
    let c = place.channel::<VEC>();
    let strips = (p.target_dims[1] + STRIP as i32 - 1) / STRIP as i32;
    let mut totals = [[[0.0f32; VEC]; R]; R];
    let mut at = if place.able { place.first_item() } else { u32::MAX };
    while at < p.n_items as u32 {
        let item = Item::new(p, at, strips, p.target_dims[0]);
        let [begin, end] = item.rows;
        let column = item.strip * STRIP as i32;
        let y_rows = Rows::<STRIP>::new::<T>(p.target, p.target_dims, p.c, item.n, c, column, end);
        let last = (end - 1) * STRIDE as i32 - p.padding[0] + R as i32;
        let column = column * STRIDE as i32 - p.padding[1];
        let x_rows = Rows::<COLUMNS>::new::<T>(p.source, p.source_dims, p.c, item.n, c, column, last);

        let mut next = begin * STRIDE as i32 - p.padding[0];
        let mut packed = x_rows.load::<T, VEC>(next);
        let mut packed_odd = [T::ZEROS; COLUMNS];
        if STRIDE == 2 {
            packed_odd = x_rows.load::<T, VEC>(next + 1);
        }
        let mut y_packed = y_rows.load::<T, VEC>(begin);
        // y[j]: the row of dy j above the newest one.
        let mut y = [[[0.0f32; VEC]; STRIP]; RING];
        let mut row = begin;
        while row < end + RING as i32 - 1 {
            let mut j = RING - 1;
            while j > 0 {
                *y.get_unchecked_mut(j) = *y.get_unchecked(j - 1);
                j -= 1;
            }
            y[0] = unpack::<T, VEC, STRIP>(y_packed);
            row += 1;
            y_packed = y_rows.load::<T, VEC>(row);
            next += STRIDE as i32;
            let x = unpack::<T, VEC, COLUMNS>(packed);
            packed = x_rows.load::<T, VEC>(next);
            wgrad_row::<VEC, R, STRIDE, RING, STRIP, COLUMNS, 0>(&mut totals, &x, &y);
            if STRIDE == 2 {
                let x = unpack::<T, VEC, COLUMNS>(packed_odd);
                packed_odd = x_rows.load::<T, VEC>(next + 1);
                wgrad_row::<VEC, R, STRIDE, RING, STRIP, COLUMNS, 1>(&mut totals, &x, &y);
            }
        }
        at += (p.n_slabs * place.slots) as u32;
    }

    // Some lines of taps at a time, every slot of the block writes its totals and the block adds them up.
    let mut first = 0;
    while first < R {
        let lines = if R - first < lines_at_once(R) { R - first } else { lines_at_once(R) };
        let n_sums = (lines * R * VEC) as i32 * p.channel_run;
        barrier::sync_threads();
        if place.slot < place.slots {
            let to = shared.add((place.slot * n_sums + place.group) as usize);
            let mut r = 0;
            while r < lines {
                let mut s = 0;
                while s < R {
                    let mut v = 0;
                    while v < VEC {
                        let at = ((r * R + s) * VEC + v) as i32 * p.channel_run;
                        *to.add(at as usize) = *element(&mut totals, first + r, s, v);
                        v += 1;
                    }
                    s += 1;
                }
                r += 1;
            }
        }
        barrier::sync_threads();
        let mut at = thread::thread_idx_x() as i32;
        while at < n_sums {
            let mut total = 0.0;
            let mut slot = 0;
            while slot < place.slots {
                total += *shared.add((slot * n_sums + at) as usize);
                slot += 1;
            }
            let (rest, group) = div_rem(at as u32, p.channel_run as u32);
            let (tap, v) = ((first * R) as i32 + rest as i32 / VEC as i32, rest as i32 % VEC as i32);
            let c = place.run_channel + group as i32 * VEC as i32 + v;
            if c < p.c {
                let at = (place.block as i64 * (R * R) as i64 + tap as i64) * p.c as i64 + c as i64;
                *(p.partials as *mut f32).offset(at as isize) = total;
            }
            at += THREADS;
        }
        first += lines_at_once(R);
    }
}
