//! Copies of operands into another layout, for algorithms that need one.

use super::tiled_transpose::Transposition;
use super::{TransformProblem, naive};
use crate::driver::GpuStream;
use crate::launch::{KernelLaunch, launch};
use crate::{Context, Error, TensorDesc};
use kernel_abi::ops::transform::TransformParams;

/// A launch that brings a tensor from one layout into another of the same type, complete but for addresses: by tiles
/// where it is a transposition that there is a kernel for, else an element a thread.
pub(in crate::ops) struct Copying(Way);

enum Way {
    Tiled(Box<Transposition>),
    Naive(Box<KernelLaunch<TransformParams>>),
}

impl Copying {
    /// The launch for two tensors of equal extents and type.
    pub(in crate::ops) fn new(from: &TensorDesc, to: &TensorDesc, context: &Context) -> Result<Self, Error> {
        if Transposition::check(from, to, context).is_ok() {
            return Ok(Copying(Way::Tiled(Box::new(Transposition::new(from, to, context)?))));
        }
        let problem = TransformProblem::new(from, to)?;
        let function = context.function(naive::symbol(&problem))?;
        Ok(Copying(Way::Naive(Box::new(naive::launch(&problem, function)))))
    }

    /// Time of a launch behind others.
    pub(in crate::ops) fn estimate_us(from: &TensorDesc, to: &TensorDesc, context: &Context) -> f64 {
        /// An element at a time, whose place is computed; small elements do not even use what an access brings.
        const ELEMENTS_PER_US: f64 = 150_000.0;
        const LAUNCH_US: f64 = 2.0;
        if Transposition::check(from, to, context).is_ok() {
            return Transposition::estimate_us(from, context);
        }
        let bytes_us = 2.0 * from.data_bytes() as f64 / (0.3 * context.info().bytes_per_us);
        LAUNCH_US + bytes_us.max(from.n_elems() as f64 / ELEMENTS_PER_US)
    }

    /// Queues it.
    pub(in crate::ops) fn launch(&self, stream: &GpuStream, from: u64, to: u64) -> Result<(), Error> {
        match &self.0 {
            Way::Tiled(transposition) => transposition.launch(stream, from, to, false),
            Way::Naive(kernel) => {
                let mut params = kernel.params;
                (params.x.address, params.y.address) = (from, to);
                launch(&kernel.function, &kernel.config, stream, &params)
            }
        }
    }
}
