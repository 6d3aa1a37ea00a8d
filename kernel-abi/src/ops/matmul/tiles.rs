//! Tiles of the matmul kernels: one formula for launcher and kernel.

use crate::tickets::QUEUE_BYTES;

/// What one block of the Hopper kernel computes at a time, and how deep its pipeline is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatmulTile {
    /// Rows: 64 of each consumer warpgroup, or all of them of each where they take turns.
    pub gemm_m: u32,
    /// Columns.
    pub gemm_n: u32,
    /// Length of the sums between two barriers: 64 elements of 2 bytes are one swizzled row of 128 bytes.
    pub gemm_k: u32,
    /// Tiles of a and b that are loaded ahead.
    pub stages: u32,
    /// Blocks of a cluster: neighbours along the rows that share b's tile, of which each loads a part for all; 1 where a
    /// launch decides.
    pub cluster: u32,
    /// Whether two consumers compute whole tiles in turns, so that one's result is on its way out while the other
    /// computes, instead of sharing each tile.
    pub in_turns: bool,
    /// Whether blocks draw their tiles ([`crate::tickets`]), instead of taking every so many. Kernels of their own, since
    /// the code for it costs small products up to a microsecond.
    pub draws: bool,
    /// Blocks of k of b that a block of the kernel has room for beside the stages, of which it then loads a's tiles only,
    /// and shares them with the other blocks of its cluster, its neighbours along the columns; 0 where b comes with a.
    pub resident_blocks: u32,
}

macro_rules! tiles {
    ($($(#[$meta:meta])* $name:ident = [$m:literal x $n:literal, stages $s:literal, cluster $c:literal
       $(, in_turns $t:literal)? $(, draws $d:literal)? $(, resident_blocks $r:literal)?];)*) => { $(
        $(#[$meta])*
        pub const $name: MatmulTile = MatmulTile {
            gemm_m: $m,
            gemm_n: $n,
            gemm_k: 64,
            stages: $s,
            cluster: $c,
            in_turns: false $(|| $t)?,
            draws: false $(|| $d)?,
            resident_blocks: 0 $(+ $r)?,
        };
        const _: () = assert!($name.smem_bytes() <= MAX_SHARED_BYTES);
        const _: () = assert!($name.gemm_m % MatmulTile::SUBTILE == 0);
        const _: () = assert!(!$name.forms_clusters() || $name.sums_bytes() <= $name.panels_at());
    )* };
}

tiles! {
    /// For large problems: fewest bytes loaded a product.
    TILE_128X256_C2 = [128 x 256, stages 4, cluster 2];
    /// For large problems whose rows do not fill pairs of tiles.
    TILE_128X256 = [128 x 256, stages 4, cluster 1];
    /// For large problems whose last round of tiles it fills better: as few bytes a product, by three consumers.
    TILE_192X192 = [192 x 192, stages 4, cluster 1];
    /// For problems with somewhat more tiles of 128 x 128 than multiprocessors.
    TILE_192X128 = [192 x 128, stages 5, cluster 1];
    /// For problems of which it leaves fewer columns over than 128 do: planes of 28 x 28 have 7 · 112. As many rows, so that
    /// what is loaded serves as many products as in 192 x 128.
    TILE_256X112 = [256 x 112, stages 4, cluster 1];
    /// For counts of columns of which it leaves fewer over than 128 and 192 do, as DenseNet's 160 and 304.
    TILE_128X160 = [128 x 160, stages 4, cluster 1];
    /// For large problems with short sums, whose results' way out takes as long as some blocks of k.
    TURNS_128X160_C2 = [128 x 160, stages 5, cluster 2, in_turns true];
    /// The same for shorter sums, whose results' way out is the longer one: room for three panels of each consumer's.
    TURNS_128X160_S4_C2 = [128 x 160, stages 4, cluster 2, in_turns true];
    /// For the same where it leaves no more columns over: fewer bytes are loaded a product.
    TURNS_128X192_C2 = [128 x 192, stages 5, cluster 2, in_turns true];
    /// For the same with fewer columns, or where 160 leave more of them over.
    TURNS_128X128_C2 = [128 x 128, stages 6, cluster 2, in_turns true];
    /// For long matrices and a b that the blocks of a cluster have room for: what is loaded of it once serves all tiles.
    RESIDENT_128X160 = [128 x 160, stages 6, cluster 1, in_turns true, resident_blocks 5];
    /// Where the memory is the limit and blocks have some tiles each.
    DRAWS_128X256 = [128 x 256, stages 4, cluster 1, draws true];
    /// The same, for counts of columns or rows of which it leaves fewer over.
    DRAWS_192X128 = [192 x 128, stages 5, cluster 1, draws true];
    /// The same.
    DRAWS_256X112 = [256 x 112, stages 4, cluster 1, draws true];
    /// The same with fewer columns, or short sums.
    DRAWS_128X128 = [128 x 128, stages 6, cluster 1, draws true];
    /// The same with up to 64 columns.
    DRAWS_128X64 = [128 x 64, stages 8, cluster 1, draws true];
    /// The same for one block.
    TURNS_128X128 = [128 x 128, stages 6, cluster 1, in_turns true];
    /// For problems with few tiles.
    TILE_128X128 = [128 x 128, stages 6, cluster 1];
    /// For products with up to 64 columns, or with few tiles.
    TILE_128X64 = [128 x 64, stages 8, cluster 1];
    /// For products with up to 32 columns.
    TILE_128X32 = [128 x 32, stages 8, cluster 1];
    /// For products with up to 16 columns.
    TILE_128X16 = [128 x 16, stages 8, cluster 1];
    /// For products with very few tiles of 128 rows and up to 128 columns: those of 64, by one consumer.
    TILE_64X128 = [64 x 128, stages 8, cluster 1];
    /// The same with up to 64 columns; as many stages as there is room for, since blocks are short, and memory far.
    TILE_64X64 = [64 x 64, stages 12, cluster 1];
    /// The same with up to 32 columns.
    TILE_64X32 = [64 x 32, stages 12, cluster 1];
    /// The same with up to 16 columns.
    TILE_64X16 = [64 x 16, stages 12, cluster 1];
}

/// Rows and columns that a block of the naive kernel computes at a time.
pub const NAIVE_TILE: u32 = 32;

/// What one block of the portable kernels computes, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatmulBlockTile {
    /// Rows.
    pub gemm_m: u32,
    /// Columns.
    pub gemm_n: u32,
    /// Length of the sums between two barriers.
    pub gemm_k: u32,
    /// Tiles of a and b in shared memory.
    pub stages: u32,
    /// Threads of a block.
    pub threads: u32,
    /// Bytes of an element.
    pub element_bytes: u32,
    /// Elements between rows of a tile in shared memory.
    pub pad: u32,
}

