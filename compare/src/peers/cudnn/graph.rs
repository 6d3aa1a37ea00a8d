//! The graph interface, which frameworks use: an operation graph, engines by heuristics, plans.

use super::backend::{Descriptor, Kind, Name, Type};
use super::library::{Cudnn, P};
use super::x_w_y;
use crate::measure::{Call, Set, Tried, trial};
use crate::options::Options;
use crate::timing::Clock;
use anyhow::{Context as _, Result, bail};
use oxidnn::ops::conv::{ConvAxis, ConvMode, ConvPass, ConvProblem};
use oxidnn::{DType, TensorDesc};
use std::ffi::c_int;
use std::rc::Rc;
use std::time::Instant;

/// Names of the three tensors in graphs and variant packs.
const IDS: [i64; 3] = [1, 2, 3];

/// `cudnnBackendHeurMode_t`: the main one, its more careful sibling, and what works always.
const MODES: [(c_int, &str); 3] = [(3, "A"), (1, "B"), (2, "fallback")];

/// `cudnnBackendNumericalNote_t`.
const TENSOR_CORE: c_int = 0;
const DOWN_CONVERT_INPUTS: c_int = 1;
const NONDETERMINISTIC: c_int = 4;
/// `cudnnBackendBehaviorNote_t`.
const RUNTIME_COMPILATION: c_int = 0;

/// Plans that are built and timed, and the time that building may take in all: engines that are compiled on the spot
/// take a second each.
const PLANS: usize = 12;
const PLANS_QUICK: usize = 6;
const BUILD_SECONDS: f64 = 4.0;
const BUILD_SECONDS_QUICK: f64 = 1.5;

/// One set's addresses, in the form that every plan of a problem takes.
struct Packs<'a>(Vec<(u64, Descriptor<'a>)>);

struct GraphCall<'a> {
    cudnn: &'a Cudnn,
    plan: Descriptor<'a>,
    packs: Rc<Packs<'a>>,
    name: String,
    workspace_bytes: u64,
}

impl Call for GraphCall<'_> {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn workspace_bytes(&self) -> u64 {
        self.workspace_bytes
    }

    fn queue(&self, set: &Set) -> Result<()> {
        let address = set.theirs.span().address();
        let (_, pack) = self.packs.0.iter().find(|(at, _)| *at == address).context("expected a known set")?;
        let execute = self.cudnn.functions.backend_execute;
        // SAFETY: handle, plan and pack are alive, and so is the memory that the pack names.
        let status = unsafe { execute(self.cudnn.handle, self.plan.raw(), pack.raw()) };
        self.cudnn.check("cudnnBackendExecute", status)
    }
}

