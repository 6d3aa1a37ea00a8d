//! `wgrad` without a workspace: the blocks of a cluster take a slab of pixels each of the same tile, and add their sums up
//! through each other's shared memory, in the order of their ranks.

use super::super::cp_async_mma::{GradientTile, TileElement, slab_sums, warp_place};
use super::super::grouped_mma::unroll;
use super::write::{Piece, keep, write_gradient};
use super::{PIECE_BYTES, Tf32x3};
use cuda_std::thread::thread_idx_x;
use cuda_std::{cluster, shared, warp};
use kernel_abi::ops::conv::cp_async_mma::CpAsyncMmaParams;

/// partials = the gradient by w. `ROWS` is `SIZE / 32`.
///
/// # Safety
/// The host passes live tensors of the extents in `p`, shared memory for the tile, and launches clusters of `p.slabs`
/// blocks.
#[inline(always)]
pub(super) unsafe fn wgrad<const V: u32, const SIZE: u32, const ROWS: usize, const DEPTH: u32>(p: &CpAsyncMmaParams) {
    let rank = cluster::rank();
    let place = GradientTile::new::<SIZE>(p, cluster::cluster_idx_x());
    let sums = slab_sums::<Tf32x3<DEPTH>, V, SIZE, ROWS>(p, place, rank);
    // The same place in all blocks.
    let tile_at = shared::dynamic_address();
    keep::<SIZE, ROWS, true>(tile_at, &sums, warp_place::<SIZE>(warp::uniform(thread_idx_x() / 32)));
    cluster::sync();
    // Each block adds up a share of the pieces.
    let share = Piece::count::<SIZE>().div_ceil(p.slabs);
    let mut i = thread_idx_x();
    while i < share {
        let number = rank * share + i;
        if number < Piece::count::<SIZE>() {
            let piece = Piece::new::<SIZE>(number);
            let mut sums = [0.0f32; 4];
            let mut from = 0;
            while from < p.slabs {
                let at = cluster::map_address(tile_at + piece.at, from);
                unroll!(GROUP in [0 1] {
                    if GROUP < DEPTH as usize {
                        let part = cluster::load_x4(at + GROUP as u32 * Piece::count::<SIZE>() * PIECE_BYTES);
                        sums = [0, 1, 2, 3].map(|i: usize| sums[i] + f32::from_bits(part[i]));
                    }
                });
                from += 1;
            }
            write_gradient(p, 0, place, piece, sums);
        }
        i += Tf32x3::<DEPTH>::tile(SIZE).threads();
    }
    // A block must not end before the others have read its sums.
    cluster::sync();
}
