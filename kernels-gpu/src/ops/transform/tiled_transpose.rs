//! Transposes matrices tile by tile through shared memory, 16 bytes an access of global memory on both sides whatever
//! the alignment of rows and columns.
//!
//! Grid: exact, a block for each tile. Block: 256 threads. Shared memory: dynamic, `TransposeParams::shared_bytes`: the
//! rows of the tile, each where the 16 bytes with its first element begin. The loads do not wait for one another. Rows at
//! multiples of 8 bytes are read so, and laid to multiples of 16 where matrices can be read transposed.
//! Columns that make one run in memory are first laid side by side in shared memory, behind the tile, whatever 16 bytes
//! or sectors of 32 each of them begins in; rows that are one run come to shared memory as they lie.
//! `E` is the size of an element, 2 or 4 bytes; with `BULK` the copy engine writes such runs of columns (Hopper).

use cuda_std::memory;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{barrier, cp_async, ldmatrix, schedule, shared, thread, tma};
use kernel_abi::ops::transform::{
    STORE_GATHERED, STORE_MATRICES, STORE_MATRICES_NARROW, STORE_RUN, STORE_STAGED, TRANSPOSE_THREADS, TransposeParams,
};

/// Bytes of an access.
const CHUNK: u32 = 16;

/// The same where rows that are read begin at multiples of 8.
const NARROW_CHUNK: u32 = 8;

/// A block's part of a matrix.
struct Tile<'a> {
    p: &'a TransposeParams,
    shared: u32,
    /// Its first element in the tensor that is read.
    from: u64,
    /// Its first element in the tensor that is written.
    to: u64,
    n_rows: u32,
    n_cols: u32,
    /// Bytes from row to row of the tensor that is read.
    row_bytes: u64,
}

/// y = x, transposed.
///
/// # Safety
/// The host passes live tensors, and shared memory for a tile.
#[inline(always)]
pub unsafe fn forward<const E: u32, const BULK: bool>(p: &TransposeParams) {
    let least = |a: u32, b: u32| if a < b { a } else { b };
    let (rest, row_tile) = p.row_tiles.div_rem(block_idx_x());
    let (matrix, col_tile) = p.col_tiles.div_rem(rest);
    let (row, col) = (row_tile * p.tile_rows, col_tile * p.tile_cols);
    let offset = |matrix_stride: i64, outer: u32, pitch: i64, inner: u32| {
        (i64::from(matrix) * matrix_stride + i64::from(outer) * pitch + i64::from(inner)) as u64 * u64::from(E)
    };
    let tile = Tile {
        p,
        shared: shared::dynamic_address(),
        from: p.from + offset(p.from_matrix, row, p.from_pitch, col),
        to: p.to + offset(p.to_matrix, col, p.to_pitch, row),
        n_rows: least(p.tile_rows, p.rows - row),
        n_cols: least(p.tile_cols, p.cols - col),
        row_bytes: p.from_pitch as u64 * u64::from(E),
    };
    let narrow = E == 2 && p.store == STORE_MATRICES_NARROW;
    let staged = E == 2 && p.store == STORE_STAGED;
    if p.store == STORE_GATHERED {
        tile.load_run();
    } else if narrow {
        tile.load_rows::<NARROW_CHUNK>();
    } else if staged {
        tile.load_rows::<CHUNK>();
    } else {
        tile.load::<E>();
    }
    cp_async::wait_all();
    thread::sync_threads();
    if staged {
        tile.stage();
        if BULK && (tile.n_cols * p.rows).is_multiple_of(CHUNK / 2) {
            tile.store_staged_at_once();
        } else {
            thread::sync_threads();
            tile.store_staged();
        }
    } else if p.store == STORE_GATHERED {
        tile.store_gathered::<E>();
    } else if p.store == STORE_RUN {
        tile.store_run::<E>();
    } else if narrow || E == 2 && p.store == STORE_MATRICES {
        tile.store_matrices();
    } else {
        tile.store_columns::<E>();
    }
}

