//! How matrices are cut into tiles, and in what way a tile is read and written.

use super::CHUNK;
use crate::TensorDesc;
use crate::select::Refusal;
use kernel_abi::MAX_RANK;
use kernel_abi::desc::collapse;
use kernel_abi::division::Divisor;
use kernel_abi::ops::transform::{
    STORE_COLUMNS, STORE_GATHERED, STORE_MATRICES, STORE_MATRICES_NARROW, STORE_RUN, STORE_STAGED, TRANSPOSE_THREADS,
    TransposeParams,
};

/// Bytes of an access where rows that are read begin at multiples of 8 bytes only.
const NARROW_CHUNK: i64 = 8;
/// Rows of a tile that has them whole, and the most bytes of such a row.
const NARROW_ROWS: u32 = 64;
const NARROW_ROW_BYTES: u32 = 512;
/// Bytes of a tile, roughly: what a block loads at a time.
const TILE_BYTES: u32 = 16 << 10;
/// Bytes of a tile's row that the memory delivers at full speed.
const ROW_BYTES: u32 = 128;
/// Bytes that the memory reads and writes at a time: of less than that, it reads the rest to write it again.
const SECTOR: u32 = 32;
/// The most rows that are written as one run with their columns, 16 bytes composed at a time.
const MAX_RUN_ROWS: u32 = 256;
/// The least rows whose run is made in shared memory: of fewer, most of the matrices would be nothing.
const LEAST_STAGED_ROWS: u32 = 8;
/// What they are a multiple of. Of odd rows, of 7 x 7 planes, most took up to 10 % longer than composed bytes (H200).
const STAGED_ROWS: u32 = 4;
/// The least columns of such a tile where there are more, the most that fit: a row has a line of the memory then, or at
/// least two sectors.
const LEAST_STAGED_COLS: [u32; 2] = [64, 32];
/// The most shared memory of tiles that are read or written as runs, for which a multiprocessor has room four times then,
/// for most of them six to eight times.
const MAX_SHARED_BYTES: u32 = 55 << 10;
/// The most rows of other tiles.
const MAX_ROWS: u32 = 512;
/// The most tiles along the columns of which the others share out a small last one.
const MAX_SHARED_OUT: u32 = 6;
/// Tiles that are too few for a large GPU.
const FEW_TILES: i64 = 132;
/// Rows that a warp writes at a time.
const ROW_GROUP: u32 = 32;

/// Two tensors as matrices and their transposes.
#[derive(Debug)]
pub(super) struct Geometry {
    /// Where both addresses are multiples of 16.
    pub aligned: Tiling,
    /// For any addresses.
    pub any: Tiling,
    pub from_bytes: u64,
}

