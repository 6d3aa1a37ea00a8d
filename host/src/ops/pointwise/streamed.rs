//! Runs of neighbouring elements, 32 bytes of each operand a thread, any steps.

use super::{AsPointwise, PointwiseProblem, Step, StepOp, naive};
use crate::driver::Function;
use crate::launch::{KernelLaunch, LaunchConfig};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, DType, Error, Stream, TensorDesc};
use kernel_abi::desc::collapse;
use kernel_abi::division::Divisor;
use kernel_abi::ops::pointwise::{INPUT_NAMES, MAX_INPUTS, PointwiseStreamParams, StreamTensor};
use kernel_abi::{MAX_RANK, TensorParam};

/// Symbol, what it computes with, elements of a thread.
type Row = (&'static str, &'static str, i64);

macro_rules! rows {
    ($(($symbol:ident, $number:ident, $elems:literal, $blocks:literal)),* $(,)?) => {
        &[$((stringify!($symbol), stringify!($number), $elems)),*]
    };
}
const KERNELS: &[Row] = kernel_abi::pointwise_stream_kernels!(rows);

const BLOCK: u32 = 256;
/// Bytes of the widest access.
const CHUNK: i64 = 16;
/// Loops around the runs.
const LEVELS: usize = 3;
/// Share of the memory's rate.
const MEMORY_SHARE: f64 = 0.4;
/// Until the list of steps has been read and the first step begins.
const FIRST_STEP_US: f64 = 1.0;

/// What a thread reads of two inputs is under way before it computes.
///
/// A run with addresses that vectors cannot begin at goes an element a thread, by the same kernel.
pub(in crate::ops) struct Streamed;

impl<P: AsPointwise> Algorithm<P> for Streamed {
    fn name(&self) -> &'static str {
        "streamed"
    }

    fn configs(&self, problem: &P, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        let problem = problem.as_pointwise().map_err(|error| Refusal::new(error.to_string()))?;
        params(&problem).map(|(row, ..)| vec![Config(row.0)])
    }

    fn workspace_bytes(&self, _: &P, _: Config) -> u64 {
        0
    }

    /// Bound by memory, of which steps that are interpreted leave half unused.
    fn estimate_us(&self, problem: &P, _: Config, context: &Context) -> f64 {
        crate::select::cost::LAUNCH_US + FIRST_STEP_US + problem.bytes() / (MEMORY_SHARE * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &P, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let parts =
            params(&problem.as_pointwise()?).map_err(|refusal| refusal.into_error(Algorithm::<P>::name(self), problem));
        let (row, vectors, singles, aligns) = parts?;
        let function = context.function(row.0)?;
        let launch = |function: Function, params: PointwiseStreamParams| KernelLaunch {
            function,
            config: LaunchConfig {
                grid: [(params.pieces + params.singles).div_ceil(BLOCK), 1, 1],
                block: [BLOCK, 1, 1],
                ..LaunchConfig::default()
            },
            params,
            bind: |params, call| {
                let n_inputs = call.operands.len() - 1;
                (params.alpha, params.beta) = (call.alpha, call.beta);
                for (i, input) in params.inputs.iter_mut().take(n_inputs).enumerate() {
                    input.address = call.address(i);
                }
                params.c.address = call.address(n_inputs);
            },
        };
        Ok(Box::new(Streaming {
            vectors: launch(function.clone(), vectors),
            singles: launch(function, singles),
            aligns,
        }))
    }
}

/// A launch of a streaming kernel, complete but for addresses and scalars.
struct Streaming {
    vectors: KernelLaunch<PointwiseStreamParams>,
    singles: KernelLaunch<PointwiseStreamParams>,
    /// What the addresses must be multiples of for vectors.
    aligns: Vec<u64>,
}

impl Launch for Streaming {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let aligned = self.aligns.iter().enumerate().all(|(i, &align)| call.address(i).is_multiple_of(align));
        if aligned { self.vectors.launch(stream, call) } else { self.singles.launch(stream, call) }
    }
}

