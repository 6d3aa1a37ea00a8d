//! What launcher and kernels of `overlap_wgmma` agree on: how windows lie in shared memory, launch parameters.
//!
//! Of each input row, shared memory has *entries* of 8 elements: entry i begins where the window of output column i
//! does, in the row with its padding written out and its channels filled up. An unswizzled operand of `wgmma` is made
//! of rows of 16 bytes, 8 of them one behind the other; so entry i is the first part of row i, and its next parts are
//! entries too: windows overlap, and so do the operand's rows.
//!
//! Output positions are counted as if each row had as many columns as it has entries, so that rows of the product run
//! on from one output row into the next. Input rows lie by class, those that a tap of the filter meets together, so
//! that a tap is a constant distance.

use crate::division::Divisor;

/// Warpgroups that bring x to shared memory.
pub const PRODUCERS: u32 = 2;
/// Warpgroups that compute `wgrad`, each some of the taps.
pub const WGRAD_CONSUMERS: u32 = 2;
/// Warpgroups that compute `fprop`: writing a result takes several times as long as its products do.
pub const FPROP_CONSUMERS: u32 = 4;
/// Warpgroups that compute `fprop` of strips.
pub const ROWS_CONSUMERS: u32 = 2;
/// Output channels of a block in `fprop` of strips: the rows of a product instruction.
pub const ROWS_K: u32 = 64;
/// Buffers of a consumer's strips on their way out.
pub const ROWS_OUT_BUFFERS: u32 = 2;
/// Threads of a block that computes `wgrad`.
pub const WGRAD_THREADS: u32 = 128 * (PRODUCERS + WGRAD_CONSUMERS);
/// Threads of a block that computes `fprop`.
pub const FPROP_THREADS: u32 = 128 * (PRODUCERS + FPROP_CONSUMERS);
/// Threads of a block that computes `fprop` of strips.
pub const ROWS_THREADS: u32 = 128 * (PRODUCERS + ROWS_CONSUMERS);
/// Output channels of a block in `wgrad`: the rows of a product instruction.
pub const WGRAD_K: u32 = 64;
/// Instructions that `wgrad` queues for a tap at a time.
pub const WGRAD_STEPS: u32 = 4;
/// Positions that these sum over.
pub const WGRAD_POSITIONS: u32 = WGRAD_STEPS * STEP_ELEMS;
/// The most dynamic shared memory a block of compute capability 9.0 may have.
pub const MAX_SHARED_BYTES: u32 = 232_448;
/// Bytes of an entry.
pub const ENTRY_BYTES: u32 = 16;
/// Elements of an entry.
pub const ENTRY_ELEMS: u32 = 8;
/// Elements of the sum of one product instruction.
pub const STEP_ELEMS: u32 = 16;
/// Warps that bring x.
pub const PRODUCER_WARPS: u32 = 4 * PRODUCERS;
/// Input rows that a warp has under way where the copy engine brings them.
pub const STAGED_ROWS: u32 = 3;
/// How `fprop` writes y.
pub mod y_access {
    /// Element by element, as threads hold them: channels apart or by 2.
    pub const ELEMENTS: u32 = 0;
    /// Channels by 8.
    pub const RUNS: u32 = 1;
    /// Element by element, neighbouring threads along Q: results are turned in shared memory. Where there is a prior
    /// value to blend with, as [`ELEMENTS`].
    pub const TURNED: u32 = 2;
}

/// Bytes from channel to channel of turned results: 64 positions, and a gap that spreads channels over the banks.
pub const TURNED_ROW_BYTES: u32 = 2 * 72;

/// Bytes of the turned results of an instruction of so many columns.
#[inline(always)]
pub const fn turned_bytes(columns: u32) -> u32 {
    columns * TURNED_ROW_BYTES
}

/// Bytes of a strip of so many positions on its way out.
#[inline(always)]
pub const fn strip_bytes(columns: u32) -> u32 {
    (columns * 2 * ROWS_K).next_multiple_of(ALIGN)
}

/// Whether `wgrad`'s instructions of so many columns read every second part of a window, those of one plane: 2, else 1.
#[inline(always)]
pub const fn wgrad_planes(columns: u32) -> u32 {
    if columns == 24 { 2 } else { 1 }
}

/// What buffers are aligned to: the period of the 128-byte swizzle.
const ALIGN: u32 = 1024;
/// Entries behind a buffer that rows of a product instruction without a position may read.
pub const SLACK_ENTRIES: u32 = 64;

