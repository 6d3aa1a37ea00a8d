//! Loops over the taps of filters of any extent, stride and dilation.
//!
//! A thread slides along one axis and stays on the other: along rows of channels-last images, lanes taking
//! neighbouring channels, and down columns of packed planes, lanes taking neighbouring columns. Either way a warp's
//! accesses are contiguous. With stride and dilation 1 a window of [`STRIP`] source values moves along, so that every
//! tap costs one load for [`STRIP`] products; else every product has its own load.
//!
//! Grid: one-dimensional, exact. Block: 256.

use super::access::Access;
use crate::math::element::{blend, load};
use crate::math::index::div_rem;
use cuda_std::{barrier, thread, warp};
use kernel_abi::ops::conv::{DepthwiseParams, LOOPED_MAX_FILTER, LOOPED_STRIP, index};

/// Elements of shared memory of `gather` for channels-last images: one line of taps of 32 channels.
pub const TAPS: usize = 32 * LOOPED_MAX_FILTER as usize;

/// Elements of shared memory of `wgrad`.
pub const SUMS: usize = WARPS as usize * STRIP * 32;

const STRIP: usize = LOOPED_STRIP as usize;
const WARPS: i64 = 8;

/// Which element of a spatial array belongs to the axis along which a thread slides, and which to the other one.
#[inline(always)]
const fn axes(channels_last: bool) -> (usize, usize) {
    if channels_last { (1, 0) } else { (0, 1) }
}

/// Where the images' elements lie.
#[derive(Clone, Copy)]
struct Line {
    /// Distance of neighbours along the axis of sliding.
    step: i32,
    /// Distance of neighbours along the other axis.
    across: i32,
}

impl Line {
    #[inline(always)]
    fn new<const CHANNELS_LAST: bool>(p: &DepthwiseParams, width: i32) -> Self {
        if CHANNELS_LAST { Line { step: p.c, across: width * p.c } } else { Line { step: width, across: 1 } }
    }
}

/// First element of an image's channel.
#[inline(always)]
fn base<const CHANNELS_LAST: bool>(p: &DepthwiseParams, dims: [i32; 2], n: i64, c: i32) -> i64 {
    let pixels = dims[0] as i64 * dims[1] as i64;
    let image = n * p.c as i64 * pixels;
    if CHANNELS_LAST { image + c as i64 } else { image + c as i64 * pixels }
}

/// The source position of one that counts the zeros in between; negative where there is none.
#[inline(always)]
fn source_position(at: i32, extent: i32, spread: i32) -> i32 {
    let mut position = at;
    if spread > 1 {
        // SAFETY: the divisor is above 1. As an unsigned number, a negative position is too large for any extent.
        let quotient = unsafe { core::intrinsics::unchecked_div(at as u32, spread as u32) };
        position = if quotient * spread as u32 == at as u32 { quotient as i32 } else { -1 };
    }
    if (position as u32) < extent as u32 && at >= 0 { position } else { -1 }
}

/// A source value, 0 outside.
#[inline(always)]
unsafe fn source<T: Access<1>>(line: u64, at: i32, axis: Axis) -> f32 {
    let inside = u32::from((at as u32) < axis.extent as u32);
    let [value] = T::unpack(T::load(line.wrapping_add((at * axis.step) as i64 as u64 * size_of::<T>() as u64), inside));
    value
}

/// The product of a tap with every position of a strip, and the next value of its window, which is `TURN` steps from
/// where it began.
#[inline(always)]
unsafe fn slide_by<T: Access<1>, const TURN: usize>(
    sums: &mut [f32; STRIP],
    window: &mut [f32; STRIP],
    factor: f32,
    line: u64,
    at: i32,
    axis: Axis,
) {
    let mut i = 0;
    while i < STRIP {
        sums[i] += window[(i + TURN) % STRIP] * factor;
        i += 1;
    }
    window[TURN] = source::<T>(line, at + LOOPED_STRIP, axis);
}

