//! Gradients of rows in registers, by blocks that load a row while they work on the one before.

use super::register_rows::contiguous_rows;
use super::{SoftmaxProblem, naive};
use crate::launch::{Aligned, KernelLaunch, LaunchConfig};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, cost};
use crate::{Context, DType, Error, Problem};

/// A row of the kernel list.
struct Kernel {
    symbol: &'static str,
    pass: &'static str,
    dtype: DType,
    threads: u32,
    /// Of a thread.
    elems: u32,
    /// Of a multiprocessor.
    blocks: u32,
}

macro_rules! kernels {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $threads:literal, $elems:literal, $blocks:literal)),* $(,)?) => {
        &[$(Kernel {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            threads: $threads,
            elems: $elems,
            blocks: $blocks,
        }),*]
    };
}

/// In the order of the rows that they hold.
const KERNELS: &[Kernel] = kernel_abi::softmax_ahead_kernels!(kernels);

/// Bytes of an access.
const PIECE: i64 = 16;

/// One read of y and dy, one write of dx, backward alone.
///
/// A run with addresses that are no multiples of 16 takes the naive kernel.
pub(super) struct RowsAhead;

impl Algorithm<SoftmaxProblem> for RowsAhead {
    fn name(&self) -> &'static str {
        "rows_ahead"
    }

    fn configs(&self, problem: &SoftmaxProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let params = contiguous_rows(problem, context)?;
        let of_type = |kernel: &&Kernel| kernel.pass == problem.pass() && kernel.dtype == problem.input().dtype();
        let holds = |kernel: &Kernel| i64::from(kernel.threads * kernel.elems);
        let (least, most) = KERNELS
            .iter()
            .filter(of_type)
            .fold((i64::MAX, 0), |(least, most), kernel| (least.min(holds(kernel) / 2), most.max(holds(kernel))));
        let Some(kernel) = KERNELS.iter().filter(of_type).find(|kernel| holds(kernel) >= params.row_elems) else {
            let (pass, elems) = (problem.pass(), params.row_elems);
            return Err(Refusal::new(format!(
                "takes backward of rows of up to {most} elements, given {pass} of {elems}"
            )));
        };
        if params.row_elems < least {
            return Err(Refusal::new(format!("takes rows of at least {least} elements, given {}", params.row_elems)));
        }
        let run = PIECE / problem.input().dtype().size_bytes() as i64;
        let pitched = naive::pitched_params(&params)?;
        for length in [params.row_elems, pitched.in_pitch, pitched.dy_pitch, pitched.out_pitch] {
            if length % run != 0 {
                return Err(Refusal::new(format!(
                    "takes lengths and distances of rows of multiples of {run} elements, given {length}"
                )));
            }
        }
        Ok(vec![Config(kernel.symbol)])
    }

    fn workspace_bytes(&self, _: &SoftmaxProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> f64 {
        /// What steady loads save, where blocks have several rows; and what going on costs, where they have not.
        const STEADY: f64 = 0.98;
        const SINGLE: f64 = 1.05;
        let (kernel, n_rows) = (kernel(config), naive::params(problem).n_rows);
        let factor = if n_rows >= 2 * i64::from(resident(kernel, context)) { STEADY } else { SINGLE };
        // Threads without elements cost a little.
        let idle = f64::from(kernel.threads * kernel.elems) / problem.rows().row_elems as f64;
        cost::blocks_us(factor * problem.bytes() * (1.0 + 0.02 * idle), n_rows, context)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let refused = |Refusal(reason)| Error::bad(SoftmaxProblem::OP, "y", reason);
        let params = naive::pitched_params(&naive::params(problem)).map_err(refused)?;
        let kernel = kernel(config);
        let fast = KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig {
                grid: [params.n_rows.min(resident(kernel, context)), 1, 1],
                block: [kernel.threads, 1, 1],
                ..LaunchConfig::default()
            },
            params,
            bind: naive::bind_pitched,
        };
        Ok(Box::new(Aligned { fast, align: PIECE as u64, general: naive::launch(problem, context)? }))
    }
}

fn kernel(config: Config) -> &'static Kernel {
    KERNELS.iter().find(|kernel| kernel.symbol == config.0).unwrap_or(&KERNELS[0])
}

/// Blocks that work at a time.
fn resident(kernel: &Kernel, context: &Context) -> u32 {
    (kernel.blocks * context.info().n_units as u32).max(1)
}