/// Tensor cores by `mma.sync`, for large problems: 8 warps of 64 × 32.
pub const CP_ASYNC_128X128: MatmulBlockTile =
    MatmulBlockTile { gemm_m: 128, gemm_n: 128, gemm_k: 32, stages: 4, threads: 256, element_bytes: 2, pad: 0 };

/// Tensor cores by `mma.sync`, for small problems: 4 warps of 32 × 32.
pub const CP_ASYNC_64X64: MatmulBlockTile =
    MatmulBlockTile { gemm_m: 64, gemm_n: 64, gemm_k: 32, stages: 4, threads: 128, element_bytes: 2, pad: 0 };

/// Scalar f32 for large problems: 8 × 8 sums a thread.
pub const FFMA_128X128: MatmulBlockTile =
    MatmulBlockTile { gemm_m: 128, gemm_n: 128, gemm_k: 16, stages: 3, threads: 256, element_bytes: 4, pad: 4 };

/// Scalar f32 for small problems: 8 × 8 sums a thread.
pub const FFMA_64X64: MatmulBlockTile =
    MatmulBlockTile { gemm_m: 64, gemm_n: 64, gemm_k: 16, stages: 3, threads: 64, element_bytes: 4, pad: 4 };

impl MatmulBlockTile {
    /// Bytes of a's tile in one stage.
    pub const fn a_bytes(self) -> u32 {
        (self.gemm_m + self.pad) * self.gemm_k * self.element_bytes
    }

    /// Bytes of one stage.
    pub const fn stage_bytes(self) -> u32 {
        self.a_bytes() + (self.gemm_n + self.pad) * self.gemm_k * self.element_bytes
    }

