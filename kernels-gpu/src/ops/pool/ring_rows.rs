//! dx of maxima where channels lie together, for windows of 3 × 3, 2 apart, on Hopper: rows are streamed through shared memory by
//! the copy engine, and each thread goes down a column of windows of 16 bytes of channels.
//!
//! Of each row of x the first maximum of every window's columns is told by two masks, two more tell which row has a window's.
//! Masked with these, dy is what the window has for one of its nine elements. What it has for its last column goes to the thread
//! to the right; what it has for its last row waits for the next step. Elements that one window meets are moved as they are, of
//! two a single addition rounds as one of f32 would, the four of a corner are added up in f32.
//!
//! Reads and writes are under way without a thread's waiting for them, and nothing is brought twice to a multiprocessor but what
//! tiles and strips have in common.
//!
//! A block has a slice of 128 bytes of channels, a tile of columns of one image or some, and a strip of a few rows of windows.
//! Blocks that run at a time so have neighbouring rows, those beside each other the same: what lies together in memory is asked
//! for together.
//!
//! Rows of x with maxima that are no number, or less than any, are compared once more, since a NaN equals nothing and what is
//! beside the image equals negative infinity. Columns beside the image, and dy of what is no window, are places in shared memory
//! that no copy writes.
//!
//! Grid: exact, a block for each slice and tile of each strip. Block: two warps for each span of columns of windows of an image, one
//! that brings rows, one that takes those of results away. Shared memory: dynamic, `RingRowsTile::smem_bytes`.

use super::planes::for_each;
use crate::math::ring::{Outgoing, Ring};
use crate::math::row_most::{Compared, RowMost, SIDE, SIGNS, WORDS, both, of_three, rows_of};
use crate::math::tensor_core::TensorCore;
use crate::math::vector;
use cuda_std::barrier::{fence_proxy_async_shared, sync_threads};
use cuda_std::thread::{block_idx_x, lane_id, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::{mbarrier, schedule, shared, warp};
use kernel_abi::ops::pool::{
    PoolRingRowsParams, RING_ROWS_COLUMN_BYTES, RING_ROWS_HALO, RING_ROWS_LANES, RING_ROWS_NO_WINDOW,
    RING_ROWS_OUTSIDE, RING_ROWS_PARTS, RING_ROWS_PERIOD, RING_ROWS_RESULTS, RING_ROWS_STEP, RING_ROWS_STRIDE,
    RING_ROWS_VECTORS, RingRowsTile,
};

/// Rows, and columns, from one window to the next.
const STRIDE: usize = RING_ROWS_STRIDE as usize;
/// Elements of a word.
const PAIR: usize = 2;
/// x, dy and dx.
const MAPS: usize = 3;
/// Registers of a thread that computes, and of one of the warpgroup of those that move rows.
const COMPUTING_REGISTERS: u32 = 104;
const MOVING_REGISTERS: u32 = 32;
/// What places in shared memory are aligned to.
const SWIZZLE_PERIOD: u32 = RING_ROWS_PERIOD * RING_ROWS_COLUMN_BYTES;
/// Bytes of a vector.
const VECTOR_BYTES: u32 = 16;

/// Where a block stands in its strip: at a row of windows, which is a step.
///
/// Steps bring the rows of x that their windows have and those of the step before have not, so a step before the first windows
/// brings what these have besides.
struct Walk<'a> {
    p: &'a PoolRingRowsParams,
    /// The first image of the group.
    image: i32,
    step: i32,
    /// The first step whose windows are looked at, and whose rows are written; behind the last one.
    computes: i32,
    writes: i32,
    end: i32,
}

impl<'a> Walk<'a> {
    #[inline(always)]
    fn new(p: &'a PoolRingRowsParams, strip: u32) -> Self {
        const HALO: i32 = RING_ROWS_HALO as i32;
        let (group, strip) = p.strips.div_rem(strip);
        let is_longer = strip < p.n_longer;
        let writes = (strip * p.steps + if is_longer { strip } else { p.n_longer }) as i32;
        // Nothing is above an image.
        let computes = if writes == 0 { 0 } else { writes - HALO };
        Walk {
            p,
            image: (group * p.tile.images) as i32,
            step: computes - HALO,
            computes,
            writes,
            end: writes + (p.steps + is_longer as u32) as i32,
        }
    }

    #[inline(always)]
    fn goes_on(&self) -> bool {
        self.step < self.end
    }

    #[inline(always)]
    fn is_computed(&self) -> bool {
        self.step >= self.computes
    }

    #[inline(always)]
    fn is_written(&self) -> bool {
        self.step >= self.writes
    }

