//! dx of maxima where channels lie together, for windows of 3 × 3, 1 apart, on Hopper: rows are streamed through shared memory
//! by the copy engine, and tensor cores add up what windows beside each other have for an element.
//!
//! `ldmatrix` gives a warp a row of 16 windows and 16 channels, in three shifts, as products take their second factor: words
//! of two neighbouring windows. Of each row of x the first maximum of every window's columns is told by two masks, which serve
//! the three rows of windows that meet it; two more tell which row has a window's. Masked with these, dy is what the window
//! has for one of its nine elements, and a product with a matrix of a diagonal of ones moves it to that element's column and
//! adds it to the sums of three rows of dx. Nothing goes from lane to lane otherwise.
//!
//! Infinite dy, and such as are no numbers, would reach all columns of a product: rows with some of them are added kind by kind,
//! as how often each meets an element. Rows of x with maxima that are no number, or less than any, are compared once more,
//! since a NaN equals nothing and what is beside the image equals negative infinity.
//!
//! Columns beside the image are places in shared memory that no copy writes.
//!
//! Grid: any number of blocks, which share bands of rows of a slice of 64 channels of some images. Block: a warp for each span
//! of windows of an image and 16 channels, one that brings rows, one that takes those of results away. Shared memory:
//! dynamic, `RowsMmaTile::smem_bytes`.

use super::planes::for_each;
use crate::math::ring::{Outgoing, Ring};
use crate::math::row_most::{Compared, RowMost, SIDE, SIGNS, WORDS, both, nans, of_three, rows_of};
use crate::math::tensor_core::TensorCore;
use crate::math::vector;
use cuda_std::barrier::{fence_proxy_async_shared, sync_threads};
use cuda_std::thread::{block_dim_x, block_idx_x, grid_dim_x, lane_id, thread_idx_x};
use cuda_std::tma::{self, MapAddress};
use cuda_std::{ldmatrix, mbarrier, schedule, shared, warp};
use kernel_abi::ops::pool::{
    PoolRowsMmaParams, ROWS_MMA_COLUMN_BYTES, ROWS_MMA_HALO, ROWS_MMA_MARGIN, ROWS_MMA_PARTS, ROWS_MMA_RESULTS,
    ROWS_MMA_SCRAP_BYTES, ROWS_MMA_SLICE, ROWS_MMA_STEP,
};

/// Halves of a warp's channels: each is a product's columns.
const HALVES: usize = 2;
/// Elements of a word.
const PAIR: usize = 2;
/// Registers of a thread that computes, and of one of the warpgroup of those that move rows.
const COMPUTING_REGISTERS: u32 = 112;
const MOVING_REGISTERS: u32 = 32;
/// What places in shared memory are aligned to.
const SWIZZLE_PERIOD: u32 = 1024;
/// Bytes of eight channels.
const CHUNK_BYTES: u32 = 16;

/// Kinds of dy: finite ones, infinities of either sign, NaNs.
const KINDS: u32 = 4;
/// All bits but the signs.
const MAGNITUDES: u32 = !SIGNS;

/// Rows of one image, or of some, in one slice.
struct Item {
    channel: u32,
    image: u32,
    /// Rows of dx.
    begin: i32,
    end: i32,
    /// The first row of x that is looked at, and of windows.
    line: i32,
    window: i32,
}

impl Item {
    #[inline(always)]
    fn new(p: &PoolRowsMmaParams, index: u32) -> Self {
        let (rest, slice) = p.slices.div_rem(index);
        let (group, band) = p.bands.div_rem(rest);
        let (begin, rows, height) = ((band * p.tile.rows) as i32, p.tile.rows as i32, p.image[0] as i32);
        let line = begin - ROWS_MMA_HALO as i32;
        let window = line + p.padding[0] as i32;
        Item {
            channel: slice * ROWS_MMA_SLICE,
            image: group * p.tile.images,
            begin,
            end: if height - begin < rows { height } else { begin + rows },
            line: if line > 0 { line } else { 0 },
            window: if window > 0 { window } else { 0 },
        }
    }

