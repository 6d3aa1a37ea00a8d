//! Which windows there are kernels for, how they are cut into tiles, and how long that takes.

use super::super::im2col_wgmma::{MULTIPROCESSORS, tma_type};
use super::super::{ConvAxis, ConvMode, ConvProblem};
use crate::TensorDesc;
use crate::launch::div_ceil;
use crate::select::Refusal;
use kernel_abi::division::Divisor;
use kernel_abi::ops::conv::overlap_wgmma::{
    ENTRY_ELEMS, MAX_SHARED_BYTES, OverlapParams, OverlapTile, PRODUCERS, ROWS_K, STEP_ELEMS, StagedRows, WGRAD_K,
    WGRAD_POSITIONS, wgrad_planes, y_access,
};

/// The most channels of an entry.
const MAX_C: i64 = ENTRY_ELEMS as i64;
/// Extents, and what the kernels make of them, stay below this.
const MAX_EXTENT: i64 = 1 << 29;
/// Distances within eight elements of a window stay below this many elements.
const MAX_STRIDE: i64 = 1 << 26;
/// The most output rows of a tile.
const MAX_ROWS: i64 = 64;
/// The most positions that a copy of dy has along an axis.
const MAX_BOX: u32 = 256;

/// Clock under load.
const CYCLES_PER_US: f64 = 1600.0;
/// Launch, the first tile's way in and the last one's way out.
const ENDS_US: f64 = 4.0;
/// Cycles from one role's end of a tile to the other's begin.
const TILE_CYCLES: f64 = 400.0;
/// Cycles that 32 threads take to issue what an entry each asks for, and what it takes of rows in shared memory.
const ENTRY_CYCLES: f64 = 22.0;
const STAGED_ENTRY_CYCLES: f64 = 16.0;
/// Cycles from an empty buffer to the first row of entries, and from the last to the first product.
const STAGED_WAIT_CYCLES: f64 = 2500.0;
/// Cycles from a batch of loads to the next.
const BATCH_CYCLES: f64 = 1000.0;
/// Entries of a batch: four for each thread that loads.
const BATCH_ENTRIES: f64 = (PRODUCERS * 128) as f64 * 4.0;

/// A convolution whose windows overlap in shared memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Windows {
    n: i64,
    c: i64,
    k: i64,
    image: [i64; 3],
    filter: [i64; 3],
    output: [i64; 3],
    axes: [ConvAxis; 3],
    packed_c_log2: u32,
    planes: u32,
    part_entries: u32,
    /// Elements of a window, those of the channels that fill up among them.
    elements: i64,
    /// How `fprop` writes y.
    y_access: u32,
    /// How whole input rows come, but for what depends on the tile, where the copy engine may bring them.
    staged: Option<StagedRows>,
}

impl Windows {
    /// What the kernels see of a problem, or what they do not take.
    pub(super) fn of(problem: &ConvProblem) -> Result<Self, Refusal> {
        tma_type(problem.x().dtype())?;
        let shape = problem.shape();
        if shape.groups != 1 || shape.c > MAX_C {
            let reason = format!("takes one group and up to {MAX_C} channels, given {} and {}", shape.groups, shape.c);
            return Err(Refusal::new(reason));
        }
        let [_, _, w] = shape.axes;
        if w.dilation != 1 && shape.filter[2] > 1 {
            return Err(Refusal::new(format!("takes filters undilated along w, the dilation is {}", w.dilation)));
        }
        let packed_c = (shape.c as u64).next_power_of_two();
        let step = w.stride.saturating_mul(packed_c as i64);
        if !(1..=2 * MAX_C).contains(&step) || !(step as u64).is_power_of_two() {
            let reason = format!(
                "takes windows that begin 1, 2, 4, 8 or 16 elements behind one another, given a stride of {} and \
                 {packed_c} channels",
                w.stride
            );
            return Err(Refusal::new(reason));
        }
        let windows = Windows {
            n: shape.n,
            c: shape.c,
            k: shape.k,
            image: shape.image,
            filter: shape.filter,
            output: shape.output,
            axes: shape.axes,
            packed_c_log2: packed_c.trailing_zeros(),
            planes: if step > MAX_C { 2 } else { 1 },
            part_entries: (MAX_C / step).max(1) as u32,
            elements: shape.filter[2].saturating_mul(packed_c as i64),
            y_access: y_access_of(problem.y()),
            staged: staged_rows(problem),
        };
        windows.check(problem)?;
        Ok(windows)
    }