    /// Dynamic shared memory of a block.
    pub const fn smem_bytes(self) -> u32 {
        self.stages * self.stage_bytes()
    }

    /// Tiles of all matrices of a product.
    pub const fn n_tiles(self, gemm_m: u64, gemm_n: u64, n_batch: u64) -> u64 {
        gemm_m.div_ceil(self.gemm_m as u64) * gemm_n.div_ceil(self.gemm_n as u64) * n_batch
    }
}

impl MatmulTile {
    /// Bytes of an element of a, b and c.
    const ELEMENT_BYTES: u32 = 2;
    /// Columns of a panel of c: one swizzled row of 128 bytes.
    pub const PANEL: u32 = 64;
    /// Rows of the result that leave at once where they lie in c as rows: those of a warp.
    pub const OUT_ROWS: u32 = 16;
    /// Rows of one product instruction: all of a consumer's, or of a part of its tile where consumers take turns.
    pub const SUBTILE: u32 = 64;
    /// What the shared buffers are aligned to: the period of the 128-byte swizzle.
    const ALIGN: u32 = 1024;

    /// Warpgroups that compute.
    pub const fn consumers(self) -> u32 {
        if self.in_turns { 2 } else { self.gemm_m / Self::SUBTILE }
    }

    /// Subtiles of rows that a consumer computes.
    pub const fn subtiles(self) -> u32 {
        if self.in_turns { self.gemm_m / Self::SUBTILE } else { 1 }
    }

    /// Consumers that read each stage.
    pub const fn readers(self) -> u32 {
        if self.in_turns { 1 } else { self.consumers() }
    }

    /// The tile's first row that a consumer computes.
    #[inline(always)]
    pub const fn first_row(self, consumer: u32) -> u32 {
        if self.in_turns { 0 } else { consumer * Self::SUBTILE }
    }

    /// Threads of a block: one producer warpgroup and the consumers.
    pub const fn threads(self) -> u32 {
        128 * (1 + self.consumers())
    }

    /// Bytes of a's tile in one stage.
    pub const fn a_bytes(self) -> u32 {
        self.gemm_m * self.gemm_k * Self::ELEMENT_BYTES
    }

    /// Columns of b's panels where n is contiguous: rows of 128 bytes, or where b stays, and the way there counts for
    /// little, of 64, which 160 columns fill.
    #[inline(always)]
    pub const fn b_panel(self) -> u32 {
        if self.has_resident_b() { Self::PANEL / 2 } else { Self::PANEL }
    }

    /// Bytes of such a panel.
    #[inline(always)]
    pub const fn b_panel_bytes(self) -> u32 {
        self.b_panel() * self.gemm_k * Self::ELEMENT_BYTES
    }

    /// Columns that b's tile has room for: whole panels.
    const fn b_columns(self) -> u32 {
        self.gemm_n.next_multiple_of(self.b_panel())
    }

    /// The first column of a panel of c: the last panel of a tile that they do not fill begins in the one before, so that
    /// it ends with the tile; both write the same there.
    #[inline(always)]
    pub const fn panel_column(self, panel: u32) -> u32 {
        let column = panel * Self::PANEL;
        if self.gemm_n >= Self::PANEL && column + Self::PANEL > self.gemm_n {
            self.gemm_n - Self::PANEL
        } else {
            column
        }
    }

    /// Bytes of b's tile in one stage.
    pub const fn b_bytes(self) -> u32 {
        self.b_columns() * self.gemm_k * Self::ELEMENT_BYTES
    }

    /// Bytes that are loaded into one stage: with k contiguous, b's columns are rows of the tile, and no others come.
    pub const fn loaded_bytes(self, b_is_mn_major: bool) -> u32 {
        let columns = if b_is_mn_major { self.b_columns() } else { self.gemm_n };
        self.a_bytes() + columns * self.gemm_k * Self::ELEMENT_BYTES
    }

    /// Bytes of one stage.
    pub const fn stage_bytes(self) -> u32 {
        self.a_bytes() + if self.has_resident_b() { 0 } else { self.b_bytes() }
    }

    /// Whether b stays.
    pub const fn has_resident_b(self) -> bool {
        self.resident_blocks > 0
    }

