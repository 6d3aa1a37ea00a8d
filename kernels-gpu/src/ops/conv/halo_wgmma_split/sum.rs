//! Adds the partial sums, always in the same order, and writes dw.
//!
//! Grid: one block for 32 quads of sums. Block: 256 threads: 8 rows of 32, which take every eighth part each. Shared
//! memory: 4 KB. The partial sums lie as the threads of the first kernel held them, so that both kernels access them in
//! runs of 16 bytes a thread.

use super::element;
use crate::ops::conv::im2col_wgmma::Half;
use cuda_std::memory::load_x4;
use cuda_std::thread::{block_idx_x, grid_dim_x, sync_threads, thread_idx_x};
use cuda_std::{schedule, shared, warp};
use kernel_abi::ops::conv::halo_wgmma_split::{ConvHaloWgradParams, SUM_QUADS, SUM_ROWS};

/// The kernel. `rows` has room for four numbers a thread.
///
/// # Safety
/// The host passes what it gave to the first kernel, and launches `SUM_QUADS · SUM_ROWS` threads.
#[inline(always)]
pub(super) unsafe fn run<E: Half>(p: &ConvHaloWgradParams, rows: *mut f32) {
    schedule::launch_dependents();
    schedule::wait_for_predecessors();
    let rows = shared::address(rows);
    let (row, column) = (thread_idx_x() / SUM_QUADS, thread_idx_x() % SUM_QUADS);
    // A multiple of the quads of a block.
    let n_quads = p.n_tiles * p.tile_quads();
    let step = n_quads as usize;
    let mut first = block_idx_x() * SUM_QUADS;
    while first < n_quads {
        let quad = first + column;
        let mut sum = [0.0f32; 4];
        let mut at = (p.partials as *const [f32; 4]).add(row as usize * step + quad as usize);
        let mut split = row;
        // Four at a time are under way together.
        while split + 3 * SUM_ROWS < p.splits {
            let part = |i: usize| load_x4(at.add(i * SUM_ROWS as usize * step) as *const u32);
            let (a, b, c, d) = (part(0), part(1), part(2), part(3));
            sum = add(add(add(add(sum, a), b), c), d);
            at = at.add(4 * SUM_ROWS as usize * step);
            split += 4 * SUM_ROWS;
        }
        while split < p.splits {
            sum = add(sum, load_x4(at as *const u32));
            at = at.add(SUM_ROWS as usize * step);
            split += SUM_ROWS;
        }
        shared::store_x4(rows + 16 * thread_idx_x(), sum.map(f32::to_bits));
        sync_threads();
        if row == 0 {
            let mut row = 1;
            while row < SUM_ROWS {
                sum = add(sum, shared::load_x4(rows + 16 * (row * SUM_QUADS + column)));
                row += 1;
            }
            store::<E>(p, quad, sum);
        }
        sync_threads();
        first += grid_dim_x() * SUM_QUADS;
    }
}

#[inline(always)]
fn add(sum: [f32; 4], part: [u32; 4]) -> [f32; 4] {
    let part = part.map(f32::from_bits);
    [sum[0] + part[0], sum[1] + part[1], sum[2] + part[2], sum[3] + part[3]]
}

/// Writes a quad of sums to dw.
///
/// # Safety
/// As [`run`]; all threads of a warp, with quads one after the other.
#[inline(always)]
unsafe fn store<E: Half>(p: &ConvHaloWgradParams, quad: u32, mut v: [f32; 4]) {
    let threads = p.sum_threads();
    let quads = p.thread_quads();
    let (Some(rest), Some(tile)) = (quad.checked_div(threads), quad.checked_div(p.tile_quads())) else { return };
    let place = p.tile(tile);
    let (tap, row, column) = element(p, place, quad - rest * threads, rest - tile * quads);
    let (mut k, mut c, step) = if p.form.rows_are_c() {
        v = transposed(v, row % 2);
        (column + row % 2, row - row % 2, [0, 8])
    } else {
        (row, column, [8, 0])
    };
    k += place.k;
    c += place.c;
    let tap = if p.flip != 0 { p.taps[0] * p.taps[1] * p.taps[2] - 1 - tap } else { tap };
    let mut half = 0;
    while half < 2 {
        if k < p.group_k && c < p.group_c {
            let of_all = i64::from(place.group * p.group_k + k);
            let offset = of_all * p.k_stride + i64::from(tap) * p.tap_stride + i64::from(c);
            let to = (p.dw as *mut u16).offset(offset as isize) as *mut u32;
            let mut low = p.alpha * *v.get_unchecked(2 * half);
            let mut high = p.alpha * *v.get_unchecked(2 * half + 1);
            if p.beta != 0.0 {
                let prior = *to;
                low += p.beta * E::unpack(prior as u16);
                high += p.beta * E::unpack((prior >> 16) as u16);
            }
            *to = E::pack(low, high);
        }
        k += step[0];
        c += step[1];
        half += 1;
    }
}

/// Of two neighbouring rows, whose threads are four lanes apart, the first thread gets both of a column, and the second of
/// the next: dw wants neighbouring c written together.
///
/// # Safety
/// All threads of a warp.
#[inline(always)]
unsafe fn transposed([a, b, c, d]: [f32; 4], odd: u32) -> [f32; 4] {
    /// Lanes between threads of neighbouring rows.
    const ROW_LANES: u32 = 4;
    let exchange = |low: f32, high: f32| {
        let other = warp::shuffle_xor_f32(if odd != 0 { low } else { high }, ROW_LANES);
        if odd != 0 { [other, high] } else { [low, other] }
    };
    let ([a, b], [c, d]) = (exchange(a, b), exchange(c, d));
    [a, b, c, d]
}
