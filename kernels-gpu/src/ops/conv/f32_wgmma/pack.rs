//! The kernels around the products. Grid: one-dimensional. Block: 256.

use super::{apart_any, wgrad};
use crate::math::index::{div_rem, for_each_index};
use crate::ops::conv::im2col_wgmma::sum::{self as partials, Quads};
use crate::ops::conv::spread_columns;
use cuda_std::memory::{X4, store_x4};
use cuda_std::schedule;
use kernel_abi::ops::conv::ConvPackSpreadParams;
use kernel_abi::ops::conv::f32_wgmma::{
    ConvFilterPartsParams, ConvPackF32Params, PART_CHUNK, PARTS_WGRAD_128X128, part_channel,
};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, ConvWgradParams, ConvWgradSumParams, WgradPlace};

/// f32 as these kernels' threads hold it.
struct F32;

impl Quads for F32 {
    const TILE: ConvTile = PARTS_WGRAD_128X128;

    #[inline(always)]
    unsafe fn store(p: &ConvWgradParams, tile: ConvTile, place: WgradPlace, thread: u32, quad: u32, v: [f32; 4]) {
        wgrad::store_quad(p, tile, place, thread, quad, v);
    }
}

/// Adds the partial sums of a split `wgrad`, in the order of the splits: one thread for four sums.
///
/// # Safety
/// The host passes what it gave to the first kernel.
#[inline(always)]
pub(super) unsafe fn sum(p: &ConvWgradSumParams) {
    partials::run::<F32>(p)
}

/// Takes a filter apart: one thread for 16 channels of a row and a tap.
///
/// # Safety
/// The host passes a live filter of these extents and room for its parts.
#[inline(always)]
pub(super) unsafe fn filter_parts(p: &ConvFilterPartsParams) {
    schedule::launch_dependents();
    schedule::wait_for_predecessors();
    let [_, r, s] = p.taps;
    let taps = p.taps[0] * r * s;
    for_each_index(p.rows * taps * p.chunks, |index| {
        let (row, tap, chunk) = if p.rows_first != 0 {
            let (rest, row) = div_rem(index, p.rows);
            let (chunk, tap) = div_rem(rest, taps);
            (row, tap, chunk)
        } else {
            let (rest, chunk) = div_rem(index, p.chunks);
            let (row, tap) = div_rem(rest, taps);
            (row, tap, chunk)
        };
        let (group, in_group) = div_rem(row, p.group_rows);
        let (rest, tap_w) = div_rem(tap, s);
        let (tap_d, tap_h) = div_rem(rest, r);
        let start = group * p.group_stride
            + in_group * p.row_stride
            + tap_d * p.tap_strides[0]
            + tap_h * p.tap_strides[1]
            + tap_w * p.tap_strides[2];
        let from = (p.from as *const u32).offset(start as isize);
        let chunk_elems = i64::from(PART_CHUNK);
        let element = |i: u32| {
            let channel = chunk * chunk_elems + i64::from(part_channel(i));
            let (outer, inner) = div_rem(channel, p.inner);
            if outer < p.counts[0] && inner < p.counts[1] {
                // SAFETY: the element exists.
                unsafe { *from.offset((outer * p.strides[0] + inner * p.strides[1]) as isize) }
            } else {
                0
            }
        };
        store(p.to, (row * taps + tap) * p.chunks + chunk, p.rows * taps * p.chunks, element);
    });
}

/// Takes 16 channels apart and stores their parts: chunk `index` of `part_chunks` of each.
///
/// # Safety
/// As [`filter_parts`].
#[inline(always)]
unsafe fn store(to: u64, index: i64, part_chunks: i64, element: impl Fn(u32) -> u32) {
    let pair = |i: u32| apart_any(element(i), element(i + 1));
    let (e0, e1, e2, e3) = (pair(0), pair(2), pair(4), pair(6));
    let (e4, e5, e6, e7) = (pair(8), pair(10), pair(12), pair(14));
    let chunk = |part: i64| to + (index + part * part_chunks) as u64 * u64::from(PART_CHUNK) * 2;
    macro_rules! part {
        ($($part:literal)*) => { $(
            store_x4(chunk($part) as *mut u32, [e0[$part], e1[$part], e2[$part], e3[$part]]);
            store_x4((chunk($part) + 16) as *mut u32, [e4[$part], e5[$part], e6[$part], e7[$part]]);
        )* };
    }
    part!(0 1 2);
}

/// Takes a filter apart whose columns are spread, see [`ConvPackSpreadParams`]: one thread for 16 channels of a column
/// and a position of the window.
///
/// # Safety
/// As [`filter_parts`].
#[inline(always)]
pub(super) unsafe fn spread_parts(p: &ConvPackSpreadParams) {
    schedule::launch_dependents();
    schedule::wait_for_predecessors();
    let chunk_elems = i64::from(PART_CHUNK);
    let n_chunks = p.n_elems / chunk_elems;
    for_each_index(n_chunks, |index| {
        let (rest, chunk) = div_rem(index, p.sums[1] / chunk_elems);
        let (rest, j) = div_rem(rest, p.window[1]);
        let (column, i) = div_rem(rest, p.window[0]);
        let at = spread_columns::Tap::new(p, column, [i, j]);
        let element = |i: u32| {
            let k = chunk * chunk_elems + i64::from(part_channel(i));
            if at.inside && k < p.sums[0] {
                // SAFETY: the element exists.
                unsafe { *(p.from as *const u32).offset((at.offset + k * p.strides[0]) as isize) }
            } else {
                0
            }
        };
        store(p.to, index, n_chunks, element);
    });
}

/// Copies a tensor of any strides: one thread for four written channels of a position.
///
/// # Safety
/// The host passes a live tensor of these extents and room for its copy.
#[inline(always)]
pub(super) unsafe fn pack(p: &ConvPackF32Params) {
    schedule::launch_dependents();
    schedule::wait_for_predecessors();
    let [images, channels, d, h, w] = p.dims;
    let quads = p.packed_c / 4;
    for_each_index(images * d * h * p.packed_w * quads, |index| {
        let (row, at, quad) = if p.w_first != 0 {
            let (rest, at) = div_rem(index, p.packed_w);
            let (row, quad) = div_rem(rest, quads);
            (row, at, quad)
        } else {
            let (rest, quad) = div_rem(index, quads);
            let (row, at) = div_rem(rest, p.packed_w);
            (row, at, quad)
        };
        let (rest, at_h) = div_rem(row, h);
        let (n, at_d) = div_rem(rest, d);
        let at_w = at - p.padding;
        let [sn, sc, sd, sh, sw] = p.strides;
        let start = n * sn + at_d * sd + at_h * sh + at_w * sw + 4 * quad * sc;
        let inside = at_w >= 0 && at_w < w;
        let element = |i: i64| {
            if inside && 4 * quad + i < channels {
                // SAFETY: the element exists.
                unsafe { *(p.from as *const f32).offset((start + i * sc) as isize) }
            } else {
                0.0
            }
        };
        let v = [element(0), element(1), element(2), element(3)];
        *(p.to as *mut X4<f32>).offset(((row * p.packed_w + at) * quads + quad) as isize) = X4(v);
    });
}
