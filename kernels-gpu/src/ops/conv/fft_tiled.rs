//! Real two-dimensional Fourier transforms of tiles of images and of filters, and back: see `kernel_abi::ops::conv::fft`.
//!
//! A thread transforms two rows at a time, as real and imaginary part of one complex row, then columns; between the two
//! spectra lie in shared memory, neighbouring slots beside one another. Grid: one-dimensional, a block for each tile and
//! block of channels, or for so many pairs of channels. Lengths are 16 or 32, in registers.

use cuda_std::thread::{block_idx_x, sync_threads, thread_idx_x};
use kernel_abi::ops::conv::fft::{ConvFftFilterParams, ConvFftTilesParams, slots};

/// Cosines of multiples of 2π / 32.
const COSINES: [f32; 9] =
    [1.0, 0.980_785_25, 0.923_879_5, 0.831_469_6, 0.707_106_77, 0.555_570_24, 0.382_683_43, 0.195_090_32, 0.0];

/// cos(2π i / 32) for i up to 16.
#[inline(always)]
const fn cosine(i: usize) -> f32 {
    if i <= 8 { COSINES[i] } else { -COSINES[16 - i] }
}

/// sin(2π i / 32) for i up to 16.
#[inline(always)]
const fn sine(i: usize) -> f32 {
    if i <= 8 { COSINES[8 - i] } else { COSINES[i - 8] }
}

/// Where the transform leaves number `i`.
#[inline(always)]
const fn place<const T: usize>(i: usize) -> usize {
    ((i as u32).reverse_bits() >> (32 - T.trailing_zeros())) as usize
}

/// T complex numbers.
struct Line<const T: usize> {
    re: [f32; T],
    im: [f32; T],
}

impl<const T: usize> Line<T> {
    #[inline(always)]
    fn zeros() -> Self {
        Line { re: [0.0; T], im: [0.0; T] }
    }

    #[inline(always)]
    fn get(&self, i: usize) -> [f32; 2] {
        // SAFETY: callers count up to T.
        unsafe { [*self.re.get_unchecked(i), *self.im.get_unchecked(i)] }
    }

    #[inline(always)]
    fn set(&mut self, i: usize, [re, im]: [f32; 2]) {
        // SAFETY: as in `get`.
        unsafe {
            *self.re.get_unchecked_mut(i) = re;
            *self.im.get_unchecked_mut(i) = im;
        }
    }

    /// One stage: pairs that lie `LENGTH` apart (decimation in frequency).
    #[inline(always)]
    fn stage<const LENGTH: usize>(&mut self, inverse: bool) {
        let mut i = 0;
        while i < T / 2 {
            let j = i % LENGTH;
            let (a, b) = (i / LENGTH * 2 * LENGTH + j, i / LENGTH * 2 * LENGTH + j + LENGTH);
            let ([ar, ai], [br, bi]) = (self.get(a), self.get(b));
            self.set(a, [ar + br, ai + bi]);
            let (re, im) = (ar - br, ai - bi);
            let turn = j * (16 / LENGTH);
            let (c, s) = (cosine(turn), if inverse { sine(turn) } else { -sine(turn) });
            self.set(b, if turn == 0 { [re, im] } else { [re * c - im * s, re * s + im * c] });
            i += 1;
        }
    }

    /// The transform; number i is then at [`place`] i. The inverse is not divided by T.
    #[inline(always)]
    fn transform(&mut self, inverse: bool) {
        if T == 32 {
            self.stage::<16>(inverse);
        }
        self.stage::<8>(inverse);
        self.stage::<4>(inverse);
        self.stage::<2>(inverse);
        self.stage::<1>(inverse);
    }
}

/// Spectra in shared memory, `[T rows][T / 2 + 1][2][slots]`.
#[derive(Clone, Copy)]
struct Spectra<const T: usize>(*mut f32);

impl<const T: usize> Spectra<T> {
    const COLUMNS: usize = T / 2 + 1;
    const SLOTS: usize = slots(T as u32) as usize;

