//! The cross-entropy kernels that accept every legal problem.

use super::{CrossEntropyInput, CrossEntropyProblem, LossReduction};
use crate::driver::Function;
use crate::launch::{KernelRow, LaunchConfig, kernel_for, kernel_rows, launch_on, linear_grid};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, DType, Error, Problem, Stream, TensorDesc};
use kernel_abi::desc::collapse;
use kernel_abi::ops::crossentropy::{CrossEntropyParams, target};

const KERNELS: &[KernelRow] = kernel_abi::crossentropy_kernels!(kernel_rows);
const SUMS: &[KernelRow] = kernel_abi::crossentropy_sum_kernels!(kernel_rows);
const BLOCK: u32 = 256;
const SUM_BLOCK: u32 = 1024;
const LANES: i64 = 32;

/// One warp a row, any strides; where losses are added up, one block more.
pub(super) struct Naive;

impl Algorithm<CrossEntropyProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &CrossEntropyProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.x().dtype(), context)
    }

    fn workspace_bytes(&self, problem: &CrossEntropyProblem, _: Config) -> u64 {
        partials_bytes(problem, problem.n_rows())
    }

    fn estimate_us(&self, problem: &CrossEntropyProblem, _: Config, context: &Context) -> f64 {
        // x is read twice, and what is left for one block is read slowly.
        let sums = self.workspace_bytes(problem, Config("")) as f64 / (context.info().bytes_per_us * 0.02);
        2.0 * cost::streaming_us(problem, context) + sums
    }

    fn prepare(
        &self,
        problem: &CrossEntropyProblem,
        config: Config,
        context: &Context,
    ) -> Result<Box<dyn Launch>, Error> {
        Ok(Box::new(Steps {
            rows: context.function(config.0)?,
            config: linear_grid(problem.n_rows().saturating_mul(LANES), BLOCK),
            params: params(problem)?,
            places: Places::new(problem),
            sum: Sum::new(problem, problem.n_rows(), context)?,
        }))
    }
}

/// Rows, and behind them the sum of their losses where it is wanted.
pub(super) struct Steps {
    pub(super) rows: Function,
    pub(super) config: LaunchConfig,
    pub(super) params: CrossEntropyParams,
    pub(super) places: Places,
    pub(super) sum: Option<Sum>,
}

impl Launch for Steps {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let params = self.places.bind(&self.params, call);
        launch_on(stream, &self.rows, &self.config, &params)?;
        let Some(Sum { function, config, n_partials }) = &self.sum else { return Ok(()) };
        launch_on(stream, function, config, &params.sum(*n_partials))
    }
}

/// Where the operands stand that not every problem has.
pub(super) struct Places {
    loss: usize,
    weight: Option<usize>,
    lse: Option<usize>,
    total: Option<usize>,
    dx: Option<usize>,
}

impl Places {
    pub(super) fn new(problem: &CrossEntropyProblem) -> Self {
        let operands = problem.operands();
        let of = |name: &str| operands.iter().position(|operand| operand.name == name);
        let loss = of("loss").or(of("dloss")).unwrap_or(0);
        Places { loss, weight: of("weight"), lse: of("lse"), total: of("total"), dx: of("dx") }
    }

    /// The parameters with addresses and scalars.
    pub(super) fn bind(&self, params: &CrossEntropyParams, call: &Call<'_>) -> CrossEntropyParams {
        let address = |place: Option<usize>| place.map_or(0, |place| call.address(place));
        CrossEntropyParams {
            alpha: call.alpha,
            beta: call.beta,
            weight: address(self.weight),
            total: address(self.total),
            partials: call.workspace_address(),
            x: params.x.at(call.address(0)),
            target: params.target.at(call.address(1)),
            loss: params.loss.at(call.address(self.loss)),
            lse: params.lse.at(address(self.lse)),
            dx: params.dx.at(address(self.dx)),
            ..*params
        }
    }
}

/// Workspace for pairs of loss and weight.
pub(super) fn partials_bytes(problem: &CrossEntropyProblem, n_partials: i64) -> u64 {
    if problem.dx().is_some() || problem.reduction() == LossReduction::None {
        return 0;
    }
    (n_partials as u64).saturating_mul(2 * size_of::<f64>() as u64)
}

/// Parameters, complete but for addresses and scalars.
pub(super) fn params(problem: &CrossEntropyProblem) -> Result<CrossEntropyParams, Error> {
    let x = problem.x();
    // Tensors by their positions: x, and what has its extents, without dimension 1.
    let positions = problem.positions();
    let without_classes = |desc: &TensorDesc| {
        let strides = [&desc.strides()[..1], &desc.strides()[2..]].concat();
        TensorDesc::strided(desc.dtype(), &positions, &strides)
    };
    // One number for all of them.
    let repeated = |desc: &TensorDesc| TensorDesc::strided(desc.dtype(), &positions, &vec![0; positions.len()]);
    let target = if problem.has_classes() { *problem.target() } else { without_classes(problem.target())? };
    let loss = problem.loss();
    let loss = if problem.reduction() == LossReduction::None { *loss } else { repeated(loss)? };
    let lse = problem.lse().copied().unwrap_or(loss);
    let dx = problem.dx().unwrap_or(x);
    let [x_param, target_param, loss, lse, dx_param] =
        collapse([&without_classes(x)?, &target, &loss, &lse, &without_classes(dx)?]);
    Ok(CrossEntropyParams {
        n_rows: problem.n_rows(),
        n_classes: problem.n_classes(),
        ignore_index: problem.ignore_index().unwrap_or(0),
        has_ignore_index: u32::from(problem.ignore_index().is_some()),
        log_probs: u32::from(problem.input() == CrossEntropyInput::LogProbs),
        target_kind: match problem.target().dtype() {
            DType::I32 => target::I32,
            DType::I64 => target::I64,
            _ => target::PROBABILITIES,
        },
        reduction: problem.reduction() as u32,
        loss_dtype: problem.loss().dtype() as u32,
        weight_dtype: problem.weight().map_or(0, |weight| weight.dtype() as u32),
        alpha: 1.0,
        beta: 0.0,
        smoothing: problem.smoothing(),
        x_class_stride: x.strides()[1],
        target_class_stride: if problem.has_classes() { 0 } else { problem.target().strides()[1] },
        dx_class_stride: dx.strides()[1],
        weight_stride: problem.weight().map_or(0, |weight| weight.strides()[0]),
        weight: 0,
        total: 0,
        partials: 0,
        parts: 0,
        n_parts: 1,
        part_pieces: 0,
        x: x_param,
        target: target_param,
        loss,
        lse,
        dx: dx_param,
    })
}

/// The launch that adds up.
pub(super) struct Sum {
    function: Function,
    config: LaunchConfig,
    n_partials: i64,
}

impl Sum {
    /// The one for so many pairs, where losses are to be added up.
    pub(super) fn new(
        problem: &CrossEntropyProblem,
        n_partials: i64,
        context: &Context,
    ) -> Result<Option<Self>, Error> {
        if partials_bytes(problem, 1) == 0 {
            return Ok(None);
        }
        let kernel = kernel_for(SUMS, problem.pass(), problem.x().dtype(), context);
        let config = kernel.map_err(|refusal| refusal.into_error("naive", problem))?[0];
        let grid = LaunchConfig { block: [SUM_BLOCK, 1, 1], ..LaunchConfig::default() };
        Ok(Some(Sum { function: context.function(config.0)?, config: grid, n_partials }))
    }
}
