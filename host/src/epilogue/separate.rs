//! A product by the best of the other algorithms, then one pass over it: whatever of an epilogue no kernel of a product
//! computes.
//!
//! The product is a plain one, and the pass does all the rest; or, where channel sums are wanted, it is one with bias,
//! residual and activation by an algorithm that has them in its kernel, and the pass only reads y. alpha and beta are the
//! product's. A plain product is rounded to y's type before the pass and once more behind it, and what overflows that
//! type, or underflows, does so before a residual could take it back.

use super::Epilogue;
use super::pass::{ChannelPass, ChannelPassLaunch};
use crate::operators::Operation;
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Cheapest, Config, Refusal, Spread, check_gpu};
use crate::{Context, Error, Stream};

/// What parts of the workspace are aligned to.
const ALIGN_BYTES: u64 = 256;

const NAME: &str = "separate_epilogue";

/// Two steps.
pub(crate) struct SeparateEpilogue;

/// The steps of a problem.
struct Steps<P: 'static> {
    problem: P,
    product: Cheapest<P>,
    pass: ChannelPass,
    estimate_us: f64,
}

impl<P: Operation> Steps<P> {
    /// Those of the least estimate.
    fn of(problem: &P, context: &Context) -> Option<Self> {
        let epilogue = problem.epilogue()?;
        let y = problem.operands()[2].desc;
        let plain = (problem.plain(), ChannelPass::of(epilogue, &y));
        // Another choice only where y is changed and its sums are wanted.
        let sums = ChannelPass::sums_of(Some(epilogue), &y).filter(|_| epilogue.changes_y());
        let choices = [plain].into_iter().chain(sums.map(|sums| (problem.without_sums(), sums)));
        let steps = choices.filter_map(|(problem, pass)| {
            let fused = problem.epilogue().is_some();
            let product = Cheapest::of(&problem, context, |one| !fused || one.takes_epilogues() && one.name() != NAME)?;
            let estimate_us = product.estimate_us + pass.estimate_us(context);
            Some(Steps { problem, product, pass, estimate_us })
        });
        steps.min_by(|a, b| a.estimate_us.total_cmp(&b.estimate_us))
    }

    /// Workspace of the product; that of the pass lies behind it.
    fn product_bytes(&self, context: &Context) -> u64 {
        let Cheapest { algorithm, config, .. } = self.product;
        algorithm.workspace_bytes_on(&self.problem, config, context).next_multiple_of(ALIGN_BYTES)
    }
}

impl<P: Operation> Algorithm<P> for SeparateEpilogue {
    fn name(&self) -> &'static str {
        NAME
    }

    fn takes_epilogues(&self) -> bool {
        true
    }

    fn configs(&self, problem: &P, context: &Context) -> Result<Vec<Config>, Refusal> {
        check_gpu(context)?;
        if problem.epilogue().is_none() {
            return Err(Refusal::new("computes an epilogue behind a product, the problem has none"));
        }
        if Steps::of(problem, context).is_none() {
            return Err(Refusal::new("needs an algorithm for the product, which every other refuses"));
        }
        let sums = problem.epilogue().and_then(Epilogue::sums_dtype);
        Ok(vec![Config(ChannelPass::symbol(problem.operands()[2].desc.dtype(), sums))])
    }

    fn spread_on(&self, problem: &P, _: Config, context: &Context) -> Spread {
        let of = |steps: Steps<P>| {
            let Cheapest { algorithm, config, .. } = steps.product;
            algorithm.spread_on(&steps.problem, config, context)
        };
        Steps::of(problem, context).map_or(Spread::None, of)
    }

    /// A product of a larger spread is only taken where the problem asks for it.
    fn is_asked_for(&self, _: &P, _: Config) -> bool {
        true
    }

    /// Of the pass alone: the product's depends on the device.
    fn workspace_bytes(&self, problem: &P, _: Config) -> u64 {
        let y = problem.operands()[2].desc;
        ChannelPass::sums_of(problem.epilogue(), &y).map_or(0, |pass| pass.workspace_bytes())
    }

    fn workspace_bytes_on(&self, problem: &P, _: Config, context: &Context) -> u64 {
        Steps::of(problem, context)
            .map_or(0, |steps| steps.product_bytes(context).saturating_add(steps.pass.workspace_bytes()))
    }

    fn estimate_us(&self, problem: &P, _: Config, context: &Context) -> f64 {
        Steps::of(problem, context).map_or(f64::INFINITY, |steps| steps.estimate_us)
    }

    fn prepare(&self, problem: &P, _: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let Some(steps) = Steps::of(problem, context) else {
            let reasons = vec![(NAME.to_owned(), "needs an epilogue and an algorithm for the product".to_owned())];
            return Err(Error::Unsupported { problem: problem.to_string(), reasons });
        };
        Ok(Box::new(SeparateLaunch {
            n_operands: steps.problem.operands().len(),
            product: steps.product.algorithm.prepare(&steps.problem, steps.product.config, context)?,
            product_bytes: steps.product_bytes(context),
            pass: steps.pass.prepare(context)?,
        }))
    }
}

/// Product and pass.
struct SeparateLaunch {
    product: Box<dyn Launch>,
    /// Operands of the product, the first of all.
    n_operands: usize,
    /// Workspace of the product.
    product_bytes: u64,
    pass: ChannelPassLaunch,
}

impl Launch for SeparateLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let workspace = call.gpu_workspace(NAME)?;
        let mut product = call.inner(|_| None, workspace.part(0, self.product_bytes));
        product.operands.truncate(self.n_operands);
        self.product.launch(stream, &mut product)?;
        drop(product);
        self.pass.launch(stream, call, workspace.address() + self.product_bytes)
    }
}
