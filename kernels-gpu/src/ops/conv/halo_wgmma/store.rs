//! The way out: sums are scaled, blended with what is there, and written where the result has them.

use super::{PANEL, SUBTILE, WARPGROUP};
use crate::math::vector;
use crate::ops::conv::im2col_wgmma::Half;
use cuda_std::barrier::sync_named;
use cuda_std::thread::thread_idx_x;
use cuda_std::{ldmatrix, memory, shared};
use kernel_abi::ops::conv::halo_wgmma::{ConvHaloParams, HaloPlace, STORES_QUADS};

/// Positions from `first` on, counted from the begin of `first_row`.
#[derive(Clone, Copy)]
pub(super) struct Rows {
    pub place: HaloPlace,
    pub first_row: u32,
    pub first: u32,
}

impl Rows {
    #[inline(always)]
    pub fn behind(&self, count: u32) -> Rows {
        Rows { first: self.first + count, ..*self }
    }

    /// The image, row and column of the output that position `i` is, unless it is computed for nothing.
    #[inline(always)]
    fn position(&self, p: &ConvHaloParams, i: u32) -> Option<Position> {
        let (row, column) = p.pitch.div_rem(self.first + i);
        let (image, h) = p.image_rows.div_rem(self.first_row + row);
        let (w, of_tile) = (self.place.strip + column, image < p.images);
        let position = Position { image: self.place.image + image, h, w };
        let inside = of_tile && position.image < p.n_images && h < p.extents[1];
        (inside && column < p.strip_w && w < p.extents[2]).then_some(position)
    }

    /// Distance of the first element of an image's plane and the group's channels.
    #[inline(always)]
    fn plane_offset(&self, p: &ConvHaloParams, image: u32) -> i64 {
        let channel = self.place.group * p.gemm_n;
        i64::from(image) * p.strides[0] + i64::from(self.place.plane) * p.strides[1] + i64::from(channel) * p.strides[4]
    }
}

/// A position of the output's planes.
struct Position {
    image: u32,
    h: u32,
    w: u32,
}

/// Where the results of one consumer leave.
pub(super) struct Out {
    /// Shared memory of its own: 64 positions of 64 channels.
    pub at: u32,
    /// The named barrier of its threads.
    pub barrier: u32,
    pub warp: u32,
    /// The first of its channels.
    pub column: u32,
}

/// Scales sums whose rows are 64 channels and sends them out, positions as rows; `spreads` tells whether the channels may
/// be blocks of positions.
///
/// # Safety
/// As [`consume`](super::consume).
#[inline(always)]
pub(super) unsafe fn store_transposed<E: Half, const R: usize>(
    p: &ConvHaloParams,
    d: &[f32; R],
    rows: &Rows,
    out: &Out,
    spreads: bool,
) {
    if spreads && p.stores_whole == STORES_QUADS && p.beta == 0.0 {
        quads::<E, R, 0>(p, d, rows, out);
        if R > 32 {
            quads::<E, R, 1>(p, d, rows, out);
        }
        if R > 64 {
            quads::<E, R, 2>(p, d, rows, out);
        }
        if R > 96 {
            quads::<E, R, 3>(p, d, rows, out);
        }
        return;
    }
    if p.stores_whole == 0 || p.beta != 0.0 {
        each_sum::<E, R, 0>(p, d, rows, out);
        each_sum::<E, R, 1>(p, d, rows, out);
        if R > 32 {
            each_sum::<E, R, 2>(p, d, rows, out);
            each_sum::<E, R, 3>(p, d, rows, out);
        }
        if R > 64 {
            each_sum::<E, R, 4>(p, d, rows, out);
            each_sum::<E, R, 5>(p, d, rows, out);
        }
        if R > 96 {
            each_sum::<E, R, 6>(p, d, rows, out);
            each_sum::<E, R, 7>(p, d, rows, out);
        }
        return;
    }
    if spreads && R > 32 && p.gemm_n <= NARROW {
        narrow::<E, R, 0>(p, d, rows, out);
        if R > 96 {
            narrow::<E, R, 1>(p, d, rows, out);
        }
        return;
    }
    group::<E, R, 0>(p, d, rows, out);
    if R > 32 {
        group::<E, R, 1>(p, d, rows, out);
    }
    if R > 64 {
        group::<E, R, 2>(p, d, rows, out);
    }
    if R > 96 {
        group::<E, R, 3>(p, d, rows, out);
    }
}

