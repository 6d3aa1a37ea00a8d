//! A plain product by the best of the other algorithms, then one pass over it: the epilogue of whatever no kernel computes
//! as a whole.
//!
//! alpha and beta are the product's. It is rounded to y's type before the pass and once more behind it, and what
//! overflows that type, or underflows, does so before a residual could take it back.

use super::pass::{ChannelPass, ChannelPassLaunch};
use crate::operators::Operation;
use crate::plan::{Bound, Call, Launch};
use crate::select::{Algorithm, Config, Refusal};
use crate::tensor::{Region, RegionMut};
use crate::{Context, Error, Stream};

/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;

/// Two steps.
pub(crate) struct SeparateEpilogue;

impl SeparateEpilogue {
    fn pass<P: Operation>(problem: &P) -> Option<ChannelPass> {
        Some(ChannelPass::of(problem.epilogue()?, &problem.operands()[2].desc))
    }

    /// The product's algorithm, the one of the least estimate.
    fn product<P: Operation>(plain: &P, context: &Context) -> Option<(&'static dyn Algorithm<P>, Config, f64)> {
        let mut best: Option<(&'static dyn Algorithm<P>, Config, f64)> = None;
        for &algorithm in P::algorithms() {
            for config in algorithm.configs(plain, context).unwrap_or_default() {
                let us = algorithm.estimate_us(plain, config, context);
                if best.as_ref().is_none_or(|best| us < best.2) {
                    best = Some((algorithm, config, us));
                }
            }
        }
        best
    }
}

impl<P: Operation> Algorithm<P> for SeparateEpilogue {
    fn name(&self) -> &'static str {
        "separate_epilogue"
    }

    fn takes_epilogues(&self) -> bool {
        true
    }

    fn configs(&self, problem: &P, context: &Context) -> Result<Vec<Config>, Refusal> {
        if !context.is_gpu() {
            return Err(Refusal::new(format!("runs on a GPU, the device is {}", context.info().name)));
        }
        if problem.epilogue().is_none() {
            return Err(Refusal::new("computes an epilogue behind a product, the problem has none"));
        }
        if Self::product(&problem.plain(), context).is_none() {
            return Err(Refusal::new("needs an algorithm for the product, which every other refuses"));
        }
        Ok(vec![Config(ChannelPass::symbol(problem.operands()[2].desc.dtype()))])
    }

    /// Of the pass alone: the product's depends on the device.
    fn workspace_bytes(&self, problem: &P, _: Config) -> u64 {
        Self::pass(problem).map_or(0, |pass| pass.workspace_bytes())
    }

    fn workspace_bytes_on(&self, problem: &P, config: Config, context: &Context) -> u64 {
        let plain = problem.plain();
        let product = Self::product(&plain, context).map_or(0, |(algorithm, config, _)| {
            algorithm.workspace_bytes_on(&plain, config, context).next_multiple_of(ALIGN_BYTES)
        });
        product.saturating_add(self.workspace_bytes(problem, config))
    }

    fn estimate_us(&self, problem: &P, _: Config, context: &Context) -> f64 {
        let (Some(pass), Some((_, _, product_us))) = (Self::pass(problem), Self::product(&problem.plain(), context))
        else {
            return f64::INFINITY;
        };
        product_us + pass.estimate_us(context)
    }

    fn prepare(&self, problem: &P, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let plain = problem.plain();
        let (Some(pass), Some((algorithm, config, _))) = (Self::pass(problem), Self::product(&plain, context)) else {
            let name = Algorithm::<P>::name(self).to_owned();
            let reasons = vec![(name, "needs an epilogue and an algorithm for the product".to_owned())];
            return Err(Error::Unsupported { problem: problem.to_string(), reasons });
        };
        Ok(Box::new(SeparateLaunch {
            product: algorithm.prepare(&plain, config, context)?,
            product_bytes: algorithm.workspace_bytes_on(&plain, config, context).next_multiple_of(ALIGN_BYTES),
            pass: pass.prepare(context)?,
        }))
    }
}

/// Product and pass.
struct SeparateLaunch {
    product: Box<dyn Launch>,
    /// Workspace of the product; the pass's lies behind it.
    product_bytes: u64,
    pass: ChannelPassLaunch,
}

impl Launch for SeparateLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let RegionMut::Device(workspace) = &call.workspace else {
            return Err(Error::NoDevice { reason: "separate_epilogue needs a GPU's stream".to_owned() });
        };
        let workspace = *workspace;
        let operands = call.operands.iter().take(3).map(|operand| match operand {
            Bound::Read(region) => Bound::Read(*region),
            Bound::Write(RegionMut::Device(span)) => Bound::Write(RegionMut::Device(*span)),
            // On the host, where this does not run: nothing to write to.
            Bound::Write(RegionMut::Host(_)) => Bound::Read(Region::Host(&[])),
        });
        let mut product = Call {
            operands: operands.collect(),
            workspace: RegionMut::Device(workspace.part(0, self.product_bytes)),
            alpha: call.alpha,
            beta: call.beta,
        };
        self.product.launch(stream, &mut product)?;
        self.pass.launch(stream, call, workspace.address() + self.product_bytes)
    }
}