/// Says `$body` for 0 to 7: an index into an array must be a constant.
macro_rules! for_each_of_strip {
    (|$i:ident| $body:block) => {
        for_each_of_strip!(@ $i $body 0 1 2 3 4 5 6 7)
    };
    (@ $i:ident $body:block) => {};
    (@ $i:ident $body:block $first:literal $($rest:literal)*) => {
        let $i: i32 = $first;
        $body;
        for_each_of_strip!(@ $i $body $($rest)*);
    };
}

/// Eight steps of [`slide_by`] over `$position..$end`: an index into the window must be a constant.
macro_rules! slide_over {
    ($t:ident, $sums:ident, $window:ident, $line:ident, $first:ident, $axis:ident, $end:expr, |$at:ident| $factor:expr) => {{
        let mut from = 0;
        while from < $end {
            slide_over!(@turns $t, $sums, $window, $line, $first, $axis, $end, from, $at, $factor);
            from += LOOPED_STRIP;
        }
    }};
    (@turns $($rest:tt)*) => {
        slide_over!(@turn 0, $($rest)*);
        slide_over!(@turn 1, $($rest)*);
        slide_over!(@turn 2, $($rest)*);
        slide_over!(@turn 3, $($rest)*);
        slide_over!(@turn 4, $($rest)*);
        slide_over!(@turn 5, $($rest)*);
        slide_over!(@turn 6, $($rest)*);
        slide_over!(@turn 7, $($rest)*);
    };
    (@turn $turn:literal, $t:ident, $sums:ident, $window:ident, $line:ident, $first:ident, $axis:ident, $end:expr,
        $from:ident, $at:ident, $factor:expr) => {
        let $at = $from + $turn;
        if $at < $end {
            slide_by::<$t, $turn>(&mut $sums, &mut $window, $factor, $line, $first + $at, $axis);
        }
    };
}

/// The source along the axis of sliding.
#[derive(Clone, Copy)]
struct Axis {
    extent: i32,
    step: i32,
}

