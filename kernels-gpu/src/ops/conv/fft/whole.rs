//! Whole images of up to 64 × 64 or 128 × 128 positions. Two rows, half of the image apart, are real and imaginary part
//! of one complex row. T/32 threads transform a row or a column together (decimation in frequency): thread q takes the
//! sums of all its numbers that make up every (T/32)-th number of the transform, from q on, and transforms those 32 within
//! its registers. Between rows and columns the spectra lie in shared memory as they come, of two rows in one; columns take
//! them apart. Shared memory: dynamic, `whole_bytes`: spectra, neighbouring slots beside one another, then rotations.

use super::line::{Line, TURN, cosine, place, sine};
use super::operands::{Pair, Row, Tile, quarters, row_bytes, store};
use cuda_std::math::fma_f32;
use cuda_std::thread::{block_dim_x, sync_threads, thread_idx_x};
use cuda_std::{schedule, shared};
use kernel_abi::ops::conv::fft::{ConvFftFilterParams, ConvFftTilesParams, slots, whole_row};

/// Numbers of a thread's part of a line.
const PART: usize = 32;

/// Packed spectra in shared memory, `[T / 2][whole_row][slots][2]`, and what this thread has of them.
struct Packed<const T: usize> {
    base: u32,
    /// This thread's slot.
    slot: usize,
    /// Which part of a line it has.
    q: usize,
    /// The first of its lines: pairs of rows, or columns.
    first_line: usize,
    /// From line to line.
    step: usize,
}

#[inline(always)]
unsafe fn load(at: u32) -> [f32; 2] {
    shared::load_x2(at).map(f32::from_bits)
}

#[inline(always)]
unsafe fn keep(at: u32, number: [f32; 2]) {
    shared::store_x2(at, number.map(f32::to_bits))
}

/// a + b c, of complex numbers.
#[inline(always)]
fn multiply_add([ar, ai]: [f32; 2], [br, bi]: [f32; 2], [cr, ci]: [f32; 2]) -> [f32; 2] {
    [fma_f32(br, cr, fma_f32(-bi, ci, ar)), fma_f32(br, ci, fma_f32(bi, cr, ai))]
}

impl<const T: usize> Packed<T> {
    const SLOTS: usize = slots(T as u32) as usize;
    /// Threads of a line.
    const PARTS: usize = T / PART;
    const ROTATIONS: u32 = (T / 2 * whole_row(T as u32) as usize * Self::SLOTS * 8) as u32;
    /// From part to part, so that they lie in other banks.
    const ROTATION_ROW: usize = PART + 1;

