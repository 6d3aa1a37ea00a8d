//! Rows that are contiguous, as those of an embedding: copied as bytes, and summed up by lists of what belongs to them.

use super::{GatherPass, GatherProblem, naive};
use crate::launch::{ACCESS_BYTES, KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem, Stream};
use kernel_abi::desc::collapse_dims;
use kernel_abi::division::Divisor;
use kernel_abi::ops::gather::{
    GatherParams, GatherRowsParams, GatherSumParams, MAX_BLOCK_ROWS, ROWS_AT_ONCE, ROWS_THREADS, RowIndices, RowsTensor,
};
use kernel_abi::{MAX_RANK, TensorParam};

/// Blocks that keep the memory busy while others look for their indices, about.
const BUSY_BLOCKS: i64 = 1056;
/// Blocks up to which a thread copies of one row only: half of the smallest number that is on a large GPU at once.
const FEW_BLOCKS: i64 = 264;
/// Share of the memory's rate.
pub(super) const MEMORY_SHARE: f64 = 0.8;
/// The same of indices that all blocks look through: they come from the cache, but each takes instructions.
pub(super) const SEARCH_SHARE: f64 = 0.6;
const LAST: usize = MAX_RANK - 1;

/// Symbol, bytes an access.
type CopyRow = (&'static str, i64);
/// Symbol, element type, elements an access.
type SumRow = (&'static str, DType, i64);

macro_rules! copy_rows {
    ($(($symbol:ident, $bytes:literal)),* $(,)?) => { &[$((stringify!($symbol), $bytes)),*] };
}
macro_rules! sum_rows {
    ($(($symbol:ident, $dtype:ident, $vec:literal)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($dtype), $vec)),*]
    };
}
const COPIES: &[CopyRow] = kernel_abi::gather_copy_kernels!(copy_rows);
const SUMS: &[SumRow] = kernel_abi::gather_sum_kernels!(sum_rows);

/// Any element type forward; f32, f16 and bf16 backward.
///
/// A run with addresses that are no multiples of an access, or forward with other scalars than alpha 1 and beta 0, takes
/// the naive kernel.
pub(super) struct Rows;

impl Algorithm<GatherProblem> for Rows {
    fn name(&self) -> &'static str {
        "rows"
    }

    fn configs(&self, problem: &GatherProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        Ok(vec![Config(Geometry::of(problem)?.symbol)])
    }

    fn workspace_bytes(&self, _: &GatherProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &GatherProblem, _: Config, context: &Context) -> f64 {
        let searches = match (problem.gather_pass(), Geometry::of(problem)) {
            (GatherPass::Backward, Ok(geometry)) => geometry.sum_grid(problem).blocks() as f64,
            _ => 0.0,
        };
        let bytes = problem.bytes() / MEMORY_SHARE + searches * problem.indices().data_bytes() as f64 / SEARCH_SHARE;
        crate::select::cost::LAUNCH_US + bytes / context.info().bytes_per_us
    }

    fn prepare(&self, problem: &GatherProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let unsupported = |refusal: Refusal| refusal.into_error(self.name(), problem);
        let geometry = Geometry::of(problem).map_err(unsupported)?;
        let function = context.function(config.0)?;
        let general = naive::launch(problem, context)?;
        let align = geometry.access_bytes as u64;
        let config = |blocks: i64| LaunchConfig {
            grid: [blocks as u32, 1, 1],
            block: [ROWS_THREADS, 1, 1],
            ..LaunchConfig::default()
        };
        Ok(match problem.gather_pass() {
            GatherPass::Forward => {
                let (params, blocks) = geometry.copy_params(problem);
                let fast = KernelLaunch {
                    function,
                    config: config(blocks),
                    params,
                    bind: |params, call| {
                        params.indices.address = call.address(1);
                        (params.x.address, params.y.address) = (call.address(0), call.address(2));
                    },
                };
                Box::new(RowsLaunch { fast, align, scales: false, rows: [0, 2], general })
            }
            GatherPass::Backward => {
                let grid = geometry.sum_grid(problem);
                let fast = KernelLaunch {
                    function,
                    config: config(grid.blocks()),
                    params: geometry.sum_params(problem, &grid),
                    bind: |params, call| {
                        (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
                        params.indices.address = call.address(0);
                        (params.dy.address, params.dx.address) = (call.address(1), call.address(2));
                    },
                };
                Box::new(RowsLaunch { fast, align, scales: true, rows: [1, 2], general })
            }
        })
    }
}

