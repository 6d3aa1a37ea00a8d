//! Scalar f32 matmul, for every GPU and operands of any strides.
//!
//! Grid: a block for each slice of each tile. Each thread computes 8 × 8 sums: four rows in each half of the tile by four
//! columns in each half, so that what a warp reads at a time lies together. Shared memory: dynamic, a ring of stages
//! with a's and b's tiles as `[16 k][mn]`, rows padded so that those of different k begin in different banks. Elements
//! come by asynchronous copies: one at a time, which transposes where k is contiguous, or four where mn is and the
//! alignment allows. Outside the matrices they are zero.

use cuda_std::barrier::sync_threads;
use cuda_std::math::fma_f32;
use cuda_std::memory::X4;
use cuda_std::thread::{block_idx_x, thread_idx_x};
use cuda_std::{cp_async, shared};
use kernel_abi::division::div_rem_unless_below;
use kernel_abi::ops::matmul::{MatmulBlockParams, MatmulBlockTile, MatmulOperand, Place, Raster};

/// Elements that an aligned copy moves.
const CHUNK: u32 = 4;

/// How one operand's tile gets from memory into a stage, by one thread: at places that are equally far apart both there
/// and here.
struct Loader {
    /// The first element in the next block of k.
    from: u64,
    /// Bytes from a block of k to the next.
    step: u64,
    /// Bytes between this thread's places in memory.
    from_apart: u64,
    /// Where the first element goes, from the start of the operand's tile on, and bytes between places.
    to: u32,
    to_apart: u32,
    /// Places of a block of k.
    count: u32,
    /// Elements of a place: 1 or 4.
    elems: u32,
    /// Indices of the first place, and how they grow from place to place.
    mn: u32,
    mn_apart: u32,
    k: u32,
    k_apart: u32,
    mn_end: u32,
}

impl Loader {
    /// For the tile of `width` rows or columns from `mn` on, and from block `first_block` of k on.
    #[inline(always)]
    fn new(
        tile: MatmulBlockTile,
        is_mn_major: bool,
        width: u32,
        matrix: u64,
        (mn_stride, k_stride): (i64, i64),
        (mn, mn_end): (u32, u32),
        (first_block, load_bytes): (u32, u32),
    ) -> Self {
        let thread = thread_idx_x();
        // Neighbours take neighbouring elements along the contiguous dimension.
        let (own_mn, own_k, mn_apart, k_apart, elems) = if !is_mn_major {
            (thread / tile.gemm_k, thread % tile.gemm_k, tile.threads / tile.gemm_k, 0, 1)
        } else if load_bytes == 16 {
            let across = width / CHUNK;
            (thread % across * CHUNK, thread / across, 0, tile.threads / across, CHUNK)
        } else {
            (thread % width, thread / width, 0, tile.threads / width, 1)
        };
        let bytes = |mn: u32, k: u32| (i64::from(mn) * mn_stride + i64::from(k) * k_stride) as u64 * 4;
        let step = bytes(0, tile.gemm_k);
        let pitch = width + tile.pad;
        Loader {
            from: matrix + bytes(mn + own_mn, own_k) + step * u64::from(first_block),
            step,
            from_apart: bytes(mn_apart, k_apart),
            to: (own_k * pitch + own_mn) * 4,
            to_apart: (k_apart * pitch + mn_apart) * 4,
            count: width * tile.gemm_k / (tile.threads * elems),
            elems,
            mn: mn + own_mn,
            mn_apart,
            k: own_k,
            k_apart,
            mn_end,
        }
    }

    /// Begins to load the next block into a tile, of which `k_left` elements are left along k.
    ///
    /// # Safety
    /// As [`run`]; nobody reads the tile.
    #[inline(always)]
    unsafe fn begin(&mut self, tile: u32, k_left: u32) {
        let (mut from, mut to, mut mn, mut k) = (self.from, tile + self.to, self.mn, self.k);
        let mut i = 0;
        while i < self.count {
            let left = if k < k_left && mn < self.mn_end { self.mn_end - mn } else { 0 };
            let valid = if left < self.elems { left } else { self.elems };
            if self.elems == 1 {
                cp_async::copy_x1(to, from as *const u8, 4 * valid);
            } else {
                cp_async::copy_x4(to, from as *const u8, 4 * valid);
            }
            from += self.from_apart;
            to += self.to_apart;
            mn += self.mn_apart;
            k += self.k_apart;
            i += 1;
        }
        self.from += self.step;
    }
}

