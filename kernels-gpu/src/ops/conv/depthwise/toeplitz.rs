//! Square filters of 3, 5 or 7 with stride 1, over packed planes of even width, by tensor cores.
//!
//! A row of the filter becomes a matrix of 16 source columns × 8 target columns with the taps along its diagonals, a
//! Toeplitz matrix. 16 source rows of 16 columns times this matrix are what the filter's row gives to 16 target rows of
//! 8 columns: one product of `mma.sync` a filter row. The matrices stay in registers; the next 8 columns have half of
//! their source in registers already. The rows may belong to several images, whose filter is the same.
//!
//! A warp works by itself: it copies the rows that its part of a plane needs, or some images' planes of one channel, to
//! its region of shared memory in words of 16 bytes, with rows of zeros where the padding has them. A product has 16
//! bytes of each target row: where rows are wide they go through shared memory too, to be written together. For small
//! planes more warps at once, with half the shared memory, are worth more.
//!
//! Grid: one-dimensional. Block: 128, or 256 without staging.

use super::planes::{band_rows, wait};
use super::reduce;
use crate::math::index::div_rem_u32 as div_rem;
use crate::math::tensor_core::TensorCore;
use cuda_std::{cp_async, guarded, shared, thread, warp};
use kernel_abi::ops::conv::{DepthwiseParams, TOEPLITZ_REGION, index, toeplitz_pitch};

const WORD: i32 = 16;

/// Warps of a block; twice as many without staging.
const WARPS: u32 = 4;

/// Bytes of shared memory of a block.
pub const SHARED_BYTES: usize = WARPS as usize * TOEPLITZ_REGION as usize;

/// A source row's pairs of columns as one lane has them, for every row of the filter and for both of the lane's rows.
type Columns<const R: usize> = [[u32; 2]; R];

/// The source rows of some images, in shared memory.
struct Segments {
    /// Address of the first wanted row of the first image, which need not be there.
    first: u64,
    /// Bytes from an image's plane to the next image's.
    image_bytes: u64,
    region: u32,
    /// Bytes of shared memory from an image's rows to the next one's.
    pitch: u32,
    row_bytes: i32,
}

impl Segments {
    /// Of images from `[image, channel]` on, at `[address, pitch]` of shared memory.
    #[inline(always)]
    fn new(p: &DepthwiseParams, address: u64, dims: [i32; 2], first: [u32; 2], row: i32, place: [u32; 2]) -> Self {
        let plane = first[0] as i64 * p.c as i64 + first[1] as i64;
        Segments {
            first: address.wrapping_add(2 * (plane * dims[0] as i64 + row as i64) as u64 * dims[1] as u64),
            image_bytes: 2 * p.c as u64 * (dims[0] * dims[1]) as u64,
            region: place[0],
            pitch: place[1],
            row_bytes: 2 * dims[1],
        }
    }

    /// What lies before an image's first wanted row in its word.
    #[inline(always)]
    fn before(&self, image: i32) -> i32 {
        (self.first.wrapping_add(image as u64 * self.image_bytes) % WORD as u64) as i32
    }

    /// Shared-window address of an image's wanted row.
    #[inline(always)]
    fn row(&self, image: i32, row: i32) -> u32 {
        self.region + image as u32 * self.pitch + (self.before(image) + row * self.row_bytes) as u32
    }

    /// Begins to copy `there` of an image's `rows` wanted rows; the others become zeros, but for a part of a word.
    #[inline(always)]
    unsafe fn copy(&self, image: i32, rows: i32, there: [i32; 2]) {
        let before = self.before(image);
        let from = self.first.wrapping_add(image as u64 * self.image_bytes).wrapping_sub(before as u64);
        let to = self.region + image as u32 * self.pitch;
        let valid = [before + there[0] * self.row_bytes, before + there[1] * self.row_bytes];
        let mut at = thread::lane_id() as i32 * WORD;
        while at < before + rows * self.row_bytes {
            let rest = if valid[1] - at < WORD { valid[1] - at } else { WORD };
            let bytes = if rest < 0 || at + WORD <= valid[0] { 0 } else { rest };
            let from = if bytes > 0 { from.wrapping_add(at as u64) } else { self.first_word() };
            cp_async::copy_x4(to + at as u32, from as *const u8, bytes as u32);
            at += 32 * WORD;
        }
    }

