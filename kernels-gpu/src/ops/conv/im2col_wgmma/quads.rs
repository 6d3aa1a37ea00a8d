//! Where the sums that a thread of `wgrad` holds belong in dw: quads, two neighbouring columns of two rows.

use super::{Half, WARPGROUP};
use kernel_abi::ops::conv::im2col_wgmma::{ConvTile, ConvWgradParams, SUBTILE, WgradPlace};

/// Writes four sums of a thread to dw: two neighbouring columns of two rows.
///
/// # Safety
/// As [`super::wgrad::run`].
#[inline(always)]
pub(super) unsafe fn store_quad<E: Half>(
    p: &ConvWgradParams,
    tile: ConvTile,
    place: WgradPlace,
    thread: u32,
    quad: u32,
    v: [f32; 4],
) {
    if let Some(at) = QuadPlace::of(p, tile, place, thread, quad) {
        at.store::<E>(p, place, v);
    }
}

/// Where four sums of a thread belong: the first of two rows eight apart, a tap, and the first of two channels.
#[derive(Clone, Copy)]
pub(super) struct QuadPlace {
    pub(super) row: u32,
    pub(super) tap: u32,
    pub(super) c: u32,
}

impl QuadPlace {
    /// That of a thread's quad, unless its panel is behind the last.
    #[inline(always)]
    pub(super) fn of(p: &ConvWgradParams, tile: ConvTile, place: WgradPlace, thread: u32, quad: u32) -> Option<Self> {
        let consumer = thread / WARPGROUP;
        let thread = thread % WARPGROUP;
        let mut row = place.m + thread / 32 * 16 + thread % 32 / 4;
        let mut col = 8 * quad + thread % 4 * 2;
        if tile.shares_columns() {
            col += consumer * tile.consumer_columns();
        } else {
            row += consumer * SUBTILE;
        }
        // A power of two.
        let panel = place.panel + (col >> tile.panel_k.trailing_zeros());
        if panel >= p.n_panels {
            return None;
        }
        let (tap, c) = p.linear_tap_and_channel(panel, tile.panel_k);
        Some(QuadPlace { row, tap, c: c + (col & (tile.panel_k - 1)) })
    }

    /// That of the thread's quad so many further, in the same panel.
    #[inline(always)]
    pub(super) fn to_the_right(self, quads: u32) -> Self {
        QuadPlace { c: self.c + 8 * quads, ..self }
    }

    /// Writes the sums, but for those of rows and channels that are not there.
    ///
    /// # Safety
    /// As [`super::wgrad::run`].
    #[inline(always)]
    pub(super) unsafe fn store<E: Half>(self, p: &ConvWgradParams, place: WgradPlace, v: [f32; 4]) {
        let QuadPlace { mut row, tap, c } = self;
        if c >= p.group_c {
            return;
        }
        if p.packed_c != 0 {
            store_packed::<E>(p, place, row, tap, c, v);
            return;
        }
        let mut half = 0;
        while half < 2 {
            if row < p.group_k {
                let k = i64::from(place.group * p.group_k + row);
                let offset = k * p.k_stride + i64::from(tap) * p.tap_stride + i64::from(c);
                let to = (p.dw as *mut u16).offset(offset as isize) as *mut u32;
                let mut low = p.alpha * *v.get_unchecked(2 * half);
                let mut high = p.alpha * *v.get_unchecked(2 * half + 1);
                if p.beta != 0.0 {
                    let prior = *to;
                    low += p.beta * E::unpack(prior as u16);
                    high += p.beta * E::unpack((prior >> 16) as u16);
                }
                *to = E::pack(low, high);
            }
            row += 8;
            half += 1;
        }
    }
}

/// Writes four sums of a thread to the dw of a packed x: neighbouring columns are channels or taps, some of them of
/// nobody.
///
/// # Safety
/// As [`super::wgrad::run`].
#[inline(always)]
unsafe fn store_packed<E: Half>(p: &ConvWgradParams, place: WgradPlace, row: u32, tap: u32, c: u32, v: [f32; 4]) {
    let mut i = 0;
    while i < 4 {
        let row = row + i / 2 * 8;
        let column = c + i % 2;
        let (s, channel) = if p.packed_c == 8 { (column / 8, column % 8) } else { (column / 4, column % 4) };
        if row < p.group_k && column < p.group_c && channel < p.real_c {
            let k = i64::from(place.group * p.group_k + row);
            let offset = k * p.k_stride
                + i64::from(tap) * p.tap_stride
                + i64::from(s) * p.s_stride
                + i64::from(channel) * p.c_stride;
            let to = (p.dw as *mut u16).offset(offset as isize);
            let mut sum = p.alpha * *v.get_unchecked(i as usize);
            if p.beta != 0.0 {
                sum += p.beta * E::unpack(*to);
            }
            *to = E::pack(sum, 0.0) as u16;
        }
        i += 1;
    }
}
