//! Forward a strip of outputs of one column a thread, backward of averages one element of dx: of 16 bytes of channels
//! where these lie together, else of one channel, neighbouring threads on neighbouring columns.
//!
//! Maxima of 3 × 3 compare two elements of 16 bits at once. Where columns lie together and rows are whole words, a thread
//! has two neighbouring columns: words are taken apart and joined anew.
//!
//! Grid: exact, one-dimensional. Block: 256 threads. No shared memory: windows that overlap read the same elements from
//! the first-level cache, and those of 3 × 3 keep what a row of the window gave for the outputs below.

// Bodies are written out for more numbers than arrays have; conditions leave those out.
#![allow(unconditional_panic)]

mod walk;

use super::columns::Words;
use crate::math::element::Element;
use crate::math::vector::{self, for_each};
use crate::math::words::{load, load_words, store};
use cuda_std::{math, thread};
use kernel_abi::ops::pool::{PoolStripParams, WindowAxis};
use walk::Walk;

/// How elements are joined: by their sum.
pub const SUM: u32 = 0;
/// By their maximum, which is NaN if there is one.
pub const MAXIMUM: u32 = 1;
/// By the maximum of those that are no NaN.
pub const MAXIMUM_OF_NUMBERS: u32 = 2;

/// Columns loaded at a time.
const AHEAD: usize = 4;
/// Rows of three columns that are loaded at a time.
const ROWS: usize = 4;
/// Columns of a word, as a thread may have them where they lie together.
const PAIR: usize = 2;

/// Where a thread works: image, vector of channels, plane, strip of rows, column.
struct Place {
    n: i64,
    c: i64,
    d: i32,
    strip: i32,
    w: i32,
}

#[inline(always)]
unsafe fn place<const V: usize>(p: &PoolStripParams, thread: u32) -> Place {
    let (mut rest, mut c) = (thread, 0);
    if V > 1 {
        (rest, c) = p.channels.div_rem(rest);
    }
    let (rest, w) = p.columns.div_rem(rest);
    let (rest, strip) = p.strips.div_rem(rest);
    let (mut rest, d) = p.planes.div_rem(rest);
    if V == 1 {
        (rest, c) = p.channels.div_rem(rest);
    }
    Place { n: i64::from(rest), c: i64::from(c), d: d as i32, strip: strip as i32, w: w as i32 }
}

#[inline(always)]
pub unsafe fn join<const V: usize, const KIND: u32>(a: [f32; V], b: [f32; V]) -> [f32; V] {
    let mut joined = a;
    vector::for_each!(I < V, {
        let (a, b) = (*a.get_unchecked(I), *b.get_unchecked(I));
        *joined.get_unchecked_mut(I) = match KIND {
            SUM => a + b,
            MAXIMUM => math::max_nan_f32(a, b),
            _ => math::max_f32(a, b),
        };
    });
    joined
}

/// y = the maximum of windows of any extent, or with `SIDE` 3 of 3 × 3 in one plane, `STRIDE` rows apart.
pub unsafe fn maximum<T: Element<Acc = f32>, const V: usize, const SIDE: i32, const STRIDE: i32>(p: &PoolStripParams) {
    if p.ignore_nan != 0 {
        forward::<T, V, MAXIMUM_OF_NUMBERS, SIDE, STRIDE>(p)
    } else {
        forward::<T, V, MAXIMUM, SIDE, STRIDE>(p)
    }
}

/// y = the average of such windows.
pub unsafe fn average<T: Element<Acc = f32>, const V: usize, const SIDE: i32, const STRIDE: i32>(p: &PoolStripParams) {
    forward::<T, V, SUM, SIDE, STRIDE>(p)
}