    /// Refuses sizes that the kernels' numbers do not hold.
    fn check(&self, problem: &ConvProblem) -> Result<(), Refusal> {
        let span = |i: usize| {
            let ConvAxis { stride, dilation, padding, .. } = self.axes[i];
            // A tile's input rows end behind the last row of the image.
            let reach = (self.output[i].saturating_add(2 * MAX_ROWS)).saturating_mul(stride);
            let filter = self.filter[i].saturating_mul(dilation).saturating_mul(2);
            reach.saturating_add(filter).max(self.image[i]).max(padding)
        };
        let planes = self.n.saturating_mul(self.output[0]);
        for extent in [planes, self.k, span(0), span(1), span(2), self.elements] {
            if extent >= MAX_EXTENT {
                return Err(Refusal::new(format!(
                    "takes extents below {MAX_EXTENT}, windows included; one is {extent}"
                )));
            }
        }
        let [_, c, _, _, w] = strides(problem.x());
        for stride in [c, w] {
            if stride >= MAX_STRIDE {
                let reason =
                    format!("takes x with neighbours within {MAX_STRIDE} elements along c and w, given {stride}");
                return Err(Refusal::new(reason));
            }
        }
        Ok(())
    }

    /// A tile of so many output rows and columns, for windows of `steps` instructions.
    pub(super) fn tile(&self, rows: i64, columns: i64, steps: u32, buffers: u32) -> OverlapTile {
        let ConvAxis { stride, dilation, .. } = self.axes[1];
        let taps = self.filter[1];
        // Taps meet rows of the same class again after as many taps as make the dilation a multiple of the stride.
        let divisor = gcd(stride, dilation);
        let n_classes = (stride / divisor).min(taps);
        let jump = dilation / divisor;
        let class_rows = rows + (taps - 1) / n_classes * jump;
        let tile = OverlapTile {
            row_entries: Divisor::new(1),
            class_rows: Divisor::new(class_rows as u32),
            n_classes: Divisor::new(n_classes as u32),
            jump: jump as u32,
            planes: self.planes,
            part_entries: self.part_entries,
            rows: rows as u32,
            columns: columns as u32,
            taps: [self.filter[0] as u32, taps as u32],
            steps,
            buffers,
            staged: StagedRows::default(),
        };
        OverlapTile { row_entries: Divisor::new(columns as u32 + tile.extra_entries()), ..tile }
    }

    /// The same, whose rows the copy engine brings where it may.
    pub(super) fn staged_tile(&self, rows: i64, columns: i64, steps: u32, buffers: u32) -> OverlapTile {
        let tile = self.tile(rows, columns, steps, buffers);
        let is_whole = columns == self.output[2];
        OverlapTile { staged: if is_whole { self.staged_of(tile.row_entries.divisor) } else { tile.staged }, ..tile }
    }

    /// How input rows come to tiles of whole output rows, which have so many entries: by the copy engine, unless they are
    /// so long that those under way take more shared memory than they are worth.
    fn staged_of(&self, row_entries: u32) -> StagedRows {
        /// Bytes of a row, with the zeros around it, at most.
        const MOST_BYTES: i64 = 4096;
        let Some(staged) = self.staged else { return StagedRows::default() };
        let ConvAxis { stride, padding, .. } = self.axes[2];
        let position_bytes = i64::from(staged.bytes) / self.image[2];
        let line = |bytes: i64| div_ceil(bytes, 16) * 16;
        // Positions of the last entry, in the plane that lies farther right.
        let of_entry = (i64::from(ENTRY_ELEMS) >> self.packed_c_log2) * i64::from(self.planes);
        let end = (i64::from(row_entries) - 1) * stride - padding + of_entry;
        let margin = line(padding * position_bytes);
        let pitch = margin + line(i64::from(staged.bytes) + (end - self.image[2]).max(0) * position_bytes);
        if pitch.saturating_mul(staged.pieces.into()) > MOST_BYTES {
            return StagedRows::default();
        }
        StagedRows { margin: margin as u32, pitch: pitch as u32, ..staged }
    }

