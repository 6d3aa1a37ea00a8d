//! dx of maxima where columns lie together: a thread goes down a column of windows and keeps all in registers.
//!
//! Of each row of x it looks for the maximum of its columns once, and each window joins those of its rows. The gradient
//! goes to one of as many sums as a window has elements; rows that no later window meets are complete but for what the
//! windows to the left have for them, which comes by shuffles. Sums are in a fixed order.
//!
//! Grid: exact, one-dimensional. Block: 256 threads, in groups of neighbouring columns. The first threads of a group, and
//! the first rows of windows of a strip, repeat what their neighbours have and write nothing.

use crate::math::element::Element;
use crate::math::vector::element;
use crate::math::words::{load_words, store};
use cuda_std::{thread, warp};
use kernel_abi::ops::pool::{PoolPlaneParams, plane_halo};

/// Writes a body out for every number below another, 3 at most: bodies within bodies would be too many else.
macro_rules! for_each {
    ($i:ident < $n:ident, $body:block) => {
        $crate::math::vector::for_each!(@ $i, $n, $body, 0, 1, 2)
    };
}
pub(super) use for_each;

/// Steps whose loads are under way ahead of the one that is computed.
const AHEAD: usize = 2;

/// The first maximum of some columns or rows, and its number.
#[derive(Clone, Copy)]
struct Found {
    most: f32,
    place: u32,
}

/// What a step reads: the rows of x that the windows before have not met, and dy.
#[derive(Clone, Copy)]
struct Loaded<const SIDE: usize, const STRIDE: usize> {
    rows: [[u32; SIDE]; STRIDE],
    dy: u32,
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
    lane: u32,
    /// Windows' column, and the first of x.
    output: i32,
    w: i32,
    /// The first row of windows.
    first: i32,
    /// How many.
    steps: i32,
}

/// dx from x and dy, for windows of `SIDE` × `SIDE`, `STRIDE` apart.
pub unsafe fn backward<T: Element<Acc = f32>, const SIDE: usize, const STRIDE: usize>(p: &PoolPlaneParams) {
    if p.ignore_nan != 0 { go_down::<T, SIDE, STRIDE, true>(p) } else { go_down::<T, SIDE, STRIDE, false>(p) }
}

#[inline(always)]
unsafe fn column<const SIDE: usize, const STRIDE: usize>(p: &PoolPlaneParams) -> Column {
    let halo = plane_halo(SIDE as u32, STRIDE as u32);
    let thread = thread::index_1d() as u32;
    // A power of two.
    let group = thread >> p.group.trailing_zeros();
    let lane = thread & (p.group - 1);
    let exists = group < p.n_groups;
    let (rest, tile) = p.tiles.div_rem(if exists { group } else { 0 });
    let (rest, strip) = p.strips.div_rem(rest);
    let (rest, d) = p.planes.div_rem(rest);
    let (n, c) = p.channels.div_rem(rest);
    let (n, c, d) = (i64::from(n), i64::from(c), i64::from(d));
    let output = (tile * (p.group - halo) + lane) as i32;
    Column {
        x: p.x.offset(n, c, d),
        dy: p.dy.offset(n, c, d),
        dx: p.dx.offset(n, c, d),
        exists,
        writes: exists && (tile == 0 || lane >= halo),
        lane,
        output,
        w: output * STRIDE as i32 - p.axes[1].padding,
        first: (strip * p.steps) as i32 - halo as i32,
        steps: (p.steps + halo) as i32,
    }
}

/// The columns of a row of x.
#[inline(always)]
unsafe fn load_row<T: Element<Acc = f32>, const SIDE: usize>(p: &PoolPlaneParams, at: &Column, h: i32) -> [u32; SIDE] {
    let in_row = at.exists && (h as u32) < p.axes[0].image as u32;
    let offset = at.x + i64::from(h) * p.x.strides[3] + i64::from(at.w);
    let mut words = [0; SIDE];
    for_each!(J < SIDE, {
        let inside = in_row && ((at.w + J as i32) as u32) < p.axes[1].image as u32;
        words[J] = load_words::<T, 1>(p.x.address, offset + J as i64, inside, p.fill)[0];
    });
    words
}

#[inline(always)]
unsafe fn load_step<T: Element<Acc = f32>, const SIDE: usize, const STRIDE: usize>(
    p: &PoolPlaneParams,
    at: &Column,
    step: i32,
) -> Loaded<SIDE, STRIDE> {
    let output = at.first + step;
    let h = output * STRIDE as i32 - p.axes[0].padding + (SIDE - STRIDE) as i32;
    let there = step < at.steps;
    let mut rows = [[0; SIDE]; STRIDE];
    for_each!(I < STRIDE, {
        rows[I] = load_row::<T, SIDE>(p, at, if there { h + I as i32 } else { -1 });
    });
    let is_window =
        (output as u32) < p.axes[0].output as u32 && (at.output as u32) < p.axes[1].output as u32 && at.exists && there;
    let offset = at.dy + i64::from(output) * p.dy.strides[3] + i64::from(at.output);
    Loaded { rows, dy: load_words::<T, 1>(p.dy.address, offset, is_window, 0)[0] }
}

