//! The order in which blocks walk the tiles of the Hopper kernels.

use kernel_abi::ops::matmul::{MatmulTile, MatmulTmaParams};

/// A tile's place.
#[derive(Clone, Copy)]
pub(super) struct Place {
    /// First row.
    pub(super) m: u32,
    /// First column.
    pub(super) n: u32,
    /// Indices of the matrix, outermost first.
    pub(super) batch: [u32; 3],
}

/// Tile counts of a problem.
#[derive(Clone, Copy)]
pub(super) struct Raster {
    tile: MatmulTile,
    m_blocks: u32,
    n_blocks: u32,
    group_rows: u32,
    batch_dims: [u32; 3],
    /// All tiles of all matrices.
    pub(super) n_tiles: u32,
}

impl Raster {
    #[inline(always)]
    pub(super) fn new(tile: MatmulTile, p: &MatmulTmaParams) -> Self {
        let (m_blocks, n_blocks) = (p.gemm_m.div_ceil(tile.gemm_m), p.gemm_n.div_ceil(tile.gemm_n));
        let n_tiles = m_blocks * n_blocks * p.n_batch;
        Raster { tile, m_blocks, n_blocks, group_rows: p.raster_rows, batch_dims: p.batch_dims, n_tiles }
    }

    /// Matrix after matrix; in each, groups of block rows; in a group, column after column. Blocks at work at once
    /// then cover about as many rows as columns, and what they load repeats in the L2 cache.
    ///
    /// # Safety
    /// `index` is below `n_tiles`, and no extent is 0.
    #[inline(always)]
    pub(super) unsafe fn place(&self, index: u32) -> Place {
        let (matrix, index) = div_rem(index, self.m_blocks * self.n_blocks);
        let (group, index) = div_rem(index, self.group_rows * self.n_blocks);
        let first_row = group * self.group_rows;
        let rows = self.group_rows.min(self.m_blocks - first_row);
        let (column, row) = div_rem(index, rows);
        let (rest, inner) = div_rem(matrix, self.batch_dims[2]);
        let (outer, middle) = div_rem(rest, self.batch_dims[1]);
        Place { m: (first_row + row) * self.tile.gemm_m, n: column * self.tile.gemm_n, batch: [outer, middle, inner] }
    }
}

/// Quotient and remainder.
///
/// # Safety
/// `b` is not 0.
#[inline(always)]
unsafe fn div_rem(a: u32, b: u32) -> (u32, u32) {
    let quotient = core::intrinsics::unchecked_div(a, b);
    (quotient, a - quotient * b)
}
