//! The matmul kernel that accepts every legal problem.

use super::MatmulProblem;
use crate::epilogue;
use crate::launch::{KernelLaunch, KernelRow, LaunchConfig, kernel_for, kernel_rows};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, DType, Error, Problem, TensorDesc};
use kernel_abi::ops::matmul::{MAX_BATCH_DIMS, MatmulOperand, MatmulParams, NAIVE_TILE};

const KERNELS: &[KernelRow] = kernel_abi::matmul_kernels!(kernel_rows);

/// Symbol, types of a, b and c.
type NarrowRow = (&'static str, [DType; 3]);

macro_rules! narrow_rows {
    ($(($symbol:ident, $a:ident, $b:ident, $c:ident)),* $(,)?) => {
        &[$((
            stringify!($symbol),
            [kernel_abi::dtype_of!($a), kernel_abi::dtype_of!($b), kernel_abi::dtype_of!($c)],
        )),*]
    };
}
const NARROW_KERNELS: &[NarrowRow] = kernel_abi::matmul_narrow_kernels!(narrow_rows);

/// Threads of a block, each with 2 × 2 elements of its tile.
const BLOCK: u32 = 256;

/// The share of the device's scalar rate that a tile of this size in shared memory lets through.
const SHARE: f64 = 0.1;

/// Shared-memory tiles, any strides.
pub(super) struct Naive;

impl Algorithm<MatmulProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn takes_epilogues(&self) -> bool {
        true
    }

    fn configs(&self, problem: &MatmulProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let dtypes = [problem.a(), problem.b(), problem.c()].map(TensorDesc::dtype);
        match NARROW_KERNELS.iter().find(|row| row.1 == dtypes) {
            Some(row) if context.is_gpu() => Ok(vec![Config(row.0)]),
            _ => kernel_for(KERNELS, problem.pass(), dtypes[0], context),
        }
    }

    fn workspace_bytes(&self, _: &MatmulProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &MatmulProblem, _: Config, context: &Context) -> f64 {
        /// A term of a tile's sums, measured on an H200 where there are few tiles.
        const TERM_US: f64 = 0.042;
        let one_by_one = crate::select::cost::LAUNCH_US + TERM_US * problem.gemm_k() as f64;
        crate::select::cost::scalar_us(problem, context, SHARE).max(one_by_one)
    }

    fn prepare(&self, problem: &MatmulProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let residual = match problem
            .epilogue()
            .and_then(|epilogue| Some((epilogue.residual_operand()?, epilogue.residual_desc()?)))
        {
            Some((number, z)) => MatmulOperand { address: number as u64, ..operand(z) },
            None => operand(problem.c()),
        };
        let tile = i64::from(NAIVE_TILE) as u64;
        let [gemm_m, gemm_n, n_batch] =
            [problem.gemm_m(), problem.gemm_n(), problem.n_batch()].map(|extent| extent as u64);
        // The kernel strides over the tiles that the grid does not cover.
        let n_tiles = gemm_m.div_ceil(tile).saturating_mul(gemm_n.div_ceil(tile)).saturating_mul(n_batch);
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig {
                grid: [n_tiles.min(1 << 20) as u32, 1, 1],
                block: [BLOCK, 1, 1],
                ..LaunchConfig::default()
            },
            params: MatmulParams {
                gemm_m: problem.gemm_m(),
                gemm_n: problem.gemm_n(),
                gemm_k: problem.gemm_k(),
                batch_dims: batch(problem.batch_dims(), 1),
                alpha: 1.0,
                beta: 0.0,
                a: operand(&problem.a_matrix()),
                b: operand(&problem.b_matrix()),
                c: operand(problem.c()),
                z: residual,
                epilogue: epilogue::param(problem.epilogue(), problem.c().dtype()),
            },
            bind: |params, call| {
                (params.alpha, params.beta) = (call.alpha, call.beta);
                params.a.address = call.address(0);
                params.b.address = call.address(1);
                params.c.address = call.address(2);
                epilogue::bind(&mut params.z.address, call);
                epilogue::bind(&mut params.epilogue.bias, call);
            },
        }))
    }
}

/// A batch of matrices without its address.
fn operand(desc: &TensorDesc) -> MatmulOperand {
    let (batch_strides, matrix) = desc.strides().split_at(desc.rank() - 2);
    MatmulOperand { address: 0, batch_strides: batch(batch_strides, 0), row_stride: matrix[0], col_stride: matrix[1] }
}

/// Right-aligned batch extents or strides.
fn batch(given: &[i64], unused: i64) -> [i64; MAX_BATCH_DIMS] {
    let mut all = [unused; MAX_BATCH_DIMS];
    all[MAX_BATCH_DIMS - given.len()..].copy_from_slice(given);
    all
}
