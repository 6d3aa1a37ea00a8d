//! Kernels of optimizers: which there are, by the types of parameters and state.

use super::LaunchConfig;
use crate::select::{Config, Refusal, check_gpu};
use crate::{Context, DType, TensorDesc};

/// A row of an optimizer's kernel list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StepKernel {
    pub(crate) symbol: &'static str,
    /// Types of the parameters, and of what is kept from step to step.
    pub(crate) dtypes: [DType; 2],
}

/// The callback for a kernel list with the columns symbol, type of parameters, type of state.
macro_rules! step_kernels {
    ($(($symbol:ident, $dtype:ident, $state:ident)),* $(,)?) => {
        &[$($crate::launch::StepKernel {
            symbol: stringify!($symbol),
            dtypes: [kernel_abi::dtype_of!($dtype), kernel_abi::dtype_of!($state)],
        }),*]
    };
}
pub(crate) use step_kernels;

/// The config of the kernel for these types, on a GPU.
pub(crate) fn step_kernel(rows: &[StepKernel], dtypes: [DType; 2], context: &Context) -> Result<Vec<Config>, Refusal> {
    check_gpu(context)?;
    let [dtype, state] = dtypes;
    rows.iter()
        .find(|row| row.dtypes == dtypes)
        .map(|row| vec![Config(row.symbol)])
        .ok_or_else(|| Refusal::new(format!("has no kernel for parameters of {dtype} with state of {state}")))
}

/// Refuses a tensor whose operands do not lie alike, element by element and without gaps.
pub(crate) fn lies_alike<'a>(w: &TensorDesc, others: impl Iterator<Item = &'a TensorDesc>) -> Result<(), Refusal> {
    for other in others {
        let same = (0..w.rank()).all(|i| w.dims()[i] == 1 || w.strides()[i] == other.strides()[i]);
        if !same {
            return Err(Refusal::new(format!("takes operands that lie alike, given {w} and {other}")));
        }
    }
    if !w.is_dense() {
        return Err(Refusal::new(format!("takes tensors without gaps, given {w}")));
    }
    Ok(())
}

/// The grid of a launch for a list of tensors.
pub(crate) fn list_config(blocks: u32) -> LaunchConfig {
    const THREADS: u32 = 256;
    LaunchConfig { grid: [blocks, 1, 1], block: [THREADS, 1, 1], evenly: true, ..LaunchConfig::default() }
}
