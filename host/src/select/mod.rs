//! Choosing an algorithm: the same for every operator.

pub(crate) mod cost;
mod find;

pub(crate) use find::FindCache;

use crate::operators::Operation;
use crate::plan::Launch;
use crate::{Context, Error, Plan};
use std::fmt;

/// How a plan chooses among the algorithms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// By estimate, without any work on the device.
    Heuristic,
    /// By timing every candidate once on the device; the result is kept by problem for the life of the context.
    Find,
    /// The named algorithm, or the named kernel: for tests, benchmarks and bug reports.
    Fixed(String),
}

impl Policy {
    /// The named algorithm or kernel.
    pub fn fixed(name: impl Into<String>) -> Self {
        Policy::Fixed(name.into())
    }

    /// The same policy among candidates that need at most `bytes` of workspace.
    pub fn workspace_limit(self, bytes: u64) -> PlanRequest {
        PlanRequest { policy: self, workspace_limit_bytes: Some(bytes) }
    }
}

/// A policy with its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    /// How to choose.
    pub policy: Policy,
    /// The most workspace a candidate may need; None for any amount.
    pub workspace_limit_bytes: Option<u64>,
}

impl From<Policy> for PlanRequest {
    fn from(policy: Policy) -> Self {
        PlanRequest { policy, workspace_limit_bytes: None }
    }
}

/// A variant of an algorithm: the symbol of its kernel on a GPU, a word on the CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config(pub(crate) &'static str);

/// Why an algorithm does not compute a problem: which check failed, with both numbers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal(pub(crate) String);

impl Refusal {
    pub(crate) fn new(reason: impl Into<String>) -> Self {
        Refusal(reason.into())
    }
}

/// One method of computing `P`. Candidates are (algorithm, config) pairs.
pub(crate) trait Algorithm<P>: Sync {
    /// The method's name, the same stem as its files.
    fn name(&self) -> &'static str;
    /// Variants able to compute `problem`, best first, or why there is none.
    fn configs(&self, problem: &P, context: &Context) -> Result<Vec<Config>, Refusal>;
    /// Scratch memory of one run.
    fn workspace_bytes(&self, problem: &P, config: Config) -> u64;
    /// Time of one run, for sorting.
    fn estimate_us(&self, problem: &P, config: Config, context: &Context) -> f64;
    /// Does everything that does not depend on pointers: loads the kernel, fills in its parameters.
    fn prepare(&self, problem: &P, config: Config, context: &Context) -> Result<Box<dyn Launch>, Error>;
}

/// What was found out about a candidate.
#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// It computes the problem.
    Able {
        /// Scratch memory of one run.
        workspace_bytes: u64,
        /// Estimated time.
        estimate_us: f64,
        /// Measured time, under [`Policy::Find`].
        measured_us: Option<f64>,
    },
    /// It does not, for this reason.
    Refused(String),
}

/// One algorithm with one of its kernels, or an algorithm that refused.
#[derive(Clone, Debug, PartialEq)]
pub struct Candidate {
    /// The algorithm.
    pub algorithm: &'static str,
    /// The kernel's symbol, a word on the CPU, empty where the algorithm refused.
    pub config: &'static str,
    /// What was found out.
    pub verdict: Verdict,
}

impl fmt::Display for Candidate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.verdict {
            Verdict::Refused(reason) => write!(f, "{}: refused: {reason}", self.algorithm),
            Verdict::Able { workspace_bytes, estimate_us, measured_us } => {
                write!(f, "{} ({}): estimate {estimate_us:.1} us", self.algorithm, self.config)?;
                if let Some(us) = measured_us {
                    write!(f, ", measured {us:.1} us")?;
                }
                write!(f, ", workspace {workspace_bytes} bytes")
            }
        }
    }
}

/// Judges every algorithm of the operator.
pub(crate) fn candidates<P: Operation>(context: &Context, problem: &P, limit: Option<u64>) -> Vec<Candidate> {
    let mut list = Vec::new();
    for algorithm in P::algorithms() {
        match algorithm.configs(problem, context) {
            Err(Refusal(reason)) => {
                list.push(Candidate { algorithm: algorithm.name(), config: "", verdict: Verdict::Refused(reason) });
            }
            Ok(configs) => list.extend(configs.into_iter().map(|config| {
                let workspace_bytes = algorithm.workspace_bytes(problem, config);
                let verdict = match limit {
                    Some(limit) if workspace_bytes > limit => {
                        Verdict::Refused(format!("needs {workspace_bytes} bytes of workspace, the limit is {limit}"))
                    }
                    _ => Verdict::Able {
                        workspace_bytes,
                        estimate_us: algorithm.estimate_us(problem, config, context),
                        measured_us: None,
                    },
                };
                Candidate { algorithm: algorithm.name(), config: config.0, verdict }
            })),
        }
    }
    list
}

/// Chooses and prepares.
pub(crate) fn plan<P: Operation>(context: &Context, problem: &P, request: &PlanRequest) -> Result<Plan, Error> {
    let mut candidates = candidates(context, problem, request.workspace_limit_bytes);
    if let Policy::Fixed(name) = &request.policy {
        for candidate in &mut candidates {
            if candidate.algorithm != name && candidate.config != name {
                candidate.verdict = Verdict::Refused(format!("the policy asks for {name}"));
            }
        }
    }
    let mut order: Vec<(usize, f64)> = candidates
        .iter()
        .enumerate()
        .filter_map(|(i, candidate)| match candidate.verdict {
            Verdict::Able { estimate_us, .. } => Some((i, estimate_us)),
            Verdict::Refused(_) => None,
        })
        .collect();
    if order.is_empty() {
        let reasons = candidates
            .into_iter()
            .map(|candidate| match candidate.verdict {
                Verdict::Refused(reason) => (candidate.algorithm.to_owned(), reason),
                Verdict::Able { .. } => (candidate.algorithm.to_owned(), String::new()),
            })
            .collect();
        return Err(Error::Unsupported { problem: problem.to_string(), reasons });
    }
    if request.policy == Policy::Find && order.len() > 1 {
        find::measure(context, problem, &mut candidates, &mut order)?;
    }
    // Equal times keep the order of the operator's list, best first.
    order.sort_by(|a, b| a.1.total_cmp(&b.1));
    let chosen = order[0].0;
    assemble(context, problem, candidates, chosen)
}

fn assemble<P: Operation>(
    context: &Context,
    problem: &P,
    candidates: Vec<Candidate>,
    chosen: usize,
) -> Result<Plan, Error> {
    let Candidate { algorithm, config, .. } = candidates[chosen];
    let method = P::algorithms().iter().find(|method| method.name() == algorithm).expect("candidates name the list");
    let operands = problem.operands();
    Ok(Plan {
        context: context.clone(),
        op: P::OP,
        problem: problem.to_string(),
        in_place: problem.works_in_place(),
        algorithm,
        config,
        workspace_bytes: method.workspace_bytes(problem, Config(config)),
        launch: method.prepare(problem, Config(config), context)?,
        operands,
        candidates,
    })
}
