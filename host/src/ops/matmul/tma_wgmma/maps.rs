//! Matmul operands as tensor maps describe them.

use super::ALIGN_BYTES;
use crate::driver::{GpuContext, Swizzle, TensorMap, Tiled, TmaType};
use crate::ops::matmul::MatmulProblem;
use crate::select::Refusal;
use crate::{DType, Error, TensorDesc};
use kernel_abi::ops::matmul::{MAX_BATCH_DIMS, MatmulTile};

/// Which dimension of an input is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Major {
    /// That of the sum.
    K,
    /// Rows of a, columns of b.
    Mn,
}

/// All operands of a problem, a and b exchanged where that makes c's rows contiguous.
#[derive(Debug)]
pub(super) struct Maps {
    pub(super) data_type: TmaType,
    /// Whether `a` and `b` here are the problem's b and a: `cᵀ = bᵀ aᵀ`.
    pub(super) exchanged: bool,
    pub(super) gemm_m: u32,
    pub(super) gemm_n: u32,
    pub(super) gemm_k: u32,
    pub(super) batch_dims: [u32; MAX_BATCH_DIMS],
    pub(super) a: InputMap,
    pub(super) b: InputMap,
    pub(super) c: OutputMap,
}

/// An input's map but for its address.
#[derive(Debug)]
pub(super) struct InputMap {
    pub(super) major: Major,
    /// 1 along batch dimensions where it has its own matrices, 0 where it repeats; outermost first.
    pub(super) batch_steps: [u32; MAX_BATCH_DIMS],
    shape: Shape,
}

/// The output's map but for its address.
#[derive(Debug)]
pub(super) struct OutputMap {
    pub(super) row_stride_elems: i64,
    pub(super) batch_strides_elems: [i64; MAX_BATCH_DIMS],
    shape: Shape,
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
    /// Describes the operands, or tells which of them cannot be described.
    pub(super) fn of(problem: &MatmulProblem) -> Result<Self, Refusal> {
        let data_type = match problem.c().dtype() {
            DType::BF16 => TmaType::BF16,
            DType::F16 => TmaType::F16,
            other => return Err(Refusal::new(format!("has kernels for f16 and bf16, the element type is {other}"))),
        };
        let (a, b, c) = (Matrix::of(&problem.a_matrix()), Matrix::of(&problem.b_matrix()), Matrix::of(problem.c()));
        let batch = |desc: &TensorDesc| desc.strides()[..desc.rank() - 2].to_vec();
        let batch_dims = problem.batch_dims();
        let row_bytes = |matrix: &Matrix| matrix.cols as u64 * ELEMENT_BYTES;
        let fits = |matrix: &Matrix| {
            row_bytes(matrix).is_multiple_of(ALIGN_BYTES)
                && matrix.shape("c", &batch(problem.c()), batch_dims, false).is_ok()
        };
        let exchanged = !fits(&c) && fits(&c.transposed());
        let (a, a_batch, b, b_batch, c) = if exchanged {
            (b.transposed(), batch(problem.b()), a.transposed(), batch(problem.a()), c.transposed())
        } else {
            (a, batch(problem.a()), b, batch(problem.b()), c)
        };
        // Names are the caller's.
        let (a_name, b_name) = if exchanged { ("b", "a") } else { ("a", "b") };
        // Loads end with the element; stores were seen to end with the 16 bytes (H200, driver 580.159).
        if !row_bytes(&c).is_multiple_of(ALIGN_BYTES) {
            let given = row_bytes(&c);
            return Err(Refusal::new(format!("writes rows of a multiple of {ALIGN_BYTES} bytes, c's have {given}")));
        }
        let c_batch = batch(problem.c());
        let mut batch_strides_elems = [0; MAX_BATCH_DIMS];
        batch_strides_elems[MAX_BATCH_DIMS - c_batch.len()..].copy_from_slice(&c_batch);
        let mut dims = [1; MAX_BATCH_DIMS];
        for (dim, &extent) in dims[MAX_BATCH_DIMS - batch_dims.len()..].iter_mut().zip(batch_dims) {
            *dim = narrow("batch", extent)?;
        }
        // The kernels count matrices and tiles in 32 bits.
        let n_tiles = u128::from(problem.n_batch() as u64) * (c.rows as u128 / 128 + 1) * (c.cols as u128 / 128 + 1);
        if n_tiles > MAX_EXTENT as u128 {
            return Err(Refusal::new(format!("counts up to {MAX_EXTENT} tiles, the problem has {n_tiles}")));
        }
        Ok(Maps {
            data_type,
            exchanged,
            gemm_m: narrow("gemm_m", c.rows)?,
            gemm_n: narrow("gemm_n", c.cols)?,
            gemm_k: narrow("gemm_k", a.cols)?,
            batch_dims: dims,
            // a is [m, k]: its rows run along k. b is [k, n]: its columns do.
            a: InputMap::of(a_name, &a, &a_batch, batch_dims)?,
            b: InputMap::of(b_name, &b.transposed(), &b_batch, batch_dims)?,
            c: OutputMap {
                row_stride_elems: c.row_stride,
                batch_strides_elems,
                shape: c.shape("c", &c_batch, batch_dims, false)?,
            },
        })
    }

