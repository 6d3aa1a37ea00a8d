//! From global to shared memory: entries of x, and the filter.

use super::PRODUCER_THREADS;
use cuda_std::{guarded, shared, warp};
use kernel_abi::division::div_rem;
use kernel_abi::ops::conv::overlap_wgmma::{ENTRY_BYTES, ENTRY_ELEMS, OverlapParams, OverlapPlace};

/// Entries whose loads are under way together.
pub(super) const BATCH: usize = 4;

/// Where a thread's eight elements of an entry lie in x, relative to the first.
pub(super) struct Entries {
    offsets: [i32; 8],
    /// The elements that are channels, as bits.
    channels: u32,
}

impl Entries {
    #[inline(always)]
    pub(super) fn new(p: &OverlapParams) -> Self {
        let log2 = p.packed_c_log2;
        let mask = (1u32 << log2) - 1;
        let of = |j: u32| 2 * ((j >> log2) as i32 * p.x_inner[0] + (j & mask) as i32 * p.x_inner[1]);
        let is = |j: u32| u32::from(j & mask < p.c) << j;
        Entries {
            offsets: [of(0), of(1), of(2), of(3), of(4), of(5), of(6), of(7)],
            channels: is(0) | is(1) | is(2) | is(3) | is(4) | is(5) | is(6) | is(7),
        }
    }

    /// Fills a buffer with the input rows of a tile; elements that are no element of x are zero.
    ///
    /// # Safety
    /// The host passes a live x; all producer threads call it for an empty buffer.
    #[inline(always)]
    pub(super) unsafe fn fill(&self, p: &OverlapParams, place: OverlapPlace, buffer: u32, thread: u32) {
        match p.tile.row_entries.divisor {
            0..=32 => self.fill_rows::<1>(p, place, buffer, thread),
            33..=64 => self.fill_rows::<2>(p, place, buffer, thread),
            _ => self.fill_rows::<BATCH>(p, place, buffer, thread),
        }
    }

    /// Fills it where a row has so many times 32 entries, or more of them than a batch.
    ///
    /// Warps take rows of entries in turns, as many at a time as make a batch: where one lies is found once.
    ///
    /// # Safety
    /// As [`Entries::fill`].
    #[inline(always)]
    pub(super) unsafe fn fill_rows<const TIMES: usize>(
        &self,
        p: &OverlapParams,
        place: OverlapPlace,
        buffer: u32,
        thread: u32,
    ) {
        const WARPS: u32 = PRODUCER_THREADS / 32;
        let row_entries = p.tile.row_entries.divisor;
        let rows = p.tile.rows_of_entries();
        let (mut row, mut first) = (warp::uniform(thread / 32), thread % 32);
        while row < rows {
            let mut values = [[0u16; 8]; BATCH];
            let of_slot = |u: usize| (row + (u / TIMES) as u32 * WARPS, first + (u % TIMES) as u32 * 32);
            let mut u = 0;
            while u < BATCH {
                let (row, entry) = of_slot(u);
                let is_there = row < rows && entry < row_entries;
                *values.get_unchecked_mut(u) = self.load(p, place, row * row_entries, entry, is_there);
                u += 1;
            }
            u = 0;
            while u < BATCH {
                let (row, entry) = of_slot(u);
                if row < rows && entry < row_entries {
                    shared::store_x4(
                        buffer + (row * row_entries + entry) * ENTRY_BYTES,
                        packed(values.get_unchecked(u)),
                    );
                }
                u += 1;
            }
            first += 32 * TIMES as u32;
            if first - thread % 32 >= row_entries {
                first = thread % 32;
                row += WARPS * (BATCH / TIMES) as u32;
            }
        }
    }