#[inline(always)]
unsafe fn forward<T: Element<Acc = f32>, const V: usize, const KIND: u32, const SIDE: i32, const STRIDE: i32>(
    p: &PoolStripParams,
) {
    let thread = thread::index_1d() as u32;
    if thread >= p.n_threads {
        return;
    }
    let at = place::<V>(p, thread);
    let first = at.strip * p.strip as i32;
    let end = if first + (p.strip as i32) < p.axes[1].output { first + p.strip as i32 } else { p.axes[1].output };
    let to = p.to.offset(at.n, at.c, i64::from(at.d)) + i64::from(at.w) * p.to.strides[4];
    let finish = |output: i32, joined: [f32; V]| {
        let factor = if KIND == SUM { p.alpha / count(p, [at.d, output, at.w]) } else { p.alpha };
        store::<T, V>(p.to.address, to + i64::from(output) * p.to.strides[3], joined, factor, p.beta);
    };
    if SIDE != 3 {
        let mut output = first;
        while output < end {
            finish(output, window::<T, V, KIND>(p, &at, output));
            output += 1;
        }
        return;
    }
    // Windows of one plane, which may lie in no padding.
    let image = p.from.offset(at.n, at.c, i64::from(p.axes[0].start(at.d)));
    let mut h = p.axes[1].start(first);
    let row = |h: i32| row_of_three::<T, V, KIND>(p, image, h, p.axes[2].start(at.w));
    let mut above = row(h);
    let mut middle = if STRIDE == 1 { row(h + 1) } else { above };
    let mut output = first;
    while output < end {
        if STRIDE != 1 {
            middle = row(h + 1);
        }
        let below = row(h + 2);
        finish(output, join::<V, KIND>(join::<V, KIND>(above, middle), below));
        (above, middle) = if STRIDE == 1 { (middle, below) } else { (below, below) };
        h += STRIDE;
        output += 1;
    }
}

/// Three neighbours of a row, joined.
#[inline(always)]
unsafe fn row_of_three<T: Element<Acc = f32>, const V: usize, const KIND: u32>(
    p: &PoolStripParams,
    image: i64,
    h: i32,
    w: i32,
) -> [f32; V] {
    let in_row = (h as u32) < p.axes[1].image as u32;
    let offset = image + i64::from(h) * p.from.strides[3] + i64::from(w) * p.from.strides[4];
    let element = |i: i32| {
        let inside = in_row && ((w + i) as u32) < p.axes[2].image as u32;
        load::<T, V>(p.from.address, offset + i64::from(i) * p.from.strides[4], inside, p.fill)
    };
    let (left, middle, right) = (element(0), element(1), element(2));
    join::<V, KIND>(join::<V, KIND>(left, middle), right)
}

/// All elements of an output's window, joined.
#[inline(always)]
unsafe fn window<T: Element<Acc = f32>, const V: usize, const KIND: u32>(
    p: &PoolStripParams,
    at: &Place,
    output: i32,
) -> [f32; V] {
    let (planes, rows, columns) = (p.axes[0].inside(at.d), p.axes[1].inside(output), p.axes[2].inside(at.w));
    let step = p.from.strides[4];
    // Elements that are left out change nothing.
    let mut joined = vector::widened::<T, V>(&[p.fill; 4]);
    let mut d = planes.0;
    while d < planes.1 {
        let mut h = rows.0;
        while h < rows.1 {
            let mut offset = p.from.offset(at.n, at.c, i64::from(d)) + i64::from(h) * p.from.strides[3];
            offset += i64::from(columns.0) * step;
            let mut w = columns.0;
            while w < columns.1 {
                let mut loaded = [[0u32; 4]; AHEAD];
                vector::for_each!(I < AHEAD, {
                    *loaded.get_unchecked_mut(I) = load_words::<T, V>(
                        p.from.address,
                        offset + I as i64 * step,
                        w + (I as i32) < columns.1,
                        p.fill,
                    );
                });
                vector::for_each!(I < AHEAD, {
                    joined = join::<V, KIND>(joined, vector::widened::<T, V>(loaded.get_unchecked(I)));
                });
                offset += AHEAD as i64 * step;
                w += AHEAD as i32;
            }
            h += 1;
        }
        d += 1;
    }
    joined
}

