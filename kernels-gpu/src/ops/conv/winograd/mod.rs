//! The transforms of `winograd`, see [`kernel_abi::ops::conv::winograd`]: bound by memory, a thread for two channels of
//! a tile, neighbouring threads for neighbouring channels.
//!
//! Grid: one-dimensional. Block: 128.

mod entry;

use super::f32_wgmma::apart_any;
use crate::math::index::for_each_index;
use cuda_std::math::{fma_f32, fma_f64};
use cuda_std::memory::X2;
use kernel_abi::ops::conv::f32_wgmma::{PART_CHUNK, PARTS};
use kernel_abi::ops::conv::winograd::{
    F2, F4, Lane, Minimal, WinogradFilterParams, WinogradImageParams, WinogradOutputParams,
};

/// Two neighbouring channels.
#[derive(Clone, Copy)]
struct Pair([f32; 2]);

/// The same of a filter: it is transformed once, so it can afford digits.
#[derive(Clone, Copy)]
struct WidePair([f64; 2]);

macro_rules! lanes {
    ($pair:ident, $float:ident, $fma:ident) => {
        impl Lane for $pair {
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                $pair([self.0[0] + other.0[0], self.0[1] + other.0[1]])
            }

            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                $pair([self.0[0] - other.0[0], self.0[1] - other.0[1]])
            }

            #[inline(always)]
            fn times(self, factor: f64) -> Self {
                let factor = factor as $float;
                $pair([factor * self.0[0], factor * self.0[1]])
            }

            #[inline(always)]
            fn times_plus(self, factor: f64, other: Self) -> Self {
                let factor = factor as $float;
                $pair([$fma(factor, self.0[0], other.0[0]), $fma(factor, self.0[1], other.0[1])])
            }
        }
    };
}

lanes!(Pair, f32, fma_f32);
lanes!(WidePair, f64, fma_f64);

/// Two channels of the window of a tile.
struct Window {
    /// The first element of the image and channel.
    base: u64,
    row_stride: i64,
    column_stride: i64,
    /// To the second channel; 0 where there is none.
    channel_stride: i64,
    /// Of the window within the image.
    first: [i32; 2],
    extents: [u32; 2],
    /// Which of the two channels there are.
    there: [bool; 2],
}

impl Window {
    /// The element at a row and column: zeros outside. What is outside is loaded from the image's border instead, so
    /// that loads need not wait for decisions.
    ///
    /// # Safety
    /// As [`Transform::image`].
    #[inline(always)]
    unsafe fn load<const PAIRWISE: bool>(&self, row: usize, column: usize) -> Pair {
        let (h, w) = ((self.first[0] + row as i32) as u32, (self.first[1] + column as i32) as u32);
        let (h_inside, w_inside) = (h < self.extents[0], w < self.extents[1]);
        let inside = h_inside & w_inside;
        let (h, w) = (if h_inside { h } else { 0 }, if w_inside { w } else { 0 });
        let at = self.base + (i64::from(h) * self.row_stride + i64::from(w) * self.column_stride) as u64 * 4;
        let [v0, v1] = if PAIRWISE {
            (*(at as *const X2<f32>)).0
        } else {
            [*(at as *const f32), *((at + self.channel_stride as u64 * 4) as *const f32)]
        };
        let [there0, there1] = self.there;
        Pair([if inside & there0 { v0 } else { 0.0 }, if inside & there1 { v1 } else { 0.0 }])
    }
}

/// Where the results of a tile go.
struct Place {
    /// The first element of the image and channel.
    base: u64,
    /// Of the tile.
    first: [u32; 2],
    second: bool,
}

impl Place {
    /// Scales two channels of a result, blends them with the prior value and stores them, where they are inside.
    ///
    /// # Safety
    /// As [`Transform::output`].
    #[inline(always)]
    unsafe fn store(&self, p: &WinogradOutputParams, row: usize, column: usize, v: Pair) {
        let (h, w) = (self.first[0] + row as u32, self.first[1] + column as u32);
        if h >= p.extents[0] || w >= p.extents[1] {
            return;
        }
        let at = self.base + (i64::from(h) * p.strides[2] + i64::from(w) * p.strides[3]) as u64 * 4;
        let mut v = [p.alpha * v.0[0], p.alpha * v.0[1]];
        if p.pairwise != 0 {
            let to = at as *mut X2<f32>;
            if p.beta != 0.0 {
                let prior = (*to).0;
                v = [v[0] + p.beta * prior[0], v[1] + p.beta * prior[1]];
            }
            *to = X2(v);
        } else {
            let (to, next) = (at as *mut f32, (at + p.strides[1] as u64 * 4) as *mut f32);
            if p.beta != 0.0 {
                v[0] += p.beta * *to;
                if self.second {
                    v[1] += p.beta * *next;
                }
            }
            *to = v[0];
            if self.second {
                *next = v[1];
            }
        }
    }
}