    /// A multiple of a word's size.
    #[inline(always)]
    fn first_word(&self) -> u64 {
        self.first / WORD as u64 * WORD as u64
    }

    /// Address of an image's wanted row.
    #[inline(always)]
    fn global(&self, image: i32, row: i32) -> u64 {
        self.first.wrapping_add(image as u64 * self.image_bytes).wrapping_add((row * self.row_bytes) as i64 as u64)
    }

    /// Writes the first `rows` rows of an image.
    #[inline(always)]
    unsafe fn write(&self, image: i32, rows: i32) {
        let before = self.before(image);
        let end = before + rows * self.row_bytes;
        let to = self.global(image, 0) - before as u64;
        let from = self.region + image as u32 * self.pitch;
        let mut at = thread::lane_id() as i32 * WORD;
        while at < end {
            let word = shared::load_x4(from + at as u32);
            if at >= before && at + WORD <= end {
                guarded::store_x4(to + at as u64, word, 1);
            } else {
                let mut i = 0;
                while i < 4 {
                    let at = at + 4 * i as i32;
                    let inside = at >= before && at < end;
                    guarded::store_x1(to + at as u64, [*word.get_unchecked(i)], u32::from(inside));
                    i += 1;
                }
            }
            at += 32 * WORD;
        }
    }

    /// Zeros before the first row that is there of every image, in the word that this begins in.
    #[inline(always)]
    unsafe fn clear_before_all(&self, images: i32, first_there: i32) {
        if first_there == 0 {
            return;
        }
        let mut image = 0;
        while image < images {
            let begin = self.row(image, first_there);
            let at = begin / WORD as u32 * WORD as u32 + 2 * thread::lane_id();
            if at < begin {
                shared::store_u16(at, 0);
            }
            image += 1;
        }
        warp::sync_warp();
    }
}

/// Shared memory that an image takes in the source and in the target.
#[inline(always)]
fn pitches<const R: usize>(p: &DepthwiseParams) -> [i32; 2] {
    let pitch = |filter: i64, width: i32| toeplitz_pitch(p.item_rows as i64, filter, width as i64) as i32;
    [pitch(R as i64, p.source_dims[1]), pitch(1, p.target_dims[1])]
}

/// Which of `rows` wanted rows are in a plane of `height`, `first` being the first one's number.
#[inline(always)]
fn rows_there(first: i32, rows: i32, height: i32) -> [i32; 2] {
    let clamp = |row: i32| {
        if row < 0 {
            0
        } else if row < rows {
            row
        } else {
            rows
        }
    };
    [clamp(-first), clamp(height - first)]
}

/// The filters of all channels.
pub struct Taps {
    /// Address.
    pub w: u64,
    /// Distances between neighbouring channels, rows and columns, in elements.
    pub strides: [i64; 3],
    /// Whether tap 0 is a filter's last element.
    pub flip: bool,
}

/// The rows of a channel's filter as matrices of 8 · `BLOCKS` source columns × 8 target columns, `STRIDE` source columns
/// apart, as the product takes them: a register for 8 columns. `shift` columns stand before the first one that a tap
/// meets.
///
/// # Safety
/// The channel has a filter of `R` rows and columns of 16 bits.
#[inline(always)]
pub unsafe fn matrices<const R: usize, const STRIDE: usize, const BLOCKS: usize>(
    taps: &Taps,
    shift: i32,
    c: u32,
) -> [[u32; BLOCKS]; R] {
    let lane = thread::lane_id() as i32;
    // Tap of the lane's first element.
    let first = lane % 4 * 2 - STRIDE as i32 * (lane / 4) - shift;
    let mut values = [[0; BLOCKS]; R];
    let mut r = 0;
    while r < R {
        let row = c as i64 * taps.strides[0] + index::filter_index(r as i64, R as i64, taps.flip) * taps.strides[1];
        let mut block = 0;
        while block < BLOCKS {
            let mut pair = [0; 2];
            let mut i = 0;
            while i < 2 {
                let s = first + 8 * block as i32 + i as i32;
                let at = row + index::filter_index(s as i64, R as i64, taps.flip) * taps.strides[2];
                let inside = u32::from((s as u32) < R as u32);
                *pair.get_unchecked_mut(i) = guarded::load_u16(taps.w.wrapping_add(2 * at as u64), inside) as u32;
                i += 1;
            }
            *values.get_unchecked_mut(r).get_unchecked_mut(block) = pair[0] | pair[1] << 16;
            block += 1;
        }
        r += 1;
    }
    values
}

