//! dx of maxima where channels lie together: a thread goes down a column of windows of 16 bytes of channels and keeps
//! maxima and sums in registers.
//!
//! What the next step or two read is copied to shared memory meanwhile, by each thread the columns of x that its window has and
//! the next one has not, so that nothing is read twice; those of a group's last windows that belong to the next group's
//! are copied by its last threads.
//!
//! Each row's maximum is found and compared with its elements a word at a time, two of 16 bits at once, and each window's
//! with those of its rows; the first that is equal is numbered by its place. Then each element that no later window meets adds dy of those windows that
//! have their maximum there: sums of rows that later windows meet go on, windows to the left come by shuffles. Sums are
//! in a fixed order.
//!
//! Grid: exact, one-dimensional. Block: 128 threads. A warp has as many neighbouring columns of windows as a group, with
//! some neighbouring vectors of channels each. The first columns of a group, and the first rows of windows of a strip,
//! repeat what their neighbours have and write nothing.

use super::planes::{for_each, is_ahead};
use crate::math::element::{Element, bf16, f16};
use crate::math::vector::{self, element};
use crate::math::words::{load_words, store};
use cuda_std::memory::X4;
use cuda_std::{cp_async, guarded, math, shared, thread, warp};
use kernel_abi::ops::pool::{COLUMN_THREADS, POOL_MAX_AHEAD, PoolPlaneParams, plane_halo};

/// Words of a vector.
const WORDS: usize = 4;
/// Elements of a word, at most.
const PAIR: usize = 2;
const WARP: usize = 32;
/// Vectors of channels of a group, at most.
const MAX_LANES: usize = 4;
/// Steps that are read ahead, at most.
const MAX_STAGES: usize = POOL_MAX_AHEAD as usize;
const VECTOR_BYTES: u32 = 16;

/// Elements that are compared as words.
pub trait Words: Element<Acc = f32> {
    /// 1 for each element of a word.
    const ONES: u32;
    /// Each element's larger one, which is NaN if there is one, or the other one then.
    fn larger<const IGNORE_NAN: bool>(a: u32, b: u32) -> u32;
    /// All bits of the elements that are equal, of which one is [`comparable`](Self::comparable).
    fn equal(a: u32, b: u32) -> u32;
    /// All bits of the elements that [`equal`](Self::equal) compares: no NaN and no infinity, of bf16 none above 2¹²¹.
    fn comparable(a: u32) -> u32;
    /// Adds a word's values where its places are this one.
    fn add_where(places: u32, place: u32, values: [f32; 2], sums: [f32; 2]) -> [f32; 2];
}

macro_rules! pairs {
    ($($t:ident: $larger:path, $larger_or_nan:path;)*) => { $(
        impl Words for $t {
            const ONES: u32 = 0x1_0001;
            #[inline(always)]
            fn larger<const IGNORE_NAN: bool>(a: u32, b: u32) -> u32 {
                if IGNORE_NAN { $larger(a, b) } else { $larger_or_nan(a, b) }
            }
            // Bits are equal as numbers of f16 if they are as such of bf16, for which there is no such instruction
            // before compute capability 9.0.
            #[inline(always)]
            fn equal(a: u32, b: u32) -> u32 {
                math::equal_mask_f16x2(a, b)
            }
            #[inline(always)]
            fn comparable(a: u32) -> u32 {
                math::less_mask_f16x2(a & 0x7fff_7fff, 0x7c00_7c00)
            }
            // Small integers are subnormal numbers.
            #[inline(always)]
            fn add_where(places: u32, place: u32, values: [f32; 2], sums: [f32; 2]) -> [f32; 2] {
                math::add_where_equal_f16x2(places, place, values, sums)
            }
        }
    )* };
}

pairs! {
    f16: math::max_f16x2, math::max_nan_f16x2;
    bf16: math::max_bf16x2, math::max_nan_bf16x2;
}

