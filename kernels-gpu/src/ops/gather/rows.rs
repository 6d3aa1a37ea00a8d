//! Contiguous rows, several bytes an access.
//!
//! Forward, a power of two of threads copies four rows at once: their indices are read first, then as many accesses of
//! each row are under way together; of few rows they copy one. Grid: exact, one-dimensional. Block: 256 threads.
//!
//! Backward, a block has a range of rows of dx. It looks through all indices and lists those of its rows in shared
//! memory, in order; sorts the list by rows, which keeps that order; and each row's threads add up the rows of dy that
//! belong to it. A range that lists more than there is room for is halved; one row that does, goes through the list
//! several times and keeps its sum in registers. Of `ranges`, it looks through the list of its range instead. Grid: exact, one-dimensional. Block: 256 threads.

use super::naive::row_at;
use crate::math::element::Element;
use crate::math::words::{load_words, store};
use crate::math::{chunks, vector};
use cuda_std::thread::{block_idx_x, grid_threads_1d, index_1d, lane_id, sync_threads, thread_idx_x, warp_idx};
use cuda_std::warp;
use kernel_abi::ops::gather::{
    GatherRangesParams, GatherRowsParams, GatherSumParams, INDICES_AT_ONCE, LIST_ROWS, ROWS_AT_ONCE, ROWS_THREADS,
    RowIndices,
};

/// Words of shared memory for the list: which row of dy, and which row of dx it belongs to; then sorted.
pub const N_LIST: usize = 3 * LIST_ROWS;

/// Words of shared memory for counts: of each row, and of each warp.
pub const N_COUNTS: usize = ROWS_THREADS as usize + 1 + N_WARPS;

pub const N_WARPS: usize = ROWS_THREADS as usize / 32;

/// Rows of dy read at once.
const AHEAD: usize = 4;

/// The row that index `n` means, or -1.
#[inline(always)]
pub unsafe fn row(indices: &RowIndices, n: u32) -> i64 {
    row_at(indices.address, indices.stride, indices.bytes, indices.rows, i64::from(n))
}

/// y from x, `BYTES` an access.
pub unsafe fn copy<const BYTES: usize>(p: &GatherRowsParams) {
    // Where there are threads for every row, others would only wait for their turn.
    if grid_threads_1d() >= u64::from(p.n_rows) << p.threads_log2 {
        copy_rows::<BYTES, 1>(p)
    } else {
        copy_rows::<BYTES, ROWS_AT_ONCE>(p)
    }
}

/// `ROWS` rows at once.
#[inline(always)]
unsafe fn copy_rows<const BYTES: usize, const ROWS: usize>(p: &GatherRowsParams) {
    let thread = index_1d();
    let lane = thread as u32 & ((1 << p.threads_log2) - 1);
    let first = (thread >> p.threads_log2) * ROWS as u64;
    let n_rows = u64::from(p.n_rows);
    if first >= n_rows {
        return;
    }
    let (mut from, mut to) = ([0u64; ROWS], [0u64; ROWS]);
    let (mut there, mut exists) = ([false; ROWS], [false; ROWS]);
    vector::for_each!(I < ROWS, {
        let mine = first + I as u64;
        let number = if mine < n_rows { mine } else { first } as u32;
        let (outer, n) = p.per_outer.div_rem(number);
        let (outermost, inner) = p.inner.div_rem(outer);
        let row = row(&p.indices, n);
        *there.get_unchecked_mut(I) = row >= 0;
        *exists.get_unchecked_mut(I) = mine < n_rows;
        let row = if row < 0 { 0 } else { row };
        *from.get_unchecked_mut(I) = p.x.address.wrapping_add(p.x.offset(row, [inner, outermost]) as u64);
        *to.get_unchecked_mut(I) = p.y.address.wrapping_add(p.y.offset(i64::from(n), [inner, outermost]) as u64);
    });
    let mut access = lane;
    while access < p.accesses {
        let at = u64::from(access) * BYTES as u64;
        let mut words = [[0u32; 4]; ROWS];
        vector::for_each!(I < ROWS, {
            *words.get_unchecked_mut(I) =
                chunks::load::<BYTES>(from.get_unchecked(I).wrapping_add(at), *there.get_unchecked(I));
        });
        vector::for_each!(I < ROWS, {
            let (to, words) = (to.get_unchecked(I).wrapping_add(at), *words.get_unchecked(I));
            chunks::store::<BYTES>(to, words, *exists.get_unchecked(I));
        });
        access += 1 << p.threads_log2;
    }
}