    /// Instructions along a window.
    pub(super) fn steps(&self) -> u32 {
        (self.elements as u64).div_ceil(STEP_ELEMS.into()) as u32
    }

    /// Whether a tile's numbers stay small enough to be computed with, before it is asked for its bytes.
    fn is_small(&self, rows: i64, columns: i64) -> bool {
        /// More entries than shared memory holds.
        const MAX_ENTRIES: i64 = MAX_SHARED_BYTES as i64 / 16;
        let [t, r, _] = self.filter;
        let axis = self.axes[1];
        let class_rows = rows.saturating_add(r.saturating_mul(axis.dilation));
        let all_rows = t.saturating_mul(class_rows).saturating_mul(axis.stride.min(r));
        let entries = (columns + self.elements.saturating_mul(2)).saturating_mul(all_rows);
        entries < 16 * MAX_ENTRIES && t.saturating_mul(r).saturating_mul(self.elements) < 16 * MAX_ENTRIES
    }

    /// All tiles of a cut.
    pub(super) fn n_tiles(&self, tile: &OverlapTile) -> u64 {
        let along = |extent: i64, part: u32| (extent as u64).div_ceil(part.into());
        let [z, p, q] = self.output;
        (self.n * z) as u64 * along(p, tile.rows) * along(q, tile.columns)
    }

    /// Cycles to bring a tile of x.
    fn fill_cycles(&self, tile: &OverlapTile) -> f64 {
        let entries = f64::from(tile.entries());
        if tile.staged.bytes > 0 {
            // Where there is one buffer, each waits for the other's signal too.
            let waits = if tile.buffers > 1 { 0.0 } else { STAGED_WAIT_CYCLES };
            return waits + entries / 32.0 * STAGED_ENTRY_CYCLES;
        }
        (entries / 32.0 * ENTRY_CYCLES).max((entries / BATCH_ENTRIES).ceil() * BATCH_CYCLES)
    }

    /// The cut for `fprop` that takes the least time, for instructions of `columns` output channels.
    pub(super) fn fprop_cut(&self, columns: u32, n_units: u64) -> Result<Cut, Refusal> {
        let steps = self.steps();
        let blocks = (self.k as u64).div_ceil(columns.into());
        let mut least = u32::MAX;
        let mut best: Option<Cut> = None;
        for parts in 1..=blocks.min(n_units) {
            let blocks = blocks.div_ceil(parts) as u32;
            for (rows, width) in self.sizes() {
                if !self.is_small(rows, width) || blocks > MAX_SHARED_BYTES / 16 {
                    continue;
                }
                for buffers in [2, 1] {
                    let tile = self.tile(rows, width, steps, buffers);
                    let bytes = u64::from(tile.fprop_smem_bytes(columns, 0, self.y_access))
                        + u64::from(blocks) * u64::from(tile.filter_bytes(columns));
                    least = least.min(bytes.min(u32::MAX.into()) as u32);
                    if bytes > MAX_SHARED_BYTES.into() || self.n_tiles(&tile) >= 1 << 30 {
                        continue;
                    }
                    // An instruction takes what its products take, or what it reads of shared memory.
                    let instruction = f64::from(columns / 2).max(f64::from(2048 + 32 * columns) / 128.0);
                    let products = f64::from(tile.n_taps() * tile.steps) * instruction;
                    let epilogue = 200.0 + 4.0 * f64::from(columns);
                    let tasks = f64::from(tile.positions(tile.rows, tile.columns).div_ceil(64) * blocks);
                    let cycles = tasks * products.max((products + epilogue) / 2.0);
                    let cut = self.cut(tile, parts, blocks, cycles, n_units);
                    if best.as_ref().is_none_or(|best| cut.us < best.us) {
                        best = Some(cut);
                    }
                    break;
                }
            }
            if best.is_some() {
                break;
            }
        }
        best.ok_or_else(|| {
            Refusal::new(format!(
                "keeps the filter and the input rows of an output row in {MAX_SHARED_BYTES} bytes of shared memory, \
                 they take {least}"
            ))
        })
    }