/// target = conv(source, w): a warp makes [`STRIP`] positions along the axis of sliding, for 32 channels or columns.
pub unsafe fn gather<T: Access<1>, const CHANNELS_LAST: bool>(p: &DepthwiseParams, taps: *mut f32) {
    let (slide, stay) = axes(CHANNELS_LAST);
    let (lane, in_block) = (thread::lane_id() as i32, thread::warp_idx() as i64);
    // Channels-last blocks share a run of channels, whose taps they keep together.
    let runs = if CHANNELS_LAST { (p.c + 31) / 32 } else { 1 };
    let (block, run) = div_rem(thread::block_idx_x() as i64, runs as i64);
    let item = block * WARPS + in_block;
    let (strips, columns) = ((p.target_dims[slide] + LOOPED_STRIP - 1) / LOOPED_STRIP, (p.target_dims[stay] + 31) / 32);
    let (rest, strip) = div_rem(item, strips as i64);
    let (rest, stay_at) = div_rem(rest, if CHANNELS_LAST { p.target_dims[stay] } else { columns } as i64);
    let (n, c, stay_at) = if CHANNELS_LAST {
        (rest, run as i32 * 32 + lane, stay_at as i32)
    } else {
        let (n, c) = div_rem(rest, p.c as i64);
        (n, c as i32, stay_at as i32 * 32 + lane)
    };
    let able = n < p.n && c < p.c && stay_at < p.target_dims[stay];
    let from = Line::new::<CHANNELS_LAST>(p, p.source_dims[1]);
    let axis = Axis { extent: p.source_dims[slide], step: from.step };
    let first = strip as i32 * LOOPED_STRIP;
    let source_first = base::<CHANNELS_LAST>(p, p.source_dims, n, c);
    let w_first = c as i64 * p.w_strides[0];
    let slides = p.stride[slide] == 1 && p.dilation[slide] == 1 && p.spread[slide] == 1;

    let mut sums = [0.0f32; STRIP];
    let mut line = 0;
    while line < p.filter[stay] {
        if CHANNELS_LAST {
            barrier::sync_threads();
            let mut tap = in_block as i32;
            while tap < p.filter[slide] {
                if c < p.c {
                    *taps.add((tap * 32 + lane) as usize) = load::<T>(p.w, w_first + w_offset(p, line, tap, slide));
                }
                tap += WARPS as i32;
            }
            barrier::sync_threads();
        }
        let at = stay_at * p.stride[stay] + line * p.dilation[stay] - p.padding[stay];
        let at = source_position(at, p.source_dims[stay], p.spread[stay]);
        if able && at >= 0 {
            let source_line = p.source + (source_first + (at * from.across) as i64) as u64 * size_of::<T>() as u64;
            let weight = |tap: i32| {
                if CHANNELS_LAST {
                    *taps.add((tap * 32 + lane) as usize)
                } else {
                    load::<T>(p.w, w_first + w_offset(p, line, tap, slide))
                }
            };
            let at = first * p.stride[slide] - p.padding[slide];
            if slides {
                let mut window = [0.0f32; STRIP];
                let mut i = 0;
                while i < STRIP {
                    window[i] = source::<T>(source_line, at + i as i32, axis);
                    i += 1;
                }
                slide_over!(T, sums, window, source_line, at, axis, p.filter[slide], |tap| weight(tap));
            } else {
                let mut tap = 0;
                while tap < p.filter[slide] {
                    let w = weight(tap);
                    let at = at + tap * p.dilation[slide];
                    for_each_of_strip!(|i| {
                        // Positions behind the target's end may lie beyond 32 bits.
                        if first + i < p.target_dims[slide] {
                            let at = at + i * p.stride[slide];
                            let at = source_position(at, axis.extent, p.spread[slide]);
                            sums[i as usize] += source::<T>(source_line, at, axis) * w;
                        }
                    });
                    tap += 1;
                }
            }
        }
        line += 1;
    }
    if able {
        let to = Line::new::<CHANNELS_LAST>(p, p.target_dims[1]);
        let target_line = base::<CHANNELS_LAST>(p, p.target_dims, n, c) + (stay_at * to.across) as i64;
        for_each_of_strip!(|i| {
            let at = first + i;
            if at < p.target_dims[slide] {
                let at = target_line + (at * to.step) as i64;
                blend::<T>(p.target, at, sums[i as usize], p.alpha as f64, p.beta as f64);
            }
        });
    }
}

/// Offset in w of a tap, from its channel's first element.
#[inline(always)]
fn w_offset(p: &DepthwiseParams, stay: i32, slide: i32, slide_axis: usize) -> i64 {
    let [r, s] = if slide_axis == 1 { [stay, slide] } else { [slide, stay] };
    let flip = p.flip != 0;
    index::filter_index(r as i64, p.filter[0] as i64, flip) * p.w_strides[1]
        + index::filter_index(s as i64, p.filter[1] as i64, flip) * p.w_strides[2]
}

