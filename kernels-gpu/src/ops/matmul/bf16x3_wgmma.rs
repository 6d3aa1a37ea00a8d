//! f32 matmul on Hopper's bf16 tensor cores, as exact as scalar f32.
//!
//! A first kernel takes each element apart into three bf16 numbers whose sum it is, so that a product of two elements
//! is a sum of nine products of parts; three of them are below what f32 can hold and are left out. The second kernel is
//! built as `tma_wgmma`; each block of k is computed six times, with the parts of `PART_PAIRS`, the small products
//! first. The tensor cores' own sums are cut off, not rounded: so each block's sum begins anew, and is added to the
//! whole in f32 arithmetic.
//!
//! Grid, block and shared memory are those of `tma_wgmma` without clusters; the output is stored by threads.

use super::tma_wgmma::{
    CONSUMER_REGISTERS, Maps, PANEL_BYTES, PRODUCER_REGISTERS, Product, Ring, SWIZZLE_PERIOD, Sharers, Unit, Units,
    WARPGROUP, begin, coordinates, load, release,
};
use crate::math::index::{div_rem, for_each_index};
use cuda_std::memory::{X2, X4};
use cuda_std::thread::thread_idx_x;
use cuda_std::tma::EVICT_NORMAL;
use cuda_std::wgmma::{Swizzle, descriptor, wgmma_wait};
use cuda_std::{convert, mbarrier, schedule, warp};
use kernel_abi::ops::matmul::{F32_PARTS, MatmulPackParams, MatmulTmaParams, PART_PAIRS, Place, Raster};

/// The products.
///
/// # Safety
/// As `tma_wgmma::run`; the maps are those of parts.
#[inline(always)]
pub(super) unsafe fn run<P: Product<R>, const R: usize>(p: &MatmulTmaParams, maps: Maps) {
    let (ring, warpgroup) = begin(P::TILE, &maps, false, Sharers::ALONE, 1);
    schedule::wait_for_predecessors();
    let units = Units::new(Raster::new(P::TILE, p), P::TILE, Sharers::ALONE);
    if warpgroup == 0 {
        schedule::release_registers::<PRODUCER_REGISTERS>();
        if thread_idx_x() == 0 {
            produce::<P, R>(p, &maps, units, ring);
        }
    } else {
        schedule::acquire_registers::<CONSUMER_REGISTERS>();
        consume::<P, R>(p, units, ring, warpgroup - 1);
    }
}

/// The pairs of parts, four bits each.
const PAIRS: [u32; 2] = {
    let mut packed = [0; 2];
    let mut i = 0;
    while i < PART_PAIRS.len() {
        packed[0] |= PART_PAIRS[i][0] << (4 * i);
        packed[1] |= PART_PAIRS[i][1] << (4 * i);
        i += 1;
    }
    packed
};

/// Loads the parts of block after block, of tile after tile.
///
/// # Safety
/// As [`run`]; one thread.
#[inline(always)]
unsafe fn produce<P: Product<R>, const R: usize>(p: &MatmulTmaParams, maps: &Maps, mut units: Units, mut ring: Ring) {
    let tile = P::TILE;
    while units.is_left(p) {
        let Unit { place, first_k, k_blocks, .. } = units.next(p);
        let a_batch = coordinates(place.batch, p.a_batch_steps);
        let b_batch = coordinates(place.batch, p.b_batch_steps);
        let mut block = 0;
        while block < k_blocks {
            let k = first_k + block * tile.gemm_k;
            let mut pair = 0;
            while pair < 4 * PART_PAIRS.len() as u32 {
                mbarrier::wait(ring.empty(), ring.parity ^ 1);
                mbarrier::arrive_expect_bytes(ring.full(), tile.loaded_bytes(P::B_IS_MN_MAJOR));
                let (a, b, bar) = (ring.a(), ring.a() + tile.a_bytes(), ring.full());
                let a_rows = (PAIRS[0] >> pair) % 4 * p.a_part_rows;
                let b_rows = (PAIRS[1] >> pair) % 4 * p.b_part_rows;
                let (a_mn, a_k) = of_part(P::A_IS_MN_MAJOR, place.m, k, a_rows);
                let (b_mn, b_k) = of_part(P::B_IS_MN_MAJOR, place.n, k, b_rows);
                load(P::A_IS_MN_MAJOR, tile.gemm_m, Sharers::ALONE, a, maps.a, bar, EVICT_NORMAL, a_mn, a_k, a_batch);
                load(P::B_IS_MN_MAJOR, tile.gemm_n, Sharers::ALONE, b, maps.b, bar, EVICT_NORMAL, b_mn, b_k, b_batch);
                ring.advance();
                pair += 4;
            }
            block += 1;
        }
    }
}