/// A launch for rows at multiples of an access, and one for any others.
struct RowsLaunch<T> {
    fast: KernelLaunch<T>,
    align: u64,
    /// Whether it has alpha and beta.
    scales: bool,
    /// The operands that hold rows.
    rows: [usize; 2],
    general: KernelLaunch<GatherParams>,
}

impl<T: crate::launch::KernelParams> Launch for RowsLaunch<T> {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let aligned = self.rows.iter().all(|&i| call.address(i).is_multiple_of(self.align));
        if aligned && (self.scales || (call.alpha == 1.0 && call.beta == 0.0)) {
            self.fast.launch(stream, call)
        } else {
            self.general.launch(stream, call)
        }
    }
}

/// How rows lie.
pub(super) struct Geometry {
    symbol: &'static str,
    pub(super) access_bytes: i64,
    /// Accesses to a row.
    accesses: i64,
    /// x and y without the axis: the last dimension is the row, up to two stand before it.
    tensors: [TensorParam; 2],
}

/// How the rows of dx are shared out.
pub(super) struct SumGrid {
    pub(super) block_rows: i64,
    pub(super) row_blocks: i64,
    slabs: i64,
    outer: i64,
    threads_log2: u32,
}

impl SumGrid {
    pub(super) fn blocks(&self) -> i64 {
        self.outer * self.row_blocks * self.slabs
    }
}

impl Geometry {
    pub(super) fn of(problem: &GatherProblem) -> Result<Self, Refusal> {
        let (x, y, axis) = (problem.x(), problem.y(), problem.axis());
        let dtype = x.dtype();
        let backward = problem.gather_pass() == GatherPass::Backward;
        if backward && !matches!(dtype, DType::F32 | DType::F16 | DType::BF16) {
            return Err(Refusal::new(format!("sums f32, f16 and bf16, the element type is {dtype}")));
        }
        let others: Vec<usize> = (0..x.rank()).filter(|&i| i != axis).collect();
        let tensors = collapse_dims([y, x], &others);
        let [y_row, x_row] = tensors.map(|tensor| if tensor.dims[LAST] == 1 { 1 } else { tensor.strides[LAST] });
        if (x_row, y_row) != (1, 1) {
            return Err(Refusal::new(format!(
                "takes rows whose elements lie together, they are {x_row} apart in {x} and {y_row} in {y}"
            )));
        }
        let levels = tensors[0].dims[..LAST].iter().filter(|&&dim| dim > 1).count();
        if levels > 2 {
            return Err(Refusal::new(format!("goes through up to 2 dimensions around the axis, there are {levels}")));
        }
        let indices = y.dims()[axis];
        let row_elems = tensors[0].dims[LAST];
        let n_rows = x.n_elems().max(y.n_elems()) / row_elems;
        if n_rows.max(row_elems).max(indices) > i64::from(i32::MAX) {
            return Err(Refusal::new(format!("counts to 2^31 - 1, there are {n_rows} rows of {row_elems}")));
        }
        let item = dtype.size_bytes() as i64;
        let outer =
            |tensor: &TensorParam| (0..LAST).filter(|&i| tensor.dims[i] > 1).fold(0, |all, i| all | tensor.strides[i]);
        let along = |tensor: &kernel_abi::TensorDesc| if tensor.dims()[axis] > 1 { tensor.strides()[axis] } else { 0 };
        // What all rows begin and end at multiples of.
        let steps = (row_elems | outer(&tensors[0]) | outer(&tensors[1]) | along(x) | along(y)) * item;
        let multiple = (1i64 << steps.trailing_zeros()).min(ACCESS_BYTES as i64);
        let (symbol, access_bytes) = if backward {
            let wanted = if multiple == ACCESS_BYTES as i64 { multiple / item } else { 1 };
            let found = SUMS.iter().find(|row| (row.1, row.2) == (dtype, wanted)).unwrap_or(&SUMS[0]);
            (found.0, wanted * item)
        } else {
            *COPIES.iter().find(|row| row.1 <= multiple).unwrap_or(&COPIES[COPIES.len() - 1])
        };
        let [y, x] = tensors;
        Ok(Geometry { symbol, access_bytes, accesses: row_elems * item / access_bytes, tensors: [x, y] })
    }

