//! Layout changes that are transpositions of matrices, such as NCHW to NHWC and back: tiles through shared memory.

mod tiling;

use super::{TransformProblem, naive};
use crate::driver::{Function, GpuStream};
use crate::launch::{KernelLaunch, LaunchConfig, launch};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, Error, Problem, Stream, TensorDesc};
use kernel_abi::ops::transform::{TRANSPOSE_THREADS, TransformParams};
use tiling::Geometry;

/// Bytes of an access.
const CHUNK: u64 = 16;
/// Share of the memory's rate.
const MEMORY_SHARE: f64 = 0.9;

/// Symbol, bytes of an element.
type Row = (&'static str, u64);

macro_rules! rows {
    ($(($symbol:ident, $bytes:literal)),* $(,)?) => { &[$((stringify!($symbol), $bytes)),*] };
}
const KERNELS: &[Row] = kernel_abi::transform_transpose_kernels!(rows);
const SM90_KERNELS: &[Row] = kernel_abi::transform_transpose_sm90_kernels!(rows);

/// Elements of 2 and 4 bytes, 16 bytes an access on both sides.
///
/// A run with other scalars than alpha 1 and beta 0 takes the naive kernel: it has arithmetic to do.
pub(super) struct TiledTranspose;

impl Algorithm<TransformProblem> for TiledTranspose {
    fn name(&self) -> &'static str {
        "tiled_transpose"
    }

    fn configs(&self, problem: &TransformProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        Geometry::of(problem.x(), problem.y())?;
        Ok(vec![Config(symbol(problem.x(), context)?)])
    }

    fn workspace_bytes(&self, _: &TransformProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &TransformProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::LAUNCH_US + problem.bytes() / (MEMORY_SHARE * context.info().bytes_per_us)
    }

    fn prepare(&self, problem: &TransformProblem, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        Ok(Box::new(TransposeLaunch {
            transposition: Transposition::new(problem.x(), problem.y(), context)?,
            fallback: naive::launch(problem, context.function(naive::symbol(problem))?),
        }))
    }
}

/// The kernel for elements of x's size: on Hopper one that may start early.
fn symbol(x: &TensorDesc, context: &Context) -> Result<&'static str, Refusal> {
    let rows = if context.info().compute_capability == (9, 0) { SM90_KERNELS } else { KERNELS };
    let row = rows.iter().find(|row| row.1 == x.dtype().size_bytes() as u64);
    row.map(|row| row.0)
        .ok_or_else(|| Refusal::new(format!("takes elements of 2 and 4 bytes, the element type is {}", x.dtype())))
}

struct TransposeLaunch {
    transposition: Transposition,
    fallback: KernelLaunch<TransformParams>,
}

impl Launch for TransposeLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        match stream.gpu_stream() {
            Some(stream) if call.alpha == 1.0 && call.beta == 0.0 => {
                self.transposition.launch(stream, call.address(0), call.address(1), false)
            }
            _ => self.fallback.launch(stream, call),
        }
    }
}

/// Launches that bring a tensor from one layout into another, complete but for addresses.
pub(in crate::ops) struct Transposition {
    function: Function,
    programmatic: bool,
    geometry: Geometry,
}

impl Transposition {
    /// Why tensors of these layouts are no transpositions of one another that there is a kernel for.
    pub(in crate::ops) fn check(x: &TensorDesc, y: &TensorDesc, context: &Context) -> Result<(), Refusal> {
        symbol(x, context)?;
        Geometry::of(x, y).map(|_| ())
    }

    /// Time of a launch behind others.
    pub(in crate::ops) fn estimate_us(x: &TensorDesc, context: &Context) -> f64 {
        /// From the end of the kernel before to the first load, and from the last store to the end.
        const ENDS_US: f64 = 2.0;
        ENDS_US + 2.0 * x.data_bytes() as f64 / (MEMORY_SHARE * context.info().bytes_per_us)
    }

    /// The launch for two tensors of equal extents and type that [`check`](Self::check) lets pass.
    pub(in crate::ops) fn new(x: &TensorDesc, y: &TensorDesc, context: &Context) -> Result<Self, Error> {
        let refused = |Refusal(reason)| Error::bad("transform", "y", reason);
        let symbol = symbol(x, context).map_err(refused)?;
        let (function, geometry) = (context.function(symbol)?, Geometry::of(x, y).map_err(refused)?);
        let shared_bytes = geometry.aligned.params.shared_bytes().max(geometry.any.params.shared_bytes());
        function.allow_dynamic_shared(shared_bytes as usize)?;
        Ok(Transposition { function, programmatic: SM90_KERNELS.iter().any(|row| row.0 == symbol), geometry })
    }

    /// Queues it; `beside` if the launch before was of another transposition, of other memory.
    pub(in crate::ops) fn launch(&self, stream: &GpuStream, from: u64, to: u64, beside: bool) -> Result<(), Error> {
        let aligned = from.is_multiple_of(CHUNK) && to.is_multiple_of(CHUNK);
        let tiling = if aligned { &self.geometry.aligned } else { &self.geometry.any };
        let mut params = tiling.params;
        (params.from, params.from_end, params.to) = (from, from + self.geometry.from_bytes, to);
        params.beside = u32::from(beside && self.programmatic);
        let config = LaunchConfig {
            grid: [tiling.blocks, 1, 1],
            block: [TRANSPOSE_THREADS, 1, 1],
            shared_bytes: params.shared_bytes(),
            cluster: None,
            programmatic: self.programmatic,
            ..LaunchConfig::default()
        };
        launch(&self.function, &config, stream, &params)
    }
}
