//! Short rows of contiguous elements, an element a lane.

use super::register_rows::contiguous_rows;
use super::{SoftmaxProblem, naive};
use crate::driver::Function;
use crate::launch::{KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, DType, Error, Problem};
use kernel_abi::ops::softmax::{LANES_BLOCK, SoftmaxLanesParams, SoftmaxParams};
use kernel_abi::{MAX_RANK, TensorParam};

/// A row of the kernel list.
struct Kernel {
    symbol: &'static str,
    pass: &'static str,
    dtype: DType,
    lanes: u32,
}

macro_rules! kernels {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $lanes:literal)),* $(,)?) => {
        &[$(Kernel {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            lanes: $lanes,
        }),*]
    };
}

/// In the order of the rows that they hold.
const KERNELS: &[Kernel] = kernel_abi::softmax_lane_kernels!(kernels);

/// Lanes that a multiprocessor finishes in a microsecond.
const LANES_PER_US: f64 = 3000.0;

/// One load and one store a lane, wherever rows begin.
pub(super) struct Lanes;

impl Algorithm<SoftmaxProblem> for Lanes {
    fn name(&self) -> &'static str {
        "lanes"
    }

    fn configs(&self, problem: &SoftmaxProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let params = contiguous_rows(problem, context)?;
        let of_type = |kernel: &&Kernel| kernel.pass == problem.pass() && kernel.dtype == problem.input().dtype();
        let Some(kernel) = KERNELS.iter().filter(of_type).find(|kernel| i64::from(kernel.lanes) >= params.row_elems)
        else {
            let most = KERNELS.iter().filter(of_type).map(|kernel| kernel.lanes).max().unwrap_or(0);
            return Err(Refusal::new(format!("takes rows of up to {most} elements, given {}", params.row_elems)));
        };
        at_one_distance(problem, &params)?;
        Ok(vec![Config(kernel.symbol)])
    }

    fn workspace_bytes(&self, _: &SoftmaxProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> f64 {
        let (params, units) = (naive::params(problem), context.info().n_units as f64);
        let lanes = params.n_rows as f64 * f64::from(kernel(config).lanes) / (LANES_PER_US * units);
        lanes + cost::blocks_us(problem.bytes(), blocks(kernel(config), &params), context)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let params = naive::params(problem);
        let config_of = LaunchConfig {
            grid: [blocks(kernel(config), &params) as u32, 1, 1],
            block: [LANES_BLOCK, 1, 1],
            ..LaunchConfig::default()
        };
        Ok(Box::new(launch(context.function(config.0)?, config_of, &params)))
    }
}

/// Refuses rows that are not all at one distance from the next, or too many.
pub(super) fn at_one_distance(problem: &SoftmaxProblem, params: &SoftmaxParams) -> Result<(), Refusal> {
    /// Of blocks, of which a row has a few at most.
    const MOST: i64 = i32::MAX as i64 / 8;
    if params.out_rows.dims[..MAX_RANK - 1].iter().any(|&dim| dim != 1) {
        let (input, out) = (problem.input(), problem.out());
        return Err(Refusal::new(format!("takes rows at one distance from the next, given {input} and {out}")));
    }
    if params.n_rows > MOST {
        return Err(Refusal::new(format!("takes up to {MOST} rows, given {}", params.n_rows)));
    }
    Ok(())
}

/// The launch of a kernel for rows at one distance from the next.
pub(super) fn launch(
    function: Function,
    config: LaunchConfig,
    params: &SoftmaxParams,
) -> KernelLaunch<SoftmaxLanesParams> {
    let pitch = |rows: &TensorParam| rows.strides[MAX_RANK - 1];
    KernelLaunch {
        function,
        config,
        params: SoftmaxLanesParams {
            input: 0,
            in_pitch: pitch(&params.in_rows),
            dy: 0,
            dy_pitch: pitch(&params.dy_rows),
            n_rows: params.n_rows as u32,
            row_elems: params.row_elems as u32,
            kind: params.kind,
            alpha: 1.0,
            out: 0,
            out_pitch: pitch(&params.out_rows),
            beta: 0.0,
            reserved: 0,
        },
        bind,
    }
}

/// The addresses and scalars of a call.
pub(super) fn bind(params: &mut SoftmaxLanesParams, call: &Call) {
    let last = call.operands.len() - 1;
    params.input = call.address(0);
    params.dy = call.address(last - 1);
    params.out = call.address(last);
    (params.alpha, params.beta) = (call.alpha as f32, call.beta as f32);
}

fn kernel(config: Config) -> &'static Kernel {
    KERNELS.iter().find(|kernel| kernel.symbol == config.0).unwrap_or(&KERNELS[0])
}

fn blocks(kernel: &Kernel, params: &SoftmaxParams) -> i64 {
    div_ceil(params.n_rows, i64::from(LANES_BLOCK / kernel.lanes))
}