/// How input rows come to shared memory where the copy engine brings them as they lie, each to a place of the warp that
/// makes entries of it: of all channels, or in pieces of one channel each. Around a piece are zeros.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct StagedRows {
    /// Bytes of a piece; 0 where threads read x themselves.
    pub bytes: u32,
    /// Pieces of a row.
    pub pieces: u32,
    /// Bytes from one piece to the next in shared memory.
    pub pitch: u32,
    /// Bytes of zeros before a piece.
    pub margin: u32,
}

impl StagedRows {
    /// Bytes of a row with the zeros around its pieces.
    #[inline(always)]
    pub const fn row_bytes(&self) -> u32 {
        self.pieces * self.pitch
    }

    /// Shared memory for the rows under way of all warps, and a barrier each.
    #[inline(always)]
    pub const fn smem_bytes(&self) -> u32 {
        PRODUCER_WARPS * STAGED_ROWS * (self.row_bytes() + if self.bytes > 0 { 8 } else { 0 })
    }
}

/// A tile of output positions with the input rows that it reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct OverlapTile {
    /// Entries of an input row; also positions from one output row to the next.
    pub row_entries: Divisor,
    /// Input rows of a class.
    pub class_rows: Divisor,
    /// Classes of input rows: tap r along h is of class `r % n_classes`.
    pub n_classes: Divisor,
    /// Input rows of a class from one of its taps to the next.
    pub jump: u32,
    /// 2 where windows begin 16 elements behind one another: even and odd parts of windows apart. Else 1.
    pub planes: u32,
    /// Entries from one part of a window to the next, of the same plane.
    pub part_entries: u32,
    /// Output rows.
    pub rows: u32,
    /// Output columns.
    pub columns: u32,
    /// Taps along d and h. Each tap along d has rows of its own.
    pub taps: [u32; 2],
    /// Product instructions along a window.
    pub steps: u32,
    /// Tiles of x in shared memory at a time.
    pub buffers: u32,
    /// How input rows come.
    pub staged: StagedRows,
}

impl OverlapTile {
    /// Input rows of a tap along d.
    #[inline(always)]
    pub const fn depth_rows(&self) -> u32 {
        self.n_classes.divisor * self.class_rows.divisor
    }

    /// Rows of entries of a buffer.
    #[inline(always)]
    pub const fn rows_of_entries(&self) -> u32 {
        self.planes * self.taps[0] * self.depth_rows()
    }

    /// Entries of a plane.
    #[inline(always)]
    pub const fn plane_entries(&self) -> u32 {
        self.taps[0] * self.depth_rows() * self.row_entries.divisor
    }

    /// Taps along d and h.
    #[inline(always)]
    pub const fn n_taps(&self) -> u32 {
        self.taps[0] * self.taps[1]
    }

    /// The taps along d and h that the one with this number is.
    #[inline(always)]
    pub const fn tap(&self, number: u32) -> [u32; 2] {
        let t = match number.checked_div(self.taps[1]) {
            Some(t) => t,
            None => 0,
        };
        [t, number - t * self.taps[1]]
    }

    /// Entries of a buffer.
    #[inline(always)]
    pub const fn entries(&self) -> u32 {
        self.planes * self.plane_entries()
    }

    /// Bytes of a buffer of x.
    #[inline(always)]
    pub const fn x_bytes(&self) -> u32 {
        ((self.entries() + SLACK_ENTRIES) * ENTRY_BYTES).next_multiple_of(ALIGN)
    }

    /// Positions of so many output rows and columns, with those between rows that are none.
    #[inline(always)]
    pub const fn positions(&self, rows: u32, columns: u32) -> u32 {
        (rows - 1) * self.row_entries.divisor + columns
    }

    /// Entries from a window of the first tap to that of the tap with this number.
    #[inline(always)]
    pub const fn tap_entries(&self, number: u32) -> u32 {
        let [t, r] = self.tap(number);
        let (later, class) = self.n_classes.div_rem(r);
        (t * self.depth_rows() + class * self.class_rows.divisor + later * self.jump) * self.row_entries.divisor
    }

    /// Bytes from the first to the second part of a window that an instruction reads.
    #[inline(always)]
    pub const fn part_bytes(&self) -> u32 {
        if self.planes == 2 { self.plane_entries() * ENTRY_BYTES } else { self.part_entries * ENTRY_BYTES }
    }

