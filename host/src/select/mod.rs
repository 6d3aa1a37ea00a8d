//! Choosing an algorithm: the same for every operator.

pub(crate) mod calibration;
mod candidate;
mod cheapest;
pub(crate) mod cost;
mod find;
mod operands;
mod refusal;
mod request;
mod spread;
mod store;
mod trial;

use calibration::Correction;
pub use candidate::{Candidate, Measured, Origin, Verdict};
pub(crate) use cheapest::Cheapest;
pub(crate) use find::NOISE;
pub(crate) use refusal::{Refusal, check_gpu, check_hopper};
pub(crate) use request::Position;
pub use request::{FindOptions, FindProgress, FindStage, PlanRequest, Policy};
pub use spread::{NonFinite, Spread};
pub(crate) use store::{Store, scope};
pub use store::{StoreLocation, StoreStatus};

use crate::operators::Operation;
use crate::plan::Launch;
use crate::{BatchSizes, Context, Error, Plan, microbatch};

/// The times that estimates for GPUs of compute capability 9.0 are corrected by, as text: a problem's line, then one for
/// each candidate, with the model's estimate and the time in us, the algorithm and the config, each behind a tab. Those
/// of an H100 for a GPU of that name, else of an H200.
pub fn measured_times(gpu: &str) -> String {
    calibration::text(gpu)
}

/// A variant of an algorithm: the symbol of its kernel on a GPU, a word on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config(pub(crate) &'static str);

