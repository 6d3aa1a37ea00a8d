//! Adds the partial sums of a split `wgrad`, in the order of the splits.
//!
//! Grid: one-dimensional, one thread for four sums. Block: 256. The partial sums lie as the threads of the first kernel
//! held them, so that both kernels access them in runs of 16 bytes a thread.

use super::wgrad::store_quad;
use super::{Half, WARPGROUP};
use crate::math::index::for_each_index;
use cuda_std::schedule;
use kernel_abi::ops::conv::im2col_wgmma::{CONSUMERS, ConvTile, ConvWgradSumParams, WGRAD_128X128};

/// The kernel.
///
/// # Safety
/// The host passes what it gave to the first kernel.
#[inline(always)]
pub(super) unsafe fn run<E: Half>(p: &ConvWgradSumParams) {
    schedule::launch_dependents();
    schedule::wait_for_predecessors();
    let tile = ConvTile { gemm_m: p.tile_m, gemm_n: p.tile_n, ..WGRAD_128X128 };
    let threads = CONSUMERS * WARPGROUP;
    let quads = tile.partials() / 4 / threads;
    let tiles = p.wgrad.tiles();
    let partials = p.wgrad.partials as *const [f32; 4];
    let n_quads = i64::from(tiles) * i64::from(quads * threads);
    for_each_index(n_quads, |i| {
        let mut sum = [0.0f32; 4];
        let mut at = partials.offset(i as isize);
        let mut split = 0;
        while split < p.wgrad.splits {
            let part = cuda_std::memory::load_x4(at as *const u32).map(f32::from_bits);
            sum = [sum[0] + part[0], sum[1] + part[1], sum[2] + part[2], sum[3] + part[3]];
            at = at.offset(n_quads as isize);
            split += 1;
        }
        let (rest, thread) = (i as u32 / threads, i as u32 % threads);
        let Some(index) = rest.checked_div(quads) else { return };
        store_quad::<E>(&p.wgrad, tile, p.wgrad.place(tile, index), thread, rest - index * quads, sum);
    });
}
