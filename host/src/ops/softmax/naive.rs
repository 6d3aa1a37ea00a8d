//! The softmax kernels that accept every legal problem.

use super::{SoftmaxMode, SoftmaxProblem};
use crate::launch::{KernelLaunch, KernelRow, kernel_for, kernel_rows, linear_grid};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem, TensorDesc};
use kernel_abi::TensorParam;
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
        crate::select::cost::streaming_us(problem, context)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let rows = problem.rows();
        let n_rows = rows.outer_rows * rows.inner_rows;
        let tensors = [problem.out(), problem.input(), problem.dy().unwrap_or(problem.input())];
        let (across, within) = split(problem.mode(), tensors);
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: linear_grid(n_rows.saturating_mul(LANES), BLOCK),
            params: SoftmaxParams {
                n_rows,
                row_elems: rows.row_elems,
                kind: problem.kind() as u32,
                reserved: 0,
                alpha: 1.0,
                beta: 0.0,
                out_rows: across[0],
                in_rows: across[1],
                dy_rows: across[2],
                out_row: within[0],
                in_row: within[1],
                dy_row: within[2],
            },
            bind: |params, call| {
                let last = call.operands.len() - 1;
                (params.alpha, params.beta) = (call.alpha, call.beta);
                params.in_row.address = call.address(0);
                params.dy_row.address = call.address(last - 1);
                params.out_row.address = call.address(last);
            },
        }))
    }
}

/// The dimensions across rows and those within a row, merged where all tensors allow it.
fn split(mode: SoftmaxMode, tensors: [&TensorDesc; 3]) -> ([TensorParam; 3], [TensorParam; 3]) {
    let (rows, row): (Vec<usize>, Vec<usize>) = (0..tensors[0].rank()).partition(|&i| match mode {
        SoftmaxMode::Instance => i == 0,
        SoftmaxMode::Channel => i != 1,
    });
    (collapse_dims(tensors, &rows), collapse_dims(tensors, &row))
}
