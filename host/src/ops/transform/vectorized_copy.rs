//! The copy at the speed of memory, for tensors that keep type and layout.

use super::{TransformProblem, naive};
use crate::launch::{KernelLaunch, LaunchConfig};
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, check_gpu};
use crate::{Context, Error, Stream};
use kernel_abi::desc::collapse;
use kernel_abi::ops::transform::TransformParams;

/// Bytes of an access.
const WORD_BYTES: u64 = 16;

/// Symbol, words a thread moves at a time, block size.
type Row = (&'static str, u32, u32);

macro_rules! rows {
    ($(($symbol:ident, $words:literal, $block:literal)),* $(,)?) => { &[$((stringify!($symbol), $words, $block)),*] };
}
const KERNELS: &[Row] = kernel_abi::transform_copy_kernels!(rows);

/// 16 bytes an access, several under way in each thread.
///
/// A run with other scalars than alpha 1 and beta 0, or with addresses that are no multiples of 16, takes the naive
/// kernel: it has arithmetic to do, or cannot be read in words.
pub(super) struct VectorizedCopy;

impl Algorithm<TransformProblem> for VectorizedCopy {
    fn name(&self) -> &'static str {
        "vectorized_copy"
    }

    fn configs(&self, problem: &TransformProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        if !problem.keeps_layout() {
            let (x, y) = (problem.x(), problem.y());
            return Err(Refusal::new(format!(
                "copies between tensors without gaps of one type and layout, given {x} and {y}"
            )));
        }
        Ok(KERNELS.iter().map(|row| Config(row.0)).collect())
    }

    fn workspace_bytes(&self, _: &TransformProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &TransformProblem, _: Config, context: &Context) -> f64 {
        crate::select::cost::streaming_us(problem, context)
    }

    fn prepare(&self, problem: &TransformProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let (_, words, block) = KERNELS.iter().find(|row| row.0 == config.0).copied().unwrap_or(KERNELS[0]);
        let bytes = problem.x().data_bytes();
        let n_words = bytes / WORD_BYTES;
        let blocks = n_words.div_ceil(u64::from(words * block)).max(1);
        let [y, x] = collapse([problem.y(), problem.x()]);
        let fallback = naive::launch(problem, context.function(naive::symbol(problem))?);
        let Ok(blocks) = u32::try_from(blocks) else {
            // More blocks than a grid has: petabytes.
            return Ok(Box::new(fallback));
        };
        let copy = KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig { grid: [blocks, 1, 1], block: [block, 1, 1], ..LaunchConfig::default() },
            params: TransformParams {
                n_elems: n_words as i64,
                tail_bytes: (bytes % WORD_BYTES) as i64,
                alpha: 1.0,
                beta: 0.0,
                x_dtype: problem.x().dtype() as u32,
                y_dtype: problem.y().dtype() as u32,
                cast: problem.cast().bits(),
                reserved: 0,
                x,
                y,
            },
            bind: |params, call| (params.x.address, params.y.address) = (call.address(0), call.address(1)),
        };
        Ok(Box::new(CopyLaunch { copy, fallback }))
    }
}

struct CopyLaunch {
    copy: KernelLaunch<TransformParams>,
    fallback: KernelLaunch<TransformParams>,
}

impl Launch for CopyLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let aligned = (0..2).all(|i| call.address(i).is_multiple_of(WORD_BYTES));
        if aligned && call.alpha == 1.0 && call.beta == 0.0 {
            self.copy.launch(stream, call)
        } else {
            self.fallback.launch(stream, call)
        }
    }
}
