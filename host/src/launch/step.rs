//! Kernels of optimizers: which there are, by the types of parameters and state.

use crate::select::{Config, Refusal};
use crate::{Context, DType};

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
    if !context.is_gpu() {
        return Err(Refusal::new(format!("runs on a GPU, the device is {}", context.info().name)));
    }
    let [dtype, state] = dtypes;
    rows.iter()
        .find(|row| row.dtypes == dtypes)
        .map(|row| vec![Config(row.symbol)])
        .ok_or_else(|| Refusal::new(format!("has no kernel for parameters of {dtype} with state of {state}")))
}