impl Words for f32 {
    const ONES: u32 = 1;
    #[inline(always)]
    fn larger<const IGNORE_NAN: bool>(a: u32, b: u32) -> u32 {
        let (a, b) = (f32::from_bits(a), f32::from_bits(b));
        (if IGNORE_NAN { math::max_f32(a, b) } else { math::max_nan_f32(a, b) }).to_bits()
    }
    #[inline(always)]
    fn equal(a: u32, b: u32) -> u32 {
        math::equal_mask_f32(a, b)
    }
    #[inline(always)]
    fn comparable(a: u32) -> u32 {
        math::less_mask_f32(a & 0x7fff_ffff, f32::INFINITY.to_bits())
    }
    #[inline(always)]
    fn add_where(places: u32, place: u32, values: [f32; 2], sums: [f32; 2]) -> [f32; 2] {
        [if places == place { sums[0] + values[0] } else { sums[0] }, sums[1]]
    }
}

/// A thread's column of windows.
struct Column {
    x: i64,
    dy: i64,
    dx: i64,
    /// Whether it has something to read.
    exists: bool,
    /// Whether it writes.
    writes: bool,
    /// Its place in its group.
    place: u32,
    /// Threads from one column to the next.
    lanes: u32,
    /// Windows' column, and the first of x.
    output: i32,
    w: i32,
    /// The first row of windows.
    first: i32,
    /// How many.
    steps: i32,
    /// How many of them are others' too.
    repeated: i32,
}

/// dx from x and dy, for windows of `SIDE` × `SIDE`, `STRIDE` apart. `slots` are [`ring_vectors`] of shared memory.
#[inline(always)]
pub unsafe fn backward<T: Words, const V: usize, const SIDE: usize, const STRIDE: usize>(
    p: &PoolPlaneParams,
    slots: *mut X4<u32>,
) {
    match (p.ignore_nan != 0, p.beta != 0.0) {
        (false, false) if p.ahead > 1 => go_down::<T, V, SIDE, STRIDE, MAX_STAGES, false, false>(p, slots),
        (false, false) => go_down::<T, V, SIDE, STRIDE, 1, false, false>(p, slots),
        (false, true) => go_down::<T, V, SIDE, STRIDE, 1, false, true>(p, slots),
        (true, false) => go_down::<T, V, SIDE, STRIDE, 1, true, false>(p, slots),
        (true, true) => go_down::<T, V, SIDE, STRIDE, 1, true, true>(p, slots),
    }
}

#[inline(always)]
unsafe fn column<const SIDE: usize, const STRIDE: usize>(p: &PoolPlaneParams) -> Column {
    let halo = plane_halo(SIDE as u32, STRIDE as u32);
    let thread = thread::index_1d() as u32;
    let (group, lane) = (thread / 32, thread % 32);
    // Both are powers of two.
    let place = lane >> (5 - p.group.trailing_zeros());
    let lanes = 32 >> p.group.trailing_zeros();
    let (rest, chunk) = p.channels.div_rem(if group < p.n_groups { group } else { 0 });
    let (rest, tile) = p.tiles.div_rem(rest);
    let (rest, strip) = p.strips.div_rem(rest);
    let (n, d) = p.planes.div_rem(rest);
    let c = chunk * lanes + lane % lanes;
    let exists = group < p.n_groups && c < p.vectors;
    let (n, c, d) = (i64::from(n), i64::from(c), i64::from(d));
    let output = (tile * (p.group - halo) + place) as i32;
    // Nothing is above the first strip.
    let repeated = if strip == 0 { 0 } else { halo };
    Column {
        x: p.x.offset(n, c, d),
        dy: p.dy.offset(n, c, d),
        dx: p.dx.offset(n, c, d),
        exists,
        writes: exists && (tile == 0 || place >= halo),
        place,
        lanes,
        output,
        w: output * STRIDE as i32 - p.axes[1].padding,
        first: (strip * p.steps - repeated) as i32,
        steps: (p.steps + repeated) as i32,
        repeated: repeated as i32,
    }
}

/// Whether a position of an axis is one of x.
#[inline(always)]
fn in_image(p: &PoolPlaneParams, axis: usize, at: i32) -> bool {
    (at as u32) < p.axes[axis].image as u32
}