    /// Behind the last row of x, or what stands for rows below it.
    #[inline(always)]
    fn end_line(&self) -> i32 {
        self.end + ROWS_MMA_HALO as i32
    }

    /// The windows whose last row this is, if there are.
    #[inline(always)]
    fn window_of(&self, p: &PoolRowsMmaParams, line: i32) -> Option<i32> {
        let window = line + p.padding[0] as i32 - ROWS_MMA_HALO as i32;
        if window >= self.window && window < p.output[0] as i32 { Some(window) } else { None }
    }
}

/// The kernel.
///
/// # Safety
/// The host passes maps and extents of live tensors, and launches the threads and the shared memory of the tile.
#[inline(always)]
pub unsafe fn backward<T: Compared + TensorCore>(p: &PoolRowsMmaParams, maps: [MapAddress; 3]) {
    schedule::launch_dependents();
    let base = shared::dynamic_address().next_multiple_of(SWIZZLE_PERIOD);
    let barriers = base + p.tile.barriers_at();
    let rows = Ring::new(base, p.tile.stage_bytes(), p.tile.stages, barriers);
    let results =
        Ring::new(base + p.tile.results_at(), p.tile.result_bytes(), ROWS_MMA_RESULTS, barriers + 16 * p.tile.stages);
    let (warp, workers) = (warp::uniform(thread_idx_x() / 32), p.tile.warps());
    if thread_idx_x() == 0 {
        for_each!(I < SIDE, {
            tma::prefetch_map(maps[I]);
        });
        rows.init(1, workers);
        results.init(workers, 1);
        mbarrier::fence_init();
    }
    // What copies leave stays: nothing is less than what is beside x, and there is no dy beside dy.
    let mut stage = base;
    while stage < base + p.tile.results_at() {
        let mut at = thread_idx_x() * CHUNK_BYTES;
        while at < p.tile.stage_bytes() {
            let value = if at < p.tile.output_at() { both(T::INFINITY) | SIGNS } else { 0 };
            shared::store_x4(stage + at, [value; 4]);
            at += block_dim_x() * CHUNK_BYTES;
        }
        stage += p.tile.stage_bytes();
    }
    fence_proxy_async_shared();
    sync_threads();
    schedule::wait_for_predecessors();
    if warp < workers {
        schedule::acquire_registers::<COMPUTING_REGISTERS>();
        Work::new::<T>(p, warp, base).compute::<T>(rows, results);
    } else {
        schedule::release_registers::<MOVING_REGISTERS>();
        if warp == workers {
            load_rows(p, maps, rows);
        } else if warp == workers + 1 {
            store_rows(p, maps[2], results);
        }
    }
}

/// Brings row after row of a block's items.
///
/// # Safety
/// As [`backward`]; all threads of one warp.
#[inline(always)]
unsafe fn load_rows(p: &PoolRowsMmaParams, maps: [MapAddress; 3], mut ring: Ring) {
    let leads = warp::elect();
    let bytes = p.tile.images * ROWS_MMA_COLUMN_BYTES;
    let mut index = block_idx_x();
    while index < p.n_items {
        let item = Item::new(p, index);
        let mut line = item.line;
        while line < item.end_line() {
            let has_x = line < p.image[0] as i32;
            let window = item.window_of(p, line);
            if has_x || window.is_some() {
                mbarrier::wait(ring.empty(), ring.parity ^ 1);
                if leads {
                    let x_bytes = if has_x { bytes * p.tile.image_columns } else { 0 };
                    let dy_bytes = if window.is_some() { bytes * p.tile.output_columns } else { 0 };
                    mbarrier::arrive_expect_bytes(ring.full(), x_bytes + dy_bytes);
                    let mut image = 0;
                    while image < p.tile.images {
                        let (channel, n) = (item.channel as i32, (item.image + image) as i32);
                        if has_x {
                            let column = ROWS_MMA_MARGIN + image * p.tile.image_pitch();
                            let to = ring.at() + column * ROWS_MMA_COLUMN_BYTES;
                            tma::load_4d(to, maps[0], ring.full(), [channel, 0, line, n]);
                        }
                        if let Some(window) = window {
                            let column = image * p.tile.output_pitch();
                            let to = ring.at() + p.tile.output_at() + column * ROWS_MMA_COLUMN_BYTES;
                            tma::load_4d(to, maps[1], ring.full(), [channel, 0, window, n]);
                        }
                        image += 1;
                    }
                }
                ring.advance();
            }
            line += 1;
        }
        index += grid_dim_x();
    }
}