/// What a block looks through: all indices, or those that were listed for a range of rows.
pub struct Entries<'a> {
    pub indices: &'a RowIndices,
    pub ranges: Option<&'a GatherRangesParams>,
}

impl Entries<'_> {
    /// The row that entry `n` means, of a range counted from its first.
    #[inline(always)]
    unsafe fn row(&self, n: u32) -> i64 {
        match self.ranges {
            Some(ranges) => i64::from(*self.listed(ranges).add(ranges.indices.n as usize + n as usize)),
            None => row(self.indices, n),
        }
    }

    /// Its place among the indices.
    #[inline(always)]
    unsafe fn source(&self, n: u32) -> u32 {
        match self.ranges {
            Some(ranges) => *self.listed(ranges).add(n as usize),
            None => n,
        }
    }

    #[inline(always)]
    unsafe fn listed(&self, ranges: &GatherRangesParams) -> *const u32 {
        (ranges.workspace as *const u32).add(ranges.list() as usize)
    }

    /// The entries of a block's rows, and the row that those are counted from.
    #[inline(always)]
    unsafe fn of_block(&self, block: u32) -> (u32, u32, i64) {
        match self.ranges {
            Some(ranges) => {
                let (range, _) = ranges.blocks.div_rem(block);
                let starts = (ranges.workspace as *const u32).add(ranges.start(range) as usize);
                (*starts, *starts.add(1), i64::from(range) * i64::from(ranges.range_rows))
            }
            None => (0, self.indices.n, 0),
        }
    }
}

/// The list of a block, in shared memory where it is sorted.
pub struct List {
    /// Rows of dy in order.
    pub sources: *mut u32,
    /// The row of dx that each belongs to, from the first of those that are looked for on.
    pub targets: *mut u32,
    /// Rows of dy by those.
    pub sorted: *mut u32,
    /// Where each row's sources end in that; before it 0.
    pub ends: *mut u32,
    /// A word for each warp.
    pub totals: *mut u32,
    /// How many it has room for.
    pub room: u32,
}

impl List {
    /// Lists entries from `start` to `end` that mean one of `n_rows` rows from `first` on: how many, and where it stopped
    /// for want of room.
    #[inline(always)]
    pub unsafe fn collect(&self, entries: &Entries, first: i64, n_rows: u32, start: u32, end: u32) -> (u32, u32) {
        const STEP: u32 = ROWS_THREADS * INDICES_AT_ONCE as u32;
        let (mut found, mut next) = (0, start);
        while next < end && found + STEP <= self.room {
            let mine = next + thread_idx_x() * INDICES_AT_ONCE as u32;
            let mut targets = [u32::MAX; INDICES_AT_ONCE];
            let mut count = 0;
            vector::for_each!(I < INDICES_AT_ONCE, {
                let n = mine + I as u32;
                if n < end {
                    let target = entries.row(n) - first;
                    if target >= 0 && target < i64::from(n_rows) {
                        *targets.get_unchecked_mut(I) = target as u32;
                        count += 1;
                    }
                }
            });
            warp::sync_warp();
            let (up_to_me, my_warp) = (warp::prefix_sum_u32(count), warp_idx());
            if lane_id() == 31 {
                *self.totals.add(my_warp as usize) = up_to_me;
            }
            sync_threads();
            let (mut at, mut total) = (found + up_to_me - count, 0);
            vector::for_each!(W < N_WARPS, {
                let of_warp = *self.totals.add(W);
                at += if (W as u32) < my_warp { of_warp } else { 0 };
                total += of_warp;
            });
            vector::for_each!(I < INDICES_AT_ONCE, {
                let target = *targets.get_unchecked(I);
                if target != u32::MAX {
                    *self.sources.add(at as usize) = entries.source(mine + I as u32);
                    *self.targets.add(at as usize) = target;
                    at += 1;
                }
            });
            sync_threads();
            found += total;
            next += STEP;
        }
        (found, if next < end { next } else { end })
    }

    /// Sorts what was found by rows.
    #[inline(always)]
    unsafe fn sort(&self, found: u32, n_rows: u32) {
        let me = thread_idx_x();
        if me < n_rows {
            let (mut count, mut i) = (0, 0);
            while i < found {
                count += u32::from(*self.targets.add(i as usize) == me);
                i += 1;
            }
            *self.ends.add(1 + me as usize) = count;
        }
        sync_threads();
        let (mut at, mut i) = (0, 0);
        if me < n_rows {
            while i < me {
                at += *self.ends.add(1 + i as usize);
                i += 1;
            }
        }
        sync_threads();
        if me < n_rows {
            i = 0;
            while i < found {
                if *self.targets.add(i as usize) == me {
                    *self.sorted.add(at as usize) = *self.sources.add(i as usize);
                    at += 1;
                }
                i += 1;
            }
            *self.ends.add(1 + me as usize) = at;
        }
        if me == 0 {
            *self.ends = 0;
        }
        sync_threads();
    }