/// One method of computing `P`. Candidates are (algorithm, config) pairs.
pub(crate) trait Algorithm<P>: Sync {
    /// The method's name, the same stem as its files.
    fn name(&self) -> &'static str;
    /// Variants able to compute `problem`, best first, or why there is none.
    fn configs(&self, problem: &P, context: &Context) -> Result<Vec<Config>, Refusal>;
    /// Whether it computes problems that have an epilogue; `configs` is not asked about them otherwise.
    fn takes_epilogues(&self) -> bool {
        false
    }
    /// What an infinity or NaN of an operand reaches beyond the formula.
    fn spread(&self, _: &P, _: Config) -> Spread {
        Spread::None
    }
    /// The same for algorithms that use others, and so depend on the device.
    fn spread_on(&self, problem: &P, config: Config, _: &Context) -> Spread {
        self.spread(problem, config)
    }
    /// Whether the problem permits this algorithm in words, whatever its spread.
    fn is_asked_for(&self, _: &P, _: Config) -> bool {
        false
    }
    /// Scratch memory of one run.
    fn workspace_bytes(&self, problem: &P, config: Config) -> u64;
    /// The same for algorithms that use others, and so depend on the device.
    fn workspace_bytes_on(&self, problem: &P, config: Config, _: &Context) -> u64 {
        self.workspace_bytes(problem, config)
    }
    /// Time of one run, for sorting.
    fn estimate_us(&self, problem: &P, config: Config, context: &Context) -> f64;
    /// Does everything that does not depend on pointers: loads the kernel, fills in its parameters.
    fn prepare(&self, problem: &P, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error>;
}

/// Judges every algorithm of the operator.
pub(crate) fn candidates<P: Operation>(context: &Context, problem: &P, limit: Option<u64>) -> Vec<Candidate> {
    let correction = context.info().calibrated.then(|| Correction::of(&context.info().name, &problem.to_string()));
    let factor = |algorithm: &str, config: Config| {
        correction.as_ref().map_or(1.0, |correction| correction.factor(algorithm, config.0))
    };
    judged_by(context, problem, limit, |algorithm, config| {
        algorithm.estimate_us(problem, config, context) * factor(algorithm.name(), config)
    })
}

/// Judges every algorithm of the operator, with estimates made so.
fn judged_by<P: Operation>(
    context: &Context,
    problem: &P,
    limit: Option<u64>,
    estimate_us: impl Fn(&dyn Algorithm<P>, Config) -> f64,
) -> Vec<Candidate> {
    let mut list = Vec::new();
    for &algorithm in P::algorithms() {
        let plain_only = problem.epilogue().is_some() && !algorithm.takes_epilogues();
        let configs = if plain_only {
            Err(Refusal::new(format!(
                "stores products as they are, the problem has an epilogue ({} operands)",
                problem.operands().len()
            )))
        } else {
            algorithm.configs(problem, context)
        };
        match configs {
            Err(Refusal(reason)) => {
                list.push(Candidate::refused(algorithm.name(), reason));
            }
            Ok(configs) if configs.is_empty() => {
                list.push(Candidate::refused(algorithm.name(), "has no kernel for this problem".to_owned()));
            }
            Ok(configs) => list.extend(configs.into_iter().map(|config| {
                let workspace_bytes = algorithm.workspace_bytes_on(problem, config, context);
                let verdict = match limit {
                    Some(limit) if workspace_bytes > limit => Verdict::Refused(over_limit(workspace_bytes, limit)),
                    _ => Verdict::Able { workspace_bytes, estimate_us: estimate_us(algorithm, config), measured: None },
                };
                let spread = algorithm.spread_on(problem, config, context);
                Candidate { algorithm: algorithm.name(), config: config.0, spread, verdict }
            })),
        }
    }
    list
}

/// Why a candidate that needs so much is not allowed.
pub(crate) fn over_limit(workspace_bytes: u64, limit: u64) -> String {
    format!("needs {workspace_bytes} bytes of workspace, the limit is {limit}")
}

/// A measurement as the store has it, for tests.
#[cfg(test)]
pub(crate) fn stored(candidate: &Candidate, us: f64, workspace_bytes: u64) -> store::Entry {
    let timing = store::Timing { us, workspace_bytes, cut_short: false };
    store::Entry { algorithm: candidate.algorithm.to_owned(), config: candidate.config.to_owned(), timing }
}

/// Every verdict on a problem, and the times that a choice goes by.
pub(crate) struct Judged {
    pub(crate) candidates: Vec<Candidate>,
    /// Places of the able candidates, with their times: measured with [`Policy::Find`], else estimated.
    pub(crate) order: Vec<(usize, f64)>,
}

impl Judged {
    /// No algorithm was asked.
    pub(crate) fn refused(reason: String) -> Self {
        Judged { candidates: vec![Candidate::refused("", reason)], order: Vec::new() }
    }
}

/// Judges every algorithm, and measures them where the policy says so; where only one is able, its time is not asked for.
pub(crate) fn judge<P: Operation>(context: &Context, problem: &P, request: &PlanRequest) -> Result<Judged, Error> {
    let mut judged = estimated(context, problem, request);
    if request.policy == Policy::Find && judged.order.len() > 1 {
        measure(context, problem, request, &mut judged)?;
    }
    Ok(judged)
}

/// Judges every algorithm by its estimate.
pub(crate) fn estimated<P: Operation>(context: &Context, problem: &P, request: &PlanRequest) -> Judged {
    asked_for(problem, candidates(context, problem, request.workspace_limit_bytes), request)
}

/// Judges every algorithm, without estimates.
pub(crate) fn able<P: Operation>(context: &Context, problem: &P, request: &PlanRequest) -> Judged {
    let candidates = judged_by(context, problem, request.workspace_limit_bytes, |_, _| f64::INFINITY);
    asked_for(problem, candidates, request)
}

/// What of the candidates the request allows.
fn asked_for<P: Operation>(problem: &P, mut candidates: Vec<Candidate>, request: &PlanRequest) -> Judged {
    // An algorithm's own reason says more.
    for candidate in candidates.iter_mut().filter(|candidate| matches!(candidate.verdict, Verdict::Able { .. })) {
        if let Some(asked) = asked_for_others(candidate, request).or_else(|| not_admitted(problem, candidate, request))
        {
            candidate.verdict = Verdict::Refused(asked);
        }
    }
    let order = candidates
        .iter()
        .enumerate()
        .filter_map(|(i, candidate)| match candidate.verdict {
            Verdict::Able { estimate_us, .. } => Some((i, estimate_us)),
            Verdict::Refused(_) => None,
        })
        .collect();
    Judged { candidates, order }
}

/// Measures the candidates in the order that have no time yet.
pub(crate) fn measure<P: Operation>(
    context: &Context,
    problem: &P,
    request: &PlanRequest,
    judged: &mut Judged,
) -> Result<(), Error> {
    let subject = find::Subject {
        context,
        problem: &problem.to_string(),
        operands: &problem.operands(),
        plan: &|algorithm, config| assemble(context, problem, algorithm, config),
    };
    find::measure(&subject, &mut judged.candidates, &mut judged.order, &request.find)
}

/// The times that are known instead of estimates; the order keeps the candidates that have one. Gives the places of those
/// that are still to be measured.
pub(crate) fn recall<P: Operation>(
    context: &Context,
    problem: &P,
    request: &PlanRequest,
    judged: &mut Judged,
) -> Vec<usize> {
    find::recall(context, &problem.to_string(), &mut judged.candidates, &mut judged.order, &request.find)
}

/// Why the request does not want a candidate.
fn asked_for_others(candidate: &Candidate, request: &PlanRequest) -> Option<String> {
    let names = |name: &String| candidate.algorithm == name || candidate.config == name;
    match &request.policy {
        Policy::Fixed(name) if !names(name) => Some(format!("the policy asks for {name}")),
        _ if request.algorithms.is_empty() || request.algorithms.iter().any(names) => None,
        _ => Some(format!("the request asks for {}", request.algorithms.join(", "))),
    }
}

/// Why a candidate spreads numbers that are not finite further than the request permits.
fn not_admitted<P: Operation>(problem: &P, candidate: &Candidate, request: &PlanRequest) -> Option<String> {
    let &Candidate { algorithm, config, spread, .. } = candidate;
    let names = |name: &String| algorithm == name || config == name;
    let is_named =
        matches!(&request.policy, Policy::Fixed(name) if names(name)) || request.algorithms.iter().any(names);
    match request.nonfinite {
        NonFinite::Strict if spread > Spread::None => Some(format!(
            "an infinity or NaN spreads further than the formula says (spread: {spread}), the request is strict (spread: none)"
        )),
        NonFinite::Default if spread > Spread::UNASKED && !is_named => {
            let method = P::algorithms().iter().find(|method| method.name() == algorithm)?;
            let is_asked_for = method.is_asked_for(problem, Config(config));
            (!is_asked_for).then(|| {
                format!(
                    "an infinity or NaN spreads further than the formula says (spread: {spread}), by itself a policy takes up \
                     to {}: permit any, or name the algorithm",
                    Spread::UNASKED
                )
            })
        }
        NonFinite::Default | NonFinite::Strict | NonFinite::Permit => None,
    }
}

/// Chooses and prepares.
pub(crate) fn plan<P: Operation>(context: &Context, problem: &P, request: &PlanRequest) -> Result<Plan, Error> {
    if request.batch_sizes != BatchSizes::Undivided {
        return microbatch::plan(context, problem, request);
    }
    // One candidate is chosen whatever its time.
    let Judged { candidates, mut order } = judge(context, problem, request)?;
    // Equal times keep the order of the operator's list, best first.
    order.sort_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0)));
    let Some(&(best, _)) = order.first() else {
        return Err(Error::Unsupported { problem: problem.to_string(), reasons: reasons(&candidates) });
    };
    let Candidate { algorithm, config, .. } = candidates[best];
    let plan = assemble(context, problem, algorithm, config)?;
    Ok(Plan { candidates, chosen_by: chosen_by(context, request), ..plan })
}

