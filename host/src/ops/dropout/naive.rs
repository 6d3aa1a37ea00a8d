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
const NEXT: &[KernelRow] = kernel_abi::dropout_next_kernels!(kernel_rows);
const BLOCK: u32 = 256;
const NEXT_BLOCK: u32 = 32;

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
        let config_of = linear_grid(problem.input().n_elems(), BLOCK);
        Ok(Box::new(DropoutLaunch::new(problem, context.function(config.0)?, config_of, params(problem), context)?))
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
struct Places {
    state: Option<usize>,
    mask: Option<usize>,
    next: Option<usize>,
    out: usize,
}

impl Places {
    fn new(problem: &DropoutProblem) -> Self {
        let operands = problem.operands();
        let of = |name: &str| operands.iter().position(|operand| operand.name == name);
        Places { state: of("state"), mask: of("mask"), next: of("next"), out: of("y").or(of("dx")).unwrap_or(0) }
    }

    /// The parameters with addresses.
    fn bind(&self, params: &DropoutParams, call: &Call<'_>) -> DropoutParams {
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

/// One kernel; a second one where the state behind the run takes the place of the state, which no block may then write
/// while others read it.
pub(super) struct DropoutLaunch {
    function: Function,
    config: LaunchConfig,
    params: DropoutParams,
    places: Places,
    next: Option<Function>,
}

impl DropoutLaunch {
    pub(super) fn new(
        problem: &DropoutProblem,
        function: Function,
        config: LaunchConfig,
        params: DropoutParams,
        context: &Context,
    ) -> Result<Self, Error> {
        let next = if problem.gives_next() { Some(context.function(NEXT[0].symbol)?) } else { None };
        Ok(DropoutLaunch { function, config, params, places: Places::new(problem), next })
    }
}

impl Launch for DropoutLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let params = self.places.bind(&self.params, call);
        if params.mask != 0 && params.mask == params.state {
            return Err(Error::bad("dropout", "mask", "expected memory of its own, given that of state"));
        }
        let Some(next) = self.next.as_ref().filter(|_| params.next == params.state) else {
            return launch_on(stream, &self.function, &self.config, &params);
        };
        launch_on(stream, &self.function, &self.config, &DropoutParams { next: 0, ..params })?;
        let one = LaunchConfig { block: [NEXT_BLOCK, 1, 1], ..LaunchConfig::default() };
        launch_on(stream, next, &one, &params)
    }
}