    /// The cut for `fprop` of strips of up to `columns` positions that takes the least time.
    pub(super) fn rows_cut(&self, columns: u32, n_units: u64) -> Result<Cut, Refusal> {
        /// Cycles from a strip's products to the next one's, beside them.
        const STRIP_CYCLES: f64 = 150.0;
        let [_, p, _] = self.output;
        let width = self.strip_width(columns);
        let parts = (self.k as u64).div_ceil(ROWS_K.into());
        let products = self.taps() as f64 * f64::from(self.steps() * columns / 2);
        let mut best: Option<Cut> = None;
        let mut least = u32::MAX;
        for rows in 1..=p.min(MAX_ROWS) {
            if !self.is_small(rows, width) {
                break;
            }
            for buffers in [3, 2] {
                let tile = self.staged_tile(rows, width, self.steps(), buffers);
                let bytes = tile.rows_smem_bytes(columns);
                least = least.min(bytes);
                if bytes > MAX_SHARED_BYTES || self.n_tiles(&tile) >= 1 << 30 {
                    continue;
                }
                let cut = self.cut(tile, parts, 1, rows as f64 * (products + STRIP_CYCLES), n_units);
                if best.as_ref().is_none_or(|best| cut.us < best.us) {
                    best = Some(cut);
                }
                break;
            }
        }
        best.ok_or_else(|| {
            Refusal::new(format!(
                "keeps the input rows of two strips in {MAX_SHARED_BYTES} bytes of shared memory, they take {least}"
            ))
        })
    }

    /// Parts of the grid that share the taps, for so many products of a block, of so many columns.
    pub(super) fn tap_parts(&self, columns: u32, products: u32) -> u64 {
        (self.taps() as u64 * u64::from(wgrad_planes(columns))).div_ceil(products.into())
    }

    /// The cut for `wgrad` into tiles that `tile` makes of rows, columns and buffers that takes the least time, where so
    /// many parts share the taps and 64 positions take a block so many cycles.
    pub(super) fn wgrad_cut(
        &self,
        tap_parts: u64,
        cycles: f64,
        tile: impl Fn(i64, i64, u32) -> OverlapTile,
    ) -> Result<Cut, Refusal> {
        let parts = tap_parts * (self.k as u64).div_ceil(WGRAD_K.into());
        if parts > MULTIPROCESSORS {
            let reason = format!("computes wgrad in up to {MULTIPROCESSORS} parts of the filter, given {parts}");
            return Err(Refusal::new(reason));
        }
        let mut best: Option<Cut> = None;
        let mut least = u32::MAX;
        for (rows, width) in self.whole_sizes() {
            if !self.is_small(rows, width) {
                continue;
            }
            for buffers in [2, 1] {
                let tile = tile(rows, width, buffers);
                if tile.row_entries.divisor > MAX_BOX || self.n_tiles(&tile) >= 1 << 30 {
                    continue;
                }
                let bytes = tile.wgrad_smem_bytes();
                least = least.min(bytes);
                if bytes > MAX_SHARED_BYTES {
                    continue;
                }
                let blocks = f64::from(tile.dy_positions().div_ceil(WGRAD_POSITIONS));
                let cut = self.cut(tile, parts, 1, blocks * cycles, MULTIPROCESSORS);
                if best.as_ref().is_none_or(|best| cut.us < best.us) {
                    best = Some(cut);
                }
                break;
            }
        }
        best.ok_or_else(|| {
            let columns = self.output[2];
            let reason = if least == u32::MAX {
                format!(
                    "computes wgrad of output rows, or whole parts of them, that have up to {MAX_BOX} columns with what \
                     their windows need beyond, given {columns}"
                )
            } else {
                format!("computes wgrad of tiles of up to {MAX_SHARED_BYTES} bytes, {columns} columns take {least}")
            };
            Refusal::new(reason)
        })
    }