/// How the choice was made, for people.
pub(crate) fn chosen_by(context: &Context, request: &PlanRequest) -> String {
    let mut text = match &request.policy {
        Policy::Heuristic => "estimate".to_owned(),
        Policy::Find => format!("time (kept {})", context.store_status()),
        Policy::Fixed(_) => "name".to_owned(),
    };
    if let Some(limit) = request.workspace_limit_bytes {
        text.push_str(&format!(", workspace at most {limit} bytes"));
    }
    if request.nonfinite != NonFinite::Default {
        text.push_str(&format!(", nonfinite {}", request.nonfinite));
    }
    text
}

fn reasons(candidates: &[Candidate]) -> Vec<(String, String)> {
    let reason = |candidate: &Candidate| match &candidate.verdict {
        Verdict::Refused(reason) => reason.clone(),
        Verdict::Able { .. } => String::new(),
    };
    candidates.iter().map(|candidate| (candidate.algorithm.to_owned(), reason(candidate))).collect()
}

/// The plan of one algorithm and config.
pub(crate) fn assemble<P: Operation>(
    context: &Context,
    problem: &P,
    algorithm: &'static str,
    config: &'static str,
) -> Result<Plan, Error> {
    let method = P::algorithms().iter().find(|method| method.name() == algorithm).expect("candidates name the list");
    Ok(Plan {
        context: context.clone(),
        op: P::OP,
        problem: problem.to_string(),
        in_place: problem.works_in_place(),
        algorithm,
        config,
        workspace_bytes: method.workspace_bytes_on(problem, Config(config), context),
        launch: method.prepare(problem, Config(config), context)?,
        operands: problem.operands(),
        candidates: Vec::new(),
        chosen_by: String::new(),
        micro_batches: Vec::new(),
    })
}