    /// Extents of the dimensions around the axis.
    fn outer(&self) -> [i64; 2] {
        [self.tensors[0].dims[LAST - 1], self.tensors[0].dims[LAST - 2]]
    }

    fn rows_tensor(&self, which: usize, along: i64, unit: i64) -> RowsTensor {
        let strides = &self.tensors[which].strides;
        RowsTensor { address: 0, strides: [along, strides[LAST - 1], strides[LAST - 2]].map(|stride| stride * unit) }
    }

    pub(super) fn indices(problem: &GatherProblem) -> RowIndices {
        RowIndices {
            address: 0,
            stride: problem.indices().strides()[0],
            rows: problem.x().dims()[problem.axis()],
            n: problem.indices().dims()[0] as u32,
            bytes: problem.indices().dtype().size_bytes() as u32,
        }
    }

    /// Parameters and blocks of the copies.
    fn copy_params(&self, problem: &GatherProblem) -> (GatherRowsParams, i64) {
        let (axis, item) = (problem.axis(), problem.x().dtype().size_bytes() as i64);
        let indices = Self::indices(problem);
        let [inner, outermost] = self.outer();
        let n_rows = inner * outermost * i64::from(indices.n);
        let threads_log2 = (self.accesses as u64).ilog2().min(ROWS_THREADS.ilog2());
        // More than a warp only where rows are too few for all multiprocessors.
        let threads_log2 = if n_rows > BUSY_BLOCKS { threads_log2.min(5) } else { threads_log2 };
        let blocks_of = |rows_at_once: i64| {
            let groups = div_ceil(n_rows, rows_at_once);
            ((groups << threads_log2) as u64).div_ceil(u64::from(ROWS_THREADS)) as i64
        };
        let each = blocks_of(1);
        let blocks = if each <= FEW_BLOCKS { each } else { blocks_of(ROWS_AT_ONCE as i64) };
        let params = GatherRowsParams {
            indices,
            x: self.rows_tensor(0, problem.x().strides()[axis], item),
            y: self.rows_tensor(1, problem.y().strides()[axis], item),
            per_outer: Divisor::new(indices.n),
            inner: Divisor::new(inner as u32),
            n_rows: n_rows as u32,
            accesses: self.accesses as u32,
            threads_log2,
            unused: 0,
        };
        (params, blocks)
    }

    pub(super) fn sum_grid(&self, problem: &GatherProblem) -> SumGrid {
        let rows = problem.x().dims()[problem.axis()];
        let [inner, outermost] = self.outer();
        let threads_log2 = (self.accesses as u64).next_power_of_two().ilog2().min(ROWS_THREADS.ilog2());
        let slabs = (self.accesses as u64).div_ceil(1 << threads_log2) as i64;
        let outer = inner * outermost;
        let block_rows = (rows * outer * slabs / BUSY_BLOCKS).clamp(1, MAX_BLOCK_ROWS.min(rows));
        SumGrid { block_rows, row_blocks: div_ceil(rows, block_rows), slabs, outer, threads_log2 }
    }

    pub(super) fn sum_params(&self, problem: &GatherProblem, grid: &SumGrid) -> GatherSumParams {
        let axis = problem.axis();
        GatherSumParams {
            indices: Self::indices(problem),
            dy: self.rows_tensor(1, problem.y().strides()[axis], 1),
            dx: self.rows_tensor(0, problem.x().strides()[axis], 1),
            slabs: Divisor::new(grid.slabs as u32),
            row_blocks: Divisor::new(grid.row_blocks as u32),
            inner: Divisor::new(self.outer()[0] as u32),
            block_rows: grid.block_rows as u32,
            accesses: self.accesses as u32,
            threads_log2: grid.threads_log2,
            alpha: 1.0,
            beta: 0.0,
        }
    }
}
