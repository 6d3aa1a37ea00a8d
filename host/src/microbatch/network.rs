//! The layers of a network, with one limit of workspace for each or one total for all.

use super::aim::Aim;
use super::division::{Division, Divisions};
use super::knapsack::{self, Choice, TooHeavy};
use super::measure::{self, Effort};
use crate::operators::{AnyProblem, parse_problem};
use crate::{Args, Context, Error, Plan, PlanRequest, Policy, Stream, Workspace};
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::Arc;

/// The layers of a network: all passes of all of them, each a problem of its own.
///
/// What is found out about a problem is kept, so that after a change of a layer or a total only that is done anew which
/// the change asks for.
pub struct Network {
    context: Context,
    request: PlanRequest,
    layers: Vec<Arc<dyn AnyProblem>>,
    known: HashMap<Key, Arc<Divisions>>,
    effort: Effort,
}

/// A problem's text, and what its measurements were made for.
type Key = (String, Option<Aim>);

/// How a layer is computed.
#[derive(Clone, Debug, PartialEq)]
pub struct LayerChoice {
    /// The problem's text form.
    pub problem: String,
    /// The parts of the batch.
    pub division: Division,
    /// What would be chosen if no batch were divided, where that is possible; none after loading.
    pub undivided: Option<Division>,
    /// Where the layer's workspace begins in the one buffer of all layers.
    pub offset: u64,
    /// Why the batch cannot be divided, where it cannot.
    pub refusal: Option<String>,
}

/// How every layer of a network is computed: decisions, made from times. Nothing of it is loaded yet.
#[derive(Clone, Debug, PartialEq)]
pub struct NetworkChoice {
    /// The layers.
    pub layers: Vec<LayerChoice>,
    /// Workspace of all layers together.
    pub workspace_bytes: u64,
}

/// Every layer of a network, ready to run.
#[derive(Debug)]
pub struct NetworkPlan {
    context: Context,
    plans: Vec<Plan>,
    offsets: Vec<u64>,
    workspace_bytes: u64,
}

impl Network {
    /// A network of these layers. The policy and the batch sizes are the request's; limits are given later.
    pub fn new(
        context: &Context,
        layers: impl IntoIterator<Item = Box<dyn AnyProblem>>,
        request: impl Into<PlanRequest>,
    ) -> Self {
        let layers = layers.into_iter().map(Arc::from).collect();
        Network {
            context: context.clone(),
            request: request.into(),
            layers,
            known: HashMap::new(),
            effort: Effort::default(),
        }
    }

    /// The layers.
    pub fn layers(&self) -> impl ExactSizeIterator<Item = &dyn AnyProblem> {
        self.layers.iter().map(|layer| &**layer)
    }

    /// Puts another problem in place of a layer's.
    ///
    /// # Errors
    /// `BadDescriptor` where there is no such layer.
    pub fn replace(&mut self, layer: usize, problem: Box<dyn AnyProblem>) -> Result<(), Error> {
        let n = self.layers.len();
        match self.layers.get_mut(layer) {
            Some(place) => {
                *place = problem.into();
                // The others' shares of a total depend on it.
                self.known.retain(|(_, aim), _| !matches!(aim, Some(Aim::Total(_))));
            }
            None => return Err(Error::bad("network", "layer", format!("expected one below {n}, given {layer}"))),
        }
        Ok(())
    }

    /// What is worth having for a layer within a limit of workspace. Estimates are not made for a limit: the list also
    /// holds divisions that need more.
    ///
    /// # Errors
    /// From measurements: `StaleKernels`, `Driver`; `BadDescriptor` where there is no such layer, and for devices of
    /// other kinds.
    pub fn divisions(&mut self, layer: usize, limit_bytes: u64) -> Result<Arc<Divisions>, Error> {
        let n = self.layers.len();
        if layer >= n {
            return Err(Error::bad("network", "layer", format!("expected one below {n}, given {layer}")));
        }
        Ok(self.divisions_of(layer..layer + 1, Aim::Front(limit_bytes))?.remove(0))
    }

