//! Matmul operands as tensor maps describe them.

use super::ALIGN_BYTES;
use super::pack::Pack;
use crate::driver::{GpuContext, Swizzle, TensorMap, Tiled, TmaType};
use crate::ops::matmul::MatmulProblem;
use crate::select::Refusal;
use crate::{DType, Error, TensorDesc};
use kernel_abi::ops::matmul::{F32_PARTS, MAX_BATCH_DIMS, MatmulTile};

/// Which dimension of an input is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops::matmul) enum Major {
    /// That of the sum.
    K,
    /// Rows of a, columns of b.
    Mn,
}

/// All operands of a problem, or of its transpose `cᵀ = bᵀ aᵀ`.
#[derive(Debug)]
pub(in crate::ops::matmul) struct Maps {
    pub(in crate::ops::matmul) data_type: TmaType,
    /// Whether this is the transpose: `a` and `b` here are the problem's b and a.
    pub(in crate::ops::matmul) exchanged: bool,
    pub(in crate::ops::matmul) gemm_m: u32,
    pub(in crate::ops::matmul) gemm_n: u32,
    pub(in crate::ops::matmul) gemm_k: u32,
    pub(in crate::ops::matmul) batch_dims: [u32; MAX_BATCH_DIMS],
    pub(in crate::ops::matmul) a: InputMap,
    pub(in crate::ops::matmul) b: InputMap,
    pub(in crate::ops::matmul) c: OutputMap,
    pub(in crate::ops::matmul) outer: Outer,
}

/// An outer index of the sums.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::ops::matmul) struct Outer {
    /// Blocks of k for each of its values.
    pub(in crate::ops::matmul) blocks: u32,
    /// Whether it is added to the innermost batch coordinates of a and b.
    pub(in crate::ops::matmul) batches: [bool; 2],
}

/// An input's map but for its address.
#[derive(Debug)]
pub(in crate::ops::matmul) struct InputMap {
    pub(in crate::ops::matmul) major: Major,
    /// 1 along batch dimensions where it has its own matrices, 0 where it repeats; outermost first.
    pub(in crate::ops::matmul) batch_steps: [u32; MAX_BATCH_DIMS],
    /// How the operand gets into the workspace, where no map can describe it as it is.
    pub(in crate::ops::matmul) pack: Option<Pack>,
    shape: Shape,
}

/// The output, and its map but for its address.
#[derive(Debug)]
pub(in crate::ops::matmul) struct OutputMap {
    pub(in crate::ops::matmul) row_stride_elems: i64,
    pub(in crate::ops::matmul) col_stride_elems: i64,
    pub(in crate::ops::matmul) batch_strides_elems: [i64; MAX_BATCH_DIMS],
    /// Whether the rows are contiguous and not the columns.
    pub(in crate::ops::matmul) transposed: bool,
    /// Elements along the contiguous dimension.
    inner: i64,
    /// None where no map can describe it.
    shape: Option<Shape>,
}

/// Extents and strides of a map, fastest first: contiguous dimension, other dimension, batch dimensions from the
/// innermost out.
#[derive(Debug)]
struct Shape {
    dims: [u64; 5],
    strides_bytes: [u64; 4],
}

/// The largest extent whose indices the hardware's signed coordinates reach.
const MAX_EXTENT: i64 = i32::MAX as i64;

/// Strides must stay below this many bytes.
const MAX_STRIDE_BYTES: u64 = 1 << 40;

impl Maps {
    /// Whether the transpose has the contiguous dimension of c in its columns, and the problem has not.
    pub(in crate::ops::matmul) fn transpose_is_contiguous(problem: &MatmulProblem) -> bool {
        let c = Matrix::of(problem.c());
        !(c.col_stride == 1 || c.cols == 1) && (c.row_stride == 1 || c.rows == 1)
    }