    const ROW_BYTES: u64 = (Self::COLUMNS * 2 * Self::SLOTS * 4) as u64;

    /// Where the real part of a number is.
    #[inline(always)]
    unsafe fn number(self, row: usize, column: usize, slot: usize) -> *mut f32 {
        self.0.add((row * Self::COLUMNS + column) * 2 * Self::SLOTS + slot)
    }

    #[inline(always)]
    unsafe fn get(self, row: usize, column: usize, slot: usize) -> [f32; 2] {
        let at = self.number(row, column, slot);
        [*at, *at.add(Self::SLOTS)]
    }

    #[inline(always)]
    unsafe fn set(self, row: usize, column: usize, slot: usize, [re, im]: [f32; 2]) {
        let at = self.number(row, column, slot);
        *at = re;
        *at.add(Self::SLOTS) = im;
    }

    /// Calls `each` with this thread's share of its slot's numbers: place and frequency.
    #[inline(always)]
    unsafe fn for_each_own(self, each: impl Fn(*mut f32, usize)) {
        let (slot, row) = Self::own();
        let mut frequency = row / 2;
        while frequency < T * Self::COLUMNS {
            each(self.number(0, frequency, slot), frequency);
            frequency += T / 2;
        }
    }

    /// This thread's slot, and the first of its two rows.
    #[inline(always)]
    fn own() -> (usize, usize) {
        let t = thread_idx_x() as usize;
        (t % Self::SLOTS, t / Self::SLOTS * 2)
    }

    /// An element of a slot's tile, which lies in the place of its spectrum before and after.
    #[inline(always)]
    unsafe fn element(self, row: usize, column: usize, slot: usize) -> *mut f32 {
        self.0.add((row * T + column) * Self::SLOTS + slot)
    }

    /// This thread's rows as one, of what `load` gives.
    #[inline(always)]
    fn rows(load: impl Fn(usize, usize) -> f32) -> Line<T> {
        let row = Self::own().1;
        let mut line = Line::<T>::zeros();
        let mut i = 0;
        while i < T {
            line.set(i, [load(row, i), load(row + 1, i)]);
            i += 1;
        }
        line
    }

