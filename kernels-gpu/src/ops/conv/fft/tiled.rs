//! Tiles of 16 × 16 or 32 × 32 positions. A thread transforms two rows at a time, as real and imaginary part of one
//! complex row, then columns, each within its registers; between the two spectra lie in shared memory, neighbouring slots
//! beside one another.

use super::line::{Line, place};
use super::operands::{Pair, Tile, quarters, row_bytes, store};
use cuda_std::thread::{sync_threads, thread_idx_x};
use kernel_abi::ops::conv::fft::{ConvFftFilterParams, ConvFftTilesParams, slots};

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

/// Tiles to their spectra; outside of the image they are zero.
///
/// # Safety
/// The host passes live tensors of these extents; `shared` holds a block's spectra.
#[inline(always)]
pub unsafe fn tiles_forward<const T: usize>(p: &ConvFftTilesParams, shared: *mut f32) {
    let (tile, spectra) = (Tile::of_block(p, slots(T as u32)), Spectra::<T>(shared));
    let channel = tile.first_channel + Spectra::<T>::own().0 as u32;
    spectra.rows_forward(Spectra::<T>::rows(|row, column| {
        match tile.row(p, channel, row as u32).element(column as u32) {
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
        if let Some(address) = tile.row(p, channel, row as u32).element(column as u32) {
            // SAFETY: the element is inside the image, and no other thread has it.
            unsafe { store(address, value, p.alpha, p.beta) }
        }
    });
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