/// What the sum of an output's window is divided by.
#[inline(always)]
unsafe fn count(p: &PoolStripParams, output: [i32; 3]) -> f32 {
    let along = |axis: &WindowAxis, o: i32| axis.count(o, p.with_padding != 0);
    along(&p.axes[0], output[0]) as f32 * along(&p.axes[1], output[1]) as f32 * along(&p.axes[2], output[2]) as f32
}

/// dx = the shares of the averages that hold it.
pub unsafe fn shares<T: Element<Acc = f32>, const V: usize>(p: &PoolStripParams) {
    let thread = thread::index_1d() as u32;
    if thread >= p.n_threads {
        return;
    }
    let at = place::<V>(p, thread);
    let (planes, rows, columns) = (p.axes[0].covering(at.d), p.axes[1].covering(at.strip), p.axes[2].covering(at.w));
    let mut sum = [0.0; V];
    let mut z = planes.0;
    while z < planes.1 {
        let mut h = rows.0;
        while h < rows.1 {
            let row = p.from.offset(at.n, at.c, i64::from(z)) + i64::from(h) * p.from.strides[3];
            let mut w = columns.0;
            while w < columns.1 {
                let share = 1.0 / count(p, [z, h, w]);
                let dy = load::<T, V>(p.from.address, row + i64::from(w) * p.from.strides[4], true, 0);
                vector::for_each!(I < V, {
                    let term = sum.get_unchecked_mut(I);
                    *term = math::fma_f32(*dy.get_unchecked(I), share, *term);
                });
                w += 1;
            }
            h += 1;
        }
        z += 1;
    }
    let to = p.to.offset(at.n, at.c, i64::from(at.d)) + i64::from(at.strip) * p.to.strides[3];
    store::<T, V>(p.to.address, to + i64::from(at.w) * p.to.strides[4], sum, p.alpha, p.beta);
}

/// y = the maximum of windows of 3 × 3 in one plane, `STRIDE` rows apart, of 16 bytes of channels.
pub unsafe fn maximum_of_three<T: Words, const V: usize, const STRIDE: i32>(p: &PoolStripParams) {
    if p.ignore_nan != 0 { go_down::<T, V, STRIDE, false, true>(p) } else { go_down::<T, V, STRIDE, false, false>(p) }
}

/// The same for two neighbouring windows a thread, `STRIDE` apart along both axes.
pub unsafe fn pairs<T: Words, const STRIDE: i32>(p: &PoolStripParams) {
    match (p.axes[2].padding % 2 != 0, p.ignore_nan != 0) {
        (false, false) => go_down::<T, PAIR, STRIDE, false, false>(p),
        (false, true) => go_down::<T, PAIR, STRIDE, false, true>(p),
        (true, false) => go_down::<T, PAIR, STRIDE, true, false>(p),
        (true, true) => go_down::<T, PAIR, STRIDE, true, true>(p),
    }
}

/// The first elements of two windows in a row, of which the first one begins with the first or second element of these
/// words; then the middle ones, then the last ones.
#[inline(always)]
fn of_two<const STRIDE: i32, const ODD: bool>(words: [u32; 3]) -> [u32; 3] {
    /// Of two words, the bytes of the second element and the third; of the first of each; of the second of each.
    const ACROSS: u32 = 0x5432;
    const FIRSTS: u32 = 0x5410;
    const SECONDS: u32 = 0x7632;
    let pick = |word: usize, which: u32| math::permute_bytes(words[word], words[word + 1], which);
    match (STRIDE, ODD) {
        (1, false) => [words[0], pick(0, ACROSS), words[1]],
        (1, true) => [pick(0, ACROSS), words[1], pick(1, ACROSS)],
        (_, false) => [pick(0, FIRSTS), pick(0, SECONDS), pick(1, FIRSTS)],
        (_, true) => [pick(0, SECONDS), pick(1, FIRSTS), pick(1, SECONDS)],
    }
}