    /// Bytes from one instruction along a window to the next.
    #[inline(always)]
    pub const fn step_bytes(&self) -> u32 {
        if self.planes == 2 { self.part_entries * ENTRY_BYTES } else { 2 * self.part_entries * ENTRY_BYTES }
    }

    /// Parts of a window, each of 8 elements.
    #[inline(always)]
    pub const fn window_parts(&self) -> u32 {
        2 * self.steps
    }

    /// Entries of a row beyond one for each column: what the last windows read.
    #[inline(always)]
    pub const fn extra_entries(&self) -> u32 {
        (self.window_parts() / self.planes - 1) * self.part_entries
    }

    /// Bytes of the filter for a block of `columns` output channels: `[taps][parts][columns][8 elements]`.
    #[inline(always)]
    pub const fn filter_bytes(&self, columns: u32) -> u32 {
        self.n_taps() * self.window_parts() * columns * ENTRY_BYTES
    }

    /// Where staged rows begin, behind the ring's barriers, which begin at `barriers_at`.
    #[inline(always)]
    pub const fn staged_at(&self, barriers_at: u32) -> u32 {
        barriers_at + 16 * self.buffers
    }

    /// Dynamic shared memory of a kernel whose barriers begin there, with room for aligning its start.
    const fn smem_bytes(&self, barriers_at: u32) -> u32 {
        self.staged_at(barriers_at) + self.staged.smem_bytes() + ALIGN
    }

    /// `fprop`: where the filter begins.
    #[inline(always)]
    pub const fn filter_at(&self) -> u32 {
        self.buffers * self.x_bytes()
    }

    /// `fprop`: where results are turned on their way out.
    #[inline(always)]
    pub const fn turning_at(&self, columns: u32, blocks: u32) -> u32 {
        self.filter_at() + blocks * self.filter_bytes(columns)
    }

    /// `fprop`: where the barriers begin.
    #[inline(always)]
    pub const fn fprop_barriers_at(&self, columns: u32, blocks: u32, y_access: u32) -> u32 {
        let turned = if y_access == y_access::TURNED { FPROP_CONSUMERS * turned_bytes(columns) } else { 0 };
        self.turning_at(columns, blocks) + turned
    }

    /// `fprop`: dynamic shared memory, with room for aligning its start.
    pub const fn fprop_smem_bytes(&self, columns: u32, blocks: u32, y_access: u32) -> u32 {
        self.smem_bytes(self.fprop_barriers_at(columns, blocks, y_access))
    }

    /// `fprop` of strips: where these begin on their way out.
    #[inline(always)]
    pub const fn rows_out_at(&self) -> u32 {
        self.buffers * self.x_bytes()
    }

    /// `fprop` of strips: where the barriers begin.
    #[inline(always)]
    pub const fn rows_barriers_at(&self, columns: u32) -> u32 {
        self.rows_out_at() + ROWS_CONSUMERS * ROWS_OUT_BUFFERS * strip_bytes(columns)
    }

    /// `fprop` of strips: dynamic shared memory, with room for aligning its start.
    pub const fn rows_smem_bytes(&self, columns: u32) -> u32 {
        self.smem_bytes(self.rows_barriers_at(columns))
    }

    /// `wgrad`: positions of dy in a buffer.
    #[inline(always)]
    pub const fn dy_positions(&self) -> u32 {
        (self.rows * self.row_entries.divisor).next_multiple_of(WGRAD_POSITIONS)
    }

    /// `wgrad`: bytes that one copy of dy brings.
    #[inline(always)]
    pub const fn dy_copy_bytes(&self) -> u32 {
        self.rows * self.row_entries.divisor * 2 * WGRAD_K
    }

    /// `wgrad`: bytes of a buffer, x and behind it dy.
    #[inline(always)]
    pub const fn wgrad_buffer_bytes(&self) -> u32 {
        self.x_bytes() + (self.dy_positions() * 2 * WGRAD_K).next_multiple_of(ALIGN)
    }

    /// `wgrad`: where the barriers begin.
    #[inline(always)]
    pub const fn wgrad_barriers_at(&self) -> u32 {
        self.buffers * self.wgrad_buffer_bytes()
    }

    /// `wgrad`: dynamic shared memory, with room for aligning its start.
    pub const fn wgrad_smem_bytes(&self) -> u32 {
        self.smem_bytes(self.wgrad_barriers_at())
    }
}

