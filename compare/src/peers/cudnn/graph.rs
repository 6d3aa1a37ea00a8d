//! The graph interface, which frameworks use: an operation graph, engines by heuristics, plans.

use super::backend::{Descriptor, Kind, Name, Type};
use super::engines::{self, Proposal};
use super::library::{Cudnn, Library, P};
use super::x_w_y;
use crate::measure::{Call, Set, Tried, trial};
use crate::options::Options;
use crate::timing::Clock;
use anyhow::{Context as _, Result, bail};
use oxidnn::TensorDesc;
use oxidnn::ops::conv::{ConvAxis, ConvMode, ConvPass, ConvProblem};
use std::ffi::c_int;
use std::rc::Rc;
use std::time::Instant;

/// Names of the three tensors in graphs and variant packs.
const IDS: [i64; 3] = [1, 2, 3];

/// Plans that are built and timed, and the time that all of that may take: engines that are compiled on the spot take
/// a second each.
const PLANS: usize = 32;
const PLANS_QUICK: usize = 8;
const SECONDS: f64 = 4.0;
const SECONDS_QUICK: f64 = 1.5;

/// One set's addresses, in the form that every plan of a problem takes.
struct Packs<'a>(Vec<(u64, Rc<Descriptor<'a>>)>);

struct GraphCall<'a> {
    cudnn: &'a Cudnn,
    plan: Rc<Descriptor<'a>>,
    /// Kept for the plan, which was made for it.
    _graph: Rc<Descriptor<'a>>,
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
        let address = set.their_address();
        let (_, pack) = self.packs.0.iter().find(|(at, _)| *at == address).context("expected a known set")?;
        let execute = self.cudnn.functions.backend_execute;
        // SAFETY: handle, plan and pack are alive, and so is the memory that the pack names.
        let status = unsafe { execute(self.cudnn.handle, self.plan.raw(), pack.raw()) };
        self.cudnn.check("cudnnBackendExecute", status)
    }
}

/// Builds plans for the engines worth trying, or only for the `known` best one, and times them.
pub(super) fn search<'a>(
    cudnn: &'a Cudnn,
    problem: &ConvProblem,
    sets: &[Set],
    clock: &Clock<'_>,
    options: &Options,
    known: Option<&str>,
) -> Result<(Vec<Tried<'a>>, Vec<String>)> {
    let graph = operation_graph(cudnn, problem)?;
    let packs = Rc::new(packs(cudnn, problem, sets)?);
    let (most, seconds) = if options.quick { (PLANS_QUICK, SECONDS_QUICK) } else { (PLANS, SECONDS) };
    let (mut proposals, mut notes) = engines::proposals(cudnn, &graph, problem);
    // Another version of the library may not know it: then everything is tried.
    if let Some(known) = known
        && (known.starts_with("find:") || proposals.iter().any(|proposal| proposal.name == known))
    {
        proposals.retain(|proposal| proposal.name == known);
    }
    let mut tried = Vec::<Tried<'a>>::new();
    let mut best = f64::INFINITY;
    let start = Instant::now();
    for Proposal { config, name, .. } in proposals {
        if tried.len() >= most || (start.elapsed().as_secs_f64() > seconds && !tried.is_empty()) {
            break;
        }
        let attempt = || -> Result<Tried<'a>> {
            let mut plan = Descriptor::new(cudnn, Kind::ExecutionPlan)?;
            plan.set_handle(Name::PlanHandle)?;
            plan.set_descriptor(Name::PlanConfig, &config)?;
            let plan = plan.finalize("building a plan")?;
            let workspace_bytes = plan.get_i64(Name::PlanWorkspace)?.max(0) as u64;
            let there = cudnn.workspace.len_bytes() as u64;
            if workspace_bytes > there {
                bail!("needs {workspace_bytes} bytes of workspace, there are {there}");
            }
            let call = GraphCall {
                cudnn,
                plan,
                _graph: graph.clone(),
                packs: packs.clone(),
                name: name.clone(),
                workspace_bytes,
            };
            let us = trial(&call, sets, clock, best)?;
            Ok(Tried { call: Box::new(call), us })
        };
        match attempt() {
            Ok(found) => {
                best = best.min(found.us);
                tried.push(found);
            }
            // That an engine does not take a problem is no news.
            Err(e) if format!("{e:#}").contains("NOT_SUPPORTED") => {}
            Err(e) => notes.push(format!("{name}: {e:#}")),
        }
    }
    if tried.is_empty() && notes.is_empty() && known.is_none() {
        notes.push("cuDNN graph: no engine takes it".to_owned());
    }
    Ok((tried, notes))
}

fn tensor<'a>(cudnn: &'a Cudnn, desc: &TensorDesc, id: i64) -> Result<Rc<Descriptor<'a>>> {
    let mut tensor = Descriptor::new(cudnn, Kind::Tensor)?;
    tensor.set_enum(Name::TensorDataType, Type::Element, Library::data_type(desc.dtype()))?;
    tensor.set_i64s(Name::TensorDimensions, desc.dims())?;
    tensor.set_i64s(Name::TensorStrides, desc.strides())?;
    tensor.set_i64s(Name::TensorUniqueId, &[id])?;
    tensor.set_i64s(Name::TensorAlignment, &[16])?;
    tensor.finalize("describing a tensor")
}

fn operation_graph<'a>(cudnn: &'a Cudnn, problem: &ConvProblem) -> Result<Rc<Descriptor<'a>>> {
    let x = tensor(cudnn, problem.x(), IDS[0])?;
    let w = tensor(cudnn, problem.w(), IDS[1])?;
    let y = tensor(cudnn, problem.y(), IDS[2])?;
    let list = |value: fn(&ConvAxis) -> i64| -> Vec<i64> { problem.axes().iter().map(value).collect() };
    let mut conv = Descriptor::new(cudnn, Kind::Convolution)?;
    conv.set_enum(Name::ConvolutionCompType, Type::Element, Library::data_type(problem.x().dtype().accumulator()))?;
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

fn packs<'a>(cudnn: &'a Cudnn, problem: &ConvProblem, sets: &[Set]) -> Result<Packs<'a>> {
    let workspace: P = cudnn.workspace_address();
    let pack = |set: &Set| -> Result<(u64, Rc<Descriptor<'a>>)> {
        let mut pack = Descriptor::new(cudnn, Kind::VariantPack)?;
        pack.set_i64s(Name::PackUniqueIds, &IDS)?;
        pack.set_pointers(Name::PackPointers, &x_w_y(problem, set))?;
        pack.set_pointers(Name::PackWorkspace, &[workspace])?;
        Ok((set.their_address(), pack.finalize("binding addresses")?))
    };
    Ok(Packs(sets.iter().map(pack).collect::<Result<_>>()?))
}