    /// The first row of the step's windows, and of those that they own.
    #[inline(always)]
    fn h(&self) -> i32 {
        self.step * STRIDE as i32 - self.p.padding[0] as i32
    }

    /// The row that the step brings as its `i`-th.
    #[inline(always)]
    fn line(&self, i: usize) -> i32 {
        self.h() + (SIDE - STRIDE + i) as i32
    }

    /// Whether it does.
    #[inline(always)]
    fn has_line(&self, i: usize) -> bool {
        // The windows before the first share their last row with it.
        (self.line(i) as u32) < self.p.image[0] && (i == STRIDE - 1 || self.is_computed())
    }

    /// Whether it has windows.
    #[inline(always)]
    fn has_dy(&self) -> bool {
        (self.step as u32) < self.p.output[0] && self.is_computed()
    }
}

/// A block's part of rows: a slice of channels, and a tile of columns.
#[derive(Clone, Copy)]
struct Part {
    /// The slice's first channel.
    channel: i32,
    /// The tile's first column of dx.
    column: i32,
}

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches the threads and the shared memory of the tile.
#[inline(always)]
pub unsafe fn backward<T: Compared + TensorCore>(p: &PoolRingRowsParams, maps: [MapAddress; MAPS]) {
    schedule::launch_dependents();
    let base = shared::dynamic_address().next_multiple_of(SWIZZLE_PERIOD);
    let barriers = base + p.tile.barriers_at();
    let rows = Ring::new(base, p.tile.stage_bytes(), p.tile.stages, barriers);
    let results =
        Ring::new(base + p.tile.results_at(), p.tile.result_bytes(), RING_ROWS_RESULTS, barriers + 16 * p.tile.stages);
    let (warp, workers) = (warp::uniform(thread_idx_x() / 32), p.tile.warps());
    if thread_idx_x() == 0 {
        for_each!(I < MAPS, {
            tma::prefetch_map(maps[I]);
        });
        rows.init(1, workers);
        results.init(workers, 1);
        mbarrier::fence_init();
    }
    // The columns that no copy writes.
    let column = thread_idx_x() / RING_ROWS_VECTORS;
    if column < RING_ROWS_PERIOD {
        let value = if column == RING_ROWS_OUTSIDE { both(T::INFINITY) | SIGNS } else { 0 };
        let mut stage = 0;
        while stage < p.tile.stages {
            shared::store_x4(base + stage * p.tile.stage_bytes() + thread_idx_x() * VECTOR_BYTES, [value; WORDS]);
            stage += 1;
        }
    }
    sync_threads();
    schedule::wait_for_predecessors();
    let (strip, part) = p.parts.div_rem(block_idx_x());
    let (tile, slice) = p.slices.div_rem(part);
    let part = Part {
        channel: (slice * RING_ROWS_COLUMN_BYTES) as i32 / size_of::<T>() as i32,
        column: (tile * p.tile.columns) as i32,
    };
    let walk = Walk::new(p, strip);
    if warp < workers {
        schedule::acquire_registers::<COMPUTING_REGISTERS>();
        Work::new(p, warp, part).go_down::<T>(walk, rows, results);
    } else {
        schedule::release_registers::<MOVING_REGISTERS>();
        if warp == workers {
            load_rows(walk, part, maps, rows);
        } else if warp == workers + 1 {
            store_rows(walk, part, maps[2], results);
        }
    }
}

/// Brings step after step.
///
/// # Safety
/// As [`backward`]; all threads of one warp.
#[inline(always)]
unsafe fn load_rows(mut walk: Walk<'_>, part: Part, maps: [MapAddress; MAPS], mut ring: Ring) {
    let (tile, leads) = (walk.p.tile, warp::elect());
    let bytes = tile.images * RING_ROWS_COLUMN_BYTES;
    let x_column = part.column + tile.image_begin;
    let dy_column = part.column / STRIDE as i32 + tile.output_begin;
    while walk.goes_on() {
        let (has_line, has_dy) = ([walk.has_line(0), walk.has_line(1)], walk.has_dy());
        if has_line[0] || has_line[1] || has_dy {
            mbarrier::wait(ring.empty(), ring.parity ^ 1);
            if leads {
                let x_bytes = (has_line[0] as u32 + has_line[1] as u32) * bytes * tile.image_columns;
                let dy_bytes = if has_dy { bytes * tile.output_columns } else { 0 };
                mbarrier::arrive_expect_bytes(ring.full(), x_bytes + dy_bytes);
                let image = walk.image;
                for_each!(I < STRIDE, {
                    if has_line[I] {
                        let to = ring.at() + tile.row_at(I as u32) * RING_ROWS_COLUMN_BYTES;
                        tma::load_4d(to, maps[0], ring.full(), [part.channel, x_column, walk.line(I), image]);
                    }
                });
                if has_dy {
                    let to = ring.at() + tile.row_at(RING_ROWS_STRIDE) * RING_ROWS_COLUMN_BYTES;
                    tma::load_4d(to, maps[1], ring.full(), [part.channel, dy_column, walk.step, image]);
                }
            }
            ring.advance();
        }
        walk.step += 1;
    }
}

