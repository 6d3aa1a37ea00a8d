//! The normalization kernels that accept every legal problem.

use super::{NormPass, NormProblem};
use crate::driver::Function;
use crate::launch::{KernelRow, LaunchConfig, kernel_for, kernel_rows, launch, linear_grid};
use crate::plan::{Call, Launch};
use crate::select::cost::{LAUNCH_US, streaming_us};
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Problem, Stream, TensorDesc};
use kernel_abi::BadDescriptor;
use kernel_abi::desc::collapse_dims;
use kernel_abi::ops::norm::{NormFinalizeParams, NormParams, Sharing, Walk, slot};

const KERNELS: &[KernelRow] = kernel_abi::norm_kernels!(kernel_rows);
macro_rules! finalize_rows {
    ($(($symbol:ident, $sums:ident, $dtype:ident)),* $(,)?) => {
        &[$((stringify!($symbol), kernel_abi::dtype_of!($sums), kernel_abi::dtype_of!($dtype))),*]
    };
}

/// Symbol, type of the sums, type of all else.
const FINALIZE_KERNELS: &[(&str, DType, DType)] = kernel_abi::norm_finalize_kernels!(finalize_rows);
const BLOCK: u32 = 256;
const LANES: i64 = 32;

/// One warp a row or parameter, any strides.
pub(super) struct Naive;

impl Algorithm<NormProblem> for Naive {
    fn name(&self) -> &'static str {
        "naive"
    }

    fn configs(&self, problem: &NormProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        if problem.norm_pass() == NormPass::Finalize {
            check_gpu(context)?;
            let dtypes = (problem.x().dtype(), problem.out().dtype());
            let rows = FINALIZE_KERNELS.iter().filter(|row| (row.1, row.2) == dtypes);
            return Ok(rows.map(|row| Config(row.0)).collect());
        }
        kernel_for(KERNELS, problem.pass(), problem.x().dtype(), context)
    }

    fn workspace_bytes(&self, problem: &NormProblem, _: Config) -> u64 {
        if keeps_statistics(problem) { 3 * problem.statistic().data_bytes() } else { 0 }
    }

    fn estimate_us(&self, problem: &NormProblem, _: Config, context: &Context) -> f64 {
        /// From one step of a warp along its row to the next, as long as memory takes to answer.
        const STEP_US: f64 = 0.5;
        /// Share of the memory's rate of a thread an element that computes the place of each.
        const INFERENCE_SHARE: f64 = 0.08;
        /// Passes over a row.
        const ROUNDS: f64 = 3.0;
        match problem.norm_pass() {
            NormPass::Inference => LAUNCH_US + problem.bytes() / (INFERENCE_SHARE * context.info().bytes_per_us),
            NormPass::Finalize => streaming_us(problem, context),
            NormPass::Forward | NormPass::Backward => {
                let alone = problem.count() as f64 / LANES as f64 * STEP_US;
                ROUNDS * streaming_us(problem, context).max(LAUNCH_US + alone)
            }
        }
    }

    fn prepare(&self, problem: &NormProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let function = context.function(config.0)?;
        if problem.norm_pass() == NormPass::Finalize {
            return Ok(Box::new(finalize(problem, function)));
        }
        let bad = |e: BadDescriptor| Error::bad("norm", &e.argument, e.reason);
        let sharing = problem.sharing();
        let all: Vec<usize> = [sharing.across_dims(), sharing.row_dims()].concat();
        let (outer, inner, lanes) = match problem.norm_pass() {
            NormPass::Inference | NormPass::Finalize => (all, Vec::new(), 1),
            NormPass::Forward | NormPass::Backward => (sharing.across_dims(), sharing.row_dims(), LANES),
        };
        let affine = ["scale", "bias"];
        let mut steps = vec![Step::new(problem, function, (&outer, &inner), lanes, affine).map_err(bad)?];
        if has_parameter_gradients(problem) {
            let dtype = problem.x().dtype();
            let rows = kernel_for(KERNELS, "parameters", dtype, context)
                .map_err(|refusal| refusal.into_error(self.name(), problem))?;
            let function = context.function(rows[0].0)?;
            let dims = (sharing.parameter_dims(), sharing.sharing_dims());
            let gradients = ["dscale", "dbias"];
            let mut step = Step::new(problem, function, (&dims.0, &dims.1), LANES, gradients).map_err(bad)?;
            step.params.statistics_are_given = 1;
            steps.push(step);
        }
        let kept_bytes = if keeps_statistics(problem) { problem.statistic().data_bytes() } else { 0 };
        Ok(Box::new(NaiveLaunch { steps, kept_bytes }))
    }
}