    /// Number of matrices.
    pub(super) fn n_batch(&self) -> u32 {
        self.batch_dims.iter().product()
    }
}

fn narrow(name: &str, extent: i64) -> Result<u32, Refusal> {
    if extent > MAX_EXTENT {
        return Err(Refusal::new(format!("takes extents up to {MAX_EXTENT}, {name} is {extent}")));
    }
    Ok(extent as u32)
}

/// One matrix of a batch.
#[derive(Clone, Copy)]
struct Matrix {
    rows: i64,
    cols: i64,
    row_stride: i64,
    col_stride: i64,
}

impl Matrix {
    fn of(desc: &TensorDesc) -> Self {
        let at = desc.rank() - 2;
        Matrix {
            rows: desc.dims()[at],
            cols: desc.dims()[at + 1],
            row_stride: desc.strides()[at],
            col_stride: desc.strides()[at + 1],
        }
    }

    fn transposed(self) -> Self {
        Matrix { rows: self.cols, cols: self.rows, row_stride: self.col_stride, col_stride: self.row_stride }
    }

    /// The map whose contiguous dimension are the columns. Where `repeats`, a batch stride of 0 becomes an extent of
    /// 1; the kernel then always asks for index 0.
    fn shape(&self, name: &str, batch_strides: &[i64], batch_dims: &[i64], repeats: bool) -> Result<Shape, Refusal> {
        if self.col_stride != 1 && self.cols > 1 {
            return Err(Refusal::new(format!(
                "needs {name} with a matrix dimension of stride 1, its strides are {} and {}",
                self.row_stride, self.col_stride
            )));
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
                return Err(Refusal::new(format!(
                    "needs {name} with strides of a multiple of {ALIGN_BYTES} bytes below 2^40, one is {bytes}"
                )));
            }
            shape.dims[1 + i] = dim as u64;
            shape.strides_bytes[i] = bytes;
            span_bytes += bytes * (dim as u64 - 1);
        }
        Ok(shape)
    }
}

/// Size of an element: f16 or bf16.
const ELEMENT_BYTES: u64 = 2;

impl InputMap {
    /// The map of `[mn, k]` matrices.
    fn of(name: &str, matrix: &Matrix, batch_strides: &[i64], batch_dims: &[i64]) -> Result<Self, Refusal> {
        let shape = |matrix: Matrix| matrix.shape(name, batch_strides, batch_dims, true);
        let (major, shape) = match (shape(*matrix), shape(matrix.transposed())) {
            (Ok(shape), _) => (Major::K, shape),
            (_, Ok(shape)) => (Major::Mn, shape),
            // The reason that says more: why the contiguous dimension does not help.
            (Err(refusal), Err(other)) => return Err(if matrix.col_stride == 1 { refusal } else { other }),
        };
        let mut batch_steps = [0; MAX_BATCH_DIMS];
        let unused = MAX_BATCH_DIMS - batch_strides.len();
        for (step, &stride) in batch_steps[unused..].iter_mut().zip(batch_strides) {
            *step = u32::from(stride != 0);
        }
        Ok(InputMap { major, batch_steps, shape })
    }