/// Positions `64 G` to `64 G + 63`, through shared memory so that neighbouring lanes write neighbours.
///
/// # Safety
/// As [`store_transposed`].
#[inline(always)]
unsafe fn group<E: Half, const R: usize, const G: usize>(p: &ConvHaloParams, d: &[f32; R], rows: &Rows, out: &Out) {
    let lane = thread_idx_x() % 32;
    turn::<E, R, G>(p, d, out, lane);
    // Eight lanes write a position; each warp 16 of them, four at a time.
    let (own, first) = (lane % 8, out.warp * 16 + lane / 8);
    let value = |i: u32| {
        let row = first + 4 * i;
        shared::load_x4(out.at + row * 128 + ((own ^ (row % 8)) * 16))
    };
    store_positions::<4>(p, rows, out.column + own * 8, G as u32 * SUBTILE + first, value);
}

/// Channels, at most, of which [`narrow`] writes twice as many positions at a time.
const NARROW: u32 = 32;

/// Positions `128 H` to `128 H + 127` of few channels, as [`group`] does 64: a row is 64 bytes, and the other half of the
/// channels' threads have none.
///
/// # Safety
/// As [`store_transposed`].
#[inline(always)]
unsafe fn narrow<E: Half, const R: usize, const H: usize>(p: &ConvHaloParams, d: &[f32; R], rows: &Rows, out: &Out) {
    /// Of 16 positions.
    const CHUNKS: usize = 8;
    let lane = thread_idx_x() % 32;
    let at = |row: u32, chunk: u32| out.at + row * 64 + ((chunk ^ (row / 2 % 4)) * 16);
    // Nobody reads the positions before any more.
    sync_named(out.barrier, WARPGROUP);
    if out.warp < NARROW / 16 {
        vector::for_each!(J < CHUNKS, {
            let row = J as u32 * 16 + lane / 16 * 8 + lane % 8;
            let packed = packed::<E, R>(p, d, CHUNKS * H + J);
            ldmatrix::store_x4_transposed(at(row, 2 * out.warp + lane / 8 % 2), packed);
        });
    }
    sync_named(out.barrier, WARPGROUP);
    // Four lanes write a position; each warp 32 of them, eight at a time.
    let (own, first) = (lane % 4, out.warp * 32 + lane / 4);
    let value = |i: u32| shared::load_x4(at(first + 8 * i, own));
    store_positions::<8>(p, rows, out.column + own * 8, H as u32 * 2 * SUBTILE + first, value);
}

/// Writes eight channels of every `AT_ONCE`th of four positions, from the `first` on.
///
/// # Safety
/// As [`store_transposed`].
#[inline(always)]
unsafe fn store_positions<const AT_ONCE: u32>(
    p: &ConvHaloParams,
    rows: &Rows,
    column: u32,
    first: u32,
    value: impl Fn(u32) -> [u32; 4],
) {
    if column >= p.gemm_n {
        return;
    }
    if p.images == 1 && p.pitch.divisor >= AT_ONCE {
        // From one to the next it is a step along a row, or to the next one: found anew, they took as long as the products
        // of 64 channels.
        let [step, next_row] = [p.strides[3], p.strides[2] - i64::from(p.pitch.divisor) * p.strides[3]];
        let (row, mut w) = p.pitch.div_rem(rows.first + first);
        let mut h = rows.first_row + row;
        let of_plane = i64::from(h) * p.strides[2] + i64::from(rows.place.strip + w) * p.strides[3] + i64::from(column);
        let mut to = p.out as i64 + 2 * (rows.plane_offset(p, rows.place.image) + of_plane);
        let left = p.extents[2] - rows.place.strip;
        let columns = if left < p.strip_w { left } else { p.strip_w };
        let mut i = 0;
        while i < 4 {
            if w < columns && h < p.extents[1] {
                store_whole(p, to, column, value(i));
            }
            w += AT_ONCE;
            to += 2 * AT_ONCE as i64 * step;
            if w >= p.pitch.divisor {
                w -= p.pitch.divisor;
                h += 1;
                to += 2 * next_row;
            }
            i += 1;
        }
        return;
    }
    let mut i = 0;
    while i < 4 {
        if let Some(Position { image, h, w }) = rows.position(p, first + AT_ONCE * i) {
            let of_plane = i64::from(h) * p.strides[2] + i64::from(w) * p.strides[3] + i64::from(column);
            store_whole(p, p.out as i64 + 2 * (rows.plane_offset(p, image) + of_plane), column, value(i));
        }
        i += 1;
    }
}