/// Shared memory of a pair of columns, of any columns where they are not there, and the bits that are to be kept.
#[inline(always)]
fn pair_at(column: i32, width: i32) -> (u32, u32) {
    if (column as u32) < width as u32 { (2 * column as u32, u32::MAX) } else { (0, 0) }
}

/// A pair of columns of two rows; zeros outside of the image.
#[inline(always)]
unsafe fn load_pairs(rows: [u32; 2], column: i32, width: i32) -> [u32; 2] {
    let (offset, mask) = pair_at(column, width);
    [shared::load_u32(rows[0] + offset) & mask, shared::load_u32(rows[1] + offset) & mask]
}

/// A pair of columns of a row, `zeros` outside of the image.
#[inline(always)]
unsafe fn load_pair_or(row: u32, column: i32, width: i32, zeros: u32) -> u32 {
    let inside = (column as u32) < width as u32;
    shared::load_u32(if inside { row + 2 * column as u32 } else { zeros })
}

/// A pair of columns of all source rows that a lane's two target rows need; zeros outside of the image.
#[inline(always)]
unsafe fn load_columns<const R: usize>(rows: [u32; 2], column: i32, width: i32) -> Columns<R> {
    let mut values = [[0; 2]; R];
    let mut rows = rows;
    let mut r = 0;
    while r < R {
        *values.get_unchecked_mut(r) = load_pairs(rows, column, width);
        rows = [rows[0] + 2 * width as u32, rows[1] + 2 * width as u32];
        r += 1;
    }
    values
}

/// A pair of the target as it is written, where `to` is its address.
#[inline(always)]
unsafe fn results<T: TensorCore>(p: &DepthwiseParams, to: u64, sums: [f32; 2], inside: bool) -> u32 {
    let mut results = [p.alpha * sums[0], p.alpha * sums[1]];
    if p.beta != 0.0 && inside {
        // Not among the loads of what nobody writes.
        let prior = T::unpack(*(to as *const u32));
        results = [results[0] + p.beta * prior[0], results[1] + p.beta * prior[1]];
    }
    T::pack(results[0], results[1])
}

