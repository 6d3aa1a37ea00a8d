//! dx of maxima where channels lie together: a thread goes down a column of windows of 16 bytes of channels and keeps
//! all in registers.
//!
//! Each row's maximum is found and compared with its elements a word at a time, two of 16 bits at once, and each window's
//! with those of its rows; the first that is equal is numbered by its place. Then each element that no later window meets adds dy of those windows that
//! have their maximum there: sums of rows that later windows meet go on, windows to the left come by shuffles. Sums are
//! in a fixed order. What the next step needs is loaded before.
//!
//! Grid: exact, one-dimensional. Block: 128 threads. A warp has as many neighbouring columns of windows as a group, with
//! some neighbouring vectors of channels each. The first columns of a group, and the first rows of windows of a strip,
//! repeat what their neighbours have and write nothing.

use super::planes::{for_each, is_ahead};
use crate::math::element::{Element, bf16, f16};
use crate::math::vector::{self, element};
use crate::math::words::{load_words, store};
use cuda_std::{guarded, math, thread, warp};
use kernel_abi::ops::pool::{PoolPlaneParams, plane_halo};

/// Words of a vector.
const WORDS: usize = 4;
/// Elements of a word, at most.
const PAIR: usize = 2;

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

/// What a step reads: the rows of x that the windows before have not met, and dy.
#[derive(Clone, Copy)]
struct Loaded<const SIDE: usize, const STRIDE: usize> {
    rows: [[[u32; WORDS]; SIDE]; STRIDE],
    dy: [u32; WORDS],
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

/// dx from x and dy, for windows of `SIDE` × `SIDE`, `STRIDE` apart.
#[inline(always)]
pub unsafe fn backward<T: Words, const V: usize, const SIDE: usize, const STRIDE: usize>(p: &PoolPlaneParams) {
    match (p.ignore_nan != 0, p.beta != 0.0) {
        (false, false) => go_down::<T, V, SIDE, STRIDE, false, false>(p),
        (false, true) => go_down::<T, V, SIDE, STRIDE, false, true>(p),
        (true, false) => go_down::<T, V, SIDE, STRIDE, true, false>(p),
        (true, true) => go_down::<T, V, SIDE, STRIDE, true, true>(p),
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

#[inline(always)]
unsafe fn load_step<T: Words, const V: usize, const SIDE: usize, const STRIDE: usize>(
    p: &PoolPlaneParams,
    at: &Column,
    step: i32,
) -> Loaded<SIDE, STRIDE> {
    let output = at.first + step;
    let h = output * STRIDE as i32 - p.axes[0].padding + (SIDE - STRIDE) as i32;
    let there = step < at.steps;
    let mut rows = [[[0; WORDS]; SIDE]; STRIDE];
    for_each!(I < STRIDE, {
        rows[I] = load_row::<T, V, SIDE>(p, at, if there { h + I as i32 } else { -1 });
    });
    let offset = at.dy + i64::from(output) * p.dy.strides[3] + i64::from(at.output) * p.dy.strides[4];
    Loaded { rows, dy: load_words::<T, V>(p.dy.address, offset, there && is_window(p, at, output), 0) }
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
    const IGNORE_NAN: bool,
    const HAS_PRIOR: bool,
>(
    p: &PoolPlaneParams,
) {
    // A prior value, were it read under a condition, would be waited for by all, with what is loaded ahead.
    let beta = if HAS_PRIOR { p.beta } else { 0.0 };
    let at = column::<SIDE, STRIDE>(p);
    let mut rows = [RowMost { most: [0; WORDS], column: [0; WORDS] }; SIDE];
    let mut h = at.first * STRIDE as i32 - p.axes[0].padding;
    for_each!(I < SIDE, {
        if I + STRIDE < SIDE {
            rows[I + STRIDE] = RowMost::of::<T, SIDE, IGNORE_NAN>(&load_row::<T, V, SIDE>(p, &at, h + I as i32));
        }
    });
    let mut ahead = load_step::<T, V, SIDE, STRIDE>(p, &at, 0);
    let mut sums = [[[0.0f32; V]; STRIDE]; SIDE];
    let mut step = 0;
    while step < at.steps {
        let loaded = ahead;
        // Rows that windows share, then new ones.
        for_each!(I < SIDE, {
            rows[I] = if I + STRIDE < SIDE {
                rows[I + STRIDE]
            } else {
                RowMost::of::<T, SIDE, IGNORE_NAN>(&loaded.rows[I + STRIDE - SIDE])
            };
        });
        let (mut found, sure) = places::<T, SIDE, IGNORE_NAN>(&rows);
        // Who waits for a load waits for those behind it too, so the next ones begin when all that came is used: they need
        // the votes, of which nothing is left here, for a group is no odd number.
        let votes = warp::ballot(sure);
        ahead = load_step::<T, V, SIDE, STRIDE>(p, &at, step + 1 + (votes & p.group & 1) as i32);
        if !sure && is_window(p, &at, at.first + step) {
            found = places_of_any::<T, SIDE, IGNORE_NAN>(p, &at, h);
        }
        // This window's, and those of windows to the left.
        let mut beside = [found; SIDE];
        let mut dy = [[0.0; V]; SIDE];
        for_each!(B < SIDE, {
            if B == 0 {
                dy[B] = vector::widened::<T, V>(&loaded.dy);
            } else if B * STRIDE < SIDE {
                let mut words = [0; WORDS];
                vector::for_each!(W < WORDS, {
                    beside[B][W] = warp::shuffle_up(found[W], B as u32 * at.lanes);
                    let other = warp::shuffle_up(loaded.dy[W], B as u32 * at.lanes);
                    words[W] = if at.place >= B as u32 { other } else { 0 };
                });
                dy[B] = vector::widened::<T, V>(&words);
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
                        store::<T, V>(p.dx.address, offset, sum, p.alpha, beta);
                    }
                }
            });
        });
        h += STRIDE as i32;
        step += 1;
    }
}
