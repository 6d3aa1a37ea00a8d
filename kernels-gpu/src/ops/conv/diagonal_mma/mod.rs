//! Convolution with one filter a channel, channels-last, on the portable tensor cores.
//!
//! Eight channels are multiplied with each other where each is wanted with itself: the diagonal of what a product
//! computes, or the only elements of a factor that are not zero. That is an eighth of what tensor cores can do, and
//! takes less time than scalar sums from filters of 5 × 5 taps on.
//!
//! Grid: `slabs · slices` blocks. A block keeps to one slice of 32 channels, eight a warp, and walks over its share of
//! the items (`ConvDiagonalParams`), a row at a time. Block: 128 threads. Shared memory: dynamic,
//! `ConvDiagonalParams::smem_bytes`: tables of what is copied where, a ring of rows of the source, and rows of the
//! target. Each element is read once, but for what bands and tiles share, and each fragment of the source is
//! multiplied for all rows of the target whose windows have it.

mod gather;
mod wgrad;

pub(super) use gather::gather;
pub(super) use wgrad::wgrad;

use crate::math::index::div_rem_u32 as div_rem;
use cuda_std::thread::thread_idx_x;
use cuda_std::{cp_async, shared};
use kernel_abi::ops::conv::ConvPass;
use kernel_abi::ops::conv::diagonal_mma::{
    ConvDiagonalParams, DIAGONAL_PIXEL_BYTES, DIAGONAL_PIXEL_ENTRY, DIAGONAL_SLICE, DIAGONAL_THREADS, DIAGONAL_UNIT,
    DIAGONAL_UNIT_ENTRY, DiagonalTaps,
};

/// Bytes of a copy: eight channels.
const CHUNK_BYTES: u32 = 16;
/// Copies that bring a pixel's channels.
const CHUNKS: u32 = DIAGONAL_SLICE * 2 / CHUNK_BYTES;
/// Pixels that a block's threads copy at a time.
const PIXELS_AT_ONCE: u32 = DIAGONAL_THREADS / CHUNKS;
/// Channels of a warp.
const CHANNELS: u32 = 8;

/// A place in a block's sequence of steps.
#[derive(Clone, Copy)]
struct Walk {
    item: u32,
    /// First image.
    image: u32,
    /// First column of the target.
    column: u32,
    step: u32,
    /// The band's first step.
    first: u32,
    /// Behind the item's last step.
    end: u32,
}

/// Steps that an item has beside its band's: before the first, and behind the last.
#[derive(Clone, Copy)]
struct Margins {
    before: u32,
    behind: u32,
}

impl Walk {
    #[inline(always)]
    fn new(p: &ConvDiagonalParams, margins: Margins, item: u32) -> Self {
        let (rest, tile) = div_rem(item, p.tiles);
        let (group, band) = div_rem(rest, p.bands);
        let first = band * p.band_steps;
        let last = first + p.band_steps;
        let last = if last < p.steps { last } else { p.steps };
        Walk {
            item,
            image: group * p.images,
            column: tile * p.units * DIAGONAL_UNIT,
            step: first.saturating_sub(margins.before),
            first,
            end: last + margins.behind,
        }
    }

    #[inline(always)]
    fn there(&self, p: &ConvDiagonalParams) -> bool {
        self.item < p.items
    }

    #[inline(always)]
    fn advance(&mut self, p: &ConvDiagonalParams, margins: Margins) {
        self.step += 1;
        if self.step == self.end {
            *self = Walk::new(p, margins, self.item + p.slabs);
        }
    }
}

/// The slot after `slot` in a ring.
#[inline(always)]
fn after(slot: u32, slots: u32) -> u32 {
    if slot + 1 == slots { 0 } else { slot + 1 }
}