    /// A cut of which a block takes `cycles` for a tile's products.
    fn cut(&self, tile: OverlapTile, parts: u64, column_blocks: u32, cycles: f64, n_units: u64) -> Cut {
        let n_tiles = self.n_tiles(&tile);
        let rounds = n_tiles.div_ceil((n_units / parts).max(1));
        let fill = self.fill_cycles(&tile);
        // With one buffer, products wait for the next tile.
        let each = TILE_CYCLES + if tile.buffers > 1 { cycles.max(fill) } else { cycles + fill };
        // Where parts are more than multiprocessors, they queue.
        let waves = parts.div_ceil(n_units) as f64;
        Cut {
            tile,
            n_tiles: n_tiles as u32,
            // As few as do it in the same number of rounds.
            blocks: n_tiles.div_ceil(rounds) as u32,
            parts: parts as u32,
            column_blocks,
            us: ENDS_US + waves * (rounds as f64 * each + fill + cycles) / CYCLES_PER_US,
        }
    }

    /// Output rows and columns that a tile may have.
    fn sizes(&self) -> impl Iterator<Item = (i64, i64)> {
        let [_, p, q] = self.output;
        // Rows of the same length, up to a column.
        let widths = [1, 2, 3, 4, 6, 8, 12, 16, 32, 64, 128, 256, 1024].map(|parts: i64| div_ceil(q, parts));
        widths.into_iter().flat_map(move |width| (1..=p.min(MAX_ROWS)).map(move |rows| (rows, width)))
    }

    /// The same where all tiles must be of the same width.
    fn whole_sizes(&self) -> impl Iterator<Item = (i64, i64)> {
        let [_, p, q] = self.output;
        let widths = (1..=i64::from(MAX_BOX).min(q)).rev().filter(move |width| q % width == 0).take(4);
        widths.flat_map(move |width| (1..=p.min(MAX_ROWS)).map(move |rows| (rows, width)))
    }

    /// Launch parameters but for addresses, the map and scalars.
    pub(super) fn params(&self, problem: &ConvProblem, cut: &Cut, tap_parts: u32) -> OverlapParams {
        let [x_n, x_c, x_d, x_h, x_w] = strides(problem.x());
        let [w_k, w_c, w_t, w_r, w_s] = strides(problem.w());
        // A filter that is read from its far end lies the other way around.
        let [t, r, s] = self.filter;
        let (sign, w_first) = match problem.mode() {
            ConvMode::Convolution => (-1, (t - 1) * w_t + (r - 1) * w_r + (s - 1) * w_s),
            ConvMode::CrossCorrelation => (1, 0),
        };
        let [z, p, q] = self.output;
        let tiles = |extent: i64, part: u32| Divisor::new((extent as u64).div_ceil(part.into()) as u32);
        OverlapParams {
            map: [0; 16],
            tile: cut.tile,
            c: self.c as u32,
            packed_c_log2: self.packed_c_log2,
            image: self.image.map(|extent| extent as u32),
            filter_w: s as u32,
            k: self.k as u32,
            output: [p as u32, q as u32],
            padding: self.axes.map(|axis| axis.padding as i32),
            stride: self.axes.map(|axis| axis.stride as u32),
            dilation: [self.axes[0].dilation as u32, self.axes[1].dilation as u32],
            q_tiles: tiles(q, cut.tile.columns),
            p_tiles: tiles(p, cut.tile.rows),
            z_tiles: Divisor::new(z as u32),
            n_tiles: cut.n_tiles,
            column_blocks: cut.column_blocks,
            y_access: self.y_access,
            tap_parts: Divisor::new(tap_parts),
            x: 0,
            x_strides: [x_n, x_d, x_h],
            x_inner: [x_w as i32, x_c as i32],
            w: 0,
            w_strides: [w_k, w_c, sign * w_t, sign * w_r, sign * w_s],
            w_first,
            y: 0,
            y_strides: strides(problem.y()),
            partials: 0,
            dw_elems: problem.w().n_elems() as u64,
            alpha: 1.0,
            beta: 0.0,
        }
    }

