//! Blocks whose part of b stays in shared memory: all blocks of k of its columns.
//!
//! They have the same columns all along, and a's tiles come in stages of their own, of which more fit then. Two blocks of
//! a cluster may have neighbouring columns: each loads half of the rows of a's tiles into both. Where n is contiguous, b
//! lies in panels of 32 columns, in the 64-byte swizzle, so that those of 160 columns are whole.

use super::{Product, ROW_BYTES, Ring, SWIZZLE_PERIOD, Units, for_each_box};
use cuda_std::tma::{self, MapAddress};
use cuda_std::wgmma::{Swizzle, behind, descriptor};
use cuda_std::{mbarrier, schedule, warp};
use kernel_abi::ops::matmul::MatmulTmaParams;

/// Loads what all of this block's tiles need of b.
///
/// # Safety
/// As [`super::load_a`].
#[inline(always)]
pub(super) unsafe fn load_b<P: Product<R, S>, const R: usize, const S: usize>(
    p: &MatmulTmaParams,
    map: MapAddress,
    mut units: Units,
    ring: Ring,
) {
    if !units.is_left(p) {
        return;
    }
    let unit = units.next(p);
    schedule::wait_for_predecessors();
    let mut block = 0;
    while block < unit.k_blocks {
        if warp::elect() {
            let (to, bar) = (ring.resident_b(block), ring.resident(block));
            mbarrier::arrive_expect_bytes(bar, P::TILE.loaded_bytes(P::B_IS_MN_MAJOR) - P::TILE.a_bytes());
            let widths = [P::TILE.gemm_n, P::TILE.b_panel()];
            for_each_box(P::B_IS_MN_MAJOR, widths, unit.place.n, block * P::TILE.gemm_k, |at, [x, y]| {
                tma::load_5d(to + at, map, bar, [x, y, 0, 0, 0]);
            });
        }
        block += 1;
    }
}

/// The descriptor of the first block of k.
#[inline(always)]
pub(super) fn first_descriptor<P: Product<R, S>, const R: usize, const S: usize>(ring: &Ring) -> u64 {
    let first = ring.resident_b(0);
    if P::B_IS_MN_MAJOR {
        // Eight rows of a panel.
        let stride = SWIZZLE_PERIOD * P::TILE.b_panel() * 2 / ROW_BYTES;
        descriptor(first, P::TILE.b_panel_bytes(), stride, Swizzle::B64)
    } else {
        descriptor(first, 16, SWIZZLE_PERIOD, Swizzle::B128)
    }
}

/// Waits for a block of k, and gives its descriptor. From the second tile on it is there.
///
/// # Safety
/// As [`super::consume`].
#[inline(always)]
pub(super) unsafe fn wait(ring: &Ring, first: u64, block: u32) -> u64 {
    mbarrier::wait(ring.resident(block), 0);
    behind(first, block * ring.resident_block_bytes())
}