/// The kernel; its parameters with vectors, and with single elements; what the operands' addresses must be multiples of.
fn params(
    problem: &PointwiseProblem,
) -> Result<(&'static Row, PointwiseStreamParams, PointwiseStreamParams, Vec<u64>), Refusal> {
    const LAST: usize = MAX_RANK - 1;
    let c = problem.c();
    let n_inputs = problem.inputs().len();
    if problem.index_axes().next().is_some() {
        return Err(Refusal::new("reads its inputs, gen_index has none"));
    }
    let long = |step: &&Step| matches!(step.op(), StepOp::Pointwise(pass) if pass.is_long());
    if let Some(step) = problem.steps().iter().find(long) {
        return Err(Refusal::new(format!("has no functions of very many instructions, given {step}")));
    }
    let dtypes = || problem.inputs().iter().chain([c]).map(TensorDesc::dtype);
    if let Some(dtype) = dtypes().find(|dtype| dtype.is_fp8()) {
        return Err(Refusal::new(format!(
            "takes other element types than those of 8-bit floating point, given {dtype}"
        )));
    }
    let computes = match problem.computing() {
        DType::I64 => {
            return Err(Refusal::new("computes in f32 and f64, integers are computed in i64"));
        }
        DType::F64 => "f64",
        _ if dtypes().all(|dtype| dtype.size_bytes() <= 2) => "Approximate",
        _ => "f32",
    };
    let row = KERNELS.iter().find(|row| row.1 == computes).unwrap_or(&KERNELS[0]);
    let width = row.2;
    let inputs: Vec<TensorDesc> = problem.inputs().iter().map(|input| problem.repeated(input)).collect();
    let of = |i: usize| inputs.get(i).unwrap_or(c);
    let [c_param, tensors @ ..] = collapse([c, of(0), of(1), of(2), of(3), of(4), of(5)]);
    let run = c_param.dims[LAST];
    if run < width || c_param.strides[LAST] != 1 {
        let stride = c_param.strides[LAST];
        return Err(Refusal::new(format!("writes runs of at least {width} neighbours, c has {run} {stride} apart")));
    }
    for (name, tensor) in INPUT_NAMES.iter().zip(&tensors).take(n_inputs) {
        if tensor.strides[LAST] > 1 {
            let stride = tensor.strides[LAST];
            return Err(Refusal::new(format!(
                "reads neighbours or one element for a run, those of {name} are {stride} apart"
            )));
        }
    }
    let levels = c_param.dims[..LAST].iter().filter(|&&dim| dim > 1).count();
    if levels > LEVELS {
        return Err(Refusal::new(format!("goes through up to {LEVELS} loops around the runs, there are {levels}")));
    }
    if c.n_elems() > i64::from(i32::MAX) {
        return Err(Refusal::new(format!("counts to 2^31 - 1, c has {} elements", c.n_elems())));
    }
    // Bytes of an access, and what they must be multiples of.
    let align_of = |dtype: DType| (width * dtype.size_bytes() as i64).min(CHUNK);
    let mut aligns = Vec::new();
    for (i, tensor) in tensors.iter().take(n_inputs).chain([&c_param]).enumerate() {
        let desc = if i < n_inputs { of(i) } else { c };
        let item = desc.dtype().size_bytes() as i64;
        let contiguous = tensor.strides[LAST] == 1;
        let align = if contiguous { align_of(desc.dtype()) } else { item };
        let name = if i < n_inputs { INPUT_NAMES[i] } else { "c" };
        let odd = (0..LAST).find(|&level| tensor.dims[level] > 1 && tensor.strides[level] * item % align != 0);
        if let Some(level) = odd {
            let bytes = tensor.strides[level] * item;
            return Err(Refusal::new(format!(
                "begins runs at multiples of {align} bytes, those of {name} are {bytes} apart"
            )));
        }
        aligns.push(align as u64);
    }
    let stream_tensor = |tensor: &TensorParam, desc: &TensorDesc, factor: f64| StreamTensor {
        address: 0,
        factor,
        strides: std::array::from_fn(|level| tensor.strides[LAST - 1 - level]),
        dtype: desc.dtype() as u32,
        element_bytes: desc.dtype().size_bytes() as u32,
        runs: tensor.strides[LAST] as u32,
        reserved: 0,
    };
    let (steps, n_steps) = naive::steps(problem);
    let runs = (c.n_elems() / run) as u32;
    let form = |run_pieces: u32, first_single: u32| PointwiseStreamParams {
        alpha: 1.0,
        beta: 0.0,
        inner: Divisor::new(c_param.dims[LAST - 1] as u32),
        middle: Divisor::new(c_param.dims[LAST - 2] as u32),
        run_pieces: Divisor::new(run_pieces),
        run_singles: Divisor::new(run as u32 - first_single),
        pieces: runs * run_pieces,
        singles: runs * (run as u32 - first_single),
        first_single,
        n_inputs: n_inputs as u32,
        n_steps,
        cast: problem.cast().bits(),
        c: stream_tensor(&c_param, c, 1.0),
        steps,
        inputs: std::array::from_fn::<_, MAX_INPUTS, _>(|i| stream_tensor(&tensors[i], of(i), problem.factor(i))),
    };
    let run_pieces = (run / width) as u32;
    Ok((row, form(run_pieces, run_pieces * width as u32), form(0, 0), aligns))
}