    /// Adds a row's sources to a sum, in order.
    #[inline(always)]
    unsafe fn add<T: Element<Acc = f32>, const V: usize>(
        &self,
        dy: u64,
        stride: i64,
        offset: i64,
        row: u32,
        sum: &mut [f32; V],
    ) {
        let (mut i, end) = (*self.ends.add(row as usize), *self.ends.add(1 + row as usize));
        while i < end {
            let mut loaded = [[0u32; 4]; AHEAD];
            vector::for_each!(I < AHEAD, {
                let there = i + (I as u32) < end;
                let source = *self.sorted.add(if there { i + I as u32 } else { i } as usize);
                *loaded.get_unchecked_mut(I) = load_words::<T, V>(dy, offset + i64::from(source) * stride, there, 0);
            });
            vector::for_each!(I < AHEAD, {
                let values = vector::widened::<T, V>(loaded.get_unchecked(I));
                vector::for_each!(E < V, {
                    // Zeros for those that are not there change nothing: a sum that begins with 0 is never -0.
                    *sum.get_unchecked_mut(E) += *values.get_unchecked(E);
                });
            });
            i += AHEAD as u32;
        }
    }
}

/// dx from dy, `V` elements an access.
#[inline(always)]
pub unsafe fn sum<T: Element<Acc = f32>, const V: usize>(
    p: &GatherSumParams,
    ranges: Option<&GatherRangesParams>,
    list: *mut u32,
    counts: *mut u32,
) {
    let entries = Entries { indices: &p.indices, ranges };
    let list = List {
        sources: list,
        targets: list.add(LIST_ROWS),
        sorted: list.add(2 * LIST_ROWS),
        ends: counts,
        totals: counts.add(ROWS_THREADS as usize + 1),
        room: LIST_ROWS as u32,
    };
    let (rest, slab) = p.slabs.div_rem(block_idx_x());
    let (outer, block) = p.row_blocks.div_rem(rest);
    let (outermost, inner) = p.inner.div_rem(outer);
    let (begin, n, base) = entries.of_block(block);
    let mut first = i64::from(block) * i64::from(p.block_rows);
    let end = first + i64::from(p.block_rows);
    let end = if end < p.indices.rows { end } else { p.indices.rows };
    // The threads of a row, and which of the rows that are summed at once is this thread's.
    let lanes = 1 << p.threads_log2;
    let (lane, mine, at_once) =
        (thread_idx_x() & (lanes - 1), thread_idx_x() >> p.threads_log2, ROWS_THREADS >> p.threads_log2);
    let access = slab * lanes + lane;
    let column = i64::from(access) * V as i64;
    let from = p.dy.offset(0, [inner, outermost]) + column;
    while first < end {
        let mut n_rows = (end - first) as u32;
        let (mut found, mut next) = list.collect(&entries, first - base, n_rows, begin, n);
        while next < n && n_rows > 1 {
            n_rows = n_rows.div_ceil(2);
            (found, next) = list.collect(&entries, first - base, n_rows, begin, n);
        }
        list.sort(found, n_rows);
        let mut row = mine;
        // All threads pass the barriers of a row that takes several lists: it is alone then, and the first's.
        while row < n_rows || (n_rows == 1 && row == mine) {
            let mut sum = [0.0f32; V];
            let works = row < n_rows && access < p.accesses;
            if works {
                list.add::<T, V>(p.dy.address, p.dy.strides[0], from, row, &mut sum);
            }
            while next < n {
                sync_threads();
                (found, next) = list.collect(&entries, first - base, 1, next, n);
                list.sort(found, 1);
                if works {
                    let mut of_list = [0.0f32; V];
                    list.add::<T, V>(p.dy.address, p.dy.strides[0], from, row, &mut of_list);
                    vector::for_each!(I < V, {
                        *sum.get_unchecked_mut(I) += *of_list.get_unchecked(I);
                    });
                }
            }
            if works {
                let to = p.dx.offset(first + i64::from(row), [inner, outermost]) + column;
                store::<T, V>(p.dx.address, to, sum, p.alpha, p.beta);
            }
            row += at_once;
        }
        // The list is filled anew.
        sync_threads();
        first += i64::from(n_rows);
    }
}