    /// Fills the table of rotations.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    unsafe fn new() -> Self {
        let (t, base) = (thread_idx_x() as usize, shared::dynamic_address());
        if t < T {
            let (q, b) = (t / PART, t % PART);
            let turn = q * b * (TURN / T);
            let at = base + Self::ROTATIONS + ((q * Self::ROTATION_ROW + b) * 8) as u32;
            keep(at, [cosine(turn), -sine(turn)]);
        }
        sync_threads();
        let (line, slot) = (t / Self::SLOTS, t % Self::SLOTS);
        let step = block_dim_x() as usize / (Self::SLOTS * Self::PARTS);
        Packed { base, slot, q: line % Self::PARTS, first_line: line / Self::PARTS, step }
    }

    /// Pairs of rows, the second as far below the first.
    const PAIRS: usize = T / 2;
    const COLUMNS: usize = T / 2 + 1;

    /// Where number `column` of a pair of rows is.
    #[inline(always)]
    fn number(&self, pair: usize, column: usize) -> u32 {
        self.base + (((pair * whole_row(T as u32) as usize + column) * Self::SLOTS + self.slot) * 8) as u32
    }

    /// This thread's part of a line's transform, number q + T/32 · k at [`place`] k. `pair` gives the line's numbers j and
    /// j + T/2. The inverse is not divided by T.
    #[inline(always)]
    unsafe fn transform(&self, inverse: bool, pair: impl Fn(usize) -> [[f32; 2]; 2]) -> Line<PART> {
        let direction = if inverse { -1.0 } else { 1.0 };
        let odd = self.q % 2 != 0;
        let sign = if odd { -1.0 } else { 1.0 };
        // (-i)^q, or i^q.
        let axis = if self.q < 2 { 1.0 } else { -1.0 };
        let quarter = if odd { [0.0, -axis * direction] } else { [axis, 0.0] };
        let sum = |j: usize| {
            let [a, b] = pair(j);
            [fma_f32(sign, b[0], a[0]), fma_f32(sign, b[1], a[1])]
        };
        let rotations = self.base + Self::ROTATIONS + (self.q * Self::ROTATION_ROW * 8) as u32;
        let mut line = Line::<PART>::zeros();
        let mut i = 0;
        while i < PART {
            let total = if Self::PARTS == 4 { multiply_add(sum(i), sum(i + PART), quarter) } else { sum(i) };
            let [c, s] = load(rotations + (i * 8) as u32);
            line.set(i, multiply_add([0.0; 2], total, [c, direction * s]));
            i += 1;
        }
        line.transform(inverse);
        line
    }

    /// Transforms this thread's part of a pair of rows, the elements of which `element` gives where there are any.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    unsafe fn rows_forward(&self, pair: usize, rows: &[Row; 2], element: impl Fn(&Row, usize) -> Option<u64>) {
        let are_empty = rows[0].is_empty() && rows[1].is_empty();
        // SAFETY: elements that exist.
        let at = |i: usize| unsafe { [read_or_zero(element(&rows[0], i)), read_or_zero(element(&rows[1], i))] };
        let line = if are_empty { Line::zeros() } else { self.transform(false, |i| [at(i), at(i + T / 2)]) };
        let mut k = 0;
        while k < PART {
            keep(self.number(pair, self.q + Self::PARTS * k), line.get(place::<PART>(k)));
            k += 1;
        }
    }

    /// Transforms this thread's part of a column and hands `write` its numbers, where they go: from `first` on, the first
    /// of the column, rows so many bytes apart.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    unsafe fn column_forward(&self, column: usize, first: u64, row_bytes: u64, write: impl Fn(u64, [f32; 2])) {
        let mirrored = (T - column) % T;
        let line = self.transform(false, |j| {
            // SAFETY: a pair of rows and columns of the spectrum.
            let ([zr, zi], [cr, ci]) = unsafe { (load(self.number(j, column)), load(self.number(j, mirrored))) };
            // Of two real rows z = a + i b: A = (Z[v] + conj Z[-v]) / 2, B = (Z[v] - conj Z[-v]) / 2i.
            [[0.5 * (zr + cr), 0.5 * (zi - ci)], [0.5 * (zi + ci), 0.5 * (cr - zr)]]
        });
        let mut to = first + self.q as u64 * row_bytes;
        let mut k = 0;
        while k < PART {
            write(to, line.get(place::<PART>(k)));
            to += Self::PARTS as u64 * row_bytes;
            k += 1;
        }
    }

    /// Transforms this thread's part of a column back, with `read` for each number in the places of `column_forward`.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    unsafe fn column_inverse(&self, column: usize, first: u64, row_bytes: u64, read: impl Fn(u64) -> [f32; 2]) {
        let at = |j: usize| read(first + j as u64 * row_bytes);
        let line = self.transform(true, |j| [at(j), at(j + T / 2)]);
        let mut k = 0;
        while k < PART / 2 {
            // Z = A + i B, and conj A + i conj B on the other side; A and B are real where there is none.
            let pair = self.q + Self::PARTS * k;
            let ([ar, ai], [br, bi]) = (line.get(place::<PART>(k)), line.get(place::<PART>(k + PART / 2)));
            if column == 0 || column == T / 2 {
                keep(self.number(pair, column), [ar, br]);
            } else {
                keep(self.number(pair, column), [ar - bi, ai + br]);
                keep(self.number(pair, T - column), [ar + bi, br - ai]);
            }
            k += 1;
        }
    }

    /// Transforms this thread's part of a pair of rows back and stores the elements that `element` finds a place for.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    unsafe fn rows_inverse(
        &self,
        pair: usize,
        rows: &[Row; 2],
        (alpha, beta): (f32, f32),
        element: impl Fn(&Row, usize) -> Option<u64>,
    ) {
        if rows[0].is_empty() && rows[1].is_empty() {
            return;
        }
        // SAFETY: numbers of the rows.
        let at = |i: usize| unsafe { load(self.number(pair, i)) };
        let line = self.transform(true, |i| [at(i), at(i + T / 2)]);
        let mut k = 0;
        while k < PART {
            let (column, [a, b]) = (self.q + Self::PARTS * k, line.get(place::<PART>(k)));
            if let Some(address) = element(&rows[0], column) {
                store(address, a, alpha, beta);
            }
            if let Some(address) = element(&rows[1], column) {
                store(address, b, alpha, beta);
            }
            k += 1;
        }
    }
}