/// The columns of a row of x.
#[inline(always)]
unsafe fn load_row<T: Words, const V: usize, const SIDE: usize>(
    p: &PoolPlaneParams,
    at: &Column,
    h: i32,
) -> [[u32; WORDS]; SIDE] {
    let in_row = at.exists && in_image(p, 0, h);
    let offset = at.x + i64::from(h) * p.x.strides[3];
    let mut row = [[0; WORDS]; SIDE];
    for_each!(J < SIDE, {
        let w = at.w + J as i32;
        let inside = in_row && in_image(p, 1, w);
        row[J] = load_words::<T, V>(p.x.address, offset + i64::from(w) * p.x.strides[4], inside, p.fill);
    });
    row
}

/// Vectors between those of neighbouring columns or rows of x in a stage: a warp's own, and what is its neighbour's.
const fn ring_pitch(side: usize, stride: usize) -> usize {
    WARP + plane_halo(side as u32, stride as u32) as usize * MAX_LANES
}

/// Vectors of a warp's stage: of `stride` rows of x as many columns, and of dy.
const fn stage_vectors(side: usize, stride: usize) -> usize {
    stride * stride * ring_pitch(side, stride) + WARP
}

/// Vectors of shared memory that a block takes.
pub const fn ring_vectors(side: usize, stride: usize) -> usize {
    COLUMN_THREADS as usize / WARP * MAX_STAGES * stage_vectors(side, stride)
}

/// What a warp's next `STAGES` steps read.
struct Ring<const SIDE: usize, const STRIDE: usize, const STAGES: usize> {
    /// Shared-window address of this thread's first vector of the stage at hand, and of the next stage to fill.
    at: u32,
    to: u32,
    /// Of the last stage.
    last: u32,
    /// The next step's vectors of x and dy in global memory, and its first row and row of windows.
    x: u64,
    dy: u64,
    h: i32,
    output: i32,
    /// How many steps are to come.
    left: i32,
}

impl<const SIDE: usize, const STRIDE: usize, const STAGES: usize> Ring<SIDE, STRIDE, STAGES> {
    const PITCH: u32 = ring_pitch(SIDE, STRIDE) as u32 * VECTOR_BYTES;
    const STAGE: u32 = stage_vectors(SIDE, STRIDE) as u32 * VECTOR_BYTES;

    #[inline(always)]
    unsafe fn new<T: Words>(p: &PoolPlaneParams, at: &Column, slots: *mut X4<u32>) -> Self {
        let own = thread::thread_idx_x() / WARP as u32 * STAGES as u32 * Self::STAGE + thread::lane_id() * VECTOR_BYTES;
        let first = shared::address(slots) + own;
        let h = at.first * STRIDE as i32 - p.axes[0].padding + (SIDE - STRIDE) as i32;
        let place = |address: u64, offset: i64| address.wrapping_add((offset * size_of::<T>() as i64) as u64);
        let x = at.x + i64::from(h) * p.x.strides[3] + i64::from(at.w) * p.x.strides[4];
        let dy = at.dy + i64::from(at.first) * p.dy.strides[3] + i64::from(at.output) * p.dy.strides[4];
        Ring {
            at: first,
            to: first,
            last: first + (STAGES as u32 - 1) * Self::STAGE,
            x: place(p.x.address, x),
            dy: place(p.dy.address, dy),
            h,
            output: at.first,
            left: at.steps,
        }
    }

    /// The stage behind one.
    #[inline(always)]
    fn after(&self, stage: u32) -> u32 {
        if stage == self.last { stage - (STAGES as u32 - 1) * Self::STAGE } else { stage + Self::STAGE }
    }

