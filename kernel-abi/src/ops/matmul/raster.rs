//! The order in which blocks walk the tiles of a product.

use super::{MAX_BATCH_DIMS, MatmulTile, MatmulTmaParams};
use crate::division::div_rem_unless_below;

/// The place of a tile, or of a cluster's tiles.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// First row.
    pub m: u32,
    /// First column.
    pub n: u32,
    /// Indices of the matrix, outermost first.
    pub batch: [u32; MAX_BATCH_DIMS],
}

/// Tile counts of a problem.
#[derive(Clone, Copy, Debug)]
pub struct Raster {
    tile_m: u32,
    tile_n: u32,
    m_blocks: u32,
    n_blocks: u32,
    group_rows: u32,
    batch_dims: [u32; MAX_BATCH_DIMS],
    n_tiles: u32,
}

impl Raster {
    /// The tiles of a problem for clusters of Hopper's kernels.
    #[inline(always)]
    pub const fn new(tile: MatmulTile, p: &MatmulTmaParams) -> Self {
        let log2 = tile.sharers_log2(p.sharers_log2);
        let [m_log2, n_log2] = tile.shared_log2(log2);
        // Shifts, where the compiler would see divisions by what may be 0.
        let m_blocks = (p.gemm_m.div_ceil(tile.gemm_m) + (1 << m_log2) - 1) >> m_log2;
        let n_blocks = (p.gemm_n.div_ceil(tile.gemm_n) + (1 << n_log2) - 1) >> n_log2;
        let blocks = [m_blocks, n_blocks];
        Self::of_blocks(tile.shared_tile(log2), blocks, p.batch_dims, p.raster_rows)
    }

    /// The tiles of these rows and columns in matrices of those; `group_rows` rows of tiles are walked together.
    #[inline(always)]
    pub const fn over(
        [tile_m, tile_n]: [u32; 2],
        [gemm_m, gemm_n]: [u32; 2],
        batch_dims: [u32; MAX_BATCH_DIMS],
        group_rows: u32,
    ) -> Self {
        Self::of_blocks([tile_m, tile_n], [gemm_m.div_ceil(tile_m), gemm_n.div_ceil(tile_n)], batch_dims, group_rows)
    }

    #[inline(always)]
    const fn of_blocks(
        [tile_m, tile_n]: [u32; 2],
        [m_blocks, n_blocks]: [u32; 2],
        batch_dims: [u32; MAX_BATCH_DIMS],
        group_rows: u32,
    ) -> Self {
        let n_tiles = m_blocks * n_blocks * batch_dims[0] * batch_dims[1] * batch_dims[2];
        Raster { tile_m, tile_n, m_blocks, n_blocks, group_rows, batch_dims, n_tiles }
    }

    /// All tiles that clusters compute at a time, of all matrices.
    #[inline(always)]
    pub const fn n_tiles(&self) -> u32 {
        self.n_tiles
    }

    /// The place of a cluster's tile: matrix after matrix; in each, groups of block rows; in a group, column after column.
    ///
    /// Blocks at work at once then cover about as many rows as columns, and what they load repeats in the L2 cache.
    ///
    /// Of one matrix, and of few tiles, most quotients are 0; divisions would stand one after the other before the first
    /// load.
    #[inline(always)]
    pub const fn place(&self, index: u32) -> Place {
        let (matrix, index) = div_rem_unless_below(index, self.m_blocks * self.n_blocks);
        let (group, index) = div_rem_unless_below(index, self.group_rows * self.n_blocks);
        let first_row = group * self.group_rows;
        let rest = self.m_blocks - first_row;
        let rows = if rest < self.group_rows { rest } else { self.group_rows };
        let (column, row) = div_rem_unless_below(index, rows);
        let (rest, inner) = div_rem_unless_below(matrix, self.batch_dims[2]);
        let (outer, middle) = div_rem_unless_below(rest, self.batch_dims[1]);
        Place { m: (first_row + row) * self.tile_m, n: column * self.tile_n, batch: [outer, middle, inner] }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{MatmulOperand, TILE_128X256};
    use super::*;
    use std::collections::HashSet;

    fn raster(gemm_m: u32, gemm_n: u32, batch_dims: [u32; 3], raster_rows: u32) -> Raster {
        let c = MatmulOperand { address: 0, batch_strides: [0; 3], row_stride: 0, col_stride: 1 };
        let params = MatmulTmaParams {
            a_map: [0; 16],
            b_map: [0; 16],
            c_map: [0; 16],
            c,
            partials: 0,
            gemm_m,
            gemm_n,
            gemm_k: 1,
            n_batch: batch_dims.iter().product(),
            batch_dims,
            raster_rows,
            a_batch_steps: [1; 3],
            alpha: 1.0,
            b_batch_steps: [1; 3],
            beta: 0.0,
            output: 0,
            transposed: 0,
            n_slices: 1,
            slice_k_blocks: 1,
            store_bytes: 2,
            partial_pitch: 0,
            a_part_rows: 0,
            b_part_rows: 0,
            outer_blocks: 1,
            a_outer_batch: 0,
            b_outer_batch: 0,
            sharers_log2: 0,
            keep: 0,
            bias_along_rows: 0,
            epilogue: crate::epilogue::FusedEpilogueParam::NONE,
            z_batch_strides: [0; 3],
            z_row_stride: 0,
            tickets: crate::tickets::TicketsParam::NONE,
        };
        Raster::new(TILE_128X256, &params)
    }

    #[test]
    fn every_tile_is_visited_once() {
        for (m, n, batch_dims, rows) in [(1, 1, [1, 1, 1], 16), (1300, 900, [1, 1, 1], 8), (300, 2000, [2, 3, 5], 16)] {
            let raster = raster(m, n, batch_dims, rows);
            let places: HashSet<_> = (0..raster.n_tiles())
                .map(|index| {
                    let Place { m: row, n: col, batch } = raster.place(index);
                    assert!(row < m && col < n && batch.iter().zip(batch_dims).all(|(index, dim)| *index < dim));
                    (row, col, batch)
                })
                .collect();
            assert_eq!(places.len() as u32, raster.n_tiles());
        }
    }

    #[test]
    fn a_group_sweeps_its_columns() {
        let raster = raster(128 * 20, 256 * 4, [1; 3], 16);
        assert_eq!((raster.place(15).m, raster.place(15).n), (15 * 128, 0));
        assert_eq!((raster.place(16).m, raster.place(16).n), (0, 256));
        // The last group has the four rows that are left.
        assert_eq!((raster.place(64 + 5).m, raster.place(64 + 5).n), (17 * 128, 256));
    }
}