/// Takes row after row of a block's results away.
///
/// # Safety
/// As [`backward`]; all threads of one warp.
#[inline(always)]
unsafe fn store_rows(p: &PoolRowsMmaParams, map: MapAddress, results: Ring) {
    let mut outgoing = Outgoing::new(results);
    let mut index = block_idx_x();
    while index < p.n_items {
        let item = Item::new(p, index);
        let mut h = item.begin;
        while h < item.end {
            outgoing.send(map, [item.channel as i32, 0, h, item.image as i32]);
            h += 1;
        }
        index += grid_dim_x();
    }
    outgoing.finish();
}

/// Where eight channels of a column lie behind a place that is a multiple of the swizzle's period.
#[inline(always)]
fn swizzled(column: u32, chunk: u32) -> u32 {
    column * ROWS_MMA_COLUMN_BYTES + (chunk ^ column % ROWS_MMA_MARGIN) * CHUNK_BYTES
}

/// The sums of a row of dx: a product's, of both halves of the channels.
type Sums = [[f32; 4]; HALVES];

/// A warp's share of a block's work.
struct Work<'a> {
    p: &'a PoolRowsMmaParams,
    /// Where, in a stage, this lane's rows of `ldmatrix` lie, for each column of its windows.
    x: [u32; SIDE],
    dy: u32,
    /// Where its row of `stmatrix` lies in a row of results, or anywhere.
    dx: u32,
    /// Whether it does.
    writes: bool,
    /// Whether it has the first windows of rows.
    begins: bool,
    /// First factors that move windows to their columns of x.
    diagonals: [[u32; 4]; SIDE],
}

impl<'a> Work<'a> {
    #[inline(always)]
    unsafe fn new<T: Compared + TensorCore>(p: &'a PoolRowsMmaParams, warp: u32, base: u32) -> Self {
        let scrap = base + p.tile.scrap_at() + warp * ROWS_MMA_SCRAP_BYTES + lane_id() * CHUNK_BYTES;
        let (span, part) = (warp / ROWS_MMA_PARTS, warp % ROWS_MMA_PARTS);
        let (image, span) = p.spans.div_rem(span);
        let lane = lane_id();
        let (place, chunk) = (lane % 16, part * 2 + lane / 16);
        let window = span * ROWS_MMA_STEP;
        // What would be windows behind the last one have no dy, and look at the first column.
        let own = window + place;
        let exists = own < p.output[1];
        let column_of = |shift: u32| {
            let column = if exists { own + shift } else { p.padding[1] };
            swizzled(ROWS_MMA_MARGIN + image * p.tile.image_pitch() + column - p.padding[1], chunk)
        };
        let dy_column = image * p.tile.output_pitch() + if exists { own } else { p.output[1] };
        // The first columns of a span are the last ones of the span before it.
        let column = own.wrapping_sub(p.padding[1]);
        let writes = (place >= ROWS_MMA_HALO || span == 0) && column < p.image[1];
        let dx = swizzled(image * p.image[1] + column, chunk);
        Work {
            p,
            x: [column_of(0), column_of(1), column_of(2)],
            dy: p.tile.output_at() + swizzled(dy_column, chunk),
            dx: if writes { dx } else { scrap },
            writes,
            begins: span == 0,
            diagonals: diagonals::<T>(scrap),
        }
    }