fn has_parameter_gradients(problem: &NormProblem) -> bool {
    ["dscale", "dbias"].into_iter().any(|name| problem.operand(name).is_some())
}

/// Whether statistics go from one kernel to the next through the workspace.
fn keeps_statistics(problem: &NormProblem) -> bool {
    has_parameter_gradients(problem) && problem.operand("inv_std").is_none()
}

/// Kernels one after another.
struct NaiveLaunch {
    steps: Vec<Step>,
    /// Bytes of the mean that is kept in the workspace; 0 for none. The inverse standard deviation lies behind it, and
    /// then what rounding takes from x̂.
    kept_bytes: u64,
}

impl Launch for NaiveLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        for step in &self.steps {
            let mut params = step.params;
            for address in addresses(&mut params) {
                place_address(address, call);
            }
            if self.kept_bytes > 0 {
                params.mean = call.workspace_address();
                params.inv_std = params.mean + self.kept_bytes;
                params.rest = params.inv_std + self.kept_bytes;
            }
            (params.alpha, params.beta) = (call.alpha, call.beta);
            run(&step.function, &step.config, stream, &params)?;
        }
        Ok(())
    }
}

/// Queues a kernel.
pub(super) fn run<P: crate::launch::KernelParams>(
    function: &Function,
    config: &LaunchConfig,
    stream: &Stream,
    params: &P,
) -> Result<(), Error> {
    let stream = stream.gpu_stream_for(function.name())?;
    launch(function, config, stream, params)
}

/// Where an address goes: for the time being 1 more than the place of the operand; 0 for none.
pub(super) fn place(problem: &NormProblem, name: &str) -> u64 {
    problem.operand(name).map_or(0, |(at, _)| at as u64 + 1)
}

/// Puts the address there.
pub(super) fn place_address(address: &mut u64, call: &Call<'_>) {
    if *address != 0 {
        *address = call.address(*address as usize - 1);
    }
}

fn addresses(p: &mut NormParams) -> [&mut u64; 13] {
    [
        &mut p.x,
        &mut p.out,
        &mut p.dy,
        &mut p.y,
        &mut p.dz,
        &mut p.scale,
        &mut p.bias,
        &mut p.dscale,
        &mut p.dbias,
        &mut p.mean,
        &mut p.inv_std,
        &mut p.running_mean,
        &mut p.running_var,
    ]
}

/// A kernel whose parameters are complete but for addresses and scalars.
struct Step {
    function: Function,
    config: LaunchConfig,
    params: NormParams,
}

impl Step {
    /// Over some dimensions in parallel, `lanes` threads for each of their elements, and over others within them. The two
    /// tensors of parameters are those of these names.
    fn new(
        problem: &NormProblem,
        function: Function,
        (outer_dims, inner_dims): (&[usize], &[usize]),
        lanes: i64,
        parameters: [&str; 2],
    ) -> Result<Self, BadDescriptor> {
        let sharing = problem.sharing();
        let tensors = tensors(problem, &sharing, parameters)?;
        let extents = tensors[slot::OUT];
        let elems = |dims: &[usize]| dims.iter().map(|&i| extents.dims()[i]).product::<i64>();
        let n_outer = elems(outer_dims);
        let (mode, coefficient) = problem.activation();
        let backward = problem.norm_pass() == NormPass::Backward;
        let params = NormParams {
            n_outer,
            n_inner: elems(inner_dims),
            outer: walk(&tensors, outer_dims),
            inner: walk(&tensors, inner_dims),
            x: place(problem, "x"),
            out: place(problem, if backward { "dx" } else { "y" }),
            dy: place(problem, if backward { "dy" } else { "z" }),
            y: if backward { place(problem, "y") } else { 0 },
            dz: place(problem, "dz"),
            scale: place(problem, "scale"),
            bias: place(problem, "bias"),
            dscale: place(problem, "dscale"),
            dbias: place(problem, "dbias"),
            mean: place(problem, "mean"),
            inv_std: place(problem, "inv_std"),
            rest: 0,
            running_mean: place(problem, "running_mean"),
            running_var: place(problem, "running_var"),
            statistics_are_given: u32::from(backward && problem.operand("inv_std").is_some()),
            has_mean: u32::from(problem.mode().has_mean()),
            parameters_are_wide: parameters_are_wide(problem),
            running_is_wide: is_wide(problem, &["running_mean"]),
            mode: mode as u32,
            reserved: 0,
            coefficient,
            epsilon: problem.epsilon(),
            factor: problem.factor(),
            correction: problem.correction(),
            alpha: 1.0,
            beta: 0.0,
        };
        Ok(Step { function, config: linear_grid(n_outer.saturating_mul(lanes), BLOCK), params })
    }
}

