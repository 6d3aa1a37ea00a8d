//! Rows of contiguous elements in registers: read once, written once.

use super::{SoftmaxProblem, naive};
use crate::launch::{KernelLaunch, LaunchConfig, div_ceil};
use crate::plan::Launch;
use crate::select::{Algorithm, Config, Refusal, check_gpu, cost};
use crate::{Context, DType, Error, Problem};
use kernel_abi::ops::softmax::SoftmaxParams;

/// A row of the kernel list.
struct Kernel {
    symbol: &'static str,
    pass: &'static str,
    dtype: DType,
    /// Of a row.
    threads: u32,
    /// Of a thread.
    elems: u32,
    block: u32,
}

macro_rules! kernels {
    ($(($symbol:ident, $pass:ident, $dtype:ident, $threads:literal, $elems:literal, $block:literal, $blocks:literal)),*
        $(,)?) => {
        &[$(Kernel {
            symbol: stringify!($symbol),
            pass: stringify!($pass),
            dtype: kernel_abi::dtype_of!($dtype),
            threads: $threads,
            elems: $elems,
            block: $block,
        }),*]
    };
}

/// In the order of the rows that they hold.
const KERNELS: &[Kernel] = kernel_abi::softmax_register_kernels!(kernels);

/// 4 to 1024 threads a row, each with the elements of a few accesses of 16 bytes.
pub(super) struct RegisterRows;

impl Algorithm<SoftmaxProblem> for RegisterRows {
    fn name(&self) -> &'static str {
        "register_rows"
    }

    fn configs(&self, problem: &SoftmaxProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let params = contiguous_rows(problem, context)?;
        let of_type = |kernel: &&Kernel| kernel.pass == problem.pass() && kernel.dtype == problem.input().dtype();
        let holds = |kernel: &Kernel| i64::from(kernel.threads * kernel.elems);
        // The least that holds the row, and the next, which has more threads for it.
        let configs: Vec<Config> = KERNELS
            .iter()
            .filter(of_type)
            .filter(|kernel| holds(kernel) >= params.row_elems)
            .filter(|kernel| blocks(kernel, &params) <= i64::from(i32::MAX))
            .map(|kernel| Config(kernel.symbol))
            .take(2)
            .collect();
        if configs.is_empty() {
            let most = KERNELS.iter().filter(of_type).map(holds).max().unwrap_or(0);
            return Err(Refusal::new(format!("holds rows of up to {most} elements, given {}", params.row_elems)));
        }
        Ok(configs)
    }

    fn workspace_bytes(&self, _: &SoftmaxProblem, _: Config) -> u64 {
        0
    }

    fn estimate_us(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> f64 {
        /// Elements that a multiprocessor takes in a microsecond, forward and backward, where a row is a warp's at the
        /// most, and where its threads wait for others.
        const ELEMENTS_PER_US: [[f64; 2]; 2] = [[6200.0, 5100.0], [4900.0, 4600.0]];
        let (kernel, params) = (kernel(config), naive::params(problem));
        let blocks = blocks(kernel, &params);
        let [of_warp, of_warps] = ELEMENTS_PER_US[usize::from(problem.dy().is_some())];
        let rate = if kernel.threads > 32 { of_warps } else { of_warp };
        // Threads do as much for elements that a row lacks as for others.
        let held = params.n_rows as f64 * f64::from(kernel.threads * kernel.elems);
        let computed_us = held / (rate * (blocks.min(context.info().n_units as i64)) as f64);
        cost::blocks_us(problem.bytes(), blocks, context).max(cost::LAUNCH_US + computed_us)
    }

    fn prepare(&self, problem: &SoftmaxProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let kernel = kernel(config);
        let params = naive::params(problem);
        let blocks = blocks(kernel, &params);
        Ok(Box::new(KernelLaunch {
            function: context.function(config.0)?,
            config: LaunchConfig {
                grid: [blocks as u32, 1, 1],
                block: [kernel.block, 1, 1],
                ..LaunchConfig::default()
            },
            params,
            bind: naive::bind,
        }))
    }
}

fn kernel(config: Config) -> &'static Kernel {
    KERNELS.iter().find(|kernel| kernel.symbol == config.0).unwrap_or(&KERNELS[0])
}

fn blocks(kernel: &Kernel, params: &SoftmaxParams) -> i64 {
    div_ceil(params.n_rows, i64::from(kernel.block / kernel.threads))
}

/// The parameters of a problem whose rows are contiguous in all tensors, or why they are not, or not for these kernels.
pub(super) fn contiguous_rows(problem: &SoftmaxProblem, context: &Context) -> Result<SoftmaxParams, Refusal> {
    /// Elements are counted in 32 bits, with some to spare behind the last.
    const MAX_ELEMS: i64 = 1 << 30;
    for_gpu(problem, context)?;
    let params = naive::params(problem);
    let rows = [&params.out_row, &params.in_row, &params.dy_row];
    if params.row_elems > 1 && rows.iter().any(|row| row.dims[..7] != [1; 7] || row.strides[7] != 1) {
        return Err(Refusal::new(format!(
            "takes rows of contiguous elements, given {} and {}",
            problem.input(),
            problem.out()
        )));
    }
    if params.row_elems > MAX_ELEMS {
        return Err(Refusal::new(format!("takes rows of up to {MAX_ELEMS} elements, given {}", params.row_elems)));
    }
    Ok(params)
}

/// Refuses what no tuned kernel takes.
pub(super) fn for_gpu(problem: &SoftmaxProblem, context: &Context) -> Result<(), Refusal> {
    check_gpu(context)?;
    if problem.input().dtype() == DType::F64 {
        return Err(Refusal::new("takes f32, f16 and bf16, given f64"));
    }
    Ok(())
}
