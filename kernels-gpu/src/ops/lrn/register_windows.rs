//! Windows of `2 H + 1` channels: a thread has `E` neighbouring channels and all that their windows reach in registers, read
//! at once. What neighbouring threads read too comes from the cache, so memory is read once; backward, each computes by
//! itself what the windows of its channels' neighbours are.
//!
//! [`channels`]: channels lie contiguous, a thread has 16 bytes of them; grid: one-dimensional, exact. [`planes`]: positions
//! do, a thread has a vector of them, or one at any distance; grid: positions along x, channels along y, images along z in
//! turns; a warp is 32 positions wide, and the warps of a block have channels behind one another.

use crate::math::element::Element;
use crate::math::rows::Vector;
use crate::math::scale::down;
use crate::math::vector::{for_each, widened};
use crate::math::words::{load_words, store};
use cuda_std::thread::{block_idx_x, block_idx_y, block_idx_z, grid_dim_z, thread_idx_x};
use cuda_std::{elementary, math};
use kernel_abi::ops::lrn::register_windows::{BLOCK_POSITIONS, LrnWindowsParams, Strides, THREADS};

/// The most channels of a thread with what their windows reach: 8 and twice 2 on each side, in whole vectors of 8.
const REACH: usize = 24;

/// The most channels of a thread.
const CHANNELS: usize = 8;

/// s to the power of -beta; as exactly as the storage has use for.
#[inline(always)]
fn power<T: Element>(p: &LrnWindowsParams, s: f32) -> f32 {
    if size_of::<T>() == 4 {
        elementary::exp_f32(-p.beta * elementary::ln_f32(s))
    } else {
        math::exp2_approx(-p.beta * math::log2_approx(s))
    }
}

/// s of the window that begins at `first`, times a number's square: what is squared is times the number.
#[inline(always)]
unsafe fn scale<const H: usize>(p: &LrnWindowsParams, x: &[f32; REACH], first: usize, factor: f32) -> f32 {
    let mut sum = 0.0;
    for_each!(D < 2 * H + 1, {
        let x = *x.get_unchecked(first + D) * factor;
        sum = math::fma_f32(x, x, sum);
    });
    math::fma_f32(p.alpha, sum, p.k * factor * factor)
}

/// y of `E` channels from x, which begins `H` channels before them.
#[inline(always)]
unsafe fn forward_of<T: Element, const H: usize, const E: usize>(
    p: &LrnWindowsParams,
    x: &[f32; REACH],
) -> [f32; CHANNELS] {
    let mut y = [0.0; CHANNELS];
    for_each!(I < E, {
        let (s, x_here) = (scale::<H>(p, x, I, 1.0), *x.get_unchecked(I + H));
        let y = y.get_unchecked_mut(I);
        *y = x_here * power::<T>(p, s);
        if s == f32::INFINITY {
            // The power is that of the scaled s, times this twice.
            let half = math::exp2_approx(p.beta * math::log2_approx(down()));
            *y = x_here * half * power::<T>(p, scale::<H>(p, x, I, down())) * half;
        }
    });
    y
}

/// dx of `E` channels from x, which begins `2 H` channels before them, and dy, which begins `H` channels before them.
#[inline(always)]
unsafe fn backward_of<T: Element, const H: usize, const E: usize>(
    p: &LrnWindowsParams,
    x: &[f32; REACH],
    dy: &[f32; REACH],
    first: i32,
) -> [f32; CHANNELS] {
    let (mut direct, mut q) = ([0.0; REACH], [0.0; REACH]);
    for_each!(I < E + 2 * H, {
        let channel = first + I as i32 - H as i32;
        // Channels that there are not have no share.
        if channel >= 0 && channel < p.channels as i32 {
            let s = scale::<H>(p, x, I, 1.0);
            let part = *dy.get_unchecked(I) * power::<T>(p, s);
            *direct.get_unchecked_mut(I) = part;
            *q.get_unchecked_mut(I) = math::divide_full(part * *x.get_unchecked(I + H), s);
        }
    });
    let mut dx = [0.0; CHANNELS];
    for_each!(I < E, {
        let mut sum = 0.0;
        for_each!(D < 2 * H + 1, {
            sum += *q.get_unchecked(I + D);
        });
        let part = p.factor * *x.get_unchecked(I + 2 * H) * sum;
        *dx.get_unchecked_mut(I) = *direct.get_unchecked(I + H) - part;
    });
    dx
}

/// The vectors before, at and behind a thread's channels.
#[inline(always)]
unsafe fn neighbourhood<T: Vector, const E: usize>(
    p: &LrnWindowsParams,
    address: u64,
    offset: i64,
    first: i32,
) -> [f32; REACH] {
    let mut all = [0.0; REACH];
    for_each!(J < 3, {
        let shift = (J as i32 - 1) * E as i32;
        let there = first + shift >= 0 && first + shift < p.channels as i32;
        let values = widened::<T, E>(&load_words::<T, E>(address, offset + i64::from(shift), there, 0));
        for_each!(I < E, {
            *all.get_unchecked_mut(J * E + I) = *values.get_unchecked(I);
        });
    });
    all
}

