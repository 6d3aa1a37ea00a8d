//! Tensor-core matmul by `mma.sync`, for every GPU from compute capability 8.0 on and operands of any strides.
//!
//! Grid: a block for each slice of each tile. Its warps form a grid over the tile; each computes blocks of 16 × 8 from
//! fragments that `ldmatrix` reads. Shared memory: dynamic, a ring of stages with a's and b's tiles, in chunks of 8
//! elements.
//!
//! Where k is contiguous, a tile lies `[mn][32 k]`, else `[32 k][mn]`, and is then read transposed. Chunks are permuted
//! within their row so that eight rows at one chunk lie in different banks. A chunk comes by asynchronous copies of 16
//! or 4 bytes where its address allows, else through registers: by words and a shift where the elements are
//! contiguous, or one by one. Outside the matrices it is zero.

use cuda_std::barrier::sync_threads;
use cuda_std::memory::{X2, X4};
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{cp_async, ldmatrix, shared};
use kernel_abi::division::div_rem_unless_below;
use kernel_abi::ops::matmul::{MatmulBlockParams, MatmulBlockTile, MatmulOperand, Place, Raster};

/// The products of one kernel: type, tile, orientations.
pub(super) trait Product {
    const TILE: MatmulBlockTile;
    /// Warps along the rows; the others stand along the columns.
    const WARP_ROWS: u32;
    const A_IS_MN_MAJOR: bool;
    const B_IS_MN_MAJOR: bool;

    /// D += A B for 16 × 8 × 16.
    fn multiply(d: &mut [f32; 4], a: [u32; 4], b: [u32; 2]);

    /// An element of a number.
    fn narrow(value: f32) -> u16;

    /// An element as a number.
    fn widen(bits: u16) -> f32;
}

/// Bytes and elements of a chunk.
const CHUNK_BYTES: u32 = 16;
const CHUNK: u32 = 8;
/// Chunks of each operand's tile that a thread loads.
const CHUNKS: usize = 2;
/// Blocks of 8 columns of a warp.
const N_BLOCKS: usize = 4;

/// How one operand's tile gets from memory into a stage, by one thread.
struct Loader {
    /// Where this thread's chunks begin in the first block of k.
    from: [u64; CHUNKS],
    /// Where they go, from the start of the operand's tile on.
    to: [u32; CHUNKS],
    /// Elements of each chunk inside the matrix along the dimension that is not k: all, none, or of the last chunk some.
    inside: [u32; CHUNKS],
    /// Index of each chunk along k, within a block of k.
    k: [u32; CHUNKS],
    /// Bytes from a block of k to the next.
    step: u64,
    /// Elements between those of a chunk.
    inner_stride: i64,
    load_bytes: u32,
}

/// Chunks under way through registers.
type Held = [[u32; 4]; CHUNKS];

impl Loader {
    /// For the tile of `width` rows or columns from `mn` on.
    #[inline(always)]
    fn new(
        tile: MatmulBlockTile,
        is_mn_major: bool,
        width: u32,
        matrix: u64,
        (mn_stride, k_stride): (i64, i64),
        (mn, mn_end): (u32, u32),
        load_bytes: u32,
    ) -> Self {
        let (mut from, mut to) = ([0; CHUNKS], [0; CHUNKS]);
        let (mut inside, mut at_k) = ([0; CHUNKS], [0; CHUNKS]);
        let row_chunks = if is_mn_major { width / CHUNK } else { tile.gemm_k / CHUNK };
        let mut i = 0;
        while i < CHUNKS {
            let chunk = thread_idx_x() + i as u32 * tile.threads;
            let (row, col) = (chunk / row_chunks, chunk % row_chunks);
            let (own_mn, own_k) = if is_mn_major { (mn + col * CHUNK, row) } else { (mn + row, col * CHUNK) };
            let left = if own_mn < mn_end { mn_end - own_mn } else { 0 };
            // SAFETY: `i` is below the length of all of these.
            unsafe {
                *from.get_unchecked_mut(i) =
                    matrix + (i64::from(own_mn) * mn_stride + i64::from(own_k) * k_stride) as u64 * 2;
                *to.get_unchecked_mut(i) =
                    row * row_chunks * CHUNK_BYTES + permuted(is_mn_major, row, col) * CHUNK_BYTES;
                *inside.get_unchecked_mut(i) = if !is_mn_major && left > 0 { CHUNK } else { least(left, CHUNK) };
                *at_k.get_unchecked_mut(i) = own_k;
            }
            i += 1;
        }
        let step = (k_stride * i64::from(tile.gemm_k)) as u64 * 2;
        let inner_stride = if is_mn_major { mn_stride } else { k_stride };
        Loader { from, to, inside, k: at_k, step, inner_stride, load_bytes }
    }

