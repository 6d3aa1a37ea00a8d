//! The convolution kernels that accept every legal problem.

use super::{ConvMode, ConvProblem};
use crate::launch::{KernelLaunch, KernelRow, channels_innermost, kernel_for, kernel_rows, linear_grid, spatial_param};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, DType, Error, Problem};
use kernel_abi::ops::conv::ConvParams;

const KERNELS: &[KernelRow] = kernel_abi::conv_kernels!(kernel_rows);

/// Symbol, type of x and w, type of y.
type NarrowRow = (&'static str, DType, DType);

macro_rules! narrow_rows {
    ($(($symbol:ident, $x:ident, $y:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($x), kernel_abi::dtype_of!($y))),*]
    };
}
const NARROW_KERNELS: &[NarrowRow] = kernel_abi::conv_narrow_kernels!(narrow_rows);

const BLOCK: u32 = 256;

/// Share of the device's plain rate that a thread reaches that loads two numbers for each multiply-add.
const RATE_SHARE: f64 = 0.05;

/// One thread an element of the tensor that is written, any strides.
pub(super) struct Naive;

impl Algorithm<ConvProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let (x, y) = (problem.x().dtype(), problem.y().dtype());
        match NARROW_KERNELS.iter().find(|row| (row.1, row.2) == (x, y)) {
            Some(row) if context.is_gpu() => Ok(vec![Config(row.0)]),
            _ => kernel_for(KERNELS, problem.pass(), x, context),
        }
    }

    fn workspace_bytes(&self, _: &ConvProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &ConvProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::scalar_us(problem, context, RATE_SHARE)
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let written = problem.written();
        let shape = problem.shape();
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: linear_grid(written.n_elems(), BLOCK),
            params: ConvParams {
                n_elems: written.n_elems(),
                n: shape.n,
                group_c: shape.group_c(),
                group_k: shape.group_k(),
                groups: shape.groups,
                image: shape.image,
                filter: shape.filter,
                output: shape.output,
                padding: shape.axes.map(|axis| axis.padding),
                stride: shape.axes.map(|axis| axis.stride),
                dilation: shape.axes.map(|axis| axis.dilation),
                flip: u32::from(problem.mode() == ConvMode::Convolution),
                channels_innermost: u32::from(channels_innermost(written)),
                alpha: 1.0,
                beta: 0.0,
                x: spatial_param(problem.x()),
                w: spatial_param(problem.w()),
                y: spatial_param(problem.y()),
            },
            bind: match problem.conv_pass() {
                super::ConvPass::Fprop => |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    params.x.address = call.address(0);
                    params.w.address = call.address(1);
                    params.y.address = call.address(2);
                },
                super::ConvPass::Dgrad => |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    params.y.address = call.address(0);
                    params.w.address = call.address(1);
                    params.x.address = call.address(2);
                },
                super::ConvPass::Wgrad => |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    params.x.address = call.address(0);
                    params.y.address = call.address(1);
                    params.w.address = call.address(2);
                },
            },
        }))
    }
}