    /// Describes the operands of the problem, or of its transpose, or tells which of them cannot be described.
    pub(in crate::ops::matmul) fn of(problem: &MatmulProblem, exchanged: bool) -> Result<Self, Refusal> {
        let data_type = match problem.a().dtype() {
            DType::BF16 => TmaType::BF16,
            DType::F16 => TmaType::F16,
            other => return Err(Refusal::new(format!("has kernels for f16 and bf16, the element type is {other}"))),
        };
        let (a, b, c) = (Matrix::of(&problem.a_matrix()), Matrix::of(&problem.b_matrix()), Matrix::of(problem.c()));
        let batch = |desc: &TensorDesc| desc.strides()[..desc.rank() - 2].to_vec();
        let batch_dims = problem.batch_dims();
        let (a, a_batch, b, b_batch, c) = if exchanged {
            (b.transposed(), batch(problem.b()), a.transposed(), batch(problem.a()), c.transposed())
        } else {
            (a, batch(problem.a()), b, batch(problem.b()), c)
        };
        let mut dims = [1; MAX_BATCH_DIMS];
        for (dim, &extent) in dims[MAX_BATCH_DIMS - batch_dims.len()..].iter_mut().zip(batch_dims) {
            *dim = narrow("batch", extent)?;
        }
        // The kernels count matrices, tiles and their slices in 32 bits.
        let n_tiles = u128::from(problem.n_batch() as u64) * (c.rows as u128 / 128 + 1) * (c.cols as u128 / 16 + 1);
        if n_tiles * MAX_SLICES > MAX_EXTENT as u128 {
            return Err(Refusal::new(format!("counts up to {MAX_EXTENT} units, the problem has {n_tiles} tiles")));
        }
        let gemm_k = narrow("gemm_k", a.cols)?;
        Ok(Maps {
            data_type,
            exchanged,
            gemm_m: narrow("gemm_m", c.rows)?,
            gemm_n: narrow("gemm_n", c.cols)?,
            gemm_k,
            batch_dims: dims,
            // a is [m, k]: its rows run along k. b is [k, n]: its columns do.
            a: InputMap::of(&a, &a_batch, batch_dims),
            b: InputMap::of(&b.transposed(), &b_batch, batch_dims),
            c: OutputMap::of(&c, &batch(problem.c()), batch_dims),
            outer: Outer { blocks: gemm_k.div_ceil(BLOCK_K), batches: [false; 2] },
        })
    }

    /// Number of matrices.
    pub(in crate::ops::matmul) fn n_batch(&self) -> u32 {
        self.batch_dims.iter().product()
    }
}

/// The most slices of a sum.
const MAX_SLICES: u128 = 64;

pub(in crate::ops::matmul) fn narrow(name: &str, extent: i64) -> Result<u32, Refusal> {
    if extent > MAX_EXTENT {
        return Err(Refusal::new(format!("takes extents up to {MAX_EXTENT}, {name} is {extent}")));
    }
    Ok(extent as u32)
}

/// One matrix of a batch.
#[derive(Clone, Copy)]
pub(in crate::ops::matmul) struct Matrix {
    pub(in crate::ops::matmul) rows: i64,
    pub(in crate::ops::matmul) cols: i64,
    pub(in crate::ops::matmul) row_stride: i64,
    pub(in crate::ops::matmul) col_stride: i64,
}

impl Matrix {
    pub(in crate::ops::matmul) fn of(desc: &TensorDesc) -> Self {
        let at = desc.rank() - 2;
        Matrix {
            rows: desc.dims()[at],
            cols: desc.dims()[at + 1],
            row_stride: desc.strides()[at],
            col_stride: desc.strides()[at + 1],
        }
    }

    pub(in crate::ops::matmul) fn transposed(self) -> Self {
        Matrix { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride }
    }

    /// The map whose contiguous dimension are the columns, if the hardware takes the strides. Where `repeats`, a batch
    /// stride of 0 becomes an extent of 1; the kernel then always asks for index 0.
    fn shape(&self, batch_strides: &[i64], batch_dims: &[i64], repeats: bool) -> Option<Shape> {
        if self.col_stride != 1 && self.cols > 1 {
            return None;
        }
        let mut shape = Shape { dims: [1; 5], strides_bytes: [0; 4] };
        shape.dims[0] = self.cols as u64;
        let mut span_bytes = shape.dims[0] * ELEMENT_BYTES;
        let outer = std::iter::once((self.row_stride, self.rows))
            .chain(batch_strides.iter().copied().zip(batch_dims.iter().copied()).rev());
        for (i, (stride, dim)) in outer.chain(std::iter::repeat((0, 1))).take(4).enumerate() {
            let repeated = i > 0 && repeats && stride == 0;
            if dim == 1 || repeated {
                // Never stepped along: any legal stride will do.
                shape.strides_bytes[i] = span_bytes.next_multiple_of(ALIGN_BYTES).min(MAX_STRIDE_BYTES - ALIGN_BYTES);
                continue;
            }
            let bytes = stride as u64 * ELEMENT_BYTES;
            if stride == 0 || !bytes.is_multiple_of(ALIGN_BYTES) || bytes >= MAX_STRIDE_BYTES {
                return None;
            }
            shape.dims[1 + i] = dim as u64;
            shape.strides_bytes[i] = bytes;
            span_bytes += bytes * (dim as u64 - 1);
        }
        Some(shape)
    }
}

