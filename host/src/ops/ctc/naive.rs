//! The ctc kernels that accept every legal problem.

use super::{CrossEntropyInput, CtcProblem, LossReduction};
use crate::driver::Function;
use crate::launch::{KernelRow, LaunchConfig, kernel_for, kernel_rows, launch_on, linear_grid};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, Error, Stream, TensorDesc};
use kernel_abi::ops::ctc::CtcParams;

const KERNELS: &[KernelRow] = kernel_abi::ctc_kernels!(kernel_rows);
const BLOCK: u32 = 256;
const LANES: i64 = 32;
/// Parts of the workspace begin at multiples of this.
const ALIGN: u64 = 256;

/// A warp a row, a block a sequence, any strides.
pub(super) struct Naive;

impl Algorithm<CtcProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &CtcProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, "states", problem.x().dtype(), context)
    }

    fn workspace_bytes(&self, problem: &CtcProblem, _: Config) -> u64 {
        Parts::new(problem).bytes
    }

    fn estimate_us(&self, problem: &CtcProblem, config: Config, context: &Context) -> f64 {
        /// A barrier, and what is read behind it.
        const STEP_US: f64 = 1.0;
        let steps = problem.extents()[0] as f64 * STEP_US;
        let bytes = problem.x().data_bytes() as f64 + self.workspace_bytes(problem, config) as f64;
        4.0 * cost::LAUNCH_US + steps + 2.0 * bytes / context.info().bytes_per_us
    }

    fn prepare(&self, problem: &CtcProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let [n_steps, n_sequences, n_classes] = problem.extents();
        let is_backward = problem.dx().is_some();
        let function = |what: &str, dtype| {
            let found = kernel_for(KERNELS, what, dtype, context);
            context.function(found.map_err(|refusal| refusal.into_error(self.name(), problem))?[0].0)
        };
        let x = problem.x();
        let rows = linear_grid((n_steps * n_sequences).saturating_mul(LANES), BLOCK);
        let blocks = n_sequences.min(i64::from(i32::MAX)) as u32;
        let grid = [blocks, if is_backward { 2 } else { 1 }, 1];
        let indices = [problem.target(), problem.x_lengths(), problem.target_lengths()];
        let params = CtcParams {
            n_steps,
            n_sequences,
            n_classes,
            n_labels: problem.n_labels(),
            blank: problem.blank(),
            zero_infinity: u32::from(problem.zero_infinity()),
            reduction: problem.reduction() as u32,
            alpha: 1.0,
            beta: 0.0,
            x: 0,
            x_strides: strides(x),
            indices: [0; 3],
            index_bytes: indices.map(|index| index.dtype().size_bytes() as u32),
            loss_dtype: problem.loss().dtype() as u32,
            index_strides: indices.map(|index| index.strides()[0]),
            label_stride: problem.target().strides()[1],
            loss: 0,
            loss_stride: if problem.reduction() == LossReduction::None { problem.loss().strides()[0] } else { 0 },
            dx: 0,
            dx_strides: strides(problem.dx().unwrap_or(x)),
            lse: 0,
            alphas: 0,
            betas: 0,
            alpha_rows: alpha_rows(problem),
            losses: 0,
        };
        Ok(Box::new(CtcLaunch {
            lse: match problem.input() {
                CrossEntropyInput::Logits => Some((function("lse", x.dtype())?, rows)),
                CrossEntropyInput::LogProbs => None,
            },
            states: (context.function(config.0)?, LaunchConfig { grid, block: [BLOCK, 1, 1], ..rows }),
            last: if is_backward {
                (function("gradient", x.dtype())?, rows)
            } else {
                (function("loss", x.dtype())?, LaunchConfig { grid: [1; 3], ..rows })
            },
            params,
            parts: Parts::new(problem),
            is_backward,
        }))
    }
}

fn strides(desc: &TensorDesc) -> [i64; 3] {
    [desc.strides()[0], desc.strides()[1], desc.strides()[2]]
}

/// Steps whose ln α are kept: all of them for the gradient, else this one and the one before it.
fn alpha_rows(problem: &CtcProblem) -> i64 {
    let n_steps = problem.extents()[0];
    if problem.dx().is_some() { n_steps } else { n_steps.min(2) }
}

/// Where the parts of the workspace begin.
struct Parts {
    lse: u64,
    alphas: u64,
    betas: u64,
    losses: u64,
    bytes: u64,
}

impl Parts {
    fn new(problem: &CtcProblem) -> Self {
        let [n_steps, n_sequences, _] = problem.extents().map(|extent| extent as u64);
        let item = problem.x().dtype().accumulator().size_bytes() as u64;
        let row = (problem.n_states() as u64).saturating_mul(n_sequences * item);
        let mut bytes = 0u64;
        let mut part = |size: u64| {
            let begin = bytes;
            bytes = bytes.saturating_add(size).checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX);
            begin
        };
        let lse = part(n_steps * n_sequences * item);
        let alphas = part(row.saturating_mul(alpha_rows(problem) as u64));
        let betas = part(if problem.dx().is_some() { row.saturating_mul(n_steps) } else { 0 });
        let losses = part(n_sequences * item);
        Parts { lse, alphas, betas, losses, bytes }
    }
}

struct CtcLaunch {
    lse: Option<(Function, LaunchConfig)>,
    states: (Function, LaunchConfig),
    /// The loss, or the gradient.
    last: (Function, LaunchConfig),
    params: CtcParams,
    parts: Parts,
    is_backward: bool,
}

impl Launch for CtcLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let (workspace, parts) = (call.workspace_address(), &self.parts);
        let params = CtcParams {
            alpha: call.alpha,
            beta: call.beta,
            x: call.address(0),
            indices: [1, 2, 3].map(|i| call.address(i)),
            loss: call.address(4),
            dx: if self.is_backward { call.address(5) } else { 0 },
            lse: if self.lse.is_some() { workspace + parts.lse } else { 0 },
            alphas: workspace + parts.alphas,
            betas: workspace + parts.betas,
            losses: workspace + parts.losses,
            ..self.params
        };
        for (function, config) in self.lse.iter().chain([&self.states, &self.last]) {
            launch_on(stream, function, config, &params)?;
        }
        Ok(())
    }
}