/// Coordinates in a part whose rows begin at `rows`: rows run along the dimension that is not contiguous.
#[inline(always)]
fn of_part(is_mn_major: bool, mn: u32, k: u32, rows: u32) -> (u32, u32) {
    if is_mn_major { (mn, k + rows) } else { (mn + rows, k) }
}

/// Computes tile after tile.
///
/// # Safety
/// As [`run`]; all threads of one warpgroup.
#[inline(always)]
unsafe fn consume<P: Product<R>, const R: usize>(p: &MatmulTmaParams, mut units: Units, mut ring: Ring, consumer: u32) {
    let tile = P::TILE;
    let leading = |mn_major: bool| if mn_major { PANEL_BYTES } else { 16 };
    let lane = thread_idx_x() % 32;
    while units.is_left(p) {
        let Unit { place, k_blocks, .. } = units.next(p);
        let k_blocks = warp::uniform(k_blocks);
        let mut sums: [f32; R] = core::mem::zeroed();
        let mut block = 0;
        while block < k_blocks {
            let mut d: [[f32; R]; 1] = core::mem::zeroed();
            let mut freed = ring.empty();
            let mut pair = 0;
            loop {
                mbarrier::wait(ring.full(), ring.parity);
                let (a, b) = (ring.a() + consumer * PANEL_BYTES, ring.a() + tile.a_bytes());
                let a = descriptor(a, leading(P::A_IS_MN_MAJOR), SWIZZLE_PERIOD, Swizzle::B128);
                let b = descriptor(b, leading(P::B_IS_MN_MAJOR), SWIZZLE_PERIOD, Swizzle::B128);
                P::multiply(&mut d, a, b, u32::from(pair > 0));
                // One stage's products stay queued; those before are done and have read their stage.
                wgmma_wait!(d = &mut d[0], registers = 0, pending = 1);
                if pair > 0 {
                    release(Sharers::ALONE, freed, lane);
                }
                freed = ring.empty();
                ring.advance();
                pair += 1;
                if pair >= PART_PAIRS.len() {
                    break;
                }
            }
            P::finish(&mut d);
            release(Sharers::ALONE, freed, lane);
            let mut i = 0;
            while i < R {
                *sums.get_unchecked_mut(i) += *d[0].get_unchecked(i);
                i += 1;
            }
            block += 1;
        }
        let out = Out::new(p, place, tile.first_row(consumer));
        out.panel::<R, 0>(p, &sums);
        out.panel::<R, 1>(p, &sums);
    }
}

/// Where a thread's sums go.
struct Out {
    matrix: u64,
    row: u32,
    col: u32,
}

impl Out {
    #[inline(always)]
    fn new(p: &MatmulTmaParams, place: Place, first_row: u32) -> Self {
        let thread = thread_idx_x() % WARPGROUP;
        let [s0, s1, s2] = p.c.batch_strides;
        let [b0, b1, b2] = place.batch;
        let offset = i64::from(b0) * s0 + i64::from(b1) * s1 + i64::from(b2) * s2;
        Out {
            matrix: p.c.address + offset as u64 * 4,
            row: place.m + first_row + thread / 32 * 16 + thread % 32 / 4,
            col: place.n + thread % 4 * 2,
        }
    }

    /// Stores 64 columns.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn panel<const R: usize, const N: usize>(&self, p: &MatmulTmaParams, sums: &[f32; R]) {
        let mut group = 0;
        while group < 8 {
            let sum = |i: usize| *sums.get_unchecked(4 * (8 * N + group) + i);
            let col = self.col + 8 * (8 * N + group) as u32;
            self.pair(p, self.row, col, [sum(0), sum(1)]);
            self.pair(p, self.row + 8, col, [sum(2), sum(3)]);
            group += 1;
        }
    }

    /// Scales two neighbouring sums of a row, blends them with c's prior values and stores them, where they lie in c.
    ///
    /// # Safety
    /// As [`run`].
    #[inline(always)]
    unsafe fn pair(&self, p: &MatmulTmaParams, row: u32, col: u32, sums: [f32; 2]) {
        if row >= p.gemm_m || col >= p.gemm_n {
            return;
        }
        let offset = i64::from(row) * p.c.row_stride + i64::from(col) * p.c.col_stride;
        let first = (self.matrix + offset as u64 * 4) as *mut f32;
        let second = first.offset(p.c.col_stride as isize);
        let both = col + 1 < p.gemm_n;
        let mut v = [p.alpha * sums[0], p.alpha * sums[1]];
        if p.beta != 0.0 {
            v[0] += p.beta * *first;
            if both {
                v[1] += p.beta * *second;
            }
        }
        if p.store_bytes >= 8 {
            *(first as *mut X2<f32>) = X2(v);
        } else {
            *first = v[0];
            if both {
                *second = v[1];
            }
        }
    }
}