    /// The words of the map at `address`, for loads of `mn` × `k` elements.
    pub(super) fn encode(
        &self,
        context: &GpuContext,
        data_type: TmaType,
        address: u64,
        mn: u32,
        k: u32,
    ) -> Result<[u64; 16], Error> {
        // A row of the box is 128 bytes, which is what one swizzled row holds: k-major tiles are as deep; of the
        // others the kernel loads one such panel after another.
        let box_dims = match self.major {
            Major::K => [k, mn],
            Major::Mn => [MatmulTile::PANEL, k],
        };
        self.shape.encode(context, data_type, address, box_dims)
    }
}

impl OutputMap {
    /// The words of the map at `address`, for stores of `rows` rows of one panel.
    pub(super) fn encode(
        &self,
        context: &GpuContext,
        data_type: TmaType,
        address: u64,
        rows: u32,
    ) -> Result<[u64; 16], Error> {
        self.shape.encode(context, data_type, address, [MatmulTile::PANEL, rows])
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
            swizzle: Swizzle::B128,
        };
        Ok(TensorMap::tiled(context, &tiled)?.words())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn maps(text: &str) -> Result<Maps, String> {
        Maps::of(&format!("matmul:forward {text}").parse().unwrap()).map_err(|Refusal(reason)| reason)
    }

    #[test]
    fn orientation_follows_the_strides() {
        let majors = |text: &str| maps(text).map(|maps| (maps.a.major, maps.b.major, maps.exchanged));
        assert_eq!(majors("a=64x32:bf16 b=32x128:bf16"), Ok((Major::K, Major::Mn, false)));
        assert_eq!(majors("trans=tt a=32x64:bf16 b=128x32:bf16"), Ok((Major::Mn, Major::K, false)));
        // A column-major product is the row-major product of the transposes.
        let maps = maps("a=64x32:bf16 b=32x128:bf16 c=64x128:bf16:s1x64").unwrap();
        assert_eq!((maps.a.major, maps.b.major, maps.exchanged), (Major::Mn, Major::K, true));
        assert_eq!((maps.gemm_m, maps.gemm_n, maps.gemm_k), (128, 64, 32));
        assert_eq!(maps.c.row_stride_elems, 64);
    }

    #[test]
    fn shapes_are_fastest_first_and_repeats_have_extent_1() {
        let maps = maps("a=2x3x64x32:f16:s0x2048x32x1 b=2x3x32x128:f16").unwrap();
        assert_eq!((maps.a.shape.dims, &maps.a.shape.strides_bytes[..2]), ([32, 64, 3, 1, 1], &[64, 4096][..]));
        assert_eq!(maps.a.batch_steps, [0, 0, 1]);
        assert_eq!((maps.b.shape.dims, maps.b.batch_steps), ([128, 32, 3, 2, 1], [0, 1, 1]));
        assert_eq!((maps.batch_dims, maps.n_batch()), ([1, 2, 3], 6));
        assert_eq!(maps.c.batch_strides_elems, [0, 3 * 64 * 128, 64 * 128]);
    }

    #[test]
    fn refusals_name_the_operand() {
        assert!(maps("a=64x32:f32 b=32x128:f32").unwrap_err().contains("f16 and bf16"));
        assert!(maps("a=64x33:f16 b=33x128:f16").unwrap_err().contains("needs a with strides of a multiple of 16"));
        assert!(maps("a=64x32:f16 b=32x127:f16").unwrap_err().contains("c's have 254"));
        assert!(maps("a=64x32:f16:s64x2 b=32x128:f16").unwrap_err().contains("needs a with a matrix dimension"));
        assert!(maps("a=2x64x32:f16:s4x32x1 b=2x32x128:f16").unwrap_err().contains("one is 8"));
        // One column is contiguous along the other dimension.
        assert!(maps("a=64x32:f16 b=32x1:f16:s8x1").unwrap().exchanged);
        assert!(maps("a=64x32:f16 b=32x33:f16:s40x1 c=64x33:f16:s40x1").unwrap_err().contains("c's have 66"));
    }
}