/// The kernel.
///
/// # Safety
/// The host passes live matrices of the extents and strides in `p`, and launches `tile.threads` threads with
/// `tile.smem_bytes()` bytes of shared memory.
#[inline(always)]
pub(super) unsafe fn run(p: &MatmulBlockParams, tile: MatmulBlockTile, a_is_mn_major: bool, b_is_mn_major: bool) {
    let raster = Raster::over([tile.gemm_m, tile.gemm_n], [p.gemm_m, p.gemm_n], p.batch_dims, p.raster_rows);
    let (tile_index, slice) = div_rem_unless_below(block_idx_x(), p.n_slices);
    let place = raster.place(tile_index);
    let (first_block, k_blocks) = p.slice(p.gemm_k.div_ceil(tile.gemm_k), slice);
    let mut a = Loader::new(
        tile,
        a_is_mn_major,
        tile.gemm_m,
        matrix(&p.a, place),
        (p.a.row_stride, p.a.col_stride),
        (place.m, p.gemm_m),
        (first_block, p.a_load_bytes),
    );
    let mut b = Loader::new(
        tile,
        b_is_mn_major,
        tile.gemm_n,
        matrix(&p.b, place),
        (p.b.col_stride, p.b.row_stride),
        (place.n, p.gemm_n),
        (first_block, p.b_load_bytes),
    );
    let base = shared::dynamic_address();
    let across = tile.gemm_n / 8;
    let (row, col) = (thread_idx_x() / across * 4, thread_idx_x() % across * 4);
    let mut sums: [[f32; 8]; 8] = core::mem::zeroed();
    // Loads run ahead by all stages but the one that is read; one loop for their start, the middle and the end, so that
    // their code is there once.
    let ahead = tile.stages - 1;
    let mut k_left = p.gemm_k - first_block * tile.gemm_k;
    let (mut block, mut fill) = (0, 0);
    while block < k_blocks + ahead {
        // All but the newest group are there: the tile that is read now, for all threads after the barrier. Nobody reads
        // the stage of the block before any more.
        cp_async::wait_group::<1>();
        sync_threads();
        if block < k_blocks {
            let to = base + fill * tile.stage_bytes();
            a.begin(to, k_left);
            b.begin(to + tile.a_bytes(), k_left);
            k_left -= if tile.gemm_k < k_left { tile.gemm_k } else { k_left };
        }
        cp_async::commit_group();
        fill = if fill == ahead { 0 } else { fill + 1 };
        if block >= ahead {
            // The stage behind the newest is the oldest.
            let now = base + fill * tile.stage_bytes();
            let (mut a_at, mut b_at) = (now + row * 4, now + tile.a_bytes() + col * 4);
            let mut k = 0;
            while k < tile.gemm_k {
                let (a0, a1) = (shared::load_x4(a_at), shared::load_x4(a_at + tile.gemm_m * 2));
                let (b0, b1) = (shared::load_x4(b_at), shared::load_x4(b_at + tile.gemm_n * 2));
                multiply(&mut sums, floats(a0, a1), floats(b0, b1));
                a_at += (tile.gemm_m + tile.pad) * 4;
                b_at += (tile.gemm_n + tile.pad) * 4;
                k += 1;
            }
        }
        block += 1;
    }
    let matrix_index = (place.batch[0] * p.batch_dims[1] + place.batch[1]) * p.batch_dims[2] + place.batch[2];
    let out = Out { c: matrix(&p.c, place), part: slice * p.n_batch + matrix_index };
    let (row, col) = (place.m + row, place.n + col);
    let (row_half, col_half) = (tile.gemm_m / 2, tile.gemm_n / 2);
    macro_rules! row {
        ($($i:literal)*) => { $(
            let (v, sum_row) = (&sums[$i], row + if $i < 4 { $i } else { row_half + $i - 4 });
            out.store(p, sum_row, col, [v[0], v[1], v[2], v[3]]);
            out.store(p, sum_row, col + col_half, [v[4], v[5], v[6], v[7]]);
        )* };
    }
    row!(0 1 2 3 4 5 6 7);
}

#[inline(always)]
pub(crate) fn floats(low: [u32; 4], high: [u32; 4]) -> [f32; 8] {
    let f = f32::from_bits;
    [f(low[0]), f(low[1]), f(low[2]), f(low[3]), f(high[0]), f(high[1]), f(high[2]), f(high[3])]
}

/// The products of one index of k. Written out: an array that is indexed by a variable would lie in local memory.
#[inline(always)]
pub(crate) fn multiply(sums: &mut [[f32; 8]; 8], a: [f32; 8], b: [f32; 8]) {
    macro_rules! rows {
        ($($i:literal)*) => { $( rows!(@row $i; 0 1 2 3 4 5 6 7); )* };
        (@row $i:literal; $($j:literal)*) => { $( sums[$i][$j] = fma_f32(a[$i], b[$j], sums[$i][$j]); )* };
    }
    rows!(0 1 2 3 4 5 6 7);
}

/// Address of an operand's matrix.
#[inline(always)]
fn matrix(operand: &MatmulOperand, place: Place) -> u64 {
    let [s0, s1, s2] = operand.batch_strides;
    let [b0, b1, b2] = place.batch;
    operand.address + (i64::from(b0) * s0 + i64::from(b1) * s1 + i64::from(b2) * s2) as u64 * 4
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
    unsafe fn store(&self, p: &MatmulBlockParams, row: u32, col: u32, sums: [f32; 4]) {
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
        let to = self.c + (i64::from(row) * p.c.row_stride + i64::from(col) * p.c.col_stride) as u64 * 4;
        if p.stores_whole != 0 {
            let to = to as *mut X4<f32>;
            let mut v = [p.alpha * sums[0], p.alpha * sums[1], p.alpha * sums[2], p.alpha * sums[3]];
            if p.beta != 0.0 {
                let prior = (*to).0;
                v = [
                    fma_f32(p.beta, prior[0], v[0]),
                    fma_f32(p.beta, prior[1], v[1]),
                    fma_f32(p.beta, prior[2], v[2]),
                    fma_f32(p.beta, prior[3], v[3]),
                ];
            }
            *to = X4(v);
            return;
        }
        let mut j = 0;
        while j < CHUNK && col + j < p.gemm_n {
            let to = (to as *mut f32).offset((i64::from(j) * p.c.col_stride) as isize);
            let sum = match j {
                0 => sums[0],
                1 => sums[1],
                2 => sums[2],
                _ => sums[3],
            };
            let mut v = p.alpha * sum;
            if p.beta != 0.0 {
                v = fma_f32(p.beta, *to, v);
            }
            *to = v;
            j += 1;
        }
    }
}