/// Length of the sums between two barriers, of all tiles.
pub(in crate::ops::matmul) const BLOCK_K: u32 = 64;

/// Size of an element: f16 or bf16.
const ELEMENT_BYTES: u64 = 2;

impl InputMap {
    /// The map of `[mn, k]` matrices, or of their packed copy.
    fn of(matrix: &Matrix, batch_strides: &[i64], batch_dims: &[i64]) -> Self {
        let unused = MAX_BATCH_DIMS - batch_strides.len();
        let mut batch_steps = [0; MAX_BATCH_DIMS];
        for (step, &stride) in batch_steps[unused..].iter_mut().zip(batch_strides) {
            *step = u32::from(stride != 0);
        }
        let shape = |matrix: Matrix, strides: &[i64]| matrix.shape(strides, batch_dims, true);
        let direct = match (shape(*matrix, batch_strides), shape(matrix.transposed(), batch_strides)) {
            (Some(shape), _) => Some((Major::K, shape)),
            (None, Some(shape)) => Some((Major::Mn, shape)),
            (None, None) => None,
        };
        if let Some((major, shape)) = direct {
            return InputMap { major, batch_steps, pack: None, shape };
        }
        // The copy keeps the order of the dimensions, so that both sides of it are contiguous.
        let major = if matrix.row_stride < matrix.col_stride { Major::Mn } else { Major::K };
        let rows = if major == Major::K { *matrix } else { matrix.transposed() };
        let (pack, packed, packed_strides) = Pack::of(&rows, batch_strides, batch_dims);
        let shape = shape_of_packed(&packed, &packed_strides, batch_dims);
        InputMap { major, batch_steps, pack: Some(pack), shape }
    }

    /// The map of `[mn, k]` matrices of f32 taken apart; `block_k` is what k is padded to where it is the outer dimension,
    /// so that no block of it reaches into the next part.
    pub(in crate::ops::matmul) fn of_parts(
        matrix: &Matrix,
        batch_strides: &[i64],
        batch_dims: &[i64],
        block_k: u32,
    ) -> Self {
        let major = if matrix.row_stride < matrix.col_stride { Major::Mn } else { Major::K };
        let (rows, part_rows) = match major {
            Major::K => (*matrix, matrix.rows),
            Major::Mn => (matrix.transposed(), (matrix.cols as u64).next_multiple_of(block_k.into()) as i64),
        };
        let n_parts = i64::from(F32_PARTS);
        let (pack, packed, packed_strides) = Pack::of_parts(&rows, batch_strides, batch_dims, n_parts, part_rows);
        let unused = MAX_BATCH_DIMS - batch_strides.len();
        let mut batch_steps = [0; MAX_BATCH_DIMS];
        for (step, &stride) in batch_steps[unused..].iter_mut().zip(batch_strides) {
            *step = u32::from(stride != 0);
        }
        let shape = shape_of_packed(&packed, &packed_strides, batch_dims);
        InputMap { major, batch_steps, pack: Some(pack), shape }
    }

    /// The words of the map at `address`, for loads of `mn` × `k` elements.
    pub(in crate::ops::matmul) fn encode(
        &self,
        context: &GpuContext,
        data_type: TmaType,
        address: u64,
        mn: u32,
        k: u32,
    ) -> Result<[u64; 16], Error> {
        self.encode_panels(context, data_type, address, [mn, k], MatmulTile::PANEL)
    }

    /// The same, where panels have so many rows or columns.
    pub(in crate::ops::matmul) fn encode_panels(
        &self,
        context: &GpuContext,
        data_type: TmaType,
        address: u64,
        [mn, k]: [u32; 2],
        panel: u32,
    ) -> Result<[u64; 16], Error> {
        // A row of the box is what one swizzled row holds, mostly 128 bytes: k-major tiles are as deep; of the others the
        // kernel loads one such panel after another.
        let box_dims = match self.major {
            Major::K => [k, mn],
            Major::Mn => [panel, k],
        };
        self.shape.encode(context, data_type, address, box_dims)
    }
}

