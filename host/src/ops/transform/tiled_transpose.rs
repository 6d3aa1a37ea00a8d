//! Layout changes that are transpositions of matrices, such as NCHW to NHWC and back: tiles through shared memory.

use super::{TransformProblem, naive};
use crate::driver::{Function, GpuStream};
use crate::launch::{KernelLaunch, LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, Error, Problem, Stream, TensorDesc};
use kernel_abi::MAX_RANK;
use kernel_abi::desc::collapse;
use kernel_abi::division::Divisor;
use kernel_abi::ops::transform::{
    STORE_COLUMNS, STORE_MATRICES, STORE_MATRICES_NARROW, STORE_RUN, TRANSPOSE_THREADS, TransformParams,
    TransposeParams,
};

/// Bytes of an access.
const CHUNK: u64 = 16;
/// The same where rows that are read begin at multiples of 8 bytes only.
const NARROW_CHUNK: i64 = 8;
/// Rows of a tile that has them whole, and the most bytes of such a row.
const NARROW_ROWS: u32 = 64;
const NARROW_ROW_BYTES: u32 = 512;
/// Bytes of a tile, roughly: what a block loads at a time.
const TILE_BYTES: u32 = 16 << 10;
/// Bytes of a tile's row that the memory delivers at full speed.
const ROW_BYTES: u32 = 128;
/// The most rows that are written as one run with their columns.
const MAX_RUN_ROWS: u32 = 256;
/// The most rows of other tiles.
const MAX_ROWS: u32 = 512;
/// The most tiles along the columns of which the others share out a small last one.
const MAX_SHARED_OUT: u32 = 6;
/// Tiles that are too few for a large GPU.
const FEW_TILES: i64 = 132;
/// Rows that a warp writes at a time.
const ROW_GROUP: u32 = 32;
/// Share of the memory's rate.
const MEMORY_SHARE: f64 = 0.9;

/// Symbol, bytes of an element.
type Row = (&'static str, u64);

macro_rules! rows {
    ($(($symbol:ident, $bytes:literal)),* $(,)?) => { &[$((stringify!($symbol), $bytes)),*] };
}
const KERNELS: &[Row] = kernel_abi::transform_transpose_kernels!(rows);
const SM90_KERNELS: &[Row] = kernel_abi::transform_transpose_sm90_kernels!(rows);

/// Elements of 2 and 4 bytes, 16 bytes an access on both sides.
///
/// A run with other scalars than alpha 1 and beta 0 takes the naive kernel: it has arithmetic to do.
pub(super) struct TiledTranspose;

impl Algorithm<TransformProblem> for TiledTranspose {
    fn name(&self) -> &'static str {
        "tiled_transpose"
    }

    fn configs(&self, problem: &TransformProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        Geometry::of(problem.x(), problem.y())?;
        Ok(vec![Config(symbol(problem.x(), context)?)])
    }

    fn workspace_bytes(&self, _: &TransformProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &TransformProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::LAUNCH_US + problem.bytes() / (MEMORY_SHARE * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &TransformProblem, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        Ok(Box::new(TransposeLaunch {
            transposition: Transposition::new(problem.x(), problem.y(), context)?,
            fallback: naive::launch(problem, context.function(naive::symbol(problem))?),
        }))
    }
}

/// The kernel for elements of x's size: on Hopper one that may start early.
fn symbol(x: &TensorDesc, context: &Context) -> Result<&'static str, Refusal> {
    let rows = if context.info().compute_capability == (9, 0) { SM90_KERNELS } else { KERNELS };
    let row = rows.iter().find(|row| row.1 == x.dtype().size_bytes() as u64);
    row.map(|row| row.0)
        .ok_or_else(|| Refusal::new(format!("takes elements of 2 and 4 bytes, the element type is {}", x.dtype())))
}

struct TransposeLaunch {
    transposition: Transposition,
    fallback: KernelLaunch<TransformParams>,
}

impl Launch for TransposeLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        match stream.gpu_stream() {
            Some(stream) if call.alpha == 1.0 && call.beta == 0.0 => {
                self.transposition.launch(stream, call.address(0), call.address(1), false)
            }
            _ => self.fallback.launch(stream, call),
        }
    }
}

/// Launches that bring a tensor from one layout into another, complete but for addresses.
pub(in crate::ops) struct Transposition {
    function: Function,
    programmatic: bool,
    geometry: Geometry,
}