/// Whether scale, bias and their gradients are of another type than x: of its accumulator's.
pub(super) fn parameters_are_wide(problem: &NormProblem) -> u32 {
    is_wide(problem, &["scale", "bias", "dscale", "dbias"])
}

pub(super) fn is_wide(problem: &NormProblem, names: &[&str]) -> u32 {
    let given = names.iter().find_map(|name| problem.operand(name));
    u32::from(given.is_some_and(|(_, desc)| desc.dtype() != problem.x().dtype()))
}

/// All tensors as ones of x's extents; x in place of those that are not there.
fn tensors(
    problem: &NormProblem,
    sharing: &Sharing,
    parameters: [&str; 2],
) -> Result<[TensorDesc; slot::COUNT], BadDescriptor> {
    let backward = problem.norm_pass() == NormPass::Backward;
    let x = sharing.split(problem.x())?;
    let mut tensors = [x; slot::COUNT];
    let mut set = |at: usize, name: &str, spread: fn(&Sharing, &TensorDesc) -> Result<TensorDesc, BadDescriptor>| {
        if let Some((_, desc)) = problem.operand(name) {
            tensors[at] = spread(sharing, &desc)?;
        }
        Ok(())
    };
    set(slot::OUT, if backward { "dx" } else { "y" }, Sharing::split)?;
    set(slot::DY, if backward { "dy" } else { "z" }, Sharing::split)?;
    if backward {
        set(slot::Y, "y", Sharing::split)?;
    }
    set(slot::DZ, "dz", Sharing::split)?;
    set(slot::SCALE, parameters[0], Sharing::spread_parameters)?;
    set(slot::BIAS, parameters[1], Sharing::spread_parameters)?;
    set(slot::RUNNING, "running_mean", Sharing::spread_rows)?;
    tensors[slot::STATISTIC] = sharing.spread_rows(&problem.statistic())?;
    Ok(tensors)
}

fn walk(tensors: &[TensorDesc; slot::COUNT], dims: &[usize]) -> Walk {
    let walked = collapse_dims(tensors.each_ref(), dims);
    Walk { dims: walked[0].dims, strides: walked.map(|tensor| tensor.strides) }
}

fn finalize(problem: &NormProblem, function: Function) -> FinalizeLaunch {
    let stride = |name| problem.operand(name).map_or(0, |(_, desc)| desc.strides()[0]);
    FinalizeLaunch {
        function,
        params: NormFinalizeParams {
            channels: problem.x().n_elems(),
            sum: place(problem, "sum"),
            sum_squares: place(problem, "sum_squares"),
            scale: place(problem, "scale"),
            bias: place(problem, "bias"),
            strides: [stride("scale"), stride("bias"), stride("running_mean")],
            mean: place(problem, "mean"),
            inv_std: place(problem, "inv_std"),
            eq_scale: place(problem, "eq_scale"),
            eq_bias: place(problem, "eq_bias"),
            running_mean: place(problem, "running_mean"),
            running_var: place(problem, "running_var"),
            count: problem.count() as f64,
            epsilon: problem.epsilon(),
            factor: problem.factor(),
            correction: problem.correction(),
        },
    }
}

struct FinalizeLaunch {
    function: Function,
    params: NormFinalizeParams,
}

impl Launch for FinalizeLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let mut params = self.params;
        let p = &mut params;
        for address in [&mut p.sum, &mut p.sum_squares, &mut p.scale, &mut p.bias, &mut p.mean, &mut p.inv_std] {
            place_address(address, call);
        }
        for address in [&mut p.eq_scale, &mut p.eq_bias, &mut p.running_mean, &mut p.running_var] {
            place_address(address, call);
        }
        run(&self.function, &linear_grid(params.channels, BLOCK), stream, &params)
    }
}