#[inline(always)]
unsafe fn read_or_zero(address: Option<u64>) -> f32 {
    match address {
        Some(address) => *(address as *const f32),
        None => 0.0,
    }
}

/// A number as if it were another for every line: what is computed of it stays in the loop over lines, where registers
/// would not suffice for that of all positions.
#[inline(always)]
fn anew(number: u64) -> u64 {
    number >> 32 << 32 | u64::from(schedule::opaque(number as u32))
}

/// The pair of rows that begins with `row`, of an image.
#[inline(always)]
fn image_rows<const T: usize>(p: &ConvFftTilesParams, image: &Tile, channel: u32, row: usize) -> [Row; 2] {
    [image.row(p, channel, row as u32), image.row(p, channel, (row + T / 2) as u32)]
}

/// The same of a filter.
#[inline(always)]
fn filter_rows<const T: usize>(p: &ConvFftFilterParams, pair: Option<&Pair>, row: usize) -> [Row; 2] {
    match pair {
        Some(pair) => [pair.row(p, row as u32), pair.row(p, (row + T / 2) as u32)],
        None => [Row::EMPTY, Row::EMPTY],
    }
}

/// Where the tap at a column is.
#[inline(always)]
fn tap(p: &ConvFftFilterParams, row: &Row, column: usize) -> Option<u64> {
    let (s, beside) = p.spacing[1].div_rem(column as u32);
    if beside == 0 { row.element(s) } else { None }
}

/// Images to their spectra; beside them they are zero.
///
/// # Safety
/// The host passes live tensors of these extents.
#[inline(always)]
pub(super) unsafe fn tiles_forward<const T: usize>(p: &ConvFftTilesParams) {
    let (image, packed) = (Tile::of_block(p, slots(T as u32)), Packed::<T>::new());
    let channel = image.first_channel + packed.slot as u32;
    let mut row = packed.first_line;
    while row < Packed::<T>::PAIRS {
        let rows = image_rows::<T>(p, &image, channel, row);
        let origin = anew(0) as usize;
        packed.rows_forward(row, &rows, |row, column| row.element((origin + column) as u32));
        row += packed.step;
    }
    sync_threads();
    let mut column = packed.first_line;
    while column < Packed::<T>::COLUMNS {
        let Some(first) = image.number(p, channel, column) else { break };
        packed.column_forward(column, first, anew(row_bytes::<T>(p.frequency_numbers)), |to, [re, im]| {
            // SAFETY: a frequency's matrix has a number for each image and channel.
            unsafe {
                *(to as *mut f32) = re;
                *((to as *mut f32).add(p.group_channels.divisor as usize)) = im;
            }
        });
        column += packed.step;
    }
}