impl Tile<'_> {
    /// Brings the rows to shared memory, with what lies around them in the same 16 bytes.
    ///
    /// # Safety
    /// As [`forward`].
    #[inline(always)]
    unsafe fn load<const E: u32>(&self) {
        let n = self.n_rows * self.p.row_chunks.divisor;
        let mut i = thread_idx_x();
        while i < n {
            let (row, chunk) = self.p.row_chunks.div_rem(i);
            let begin = self.from + u64::from(row) * self.row_bytes;
            let skip = begin as u32 % CHUNK;
            let from = begin - u64::from(skip) + u64::from(chunk * CHUNK);
            let to = self.shared + self.p.shared_row(row) + chunk * CHUNK;
            if chunk * CHUNK < skip + self.n_cols * E {
                if from >= self.p.from && from + u64::from(CHUNK) <= self.p.from_end {
                    cp_async::copy_x4(to, from as *const u8, CHUNK);
                } else {
                    // Memory around the tensor may be another's.
                    let mut byte = 0;
                    while byte < CHUNK {
                        let at = from + u64::from(byte);
                        if at >= self.p.from && at < self.p.from_end {
                            store_element::<E>(to + byte, at);
                        }
                        byte += E;
                    }
                }
            }
            i += TRANSPOSE_THREADS;
        }
    }

    /// Brings the rows to shared memory, each to a multiple of 16 bytes, so that matrices can be read there; elements are
    /// of 2 bytes, an access is of `BYTES`, 8 or 16.
    ///
    /// # Safety
    /// As [`forward`]; rows begin at multiples of `BYTES`.
    #[inline(always)]
    unsafe fn load_rows<const BYTES: u32>(&self) {
        let n = self.n_rows * self.p.row_chunks.divisor;
        let mut i = thread_idx_x();
        while i < n {
            let (row, chunk) = self.p.row_chunks.div_rem(i);
            let from = self.from + u64::from(row) * self.row_bytes + u64::from(chunk * BYTES);
            let to = self.shared + self.p.shared_row(row) + chunk * BYTES;
            if chunk * BYTES < self.n_cols * 2 {
                // Of the last row's end, only what there is.
                let left = self.p.from_end - from;
                let there = if left < u64::from(BYTES) { left as u32 } else { BYTES };
                if BYTES == CHUNK {
                    cp_async::copy_x4(to, from as *const u8, there);
                } else {
                    cp_async::copy_x2(to, from as *const u8, there);
                }
            }
            i += TRANSPOSE_THREADS;
        }
    }

    /// Brings the rows, which have no gaps between them, to shared memory as they lie.
    ///
    /// # Safety
    /// As [`forward`]; they are a multiple of 16 bytes and begin at one.
    #[inline(always)]
    unsafe fn load_run(&self) {
        let n = self.n_rows * self.p.shared_pitch;
        let mut at = thread_idx_x() * CHUNK;
        while at < n {
            cp_async::copy_x4(self.shared + at, (self.from + u64::from(at)) as *const u8, CHUNK);
            at += TRANSPOSE_THREADS * CHUNK;
        }
    }

    /// An element in shared memory, in the low bits.
    ///
    /// # Safety
    /// As [`forward`]; the element is there.
    #[inline(always)]
    unsafe fn element<const E: u32>(&self, row: u32, col: u32) -> u32 {
        let skip = (self.from as u32 + row * self.row_bytes as u32) % CHUNK;
        let at = self.shared + self.p.shared_row(row) + skip + col * E;
        if E == 2 { u32::from(shared::load_u16(at)) } else { shared::load_u32(at) }
    }

    /// Writes column after column.
    ///
    /// # Safety
    /// As [`forward`].
    #[inline(always)]
    unsafe fn store_columns<const E: u32>(&self) {
        let n = self.n_cols * self.p.col_chunks.divisor;
        let mut i = thread_idx_x();
        while i < n {
            let (col, chunk) = self.p.col_chunks.div_rem(i);
            let to = self.to + u64::from(col) * self.p.to_pitch as u64 * u64::from(E);
            let skip = to as u32 % CHUNK / E;
            let first = (chunk * (CHUNK / E)) as i32 - skip as i32;
            self.store::<E>(to, first, self.n_rows, |row| (row, col), |row, col| (row + 1, col));
            i += TRANSPOSE_THREADS;
        }
    }

    /// Writes all columns as one run.
    ///
    /// # Safety
    /// As [`forward`].
    #[inline(always)]
    unsafe fn store_run<const E: u32>(&self) {
        let (n_rows, n) = (self.n_rows, self.n_cols * self.n_rows);
        let skip = self.to as u32 % CHUNK / E;
        let mut first = (thread_idx_x() * (CHUNK / E)) as i32 - skip as i32;
        let place = |at: u32| {
            let (col, row) = self.p.col_chunks.div_rem(at);
            (row, col)
        };
        let next = |row: u32, col: u32| if row + 1 < n_rows { (row + 1, col) } else { (0, col + 1) };
        while first < n as i32 {
            self.store::<E>(self.to, first, n, place, next);
            first += (TRANSPOSE_THREADS * (CHUNK / E)) as i32;
        }
    }

    /// Writes 16 bytes: elements `first` and on of the `n` that lie at `to`, of which some may not be there.
    ///
    /// # Safety
    /// As [`forward`]; `place` gives row and column of an element, `next` those of the element behind one.
    #[inline(always)]
    unsafe fn store<const E: u32>(
        &self,
        to: u64,
        first: i32,
        n: u32,
        place: impl Fn(u32) -> (u32, u32),
        next: impl Fn(u32, u32) -> (u32, u32),
    ) {
        let count = CHUNK / E;
        let address = (to as i64 + i64::from(first) * i64::from(E)) as u64;
        if first >= 0 && first as u32 + count <= n {
            let (mut row, mut col) = place(first as u32);
            let mut words = [0u32; 4];
            let mut i = 0;
            while i < 4 {
                let mut word = self.element::<E>(row, col);
                (row, col) = next(row, col);
                if E == 2 {
                    word |= self.element::<E>(row, col) << 16;
                    (row, col) = next(row, col);
                }
                *words.get_unchecked_mut(i) = word;
                i += 1;
            }
            memory::store_x4(address as *mut u32, words);
            return;
        }
        let mut i = 0;
        while i < count {
            let at = first + i as i32;
            if at >= 0 && (at as u32) < n {
                let (row, col) = place(at as u32);
                let value = self.element::<E>(row, col);
                let to = address + u64::from(i * E);
                if E == 2 {
                    *(to as *mut u16) = value as u16;
                } else {
                    *(to as *mut u32) = value;
                }
            }
            i += 1;
        }
    }

    /// Writes by matrices of 8 by 8 elements of 2 bytes, which come transposed from shared memory: a warp's are 32 rows
    /// of 8 columns, and a lane has 8 rows of one of them.
    ///
    /// # Safety
    /// As [`forward`].
    #[inline(always)]
    unsafe fn store_matrices(&self) {
        let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
        let row_groups = self.n_rows.div_ceil(32);
        // A lane gets two elements of each of four matrices: rows are dealt to them so that its eight are neighbours.
        let (matrix, i) = (lane / 8, lane % 8);
        let from_row = i / 2 * 8 + matrix * 2 + i % 2;
        let col_groups = self.n_cols.div_ceil(8);
        let (mut row_group, mut col_group) = (0, warp);
        loop {
            while col_group >= col_groups {
                col_group -= col_groups;
                row_group += 1;
            }
            if row_group >= row_groups {
                break;
            }
            let from = self.shared + self.p.shared_row(row_group * 32 + from_row);
            let (row, col) = (row_group * 32 + lane % 4 * 8, col_group * 8);
            let words = ldmatrix::load_x4_transposed(from + col * 2);
            if row < self.n_rows && col + lane / 4 < self.n_cols {
                let to = self.to + (u64::from(col + lane / 4) * self.p.to_pitch as u64 + u64::from(row)) * 2;
                memory::store_x4(to as *mut u32, words);
            }
            col_group += TRANSPOSE_THREADS / 32;
        }
    }

    /// Makes the run of all columns in shared memory, of matrices of 8 by 8 elements of 2 bytes, which come transposed: a
    /// warp takes four at a time, and a lane has 8 rows of a column of one of them.
    ///
    /// # Safety
    /// As [`forward`].
    #[inline(always)]
    unsafe fn stage(&self) {
        let p = self.p;
        let (warp, lane) = (thread_idx_x() / 32, thread_idx_x() % 32);
        let column = p.rows * 2;
        // A lane gets two elements of each of what the instruction takes for four matrices: rows of ours are dealt to
        // them so that its eight are neighbours.
        let (part, i) = (lane / 8, lane % 8);
        let from = self.shared + (part * 2 + i % 2) * p.shared_pitch;
        let to = self.shared + p.staged_at() + lane / 4 * column;
        let n = p.col_chunks.divisor * self.n_cols.div_ceil(8);
        let mut round = warp;
        while round / 2 * 8 < n {
            // Of eight that follow one another along the rows every second: columns are an odd multiple of 8 or 16 bytes
            // apart where they are written, and pieces of 16 bytes every 32 then lie in different banks.
            let first = round / 2 * 8 + round % 2;
            // Beyond the last it is read once more.
            let read = first + i / 2 * 2;
            let (cols, rows) = p.col_chunks.div_rem(if read < n { read } else { n - 1 });
            let words = ldmatrix::load_x4_transposed(from + rows * p.shared_row(8) + cols * 16);
            let got = first + lane % 4 * 2;
            let (cols, rows) = p.col_chunks.div_rem(got);
            if got < n && cols * 8 + lane / 4 < self.n_cols {
                stage_column(to + cols * 8 * column + rows * 16, words, p.rows - rows * 8, p.rows);
            }
            round += TRANSPOSE_THREADS / 32;
        }
    }

    /// Writes the run that was made in shared memory.
    ///
    /// # Safety
    /// As [`forward`].
    #[inline(always)]
    unsafe fn store_staged(&self) {
        let (staged, n) = (self.shared + self.p.staged_at(), self.n_cols * self.p.rows * 2);
        let mut at = thread_idx_x() * CHUNK;
        while at < n {
            let to = self.to + u64::from(at);
            if at + CHUNK <= n {
                memory::store_x4(to as *mut u32, shared::load_x4(staged + at));
            } else {
                let mut byte = 0;
                while at + byte < n {
                    *((to + u64::from(byte)) as *mut u16) = shared::load_u16(staged + at + byte);
                    byte += 2;
                }
            }
            at += TRANSPOSE_THREADS * CHUNK;
        }
    }

    /// The same by the copy engine, when all threads have made their part.
    ///
    /// # Safety
    /// As [`forward`]; the run is a multiple of 16 bytes.
    #[inline(always)]
    unsafe fn store_staged_at_once(&self) {
        barrier::fence_proxy_async_shared();
        thread::sync_threads();
        if thread_idx_x() == 0 {
            tma::store_bytes(self.to as *mut u8, self.shared + self.p.staged_at(), self.n_cols * self.p.rows * 2);
            tma::commit_group();
            // Shared memory is there until it is read.
            tma::wait_group_read::<0>();
        }
    }

    /// Writes columns of rows that lie without gaps: eight threads have 128 bytes of a column, a warp those of four, whose
    /// elements lie in different banks where rows are an odd number of elements.
    ///
    /// # Safety
    /// As [`forward`]; columns are multiples of 16 bytes and begin at one.
    #[inline(always)]
    unsafe fn store_gathered<const E: u32>(&self) {
        let p = self.p;
        let count = CHUNK / E;
        let n = self.n_rows.div_ceil(8 * count) * p.cols;
        let mut i = thread_idx_x() / 8;
        while i < n {
            let (eights, col) = p.col_chunks.div_rem(i);
            let row = (eights * 8 + thread_idx_x() % 8) * count;
            if row < self.n_rows {
                // Opaque: else each row's place is multiplied anew, where an addition does.
                let mut at = schedule::opaque(self.shared + row * p.shared_pitch + col * E);
                let mut words = [0u32; 4];
                let mut i = 0;
                while i < 4 {
                    *words.get_unchecked_mut(i) = if E == 2 {
                        let (low, high) = (shared::load_u16(at), shared::load_u16(at + p.shared_pitch));
                        at += 2 * p.shared_pitch;
                        u32::from(low) | u32::from(high) << 16
                    } else {
                        at += p.shared_pitch;
                        shared::load_u32(at - p.shared_pitch)
                    };
                    i += 1;
                }
                let to = self.to + (u64::from(col) * p.to_pitch as u64 + u64::from(row)) * u64::from(E);
                memory::store_x4(to as *mut u32, words);
            }
            i += TRANSPOSE_THREADS / 8;
        }
    }
}

/// Puts 8 elements of 2 bytes, or the 4 that are `left`, at `to` in shared memory, which is as aligned as a multiple of
/// `run` elements, a multiple of 4.
///
/// # Safety
/// As [`forward`].
#[inline(always)]
unsafe fn stage_column(to: u32, words: [u32; 4], left: u32, run: u32) {
    if run.is_multiple_of(8) {
        shared::store_x4(to, words);
        return;
    }
    let [a, b, c, d] = words;
    shared::store_x2(to, [a, b]);
    if left > 4 {
        shared::store_x2(to + 8, [c, d]);
    }
}

/// Copies an element from global to shared memory.
///
/// # Safety
/// As [`forward`]; the element is there.
#[inline(always)]
unsafe fn store_element<const E: u32>(to: u32, from: u64) {
    if E == 2 {
        shared::store_u16(to, *(from as *const u16));
    } else {
        shared::store_u32(to, *(from as *const u32));
    }
}