/// Builds plans for the engines that the heuristics propose, and times them.
pub(super) fn search<'a>(
    cudnn: &'a Cudnn,
    problem: &ConvProblem,
    sets: &[Set],
    clock: &Clock<'_>,
    options: &Options,
) -> Result<(Vec<Tried<'a>>, Vec<String>)> {
    let graph = operation_graph(cudnn, problem)?;
    let packs = Rc::new(packs(cudnn, problem, sets)?);
    let (most, seconds) = if options.quick { (PLANS_QUICK, BUILD_SECONDS_QUICK) } else { (PLANS, BUILD_SECONDS) };
    let (mut tried, mut notes, mut seen) = (Vec::<Tried<'a>>::new(), Vec::new(), Vec::new());
    let mut best = f64::INFINITY;
    let start = Instant::now();
    for (mode, mode_name) in MODES {
        // What works always is slow; it is of interest where the others found little.
        if mode_name == "fallback" && tried.len() >= 3 {
            continue;
        }
        let configs = match proposals(cudnn, &graph, mode) {
            Ok(configs) => configs,
            Err(e) => {
                notes.push(format!("cuDNN heuristics {mode_name}: {e:#}"));
                continue;
            }
        };
        for config in configs {
            if tried.len() >= most || (start.elapsed().as_secs_f64() > seconds && !tried.is_empty()) {
                break;
            }
            let mut attempt = || -> Result<Option<Tried<'a>>> {
                let Some(name) = describe(&config, problem.x().dtype())? else { return Ok(None) };
                if seen.contains(&name) {
                    return Ok(None);
                }
                seen.push(name.clone());
                let mut plan = Descriptor::new(cudnn, Kind::ExecutionPlan)?;
                plan.set_handle(Name::PlanHandle)?;
                plan.set_descriptor(Name::PlanConfig, &config)?;
                let plan = plan.finalize("building a plan").with_context(|| name.clone())?;
                let workspace_bytes = plan.get_i64(Name::PlanWorkspace)?.max(0) as u64;
                let there = cudnn.workspace.len_bytes() as u64;
                if workspace_bytes > there {
                    bail!("{name} needs {workspace_bytes} bytes of workspace, there are {there}");
                }
                let call = GraphCall { cudnn, plan, packs: packs.clone(), name, workspace_bytes };
                let us = trial(&call, sets, clock, best).with_context(|| call.name.clone())?;
                Ok(Some(Tried { call: Box::new(call), us }))
            };
            match attempt() {
                Ok(Some(found)) => {
                    best = best.min(found.us);
                    tried.push(found);
                }
                Ok(None) => {}
                // That an engine does not take a problem is no news.
                Err(e) if format!("{e:#}").contains("NOT_SUPPORTED") => {}
                Err(e) => notes.push(format!("cuDNN graph: {e:#}")),
            }
        }
    }
    if tried.is_empty() && notes.is_empty() {
        notes.push("cuDNN graph: no engine takes it".to_owned());
    }
    Ok((tried, notes))
}

fn tensor<'a>(cudnn: &'a Cudnn, desc: &TensorDesc, id: i64) -> Result<Descriptor<'a>> {
    let mut tensor = Descriptor::new(cudnn, Kind::Tensor)?;
    tensor.set_enum(Name::TensorDataType, Type::Element, Cudnn::data_type(desc.dtype()))?;
    tensor.set_i64s(Name::TensorDimensions, desc.dims())?;
    tensor.set_i64s(Name::TensorStrides, desc.strides())?;
    tensor.set_i64s(Name::TensorUniqueId, &[id])?;
    tensor.set_i64s(Name::TensorAlignment, &[16])?;
    tensor.finalize("describing a tensor")
}

fn operation_graph<'a>(cudnn: &'a Cudnn, problem: &ConvProblem) -> Result<Descriptor<'a>> {
    let x = tensor(cudnn, problem.x(), IDS[0])?;
    let w = tensor(cudnn, problem.w(), IDS[1])?;
    let y = tensor(cudnn, problem.y(), IDS[2])?;
    let list = |value: fn(&ConvAxis) -> i64| -> Vec<i64> { problem.axes().iter().map(value).collect() };
    let mut conv = Descriptor::new(cudnn, Kind::Convolution)?;
    conv.set_enum(Name::ConvolutionCompType, Type::Element, Cudnn::data_type(problem.x().dtype().accumulator()))?;
    let mode = c_int::from(problem.mode() == ConvMode::CrossCorrelation);
    conv.set_enum(Name::ConvolutionMode, Type::ConvolutionMode, mode)?;
    conv.set_i64s(Name::ConvolutionSpatialDims, &[problem.axes().len() as i64])?;
    conv.set_i64s(Name::ConvolutionPrePaddings, &list(|axis| axis.padding))?;
    conv.set_i64s(Name::ConvolutionPostPaddings, &list(|axis| axis.padding_end))?;
    conv.set_i64s(Name::ConvolutionDilations, &list(|axis| axis.dilation))?;
    conv.set_i64s(Name::ConvolutionStrides, &list(|axis| axis.stride))?;
    let conv = conv.finalize("describing the convolution")?;
    let (kind, [alpha, beta, conv_name, w_name, x_name, y_name]) = match problem.conv_pass() {
        ConvPass::Fprop => (
            Kind::Fprop,
            [Name::FpropAlpha, Name::FpropBeta, Name::FpropConv, Name::FpropW, Name::FpropX, Name::FpropY],
        ),
        ConvPass::Dgrad => (
            Kind::Dgrad,
            [Name::DgradAlpha, Name::DgradBeta, Name::DgradConv, Name::DgradW, Name::DgradDx, Name::DgradDy],
        ),
        ConvPass::Wgrad => (
            Kind::Wgrad,
            [Name::WgradAlpha, Name::WgradBeta, Name::WgradConv, Name::WgradDw, Name::WgradX, Name::WgradDy],
        ),
    };
    let mut operation = Descriptor::new(cudnn, kind)?;
    operation.set_descriptor(x_name, &x)?;
    operation.set_descriptor(w_name, &w)?;
    operation.set_descriptor(y_name, &y)?;
    operation.set_descriptor(conv_name, &conv)?;
    operation.set_f32(alpha, 1.0)?;
    operation.set_f32(beta, 0.0)?;
    let operation = operation.finalize("describing the operation")?;
    let mut graph = Descriptor::new(cudnn, Kind::OperationGraph)?;
    graph.set_descriptor(Name::GraphOperations, &operation)?;
    graph.set_handle(Name::GraphHandle)?;
    graph.finalize("describing the graph")
}