/// Whether a value is the maximum before an earlier one.
#[inline(always)]
#[allow(clippy::neg_cmp_op_on_partial_ord)]
pub fn is_ahead<const IGNORE_NAN: bool>(value: f32, most: f32) -> bool {
    // Also where one of both is a NaN.
    !(value <= most) && !(if IGNORE_NAN { value.is_nan() } else { most.is_nan() })
}

#[inline(always)]
unsafe fn go_down<T: Element<Acc = f32>, const SIDE: usize, const STRIDE: usize, const IGNORE_NAN: bool>(
    p: &PoolPlaneParams,
) {
    let at = column::<SIDE, STRIDE>(p);
    let halo = plane_halo(SIDE as u32, STRIDE as u32) as i32;
    // Whether there is an element before this one: what lies outside the image is none.
    let in_image = |a: usize, i: i32| (i as u32) < p.axes[a].image as u32;
    let has_before = |a: usize, first: i32, i: usize| {
        let mut has = false;
        for_each!(J < SIDE, {
            has |= J < i && in_image(a, first + J as i32);
        });
        has
    };
    let of_row = |words: [u32; SIDE]| {
        let value = |j: usize| element::<T>(&[words[j]], 0).widen();
        let mut found = Found { most: value(0), place: 0 };
        for_each!(J < SIDE, {
            if J > 0 && (is_ahead::<IGNORE_NAN>(value(J), found.most) || !has_before(1, at.w, J)) {
                found = Found { most: value(J), place: J as u32 };
            }
        });
        found
    };
    let mut rows = [Found { most: 0.0, place: 0 }; SIDE];
    let mut h = at.first * STRIDE as i32 - p.axes[0].padding;
    for_each!(I < SIDE, {
        if I + STRIDE < SIDE {
            rows[I + STRIDE] = of_row(load_row::<T, SIDE>(p, &at, h + I as i32));
        }
    });
    let mut ahead = [Loaded { rows: [[0; SIDE]; STRIDE], dy: 0 }; AHEAD];
    for_each!(K < AHEAD, {
        ahead[K] = load_step::<T, SIDE, STRIDE>(p, &at, K as i32);
    });
    let mut sums = [[0.0f32; SIDE]; SIDE];
    let mut first_step = 0;
    while first_step < at.steps {
        for_each!(K < AHEAD, {
            let step = first_step + K as i32;
            let loaded = ahead[K];
            ahead[K] = load_step::<T, SIDE, STRIDE>(p, &at, step + AHEAD as i32);
            // Rows that windows share, then new ones.
            for_each!(I < SIDE, {
                rows[I] = if I + STRIDE < SIDE { rows[I + STRIDE] } else { of_row(loaded.rows[I + STRIDE - SIDE]) };
            });
            let mut found = rows[0];
            for_each!(I < SIDE, {
                if I > 0 && (is_ahead::<IGNORE_NAN>(rows[I].most, found.most) || !has_before(0, h, I)) {
                    found = Found { most: rows[I].most, place: (I * SIDE) as u32 + rows[I].place };
                }
            });
            let dy = element::<T>(&[loaded.dy], 0).widen();
            for_each!(I < SIDE, {
                for_each!(J < SIDE, {
                    if found.place == (I * SIDE + J) as u32 {
                        sums[I][J] += dy;
                    }
                });
            });
            let is_written = at.writes && step >= halo && step < at.steps;
            for_each!(I < STRIDE, {
                let h = h + I as i32;
                for_each!(J < STRIDE, {
                    let mut sum = if I < SIDE && J < SIDE { sums[I][J] } else { 0.0 };
                    // The windows to the left.
                    for_each!(B < SIDE, {
                        if B > 0 && I < SIDE && J + B * STRIDE < SIDE {
                            let other = warp::shuffle_up_f32(sums[I][J + B * STRIDE], B as u32);
                            sum += if at.lane >= B as u32 { other } else { 0.0 };
                        }
                    });
                    let w = at.w + J as i32;
                    if is_written && in_image(0, h) && in_image(1, w) {
                        let offset = at.dx + i64::from(h) * p.dx.strides[3] + i64::from(w);
                        store::<T, 1>(p.dx.address, offset, [sum], p.alpha, p.beta);
                    }
                });
            });
            for_each!(I < SIDE, {
                sums[I] = if I + STRIDE < SIDE { sums[I + STRIDE] } else { [0.0; SIDE] };
            });
            h += STRIDE as i32;
        });
        first_step += AHEAD as i32;
    }
}