impl Transposition {
    /// Why tensors of these layouts are no transpositions of one another that there is a kernel for.
    pub(in crate::ops) fn check(x: &TensorDesc, y: &TensorDesc, context: &Context) -> Result<(), Refusal> {
        symbol(x, context)?;
        Geometry::of(x, y).map(|_| ())
    }

    /// Time of a launch behind others.
    pub(in crate::ops) fn estimate_us(x: &TensorDesc, context: &Context) -> f64 {
        /// From the end of the kernel before to the first load, and from the last store to the end.
        const ENDS_US: f64 = 2.0;
        ENDS_US + 2.0 * x.data_bytes() as f64 / (MEMORY_SHARE * context.info().bytes_per_us)
    }

    /// The launch for two tensors of equal extents and type that [`check`](Self::check) lets pass.
    pub(in crate::ops) fn new(x: &TensorDesc, y: &TensorDesc, context: &Context) -> Result<Self, Error> {
        let refused = |Refusal(reason)| Error::bad("transform", "y", reason);
        let symbol = symbol(x, context).map_err(refused)?;
        Ok(Transposition {
            function: context.function(symbol)?,
            programmatic: SM90_KERNELS.iter().any(|row| row.0 == symbol),
            geometry: Geometry::of(x, y).map_err(refused)?,
        })
    }

    /// Queues it; `beside` if the launch before was of another transposition, of other memory.
    pub(in crate::ops) fn launch(&self, stream: &GpuStream, from: u64, to: u64, beside: bool) -> Result<(), Error> {
        let aligned = from.is_multiple_of(CHUNK) && to.is_multiple_of(CHUNK);
        let tiling = if aligned { &self.geometry.aligned } else { &self.geometry.any };
        let mut params = tiling.params;
        (params.from, params.from_end, params.to) = (from, from + self.geometry.from_bytes, to);
        params.beside = u32::from(beside && self.programmatic);
        let config = LaunchConfig {
            grid: [tiling.blocks, 1, 1],
            block: [TRANSPOSE_THREADS, 1, 1],
            shared_bytes: params.shared_bytes(),
            cluster: None,
            programmatic: self.programmatic,
            ..LaunchConfig::default()
        };
        launch(&self.function, &config, stream, &params)
    }
}

/// Two tensors as matrices and their transposes.
#[derive(Debug)]
struct Geometry {
    /// Where both addresses are multiples of 16.
    aligned: Tiling,
    /// For any addresses.
    any: Tiling,
    from_bytes: u64,
}

/// A way to cut them into tiles.
#[derive(Debug)]
struct Tiling {
    /// But for addresses.
    params: TransposeParams,
    blocks: u32,
}

/// A batch of matrices `[rows][cols]`, distances in elements.
#[derive(Clone, Copy, Debug)]
struct Matrices {
    count: i64,
    rows: i64,
    cols: i64,
    /// Between matrices, read and written.
    from_matrix: i64,
    to_matrix: i64,
    /// Between rows read, and columns written.
    from_pitch: i64,
    to_pitch: i64,
}

impl Matrices {
    fn of(x: &TensorDesc, y: &TensorDesc) -> Result<Self, Refusal> {
        let refusal = || {
            let reason = format!(
                "takes up to three dimensions, neighbours that both walk as one counted once, of which x and y have \
                 different ones contiguous; given {x} and {y}"
            );
            Refusal::new(reason)
        };
        let [from, to] = collapse([x, y]);
        let dims: Vec<usize> = (0..MAX_RANK).filter(|&i| from.dims[i] > 1).collect();
        let col = dims.iter().copied().find(|&i| from.strides[i] == 1).ok_or_else(refusal)?;
        let row = dims.iter().copied().find(|&i| to.strides[i] == 1).ok_or_else(refusal)?;
        let mut rest = dims.iter().copied().filter(|&i| i != col && i != row);
        let (matrix, more) = (rest.next(), rest.next());
        if row == col || more.is_some() {
            return Err(refusal());
        }
        Ok(Matrices {
            count: matrix.map_or(1, |i| from.dims[i]),
            rows: from.dims[row],
            cols: from.dims[col],
            from_matrix: matrix.map_or(0, |i| from.strides[i]),
            to_matrix: matrix.map_or(0, |i| to.strides[i]),
            from_pitch: from.strides[row],
            to_pitch: to.strides[col],
        })
    }