    /// Where b begins that stays, behind the stages.
    pub const fn resident_at(self) -> u32 {
        self.stages * self.stage_bytes()
    }

    /// Panels of c that each consumer keeps under way: as many as take turns evenly from tile to tile, or one where there is
    /// no room for so many.
    pub const fn panel_buffers(self) -> u32 {
        let evenly = match self.gemm_n.div_ceil(Self::PANEL) {
            1 => 1,
            3 => 3,
            _ => 2,
        };
        if self.smem_bytes_with(evenly) <= MAX_SHARED_BYTES { evenly } else { 1 }
    }

    /// Bytes of one panel of c: 64 rows of one consumer.
    pub const fn panel_bytes(self) -> u32 {
        Self::SUBTILE * Self::PANEL * Self::ELEMENT_BYTES
    }

    /// Where the panels of c begin, behind the stages and what stays.
    pub const fn panels_at(self) -> u32 {
        self.resident_at() + self.resident_blocks * self.b_bytes()
    }

    /// Where the barriers begin: a full and an empty one of 8 bytes a stage, and a full one for each block that stays.
    pub const fn barriers_at(self) -> u32 {
        self.barriers_behind(self.panel_buffers())
    }

    /// Where they begin behind so many panels of each consumer.
    const fn barriers_behind(self, panel_buffers: u32) -> u32 {
        self.panels_at() + self.consumers() * panel_buffers * self.panel_bytes()
    }

    /// Where the queue of drawn tiles begins.
    pub const fn queue_at(self) -> u32 {
        self.barriers_at() + self.barriers_bytes()
    }

    /// Bytes of them.
    const fn barriers_bytes(self) -> u32 {
        8 * (2 * self.stages + self.resident_blocks)
    }

    /// Dynamic shared memory of a block, with room for aligning its start.
    pub const fn smem_bytes(self) -> u32 {
        self.smem_bytes_with(self.panel_buffers())
    }

    /// What a block has with so many panels of each consumer.
    const fn smem_bytes_with(self, panel_buffers: u32) -> u32 {
        let queue = if self.draws { QUEUE_BYTES } else { 0 };
        self.barriers_behind(panel_buffers) + self.barriers_bytes() + queue + Self::ALIGN
    }

    /// Rows and columns of c that the blocks compute at a time which share an operand's tile.
    #[inline(always)]
    pub const fn shared_tile(self, sharers_log2: u32) -> [u32; 2] {
        let [m_log2, n_log2] = self.shared_log2(self.sharers_log2(sharers_log2));
        [self.gemm_m << m_log2, self.gemm_n << n_log2]
    }

    /// The logarithms of how many tiles they are along rows and columns.
    #[inline(always)]
    pub(super) const fn shared_log2(self, sharers_log2: u32) -> [u32; 2] {
        if self.has_resident_b() { [0, sharers_log2] } else { [sharers_log2, 0] }
    }

    /// The logarithm of how many blocks share an operand's tile, where a launch has them share it with that of `log2`.
    #[inline(always)]
    pub const fn sharers_log2(self, log2: u32) -> u32 {
        if self.forms_clusters() || self.has_resident_b() { log2 } else { self.cluster.trailing_zeros() }
    }

    /// Rows of a's tile that each of the blocks loads which share it; all of them where they share b's.
    #[inline(always)]
    pub const fn a_part(self, sharers_log2: u32) -> u32 {
        if self.has_resident_b() { self.gemm_m >> sharers_log2 } else { self.gemm_m }
    }

    /// Whether so many blocks may share b's tile: each loads whole periods of the swizzle, of 8 rows.
    pub const fn may_share(self, log2: u32) -> bool {
        log2 == 0 || self.has_resident_b() || (self.forms_clusters() && self.gemm_n >> log2 >= 8)
    }

    /// Columns and indices of k that each of the blocks loads which share b's tile: columns where k is contiguous, and
    /// whole panels where a part has such; else a part of each panel.
    #[inline(always)]
    pub const fn b_part(self, sharers_log2: u32, b_is_mn_major: bool) -> [u32; 2] {
        let sharers_log2 = if self.has_resident_b() { 0 } else { sharers_log2 };
        let has_panels = !self.forms_clusters() && (self.gemm_n >> sharers_log2).is_multiple_of(Self::PANEL);
        if b_is_mn_major && !has_panels {
            [self.gemm_n, self.gemm_k >> sharers_log2]
        } else {
            [self.gemm_n >> sharers_log2, self.gemm_k]
        }
    }