crate::abi_struct! {
    /// Launch parameters, both passes.
    ///
    /// The map stands first: the hardware wants it at an address that is a multiple of 64.
    pub struct OverlapParams {
        /// `wgrad`: map of dy, `[K, Q of a tile, tiles along Q, P, N · Z]`, fastest first. `fprop` of strips: that of y,
        /// `[K, Q, P, N · Z]`.
        pub map: [u64; 16],
        /// The tile.
        pub tile: OverlapTile,
        /// C.
        pub c: u32,
        /// Logarithm of the channels of a position in shared memory.
        pub packed_c_log2: u32,
        /// D, H, W.
        pub image: [u32; 3],
        /// Taps along w.
        pub filter_w: u32,
        /// K.
        pub k: u32,
        /// P, Q.
        pub output: [u32; 2],
        /// Padding at the begin, along d, h and w.
        pub padding: [i32; 3],
        /// Stride along d, h and w.
        pub stride: [u32; 3],
        /// Dilation along d and h.
        pub dilation: [u32; 2],
        /// Tiles along Q.
        pub q_tiles: Divisor,
        /// Tiles along P.
        pub p_tiles: Divisor,
        /// Z.
        pub z_tiles: Divisor,
        /// All tiles.
        pub n_tiles: u32,
        /// `fprop`: blocks of columns that a block of threads computes of each tile.
        pub column_blocks: u32,
        /// `fprop`: how y is written, of [`y_access`].
        pub y_access: u32,
        /// `wgrad`: parts of the grid that share the taps; others share K.
        pub tap_parts: Divisor,
        /// x.
        pub x: u64,
        /// Distances of x along N, D and H, in elements.
        pub x_strides: [i64; 3],
        /// Distances of x along W and C, in elements.
        pub x_inner: [i32; 2],
        /// w.
        pub w: u64,
        /// Distances of w, or dw, along K, C, T, R and S, in elements; negative where the filter is read from its far end.
        pub w_strides: [i64; 5],
        /// Where the first tap lies in it, in elements.
        pub w_first: i64,
        /// y.
        pub y: u64,
        /// Distances of y along N, K, Z, P and Q, in elements.
        pub y_strides: [i64; 5],
        /// `wgrad`: partial sums, f32 `[block][element of dw as it lies]`.
        pub partials: u64,
        /// Elements of dw.
        pub dw_elems: u64,
        /// Factor of the result.
        pub alpha: f32,
        /// Factor of the prior value.
        pub beta: f32,
    }
}

const _: () = assert!(size_of::<OverlapParams>() <= 4096);

/// A tile's place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OverlapPlace {
    /// Image.
    pub n: u32,
    /// Output plane.
    pub z: u32,
    /// First output row.
    pub p: u32,
    /// First output column.
    pub q: u32,
    /// Tile along Q.
    pub strip: u32,
}

impl OverlapParams {
    /// Where tile `index` lies: along Q, then P, Z and N.
    #[inline(always)]
    pub const fn place(&self, index: u32) -> OverlapPlace {
        let (rest, strip) = self.q_tiles.div_rem(index);
        let (rest, p) = self.p_tiles.div_rem(rest);
        let (n, z) = self.z_tiles.div_rem(rest);
        OverlapPlace { n, z, p: p * self.tile.rows, q: strip * self.tile.columns, strip }
    }

    /// Output rows and columns of the tile at a place.
    #[inline(always)]
    pub const fn extents(&self, place: OverlapPlace) -> [u32; 2] {
        let [rows, columns] = [self.output[0] - place.p, self.output[1] - place.q];
        [
            if rows < self.tile.rows { rows } else { self.tile.rows },
            if columns < self.tile.columns { columns } else { self.tile.columns },
        ]
    }

    /// The input plane and row, and the first input column, that an entry holds, for a tile at a place: `entry` counts
    /// the entries of a buffer.
    #[inline(always)]
    pub const fn source(&self, place: OverlapPlace, entry: u32) -> [i32; 3] {
        let plane = (entry >= self.tile.plane_entries()) as u32;
        let entry = entry - plane * self.tile.plane_entries();
        let (row, i) = self.tile.row_entries.div_rem(entry);
        let (rest, row) = self.tile.class_rows.div_rem(row);
        let (t, class) = self.tile.n_classes.div_rem(rest);
        let d = place.z * self.stride[0] + t * self.dilation[0];
        let h = (place.p + row) * self.stride[1] + class * self.dilation[1];
        let w = (place.q + i) * self.stride[2] + ((plane * ENTRY_ELEMS) >> self.packed_c_log2);
        [d as i32 - self.padding[0], h as i32 - self.padding[1], w as i32 - self.padding[2]]
    }
}
