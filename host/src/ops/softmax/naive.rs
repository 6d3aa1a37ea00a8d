//! The softmax kernels that accept every legal problem.

use super::{SoftmaxMode, SoftmaxProblem};
use crate::launch::{KernelLaunch, KernelRow, kernel_for, kernel_rows, linear_grid};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, Error, Problem};
use kernel_abi::desc::collapse_dims;
use kernel_abi::ops::softmax::SoftmaxParams;

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
        let params = params(problem);
        let config_of = linear_grid(params.n_rows.saturating_mul(LANES), BLOCK);
        Ok(Box::new(KernelLaunch { function: context.function(config.0)?, config: config_of, params, bind }))
    }
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
