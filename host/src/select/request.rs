//! What a caller asks of a choice.

use super::NonFinite;
use crate::{BatchSizes, Context};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// How a plan chooses among the algorithms.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Policy {
    /// By estimate, without any work on the device.
    Heuristic,
    /// By time on the device: candidates that have never been measured for this problem are timed, with buffers of
    /// Find's own, and the times are kept ([`StoreLocation`](crate::StoreLocation)).
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
        PlanRequest::from(self).workspace_limit(bytes)
    }

    /// The same policy among candidates that spread infinities and NaNs no further than this permits.
    pub fn nonfinite(self, nonfinite: NonFinite) -> PlanRequest {
        PlanRequest::from(self).nonfinite(nonfinite)
    }

    /// The same policy for parts of the batch of these sizes.
    pub fn micro_batches(self, sizes: BatchSizes) -> PlanRequest {
        PlanRequest::from(self).micro_batches(sizes)
    }
}

/// A policy with its limits.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlanRequest {
    /// How to choose.
    pub policy: Policy,
    /// The most workspace a candidate may need; None for any amount.
    pub workspace_limit_bytes: Option<u64>,
    /// What else [`Policy::Find`] should know. Other policies do not look at it.
    pub find: FindOptions,
    /// The parts in which the batch may be computed, one after the other in the same workspace. The policy is that of
    /// each part, and the sum of their times decides.
    pub batch_sizes: BatchSizes,
    /// The only algorithms to choose among, by name; all where it is empty.
    pub algorithms: Vec<String>,
    /// What infinities and NaNs of operands may reach.
    pub nonfinite: NonFinite,
}

impl From<Policy> for PlanRequest {
    fn from(policy: Policy) -> Self {
        PlanRequest {
            policy,
            workspace_limit_bytes: None,
            find: FindOptions::default(),
            batch_sizes: BatchSizes::default(),
            algorithms: Vec::new(),
            nonfinite: NonFinite::Default,
        }
    }
}

impl PlanRequest {
    /// The same among candidates that need at most `bytes` of workspace.
    pub fn workspace_limit(mut self, bytes: u64) -> Self {
        self.workspace_limit_bytes = Some(bytes);
        self
    }

    /// The same for parts of the batch of these sizes.
    pub fn micro_batches(mut self, sizes: BatchSizes) -> Self {
        self.batch_sizes = sizes;
        self
    }

    /// The same among the algorithms of these names.
    pub fn only(mut self, algorithms: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.algorithms = algorithms.into_iter().map(Into::into).collect();
        self
    }

    /// The same among candidates that spread infinities and NaNs no further than this permits.
    pub fn nonfinite(mut self, nonfinite: NonFinite) -> Self {
        self.nonfinite = nonfinite;
        self
    }

    /// Whether only those parts are measured that a choice depends on, since there are too many for all.
    pub(crate) fn measures_in_rounds(&self) -> bool {
        self.policy == Policy::Find && self.batch_sizes == BatchSizes::All
    }

    /// The same with these options of [`Policy::Find`].
    pub fn find_options(mut self, options: FindOptions) -> Self {
        self.find = options;
        self
    }
}

/// Options of [`Policy::Find`].
#[derive(Clone, Default)]
pub struct FindOptions {
    remeasure: bool,
    observer: Option<Observer>,
    devices: Vec<Context>,
    deadline: Option<Instant>,
    position: Option<Arc<Position>>,
}

type Observer = Arc<dyn Fn(&FindProgress<'_>) + Send + Sync>;

/// How many of several parts are measured.
pub(crate) struct Position {
    pub(crate) done: AtomicUsize,
    pub(crate) n_parts: usize,
}

impl FindOptions {
    /// Uses what is known already, tells nobody.
    pub fn new() -> Self {
        Self::default()
    }

    /// Measures every candidate anew; the new times replace the old ones.
    pub fn remeasure(mut self, yes: bool) -> Self {
        self.remeasure = yes;
        self
    }

    /// Calls `observer` before each step of a measurement, on the thread that measures. Measurements of a context wait
    /// for each other, so it must not begin another one.
    pub fn observer(mut self, observer: impl Fn(&FindProgress<'_>) + Send + Sync + 'static) -> Self {
        self.observer = Some(Arc::new(observer));
        self
    }

    /// Has these devices take part where there are several parts to measure, of a batch or of a network's layers: each
    /// takes the next one from a queue. They must be of the context's kind ([`Context::alike`] gives them), and use its
    /// store from then on.
    pub fn devices(mut self, devices: impl IntoIterator<Item = Context>) -> Self {
        self.devices = devices.into_iter().collect();
        self
    }

    /// Begins no measurement after this time: a choice is then among what is known, and candidates without a time are
    /// refused.
    pub fn until(mut self, deadline: Instant) -> Self {
        self.deadline = Some(deadline);
        self
    }

    pub(crate) fn remeasures(&self) -> bool {
        self.remeasure
    }

    pub(crate) fn other_devices(&self) -> &[Context] {
        &self.devices
    }

    pub(crate) fn is_over(&self) -> bool {
        self.deadline.is_some_and(|deadline| Instant::now() >= deadline)
    }

    /// The same for one of several parts.
    pub(crate) fn at(&self, position: Arc<Position>) -> Self {
        FindOptions { position: Some(position), ..self.clone() }
    }

    pub(super) fn tell(&self, progress: FindProgress<'_>) {
        let Some(observer) = &self.observer else { return };
        let (part, n_parts) = match &self.position {
            Some(position) => (position.done.load(Ordering::Relaxed), position.n_parts),
            None => (0, 1),
        };
        observer(&FindProgress { part, n_parts, ..progress });
    }
}

impl fmt::Debug for FindOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FindOptions")
            .field("remeasure", &self.remeasure)
            .field("observer", &self.observer.is_some())
            .field("devices", &self.devices.len())
            .field("deadline", &self.deadline)
            .finish()
    }
}

/// Equal options have the same observer and devices, not only ones that do the same.
impl PartialEq for FindOptions {
    fn eq(&self, other: &Self) -> bool {
        let same = match (&self.observer, &other.observer) {
            (Some(a), Some(b)) => Arc::ptr_eq(a, b),
            (None, None) => true,
            _ => false,
        };
        let same_devices = self.devices.len() == other.devices.len()
            && self.devices.iter().zip(&other.devices).all(|(a, b)| a.is_same(b));
        same && same_devices && self.remeasure == other.remeasure && self.deadline == other.deadline
    }
}

impl Eq for FindOptions {}

/// Where a measurement is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FindProgress<'a> {
    /// The problem's text form.
    pub problem: &'a str,
    /// Steps that are done.
    pub step: usize,
    /// All steps; `step` is equal to it in the last call.
    pub n_steps: usize,
    /// Parts that are done, where parts of a batch or the layers of a network are measured one after the other; other
    /// devices may be at work on others.
    pub part: usize,
    /// All parts.
    pub n_parts: usize,
    /// What begins now.
    pub stage: FindStage,
}

/// What a measurement does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FindStage {
    /// A candidate is loaded and run for the first time.
    Trying {
        /// The algorithm.
        algorithm: &'static str,
        /// The kernel's symbol, or what stands for it on the CPU.
        config: &'static str,
    },
    /// All candidates that are not far behind are timed, one after the other.
    Timing {
        /// The round, from 0 on.
        round: usize,
        /// How many there are.
        n_rounds: usize,
    },
    /// Nothing is left to do.
    Done,
}
