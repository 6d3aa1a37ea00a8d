//! The bias kernels that accept every legal problem.

use super::BiasProblem;
use crate::TensorDesc;
use crate::launch::{KernelLaunch, KernelRow, kernel_for, kernel_rows, linear_grid};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, Error, Problem};
use kernel_abi::TensorParam;
use kernel_abi::desc::{collapse, collapse_dims};
use kernel_abi::ops::bias::BiasParams;

const KERNELS: &[KernelRow] = kernel_abi::bias_kernels!(kernel_rows);
const BLOCK: u32 = 256;

/// Forward one thread an element, backward one block a channel; any strides.
pub(super) struct Naive;

impl Algorithm<BiasProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &BiasProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.y().dtype(), context)
    }

    fn workspace_bytes(&self, _: &BiasProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &BiasProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::streaming_us(problem, context)
    }

    fn prepare(&self, problem: &BiasProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let function = context.function(config.0)?;
        let (y, channels) = (problem.y(), problem.channels());
        let Some(x) = problem.x() else {
            let others: Vec<usize> = (0..y.rank()).filter(|&i| i != 1).collect();
            let [within] = collapse_dims([y], &others);
            let [dbias] = collapse([problem.bias()]);
            return Ok(Box::new(KernelLaunch {
                function,
                config: linear_grid(channels.saturating_mul(i64::from(BLOCK)), BLOCK),
                params: BiasParams {
                    n_elems: channels,
                    channel_elems: y.n_elems() / channels,
                    channel_stride: y.strides()[1],
                    ..params(within, dbias, within)
                },
                bind: |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    (params.y.address, params.bias.address) = (call.address(0), call.address(1));
                },
            }));
        };
        let [y_param, x_param, bias] = collapse([y, x, &repeated(problem)]);
        Ok(Box::new(KernelLaunch {
            function,
            config: linear_grid(y.n_elems(), BLOCK),
            params: BiasParams { n_elems: y.n_elems(), ..params(x_param, bias, y_param) },
            bind: |params, call| {
                (params.alpha, params.beta) = (call.alpha, call.beta);
                (params.x.address, params.bias.address) = (call.address(0), call.address(1));
                params.y.address = call.address(2);
            },
        }))
    }
}

fn params(x: TensorParam, bias: TensorParam, y: TensorParam) -> BiasParams {
    BiasParams { n_elems: 0, channel_elems: 0, alpha: 1.0, beta: 0.0, x, bias, y, channel_stride: 0 }
}

/// The bias with y's extents: stride 0 in all dimensions but the channels.
fn repeated(problem: &BiasProblem) -> TensorDesc {
    let (y, bias) = (problem.y(), problem.bias());
    let strides: Vec<i64> = (0..y.rank()).map(|i| if i == 1 { bias.strides()[0] } else { 0 }).collect();
    // Extents are y's and the span is the bias's: both are legal.
    TensorDesc::strided(bias.dtype(), y.dims(), &strides).unwrap_or(*bias)
}