/// Takes step after step's results away.
///
/// # Safety
/// As [`backward`]; all threads of one warp.
#[inline(always)]
unsafe fn store_rows(mut walk: Walk<'_>, part: Part, map: MapAddress, results: Ring) {
    let mut outgoing = Outgoing::new(results);
    while walk.goes_on() {
        if walk.is_written() {
            outgoing.send_parts(
                #[inline(always)]
                |from| {
                    for_each!(I < STRIDE, {
                        let h = walk.h() + I as i32;
                        if (h as u32) < walk.p.image[0] {
                            let from = from + walk.p.tile.result_at(I as u32) * RING_ROWS_COLUMN_BYTES;
                            tma::store_4d(map, from, [part.channel, part.column, h, walk.image]);
                        }
                    });
                },
            );
        }
        walk.step += 1;
    }
    outgoing.finish();
}

/// Where a vector of a column lies behind a place that is a multiple of the swizzle's period.
#[inline(always)]
fn swizzled(column: u32, vector: u32) -> u32 {
    column * RING_ROWS_COLUMN_BYTES + (vector ^ column % RING_ROWS_PERIOD) * VECTOR_BYTES
}

/// A thread's column of windows.
struct Work {
    /// Where, in a stage, the columns of its windows lie, of both rows, and their dy.
    x: [[u32; SIDE]; STRIDE],
    dy: u32,
    /// Where the columns that it owns lie in a step's results, of both rows, and whether it writes them.
    dx: [[u32; STRIDE]; STRIDE],
    writes: [bool; STRIDE],
    /// All bits if its windows' first column is one of the image.
    begins_inside: u32,
}

/// What a step's windows have for the rows of dx that they own, and for the first one of those below.
#[derive(Clone, Copy)]
struct Gradient {
    /// Of the first column of the first row: sums of f32, of both elements of each word.
    corner: [[f32; PAIR]; WORDS],
    /// Of the second column of the first row.
    right: [u32; WORDS],
    /// Of both columns of the second row.
    below: [[u32; WORDS]; STRIDE],
}

impl Gradient {
    const NONE: Self = Gradient { corner: [[0.0; PAIR]; WORDS], right: [0; WORDS], below: [[0; WORDS]; STRIDE] };
}

impl Work {
    #[inline(always)]
    fn new(p: &PoolRingRowsParams, warp: u32, part: Part) -> Self {
        let (tile, padding) = (p.tile, p.padding[1]);
        let (span, half) = (warp / RING_ROWS_PARTS, warp % RING_ROWS_PARTS);
        let (image, span) = p.spans.div_rem(span);
        let (place, lane) = (lane_id() / RING_ROWS_LANES, lane_id() % RING_ROWS_LANES);
        // Of two neighbouring windows, which eight threads have at once, no two vectors lie in the same banks.
        let vector = lane % 2 + lane / 2 * 4 + half * 2;
        let first = RingRowsTile::first_window(padding) + part.column / STRIDE as i32;
        let window = first + (span * RING_ROWS_STEP + place) as i32;
        let w = window * STRIDE as i32 - padding as i32;
        let x = |i: u32, j: i32| {
            let column = (w + j - part.column - tile.image_begin) as u32;
            let inside = ((w + j) as u32) < p.image[1] && column < tile.image_columns;
            let column = tile.row_at(i) + image * tile.image_columns + column;
            swizzled(if inside { column } else { RING_ROWS_OUTSIDE }, vector)
        };
        let column = (window - part.column / STRIDE as i32 - tile.output_begin) as u32;
        let is_window = (window as u32) < p.output[1] && column < tile.output_columns;
        let column = tile.row_at(RING_ROWS_STRIDE) + image * tile.output_columns + column;
        let dy = swizzled(if is_window { column } else { RING_ROWS_NO_WINDOW }, vector);
        let column = (w - part.column) as u32;
        let dx = |i: u32, j: u32| swizzled((tile.result_at(i) + image * tile.columns + j).wrapping_add(column), vector);
        // The first windows of a span are the last ones of the span before it, those of a tile are others' but for columns that
        // no window to their left meets.
        let completes = place >= RING_ROWS_HALO || span == 0;
        let writes =
            |j: u32| completes && column.wrapping_add(j) < tile.columns && ((w + j as i32) as u32) < p.image[1];
        Work {
            x: [[x(0, 0), x(0, 1), x(0, 2)], [x(1, 0), x(1, 1), x(1, 2)]],
            dy,
            dx: [[dx(0, 0), dx(0, 1)], [dx(1, 0), dx(1, 1)]],
            writes: [writes(0), writes(1)],
            begins_inside: if w >= 0 { u32::MAX } else { 0 },
        }
    }