    /// Elements of a window, those of the channels that fill up among them.
    pub(super) fn elements(&self) -> i64 {
        self.elements
    }

    /// Taps along d and h.
    pub(super) fn taps(&self) -> i64 {
        self.filter[0].saturating_mul(self.filter[1])
    }

    /// Columns of a strip, where as few of up to `most` columns as there must be share a row evenly.
    pub(super) fn strip_width(&self, most: u32) -> i64 {
        let q = self.output[2] as u64;
        q.div_ceil(q.div_ceil(most.into())) as i64
    }

    /// How `fprop` writes y.
    pub(super) fn y_access(&self) -> u32 {
        self.y_access
    }

    /// 2 where windows begin 16 elements behind one another, else 1.
    pub(super) fn planes(&self) -> u32 {
        self.planes
    }

    /// K.
    pub(super) fn k(&self) -> i64 {
        self.k
    }
}

/// How the work is cut.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cut {
    pub(super) tile: OverlapTile,
    pub(super) n_tiles: u32,
    /// Blocks that share the tiles.
    pub(super) blocks: u32,
    /// Parts of the output channels, or of the filter.
    pub(super) parts: u32,
    /// Blocks of output channels of a part.
    pub(super) column_blocks: u32,
    /// Time, but for the memory's.
    pub(super) us: f64,
}

/// Distances of a tensor along its images, channels, planes, rows and columns; those along axes that it lacks are 0.
fn strides(desc: &TensorDesc) -> [i64; 5] {
    match *desc.strides() {
        [n, c, d, h, w] => [n, c, d, h, w],
        [n, c, h, w] => [n, c, 0, h, w],
        [n, c, w] => [n, c, 0, 0, w],
        _ => [0; 5],
    }
}

/// What of [`StagedRows`] the tensor says, where the copy engine may bring its rows: elements of a row, or of each channel
/// of it, lie one behind the other, in whole multiples of what it copies.
fn staged_rows(problem: &ConvProblem) -> Option<StagedRows> {
    /// Elements of 16 bytes.
    const UNIT: i64 = 8;
    /// Columns of a row, at most: more are longer than a row may be.
    const MOST: i64 = 1 << 12;
    let [n, c, d, h, w] = strides(problem.x());
    let shape = problem.shape();
    let [_, _, columns] = shape.image;
    let [_, _, axis] = shape.axes;
    if columns > MOST || axis.padding > MOST || axis.stride > MOST {
        return None;
    }
    let (pieces, elements) = if (shape.c == 1 || c == 1) && w == shape.c {
        (1, columns * shape.c)
    } else if w == 1 {
        (shape.c, columns)
    } else {
        return None;
    };
    let whole = |(stride, extent): (i64, i64)| extent == 1 || stride % UNIT == 0;
    let [planes, rows, _] = shape.image;
    let distances = [(n, shape.n), (d, planes), (h, rows), (c, if pieces > 1 { shape.c } else { 1 })];
    let fits = elements % UNIT == 0 && distances.into_iter().all(whole);
    fits.then_some(StagedRows { bytes: 2 * elements as u32, pieces: pieces as u32, pitch: 0, margin: 0 })
}

/// How `fprop` writes y, where its address is a multiple of 16.
fn y_access_of(y: &TensorDesc) -> u32 {
    let run = i64::from(ENTRY_ELEMS);
    let [_, channel_stride, .., column_stride] = strides(y);
    let whole = |(i, &stride): (usize, &i64)| i == 1 || y.dims()[i] == 1 || stride % run == 0;
    if channel_stride == 1 && y.dims()[1] % run == 0 && y.strides().iter().enumerate().all(whole) {
        y_access::RUNS
    } else if column_stride < channel_stride {
        y_access::TURNED
    } else {
        y_access::ELEMENTS
    }
}

/// Greatest common divisor of numbers that are at least 1.
fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