    #[inline(always)]
    unsafe fn compute<T: Compared + TensorCore>(self, mut ring: Ring, mut results: Ring) {
        let p = self.p;
        let (height, mut read) = (p.image[0] as i32, 0);
        let mut index = block_idx_x();
        while index < p.n_items {
            let item = Item::new(p, index);
            let mut rows = [RowMost::none::<T>(); SIDE];
            // The rows that are not plain, this one first.
            let mut odd = 0;
            let mut sums: [Sums; SIDE] = [[[0.0; 4]; HALVES]; SIDE];
            let mut line = item.line;
            'lines: loop {
                // Written out, so that neither rows nor sums need be moved from one line to the next.
                for_each!(PHASE < SIDE, {
                    const LAST: usize = (PHASE + 2) % SIDE;
                    let has_x = line < height;
                    let window = item.window_of(p, line);
                    odd <<= 1;
                    let mut at = 0;
                    if has_x || window.is_some() {
                        at = ring.take(&mut read);
                    }
                    if has_x {
                        let columns = self.x.map(
                            #[inline(always)]
                            |x| ldmatrix::load_x4_transposed(at + x),
                        );
                        let (row, plain) = RowMost::of::<T>(&columns);
                        rows[LAST] = row;
                        if !plain {
                            odd |= 1;
                            // Loaded anew, lest they be kept until here.
                            let [first, second] = [self.x[0], self.x[1]].map(
                                #[inline(always)]
                                |x| ldmatrix::load_x4_transposed(at + x),
                            );
                            // Of the first word of a half, the windows whose first column exists.
                            let beside = self.begins && p.padding[1] > 0 && schedule::opaque(lane_id()) % 4 == 0;
                            let edge = if beside { !0xffff } else { u32::MAX };
                            rows[LAST].place_any::<T>(first, second, [edge, u32::MAX, edge, u32::MAX]);
                        }
                    } else {
                        rows[LAST] = RowMost::none::<T>();
                    }
                    if let Some(window) = window {
                        let dy = ldmatrix::load_x4_transposed(at + self.dy);
                        let rows = [&rows[PHASE], &rows[(PHASE + 1) % SIDE], &rows[LAST]];
                        // Of how many rows above the image a window looks at.
                        let above = p.padding[0] as i32 - window;
                        self.add::<T, PHASE>(rows, &dy, &mut sums, odd & 7 != 0, above);
                    }
                    let h = line - ROWS_MMA_HALO as i32;
                    if h >= item.begin {
                        mbarrier::wait(results.empty(), results.parity ^ 1);
                        let [a, b] = sums[PHASE];
                        let pairs =
                            [T::pack(a[0], a[1]), T::pack(a[2], a[3]), T::pack(b[0], b[1]), T::pack(b[2], b[3])];
                        let to = if self.writes { results.at() } else { 0 };
                        ldmatrix::store_x4(to + self.dx, pairs);
                        fence_proxy_async_shared();
                        results.hand_on();
                    }
                    sums[PHASE] = [[0.0; 4]; HALVES];
                    line += 1;
                    if line == item.end_line() {
                        break 'lines;
                    }
                });
            }
            index += grid_dim_x();
        }
    }

    /// Adds what a row of windows has to the sums of the rows of dx that it meets, the first of which is `PHASE`. The windows
    /// begin so many rows above the image; `odd` if some of the rows' maxima are not greater than negative infinity.
    #[inline(always)]
    unsafe fn add<T: Compared + TensorCore, const PHASE: usize>(
        &self,
        [a, b, c]: [&RowMost; SIDE],
        dy: &[u32; WORDS],
        sums: &mut [Sums; SIDE],
        odd: bool,
        above: i32,
    ) {
        let (in_first, in_second) = rows_of::<T>([a, b, c], odd, above > 0);
        let mut largest = 0;
        vector::for_each!(W < WORDS, {
            let magnitude = dy[W] & MAGNITUDES;
            largest = if W == 0 { magnitude } else { T::larger(largest, magnitude) };
        });
        let finite = T::less(largest, both(T::INFINITY)) == u32::MAX;
        for_each!(HALF < HALVES, {
            // What a window has, if its maximum is in this row.
            let of_row = |row: usize, words: [u32; PAIR]| {
                [0, 1].map(
                    #[inline(always)]
                    |r| {
                        let w = HALF * PAIR + r;
                        of_three(row, words[r], in_first[w], in_second[w])
                    },
                )
            };
            let dy = [dy[HALF * PAIR], dy[HALF * PAIR + 1]];
            if warp::all(finite) {
                for_each!(J < SIDE, {
                    for_each!(I < SIDE, {
                        let words = of_column::<J>([a, b, c][I], HALF, of_row(I, dy));
                        self.multiply::<T, J>(&mut sums[(PHASE + I) % SIDE][HALF], words);
                    });
                });
            } else {
                let (mut kind, kinds) = (schedule::opaque(0), schedule::opaque(KINDS));
                while kind < kinds {
                    let words = dy.map(
                        #[inline(always)]
                        |dy| of_kind::<T>(dy, kind),
                    );
                    for_each!(I < SIDE, {
                        let mut counts = [0.0; 4];
                        for_each!(J < SIDE, {
                            let words = of_column::<J>([a, b, c][I], HALF, of_row(I, words));
                            self.multiply::<T, J>(&mut counts, words);
                        });
                        add_of_kind(&mut sums[(PHASE + I) % SIDE][HALF], counts, kind);
                    });
                    kind += 1;
                }
            }
        });
    }

    /// Adds what windows have for their `J`-th columns to the sums of a row.
    #[inline(always)]
    fn multiply<T: Compared + TensorCore, const J: usize>(&self, sums: &mut [f32; 4], words: [u32; PAIR]) {
        T::multiply(sums, self.diagonals[J], words);
    }
}