/// The map of a packed copy, whose rows are multiples of 16 bytes.
fn shape_of_packed(matrix: &Matrix, batch_strides: &[i64], batch_dims: &[i64]) -> Shape {
    matrix.shape(batch_strides, batch_dims, true).expect("a packed copy has strides that the hardware takes")
}

impl OutputMap {
    fn of(matrix: &Matrix, batch_strides: &[i64], batch_dims: &[i64]) -> Self {
        let mut batch_strides_elems = [0; MAX_BATCH_DIMS];
        batch_strides_elems[MAX_BATCH_DIMS - batch_strides.len()..].copy_from_slice(batch_strides);
        // Loads end with the element; stores were seen to end with the 16 bytes (H200, driver 580.159).
        let whole = |matrix: &Matrix| (matrix.cols as u64 * ELEMENT_BYTES).is_multiple_of(ALIGN_BYTES);
        let shape = |matrix: Matrix| matrix.shape(batch_strides, batch_dims, false).filter(|_| whole(&matrix));
        let (direct, turned) = (shape(*matrix), shape(matrix.transposed()));
        let contiguous = matrix.col_stride == 1 || matrix.cols == 1;
        let transposed = direct.is_none() && (turned.is_some() || (matrix.row_stride == 1 && !contiguous));
        OutputMap {
            row_stride_elems: matrix.row_stride,
            col_stride_elems: matrix.col_stride,
            batch_strides_elems,
            transposed,
            inner: if transposed { matrix.rows } else { matrix.cols },
            shape: if transposed { turned } else { direct },
        }
    }

    /// Whether a map describes it.
    pub(in crate::ops::matmul) fn has_map(&self) -> bool {
        self.shape.is_some()
    }

    /// The most bytes that a thread can store at a time into the output at `address`: 2 to 16.
    pub(in crate::ops::matmul) fn store_bytes(&self, address: u64) -> u32 {
        let (inner_stride, outer_stride) = if self.transposed {
            (self.row_stride_elems, self.col_stride_elems)
        } else {
            (self.col_stride_elems, self.row_stride_elems)
        };
        if inner_stride != 1 {
            return ELEMENT_BYTES as u32;
        }
        let bytes = |elems: i64| elems as u64 * ELEMENT_BYTES;
        let [s0, s1, s2] = self.batch_strides_elems.map(bytes);
        let all = ALIGN_BYTES | address | bytes(outer_stride) | bytes(self.inner) | s0 | s1 | s2;
        1 << all.trailing_zeros()
    }

    /// The words of the map at `address`, for stores of 64 by 64 elements.
    pub(in crate::ops::matmul) fn encode(
        &self,
        context: &GpuContext,
        data_type: TmaType,
        address: u64,
    ) -> Result<[u64; 16], Error> {
        let rows = if self.transposed { MatmulTile::PANEL } else { MatmulTile::OUT_ROWS };
        let panel = [MatmulTile::PANEL, rows];
        self.shape.as_ref().map_or(Ok([0; 16]), |shape| shape.encode(context, data_type, address, panel))
    }
}