/// target = conv(source, w), a band of some images' planes of a channel.
///
/// `STAGED`: results go through shared memory.
pub unsafe fn gather<T: TensorCore, const R: usize, const STAGED: bool>(p: &DepthwiseParams, shared: *mut u8) {
    let (in_block, lane) = (thread::warp_idx(), thread::lane_id() as i32);
    let (warps, region) = if STAGED { (WARPS, TOEPLITZ_REGION) } else { (2 * WARPS, TOEPLITZ_REGION / 2) };
    let at = thread::block_idx_x() * warps + in_block;
    if at >= p.n_items as u32 {
        return;
    }
    let [height, width] = p.target_dims;
    let source_width = p.source_dims[1];
    let (rest, band) = div_rem(at, div_rem((height + p.item_rows - 1) as u32, p.item_rows as u32).0);
    let (group, c) = div_rem(rest, p.c as u32);
    let image = group * p.channel_run as u32;
    let images = if p.n as u32 - image < p.channel_run as u32 { p.n as i32 - image as i32 } else { p.channel_run };
    let [begin, end] = band_rows(p, band, height);
    let rows = p.item_rows + R as i32 - 1;
    let there = rows_there(begin - p.padding[0], rows, p.source_dims[0]);
    let pitches = pitches::<R>(p);
    let source_at = shared::address(shared) + in_block * region as u32;
    let target_at = source_at + (p.channel_run * pitches[0]) as u32;
    let place = [source_at, pitches[0] as u32];
    let source = Segments::new(p, p.source, p.source_dims, [image, c], begin - p.padding[0], place);
    let target = Segments::new(p, p.target, p.target_dims, [image, c], begin, [target_at, pitches[1] as u32]);
    let mut i = 0;
    while i < images {
        source.copy(i, rows, there);
        i += 1;
    }
    let taps = Taps { w: p.w, strides: p.w_strides, flip: p.flip != 0 };
    // Source columns are counted from an even one.
    let w = matrices::<R, 1, 2>(&taps, p.padding[1] & 1, c);
    wait();
    source.clear_before_all(images, there[0]);

    let lines = images * p.item_rows;
    let reciprocal = div_rem(1 << 16, p.item_rows as u32).0 + 1;
    let first_column = lane % 4 * 2;
    let first_source = first_column - p.padding[1] - (p.padding[1] & 1);
    let mut tile = 0;
    while tile < lines {
        let (mut from, mut to, mut staged, mut inside) = ([0; 2], [0; 2], [0; 2], [false; 2]);
        let mut i = 0;
        while i < 2 {
            let line = tile + lane / 4 + 8 * i as i32;
            *inside.get_unchecked_mut(i) = line < lines;
            let line = if line < lines { line } else { lines - 1 };
            let image = ((line as u32 * reciprocal) >> 16) as i32;
            let row = line - image * p.item_rows;
            *from.get_unchecked_mut(i) = source.row(image, row);
            *to.get_unchecked_mut(i) = target.global(image, row) + 2 * first_column as u64;
            *staged.get_unchecked_mut(i) = target.row(image, row) + 2 * first_column as u32;
            *inside.get_unchecked_mut(i) &= begin + row < end;
            i += 1;
        }
        let mut column = first_column;
        let mut source_column = first_source;
        let mut left = load_columns::<R>(from, source_column, source_width);
        while column - first_column < width {
            source_column += 8;
            let right = load_columns::<R>(from, source_column, source_width);
            let mut sums = [0.0; 4];
            let mut r = 0;
            while r < R {
                let (left, right) = (left.get_unchecked(r), right.get_unchecked(r));
                T::multiply(&mut sums, [left[0], left[1], right[0], right[1]], *w.get_unchecked(r));
                r += 1;
            }
            let inside = [inside[0] && column < width, inside[1] && column < width];
            let pairs = [
                results::<T>(p, to[0], [sums[0], sums[1]], inside[0]),
                results::<T>(p, to[1], [sums[2], sums[3]], inside[1]),
            ];
            let mut i = 0;
            while i < 2 {
                if !STAGED {
                    guarded::store_x1(to[i], [pairs[i]], u32::from(inside[i]));
                } else if inside[i] {
                    shared::store_u32(staged[i], pairs[i]);
                }
                i += 1;
            }
            to = [to[0] + 16, to[1] + 16];
            staged = [staged[0] + 16, staged[1] + 16];
            left = right;
            column += 8;
        }
        tile += 16;
    }

    if !STAGED {
        return;
    }
    warp::sync_warp();
    let mut i = 0;
    while i < images {
        target.write(i, end - begin);
        i += 1;
    }
}

/// Words of the target that a lane needs for 2 of the 16 columns of a product: the shifts of all taps.
const fn words(r: usize) -> usize {
    let last = odd(r) + r - 1;
    last / 2 + 1 + last % 2
}

/// Whether a padding of half the filter is odd.
const fn odd(r: usize) -> usize {
    r / 2 % 2
}

/// Two neighbouring elements behind the first of a pair, `pairs` being neighbours themselves.
#[inline(always)]
fn shifted(pairs: [u32; 2]) -> u32 {
    pairs[0] >> 16 | pairs[1] << 16
}