    /// The same for several layers, whose measurements are made together.
    fn divisions_of(&mut self, layers: Range<usize>, aim: Aim) -> Result<Vec<Arc<Divisions>>, Error> {
        let of = self.measured_for(aim);
        let keys: Vec<Key> = self.layers[layers.clone()].iter().map(|layer| (layer.text(), of)).collect();
        let mut new: BTreeMap<&Key, &dyn AnyProblem> = BTreeMap::new();
        for (key, layer) in keys.iter().zip(&self.layers[layers]) {
            if !self.known.contains_key(key) {
                new.insert(key, &**layer);
            }
        }
        let (new_keys, problems): (Vec<&Key>, Vec<&dyn AnyProblem>) = new.into_iter().unzip();
        let sharing: Vec<usize> = keys.iter().filter_map(|key| new_keys.binary_search(&key).ok()).collect();
        let (found, effort) = measure::divisions(&self.context, &problems, &sharing, &self.request_for(of), aim)?;
        self.effort += effort;
        self.known.extend(new_keys.into_iter().cloned().zip(found.into_iter().map(Arc::new)));
        Ok(keys.iter().map(|key| self.known[key].clone()).collect())
    }

    fn all_divisions(&mut self, aim: Aim) -> Result<Vec<Arc<Divisions>>, Error> {
        self.divisions_of(0..self.layers.len(), aim)
    }

    /// What is measured for an aim: with parts of any size, what it asks for; else all within its limit.
    fn measured_for(&self, aim: Aim) -> Option<Aim> {
        // Measurements cost, so those that could not be chosen are left out. Estimates do not.
        let is_measured = self.request.policy == Policy::Find;
        is_measured.then(|| if self.request.measures_in_rounds() { aim } else { Aim::Front(aim.bytes()) })
    }

    fn request_for(&self, measured: Option<Aim>) -> PlanRequest {
        PlanRequest { workspace_limit_bytes: measured.map(Aim::bytes), ..self.request.clone() }
    }

    /// Measures what these aims ask for, all together, so that several devices have enough to do. What then is asked for
    /// each of them needs no more measurements, but for candidates that were far behind others that it does not allow,
    /// and where everything is measured anew each time ([`FindOptions::remeasure`](crate::FindOptions::remeasure)).
    ///
    /// # Errors
    /// Those of [`Network::divisions`].
    pub fn measure(&mut self, aims: &[Aim]) -> Result<(), Error> {
        let most = aims.iter().map(|aim| aim.bytes()).max().filter(|_| self.request.policy == Policy::Find);
        let Some(most) = most else { return Ok(()) };
        let distinct: BTreeMap<String, &dyn AnyProblem> =
            self.layers.iter().map(|layer| (layer.text(), &**layer)).collect();
        let (texts, problems): (Vec<String>, Vec<&dyn AnyProblem>) = distinct.into_iter().unzip();
        let sharing: Vec<usize> =
            self.layers.iter().filter_map(|layer| texts.binary_search(&layer.text()).ok()).collect();
        let request = self.request_for(self.measured_for(Aim::Front(most)));
        let (_, _, effort) = measure::known(&self.context, &problems, &sharing, &request, aims)?;
        self.effort += effort;
        Ok(())
    }

    /// What was measured for this network so far.
    pub fn effort(&self) -> Effort {
        self.effort
    }

    /// Parts of all layers without the time that this aim asks for ([`Divisions::unmeasured`]).
    ///
    /// # Errors
    /// Those of [`Network::divisions`].
    pub fn unmeasured(&mut self, aim: Aim) -> Result<usize, Error> {
        Ok(self.all_divisions(aim)?.iter().map(|found| found.unmeasured).sum())
    }

    /// [`Network::reuse`] or [`Network::divide`]. The fastest of a front are those of its limit for each.
    ///
    /// # Errors
    /// As there.
    pub fn choose(&mut self, aim: Aim) -> Result<NetworkChoice, Error> {
        match aim {
            Aim::Front(limit_bytes) | Aim::Each(limit_bytes) => self.reuse(limit_bytes),
            Aim::Total(total_bytes) => self.divide(total_bytes),
        }
    }

    /// Workspace reuse: each layer's best within a limit of its own. Layers run in turn and share one buffer.
    ///
    /// # Errors
    /// `Unsupported` for a layer that needs more, with the least need; those of [`Network::divisions`].
    pub fn reuse(&mut self, limit_bytes: u64) -> Result<NetworkChoice, Error> {
        let mut layers = Vec::new();
        for (layer, found) in self.all_divisions(Aim::Each(limit_bytes))?.into_iter().enumerate() {
            let Some(division) = found.within(limit_bytes).cloned() else {
                let request = PlanRequest { workspace_limit_bytes: Some(limit_bytes), ..self.request.clone() };
                return Err(self.layers[layer].none_within(&self.context, &request));
            };
            layers.push(LayerChoice {
                problem: found.problem.clone(),
                division,
                undivided: found.undivided_within(limit_bytes).cloned(),
                offset: 0,
                refusal: found.refusal.clone(),
            });
        }
        let workspace_bytes = layers.iter().map(|layer| layer.division.workspace_bytes).max().unwrap_or(0);
        Ok(NetworkChoice { layers, workspace_bytes })
    }

