//! Where the transforms find images, filters and spectra.

use cuda_std::thread::{block_idx_x, thread_idx_x};
use kernel_abi::ops::conv::fft::{ConvFftFilterParams, ConvFftTilesParams};

/// Elements of an image or a filter.
pub(super) struct Row {
    /// Where element 0 is, or would be.
    first: u64,
    /// Bytes from element to element.
    step: u64,
    /// The first that exists, and how many do.
    begin: u32,
    n: u32,
}

impl Row {
    pub(super) const EMPTY: Self = Row { first: 0, step: 0, begin: 0, n: 0 };

    #[inline(always)]
    pub(super) fn is_empty(&self) -> bool {
        self.n == 0
    }

    /// Address of an element, where it exists.
    #[inline(always)]
    pub(super) fn element(&self, i: u32) -> Option<u64> {
        (i.wrapping_sub(self.begin) < self.n).then(|| self.first.wrapping_add(u64::from(i).wrapping_mul(self.step)))
    }
}

/// A block's tile; a whole image is one.
pub(super) struct Tile {
    /// The first element of the image, at channel 0.
    image: u64,
    /// Where the tile begins.
    begin: [i32; 2],
    /// Its row of the matrices, in bytes from the first number.
    row: u64,
    pub(super) first_channel: u32,
}

impl Tile {
    #[inline(always)]
    pub(super) fn of_block(p: &ConvFftTilesParams, slots: u32) -> Self {
        let (tile, channel_block) = p.channel_blocks.div_rem(block_idx_x());
        let (rest, across) = p.tiles[1].div_rem(tile);
        let (n, down) = p.tiles[0].div_rem(rest);
        let begin = [down * p.step[0], across * p.step[1]];
        Tile {
            image: p.image + (i64::from(n) * p.strides[0]) as u64 * 4,
            begin: [begin[0] as i32 + p.origin[0], begin[1] as i32 + p.origin[1]],
            row: u64::from(tile) * u64::from(p.row_numbers) * 4,
            first_channel: channel_block * slots,
        }
    }

    /// The elements of a row that are inside the image and the part of the tile that counts.
    #[inline(always)]
    pub(super) fn row(&self, p: &ConvFftTilesParams, channel: u32, row: u32) -> Row {
        // Positions below 0 are large as unsigned numbers.
        let h = (self.begin[0] + row as i32) as u32;
        if row >= p.region[0] || h >= p.extents[0] || channel >= p.channels {
            return Row::EMPTY;
        }
        let across = self.begin[1];
        let begin = (-across).max(0);
        let end = (p.region[1] as i32).min(p.extents[1] as i32 - across);
        let strides = p.strides;
        let at = i64::from(channel) * strides[1] + i64::from(h) * strides[2] + i64::from(across) * strides[3];
        Row {
            first: self.image.wrapping_add(at as u64 * 4),
            step: strides[3] as u64 * 4,
            begin: begin as u32,
            n: (end - begin).max(0) as u32,
        }
    }

    /// Address of a channel's real part at a frequency, where there is such a channel.
    #[inline(always)]
    pub(super) fn number(&self, p: &ConvFftTilesParams, channel: u32, frequency: usize) -> Option<u64> {
        if channel >= p.channels {
            return None;
        }
        let (group, c) = p.group_channels.div_rem(channel);
        let column = group * 2 * p.group_channels.divisor + c;
        Some(p.spectra + (frequency as u64 * p.frequency_numbers + u64::from(column)) * 4 + self.row)
    }
}

/// Writes an element of a result.
///
/// # Safety
/// The address is of an f32 that no other thread has.
#[inline(always)]
pub(super) unsafe fn store(address: u64, value: f32, alpha: f32, beta: f32) {
    let to = address as *mut f32;
    *to = if beta == 0.0 { alpha * value } else { alpha * value + beta * *to };
}

/// A pair of channels of a filter.
pub(super) struct Pair {
    /// The first tap.
    taps: u64,
    /// Its real part at the first frequency.
    pub(super) number: u64,
}

/// Bytes from a row of frequencies to the next.
#[inline(always)]
pub(super) fn row_bytes<const T: usize>(frequency_numbers: u64) -> u64 {
    (T / 2 + 1) as u64 * frequency_numbers * 4
}

/// Bytes from the real part to the other column and to the other row that a pair has in a matrix.
#[inline(always)]
pub(super) fn quarters(p: &ConvFftFilterParams) -> (u64, u64) {
    let half = u64::from(p.columns.divisor) * 4;
    (half, 2 * half * u64::from(p.rows.divisor))
}

impl Pair {
    #[inline(always)]
    pub(super) fn of(p: &ConvFftFilterParams, slot: usize, slots: u32) -> Option<Self> {
        let index = block_idx_x() * slots + slot as u32;
        if index >= p.n_pairs {
            return None;
        }
        let (rest, column) = p.columns.div_rem(index);
        let (group, row) = p.rows.div_rem(rest);
        let (rows, columns) = (p.rows.divisor, p.columns.divisor);
        let (k, c) = if p.rows_are_k != 0 { (group * rows + row, column) } else { (group * columns + column, row) };
        let taps = i64::from(k) * p.strides[0] + i64::from(c) * p.strides[1];
        let matrix_row = u64::from(group * 2 * rows + row);
        Some(Pair {
            taps: p.filter + taps as u64 * 4,
            number: p.spectra + (matrix_row * 2 * u64::from(columns) + u64::from(column)) * 4,
        })
    }

    /// Calls `each` with this thread's share of the taps: address, row and column in the tile.
    #[inline(always)]
    pub(super) fn for_each_tap(
        &self,
        p: &ConvFftFilterParams,
        slots: usize,
        size: usize,
        each: impl Fn(u64, usize, usize),
    ) {
        let mut tap = thread_idx_x() / slots as u32;
        let [taps_r, taps_s] = p.taps;
        while tap < taps_r * taps_s {
            let (r, s) = p.taps_across.div_rem(tap);
            let (to_r, to_s) = if p.flip != 0 { (taps_r - 1 - r, taps_s - 1 - s) } else { (r, s) };
            let offset = i64::from(r) * p.strides[2] + i64::from(s) * p.strides[3];
            let [down, across] = p.spacing;
            each(self.taps + offset as u64 * 4, (to_r * down.divisor) as usize, (to_s * across.divisor) as usize);
            tap += size as u32 / 2;
        }
    }

    /// The taps of a row of the image, `spacing` columns apart.
    #[inline(always)]
    pub(super) fn row(&self, p: &ConvFftFilterParams, row: u32) -> Row {
        let (r, beside) = p.spacing[0].div_rem(row);
        let [taps_r, taps_s] = p.taps;
        if beside != 0 || r >= taps_r {
            return Row::EMPTY;
        }
        let [_, _, down, across] = p.strides;
        let (r, s, across) = if p.flip != 0 { (taps_r - 1 - r, taps_s - 1, -across) } else { (r, 0, across) };
        let first = i64::from(r) * down + i64::from(s) * p.strides[3];
        Row { first: self.taps + first as u64 * 4, step: across as u64 * 4, begin: 0, n: taps_s }
    }
}