/// Takes the elements of matrices apart: a thread for eight neighbours of a row.
///
/// Rows behind the last and columns up to the pitch become zero.
///
/// # Safety
/// The host passes live matrices and room for their parts.
#[inline(always)]
pub(super) unsafe fn parts(p: &MatmulPackParams) {
    schedule::launch_dependents();
    schedule::wait_for_predecessors();
    let elems = i64::from(MatmulPackParams::ELEMS);
    let (rows, chunks) = (p.part_rows as i64, p.pitch as i64 / elems);
    let [d0, d1, d2] = p.batch_dims;
    for_each_index((d0 * d1 * d2) as i64 * rows * chunks, |index| {
        let (row, chunk) = div_rem(index, chunks);
        let (matrix, row) = div_rem(row, rows);
        let (rest, inner) = div_rem(matrix, d2 as i64);
        let (outer, middle) = div_rem(rest, d1 as i64);
        let [s0, s1, s2] = p.batch_strides;
        let col = chunk * elems;
        let start = outer * s0 + middle * s1 + inner * s2 + row * p.row_stride + col * p.col_stride;
        let from = p.from + start as u64 * 4;
        let there = |i: i64| row < p.rows as i64 && col + i < p.cols as i64;
        let v = if there(elems - 1) && p.col_stride == 1 && from % 16 == 0 {
            let (low, high) = ((*(from as *const X4<f32>)).0, (*((from + 16) as *const X4<f32>)).0);
            [low[0], low[1], low[2], low[3], high[0], high[1], high[2], high[3]]
        } else {
            let element = |i: i64| {
                if there(i) {
                    // SAFETY: the element exists.
                    unsafe { *(from as *const f32).offset((i * p.col_stride) as isize) }
                } else {
                    0.0
                }
            };
            [element(0), element(1), element(2), element(3), element(4), element(5), element(6), element(7)]
        };
        let (e0, e1, e2, e3) = (apart(v[0]), apart(v[1]), apart(v[2]), apart(v[3]));
        let (e4, e5, e6, e7) = (apart(v[4]), apart(v[5]), apart(v[6]), apart(v[7]));
        let part_elems = rows * p.pitch as i64;
        let first = matrix * i64::from(F32_PARTS) * part_elems + row * p.pitch as i64 + col;
        let to = p.to + first as u64 * 2;
        let join = |low: u32, high: u32| low | high << 16;
        macro_rules! store {
            ($($part:literal)*) => { $(
                let words = [
                    join(e0[$part], e1[$part]),
                    join(e2[$part], e3[$part]),
                    join(e4[$part], e5[$part]),
                    join(e6[$part], e7[$part]),
                ];
                *((to + $part * part_elems as u64 * 2) as *mut X4<u32>) = X4(words);
            )* };
        }
        store!(0 1 2);
    });
}

/// The bits of three bf16 numbers whose sum is `x`. The first is cut off, so that it cannot become infinite; the others
/// are nearest to what is left.
///
/// An infinity is its sign, nothing, and itself: each product of it with a part meets one that is its factor's sign or
/// first part, and never one that is zero or has the other sign. A NaN is its own first part, with a bit that is kept.
#[inline(always)]
fn apart(x: f32) -> [u32; 3] {
    const EXPONENT: u32 = 0x7f80_0000;
    const QUIET: u32 = 0x40;
    let bits = x.to_bits();
    let first = bits >> 16;
    if bits & EXPONENT == EXPONENT {
        let is_infinite = bits << 1 == EXPONENT << 1;
        return if is_infinite { [(bits >> 31 << 15) | 0x3f80, 0, first] } else { [first | QUIET, 0, 0] };
    }
    let rest = x - f32::from_bits(first << 16);
    let second = u32::from(convert::bf16_from_f32(rest));
    let third = u32::from(convert::bf16_from_f32(rest - f32::from_bits(second << 16)));
    [first, second, third]
}
