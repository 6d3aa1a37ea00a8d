//! Rows that lie side by side, as the channels of NCHW: neighbouring threads take neighbouring rows.

use super::register_rows::for_gpu;
use super::{SoftmaxProblem, naive};
use crate::launch::{KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, DType, Error, Problem};
use kernel_abi::TensorParam;
use kernel_abi::ops::softmax::SoftmaxParams;

/// A row of the kernel list.
struct Kernel {
    symbol: &'static str,
    pass: &'static str,
    dtype: DType,
    /// 16 bytes an access.
    wide: bool,
    /// Rows stay in registers.
    held: bool,
}

macro_rules! kernels {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $wide:literal, $held:literal)),* $(,)?) => {
        &[$(Kernel {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            wide: $wide,
            held: $held,
        }),*]
    };
}
const KERNELS: &[Kernel] = kernel_abi::softmax_column_kernels!(kernels);

const BLOCK: u32 = 256;
const LANES: i64 = 32;
/// The longest rows that stay in the registers of a block.
const MAX_HELD: i64 = 32;
/// Bytes of a wide access.
const PIECE: i64 = 16;

/// Threads side by side on rows that lie so, groups of them on the rows' elements.
pub(super) struct Columns;

/// The parameters of rows that lie side by side in all tensors.
pub(super) fn columns(problem: &SoftmaxProblem, context: &Context) -> Result<SoftmaxParams, Refusal> {
    for_gpu(problem, context)?;
    let params = naive::params(problem);
    let rows = [&params.out_rows, &params.in_rows, &params.dy_rows];
    let row = [&params.out_row, &params.in_row, &params.dy_row];
    let inner = params.out_rows.dims[7];
    if inner < 2 || rows.iter().any(|rows| rows.strides[7] != 1) || row.iter().any(|row| row.dims[..7] != [1; 7]) {
        return Err(Refusal::new(format!(
            "takes rows that lie side by side, given {} and {}",
            problem.input(),
            problem.out()
        )));
    }
    if inner > i64::from(i32::MAX / 2) {
        return Err(Refusal::new(format!("takes up to {} rows side by side, given {inner}", i32::MAX / 2)));
    }
    let params = SoftmaxParams { inner, ..params };
    if blocks(&params, 1) > i64::from(i32::MAX) {
        return Err(Refusal::new(format!("takes up to {} blocks, given {}", i32::MAX, blocks(&params, 1))));
    }
    Ok(params)
}

/// Blocks for threads of so many rows.
fn blocks(params: &SoftmaxParams, width: i64) -> i64 {
    div_ceil(params.n_rows / params.inner * div_ceil(params.inner, width), LANES)
}

/// Rows of a thread.
fn width(kernel: &Kernel) -> i64 {
    if kernel.wide { PIECE / kernel.dtype.size_bytes() as i64 } else { 1 }
}

/// Whether all accesses of 16 bytes fall on multiples of them, if addresses do.
fn lies_wide(params: &SoftmaxParams, dtype: DType) -> bool {
    let lanes = PIECE / dtype.size_bytes() as i64;
    let fits = |tensor: &TensorParam, dims: std::ops::Range<usize>| {
        tensor.strides[dims.clone()]
            .iter()
            .zip(&tensor.dims[dims])
            .all(|(stride, dim)| *dim == 1 || stride % lanes == 0)
    };
    let rows = [&params.out_rows, &params.in_rows, &params.dy_rows];
    let row = [&params.out_row, &params.in_row, &params.dy_row];
    rows.iter().all(|rows| fits(rows, 0..7)) && row.iter().all(|row| fits(row, 7..8))
}

impl Algorithm<SoftmaxProblem> for Columns {
    fn name(&self) -> &'static str {
        "columns"
    }

    fn configs(&self, problem: &SoftmaxProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let params = columns(problem, context)?;
        let dtype = problem.input().dtype();
        let (wide, held) = (lies_wide(&params, dtype), params.row_elems <= MAX_HELD);
        let able = |kernel: &&Kernel| {
            kernel.pass == problem.pass() && kernel.dtype == dtype && kernel.held == held && (wide || !kernel.wide)
        };
        Ok(KERNELS.iter().filter(able).map(|kernel| Config(kernel.symbol)).collect())
    }

    fn workspace_bytes(&self, _: &SoftmaxProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> f64 {
        let (kernel, params) = (kernel(config), naive::params(problem));
        let params = SoftmaxParams { inner: params.out_rows.dims[7], ..params };
        let read = problem.bytes() - problem.out().data_bytes() as f64;
        let again = if kernel.held { 0.0 } else { 0.4 * read };
        // Accesses of single elements keep less of the memory busy, and cost as many instructions as wide ones.
        let pace = if kernel.wide { 1.0 } else { 6.0 };
        cost::blocks_us(pace * (problem.bytes() + again), blocks(&params, width(kernel)), context)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let params = naive::params(problem);
        let params = SoftmaxParams { inner: params.out_rows.dims[7], ..params };
        let grid = [blocks(&params, width(kernel(config))) as u32, 1, 1];
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig { grid, block: [BLOCK, 1, 1], ..LaunchConfig::default() },
            params,
            bind: naive::bind,
        }))
    }
}

fn kernel(config: Config) -> &'static Kernel {
    KERNELS.iter().find(|kernel| kernel.symbol == config.0).unwrap_or(&KERNELS[0])
}