    /// Transforms this thread's rows.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    unsafe fn rows_forward(self, mut line: Line<T>) {
        let (slot, row) = Self::own();
        line.transform(false);
        let mut v = 0;
        while v < T / 2 + 1 {
            // Of two real rows z = a + i b: A = (Z[v] + conj Z[-v]) / 2, B = (Z[v] - conj Z[-v]) / 2i.
            let ([zr, zi], [cr, ci]) = (line.get(place::<T>(v)), line.get(place::<T>((T - v) % T)));
            self.set(row, v, slot, [0.5 * (zr + cr), 0.5 * (zi - ci)]);
            self.set(row + 1, v, slot, [0.5 * (zi + ci), 0.5 * (cr - zr)]);
            v += 1;
        }
    }

    /// Transforms the columns. `first` says where a column's first number goes, from the slot and the column, the others
    /// follow `row_bytes` apart, and `write` writes one.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    unsafe fn columns_forward(
        self,
        row_bytes: u64,
        first: impl Fn(usize, usize) -> Option<u64>,
        write: impl Fn(u64, [f32; 2]),
    ) {
        let mut item = thread_idx_x() as usize;
        while item < Self::COLUMNS * Self::SLOTS {
            let (v, slot) = (item / Self::SLOTS, item % Self::SLOTS);
            if let Some(mut to) = first(slot, v) {
                let mut line = Line::<T>::zeros();
                let mut i = 0;
                while i < T {
                    line.set(i, self.get(i, v, slot));
                    i += 1;
                }
                line.transform(false);
                let mut i = 0;
                while i < T {
                    write(to, line.get(i));
                    to += row_bytes;
                    i += 1;
                }
            }
            item += Self::SLOTS * T / 2;
        }
    }

    /// Transforms columns back, with `read` for each number in the places of `columns_forward`; zeros where there is none.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    unsafe fn columns_inverse(
        self,
        row_bytes: u64,
        first: impl Fn(usize, usize) -> Option<u64>,
        read: impl Fn(u64) -> [f32; 2],
    ) {
        let mut item = thread_idx_x() as usize;
        while item < Self::COLUMNS * Self::SLOTS {
            let (v, slot) = (item / Self::SLOTS, item % Self::SLOTS);
            let mut line = Line::<T>::zeros();
            if let Some(mut from) = first(slot, v) {
                let mut i = 0;
                while i < T {
                    line.set(place::<T>(i), read(from));
                    from += row_bytes;
                    i += 1;
                }
            }
            line.transform(true);
            let mut i = 0;
            while i < T {
                self.set(i, v, slot, line.get(place::<T>(i)));
                i += 1;
            }
            item += Self::SLOTS * T / 2;
        }
    }

    /// Transforms this thread's rows back.
    ///
    /// # Safety
    /// As the kernels.
    #[inline(always)]
    unsafe fn rows_inverse(self) -> Line<T> {
        let (slot, row) = Self::own();
        let mut line = Line::<T>::zeros();
        let mut v = 0;
        while v < T / 2 + 1 {
            // Z = A + i B, and conj A + i conj B on the other side.
            let ([ar, ai], [br, bi]) = (self.get(row, v, slot), self.get(row + 1, v, slot));
            if v == 0 || v == T / 2 {
                line.set(v, [ar, br]);
            } else {
                line.set(v, [ar - bi, ai + br]);
                line.set(T - v, [ar + bi, br - ai]);
            }
            v += 1;
        }
        line.transform(true);
        line
    }

    /// Hands the elements of transformed rows to `store`: row, column.
    #[inline(always)]
    fn store_rows(line: &Line<T>, store: impl Fn(usize, usize, f32)) {
        let row = Self::own().1;
        let mut i = 0;
        while i < T {
            let [a, b] = line.get(place::<T>(i));
            store(row, i, a);
            store(row + 1, i, b);
            i += 1;
        }
    }
}

/// A block's tile and this thread's view of it.
struct Tile {
    /// The first element of the image, at channel 0.
    image: u64,
    /// Where the tile begins.
    begin: [i32; 2],
    /// Its row of the matrices, in bytes from the first number.
    row: u64,
    first_channel: u32,
}

