//! Adds the partial sums of a split `wgrad`, in the order of the splits.
//!
//! Grid: one-dimensional, one thread for four sums. Block: 256. The partial sums lie as the threads of the first kernel
//! held them, so that both kernels access them in runs of 16 bytes a thread.

use super::wgrad::store_quad;
use super::{Half, WARPGROUP};
use crate::math::index::for_each_index;
use cuda_std::schedule;
use kernel_abi::ops::conv::im2col_wgmma::{
    CONSUMERS, ConvTile, ConvWgradParams, ConvWgradSumParams, WGRAD_128X128, WgradPlace,
};

/// How the threads of a kind of kernels hold sums.
pub(in crate::ops::conv) trait Quads {
    /// One of its tiles.
    const TILE: ConvTile;

    /// Writes four sums of a thread to dw.
    ///
    /// # Safety
    /// As [`run`].
    unsafe fn store(p: &ConvWgradParams, tile: ConvTile, place: WgradPlace, thread: u32, quad: u32, v: [f32; 4]);
}

impl<E: Half> Quads for E {
    const TILE: ConvTile = WGRAD_128X128;

    #[inline(always)]
    unsafe fn store(p: &ConvWgradParams, tile: ConvTile, place: WgradPlace, thread: u32, quad: u32, v: [f32; 4]) {
        store_quad::<E>(p, tile, place, thread, quad, v);
    }
}

/// The kernel.
///
/// # Safety
/// The host passes what it gave to the first kernel.
#[inline(always)]
pub(in crate::ops::conv) unsafe fn run<E: Quads>(p: &ConvWgradSumParams) {
    schedule::launch_dependents();
    schedule::wait_for_predecessors();
    let tile = ConvTile { gemm_m: p.tile_m, gemm_n: p.tile_n, ..E::TILE };
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
        E::store(&p.wgrad, tile, p.wgrad.place(tile, index), thread, rest - index * quads, sum);
    });
}
