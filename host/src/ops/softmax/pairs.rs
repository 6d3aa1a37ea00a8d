//! Short rows that lie side by side, as a few channels of NCHW: a thread has all elements of 4 or 8 bytes of them.

use super::columns::columns;
use super::{SoftmaxProblem, naive};
use crate::launch::{KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, DType, Error, Problem};
use kernel_abi::ops::softmax::{PAIR_ELEMS, SoftmaxParams};

/// A row of the kernel list.
struct Kernel {
    symbol: &'static str,
    pass: &'static str,
    dtype: DType,
    /// Of 4 bytes of rows that a thread has.
    words: i64,
}

macro_rules! kernels {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $words:literal)),* $(,)?) => {
        &[$(Kernel {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            words: $words,
        }),*]
    };
}

const KERNELS: &[Kernel] = kernel_abi::softmax_pair_kernels!(kernels);

const BLOCK: u32 = 256;
const WORD_BYTES: i64 = 4;

/// One reading, one writing, nothing shared.
pub(super) struct Pairs;

impl Kernel {
    fn of(config: Config) -> &'static Kernel {
        KERNELS.iter().find(|kernel| kernel.symbol == config.0).unwrap_or(&KERNELS[0])
    }

    /// Rows of a thread.
    fn width(&self) -> i64 {
        self.words * WORD_BYTES / self.dtype.size_bytes() as i64
    }

    fn blocks(&self, params: &SoftmaxParams) -> i64 {
        div_ceil(params.n_rows / self.width(), i64::from(BLOCK))
    }
}

impl Algorithm<SoftmaxProblem> for Pairs {
    fn name(&self) -> &'static str {
        "pairs"
    }

    fn configs(&self, problem: &SoftmaxProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let params = columns(problem, context)?;
        let (pass, dtype) = (problem.pass(), problem.input().dtype());
        let of_type = |kernel: &&Kernel| kernel.pass == pass && kernel.dtype == dtype;
        let Some(least) = KERNELS.iter().filter(of_type).map(Kernel::width).min() else {
            return Err(Refusal::new(format!("has no kernel for pass {pass} with {dtype}")));
        };
        if params.row_elems > PAIR_ELEMS {
            return Err(Refusal::new(format!("takes rows of up to {PAIR_ELEMS} elements, given {}", params.row_elems)));
        }
        if params.inner % least != 0 {
            return Err(Refusal::new(format!("takes multiples of {least} rows side by side, given {}", params.inner)));
        }
        let fits = |kernel: &&Kernel| params.inner % kernel.width() == 0;
        Ok(KERNELS.iter().filter(of_type).filter(fits).map(|kernel| Config(kernel.symbol)).collect())
    }

    fn workspace_bytes(&self, _: &SoftmaxProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> f64 {
        cost::blocks_us(problem.bytes(), Kernel::of(config).blocks(&naive::params(problem)), context)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let params = naive::params(problem);
        let params = SoftmaxParams { inner: params.out_rows.dims[7], ..params };
        let grid = [Kernel::of(config).blocks(&params) as u32, 1, 1];
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig { grid, block: [BLOCK, 1, 1], ..LaunchConfig::default() },
            params,
            bind: naive::bind,
        }))
    }
}