    /// Goes on to block `block` of k.
    #[inline(always)]
    fn skip(&mut self, block: u32) {
        self.from[0] += self.step * u64::from(block);
        self.from[1] += self.step * u64::from(block);
    }

    /// Begins to load the next block, of which `k_left` elements are left along k; gives what comes through registers.
    ///
    /// # Safety
    /// As [`run`]; `tile` is the operand's tile in a stage that nobody reads.
    #[inline(always)]
    unsafe fn begin(&mut self, is_mn_major: bool, tile: u32, k_left: u32) -> Held {
        let mut held = [[0; 4]; CHUNKS];
        held[0] = self.begin_chunk::<0>(is_mn_major, tile, k_left);
        held[1] = self.begin_chunk::<1>(is_mn_major, tile, k_left);
        held
    }

    /// # Safety
    /// As [`Loader::begin`].
    #[inline(always)]
    unsafe fn begin_chunk<const I: usize>(&mut self, is_mn_major: bool, tile: u32, k_left: u32) -> [u32; 4] {
        let left = if self.k[I] < k_left { k_left - self.k[I] } else { 0 };
        // Along k, or whole rows of it.
        let count = if is_mn_major { if left > 0 { self.inside[I] } else { 0 } } else { least(left, self.inside[I]) };
        let (from, to) = (self.from[I], tile + self.to[I]);
        self.from[I] += self.step;
        if self.load_bytes == 16 {
            cp_async::copy_x4(to, from as *const u8, 2 * count);
            return [0; 4];
        }
        if self.load_bytes >= 4 {
            let word = |i: u32| {
                let valid = if count > 2 * i { least(2 * (count - 2 * i), 4) } else { 0 };
                // SAFETY: the caller's promise.
                unsafe { cp_async::copy_x1(to + 4 * i, (from + 4 * u64::from(i)) as *const u8, valid) };
            };
            word(0);
            word(1);
            word(2);
            word(3);
            return [0; 4];
        }
        if self.load_bytes == 2 {
            return words(from, count);
        }
        elements(from, self.inner_stride, count)
    }

    /// Stores what came through registers.
    ///
    /// # Safety
    /// As [`Loader::begin`], whose result `held` is.
    #[inline(always)]
    unsafe fn end(&self, tile: u32, held: &Held) {
        if self.load_bytes < 4 {
            shared::store_x4(tile + self.to[0], held[0]);
            shared::store_x4(tile + self.to[1], held[1]);
        }
    }
}

/// The place of chunk `col` of a tile's row. Where k is contiguous, two rows make 128 bytes, which all banks hold.
#[inline(always)]
fn permuted(is_mn_major: bool, row: u32, col: u32) -> u32 {
    if is_mn_major { col ^ (row % 8) } else { col ^ (row / 2 % 4) }
}

#[inline(always)]
fn least(a: u32, b: u32) -> u32 {
    if a < b { a } else { b }
}

/// The first `count` of eight contiguous elements, at any address, zeros behind them.
///
/// # Safety
/// The elements exist.
#[inline(always)]
unsafe fn words(from: u64, count: u32) -> [u32; 4] {
    // Words that hold one of the elements; the first may begin with the element before.
    let before = (from % 4 / 2) as u32;
    let first = from - 2 * u64::from(before);
    let word = |i: u32| -> u32 {
        let at = first + 4 * u64::from(i);
        // SAFETY: the elements exist, and with one of them the aligned word that holds it and the one before it.
        unsafe {
            if 2 * i + 1 < count + before {
                *(at as *const u32)
            } else if 2 * i < count + before && count > 0 {
                u32::from(*(at as *const u16))
            } else {
                0
            }
        }
    };
    let w = [word(0), word(1), word(2), word(3), word(4)];
    if before == 0 {
        return [w[0], w[1], w[2], w[3]];
    }
    let join = |low: u32, high: u32| low >> 16 | high << 16;
    [join(w[0], w[1]), join(w[1], w[2]), join(w[2], w[3]), join(w[3], w[4])]
}