    /// Bytes of the sums of all consumers, which blocks that share a tile exchange through the memory of the stages.
    pub const fn sums_bytes(self) -> u32 {
        self.gemm_m * self.gemm_n * 4
    }

    /// Whether a launch may form clusters: of blocks that sum a part of k each and add up through shared memory, and of
    /// blocks that share b's tile. Their clusters must be free for it, and whoever holds many sums has no register left.
    pub const fn forms_clusters(self) -> bool {
        self.cluster == 1 && self.gemm_n <= 128 && self.consumers() < 4 && !self.in_turns && !self.draws
    }

    /// Whether its kernels compute epilogues: three or more consumers have no registers left for what is added, nor have
    /// those with all sums of a tile.
    pub const fn has_epilogues(self) -> bool {
        self.consumers() < 3 && !self.in_turns
    }

    /// Tiles of all blocks that share b's, of all matrices of a product.
    pub const fn n_tiles(self, sharers_log2: u32, [gemm_m, gemm_n, n_batch]: [u64; 3]) -> u64 {
        let [rows, columns] = self.shared_tile(sharers_log2);
        gemm_m.div_ceil(rows as u64) * gemm_n.div_ceil(columns as u64) * n_batch
    }
}

/// The most dynamic shared memory a block of compute capability 9.0 may have.
const MAX_SHARED_BYTES: u32 = 232_448;

// What leaves passes where the stages were.
const _: () = assert!(CP_ASYNC_128X128.gemm_m * CP_ASYNC_128X128.gemm_n * 4 <= CP_ASYNC_128X128.smem_bytes());
const _: () = assert!(CP_ASYNC_64X64.gemm_m * CP_ASYNC_64X64.gemm_n * 4 <= CP_ASYNC_64X64.smem_bytes());

#[cfg(test)]
mod tests {
    use super::*;

    const TILES: [MatmulTile; 8] = [
        TILE_128X256_C2,
        TURNS_128X160_C2,
        TURNS_128X192_C2,
        TURNS_128X128_C2,
        TILE_192X128,
        TILE_64X128,
        TILE_64X64,
        TILE_64X16,
    ];

    #[test]
    fn parts_of_b_make_up_the_tile_and_begin_with_the_swizzle() {
        for (tile, mn_major) in TILES.into_iter().flat_map(|tile| [(tile, false), (tile, true)]) {
            for log2 in [0, 1, 2].into_iter().filter(|&log2| tile.may_share(log2)) {
                let sharers = 1 << tile.sharers_log2(log2);
                let [columns, depth] = tile.b_part(tile.sharers_log2(log2), mn_major);
                assert_eq!(columns * depth * sharers, tile.gemm_n * tile.gemm_k, "{tile:?}");
                // A part's rows of 128 bytes: columns, or indices of k.
                let rows = if columns < tile.gemm_n { columns } else { depth };
                assert_eq!(rows % 8, 0, "{tile:?}");
            }
        }
    }

    /// Whole periods of the swizzle, and of b's panels whole columns.
    #[test]
    fn blocks_that_keep_b_part_a() {
        let tile = RESIDENT_128X160;
        assert!(tile.gemm_n.is_multiple_of(tile.b_panel()) && tile.b_part(1, true) == [tile.gemm_n, tile.gemm_k]);
        for log2 in [0, 1] {
            assert_eq!(tile.shared_tile(log2), [tile.gemm_m, tile.gemm_n << log2]);
            assert!(
                tile.may_share(log2) && tile.a_part(log2) << log2 == tile.gemm_m && tile.a_part(log2).is_multiple_of(8)
            );
        }
    }

    #[test]
    fn few_columns_are_shared_by_few() {
        assert!(TILE_64X16.may_share(1) && !TILE_64X16.may_share(2) && TILE_64X64.may_share(2));
        // Whose clusters the kernel forms.
        assert!(!TILE_128X256_C2.may_share(1) && TILE_128X256_C2.may_share(0));
    }
}