/// Scales a tap of a gradient, blends it with the prior value and stores it.
///
/// # Safety
/// As [`Transform::taps`].
#[inline(always)]
unsafe fn blend(p: &WinogradFilterParams, to: *mut f32, v: f64) {
    let mut v = f64::from(p.alpha) * v;
    if p.beta != 0.0 {
        v += f64::from(p.beta) * f64::from(*to);
    }
    *to = v as f32;
}

/// An array of what an index gives, written out: what a loop fills would lie in memory.
macro_rules! array {
    (2, $i:ident => $e:expr) => { array!(@ $i => $e; 0 1) };
    (3, $i:ident => $e:expr) => { array!(@ $i => $e; 0 1 2) };
    (4, $i:ident => $e:expr) => { array!(@ $i => $e; 0 1 2 3) };
    (6, $i:ident => $e:expr) => { array!(@ $i => $e; 0 1 2 3 4 5) };
    (@ $i:ident => $e:expr; $($n:literal)*) => {
        [$({
            const $i: usize = $n;
            $e
        }),*]
    };
}

/// The kernels of a tile.
trait Transform<const N: usize> {
    /// Transforms two channels of a tile: of images, or of gradients of results.
    ///
    /// # Safety
    /// As [`Transform::image`].
    unsafe fn tile<const PAIRWISE: bool, const GRADIENT: bool>(p: &WinogradImageParams, unit: u32);

    /// The taps of two columns of a row, transformed along the filter's rows.
    ///
    /// # Safety
    /// As [`Transform::filter`].
    unsafe fn filter_columns(p: &WinogradFilterParams, row: u32, column: u32) -> [[WidePair; N]; 3];

    /// Transforms images.
    ///
    /// # Safety
    /// The host passes live images of these extents and room for the transformed ones.
    unsafe fn image(p: &WinogradImageParams);

    /// Transforms gradients of results.
    ///
    /// # Safety
    /// As [`Transform::image`].
    unsafe fn gradient(p: &WinogradImageParams);

    /// Transforms filters.
    ///
    /// # Safety
    /// The host passes a live filter of these extents and room for the transformed one.
    unsafe fn filter(p: &WinogradFilterParams);

    /// Transforms filters, and takes the numbers apart as `bf16x3_wgmma` wants them.
    ///
    /// # Safety
    /// As [`Transform::filter`], with room for the parts.
    unsafe fn filter_parts(p: &WinogradFilterParams);

    /// Transforms sums into the gradient of a filter.
    ///
    /// # Safety
    /// The host passes live sums and a live gradient of these extents.
    unsafe fn taps(p: &WinogradFilterParams);

    /// Transforms sums into results.
    ///
    /// # Safety
    /// The host passes live sums and results of these extents.
    unsafe fn output(p: &WinogradOutputParams);
}

