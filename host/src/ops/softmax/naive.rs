//! The softmax kernels that accept every legal problem.

use super::{SoftmaxMode, SoftmaxProblem};
use crate::launch::{KernelLaunch, KernelRow, kernel_for, kernel_rows, linear_grid};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, Error, Problem};
use kernel_abi::MAX_RANK;
use kernel_abi::desc::collapse_dims;
use kernel_abi::ops::softmax::{SoftmaxParams, SoftmaxPitchedParams};

const KERNELS: &[KernelRow] = kernel_abi::softmax_kernels!(kernel_rows);
const BLOCK: u32 = 256;
const LANES: i64 = 32;

/// One warp a row, any strides.
pub(super) struct Naive;

impl Algorithm<SoftmaxProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &SoftmaxProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.input().dtype(), context)
    }

    fn workspace_bytes(&self, _: &SoftmaxProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SoftmaxProblem, _: Config, context: &Context) -> f64 {
        /// From one step of a warp along its row to the next, as long as memory takes to answer.
        const STEP_US: f64 = 0.5;
        // Rows are read three times, an element at a time; of elements that lie apart, each brings its neighbours along.
        let alone = 3.0 * problem.rows().row_elems as f64 / LANES as f64 * STEP_US;
        let pace = if params(problem).in_row.strides[7] == 1 { 4.0 } else { 16.0 };
        cost::LAUNCH_US + alone.max(pace * problem.bytes() / context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        Ok(Box::new(launch_of(problem, config, context)?))
    }
}

fn launch_of(
    problem: &SoftmaxProblem,
    config: Config,
    context: &Context,
) -> Result<KernelLaunch<SoftmaxParams>, Error> {
    let params = params(problem);
    let config_of = linear_grid(params.n_rows.saturating_mul(LANES), BLOCK);
    Ok(KernelLaunch { function: context.function(config.0)?, config: config_of, params, bind })
}

/// The launch of the naive kernel for the problem's pass and type.
pub(super) fn launch(problem: &SoftmaxProblem, context: &Context) -> Result<KernelLaunch<SoftmaxParams>, Error> {
    let refused = |Refusal(reason)| Error::bad(SoftmaxProblem::OP, "x", reason);
    launch_of(problem, Naive.configs(problem, context).map_err(refused)?[0], context)
}

/// Parameters, complete but for addresses and scalars: the dimensions across rows and those within a row, merged where
/// all tensors allow it.
pub(super) fn params(problem: &SoftmaxProblem) -> SoftmaxParams {
    let rows = problem.rows();
    let tensors = [problem.out(), problem.input(), problem.dy().unwrap_or(problem.input())];
    let (across, within): (Vec<usize>, Vec<usize>) = (0..tensors[0].rank()).partition(|&i| match problem.mode() {
        SoftmaxMode::Instance => i == 0,
        SoftmaxMode::Channel => i != 1,
    });
    let [out_rows, in_rows, dy_rows] = collapse_dims(tensors, &across);
    let [out_row, in_row, dy_row] = collapse_dims(tensors, &within);
    SoftmaxParams {
        n_rows: rows.outer_rows * rows.inner_rows,
        row_elems: rows.row_elems,
        kind: problem.kind() as u32,
        n_parts: 1,
        part_pieces: 0,
        reserved: 0,
        partials: 0,
        inner: 1,
        alpha: 1.0,
        beta: 0.0,
        out_rows,
        in_rows,
        dy_rows,
        out_row,
        in_row,
        dy_row,
    }
}

/// Puts addresses and scalars into the parameters.
pub(super) fn bind(params: &mut SoftmaxParams, call: &Call<'_>) {
    let last = call.operands.len() - 1;
    (params.alpha, params.beta) = (call.alpha, call.beta);
    params.in_row.address = call.address(0);
    params.dy_row.address = call.address(last - 1);
    params.out_row.address = call.address(last);
    params.partials = call.workspace_address();
}

/// Rounded up, of numbers that are not negative.
pub(super) fn div_ceil(a: i64, b: i64) -> i64 {
    (a + b - 1) / b
}

/// The parameters of contiguous rows that lie at one distance from the next, complete but for addresses and scalars.
pub(super) fn pitched_params(params: &SoftmaxParams) -> Result<SoftmaxPitchedParams, Refusal> {
    const LAST: usize = MAX_RANK - 1;
    let dims = params.out_rows.dims;
    if dims[..LAST].iter().any(|&dim| dim != 1) {
        return Err(Refusal::new(format!("takes rows at one distance from the next, given {dims:?} of them")));
    }
    if params.n_rows > i64::from(i32::MAX) {
        return Err(Refusal::new(format!("takes up to {} rows, given {}", i32::MAX, params.n_rows)));
    }
    Ok(SoftmaxPitchedParams {
        input: 0,
        in_pitch: params.in_rows.strides[LAST],
        dy: 0,
        dy_pitch: params.dy_rows.strides[LAST],
        n_rows: params.n_rows as u32,
        row_elems: params.row_elems as u32,
        kind: params.kind,
        alpha: 1.0,
        out: 0,
        out_pitch: params.out_rows.strides[LAST],
        beta: 0.0,
        reserved: 0,
    })
}

/// Puts addresses and scalars into them.
pub(super) fn bind_pitched(params: &mut SoftmaxPitchedParams, call: &Call<'_>) {
    let last = call.operands.len() - 1;
    (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
    (params.input, params.dy, params.out) = (call.address(0), call.address(last - 1), call.address(last));
}