    /// Has what the next step reads copied, if there is one, as one group.
    #[inline(always)]
    unsafe fn bring<T: Words>(&mut self, p: &PoolPlaneParams, at: &Column) {
        if self.left > 0 {
            let halo = plane_halo(SIDE as u32, STRIDE as u32);
            let row_bytes = (p.x.strides[3] * size_of::<T>() as i64) as u64;
            let column_bytes = (p.x.strides[4] * size_of::<T>() as i64) as u64;
            for_each!(I < STRIDE, {
                let in_row = at.exists && in_image(p, 0, self.h + I as i32);
                let from = self.x.wrapping_add((I as u64).wrapping_mul(row_bytes));
                let to = self.to + (I * STRIDE) as u32 * Self::PITCH;
                for_each!(J < STRIDE, {
                    let inside = in_row && in_image(p, 1, at.w + J as i32);
                    let from = from.wrapping_add((J as u64).wrapping_mul(column_bytes));
                    put(to + J as u32 * Self::PITCH, from, inside, p.fill);
                });
                // What follows the group's last columns.
                if at.place + halo >= p.group {
                    let columns = halo as usize * STRIDE;
                    let to = to + halo * at.lanes * VECTOR_BYTES;
                    for_each!(J < STRIDE, {
                        let behind = (at.place + halo - p.group) as usize * STRIDE + J;
                        if J < SIDE - STRIDE && behind < SIDE - STRIDE {
                            let inside = in_row && in_image(p, 1, at.w + (columns + J) as i32);
                            let from = from.wrapping_add(((columns + J) as u64).wrapping_mul(column_bytes));
                            put(to + J as u32 * Self::PITCH, from, inside, p.fill);
                        }
                    });
                }
            });
            let there = is_window(p, at, self.output);
            let from = if there { self.dy } else { p.dy.address };
            let to = self.to + (STRIDE * STRIDE) as u32 * Self::PITCH;
            cp_async::copy_x4(to, from as *const u8, if there { VECTOR_BYTES } else { 0 });
            self.x = self.x.wrapping_add((STRIDE as u64).wrapping_mul(row_bytes));
            self.dy = self.dy.wrapping_add((p.dy.strides[3] * size_of::<T>() as i64) as u64);
            self.h += STRIDE as i32;
            self.output += 1;
            self.left -= 1;
        }
        cp_async::commit_group();
        self.to = self.after(self.to);
    }

    /// Waits until this thread's copies of the step at hand are done.
    #[inline(always)]
    fn wait(&self) {
        if STAGES == MAX_STAGES {
            cp_async::wait_group::<{ POOL_MAX_AHEAD - 1 }>();
        } else {
            cp_async::wait_all();
        }
    }

    /// The columns of the window in row `i` of the stage at hand.
    #[inline(always)]
    unsafe fn row(&self, at: &Column, i: usize) -> [[u32; WORDS]; SIDE] {
        let mut row = [[0; WORDS]; SIDE];
        for_each!(J < SIDE, {
            let windows = (J / STRIDE) as u32 * at.lanes * VECTOR_BYTES;
            row[J] = shared::load_x4(self.at + (i * STRIDE + J % STRIDE) as u32 * Self::PITCH + windows);
        });
        row
    }

    /// The window's dy.
    #[inline(always)]
    unsafe fn dy(&self) -> [u32; WORDS] {
        shared::load_x4(self.at + (STRIDE * STRIDE) as u32 * Self::PITCH)
    }
}

/// Has a vector of x copied, or puts there what stands for one beside the image.
#[inline(always)]
unsafe fn put(to: u32, from: u64, inside: bool, fill: u32) {
    if inside {
        cp_async::copy_x4(to, from as *const u8, VECTOR_BYTES);
    } else {
        shared::store_x4(to, [fill; WORDS]);
    }
}

#[inline(always)]
fn is_window(p: &PoolPlaneParams, at: &Column, output: i32) -> bool {
    at.exists && (output as u32) < p.axes[0].output as u32 && (at.output as u32) < p.axes[1].output as u32
}

/// Of a row of windows' columns: each channel's maximum, and the first column that has it.
#[derive(Clone, Copy)]
struct RowMost {
    most: [u32; WORDS],
    column: [u32; WORDS],
}