/// Writes eight channels of a position, from `column` on, by 16 bytes or twice 8.
///
/// # Safety
/// As [`store_transposed`].
#[inline(always)]
unsafe fn store_whole(p: &ConvHaloParams, to: i64, column: u32, v: [u32; 4]) {
    if p.stores_whole == 16 {
        memory::store_x4(to as *mut u32, v);
        return;
    }
    memory::store_x2(to as *mut u32, [v[0], v[1]]);
    if column + 4 < p.gemm_n {
        memory::store_x2((to + 8) as *mut u32, [v[2], v[3]]);
    }
}

/// Positions `64 G` to `64 G + 63` into shared memory, a row of 128 bytes each.
///
/// # Safety
/// As [`store_transposed`].
#[inline(always)]
unsafe fn turn<E: Half, const R: usize, const G: usize>(p: &ConvHaloParams, d: &[f32; R], out: &Out, lane: u32) {
    // Nobody reads the group before any more.
    sync_named(out.barrier, WARPGROUP);
    chunk::<E, R, G, 0>(p, d, out, lane);
    chunk::<E, R, G, 1>(p, d, out, lane);
    chunk::<E, R, G, 2>(p, d, out, lane);
    chunk::<E, R, G, 3>(p, d, out, lane);
    sync_named(out.barrier, WARPGROUP);
}

/// Elements of a run that are written at once.
const QUAD: u32 = 4;

/// Positions `64 G` to `64 G + 63`, whose columns are neighbouring positions: neighbouring threads write neighbouring
/// [`QUAD`]s of a row of the result, one row of a block after the other.
///
/// # Safety
/// As [`store_transposed`].
#[inline(always)]
unsafe fn quads<E: Half, const R: usize, const G: usize>(p: &ConvHaloParams, d: &[f32; R], rows: &Rows, out: &Out) {
    turn::<E, R, G>(p, d, out, thread_idx_x() % 32);
    let run = p.run.divisor * QUAD;
    let row_elements = p.spread_extents[1] * p.spread[2].divisor;
    let mut quad = thread_idx_x() % WARPGROUP;
    while quad < SUBTILE * p.run.divisor {
        let (row, of_run) = p.run.div_rem(quad);
        if let Some(Position { image, h, w }) = rows.position(p, G as u32 * SUBTILE + row) {
            let of_row = w * run + of_run * QUAD;
            let first_h = h * p.spread[0].divisor;
            let offset = rows.plane_offset(p, image) + i64::from(first_h) * p.strides[2] + i64::from(of_row);
            let mut to = p.out as i64 + 2 * offset;
            let left = p.spread_extents[0] - first_h;
            let of_block = if left < p.spread[0].divisor { left } else { p.spread[0].divisor };
            // Of a run that reaches over the row's end, whole quads do.
            let of_block = if of_row < row_elements { of_block } else { 0 };
            let mut column = of_run * QUAD;
            let mut i = 0;
            while i < of_block {
                let at = out.at + row * 128 + ((column / 8 ^ row % 8) * 16) + column / QUAD % 2 * 8;
                memory::store_x2(to as *mut u32, shared::load_x2(at));
                column += run;
                to += 2 * p.strides[2];
                i += 1;
            }
        }
        quad += WARPGROUP;
    }
}