/// The first `count` of eight elements, zeros behind them.
///
/// # Safety
/// The elements exist.
#[inline(always)]
unsafe fn elements(from: u64, stride: i64, count: u32) -> [u32; 4] {
    let element = |i: u32| {
        if i < count {
            // SAFETY: the caller's promise.
            u32::from(unsafe { *(from as *const u16).offset((i64::from(i) * stride) as isize) })
        } else {
            0
        }
    };
    let pair = |i: u32| element(i) | element(i + 1) << 16;
    [pair(0), pair(2), pair(4), pair(6)]
}

/// The kernel. `M_BLOCKS` are the blocks of 16 rows of a warp.
///
/// # Safety
/// The host passes live matrices of the extents and strides in `p`, and launches `TILE.threads` threads with
/// `TILE.smem_bytes()` bytes of shared memory.
#[inline(always)]
pub(super) unsafe fn run<P: Product, const M_BLOCKS: usize>(p: &MatmulBlockParams) {
    let tile = P::TILE;
    let raster = Raster::over([tile.gemm_m, tile.gemm_n], [p.gemm_m, p.gemm_n], p.batch_dims, p.raster_rows);
    let (tile_index, slice) = div_rem_unless_below(block_idx_x(), p.n_slices);
    let place = raster.place(tile_index);
    let (first_block, k_blocks) = p.slice(p.gemm_k.div_ceil(tile.gemm_k), slice);
    let mut a = Loader::new(
        tile,
        P::A_IS_MN_MAJOR,
        tile.gemm_m,
        matrix(&p.a, place),
        (p.a.row_stride, p.a.col_stride),
        (place.m, p.gemm_m),
        p.a_load_bytes,
    );
    let mut b = Loader::new(
        tile,
        P::B_IS_MN_MAJOR,
        tile.gemm_n,
        matrix(&p.b, place),
        (p.b.col_stride, p.b.row_stride),
        (place.n, p.gemm_n),
        p.b_load_bytes,
    );
    a.skip(first_block);
    b.skip(first_block);
    let base = shared::dynamic_address();
    let warp = cuda_std::warp::uniform(thread_idx_x() / 32);
    let (row, col) = (warp % P::WARP_ROWS * (16 * M_BLOCKS as u32), warp / P::WARP_ROWS * (8 * N_BLOCKS as u32));
    let mut d: [[[f32; 4]; N_BLOCKS]; M_BLOCKS] = core::mem::zeroed();
    // Loads run ahead by all stages but the one that is read; one loop for their start, the middle and the end, so that
    // their code is there once.
    let ahead = tile.stages - 1;
    let mut k_left = p.gemm_k - first_block * tile.gemm_k;
    let (mut block, mut fill) = (0, 0);
    while block < k_blocks + ahead {
        // All but the newest two groups are there: the tile that is read now, for all threads after the barrier. Nobody
        // reads the stage of the block before any more.
        cp_async::wait_group::<2>();
        sync_threads();
        let (a_next, b_next) = stage(base, tile, fill);
        let loads = block < k_blocks;
        let (mut a_held, mut b_held) = ([[0; 4]; CHUNKS], [[0; 4]; CHUNKS]);
        if loads {
            a_held = a.begin(P::A_IS_MN_MAJOR, a_next, k_left);
            if M_BLOCKS > 2 {
                // With so many sums there is no register to hold what is under way.
                a.end(a_next, &a_held);
            }
            b_held = b.begin(P::B_IS_MN_MAJOR, b_next, k_left);
            if M_BLOCKS > 2 {
                b.end(b_next, &b_held);
            }
            k_left -= least(tile.gemm_k, k_left);
        }
        cp_async::commit_group();
        fill = if fill == ahead { 0 } else { fill + 1 };
        if block >= ahead {
            // The stage behind the newest is the oldest.
            let (a_tile, b_tile) = stage(base, tile, fill);
            step::<P, M_BLOCKS>(&mut d, a_tile, b_tile, row, col, 0);
            step::<P, M_BLOCKS>(&mut d, a_tile, b_tile, row, col, 16);
        }
        if loads && M_BLOCKS <= 2 {
            a.end(a_next, &a_held);
            b.end(b_next, &b_held);
        }
        block += 1;
    }
    // Through shared memory, where the stages were, so that neighbours store neighbours.
    cp_async::wait_all();
    sync_threads();
    put::<M_BLOCKS, 0>(tile, base, &d, row, col);
    put::<M_BLOCKS, 1>(tile, base, &d, row, col);
    if M_BLOCKS > 2 {
        put::<M_BLOCKS, 2>(tile, base, &d, row, col);
        put::<M_BLOCKS, 3>(tile, base, &d, row, col);
    }
    sync_threads();
    let matrix_index = (place.batch[0] * p.batch_dims[1] + place.batch[1]) * p.batch_dims[2] + place.batch[2];
    let out = Out { c: matrix(&p.c, place), part: slice * p.n_batch + matrix_index };
    let mut index = thread_idx_x();
    while index < tile.gemm_m * tile.gemm_n / OUT {
        let (row, col) = (index / (tile.gemm_n / OUT), index % (tile.gemm_n / OUT) * OUT);
        let sums = shared::load_x4(sum_at(tile, base, row, col));
        out.store::<P>(p, place.m + row, place.n + col, sums.map(f32::from_bits));
        index += tile.threads;
    }
}