    /// The elements of an entry of a row, which begins with entry `row_first` of a buffer: zeros unless `is_there`.
    ///
    /// # Safety
    /// As [`Entries::fill`]; a warp, for one row.
    #[inline(always)]
    unsafe fn load(
        &self,
        p: &OverlapParams,
        place: OverlapPlace,
        row_first: u32,
        entry: u32,
        is_there: bool,
    ) -> [u16; 8] {
        let [d, h, w] = p.source(place, row_first);
        let row_is_there = (d as u32) < p.image[0] && (h as u32) < p.image[1];
        let from = p.x as i64
            + 2 * (i64::from(place.n) * p.x_strides[0] + i64::from(d) * p.x_strides[1] + i64::from(h) * p.x_strides[2]);
        let w = w + (entry * p.stride[2]) as i32;
        // Elements of positions from `low` to `high` lie in the image.
        let positions = (ENTRY_ELEMS >> p.packed_c_log2) as i32;
        let low = (-w).max(0).min(positions) as u32;
        let high = (p.image[2] as i32 - w).max(0).min(positions) as u32;
        let inside = (1u32 << (high << p.packed_c_log2)) - 1 & !((1u32 << (low << p.packed_c_log2)) - 1);
        let mask = if is_there && row_is_there { inside & self.channels } else { 0 };
        let at = from + 2 * i64::from(w) * i64::from(p.x_inner[0]);
        let mut values = [0; 8];
        let mut j = 0;
        while j < 8 {
            let from = (at + i64::from(*self.offsets.get_unchecked(j))) as u64;
            *values.get_unchecked_mut(j) = guarded::load_u16(from, mask & 1 << j);
            j += 1;
        }
        values
    }
}

/// Eight elements in four registers.
#[inline(always)]
pub(super) fn packed(v: &[u16; 8]) -> [u32; 4] {
    let pair = |low: u16, high: u16| u32::from(low) | u32::from(high) << 16;
    [pair(v[0], v[1]), pair(v[2], v[3]), pair(v[4], v[5]), pair(v[6], v[7])]
}

/// Writes the filter of all blocks of `columns` output channels from `first_k` on to shared memory:
/// `[block][taps][parts][columns][8 elements]`, zeros where a window has no element.
///
/// # Safety
/// The host passes a live w; all of so many threads call it, each with its number.
#[inline(always)]
pub(super) unsafe fn write_filter(
    p: &OverlapParams,
    columns: u32,
    first_k: u32,
    to: u32,
    (thread, threads): (u32, u32),
) {
    let per_block = p.tile.n_taps() * p.tile.window_parts();
    let total = p.column_blocks * per_block * columns;
    let mask = (1u32 << p.packed_c_log2) - 1;
    let mut first = thread;
    while first < total {
        let mut values = [[0u16; 8]; BATCH];
        let mut u = 0;
        while u < BATCH {
            let chunk = first + u as u32 * threads;
            let (rest, column) = (chunk / columns, chunk % columns);
            let (block, rest) = div_rem(rest, per_block);
            let (number, part) = div_rem(rest, p.tile.window_parts());
            let [t, r] = p.tile.tap(number);
            let k = first_k + block * columns + column;
            let there = chunk < total && k < p.k;
            let row = p.w_first
                + i64::from(k) * p.w_strides[0]
                + i64::from(t) * p.w_strides[2]
                + i64::from(r) * p.w_strides[3];
            let mut j = 0;
            while j < 8 {
                let element = part * ENTRY_ELEMS + j as u32;
                let (s, c) = (element >> p.packed_c_log2, element & mask);
                let at = row + i64::from(c) * p.w_strides[1] + i64::from(s) * p.w_strides[4];
                let condition = u32::from(there && s < p.filter_w && c < p.c);
                let from = (p.w as i64 + 2 * at) as u64;
                *values.get_unchecked_mut(u).get_unchecked_mut(j) = guarded::load_u16(from, condition);
                j += 1;
            }
            u += 1;
        }
        u = 0;
        while u < BATCH {
            let chunk = first + u as u32 * threads;
            if chunk < total {
                shared::store_x4(to + chunk * ENTRY_BYTES, packed(values.get_unchecked(u)));
            }
            u += 1;
        }
        first += BATCH as u32 * threads;
    }
}