macro_rules! transforms {
    ($tile:ident, $m:tt, $n:tt) => {
        impl Transform<$n> for $tile {
            #[inline(always)]
            unsafe fn tile<const PAIRWISE: bool, const GRADIENT: bool>(p: &WinogradImageParams, unit: u32) {
                                let (tile, pair) = p.pairs.div_rem(unit);
                let (rest, w) = p.tiles[1].div_rem(p.first_tile + tile);
                let (n, h) = p.tiles[0].div_rem(rest);
                let c = 2 * pair;
                let there = [c < p.channels, c + 1 < p.channels];
                let start = i64::from(n) * p.strides[0] + if there[0] { i64::from(c) * p.strides[1] } else { 0 };
                let window = Window {
                    base: p.from + start as u64 * 4,
                    row_stride: p.strides[2],
                    column_stride: p.strides[3],
                    channel_stride: if there[1] { p.strides[1] } else { 0 },
                    first: [(h * $m) as i32 - p.padding[0], (w * $m) as i32 - p.padding[1]],
                    extents: p.extents,
                    there,
                };
                let pitch = u64::from(p.packed_channels) * 4;
                let to = p.to + u64::from(tile) * ($n * $n) * pitch + u64::from(c) * 4;
                let to = |i: usize, j: usize| (to + ($n * i + j) as u64 * pitch) as *mut X2<f32>;
                if GRADIENT {
                    let columns =
                        array!($m, J => <$tile as Minimal<$m, $n>>::gradient(array!($m, I => window.load::<PAIRWISE>(I, J))));
                    let _ = array!($n, I => {
                        let row = <$tile as Minimal<$m, $n>>::gradient(array!($m, J => columns[J][I]));
                        let _ = array!($n, J => *to(I, J) = X2(row[J].0));
                    });
                } else {
                    let columns = array!($n, J => <$tile as Minimal<$m, $n>>::image(array!($n, I => window.load::<PAIRWISE>(I, J))));
                    let _ = array!($n, I => {
                        let row = <$tile as Minimal<$m, $n>>::image(array!($n, J => columns[J][I]));
                        let _ = array!($n, J => *to(I, J) = X2(row[J].0));
                    });
                }
            }

            #[inline(always)]
            unsafe fn filter_columns(p: &WinogradFilterParams, row: u32, column: u32) -> [[WidePair; $n]; 3] {
                let there = [column < p.columns, column + 1 < p.columns].map(|there| there & (row < p.rows));
                let start = p.first_tap
                    + if there[0] { i64::from(row) * p.strides[0] + i64::from(column) * p.strides[1] } else { 0 };
                let (from, next) = (p.from + start as u64 * 4, if there[1] { p.strides[1] } else { 0 });
                let [r, s] = p.tap_strides;
                array!(3, J => <$tile as Minimal<$m, $n>>::filter(array!(3, I => {
                    let at = from + (I as i64 * r + J as i64 * s) as u64 * 4;
                    let (v0, v1) = (*(at as *const f32), *((at + next as u64 * 4) as *const f32));
                    WidePair([if there[0] { f64::from(v0) } else { 0.0 }, if there[1] { f64::from(v1) } else { 0.0 }])
                })))
            }

            #[inline(always)]
            unsafe fn image(p: &WinogradImageParams) {
                if p.pairwise != 0 {
                    for_each_index(i64::from(p.n_units), |unit| {
                        <$tile as Transform<$n>>::tile::<true, false>(p, unit as u32)
                    });
                } else {
                    for_each_index(i64::from(p.n_units), |unit| {
                        <$tile as Transform<$n>>::tile::<false, false>(p, unit as u32)
                    });
                }
            }

            #[inline(always)]
            unsafe fn gradient(p: &WinogradImageParams) {
                if p.pairwise != 0 {
                    for_each_index(i64::from(p.n_units), |unit| {
                        <$tile as Transform<$n>>::tile::<true, true>(p, unit as u32)
                    });
                } else {
                    for_each_index(i64::from(p.n_units), |unit| {
                        <$tile as Transform<$n>>::tile::<false, true>(p, unit as u32)
                    });
                }
            }

            #[inline(always)]
            unsafe fn taps(p: &WinogradFilterParams) {
                for_each_index(i64::from(p.n_units), |unit| {
                    let (row, pair) = p.pairs.div_rem(unit as u32);
                    let column = 2 * pair;
                    if row >= p.rows || column >= p.columns {
                        return;
                    }
                    let pitch = u64::from(p.packed_rows) * u64::from(p.packed_columns) * 4;
                    let from = p.from + (u64::from(row) * u64::from(p.packed_columns) + u64::from(column)) * 4;
                    let rows = array!($n, I => <$tile as Minimal<$m, $n>>::taps(array!($n, J => {
                        let v = (*((from + ($n * I + J) as u64 * pitch) as *const X2<f32>)).0;
                        WidePair([f64::from(v[0]), f64::from(v[1])])
                    })));
                    let start = p.first_tap + i64::from(row) * p.strides[0] + i64::from(column) * p.strides[1];
                    let _ = array!(3, J => {
                        let v = <$tile as Minimal<$m, $n>>::taps(array!($n, I => rows[I][J]));
                        let _ = array!(3, I => {
                            let at = start + I as i64 * p.tap_strides[0] + J as i64 * p.tap_strides[1];
                            let to = (p.to + at as u64 * 4) as *mut f32;
                            blend(p, to, v[I].0[0]);
                            if column + 1 < p.columns {
                                blend(p, to.offset(p.strides[1] as isize), v[I].0[1]);
                            }
                        });
                    });
                });
            }

            #[inline(always)]
            unsafe fn filter(p: &WinogradFilterParams) {
                for_each_index(i64::from(p.n_units), |unit| {
                    let (row, pair) = p.pairs.div_rem(unit as u32);
                    let columns = <$tile as Transform<$n>>::filter_columns(p, row, 2 * pair);
                    let pitch = u64::from(p.packed_rows) * u64::from(p.packed_columns) * 4;
                    let to = p.to + (u64::from(row) * u64::from(p.packed_columns) + u64::from(2 * pair)) * 4;
                    let _ = array!($n, I => {
                        let row = <$tile as Minimal<$m, $n>>::filter(array!(3, J => columns[J][I]));
                        let _ = array!($n, J => {
                            let v = [row[J].0[0] as f32, row[J].0[1] as f32];
                            *((to + ($n * I + J) as u64 * pitch) as *mut X2<f32>) = X2(v);
                        });
                    });
                });
            }

            #[inline(always)]
            unsafe fn filter_parts(p: &WinogradFilterParams) {
                for_each_index(i64::from(p.n_units), |unit| {
                    let (row, pair) = p.pairs.div_rem(unit as u32);
                    let columns = <$tile as Transform<$n>>::filter_columns(p, row, 2 * pair);
                    // Where the pair stands among those of its chunk: `part_channel` turned around.
                    let (chunk, in_chunk) = (2 * pair / PART_CHUNK, pair % (PART_CHUNK / 2));
                    let column = chunk * PART_CHUNK + in_chunk % 2 * 8 + in_chunk / 2 * 2;
                    let pitch = u64::from(p.packed_rows) * u64::from(p.packed_columns) * 2;
                    let to = p.to + (u64::from(row) * u64::from(p.packed_columns) + u64::from(column)) * 2;
                    let _ = array!($n, I => {
                        let row = <$tile as Minimal<$m, $n>>::filter(array!(3, J => columns[J][I]));
                        let _ = array!($n, J => {
                            let v = [row[J].0[0] as f32, row[J].0[1] as f32];
                            let parts = apart_any(v[0].to_bits(), v[1].to_bits());
                            let to = to + ($n * I + J) as u64 * pitch;
                            let part = ($n * $n) * pitch;
                            const _: () = assert!(PARTS == 3);
                            *(to as *mut u32) = parts[0];
                            *((to + part) as *mut u32) = parts[1];
                            *((to + 2 * part) as *mut u32) = parts[2];
                        });
                    });
                });
            }

            #[inline(always)]
            unsafe fn output(p: &WinogradOutputParams) {
                for_each_index(i64::from(p.n_units), |unit| {
                    let (tile, pair) = p.pairs.div_rem(unit as u32);
                    let (rest, w) = p.tiles[1].div_rem(p.first_tile + tile);
                    let (n, h) = p.tiles[0].div_rem(rest);
                    let k = 2 * pair;
                    let pitch = u64::from(p.packed_channels) * 4;
                    let from = p.from + u64::from(tile) * ($n * $n) * pitch + u64::from(k) * 4;
                    let rows = array!($n, I => <$tile as Minimal<$m, $n>>::output(array!($n, J => {
                        Pair((*((from + ($n * I + J) as u64 * pitch) as *const X2<f32>)).0)
                    })));
                    let start = i64::from(n) * p.strides[0] + i64::from(k) * p.strides[1];
                    let place = Place {
                        base: p.to + start as u64 * 4,
                        first: [h * $m, w * $m],
                        second: k + 1 < p.channels,
                    };
                    let _ = array!($m, J => {
                        let column = <$tile as Minimal<$m, $n>>::output(array!($n, I => rows[I][J]));
                        let _ = array!($m, I => place.store(p, I, J, column[I]));
                    });
                });
            }
        }
    };
}

transforms!(F2, 2, 4);
transforms!(F4, 4, 6);