/// Sums of a slab's products for every tap of the warp's channel. Slabs take bands of some images in turns. A single
/// slab's sums are the gradient.
///
/// The sum is over columns, 16 a product, of 16 source rows and 8 target rows: those that are `r` rows apart have what
/// belongs to row `r` of the filter, on a diagonal of the product. The target is shifted by `s` columns for column `s`.
pub unsafe fn wgrad<T: TensorCore, const R: usize>(p: &DepthwiseParams, shared: *mut u8) {
    let (in_block, lane) = (thread::warp_idx(), thread::lane_id() as i32);
    let at = thread::block_idx_x() * WARPS + in_block;
    if at >= p.n_items as u32 {
        return;
    }
    let region = shared.add((in_block as i32 * TOEPLITZ_REGION) as usize);
    let (slab, c) = div_rem(at, p.c as u32);
    let [height, width] = p.target_dims;
    let source_width = p.source_dims[1];
    let bands = div_rem((height + p.item_rows - 1) as u32, p.item_rows as u32).0;
    let parts = div_rem(p.n as u32 + p.channel_run as u32 - 1, p.channel_run as u32).0 * bands;
    let rows = p.item_rows + R as i32 - 1;
    let pitches = pitches::<R>(p);
    let x_at = shared::address(region);
    let y_at = x_at + (p.channel_run * pitches[0]) as u32;
    let zeros = x_at + (TOEPLITZ_REGION - WORD) as u32;
    shared::store_u32(zeros + lane as u32 % 4 * 4, 0);
    // Columns of the lane's first pair, in the source and in the target as the last tap meets it.
    let first_column = lane % 4 * 2;
    let first_target = first_column + p.padding[1] - (R + odd(R)) as i32 + 1;

    let mut sums = [[0.0f32; 4]; R];
    let mut part = slab;
    while part < parts {
        let (group, band) = div_rem(part, bands);
        let image = group * p.channel_run as u32;
        let images = if p.n as u32 - image < p.channel_run as u32 { p.n as i32 - image as i32 } else { p.channel_run };
        let [begin, end] = band_rows(p, band, height);
        let x = Segments::new(p, p.source, p.source_dims, [image, c], begin - p.padding[0], [x_at, pitches[0] as u32]);
        let y = Segments::new(p, p.target, p.target_dims, [image, c], begin, [y_at, pitches[1] as u32]);
        let there = rows_there(begin - p.padding[0], rows, p.source_dims[0]);
        // The last part's readers are done.
        warp::sync_warp();
        let mut i = 0;
        while i < images {
            x.copy(i, rows, there);
            y.copy(i, p.item_rows, [0, end - begin]);
            i += 1;
        }
        wait();
        x.clear_before_all(images, there[0]);

        let mut i = 0;
        while i < images {
            let mut row = 0;
            while row < end - begin {
                let line = row + lane / 4;
                // Rows that no diagonal meets may be any.
                let line_below = if line + 8 < rows { line + 8 } else { rows - 1 };
                let x_rows = [x.row(i, line), x.row(i, line_below)];
                let y_row = y.row(i, line);
                let mut column = first_column;
                let mut target_column = first_target;
                while column - first_column < source_width {
                    let (left, right) =
                        (load_pairs(x_rows, column, source_width), load_pairs(x_rows, column + 8, source_width));
                    let mut pairs = [[0u32; 2]; 5];
                    let mut j = 0;
                    while j < words(R) {
                        let column = target_column + 2 * j as i32;
                        *pairs.get_unchecked_mut(j) =
                            [load_pair_or(y_row, column, width, zeros), load_pair_or(y_row, column + 8, width, zeros)];
                        j += 1;
                    }
                    let mut s = 0;
                    while s < R {
                        let shift = odd(R) + R - 1 - s;
                        let pair = pairs.get_unchecked(shift / 2);
                        let columns = if shift % 2 == 0 {
                            *pair
                        } else {
                            let next = pairs.get_unchecked(shift / 2 + 1);
                            [shifted([pair[0], next[0]]), shifted([pair[1], next[1]])]
                        };
                        T::multiply(sums.get_unchecked_mut(s), [left[0], left[1], right[0], right[1]], columns);
                        s += 1;
                    }
                    column += 16;
                    target_column += 16;
                }
                row += 8;
            }
            i += 1;
        }
        part += p.n_slabs as u32;
    }

    // Lanes add up diagonals, a tap each.
    warp::sync_warp();
    let mut s = 0;
    while s < R {
        let of = sums.get_unchecked(s);
        let at = x_at + ((s as i32 * 16 + lane / 4) * 32 + lane % 4 * 8) as u32;
        shared::store_x2(at, [of[0].to_bits(), of[1].to_bits()]);
        shared::store_x2(at + 8 * 32, [of[2].to_bits(), of[3].to_bits()]);
        s += 1;
    }
    warp::sync_warp();
    let mut tap = lane;
    while tap < (R * R) as i32 {
        let (r, s) = (tap / R as i32, tap % R as i32);
        let first = x_at + ((s * 16 + r) * 32) as u32;
        let mut total = 0.0;
        let mut n = 0;
        while n < 8 {
            total += shared::load_f32(first + n * 36);
            n += 1;
        }
        reduce::write_or_leave::<T>(p, slab as i64, tap as i64, c as i64, total);
        tap += 32;
    }
}