    /// Workspace division: a segment of one buffer for each layer, such that the sum of all times is the least that is
    /// possible with so much workspace in total. The same problems and total always give the same choice.
    ///
    /// # Errors
    /// `WorkspaceTotal` where the least needs of all layers are more together, `Unsupported` for a layer that nothing
    /// computes; those of [`Network::divisions`].
    pub fn divide(&mut self, total_bytes: u64) -> Result<NetworkChoice, Error> {
        let found = self.all_divisions(Aim::Total(total_bytes))?;
        for (found, layer) in found.iter().zip(&self.layers) {
            if found.front.is_empty() {
                let request = PlanRequest { workspace_limit_bytes: Some(total_bytes), ..self.request.clone() };
                return Err(layer.none_within(&self.context, &request));
            }
        }
        let solve = |list: fn(&Divisions) -> &[Division]| {
            let classes: Vec<Vec<Choice>> =
                found.iter().map(|found| list(found).iter().map(Division::choice).collect()).collect();
            knapsack::solve(&classes, total_bytes)
        };
        let chosen = solve(|found| &found.front)
            .map_err(|TooHeavy { least }| Error::WorkspaceTotal { needed_bytes: least, total_bytes })?;
        let undivided = solve(|found| &found.undivided).ok();
        let mut offset = 0;
        let mut layers = Vec::new();
        for (layer, (found, choice)) in found.iter().zip(chosen).enumerate() {
            let division = found.front[choice].clone();
            let bytes = division.segment();
            layers.push(LayerChoice {
                problem: found.problem.clone(),
                division,
                undivided: undivided.as_ref().map(|undivided| found.undivided[undivided[layer]].clone()),
                offset,
                refusal: found.refusal.clone(),
            });
            offset += bytes;
        }
        Ok(NetworkChoice { layers, workspace_bytes: offset })
    }
}

impl NetworkChoice {
    /// The sum of all layers' times.
    pub fn time_us(&self) -> f64 {
        self.layers.iter().map(|layer| layer.division.time_us()).sum()
    }

    /// The same if no batch were divided, where every layer can be computed so.
    pub fn undivided_us(&self) -> Option<f64> {
        self.layers.iter().map(|layer| layer.undivided.as_ref().map(Division::time_us)).sum()
    }

    /// The plans of all layers.
    ///
    /// # Errors
    /// `StaleKernels`, `NoDevice`, `Driver`; `Unsupported` on another device than the choice was made for.
    pub fn plan(&self, context: &Context) -> Result<NetworkPlan, Error> {
        let plan = |layer: &LayerChoice| parse_problem(&layer.problem)?.plan_division(context, &layer.division);
        Ok(NetworkPlan {
            context: context.clone(),
            plans: self.layers.iter().map(plan).collect::<Result<_, _>>()?,
            offsets: self.layers.iter().map(|layer| layer.offset).collect(),
            workspace_bytes: self.workspace_bytes,
        })
    }
}

impl NetworkPlan {
    /// The layers' plans. Each needs [`Plan::workspace_bytes`] of its own when it is run by itself.
    pub fn plans(&self) -> &[Plan] {
        &self.plans
    }

    /// Workspace of all layers together.
    pub fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes
    }

    /// Allocates it.
    ///
    /// # Errors
    /// `OutOfMemory`, `Driver`.
    pub fn workspace(&self) -> Result<Workspace, Error> {
        Workspace::new(&self.context, self.workspace_bytes)
    }

    /// A layer's segment of the workspace: where it begins and how long it is.
    pub fn segment(&self, layer: usize) -> Option<(u64, u64)> {
        Some((*self.offsets.get(layer)?, self.plans.get(layer)?.workspace_bytes()))
    }

    /// Queues a layer's computation in its segment of the workspace, as [`Plan::run`] does.
    ///
    /// # Errors
    /// As there; `BadDescriptor` where there is no such layer.
    pub fn run(&self, layer: usize, stream: &Stream, args: Args<'_>, workspace: &mut Workspace) -> Result<(), Error> {
        let Some(((offset, bytes), plan)) = self.segment(layer).zip(self.plans.get(layer)) else {
            let reason = format!("expected one below {}, given {layer}", self.plans.len());
            return Err(Error::bad("network", "layer", reason));
        };
        let given_bytes = workspace.len_bytes();
        if given_bytes < self.workspace_bytes {
            return Err(Error::WorkspaceTooSmall { needed_bytes: self.workspace_bytes, given_bytes });
        }
        plan.run_at(stream, args, workspace, offset, bytes)
    }
}
