//! Algorithms from outside the crate, such as another library's.
//!
//! [`Context::provide_convolutions`] puts a provider's algorithms beside the crate's own: plans choose among all of them,
//! divide batches over them and keep their measured times. They are chosen by measurement or by name, never by estimate.

use super::ConvProblem;
use crate::driver::GpuStream;
use crate::plan::{Call, Launch};
use crate::select::{Algorithm, Config, Refusal, Spread};
use crate::{Context, Error, Stream};
use std::fmt;

/// Who computes convolutions on a GPU by algorithms of its own.
pub trait ConvProvider: Send + Sync + fmt::Debug {
    /// The algorithms for a problem, each with its workspace, or why there is none. Names tell provider, version and
    /// algorithm: measured times are kept by them.
    ///
    /// # Errors
    /// The reason, for [`Plan::explain`](crate::Plan::explain).
    fn offers(&self, problem: &ConvProblem) -> Result<Vec<ConvOffer>, String>;

    /// Does everything that does not depend on pointers.
    ///
    /// # Errors
    /// What went wrong.
    fn prepare(&self, problem: &ConvProblem, algorithm: &'static str) -> Result<Box<dyn ProvidedConv>, String>;
}

/// An algorithm of a provider for one problem.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConvOffer {
    /// Its name.
    pub algorithm: &'static str,
    /// Scratch memory of one run.
    pub workspace_bytes: u64,
}

/// A convolution that a provider has prepared.
pub trait ProvidedConv: Send + Sync {
    /// Queues the computation and returns.
    ///
    /// `operands` are the addresses in the order of [`Problem::operands`](crate::Problem::operands), all good for their
    /// tensors until the stream has done the work, as the workspace is for the bytes that were offered.
    ///
    /// # Errors
    /// What went wrong.
    fn queue(&self, stream: &GpuStream, operands: &[u64], workspace: u64, alpha: f64, beta: f64) -> Result<(), String>;
}

/// The algorithms of the context's provider.
pub(super) struct Provided;

/// Of the most operands: x, w, bias, z and an output with two sums.
const MOST_OPERANDS: usize = 8;

impl Algorithm<ConvProblem> for Provided {
    fn name(&self) -> &'static str {
        "provided"
    }

    fn configs(&self, problem: &ConvProblem, context: &Context) -> Result<Vec<Config>, Refusal> {
        let provider = context.conv_provider().ok_or_else(|| Refusal::new("the context has no provider"))?;
        let offers = provider.offers(problem).map_err(Refusal)?;
        Ok(offers.iter().map(|offer| Config(offer.algorithm)).collect())
    }

    fn spread(&self, _: &ConvProblem, _: Config) -> Spread {
        // Nothing is known of it. Who offers it has asked for it.
        Spread::Channel
    }

    fn is_asked_for(&self, _: &ConvProblem, _: Config) -> bool {
        true
    }

    fn workspace_bytes(&self, _: &ConvProblem, _: Config) -> u64 {
        0
    }

    fn workspace_bytes_on(&self, problem: &ConvProblem, config: Config, context: &Context) -> u64 {
        let offers = context.conv_provider().and_then(|provider| provider.offers(problem).ok()).unwrap_or_default();
        offers.iter().find(|offer| offer.algorithm == config.0).map_or(0, |offer| offer.workspace_bytes)
    }

    /// Nothing is known of it: behind all others.
    fn estimate_us(&self, _: &ConvProblem, _: Config, _: &Context) -> f64 {
        f64::MAX
    }

    fn prepare(&self, problem: &ConvProblem, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error> {
        let failed = |reason: String| Error::Provider { algorithm: config.0, reason };
        let provider = context.conv_provider().ok_or_else(|| failed("the context has no provider".to_owned()))?;
        let prepared = provider.prepare(problem, config.0).map_err(failed)?;
        Ok(Box::new(ProvidedLaunch { prepared, algorithm: config.0 }))
    }
}

struct ProvidedLaunch {
    prepared: Box<dyn ProvidedConv>,
    algorithm: &'static str,
}

impl Launch for ProvidedLaunch {
    fn launch(&self, stream: &Stream, call: &mut Call<'_>) -> Result<(), Error> {
        let failed = |reason: String| Error::Provider { algorithm: self.algorithm, reason };
        let gpu = stream.gpu_stream().ok_or_else(|| failed("runs on a GPU's stream".to_owned()))?;
        let mut addresses = [0; MOST_OPERANDS];
        let n = call.operands.len();
        let Some(operands) = addresses.get_mut(..n) else {
            return Err(failed(format!("takes up to {MOST_OPERANDS} operands, given {n}")));
        };
        operands.iter_mut().enumerate().for_each(|(i, address)| *address = call.address(i));
        self.prepared.queue(gpu, operands, call.workspace_address(), call.alpha, call.beta).map_err(failed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operators::AnyProblem;
    use crate::{DeviceInfo, Policy, Verdict};
    use std::sync::Arc;

    /// Computes convolutions of f32, in a byte of workspace for each image.
    #[derive(Debug)]
    struct Library;

    impl ConvProvider for Library {
        fn offers(&self, problem: &ConvProblem) -> Result<Vec<ConvOffer>, String> {
            match problem.x().dtype() {
                crate::DType::F32 => {
                    Ok(vec![ConvOffer { algorithm: "library:sums", workspace_bytes: problem.x().dims()[0] as u64 }])
                }
                other => Err(format!("takes f32, given {other}")),
            }
        }

        fn prepare(&self, _: &ConvProblem, _: &'static str) -> Result<Box<dyn ProvidedConv>, String> {
            Err("is not there".to_owned())
        }
    }

    #[test]
    fn a_providers_algorithms_stand_among_the_others() {
        let problem: ConvProblem = "conv:fprop x=5x8x9x9:f32 w=4x8x3x3:f32".parse().unwrap();
        let context = Context::described(DeviceInfo::h200());
        let verdict = |context: &Context, problem: &ConvProblem| {
            let found = crate::select::candidates(context, problem, None);
            found.into_iter().find(|candidate| candidate.algorithm == "provided").unwrap()
        };
        let none = verdict(&context, &problem);
        assert_eq!(none.verdict, Verdict::Refused("the context has no provider".to_owned()));
        context.provide_convolutions(Arc::new(Library)).unwrap();
        let there = verdict(&context, &problem);
        assert_eq!(there.config, "library:sums");
        assert!(matches!(there.verdict, Verdict::Able { workspace_bytes: 5, .. }), "{there}");
        let other: ConvProblem = "conv:fprop x=5x8x9x9:f64 w=4x8x3x3:f64".parse().unwrap();
        assert_eq!(verdict(&context, &other).verdict, Verdict::Refused("takes f32, given f64".to_owned()));
        let second = context.provide_convolutions(Arc::new(Library)).unwrap_err().to_string();
        assert!(second.contains("expected one provider"), "{second}");
        // It is never the estimate's choice, and asked for by name it says what is wrong.
        let request = Policy::Heuristic.micro_batches(crate::BatchSizes::PowerOfTwo);
        let asked = problem.divisions(&context, &request.clone().only(["provided"])).unwrap();
        assert!(asked.front.iter().all(|division| division.parts.iter().all(|part| part.algorithm == "provided")));
        let limited = problem.divisions(&context, &request.only(["provided"]).workspace_limit(3)).unwrap();
        assert_eq!(limited.front.last().unwrap().parts.iter().map(|part| part.batch).max(), Some(2));
        let failed = context.plan(&problem, Policy::fixed("library:sums")).unwrap_err().to_string();
        assert!(failed.contains("library:sums: is not there"), "{failed}");
    }
}
