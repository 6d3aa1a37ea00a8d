//! Forward a strip of outputs of one column a thread, backward of averages one element of dx: of 16 bytes of channels
//! where these lie together, else of one channel, neighbouring threads on neighbouring columns.
//!
//! Grid: exact, one-dimensional. Block: 256 threads. No shared memory: windows that overlap read the same elements from
//! the first-level cache, and those of 3 × 3 keep what a row of the window gave for the outputs below.

use crate::math::element::Element;
use crate::math::vector;
use crate::math::words::{load, load_words, store};
use cuda_std::{math, thread};
use kernel_abi::ops::pool::{PoolStripParams, WindowAxis};

/// How elements are joined: by their sum.
pub const SUM: u32 = 0;
/// By their maximum, which is NaN if there is one.
pub const MAXIMUM: u32 = 1;
/// By the maximum of those that are no NaN.
pub const MAXIMUM_OF_NUMBERS: u32 = 2;

/// Columns loaded at a time.
const AHEAD: usize = 4;

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