/// Fills the rows with zeros, which stay where nothing is copied to, and the tables: of a row's pixels, how many pixels
/// of the tensor they are from the row's first, where they go, their column and image; of units, where they begin in a
/// row of the source.
///
/// # Safety
/// `base` is shared memory of `smem_bytes`; all threads call it, and synchronize before they read or copy.
#[inline(always)]
unsafe fn prepare(p: &ConvDiagonalParams, taps: DiagonalTaps, pass: ConvPass, base: u32) {
    let mut at = base + p.source_at() + CHUNK_BYTES * thread_idx_x();
    let end = base + p.smem_bytes(taps, pass);
    while at < end {
        shared::store_x4(at, [0; 4]);
        at += CHUNK_BYTES * DIAGONAL_THREADS;
    }
    let mut pixel = thread_idx_x();
    while pixel < p.source_pixels() {
        let (image, column) = div_rem(pixel, p.source_columns[1]);
        let column = p.source_columns[0] + column;
        let from = image * p.source_extents[0] * p.source_extents[1] + column;
        let to = image * p.source_image_bytes(taps) + taps.column_bytes(p.units, column);
        shared::store_x4(base + DIAGONAL_PIXEL_ENTRY * pixel, [from, to, column, image]);
        pixel += DIAGONAL_THREADS;
    }
    let mut pixel = thread_idx_x();
    while pixel < p.target_pixels() {
        let (image, column) = div_rem(pixel, p.target_columns);
        let from = image * p.target_extents[0] * p.target_extents[1] + column;
        let to = (image * p.units * DIAGONAL_UNIT + column) * DIAGONAL_PIXEL_BYTES;
        shared::store_x4(base + p.target_table_at() + DIAGONAL_PIXEL_ENTRY * pixel, [from, to, column, image]);
        pixel += DIAGONAL_THREADS;
    }
    let mut unit = thread_idx_x();
    while unit < p.row_units() {
        let (image, part) = div_rem(unit, p.units);
        let to = image * p.source_image_bytes(taps) + part * DIAGONAL_UNIT * DIAGONAL_PIXEL_BYTES;
        // What fills up the last product may take any columns: no result is made of them, and zeros of dy meet them.
        let to = if image < p.images { to } else { 0 };
        shared::store_u32(base + p.unit_table_at() + DIAGONAL_UNIT_ENTRY * unit, to);
        unit += DIAGONAL_THREADS;
    }
}

/// One of the two images as rows of it are copied: its table, how many entries that has, the tensor and its extents.
#[derive(Clone, Copy)]
struct Rows {
    table: u32,
    pixels: u32,
    tensor: u64,
    extents: [u32; 2],
}

impl Rows {
    #[inline(always)]
    fn of_source(p: &ConvDiagonalParams, base: u32) -> Self {
        Rows { table: base, pixels: p.source_pixels(), tensor: p.source, extents: p.source_extents }
    }

    #[inline(always)]
    fn of_target(p: &ConvDiagonalParams, base: u32) -> Self {
        let table = base + p.target_table_at();
        Rows { table, pixels: p.target_pixels(), tensor: p.target, extents: p.target_extents }
    }

    /// Calls `each` for this thread's pieces of row `row` of the images from `image` on, columns counted from `column`:
    /// with their place in a row in shared memory, their address, and whether they exist.
    ///
    /// # Safety
    /// `prepare` was called.
    #[inline(always)]
    unsafe fn pieces(
        self,
        p: &ConvDiagonalParams,
        [image, row, column]: [u32; 3],
        first_channel: u32,
        mut each: impl FnMut(u32, u64, bool),
    ) {
        let chunk = thread_idx_x() % CHUNKS;
        let channel = first_channel + chunk * CHANNELS;
        if channel >= p.channels {
            return;
        }
        let pixel_bytes = i64::from(2 * p.channels);
        let first = (i64::from(image) * i64::from(self.extents[0]) + i64::from(row)) * i64::from(self.extents[1])
            + i64::from(column as i32);
        let first = self.tensor.wrapping_add_signed(first * pixel_bytes + i64::from(2 * channel));
        let images = p.n - image;
        let mut pixel = thread_idx_x() / CHUNKS;
        while pixel < self.pixels {
            let [from, to, of_column, of_image] = shared::load_x4(self.table + DIAGONAL_PIXEL_ENTRY * pixel);
            let there = of_image < images && column.wrapping_add(of_column) < self.extents[1];
            each(to + chunk * CHUNK_BYTES, first.wrapping_add_signed(i64::from(from) * pixel_bytes), there);
            pixel += PIXELS_AT_ONCE;
        }
    }

    /// Queues the copies of a row to `to`, zeros for what does not exist.
    ///
    /// # Safety
    /// As [`Rows::pieces`]; nobody reads there any more.
    #[inline(always)]
    unsafe fn copy(self, p: &ConvDiagonalParams, place: [u32; 3], first_channel: u32, to: u32) {
        self.pieces(p, place, first_channel, |at, address, there| {
            let (address, bytes) = if there { (address, CHUNK_BYTES) } else { (self.tensor, 0) };
            cp_async::copy_x4(to + at, address as *const u8, bytes);
        });
    }
}

/// Queues the copies of a step's rows of the source to their slot. Rows that do not exist are left out, and never
/// computed with.
///
/// # Safety
/// As [`Rows::copy`].
#[inline(always)]
unsafe fn load_source(
    p: &ConvDiagonalParams,
    taps: DiagonalTaps,
    walk: &Walk,
    base: u32,
    first_channel: u32,
    slot: u32,
) {
    let column = (walk.column * taps.stride).wrapping_sub(p.padding[1]);
    let mut row = 0;
    while row < taps.stride {
        let h = (walk.step * taps.stride + row).wrapping_sub(p.padding[0]);
        if h < p.source_extents[0] {
            let to = base + p.source_at() + (slot * taps.stride + row) * p.source_row_bytes(taps);
            Rows::of_source(p, base).copy(p, [walk.image, h, column], first_channel, to);
        }
        row += 1;
    }
}