impl Tile {
    #[inline(always)]
    fn of_block(p: &ConvFftTilesParams, slots: u32) -> Self {
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

    /// Address of an element, where it is inside the image and the part of the tile that counts.
    #[inline(always)]
    fn element(&self, p: &ConvFftTilesParams, channel: u32, row: u32, column: u32) -> Option<u64> {
        let (h, w) = ((self.begin[0] + row as i32) as u32, (self.begin[1] + column as i32) as u32);
        let counts = row < p.region[0] && column < p.region[1] && channel < p.channels;
        // Positions below 0 are large as unsigned numbers.
        if !counts || h >= p.extents[0] || w >= p.extents[1] {
            return None;
        }
        let [_, c, down, across] = p.strides;
        let at = i64::from(channel) * c + i64::from(h) * down + i64::from(w) * across;
        Some(self.image + at as u64 * 4)
    }

    /// Address of a channel's real part at a frequency, where there is such a channel.
    #[inline(always)]
    fn number(&self, p: &ConvFftTilesParams, channel: u32, frequency: usize) -> Option<u64> {
        if channel >= p.channels {
            return None;
        }
        let (group, c) = p.group_channels.div_rem(channel);
        let column = group * 2 * p.group_channels.divisor + c;
        Some(p.spectra + (frequency as u64 * p.frequency_numbers + u64::from(column)) * 4 + self.row)
    }
}

/// Tiles to their spectra; outside of the image they are zero.
///
/// # Safety
/// The host passes live tensors of these extents; `shared` holds a block's spectra.
#[inline(always)]
pub unsafe fn tiles_forward<const T: usize>(p: &ConvFftTilesParams, shared: *mut f32) {
    let (tile, spectra) = (Tile::of_block(p, slots(T as u32)), Spectra::<T>(shared));
    let channel = tile.first_channel + Spectra::<T>::own().0 as u32;
    spectra.rows_forward(Spectra::<T>::rows(|row, column| {
        match tile.element(p, channel, row as u32, column as u32) {
            // SAFETY: the element is inside the image.
            Some(address) => unsafe { *(address as *const f32) },
            None => 0.0,
        }
    }));
    sync_threads();
    let first = |slot: usize, v: usize| tile.number(p, tile.first_channel + slot as u32, v);
    spectra.columns_forward(row_bytes::<T>(p.frequency_numbers), first, |to, [re, im]| {
        // SAFETY: a frequency's matrix has a number for each tile and channel.
        unsafe {
            *(to as *mut f32) = re;
            *((to as *mut f32).add(p.group_channels.divisor as usize)) = im;
        }
    });
}

/// Spectra to tiles.
///
/// # Safety
/// As [`tiles_forward`].
#[inline(always)]
pub unsafe fn tiles_inverse<const T: usize>(p: &ConvFftTilesParams, shared: *mut f32) {
    let (tile, spectra) = (Tile::of_block(p, slots(T as u32)), Spectra::<T>(shared));
    let first = |slot: usize, v: usize| tile.number(p, tile.first_channel + slot as u32, v);
    spectra.columns_inverse(row_bytes::<T>(p.frequency_numbers), first, |from| {
        let from = from as *const f32;
        // SAFETY: as in `tiles_forward`.
        unsafe { [*from, *from.add(p.group_channels.divisor as usize)] }
    });
    sync_threads();
    let channel = tile.first_channel + Spectra::<T>::own().0 as u32;
    Spectra::<T>::store_rows(&spectra.rows_inverse(), |row, column, value| {
        if let Some(address) = tile.element(p, channel, row as u32, column as u32) {
            // SAFETY: the element is inside the image, and no other thread has it.
            unsafe { store(address, value, p.alpha, p.beta) }
        }
    });
}

#[inline(always)]
unsafe fn store(address: u64, value: f32, alpha: f32, beta: f32) {
    let to = address as *mut f32;
    *to = if beta == 0.0 { alpha * value } else { alpha * value + beta * *to };
}

/// A pair of channels of a filter.
struct Pair {
    /// The first tap.
    taps: u64,
    /// Its real part at the first frequency.
    number: u64,
}

/// Bytes from a row of frequencies to the next.
#[inline(always)]
fn row_bytes<const T: usize>(frequency_numbers: u64) -> u64 {
    (T / 2 + 1) as u64 * frequency_numbers * 4
}

/// Bytes from the real part to the other column and to the other row that a pair has in a matrix.
#[inline(always)]
fn quarters(p: &ConvFftFilterParams) -> (u64, u64) {
    let half = u64::from(p.columns.divisor) * 4;
    (half, 2 * half * u64::from(p.rows.divisor))
}

impl Pair {
    #[inline(always)]
    fn of(p: &ConvFftFilterParams, slot: usize, slots: u32) -> Option<Self> {
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
    fn for_each_tap(&self, p: &ConvFftFilterParams, slots: usize, size: usize, each: impl Fn(u64, usize, usize)) {
        let mut tap = thread_idx_x() / slots as u32;
        let [taps_r, taps_s] = p.taps;
        while tap < taps_r * taps_s {
            let (r, s) = p.taps_across.div_rem(tap);
            let (to_r, to_s) = if p.flip != 0 { (taps_r - 1 - r, taps_s - 1 - s) } else { (r, s) };
            let offset = i64::from(r) * p.strides[2] + i64::from(s) * p.strides[3];
            each(self.taps + offset as u64 * 4, (to_r * p.spacing[0]) as usize, (to_s * p.spacing[1]) as usize);
            tap += size as u32 / 2;
        }
    }
}

/// Filters to the matrices of their spectra.
///
/// # Safety
/// As [`tiles_forward`].
#[inline(always)]
pub unsafe fn filter_forward<const T: usize>(p: &ConvFftFilterParams, shared: *mut f32) {
    let spectra = Spectra::<T>(shared);
    let slot = Spectra::<T>::own().0;
    let mut i = thread_idx_x() as usize;
    while i < T * T * Spectra::<T>::SLOTS {
        *shared.add(i) = 0.0;
        i += Spectra::<T>::SLOTS * T / 2;
    }
    sync_threads();
    if let Some(pair) = Pair::of(p, slot, slots(T as u32)) {
        pair.for_each_tap(p, Spectra::<T>::SLOTS, T, |from, row, column| {
            // SAFETY: the tap exists, and its position is inside the tile.
            unsafe { *spectra.element(row, column, slot) = *(from as *const f32) }
        });
    }
    sync_threads();
    // SAFETY: rows and columns of the tile.
    let line = Spectra::<T>::rows(|row, column| unsafe { *spectra.element(row, column, slot) });
    sync_threads();
    spectra.rows_forward(line);
    sync_threads();
    let in_place = |slot: usize, v: usize| Some(spectra.number(0, v, slot) as u64);
    spectra.columns_forward(Spectra::<T>::ROW_BYTES, in_place, |to, [re, im]| {
        let to = to as *mut f32;
        // SAFETY: this thread's column.
        unsafe {
            *to = re;
            *to.add(Spectra::<T>::SLOTS) = im;
        }
    });
    sync_threads();
    let Some(pair) = Pair::of(p, slot, slots(T as u32)) else { return };
    let (half, below) = quarters(p);
    spectra.for_each_own(|from, frequency| {
        let to = pair.number + frequency as u64 * p.frequency_numbers * 4;
        // SAFETY: the four quarters of a frequency's matrix.
        unsafe {
            let (re, im) = (*from, *from.add(Spectra::<T>::SLOTS));
            *(to as *mut f32) = re;
            *((to + half) as *mut f32) = -im;
            *((to + below) as *mut f32) = im;
            *((to + below + half) as *mut f32) = re;
        }
    });
}

/// Sums of products of spectra, real and imaginary parts apart, to filters.
///
/// # Safety
/// As [`tiles_forward`].
#[inline(always)]
pub unsafe fn filter_inverse<const T: usize>(p: &ConvFftFilterParams, shared: *mut f32) {
    let spectra = Spectra::<T>(shared);
    let slot = Spectra::<T>::own().0;
    let pair = Pair::of(p, slot, slots(T as u32));
    let (half, below) = quarters(p);
    spectra.for_each_own(|to, frequency| {
        // SAFETY: as in `filter_forward`.
        unsafe {
            let mut sums = [0.0; 2];
            if let Some(pair) = &pair {
                let from = pair.number + frequency as u64 * p.frequency_numbers * 4;
                let at = |bytes: u64| *((from + bytes) as *const f32);
                // x conj(dy).
                sums = [at(0) + at(below + half), at(below) - at(half)];
            }
            *to = sums[0];
            *to.add(Spectra::<T>::SLOTS) = sums[1];
        }
    });
    sync_threads();
    let in_place = |slot: usize, v: usize| Some(spectra.number(0, v, slot) as u64);
    spectra.columns_inverse(Spectra::<T>::ROW_BYTES, in_place, |from| {
        let from = from as *const f32;
        // SAFETY: this thread's column.
        unsafe { [*from, *from.add(Spectra::<T>::SLOTS)] }
    });
    sync_threads();
    let line = spectra.rows_inverse();
    sync_threads();
    // SAFETY: rows and columns of the tile.
    Spectra::<T>::store_rows(&line, |row, column, value| unsafe { *spectra.element(row, column, slot) = value });
    sync_threads();
    if let Some(pair) = &pair {
        pair.for_each_tap(p, Spectra::<T>::SLOTS, T, |to, row, column| {
            // SAFETY: as in `filter_forward`; no other thread has this tap.
            unsafe { store(to, *spectra.element(row, column, slot), p.alpha, p.beta) }
        });
    }
}