    /// Whether all rows and columns begin at multiples of so many elements where the tensors do.
    fn are_aligned(&self, run: i64) -> [bool; 2] {
        let all = |strides: [i64; 2]| strides.into_iter().all(|stride| stride % run == 0);
        [all([self.from_matrix, self.from_pitch]), all([self.to_matrix, self.to_pitch])]
    }
}

impl Geometry {
    fn of(x: &TensorDesc, y: &TensorDesc) -> Result<Self, Refusal> {
        if x.dtype() != y.dtype() || !matches!(x.dtype().size_bytes(), 2 | 4) {
            let (x, y) = (x.dtype(), y.dtype());
            return Err(Refusal::new(format!("takes one type of 2 or 4 bytes, given {x} and {y}")));
        }
        let (matrices, bytes) = (Matrices::of(x, y)?, x.dtype().size_bytes() as u32);
        Ok(Geometry {
            aligned: Tiling::of(&matrices, bytes, true)?,
            any: Tiling::of(&matrices, bytes, false)?,
            from_bytes: x.span_bytes(),
        })
    }
}

impl Tiling {
    fn of(m: &Matrices, bytes: u32, addresses_are_aligned: bool) -> Result<Self, Refusal> {
        /// Rows and columns are counted in 31 bits, a tile more of them included.
        const MAX_EXTENT: i64 = i32::MAX as i64 - (1 << 16);
        if m.rows.max(m.cols) > MAX_EXTENT {
            let reason = format!("takes up to {MAX_EXTENT} rows and columns, given {} and {}", m.rows, m.cols);
            return Err(Refusal::new(reason));
        }
        let (rows, cols) = (m.rows as u32, m.cols as u32);
        let run = CHUNK as u32 / bytes;
        let [from_aligned, to_aligned] = m.are_aligned(i64::from(run)).map(|aligned| aligned && addresses_are_aligned);
        let matrices = bytes == 2 && from_aligned && to_aligned && rows.is_multiple_of(run) && cols.is_multiple_of(run);
        let [from_at_eights, _] = m.are_aligned(NARROW_CHUNK / i64::from(bytes));
        let narrow = bytes == 2 && from_at_eights && to_aligned && rows.is_multiple_of(run);
        let store = if matrices {
            STORE_MATRICES
        } else if narrow && addresses_are_aligned {
            STORE_MATRICES_NARROW
        } else if m.to_pitch == m.rows && rows <= MAX_RUN_ROWS && !(to_aligned && rows.is_multiple_of(run)) {
            STORE_RUN
        } else {
            STORE_COLUMNS
        };
        let col_bytes = cols.saturating_mul(bytes);
        // Rows that lie without gaps are read whole, so that a tile's are one run.
        let whole = store == STORE_MATRICES_NARROW && m.from_pitch == m.cols && col_bytes <= NARROW_ROW_BYTES;
        let tile_rows = if store == STORE_RUN {
            rows
        } else if whole {
            NARROW_ROWS.min(rows.next_multiple_of(ROW_GROUP))
        } else {
            let most = TILE_BYTES / col_bytes.clamp(ROW_GROUP, ROW_BYTES) / ROW_GROUP * ROW_GROUP;
            rows.next_multiple_of(ROW_GROUP).min(most).min(MAX_ROWS)
        };
        // Where that makes fewer tiles than there are multiprocessors, smaller ones, down to one round of loads.
        let few_tiles = |tile_rows: u32| {
            let tiles = i64::from(rows.div_ceil(tile_rows)) * i64::from(col_bytes.div_ceil(ROW_BYTES));
            m.count.saturating_mul(tiles) < FEW_TILES
        };
        let is_small = !whole && store != STORE_RUN && few_tiles(tile_rows);
        let loads = |tile_rows: u32| tile_rows * col_bytes.min(ROW_BYTES) / CHUNK as u32;
        let mut tile_rows = tile_rows;
        while is_small && few_tiles(tile_rows) && loads(tile_rows) > TRANSPOSE_THREADS {
            tile_rows = (tile_rows / 2).next_multiple_of(ROW_GROUP);
        }
        let mut tile_bytes = ROW_BYTES;
        while !is_small && 2 * tile_bytes * tile_rows <= TILE_BYTES && tile_bytes < col_bytes {
            tile_bytes *= 2;
        }
        let mut tile_cols = tile_bytes / bytes;
        let n_tiles = cols.div_ceil(tile_cols);
        let few = (2..=MAX_SHARED_OUT).contains(&n_tiles) && tile_rows <= TILE_BYTES / ROW_BYTES;
        if few && cols - (n_tiles - 1) * tile_cols < tile_cols / 2 {
            // What would be left over for a last tile is shared out to the others.
            tile_cols = cols.div_ceil(n_tiles - 1).next_multiple_of(run);
        }
        if whole {
            tile_cols = cols.next_multiple_of(run);
        }
        let (row_chunks, shared_pitch);
        if store == STORE_MATRICES_NARROW {
            row_chunks = (tile_cols.min(cols) * bytes).div_ceil(NARROW_CHUNK as u32);
            shared_pitch = (tile_cols.min(cols) * bytes).next_multiple_of(CHUNK as u32);
        } else {
            // What lies before the first element in its 16 bytes is read too.
            let skip = if from_aligned { 0 } else { CHUNK as u32 - bytes };
            row_chunks = (skip + tile_cols.min(cols) * bytes).div_ceil(CHUNK as u32);
            shared_pitch = row_chunks * CHUNK as u32;
        }
        let col_chunks =
            if store == STORE_RUN { rows } else { tile_rows.min(rows).div_ceil(run) + u32::from(!to_aligned) };
        let (row_tiles, col_tiles) = (rows.div_ceil(tile_rows), cols.div_ceil(tile_cols));
        let blocks = m.count.saturating_mul(i64::from(row_tiles)).saturating_mul(i64::from(col_tiles));
        if blocks > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("takes up to {} tiles, given {blocks}", i32::MAX)));
        }
        let params = TransposeParams {
            from: 0,
            from_end: 0,
            to: 0,
            from_matrix: m.from_matrix,
            to_matrix: m.to_matrix,
            from_pitch: m.from_pitch,
            to_pitch: m.to_pitch,
            rows,
            cols,
            tile_rows,
            tile_cols,
            row_tiles: Divisor::new(row_tiles),
            col_tiles: Divisor::new(col_tiles),
            row_chunks: Divisor::new(row_chunks),
            col_chunks: Divisor::new(col_chunks),
            store,
            shared_pitch,
            reserved: 0,
            beside: 0,
        };
        Ok(Tiling { params, blocks: blocks as u32 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What the kernel does, on elements that are their own row-major index: the offset in x of what is written to each
    /// offset of y.
    fn written(x: &TensorDesc, y: &TensorDesc, [from, to]: [u64; 2]) -> Vec<Option<u64>> {
        let bytes = x.dtype().size_bytes() as u64;
        let geometry = Geometry::of(x, y).unwrap();
        let aligned = from % CHUNK == 0 && to % CHUNK == 0;
        let tiling = if aligned { &geometry.aligned } else { &geometry.any };
        let (p, run) = (&tiling.params, CHUNK / bytes);
        assert!(p.shared_bytes() <= 48 << 10, "{p:?}");
        let mut out = vec![None; y.span_elems() as usize];
        let mut put = |at: u64, value: u64| assert_eq!(out[at as usize].replace(value), None);
        for block in 0..tiling.blocks {
            let (rest, row_tile) = p.row_tiles.div_rem(block);
            let (matrix, col_tile) = p.col_tiles.div_rem(rest);
            let (row, col) = (row_tile * p.tile_rows, col_tile * p.tile_cols);
            let (n_rows, n_cols) = (p.tile_rows.min(p.rows - row), p.tile_cols.min(p.cols - col));
            let x_at = |r: u32, c: u32| {
                (i64::from(matrix) * p.from_matrix + i64::from(row + r) * p.from_pitch + i64::from(col + c)) as u64
            };
            let to_at = (i64::from(matrix) * p.to_matrix + i64::from(col) * p.to_pitch + i64::from(row)) as u64;
            for r in 0..n_rows {
                let skip = (from + x_at(r, 0) * bytes) % CHUNK;
                let narrow = p.store == STORE_MATRICES_NARROW;
                let (skip, chunk) = if narrow { (0, NARROW_CHUNK as u64) } else { (skip, CHUNK) };
                assert!(!narrow || (from + x_at(r, 0) * bytes).is_multiple_of(chunk));
                assert!(u64::from(p.row_chunks.divisor) * chunk >= skip + u64::from(n_cols) * bytes);
                assert!(
                    p.shared_pitch.is_multiple_of(16) && u64::from(p.shared_pitch) >= skip + u64::from(n_cols) * bytes
                );
            }
            match p.store {
                STORE_RUN => {
                    assert_eq!((n_rows, p.col_chunks.divisor), (p.rows, p.rows));
                    for i in 0..n_rows * n_cols {
                        let (c, r) = p.col_chunks.div_rem(i);
                        put(to_at + u64::from(i), x_at(r, c));
                    }
                }
                STORE_MATRICES | STORE_MATRICES_NARROW => {
                    assert!(
                        (n_cols % 8 == 0 || p.store == STORE_MATRICES_NARROW)
                            && n_rows % 8 == 0
                            && p.tile_rows % 32 == 0
                    );
                    for (c, group) in (0..n_cols).flat_map(|c| (0..n_rows / 8).map(move |group| (c, group))) {
                        let at = to_at + u64::from(c) * p.to_pitch as u64 + u64::from(group) * 8;
                        assert_eq!((to + at * 2) % CHUNK, 0);
                        (0..8).for_each(|i| put(at + i, x_at(group * 8 + i as u32, c)));
                    }
                }
                _ => {
                    for (c, chunk) in (0..n_cols).flat_map(|c| (0..p.col_chunks.divisor).map(move |i| (c, i))) {
                        let at = to_at + u64::from(c) * p.to_pitch as u64;
                        let skip = (to + at * bytes) % CHUNK / bytes;
                        for i in 0..run {
                            let r = (u64::from(chunk) * run + i).wrapping_sub(skip);
                            if r < u64::from(n_rows) {
                                put(at + r, x_at(r as u32, c));
                            }
                        }
                    }
                }
            }
        }
        out
    }

    #[test]
    fn every_element_is_written_once() {
        let desc = |text: &str| text.parse::<TensorDesc>().unwrap();
        for (x, y) in [
            ("2x64x56x56:bf16", "2x64x56x56:bf16:nhwc"),
            ("3x72x7x7:bf16", "3x72x7x7:bf16:nhwc"),
            ("2x136x14x14:f16", "2x136x14x14:f16:nhwc"),
            ("2x40x2x6:f16", "2x40x2x6:f16:nhwc"),
            ("1x64x20x21:bf16", "1x64x20x21:bf16:nhwc"),
            ("2x5x13x13:f32", "2x5x13x13:f32:nhwc"),
            ("1x130x29x31:bf16", "1x130x29x31:bf16:nhwc"),
            ("2x80x16x16:bf16", "2x80x16x16:bf16:nhwc"),
            ("2x80x15x17:bf16", "2x80x15x17:bf16:nhwc"),
            ("9x700x3x3:bf16", "9x700x3x3:bf16:nhwc"),
            ("2x13x9x7:bf16", "2x13x9x7:bf16:s1008x1x112x16"),
            ("3x257:f32", "3x257:f32:s1x3"),
            ("1000x2:bf16", "1000x2:bf16:s1x1000"),
        ] {
            let (x, y) = (desc(x), desc(y));
            for (x, y) in [(x, y), (y, x)] {
                for addresses in [[256, 512], [258, 512], [256, 500]] {
                    let bytes = x.dtype().size_bytes() as u64;
                    let out = written(&x, &y, addresses.map(|address| address / bytes * bytes));
                    for linear in 0..x.n_elems() {
                        let expected = Some(x.offset_of(linear) as u64);
                        assert_eq!(out[y.offset_of(linear) as usize], expected, "{x} to {y}, element {linear}");
                    }
                    assert_eq!(out.iter().flatten().count() as i64, x.n_elems());
                }
            }
        }
    }

    #[test]
    fn refusals_name_the_layouts() {
        let refusal = |x: &str, y: &str| Geometry::of(&x.parse().unwrap(), &y.parse().unwrap()).unwrap_err().0;
        assert!(refusal("2x3:f32", "2x3:f32").contains("different ones contiguous"));
        assert!(refusal("2x3x4x5:f32:s240x80x10x1", "2x3x4x5:f32:nhwc").contains("up to three dimensions"));
        assert!(refusal("2x3:f64", "2x3:f64:s1x2").contains("2 or 4 bytes"));
        assert!(refusal("2x3:f16", "2x3:bf16:s1x2").contains("given f16 and bf16"));
        assert!(refusal("2x3:f16:s6x2", "2x3:f16:s1x2").contains("contiguous"));
    }
}