    /// Goes down its windows.
    ///
    /// # Safety
    /// As [`backward`]; all threads of one warp.
    #[inline(always)]
    unsafe fn go_down<T: Compared + TensorCore>(self, mut walk: Walk<'_>, mut ring: Ring, mut results: Ring) {
        let mut read = 0;
        // The row that windows share with those of the step before, and what those have for it.
        let mut above = RowMost::none::<T>();
        let mut gradient = Gradient::NONE;
        // The rows that are not plain, the last one first.
        let mut odd = 0;
        while walk.goes_on() {
            let (has_line, has_dy) = ([walk.has_line(0), walk.has_line(1)], walk.has_dy());
            let mut at = 0;
            if has_line[0] || has_line[1] || has_dy {
                at = ring.take(&mut read);
            }
            let mut rows = [RowMost::none::<T>(); STRIDE];
            for_each!(I < STRIDE, {
                odd <<= 1;
                if has_line[I] {
                    let (row, plain) = self.row::<T>(at, I);
                    rows[I] = row;
                    odd |= !plain as u32;
                }
            });
            let mut next = Gradient::NONE;
            if has_dy {
                let dy = shared::load_x4(at + self.dy);
                let (in_first, in_second) = rows_of::<T>([&above, &rows[0], &rows[1]], odd & 7 != 0, walk.h() < 0);
                vector::for_each!(W < WORDS, {
                    // What the window has for each of its elements.
                    let mut of = [[0; SIDE]; SIDE];
                    for_each!(I < SIDE, {
                        let row = [&above, &rows[0], &rows[1]][I];
                        let dy = of_three(I, dy[W], in_first[W], in_second[W]);
                        for_each!(J < SIDE, {
                            of[I][J] = of_three(J, dy, row.is_first[W], row.is_second[W]);
                        });
                    });
                    let mut left = [0; SIDE];
                    for_each!(I < SIDE, {
                        left[I] = warp::shuffle_up(of[I][2], RING_ROWS_LANES);
                    });
                    let both_of = |i: usize| {
                        let (own, left) = (T::unpack(of[i][0]), T::unpack(left[i]));
                        [own[0] + left[0], own[1] + left[1]]
                    };
                    let corner = both_of(0);
                    gradient.corner[W][0] += corner[0];
                    gradient.corner[W][1] += corner[1];
                    gradient.right[W] = T::add(gradient.right[W], of[0][1]);
                    gradient.below[0][W] = T::add(of[1][0], left[1]);
                    gradient.below[1][W] = of[1][1];
                    next.corner[W] = both_of(2);
                    next.right[W] = of[2][1];
                });
            }
            if walk.is_written() {
                mbarrier::wait(results.empty(), results.parity ^ 1);
                let corner = gradient.corner.map(
                    #[inline(always)]
                    |[low, high]| T::pack(low, high),
                );
                let words = [[corner, gradient.right], gradient.below];
                for_each!(I < STRIDE, {
                    for_each!(J < STRIDE, {
                        if self.writes[J] {
                            shared::store_x4(results.at() + self.dx[I][J], words[I][J]);
                        }
                    });
                });
                fence_proxy_async_shared();
                results.hand_on();
            }
            above = rows[STRIDE - 1];
            gradient = next;
            walk.step += 1;
        }
    }

    /// The maxima of a row of the stage's columns, and whether they are plain ones.
    #[inline(always)]
    unsafe fn row<T: Compared>(&self, at: u32, i: usize) -> (RowMost, bool) {
        let mut columns = [[0; WORDS]; SIDE];
        for_each!(J < SIDE, {
            columns[J] = shared::load_x4(at + self.x[i][J]);
        });
        let (mut row, plain) = RowMost::of::<T>(&columns);
        if !plain {
            // Loaded anew, lest they be kept until here.
            let (first, second) = (shared::load_x4(at + self.x[i][0]), shared::load_x4(at + self.x[i][1]));
            row.place_any::<T>(first, second, [self.begins_inside; WORDS]);
        }
        (row, plain)
    }
}