/// Spectra to images.
///
/// # Safety
/// As [`tiles_forward`].
#[inline(always)]
pub(super) unsafe fn tiles_inverse<const T: usize>(p: &ConvFftTilesParams) {
    let (image, packed) = (Tile::of_block(p, slots(T as u32)), Packed::<T>::new());
    let channel = image.first_channel + packed.slot as u32;
    let mut column = packed.first_line;
    while column < Packed::<T>::COLUMNS {
        let Some(first) = image.number(p, channel, column) else { break };
        packed.column_inverse(column, first, anew(row_bytes::<T>(p.frequency_numbers)), |from| {
            let from = from as *const f32;
            // SAFETY: as in `tiles_forward`.
            unsafe { [*from, *from.add(p.group_channels.divisor as usize)] }
        });
        column += packed.step;
    }
    sync_threads();
    let mut row = packed.first_line;
    while row < Packed::<T>::PAIRS {
        let rows = image_rows::<T>(p, &image, channel, row);
        let origin = anew(0) as usize;
        packed.rows_inverse(row, &rows, (p.alpha, p.beta), |row, column| row.element((origin + column) as u32));
        row += packed.step;
    }
}

/// Filters to the matrices of their spectra.
///
/// # Safety
/// As [`tiles_forward`].
#[inline(always)]
pub(super) unsafe fn filter_forward<const T: usize>(p: &ConvFftFilterParams) {
    let packed = Packed::<T>::new();
    let pair = Pair::of(p, packed.slot, slots(T as u32));
    let mut row = packed.first_line;
    while row < Packed::<T>::PAIRS {
        let (rows, origin) = (filter_rows::<T>(p, pair.as_ref(), row), anew(0) as usize);
        packed.rows_forward(row, &rows, |row, column| tap(p, row, origin + column));
        row += packed.step;
    }
    sync_threads();
    let Some(pair) = pair else { return };
    let (half, below) = quarters(p);
    let mut column = packed.first_line;
    while column < Packed::<T>::COLUMNS {
        let first = pair.number + column as u64 * p.frequency_numbers * 4;
        packed.column_forward(column, first, anew(row_bytes::<T>(p.frequency_numbers)), |to, [re, im]| {
            // SAFETY: the four quarters of a frequency's matrix.
            unsafe {
                *(to as *mut f32) = re;
                *((to + half) as *mut f32) = -im;
                *((to + below) as *mut f32) = im;
                *((to + below + half) as *mut f32) = re;
            }
        });
        column += packed.step;
    }
}

/// Sums of products of spectra, real and imaginary parts apart, to filters.
///
/// # Safety
/// As [`tiles_forward`].
#[inline(always)]
pub(super) unsafe fn filter_inverse<const T: usize>(p: &ConvFftFilterParams) {
    let packed = Packed::<T>::new();
    let pair = Pair::of(p, packed.slot, slots(T as u32));
    let (half, below) = quarters(p);
    let mut column = packed.first_line;
    while column < Packed::<T>::COLUMNS {
        let Some(pair) = &pair else { break };
        let first = pair.number + column as u64 * p.frequency_numbers * 4;
        packed.column_inverse(column, first, anew(row_bytes::<T>(p.frequency_numbers)), |from| {
            // SAFETY: as in `filter_forward`.
            let at = |bytes: u64| unsafe { *((from + bytes) as *const f32) };
            // x conj(dy).
            [at(0) + at(below + half), at(below) - at(half)]
        });
        column += packed.step;
    }
    sync_threads();
    let mut row = packed.first_line;
    while row < Packed::<T>::PAIRS {
        let (rows, origin) = (filter_rows::<T>(p, pair.as_ref(), row), anew(0) as usize);
        packed.rows_inverse(row, &rows, (p.alpha, p.beta), |row, column| tap(p, row, origin + column));
        row += packed.step;
    }
}
