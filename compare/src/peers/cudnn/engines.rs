//! Engines of the graph interface: which there are for a problem, and in which order they are tried.

use super::backend::{Descriptor, Kind, Name, Type};
use super::library::Cudnn;
use anyhow::{Context as _, Result};
use oxidnn::ops::conv::ConvProblem;
use oxidnn::{DType, Math};
use std::ffi::c_int;
use std::rc::Rc;

/// `cudnnBackendHeurMode_t`: the main one, its more careful sibling, and what works always.
const MODES: [(c_int, &str); 3] = [(3, "A"), (1, "B"), (2, "fallback")];

/// `cudnnBackendNumericalNote_t`.
const TENSOR_CORE: c_int = 0;
const DOWN_CONVERT_INPUTS: c_int = 1;
const NONDETERMINISTIC: c_int = 4;
const N_NUMERICAL_NOTES: usize = 10;
/// `cudnnBackendBehaviorNote_t`.
const RUNTIME_COMPILATION: c_int = 0;
const N_BEHAVIOR_NOTES: usize = 5;
/// `CUDNN_KNOB_TYPE_COUNTS`: an engine has fewer knobs.
const N_KNOBS: usize = 44;

/// An engine with its knobs set.
pub(super) struct Proposal<'a> {
    pub(super) config: Rc<Descriptor<'a>>,
    pub(super) name: String,
    engine: i64,
    tensor_cores: bool,
}

/// So many of the heuristics' first choices are tried before engines of other kinds.
const FIRST: usize = 10;

/// Fewer channels than this leave tensor cores little to do.
const FEW_CHANNELS: i64 = 16;

/// Everything worth trying, in this order: the heuristics' first choices, one config of every other engine, the rest.
/// Also what went wrong on the way.
pub(super) fn proposals<'a>(
    cudnn: &'a Cudnn,
    graph: &Rc<Descriptor<'a>>,
    problem: &ConvProblem,
) -> (Vec<Proposal<'a>>, Vec<String>) {
    let (mut found, mut notes) = (Vec::<Proposal<'a>>::new(), Vec::new());
    let exact = problem.x().dtype() == DType::F32 && problem.math() < Math::Tf32;
    let mut add = |configs: Vec<Rc<Descriptor<'a>>>| {
        for config in configs {
            // A config that cannot be described is one that the library left unfinished.
            if let Ok(Some(proposal)) = describe(config, exact)
                && found.iter().all(|known| known.name != proposal.name)
            {
                found.push(proposal);
            }
        }
    };
    for (mode, mode_name) in MODES {
        match by_heuristics(cudnn, graph, mode) {
            Ok(configs) => add(configs),
            Err(e) => notes.push(format!("cuDNN heuristics {mode_name}: {e:#}")),
        }
    }
    match every_engine(cudnn, graph) {
        Ok(configs) => add(configs),
        Err(e) => notes.push(format!("cuDNN engines: {e:#}")),
    }
    let shape = problem.shape();
    let few_channels = shape.group_c().min(shape.group_k()) < FEW_CHANNELS;
    if !exact && !few_channels && found.iter().filter(|proposal| proposal.tensor_cores).count() >= 3 {
        found.retain(|proposal| proposal.tensor_cores);
    }
    (ordered(found, |proposal| proposal.engine), notes)
}

/// The first few as they are, then the first of each engine that is not among them, then the rest.
fn ordered<T>(items: Vec<T>, engine: impl Fn(&T) -> i64) -> Vec<T> {
    let (mut first, mut others, mut rest) = (Vec::new(), Vec::<T>::new(), Vec::new());
    for item in items {
        let among = |list: &[T]| list.iter().any(|known| engine(known) == engine(&item));
        if first.len() < FIRST {
            first.push(item);
        } else if among(&first) || among(&others) {
            rest.push(item);
        } else {
            others.push(item);
        }
    }
    first.extend(others);
    first.extend(rest);
    first
}

/// Configs that one heuristic proposes, best first.
fn by_heuristics<'a>(cudnn: &'a Cudnn, graph: &Rc<Descriptor<'a>>, mode: c_int) -> Result<Vec<Rc<Descriptor<'a>>>> {
    let mut heuristics = Descriptor::new(cudnn, Kind::EngineHeuristics)?;
    heuristics.set_descriptor(Name::HeuristicsGraph, graph)?;
    heuristics.set_enum(Name::HeuristicsMode, Type::HeurMode, mode)?;
    let heuristics = heuristics.finalize("asking heuristics")?;
    let configs = heuristics.get_descriptors(Name::HeuristicsResults, Kind::EngineConfig, 64)?;
    Ok(configs.into_iter().map(Rc::new).collect())
}

/// Every engine that takes the problem, with its knobs as they are by default: heuristics leave engines out.
fn every_engine<'a>(cudnn: &'a Cudnn, graph: &Rc<Descriptor<'a>>) -> Result<Vec<Rc<Descriptor<'a>>>> {
    let count = graph.get_i64(Name::GraphEngineCount)?;
    let configured = |index: i64| -> Result<Rc<Descriptor<'a>>> {
        let mut engine = Descriptor::new(cudnn, Kind::Engine)?;
        engine.set_descriptor(Name::EngineGraph, graph)?;
        engine.set_i64s(Name::EngineIndex, &[index])?;
        let engine = engine.finalize("an engine")?;
        let mut config = Descriptor::new(cudnn, Kind::EngineConfig)?;
        config.set_descriptor(Name::ConfigEngine, &engine)?;
        config.finalize("an engine's config")
    };
    // Most engines are for other problems.
    Ok((0..count).filter_map(|index| configured(index).ok()).collect())
}

/// An engine's name with its knobs; None for one that computes with less than f32 where that is to be `exact`.
fn describe(config: Rc<Descriptor<'_>>, exact: bool) -> Result<Option<Proposal<'_>>> {
    let engines = config.get_descriptors_exactly(Name::ConfigEngine, Kind::Engine, 1)?;
    let engine = engines.first().context("expected an engine")?;
    let notes = engine.get_enums(Name::EngineNumericalNotes, Type::NumericalNote, N_NUMERICAL_NOTES)?;
    if exact && (notes.contains(&TENSOR_CORE) || notes.contains(&DOWN_CONVERT_INPUTS)) {
        return Ok(None);
    }
    let behavior = engine.get_enums(Name::EngineBehaviorNotes, Type::BehaviorNote, N_BEHAVIOR_NOTES)?;
    let index = engine.get_i64(Name::EngineIndex)?;
    let mut name = format!("graph:eng{index}");
    for knob in config.get_descriptors_exactly(Name::ConfigKnobs, Kind::KnobChoice, N_KNOBS)? {
        let of = knob.get_enums(Name::KnobType, Type::Knob, 1)?;
        let value = knob.get_i64(Name::KnobValue)?;
        name.push_str(&format!("_k{}={value}", of.first().copied().unwrap_or(-1)));
    }
    if notes.contains(&NONDETERMINISTIC) {
        name.push_str("+nondeterministic");
    }
    if behavior.contains(&RUNTIME_COMPILATION) {
        name.push_str("+compiled");
    }
    Ok(Some(Proposal { config, name, engine: index, tensor_cores: notes.contains(&TENSOR_CORE) }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_engine_comes_before_the_rest() {
        let items: Vec<i64> = [62; 12].into_iter().chain([33, 62, 33, 10]).collect();
        let mut expected = vec![62; 10];
        expected.extend([33, 10, 62, 62, 62, 33]);
        assert_eq!(ordered(items, |engine| *engine), expected);
    }
}
