//! The dropout kernels that accept every legal problem.

use super::DropoutProblem;
use crate::driver::Function;
use crate::launch::{KernelRow, LaunchConfig, kernel_for, kernel_rows, launch_on, linear_grid};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, Error, Problem, Stream};
use kernel_abi::desc::collapse;
use kernel_abi::ops::dropout::DropoutParams;

const KERNELS: &[KernelRow] = kernel_abi::dropout_kernels!(kernel_rows);
const BLOCK: u32 = 256;

/// One thread an element, any strides.
pub(super) struct Naive;

impl Algorithm<DropoutProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &DropoutProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        kernel_for(KERNELS, problem.pass(), problem.input().dtype(), context)
    }

    fn workspace_bytes(&self, _: &DropoutProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &DropoutProblem, _: Config, context: &Context) -> f64 {
        // Four random words are drawn for each, and one is used.
        2.0 * cost::streaming_us(problem, context)
    }

    fn prepare(&self, problem: &DropoutProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        Ok(Box::new(DropoutLaunch {
            function: context.function(config.0)?,
            config: linear_grid(problem.input().n_elems(), BLOCK),
            params: params(problem),
            places: Places::new(problem),
        }))
    }
}

/// Parameters, complete but for addresses.
pub(super) fn params(problem: &DropoutProblem) -> DropoutParams {
    // Dimensions stay in the order of counting, whatever the strides.
    let [_, y, x] = collapse([&problem.counted(), problem.out(), problem.input()]);
    DropoutParams {
        n_elems: problem.input().n_elems(),
        threshold: problem.threshold(),
        scale: problem.scale(),
        state: 0,
        next: 0,
        mask: 0,
        x,
        y,
    }
}

/// Where the operands stand.
pub(super) struct Places {
    state: Option<usize>,
    mask: Option<usize>,
    next: Option<usize>,
    out: usize,
}

impl Places {
    pub(super) fn new(problem: &DropoutProblem) -> Self {
        let operands = problem.operands();
        let of = |name: &str| operands.iter().position(|operand| operand.name == name);
        Places { state: of("state"), mask: of("mask"), next: of("next"), out: of("y").or(of("dx")).unwrap_or(0) }
    }

    /// The parameters with addresses.
    pub(super) fn bind(&self, params: &DropoutParams, call: &Call<'_>) -> DropoutParams {
        let address = |place: Option<usize>| place.map_or(0, |place| call.address(place));
        DropoutParams {
            state: address(self.state),
            next: address(self.next),
            mask: address(self.mask),
            x: params.x.at(call.address(0)),
            y: params.y.at(call.address(self.out)),
            ..*params
        }
    }
}

struct DropoutLaunch {
    function: Function,
    config: LaunchConfig,
    params: DropoutParams,
    places: Places,
}

impl Launch for DropoutLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        launch_on(stream, &self.function, &self.config, &self.places.bind(&self.params, call))
    }
}