/// A way to cut them into tiles.
#[derive(Debug)]
pub(super) struct Tiling {
    /// But for addresses.
    pub params: TransposeParams,
    pub blocks: u32,
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
    pub fn of(x: &TensorDesc, y: &TensorDesc) -> Result<Self, Refusal> {
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

/// What a tile has, and how it is written.
struct Shape {
    store: u32,
    rows: u32,
    cols: u32,
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
        let [staged, gathered] = if addresses_are_aligned {
            [if bytes == 2 { Shape::staged(m) } else { None }, Shape::gathered(m, bytes)]
        } else {
            [None, None]
        };
        let shape = staged.or(gathered).unwrap_or_else(|| Shape::other(m, bytes, addresses_are_aligned));
        let Shape { store, rows: tile_rows, cols: tile_cols } = shape;
        let row_bytes = tile_cols.min(cols) * bytes;
        // What lies before the first element in its 16 bytes is read too.
        let skip = if from_aligned { 0 } else { CHUNK as u32 - bytes };
        let row_chunks = match store {
            STORE_MATRICES_NARROW => row_bytes.div_ceil(NARROW_CHUNK as u32),
            STORE_STAGED => row_bytes.div_ceil(CHUNK as u32),
            _ => (skip + row_bytes).div_ceil(CHUNK as u32),
        };
        let shared_pitch = match store {
            STORE_MATRICES_NARROW => row_bytes.next_multiple_of(CHUNK as u32),
            STORE_STAGED => staged_pitch(row_bytes),
            STORE_GATHERED => row_bytes,
            _ => row_chunks * CHUNK as u32,
        };
        let col_chunks = match store {
            STORE_RUN => rows,
            STORE_STAGED => rows.div_ceil(run),
            STORE_GATHERED => cols,
            _ => tile_rows.min(rows).div_ceil(run) + u32::from(!to_aligned),
        };
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

/// Bytes from row to row of a tile whose run is made in shared memory: an odd multiple of 16, so that two rows of each of
/// four groups of eight, every second one, lie in different banks.
fn staged_pitch(row_bytes: u32) -> u32 {
    (row_bytes.div_ceil(CHUNK as u32) | 1) * CHUNK as u32
}

/// Elements of a tile where `count` times an extent is shared out to tiles evenly, at most so many to one: of fewer tiles
/// than there are multiprocessors more are made, of not much less than `least`.
fn even_share(count: i64, extent: u32, most: u32, least: u32) -> u32 {
    let wanted = (FEW_TILES - 1) / count + 1;
    let pieces = i64::from(extent.div_ceil(most)).max(wanted.min(i64::from(extent.div_ceil(least))));
    extent.div_ceil(pieces as u32)
}

impl Shape {
    /// Tiles with all rows, whose run is made in shared memory: where columns are not whole sectors, so that what warps
    /// would write of them shares sectors, or not even multiples of 16 bytes, to be composed element by element.
    fn staged(m: &Matrices) -> Option<Self> {
        /// Elements of a sector, and of an access.
        const SECTOR_COLS: u32 = SECTOR / 2;
        const RUN: u32 = CHUNK as u32 / 2;
        let (rows, cols) = (m.rows as u32, m.cols as u32);
        let [from_aligned, _] = m.are_aligned(i64::from(RUN));
        let is_run = m.to_pitch == m.rows && m.to_matrix % i64::from(RUN) == 0;
        let has_rows = (LEAST_STAGED_ROWS..=MAX_ROWS).contains(&rows) && rows.is_multiple_of(STAGED_ROWS);
        if !from_aligned || !is_run || !has_rows || rows.is_multiple_of(SECTOR_COLS) {
            return None;
        }
        let [at_sectors, _] = m.are_aligned(i64::from(SECTOR_COLS));
        let unit = if at_sectors { SECTOR_COLS } else { RUN };
        let padded_rows = rows.next_multiple_of(8);
        let of_least = |least: u32| {
            let most = (TILE_BYTES / (padded_rows * 2) / unit * unit).max(least);
            let tile_cols = even_share(m.count, cols, most, least).next_multiple_of(unit);
            tile_cols.min(cols.next_multiple_of(RUN))
        };
        let fits = |tile_cols: &u32| {
            let row_bytes = staged_pitch((*tile_cols).min(cols) * 2);
            padded_rows * row_bytes + padded_rows / 8 * 16 + tile_cols * rows * 2 <= MAX_SHARED_BYTES
        };
        let cols = LEAST_STAGED_COLS.map(of_least).into_iter().find(fits)?;
        Some(Shape { store: STORE_STAGED, rows, cols })
    }

    /// Tiles with all columns where those are no multiple of what matrices are read of, and rows lie without gaps: they
    /// are one run.
    fn gathered(m: &Matrices, bytes: u32) -> Option<Self> {
        let run = CHUNK as u32 / bytes;
        let (rows, cols) = (m.rows as u32, m.cols as u32);
        let [from_aligned, to_aligned] = m.are_aligned(i64::from(run));
        let [at_eights, _] = m.are_aligned(NARROW_CHUNK / 2);
        let has_matrices = if bytes == 2 { at_eights } else { from_aligned };
        let is_run = m.from_pitch == m.cols && m.from_matrix % i64::from(run) == 0;
        let row_bytes = cols.saturating_mul(bytes);
        // Eight threads write 16 bytes of a column each.
        let group = 8 * run;
        let fits = row_bytes <= MAX_SHARED_BYTES / group;
        if has_matrices || !is_run || !to_aligned || !rows.is_multiple_of(run) || !fits {
            return None;
        }
        let most = (TILE_BYTES / row_bytes / group * group).max(group);
        let tile_rows = even_share(m.count, rows, most, group).next_multiple_of(SECTOR / bytes).min(rows);
        Some(Shape { store: STORE_GATHERED, rows: tile_rows, cols: cols.next_multiple_of(run) })
    }

    /// The other ways, for any layout and addresses.
    fn other(m: &Matrices, bytes: u32, addresses_are_aligned: bool) -> Self {
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
        Shape { store, rows: tile_rows, cols: tile_cols }
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
        assert!(p.shared_bytes() <= MAX_SHARED_BYTES, "{p:?}");
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
            let narrow = p.store == STORE_MATRICES_NARROW;
            let placed = narrow || p.store == STORE_STAGED;
            for r in (0..n_rows).filter(|_| p.store != STORE_GATHERED) {
                let skip = (from + x_at(r, 0) * bytes) % CHUNK;
                let chunk = if narrow { NARROW_CHUNK as u64 } else { CHUNK };
                assert!(!placed || skip.is_multiple_of(chunk));
                let end = if placed { 0 } else { skip } + u64::from(n_cols) * bytes;
                assert!(u64::from(p.row_chunks.divisor) * chunk >= end);
                assert!(p.shared_pitch.is_multiple_of(16) && u64::from(p.shared_pitch) >= end);
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
                STORE_STAGED => {
                    let eights = p.rows.div_ceil(8);
                    assert_eq!((n_rows, p.tile_rows, p.col_chunks.divisor), (p.rows, p.rows, eights));
                    assert_eq!(((to + to_at * 2) % CHUNK, p.to_pitch, p.tile_cols % 8), (0, i64::from(p.rows), 0));
                    let (mut staged, n) = (vec![None; (n_rows * n_cols) as usize], eights * n_cols.div_ceil(8));
                    for (round, lane) in (0..2 * n.div_ceil(8)).flat_map(|round| (0..32).map(move |lane| (round, lane)))
                    {
                        let first = round / 2 * 8 + round % 2;
                        let (cols, rows) = p.col_chunks.div_rem((first + lane % 8 / 2 * 2).min(n - 1));
                        let read = (lane / 8 * 2 + lane % 2) * p.shared_pitch + rows * p.shared_row(8) + cols * 16;
                        assert!(read + 16 <= p.staged_at() && read.is_multiple_of(16));
                        let got = first + lane % 4 * 2;
                        let (cols, rows) = p.col_chunks.div_rem(got);
                        let c = cols * 8 + lane / 4;
                        if got < n && c < n_cols {
                            for r in rows * 8..n_rows.min(rows * 8 + 8) {
                                assert_eq!(staged[(c * n_rows + r) as usize].replace(x_at(r, c)), None);
                            }
                        }
                    }
                    assert!(p.staged_at().is_multiple_of(16));
                    assert!(p.staged_at() as usize + staged.len() * 2 <= p.shared_bytes() as usize);
                    (to_at..).zip(staged).for_each(|(at, value)| put(at, value.unwrap()));
                }
                STORE_GATHERED => {
                    assert_eq!((p.shared_pitch, p.col_chunks.divisor), (p.cols * bytes as u32, n_cols));
                    assert_eq!((p.from_pitch, (from + x_at(0, 0) * bytes) % CHUNK), (i64::from(p.cols), 0));
                    assert!(
                        (n_rows * p.shared_pitch).is_multiple_of(16) && n_rows * p.shared_pitch <= p.shared_bytes()
                    );
                    let run = run as u32;
                    for (i, thread) in (0..n_rows.div_ceil(8 * run) * n_cols).flat_map(|i| (0..8).map(move |j| (i, j)))
                    {
                        let (eights, c) = p.col_chunks.div_rem(i);
                        let r = (eights * 8 + thread) * run;
                        let at = to_at + u64::from(c) * p.to_pitch as u64 + u64::from(r);
                        assert!(r >= n_rows || r + run <= n_rows && (to + at * bytes).is_multiple_of(CHUNK));
                        (r..n_rows.min(r + run)).for_each(|row| put(at + u64::from(row - r), x_at(row, c)));
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
            ("2x72x14x14:bf16", "2x72x14x14:bf16:nhwc"),
            ("1x120x28x28:bf16", "1x120x28x28:bf16:nhwc"),
            ("1x200x14x14:bf16", "1x200x14x14:bf16:nhwc"),
            ("3x672x7x7:bf16", "3x672x7x7:bf16:nhwc"),
            ("140x72x7x7:bf16", "140x72x7x7:bf16:nhwc"),
            ("2x176x13x13:f16", "2x176x13x13:f16:nhwc"),
            ("2x44x10x9:bf16", "2x44x10x9:bf16:nhwc"),
            ("2x24x17x17:bf16", "2x24x17x17:bf16:nhwc"),
            ("2x12x10x5:bf16", "2x12x10x5:bf16:nhwc"),
            ("1x8x53x15:bf16", "1x8x53x15:bf16:nhwc"),
            ("2x36x5x5:f32", "2x36x5x5:f32:nhwc"),
            ("2x3x40x52:bf16", "2x3x40x52:bf16:nhwc"),
            ("8x5x4:bf16:s40x1x8", "8x5x4:bf16:s20x4x1"),
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

    /// Of layers' tensors: both sides move in long runs, and a multiprocessor has room for several tiles.
    #[test]
    fn ways_of_layers() {
        for (n, c, plane, there, back) in [
            (256, 512, "14x14", (STORE_MATRICES_NARROW, 64, 200), (STORE_STAGED, 196, 64)),
            (128, 200, "14x14", (STORE_MATRICES_NARROW, 64, 200), (STORE_STAGED, 196, 56)),
            (256, 2048, "7x7", (STORE_GATHERED, 128, 56), (STORE_RUN, 49, 128)),
            (128, 672, "7x7", (STORE_GATHERED, 112, 56), (STORE_RUN, 49, 136)),
            (128, 72, "56x56", (STORE_STAGED, 72, 112), (STORE_MATRICES, 128, 72)),
            (128, 120, "28x28", (STORE_STAGED, 120, 64), (STORE_MATRICES, 128, 64)),
            (128, 768, "17x17", (STORE_GATHERED, 64, 296), (STORE_COLUMNS, 128, 64)),
            (1, 512, "7x7", (STORE_GATHERED, 64, 56), (STORE_RUN, 49, 128)),
            (64, 3, "224x224", (STORE_RUN, 3, 2048), (STORE_GATHERED, 2656, 8)),
        ] {
            let x: TensorDesc = format!("{n}x{c}x{plane}:bf16").parse().unwrap();
            let y: TensorDesc = format!("{n}x{c}x{plane}:bf16:nhwc").parse().unwrap();
            for (x, y, expected) in [(&x, &y, there), (&y, &x, back)] {
                let p = Geometry::of(x, y).unwrap().aligned.params;
                assert_eq!((p.store, p.tile_rows, p.tile_cols), expected, "{x} to {y}");
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