/// Sums of a slab's products for [`STRIP`] taps in the axis of sliding, of 32 channels or of one.
///
/// A slab is a share of the lines that a warp walks: rows of channels-last images, 32 columns of packed planes.
pub unsafe fn wgrad<T: Access<1>, const CHANNELS_LAST: bool>(p: &DepthwiseParams, sums: *mut f32) {
    let (slide, stay) = axes(CHANNELS_LAST);
    let (lane, in_block) = (thread::lane_id() as i32, thread::warp_idx() as i64);
    let strips = (p.filter[slide] + LOOPED_STRIP - 1) / LOOPED_STRIP;
    let runs = if CHANNELS_LAST { (p.c + 31) / 32 } else { p.c };
    let (rest, run) = div_rem(thread::block_idx_x() as i64, runs as i64);
    let (rest, strip) = div_rem(rest, strips as i64);
    let (slab, line_tap) = div_rem(rest, p.filter[stay] as i64);
    let (first_tap, line_tap) = (strip as i32 * LOOPED_STRIP, line_tap as i32);
    let c = if CHANNELS_LAST { run as i32 * 32 + lane } else { run as i32 };
    let columns = if CHANNELS_LAST { p.target_dims[stay] } else { (p.target_dims[stay] + 31) / 32 };
    let from = Line::new::<CHANNELS_LAST>(p, p.source_dims[1]);
    let to = Line::new::<CHANNELS_LAST>(p, p.target_dims[1]);
    let axis = Axis { extent: p.source_dims[slide], step: from.step };
    let slides = p.stride[slide] == 1 && p.dilation[slide] == 1;

    let lines = p.n * columns as i64;
    // Slabs of equal length but for the last.
    let (length, remainder) = div_rem(lines, p.n_slabs as i64);
    let length = if remainder > 0 { length + 1 } else { length };
    let end = if (slab + 1) * length < lines { (slab + 1) * length } else { lines };
    let mut line = slab * length + in_block;
    let mut totals = [0.0f32; STRIP];
    while line < end {
        let (n, column) = div_rem(line, columns as i64);
        let stay_at = if CHANNELS_LAST { column as i32 } else { column as i32 * 32 + lane };
        if c < p.c && stay_at < p.target_dims[stay] {
            let at = stay_at * p.stride[stay] + line_tap * p.dilation[stay] - p.padding[stay];
            if at >= 0 && at < p.source_dims[stay] {
                let source_line = base::<CHANNELS_LAST>(p, p.source_dims, n, c) + (at * from.across) as i64;
                let source_line = p.source + source_line as u64 * size_of::<T>() as u64;
                let target_line = base::<CHANNELS_LAST>(p, p.target_dims, n, c) + (stay_at * to.across) as i64;
                let first = first_tap * p.dilation[slide] - p.padding[slide];
                if slides {
                    let mut window = [0.0f32; STRIP];
                    let mut i = 0;
                    while i < STRIP {
                        window[i] = source::<T>(source_line, first + i as i32, axis);
                        i += 1;
                    }
                    slide_over!(T, totals, window, source_line, first, axis, p.target_dims[slide], |position| {
                        load::<T>(p.target, target_line + (position * to.step) as i64)
                    });
                } else {
                    let mut position = 0;
                    while position < p.target_dims[slide] {
                        let y = load::<T>(p.target, target_line + (position * to.step) as i64);
                        let at = first + position * p.stride[slide];
                        for_each_of_strip!(|i| {
                            // Taps behind the filter's end may lie beyond 32 bits.
                            if first_tap + i < p.filter[slide] {
                                let at = at + i * p.dilation[slide];
                                totals[i as usize] += source::<T>(source_line, at, axis) * y;
                            }
                        });
                        position += 1;
                    }
                }
            }
        }
        line += WARPS;
    }

    let mut i = 0;
    while i < STRIP {
        let total = if CHANNELS_LAST { totals[i] } else { warp::sum_f32(totals[i]) };
        *sums.add((in_block as usize * STRIP + i) * 32 + lane as usize) = total;
        i += 1;
    }
    barrier::sync_threads();
    // One warp a tap adds up what the warps have.
    let tap = first_tap + in_block as i32;
    let writes = if CHANNELS_LAST { c < p.c } else { lane == 0 };
    if tap < p.filter[slide] && writes {
        let mut total = 0.0;
        let mut from_warp = 0;
        while from_warp < WARPS as usize {
            total += *sums.add((from_warp * STRIP + in_block as usize) * 32 + lane as usize);
            from_warp += 1;
        }
        let [r, s] = if CHANNELS_LAST { [line_tap, tap] } else { [tap, line_tap] };
        let at = (slab * p.filter[0] as i64 + r as i64) * p.filter[1] as i64 + s as i64;
        *(p.partials as *mut f32).offset((at * p.c as i64 + c as i64) as isize) = total;
    }
}