/// Neighbouring sums that a thread stores at a time.
const OUT: u32 = 4;

/// Where a sum lies in shared memory. Groups of 8 are permuted, so that the rows of a fragment lie in different banks.
#[inline(always)]
fn sum_at(tile: MatmulBlockTile, base: u32, row: u32, col: u32) -> u32 {
    base + (row * tile.gemm_n + (col ^ (row % 8 * 8))) * 4
}

/// Puts block `I` of 16 rows of a warp, whose tile begins at `row` and `col`, into shared memory.
///
/// # Safety
/// As [`run`]; nobody reads the stages.
#[inline(always)]
unsafe fn put<const M_BLOCKS: usize, const I: usize>(
    tile: MatmulBlockTile,
    base: u32,
    d: &[[[f32; 4]; N_BLOCKS]; M_BLOCKS],
    row: u32,
    col: u32,
) {
    let lane = thread_idx_x() % 32;
    let (row, col) = (row + 16 * I as u32 + lane / 4, col + lane % 4 * 2);
    let sums = d.get_unchecked(I);
    macro_rules! block {
        ($($j:literal)*) => { $(
            let v = sums[$j];
            shared::store_x2(sum_at(tile, base, row, col + 8 * $j), [v[0].to_bits(), v[1].to_bits()]);
            shared::store_x2(sum_at(tile, base, row + 8, col + 8 * $j), [v[2].to_bits(), v[3].to_bits()]);
        )* };
    }
    block!(0 1 2 3);
}

/// Addresses of a's and b's tiles in a stage.
#[inline(always)]
fn stage(base: u32, tile: MatmulBlockTile, index: u32) -> (u32, u32) {
    let a = base + index * tile.stage_bytes();
    (a, a + tile.a_bytes())
}

/// Address of an operand's matrix.
#[inline(always)]
fn matrix(operand: &MatmulOperand, place: Place) -> u64 {
    let [s0, s1, s2] = operand.batch_strides;
    let [b0, b1, b2] = place.batch;
    operand.address + (i64::from(b0) * s0 + i64::from(b1) * s1 + i64::from(b2) * s2) as u64 * 2
}