impl RowMost {
    #[inline(always)]
    unsafe fn of<T: Words, const SIDE: usize, const IGNORE_NAN: bool>(row: &[[u32; WORDS]; SIDE]) -> Self {
        let mut this = RowMost { most: row[0], column: [(SIDE - 1) as u32 * T::ONES; WORDS] };
        vector::for_each!(W < WORDS, {
            for_each!(J < SIDE, {
                if J > 0 {
                    this.most[W] = T::larger::<IGNORE_NAN>(this.most[W], row[J][W]);
                }
            });
            // The last one that is written is the first.
            for_each!(J < SIDE, {
                if J > 0 {
                    let column = SIDE - 1 - J;
                    let equal = T::equal(row[column][W], this.most[W]);
                    this.column[W] = equal & (column as u32 * T::ONES) | !equal & this.column[W];
                }
            });
        });
        this
    }
}

/// The place of each channel's first maximum in a window, and whether all are sure: so are those with a finite maximum.
/// Windows share rows, and the first row that has a window's maximum has it first where it first has its own.
#[inline(always)]
unsafe fn places<T: Words, const SIDE: usize, const IGNORE_NAN: bool>(rows: &[RowMost; SIDE]) -> ([u32; WORDS], bool) {
    let (mut places, mut sure) = ([0; WORDS], u32::MAX);
    vector::for_each!(W < WORDS, {
        let mut most = rows[0].most[W];
        for_each!(I < SIDE, {
            if I > 0 {
                most = T::larger::<IGNORE_NAN>(most, rows[I].most[W]);
            }
        });
        sure &= T::comparable(most);
        for_each!(I < SIDE, {
            let row = SIDE - 1 - I;
            let place = rows[row].column[W] + (row * SIDE) as u32 * T::ONES;
            let equal = if I == 0 { u32::MAX } else { T::equal(rows[row].most[W], most) };
            places[W] = equal & place | !equal & places[W];
        });
    });
    (places, sure == u32::MAX)
}

/// The same for any numbers, of a window that begins here.
#[inline(always)]
#[cold]
unsafe fn places_of_any<T: Words, const SIDE: usize, const IGNORE_NAN: bool>(
    p: &PoolPlaneParams,
    at: &Column,
    h: i32,
) -> [u32; WORDS] {
    let mut places = [0; WORDS];
    vector::for_each!(W < WORDS, {
        let (mut most, mut first, mut found) = ([0.0f32; 2], 0, false);
        let mut place = 0;
        while place < (SIDE * SIDE) as i32 {
            let (h, w) = (h + place / SIDE as i32, at.w + place % SIDE as i32);
            if in_image(p, 0, h) && in_image(p, 1, w) {
                let offset = at.x + i64::from(h) * p.x.strides[3] + i64::from(w) * p.x.strides[4];
                let from = p.x.address.wrapping_add((offset as u64).wrapping_mul(size_of::<T>() as u64));
                let words = guarded::load_x1(from.wrapping_add(4 * W as u64), 1);
                for_each!(E < PAIR, {
                    if E * size_of::<T>() < 4 {
                        let (value, most) = (element::<T>(&words, E).widen(), &mut most[E]);
                        if !found || is_ahead::<IGNORE_NAN>(value, *most) {
                            *most = value;
                            let shift = 16 * E as u32;
                            let others = if size_of::<T>() == 2 { !(0xffff << shift) } else { 0 };
                            first = first & others | (place as u32) << shift;
                        }
                    }
                });
                found = true;
            }
            place += 1;
        }
        places[W] = first;
    });
    places
}

/// Adds a window's dy where its maxima are at this place.
#[inline(always)]
fn add_where<T: Words, const V: usize>(places: &[u32; WORDS], place: usize, dy: &[f32; V], sums: &mut [f32; V]) {
    let per_word = V / WORDS;
    vector::for_each!(W < WORDS, {
        let (i, j) = (W * per_word, W * per_word + per_word - 1);
        let place = place as u32 * T::ONES;
        let [low, high] = T::add_where(places[W], place, [dy[i], dy[j]], [sums[i], sums[j]]);
        // Of words of a single element, only the first is one.
        (sums[j], sums[i]) = (high, low);
    });
}