/// The same from `skip` on.
#[inline(always)]
unsafe fn behind(all: &[f32; REACH], skip: usize) -> [f32; REACH] {
    let mut rest = [0.0; REACH];
    for_each!(I < 16, {
        if skip + I < REACH {
            *rest.get_unchecked_mut(I) = *all.get_unchecked(skip + I);
        }
    });
    rest
}

/// y, or dx, of a vector of `E` channels at a position.
#[inline(always)]
pub unsafe fn channels<T: Vector, const BACKWARD: bool, const H: usize, const E: usize>(p: &LrnWindowsParams) {
    let index = block_idx_x() * THREADS + thread_idx_x();
    if index >= p.n_threads {
        return;
    }
    let (place, vector) = p.vectors.div_rem(index);
    let (image, position) = p.image.div_rem(place);
    let first = (vector * E as u32) as i32;
    let offset = |strides: &Strides| {
        i64::from(image) * strides.image + i64::from(position) * strides.position + i64::from(first)
    };
    let x = neighbourhood::<T, E>(p, p.x, offset(&p.x_strides), first);
    let result = if BACKWARD {
        let dy = neighbourhood::<T, E>(p, p.dy, offset(&p.dy_strides), first);
        backward_of::<T, H, E>(p, &behind(&x, E - 2 * H), &behind(&dy, E - H), first)
    } else {
        forward_of::<T, H, E>(p, &behind(&x, E - H))
    };
    let mut values = [0.0; E];
    for_each!(I < E, {
        *values.get_unchecked_mut(I) = *result.get_unchecked(I);
    });
    store::<T, E>(p.out, offset(&p.out_strides), values, p.result_factor, p.prior_factor);
}

/// Vectors of positions at `N` channels from `first` on, zeros for channels that there are not.
#[inline(always)]
unsafe fn columns<T: Vector, const V: usize>(
    p: &LrnWindowsParams,
    address: u64,
    (offset, stride): (i64, i64),
    first: i32,
    n: usize,
) -> [[u32; 4]; 16] {
    let mut words = [[0u32; 4]; 16];
    for_each!(dynamic I < n, {
        let channel = first + I as i32;
        let there = channel >= 0 && channel < p.channels as i32;
        *words.get_unchecked_mut(I) = load_words::<T, V>(address, offset + i64::from(channel) * stride, there, 0);
    });
    words
}

/// The elements of one of the vectors' positions.
#[inline(always)]
unsafe fn column<T: Vector, const V: usize>(words: &[[u32; 4]; 16], n: usize, v: usize) -> [f32; REACH] {
    let mut values = [0.0; REACH];
    for_each!(dynamic I < n, {
        *values.get_unchecked_mut(I) = *widened::<T, V>(words.get_unchecked(I)).get_unchecked(v);
    });
    values
}

/// y, or dx, of `E` channels at a vector of `V` positions.
#[inline(always)]
pub unsafe fn planes<T: Vector, const BACKWARD: bool, const H: usize, const E: usize, const V: usize>(
    p: &LrnWindowsParams,
) {
    let position = block_idx_x() * BLOCK_POSITIONS + thread_idx_x() % BLOCK_POSITIONS;
    let group = block_idx_y() * (THREADS / BLOCK_POSITIONS) + thread_idx_x() / BLOCK_POSITIONS;
    let first = (group * E as u32) as i32;
    if position >= p.positions || first >= p.channels as i32 {
        return;
    }
    let mut image = block_idx_z();
    while image < p.images {
        let offset =
            |strides: &Strides| i64::from(image) * strides.image + i64::from(position) * V as i64 * strides.position;
        let from = |strides: &Strides| (offset(strides), strides.channel);
        let x_reach = if BACKWARD { 2 * H } else { H };
        let n_x = E + 2 * x_reach;
        let x = columns::<T, V>(p, p.x, from(&p.x_strides), first - x_reach as i32, n_x);
        let mut dy = [[0u32; 4]; 16];
        let n_dy = E + 2 * H;
        if BACKWARD {
            dy = columns::<T, V>(p, p.dy, from(&p.dy_strides), first - H as i32, n_dy);
        }
        let mut results = [[0.0; V]; E];
        for_each!(J < V, {
            let x = column::<T, V>(&x, n_x, J);
            let result = if BACKWARD {
                backward_of::<T, H, E>(p, &x, &column::<T, V>(&dy, n_dy, J), first)
            } else {
                forward_of::<T, H, E>(p, &x)
            };
            for_each!(I < E, {
                *results.get_unchecked_mut(I).get_unchecked_mut(J) = *result.get_unchecked(I);
            });
        });
        for_each!(I < E, {
            let channel = first + I as i32;
            if channel < p.channels as i32 {
                let to = offset(&p.out_strides) + i64::from(channel) * p.out_strides.channel;
                store::<T, V>(p.out, to, *results.get_unchecked(I), p.result_factor, p.prior_factor);
            }
        });
        image += grid_dim_z();
    }
}