/// The products of 16 indices of k.
///
/// # Safety
/// As [`run`]; all lanes of a warp.
#[inline(always)]
unsafe fn step<P: Product, const M_BLOCKS: usize>(
    d: &mut [[[f32; 4]; N_BLOCKS]; M_BLOCKS],
    a_tile: u32,
    b_tile: u32,
    row: u32,
    col: u32,
    k: u32,
) {
    let tile = P::TILE;
    let lane = thread_idx_x() % 32;
    // Matrices of 8 × 8 come in fours: the second lies beside the first along one dimension, the third and fourth along
    // the other. Lane l addresses row l % 8 of matrix l / 8.
    let (second, third) = (lane / 8 % 2 * 8, lane / 16 * 8);
    let b_at = |col: u32| {
        // SAFETY: the caller's promise.
        unsafe {
            if P::B_IS_MN_MAJOR {
                ldmatrix::load_x4_transposed(chunk_at(b_tile, true, tile.gemm_n, k + second + lane % 8, col + third))
            } else {
                ldmatrix::load_x4(chunk_at(b_tile, false, tile.gemm_k, col + third + lane % 8, k + second))
            }
        }
    };
    let a_at = |row: u32| {
        // SAFETY: the caller's promise.
        unsafe {
            if P::A_IS_MN_MAJOR {
                ldmatrix::load_x4_transposed(chunk_at(a_tile, true, tile.gemm_m, k + third + lane % 8, row + second))
            } else {
                ldmatrix::load_x4(chunk_at(a_tile, false, tile.gemm_k, row + second + lane % 8, k + third))
            }
        }
    };
    let b = [b_at(col), b_at(col + 16)];
    multiply::<P>(d.get_unchecked_mut(0), a_at(row), b);
    multiply::<P>(d.get_unchecked_mut(1), a_at(row + 16), b);
    if M_BLOCKS > 2 {
        multiply::<P>(d.get_unchecked_mut(2), a_at(row + 32), b);
        multiply::<P>(d.get_unchecked_mut(3), a_at(row + 48), b);
    }
}

/// The products of 16 rows with all columns of a warp.
#[inline(always)]
fn multiply<P: Product>(sums: &mut [[f32; 4]; N_BLOCKS], a: [u32; 4], b: [[u32; 4]; 2]) {
    P::multiply(&mut sums[0], a, [b[0][0], b[0][1]]);
    P::multiply(&mut sums[1], a, [b[0][2], b[0][3]]);
    P::multiply(&mut sums[2], a, [b[1][0], b[1][1]]);
    P::multiply(&mut sums[3], a, [b[1][2], b[1][3]]);
}

/// Address of the chunk at element `col` of row `row` of a tile with rows of `width` elements.
#[inline(always)]
fn chunk_at(tile: u32, is_mn_major: bool, width: u32, row: u32, col: u32) -> u32 {
    tile + row * width * 2 + permuted(is_mn_major, row, col / CHUNK) * CHUNK_BYTES
}

/// Where sums go.
struct Out {
    c: u64,
    part: u32,
}

impl Out {
    /// Four neighbouring sums of a row: into c, or into their part.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn store<P: Product>(&self, p: &MatmulBlockParams, row: u32, col: u32, sums: [f32; 4]) {
        if row >= p.gemm_m || col >= p.gemm_n {
            return;
        }
        if p.n_slices > 1 {
            let row = u64::from(self.part) * u64::from(p.gemm_m) + u64::from(row);
            // The last columns may lie in the gap up to the pitch, which is a multiple of 4.
            let at = p.partials + (row * u64::from(p.partial_pitch) + u64::from(col)) * 4;
            *(at as *mut X4<f32>) = X4(sums);
            return;
        }
        let to = self.c + (i64::from(row) * p.c.row_stride + i64::from(col) * p.c.col_stride) as u64 * 2;
        let left = p.gemm_n - col;
        let at = |i: u32| (to as *mut u16).offset((i64::from(i) * p.c.col_stride) as isize);
        let value = |i: u32, sum: f32| {
            let value = p.alpha * sum;
            let value = if p.beta != 0.0 && i < left { value + p.beta * P::widen(*at(i)) } else { value };
            u32::from(P::narrow(value))
        };
        let v = [value(0, sums[0]), value(1, sums[1]), value(2, sums[2]), value(3, sums[3])];
        if p.stores_whole != 0 {
            *(to as *mut X2<u32>) = X2([v[0] | v[1] << 16, v[2] | v[3] << 16]);
            return;
        }
        *at(0) = v[0] as u16;
        if left > 1 {
            *at(1) = v[1] as u16;
        }
        if left > 2 {
            *at(2) = v[2] as u16;
        }
        if left > 3 {
            *at(3) = v[3] as u16;
        }
    }
}