#[inline(always)]
unsafe fn go_down<
    T: Words,
    const V: usize,
    const SIDE: usize,
    const STRIDE: usize,
    const STAGES: usize,
    const IGNORE_NAN: bool,
    const HAS_PRIOR: bool,
>(
    p: &PoolPlaneParams,
    slots: *mut X4<u32>,
) {
    // A kernel of its own has prior values: no condition stands around their loads.
    let beta = if HAS_PRIOR { p.beta } else { 0.0 };
    let at = column::<SIDE, STRIDE>(p);
    let mut ring = Ring::<SIDE, STRIDE, STAGES>::new::<T>(p, &at, slots);
    let mut stage = 0;
    while stage < STAGES {
        ring.bring::<T>(p, &at);
        stage += 1;
    }
    let mut rows = [RowMost { most: [0; WORDS], column: [0; WORDS] }; SIDE];
    let mut h = at.first * STRIDE as i32 - p.axes[0].padding;
    for_each!(I < SIDE, {
        if I + STRIDE < SIDE {
            rows[I + STRIDE] = RowMost::of::<T, SIDE, IGNORE_NAN>(&load_row::<T, V, SIDE>(p, &at, h + I as i32));
        }
    });
    let mut sums = [[[0.0f32; V]; STRIDE]; SIDE];
    let mut step = 0;
    while step < at.steps {
        ring.wait();
        // Other lanes' copies are there as well.
        warp::sync_warp();
        // Rows that windows share, then new ones.
        for_each!(I < SIDE, {
            rows[I] = if I + STRIDE < SIDE {
                rows[I + STRIDE]
            } else {
                RowMost::of::<T, SIDE, IGNORE_NAN>(&ring.row(&at, I + STRIDE - SIDE))
            };
        });
        let own_dy = ring.dy();
        warp::sync_warp();
        ring.bring::<T>(p, &at);
        ring.at = ring.after(ring.at);
        let (mut found, sure) = places::<T, SIDE, IGNORE_NAN>(&rows);
        if !sure && is_window(p, &at, at.first + step) {
            found = places_of_any::<T, SIDE, IGNORE_NAN>(p, &at, h);
        }
        // This window's, and those of windows to the left.
        let mut beside = [found; SIDE];
        let mut dy = [[0.0; V]; SIDE];
        for_each!(B < SIDE, {
            if B * STRIDE < SIDE {
                let mut words = own_dy;
                if B > 0 {
                    vector::for_each!(W < WORDS, {
                        beside[B][W] = warp::shuffle_up(found[W], B as u32 * at.lanes);
                        let other = warp::shuffle_up(own_dy[W], B as u32 * at.lanes);
                        words[W] = if at.place >= B as u32 { other } else { 0 };
                    });
                }
                dy[B] = vector::widened::<T, V>(&words);
                vector::for_each!(E < V, {
                    dy[B][E] *= p.alpha;
                });
            }
        });
        let is_written = at.writes && step >= at.repeated;
        for_each!(I < SIDE, {
            for_each!(J < STRIDE, {
                let mut sum = sums[I][J];
                for_each!(B < SIDE, {
                    if J + B * STRIDE < SIDE {
                        add_where::<T, V>(&beside[B], I * SIDE + J + B * STRIDE, &dy[B], &mut sum);
                    }
                });
                if I >= STRIDE {
                    sums[I - STRIDE][J] = sum;
                } else {
                    let (h, w) = (h + I as i32, at.w + J as i32);
                    if is_written && in_image(p, 0, h) && in_image(p, 1, w) {
                        let offset = at.dx + i64::from(h) * p.dx.strides[3] + i64::from(w) * p.dx.strides[4];
                        store::<T, V>(p.dx.address, offset, sum, 1.0, beta);
                    }
                }
            });
        });
        h += STRIDE as i32;
        step += 1;
    }
}