/// What a thread meets in the rows to come: three columns, or pairs of them.
struct Below {
    from: Walk,
    h: i32,
    /// Whether each is in the image.
    inside: [bool; 3],
}

impl Below {
    /// Those of the next row, if it is wanted.
    #[inline(always)]
    unsafe fn next<T: Words, const V: usize>(&mut self, p: &PoolStripParams, wanted: bool) -> [[u32; 4]; 3] {
        let in_row = wanted && (self.h as u32) < p.axes[1].image as u32;
        let columns = [0, 1, 2].map(|i| {
            let from = self.from.column(if V == PAIR { PAIR * i } else { i });
            load_words::<T, V>(from, 0, in_row && self.inside[i], p.fill)
        });
        self.from.go_down();
        self.h += 1;
        columns
    }
}

/// The larger elements of some words.
#[inline(always)]
fn larger<T: Words, const V: usize, const IGNORE_NAN: bool>(a: [u32; 4], b: [u32; 4]) -> [u32; 4] {
    let mut most = a;
    for_each!(W < (V * size_of::<T>()).div_ceil(4), {
        most[W] = T::larger::<IGNORE_NAN>(a[W], b[W]);
    });
    most
}

#[inline(always)]
unsafe fn go_down<T: Words, const V: usize, const STRIDE: i32, const ODD: bool, const IGNORE_NAN: bool>(
    p: &PoolStripParams,
) {
    let thread = thread::index_1d() as u32;
    if thread >= p.n_threads {
        return;
    }
    let at = if V == PAIR { place::<1>(p, thread) } else { place::<V>(p, thread) };
    let first = at.strip * p.strip as i32;
    let end = if first + (p.strip as i32) < p.axes[1].output { first + p.strip as i32 } else { p.axes[1].output };
    let columns = if V == PAIR { PAIR as i32 } else { 1 };
    let output = columns * at.w;
    let w = p.axes[2].start(output) - i32::from(ODD);
    let h = p.axes[1].start(first);
    let image = p.from.offset(at.n, at.c, i64::from(p.axes[0].start(at.d)));
    let inside = [0, 1, 2].map(|i| ((w + i * columns) as u32) < p.axes[2].image as u32);
    let mut below = Below { from: Walk::new::<T>(&p.from, image, [h, w]), h, inside };
    let mut to = Walk::new::<T>(&p.to, p.to.offset(at.n, at.c, i64::from(at.d)), [first, output]);
    let join = larger::<T, V, IGNORE_NAN>;
    let row = |columns: [[u32; 4]; 3]| {
        let mut columns = columns;
        if V == PAIR {
            columns = of_two::<STRIDE, ODD>(columns.map(|words| words[0])).map(|word| [word, 0, 0, 0]);
        }
        join(join(columns[0], columns[1]), columns[2])
    };
    let mut above = row(below.next::<T, V>(p, true));
    let mut middle = if STRIDE == 1 { row(below.next::<T, V>(p, true)) } else { above };
    let mut next = first;
    while next < end {
        // These are under way together.
        let mut rows = [[[0; 4]; 3]; ROWS];
        for_each!(I < ROWS, {
            rows[I] = below.next::<T, V>(p, next + I as i32 / STRIDE < end);
        });
        let rows = rows.map(row);
        for_each!(I < ROWS, {
            if STRIDE == 1 || I % 2 == 1 {
                if next < end {
                    if STRIDE != 1 {
                        middle = rows[I / 2 * 2];
                    }
                    let most = vector::widened::<T, V>(&join(join(above, middle), rows[I]));
                    store::<T, V>(to.column(0), 0, most, p.alpha, p.beta);
                    to.go_down();
                }
                (above, middle) = if STRIDE == 1 { (middle, rows[I]) } else { (rows[I], rows[I]) };
                next += 1;
            }
        });
    }
}