impl Shape {
    fn encode(
        &self,
        context: &GpuContext,
        data_type: TmaType,
        address: u64,
        [inner, outer]: [u32; 2],
    ) -> Result<[u64; 16], Error> {
        let tiled = Tiled {
            data_type,
            address,
            dims: &self.dims,
            strides_bytes: &self.strides_bytes,
            box_dims: &[inner, outer, 1, 1, 1],
            element_strides: &[],
            swizzle: if u64::from(inner) * ELEMENT_BYTES == 64 { Swizzle::B64 } else { Swizzle::B128 },
        };
        Ok(TensorMap::tiled(context, &tiled)?.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps(text: &str, exchanged: bool) -> Maps {
        Maps::of(&format!("matmul:forward {text}").parse().unwrap(), exchanged).unwrap()
    }

    #[test]
    fn orientation_follows_the_strides() {
        let majors = |text: &str| {
            let maps = maps(text, false);
            (maps.a.major, maps.b.major, maps.c.transposed)
        };
        assert_eq!(majors("a=64x32:bf16 b=32x128:bf16"), (Major::K, Major::Mn, false));
        assert_eq!(majors("trans=tt a=32x64:bf16 b=128x32:bf16"), (Major::Mn, Major::K, false));
        assert_eq!(majors("a=64x32:bf16 b=32x128:bf16 c=64x128:bf16:s1x64"), (Major::K, Major::Mn, true));
        // A column-major product is the row-major product of the transposes.
        let maps = maps("a=64x32:bf16 b=32x128:bf16 c=64x128:bf16:s1x64", true);
        assert_eq!((maps.a.major, maps.b.major, maps.c.transposed), (Major::Mn, Major::K, false));
        assert_eq!((maps.gemm_m, maps.gemm_n, maps.gemm_k), (128, 64, 32));
        assert_eq!(maps.c.row_stride_elems, 64);
    }

    #[test]
    fn shapes_are_fastest_first_and_repeats_have_extent_1() {
        let maps = maps("a=2x3x64x32:f16:s0x2048x32x1 b=2x3x32x128:f16", false);
        assert_eq!((maps.a.shape.dims, &maps.a.shape.strides_bytes[..2]), ([32, 64, 3, 1, 1], &[64, 4096][..]));
        assert_eq!(maps.a.batch_steps, [0, 0, 1]);
        assert_eq!((maps.b.shape.dims, maps.b.batch_steps), ([128, 32, 3, 2, 1], [0, 1, 1]));
        assert_eq!((maps.batch_dims, maps.n_batch()), ([1, 2, 3], 6));
        assert_eq!(maps.c.batch_strides_elems, [0, 3 * 64 * 128, 64 * 128]);
    }

    #[test]
    fn what_no_map_describes_is_packed() {
        let packed = |text: &str| {
            let maps = maps(text, false);
            let of = |map: &InputMap| map.pack.as_ref().map(|pack| (map.major, pack.bytes));
            (of(&maps.a), of(&maps.b))
        };
        assert_eq!(packed("a=64x32:f16 b=32x127:f16"), (None, Some((Major::Mn, 32 * 128 * 2))));
        assert_eq!(packed("a=64x33:f16 b=33x128:f16"), (Some((Major::K, 64 * 40 * 2)), None));
        assert_eq!(packed("a=64x32:f16:s64x2 b=32x128:f16"), (Some((Major::K, 64 * 32 * 2)), None));
        assert_eq!(packed("a=2x64x32:f16:s4x32x1 b=2x32x128:f16"), (Some((Major::K, 2 * 64 * 32 * 2)), None));
        // Matrices that repeat are copied once.
        let repeating = "a=3x2x5x9:f16:s45x0x9x1 b=3x2x9x8:f16";
        assert_eq!(packed(repeating), (Some((Major::K, 3 * 5 * 16 * 2)), None));
        // One column is contiguous along the other dimension.
        assert_eq!(packed("a=64x32:f16 b=32x1:f16:s8x1"), (None, None));
    }

    #[test]
    fn outputs_without_a_map_are_stored_by_threads() {
        let out = |text: &str, address: u64| {
            let c = maps(text, false).c;
            (c.has_map(), c.transposed, c.store_bytes(address))
        };
        assert_eq!(out("a=64x32:f16 b=32x128:f16", 256), (true, false, 16));
        assert_eq!(out("a=64x32:f16 b=32x128:f16", 264), (true, false, 8));
        assert_eq!(out("a=64x32:f16 b=32x127:f16", 256), (false, false, 2));
        assert_eq!(out("a=64x32:f16 b=32x124:f16", 256), (false, false, 8));
        assert_eq!(out("a=64x32:f16 b=32x33:f16:s40x1 c=64x33:f16:s40x1", 256), (false, false, 2));
        assert_eq!(out("a=60x32:f16 b=32x64:f16 c=60x64:f16:s1x60", 256), (false, true, 8));
        assert_eq!(out("a=64x32:f16 b=32x64:f16 c=64x64:f16:s130x2", 256), (false, false, 2));
    }

    #[test]
    fn refusals_name_the_numbers() {
        let refusal = |text: &str| {
            let problem = format!("matmul:forward {text}").parse().unwrap();
            Maps::of(&problem, false).map(|_| ()).unwrap_err().0
        };
        assert!(refusal("a=64x32:f32 b=32x128:f32").contains("f16 and bf16"));
        assert!(refusal("a=2x4294967296:f16 b=4294967296x2:f16").contains("gemm_k is 4294967296"));
        assert!(refusal("a=1048576x1:f16 b=1x1048576:f16").contains("units"));
    }
}
