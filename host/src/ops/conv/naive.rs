//! The convolution kernels that accept every legal problem.

use super::{ConvMode, ConvPass, ConvProblem};
use crate::epilogue::{self, ChannelPass, ChannelPassLaunch};
use crate::launch::{KernelLaunch, KernelRow, channels_innermost, kernel_for, kernel_rows, linear_grid, spatial_param};
use crate::plan::{Call, Launch};
use crate::select::cost::{LAUNCH_US, streaming_us};
use crate::select::{Algorithm, Config, Refusal};
use crate::{Context, DType, Error, Problem, Stream};
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

/// Share of the device's plain rate that threads reach that load two numbers for each multiply-add.
const RATE_SHARE: f64 = 0.03;

/// Terms of a sum that take as long as a thread's way to them.
const TERMS_OF_THREAD: f64 = 30.0;

/// A thread adds its terms one after the other, and waits for each of its loads. Measured on an H200, in small problems
/// of densenet40 and others; `dgrad` looks for the taps that meet a position, `wgrad` reads with large strides.
fn term_us(pass: ConvPass) -> f64 {
    match pass {
        ConvPass::Fprop => 0.035,
        ConvPass::Dgrad => 0.065,
        ConvPass::Wgrad => 0.1,
    }
}

/// One thread an element of the tensor that is written, any strides.
pub(super) struct Naive;

impl Algorithm<ConvProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn takes_epilogues(&self) -> bool {
        true
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let (x, y) = (problem.x().dtype(), problem.y().dtype());
        match NARROW_KERNELS.iter().find(|row| (row.1, row.2) == (x, y)) {
            Some(row) if context.is_gpu() => Ok(vec![Config(row.0)]),
            _ => kernel_for(KERNELS, problem.pass(), x, context),
        }
    }

    fn workspace_bytes(&self, problem: &ConvProblem, _: Config) -> u64 {
        ChannelPass::sums_of(problem.epilogue(), problem.y()).map_or(0, |sums| sums.workspace_bytes())
    }

    fn estimate_us(&self, problem: &ConvProblem, _: Config, context: &Context) -> f64 {
        let written = problem.written().n_elems() as f64;
        let terms = problem.flops() / 2.0 / written.max(1.0);
        // A strided dgrad goes through all taps, also those that miss.
        let missed = match problem.conv_pass() {
            ConvPass::Dgrad => problem.shape().axes.iter().map(|axis| axis.stride as f64).product(),
            ConvPass::Fprop | ConvPass::Wgrad => 1.0,
        };
        let one_by_one = terms * missed * term_us(problem.conv_pass());
        let rate = context.info().flops_per_us * RATE_SHARE / 2.0;
        let all = written * (terms + TERMS_OF_THREAD) / rate;
        streaming_us(problem, context).max(LAUNCH_US + one_by_one.max(all))
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let written = problem.written();
        let shape = problem.shape();
        let residual =
            problem.epilogue().and_then(|epilogue| Some((epilogue.residual_operand()?, epilogue.residual_desc()?)));
        let product = KernelLaunch {
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
                z: match residual {
                    Some((operand, z)) => spatial_param(z).at(operand as u64),
                    None => spatial_param(problem.y()),
                },
                epilogue: epilogue::param(problem.epilogue(), problem.y().dtype()),
            },
            bind: match problem.conv_pass() {
                ConvPass::Fprop => |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    params.x.address = call.address(0);
                    params.w.address = call.address(1);
                    params.y.address = call.address(2);
                    epilogue::bind(&mut params.z.address, call);
                    epilogue::bind(&mut params.epilogue.bias, call);
                },
                ConvPass::Dgrad => |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    params.y.address = call.address(0);
                    params.w.address = call.address(1);
                    params.x.address = call.address(2);
                },
                ConvPass::Wgrad => |params, call| {
                    (params.alpha, params.beta) = (call.alpha, call.beta);
                    params.x.address = call.address(0);
                    params.y.address = call.address(1);
                    params.w.address = call.address(2);
                },
            },
        };
        Ok(match ChannelPass::sums_of(problem.epilogue(), problem.y()) {
            Some(sums) => Box::new(SummedLaunch { product, sums: sums.prepare(context)? }),
            None => Box::new(product),
        })
    }
}

/// y, and then the sums of its channels.
struct SummedLaunch {
    product: KernelLaunch<ConvParams>,
    sums: ChannelPassLaunch,
}

impl Launch for SummedLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        self.product.launch(stream, call)?;
        self.sums.launch(stream, call, call.workspace_address())
    }
}