/// Positions `16 J` to `16 J + 15` of group `G`: eight sums a thread, of this warp's 16 channels.
///
/// # Safety
/// As [`store_transposed`].
#[inline(always)]
unsafe fn chunk<E: Half, const R: usize, const G: usize, const J: usize>(
    p: &ConvHaloParams,
    d: &[f32; R],
    out: &Out,
    lane: u32,
) {
    let packed = packed::<E, R>(p, d, 4 * G + J);
    let row = J as u32 * 16 + lane / 16 * 8 + lane % 8;
    let chunk = 2 * out.warp + lane / 8 % 2;
    ldmatrix::store_x4_transposed(out.at + row * 128 + ((chunk ^ (row % 8)) * 16), packed);
}

/// A thread's sums of positions `16 j` to `16 j + 15`, scaled: matrices of 8 positions and 8 channels, channels first.
///
/// # Safety
/// As [`store_transposed`].
#[inline(always)]
unsafe fn packed<E: Half, const R: usize>(p: &ConvHaloParams, d: &[f32; R], j: usize) -> [u32; 4] {
    let v = |i: usize| p.alpha * *d.get_unchecked(8 * j + i);
    [E::pack(v(0), v(1)), E::pack(v(2), v(3)), E::pack(v(4), v(5)), E::pack(v(6), v(7))]
}

/// Writes positions `32 G` to `32 G + 31` element by element, which are then laid out and blended as needed.
///
/// # Safety
/// As [`store_transposed`].
#[inline(always)]
unsafe fn each_sum<E: Half, const R: usize, const G: usize>(p: &ConvHaloParams, d: &[f32; R], rows: &Rows, out: &Out) {
    let lane = thread_idx_x() % 32;
    sync_named(out.barrier, WARPGROUP);
    let mut i = 0;
    while i < 16 {
        let channel = out.warp * 16 + lane / 4 + (i as u32 / 2 % 2) * 8;
        let position = (i as u32 / 4) * 8 + lane % 4 * 2 + i as u32 % 2;
        shared::store_u32(out.at + (position * PANEL + channel) * 4, (*d.get_unchecked(16 * G + i)).to_bits());
        i += 1;
    }
    sync_named(out.barrier, WARPGROUP);
    let thread = thread_idx_x() % WARPGROUP;
    let mut position = thread / PANEL;
    while position < 32 {
        let sum = f32::from_bits(shared::load_u32(out.at + (position * PANEL + thread % PANEL) * 4));
        element::<E>(p, rows, G as u32 * 32 + position, out.column + thread % PANEL, sum);
        position += WARPGROUP / PANEL;
    }
}

/// Writes the sums of a thread whose rows are positions, one by one.
///
/// # Safety
/// As [`consume`](super::consume).
#[inline(always)]
pub(super) unsafe fn each_element<E: Half, const R: usize>(p: &ConvHaloParams, d: &[f32; R], rows: &Rows) {
    let lane = thread_idx_x() % 32;
    let mut i = 0;
    while i < R {
        let column = (i as u32 / 4) * 8 + lane % 4 * 2 + i as u32 % 2;
        let position = lane / 4 + (i as u32 / 2 % 2) * 8;
        element::<E>(p, rows, position, rows.place.n + column, *d.get_unchecked(i));
        i += 1;
    }
}

/// Writes one sum, of the position `i` and a column, which may be a position and a channel.
///
/// # Safety
/// As [`consume`](super::consume).
#[inline(always)]
unsafe fn element<E: Half>(p: &ConvHaloParams, rows: &Rows, i: u32, column: u32, sum: f32) {
    let Some(Position { image, h, w }) = rows.position(p, i) else { return };
    let (rest, c) = p.spread[2].div_rem(column);
    let (a, b) = p.spread[1].div_rem(rest);
    let (h, w) = (h * p.spread[0].divisor + a, w * p.spread[1].divisor + b);
    if column < p.gemm_n && h < p.spread_extents[0] && w < p.spread_extents[1] {
        let offset = i64::from(h) * p.strides[2] + i64::from(w) * p.strides[3] + i64::from(c) * p.strides[4];
        let to = (p.out as *mut u16).offset((rows.plane_offset(p, image) + offset) as isize);
        let mut sum = p.alpha * sum;
        if p.beta != 0.0 {
            sum += p.beta * E::unpack(*to);
        }
        *to = E::pack(sum, 0.0) as u16;
    }
}