/// Engines with their knobs set, best first as one heuristic sees it.
fn proposals<'a>(cudnn: &'a Cudnn, graph: &Descriptor<'a>, mode: c_int) -> Result<Vec<Descriptor<'a>>> {
    let mut heuristics = Descriptor::new(cudnn, Kind::EngineHeuristics)?;
    heuristics.set_descriptor(Name::HeuristicsGraph, graph)?;
    heuristics.set_enum(Name::HeuristicsMode, Type::HeurMode, mode)?;
    let heuristics = heuristics.finalize("asking heuristics")?;
    heuristics.get_descriptors(Name::HeuristicsResults, Kind::EngineConfig, 64)
}

/// An engine's name with its knobs; None for one that computes f32 with less than f32.
fn describe(config: &Descriptor<'_>, dtype: DType) -> Result<Option<String>> {
    let engines = config.get_descriptors_exactly(Name::ConfigEngine, Kind::Engine, 1)?;
    let engine = engines.first().context("expected an engine")?;
    let notes = engine.get_enums(Name::EngineNumericalNotes, Type::NumericalNote)?;
    if dtype == DType::F32 && (notes.contains(&TENSOR_CORE) || notes.contains(&DOWN_CONVERT_INPUTS)) {
        return Ok(None);
    }
    let behavior = engine.get_enums(Name::EngineBehaviorNotes, Type::BehaviorNote).unwrap_or_default();
    let mut name = format!("graph:eng{}", engine.get_i64(Name::EngineIndex)?);
    // Knobs only make names tell variants apart; without them there is still the engine.
    for knob in config.get_descriptors(Name::ConfigKnobs, Kind::KnobChoice, 64).unwrap_or_default() {
        let of = knob.get_enums(Name::KnobType, Type::Knob)?;
        let value = knob.get_i64(Name::KnobValue)?;
        name.push_str(&format!("_k{}={value}", of.first().copied().unwrap_or(-1)));
    }
    if notes.contains(&NONDETERMINISTIC) {
        name.push_str("+nondeterministic");
    }
    if behavior.contains(&RUNTIME_COMPILATION) {
        name.push_str("+compiled");
    }
    Ok(Some(name))
}

fn packs<'a>(cudnn: &'a Cudnn, problem: &ConvProblem, sets: &[Set]) -> Result<Packs<'a>> {
    let workspace: P = cudnn.workspace_address();
    let pack = |set: &Set| -> Result<(u64, Descriptor<'a>)> {
        let mut pack = Descriptor::new(cudnn, Kind::VariantPack)?;
        pack.set_i64s(Name::PackUniqueIds, &IDS)?;
        pack.set_pointers(Name::PackPointers, &x_w_y(problem, set))?;
        pack.set_pointers(Name::PackWorkspace, &[workspace])?;
        Ok((set.theirs.span().address(), pack.finalize("binding addresses")?))
    };
    Ok(Packs(sets.iter().map(pack).collect::<Result<_>>()?))
}