/// What a half's windows have, if a row's maximum is in their `J`-th column.
#[inline(always)]
fn of_column<const J: usize>(row: &RowMost, half: usize, words: [u32; PAIR]) -> [u32; PAIR] {
    [0, 1].map(
        #[inline(always)]
        |r| {
            let (is_first, is_second) = (row.is_first[half * PAIR + r], row.is_second[half * PAIR + r]);
            of_three(J, words[r], is_first, is_second)
        },
    )
}

/// Of a word of dy the finite elements, or ones where there are infinities of either sign, or NaNs.
#[inline(always)]
fn of_kind<T: Compared>(dy: u32, kind: u32) -> u32 {
    let (ones, infinity) = (both(T::ONE), both(T::INFINITY));
    match kind {
        0 => dy & T::less(dy & MAGNITUDES, infinity),
        1 => ones & T::same(dy, infinity),
        2 => ones & T::same(dy, infinity | SIGNS),
        _ => ones & nans::<T>(dy),
    }
}

/// Adds a kind's sums: of finite ones themselves; of others, which are counted, what they are where there are any.
#[inline(always)]
fn add_of_kind(sums: &mut [f32; 4], counts: [f32; 4], kind: u32) {
    let value = match kind {
        1 => f32::INFINITY,
        2 => f32::NEG_INFINITY,
        _ => f32::NAN,
    };
    vector::for_each!(E < WORDS, {
        sums[E] += if kind == 0 {
            counts[E]
        } else if counts[E] > 0.0 {
            value
        } else {
            0.0
        };
    });
}

/// First factors of products that move windows by none, one and two columns: columns 0 and 8 of windows 0, then of windows 8.
/// They are read back from `scrap`, 16 bytes of this thread's in shared memory.
///
/// # Safety
/// Nobody else has these bytes.
#[inline(always)]
unsafe fn diagonals<T: Compared + TensorCore>(scrap: u32) -> [[u32; 4]; SIDE] {
    let (row, window) = (lane_id() / 4, lane_id() % 4 * 2);
    let shifted = |by: u32| {
        let words = [(0, 0), (8, 0), (0, 8), (8, 8)].map(
            #[inline(always)]
            |(rows, windows)| {
                let one = |i: u32| if row + rows == window + windows + i + by { T::ONE } else { 0 };
                one(0) | one(1) << 16
            },
        );
        // By shared memory: registers that are known to be equal, or zero, would be copied together for every product.
        shared::store_x4(scrap, words);
        shared::load_x4(scrap)
    };
    [shifted(0), shifted(1), shifted(2)]
}
