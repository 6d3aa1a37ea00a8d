//! Computing a case: its nodes one after another, by our operators.

use crate::device::Device;
use crate::judge::compare;
use crate::node::Node;
use crate::ops::{self, By};
use crate::proto::{GraphProto, ModelProto, NodeProto};
use crate::stop::Stop;
use crate::value::Value;
use crate::wheel::{Case, DataSet};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

/// What became of a case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Our operators computed what was expected.
    Passed,
    /// They do not have what it asks for.
    Refused(String),
    /// They should have computed it, and did not, or not that.
    Failed(String),
}

/// Whether a model is a case of this project, and under which operator it is listed.
///
/// A model of one node is, when its operator is in the list. The models in which ONNX writes such an operator as a graph
/// of others, named `…_expanded`, are when each of their nodes is ours.
pub fn listed_under(name: &str, model: &ModelProto) -> Option<&'static str> {
    let nodes = &model.graph.as_ref()?.node;
    if !name.contains("_expanded") {
        let [node] = &nodes[..] else { return None };
        return ops::find(node).filter(|op| !matches!(op.by, By::View(_))).map(|op| op.name);
    }
    let ours = |node: &NodeProto| ops::find(node).map(|op| &op.by);
    let all = nodes.iter().all(|node| matches!(ours(node), Some(By::Operator(..) | By::View(_))));
    let any = nodes.iter().any(|node| matches!(ours(node), Some(By::Operator(..))));
    (all && any).then_some(EXPANDED)
}

/// Under which word expanded models are listed.
pub const EXPANDED: &str = "expanded";

/// Computes every data set of a case and compares the results.
pub fn run(case: &Case, device: &Device) -> Outcome {
    let outcome =
        catch_unwind(AssertUnwindSafe(|| case.data_sets.iter().try_for_each(|data| judge(case, data, device))));
    match outcome {
        Ok(Ok(())) => Outcome::Passed,
        Ok(Err(Stop::Refused(reason))) => Outcome::Refused(reason),
        Ok(Err(Stop::Failed(reason))) => Outcome::Failed(reason),
        Err(_) => Outcome::Failed("panicked".to_owned()),
    }
}

fn judge(case: &Case, data: &DataSet, device: &Device) -> Result<(), Stop> {
    let graph = case.model.graph.as_ref().ok_or_else(|| Stop::failed("the model has no graph"))?;
    let results = compute(&case.model, graph, data, device)?;
    for (i, (result, expected)) in results.iter().zip(&data.outputs).enumerate() {
        let expected = expected.as_ref().map_err(Stop::clone)?;
        compare(expected, result).map_err(|stop| match stop {
            Stop::Failed(what) => Stop::Failed(format!("output {i}: {what}")),
            refused => refused,
        })?;
    }
    Ok(())
}

/// Values of the graph's outputs.
fn compute(model: &ModelProto, graph: &GraphProto, data: &DataSet, device: &Device) -> Result<Vec<Value>, Stop> {
    let mut values = HashMap::<&str, Result<Value, Stop>>::new();
    for tensor in &graph.initializer {
        values.insert(&tensor.name, Value::from_proto(tensor));
    }
    for (info, value) in graph.input.iter().zip(&data.inputs) {
        values.insert(&info.name, value.clone());
    }
    for node in &graph.node {
        for (name, value) in node.output.iter().zip(compute_node(model, node, &values, device)?) {
            values.insert(name, Ok(value));
        }
    }
    let missing = |name: &str| Stop::failed(format!("the output {name} was not computed"));
    graph.output.iter().map(|info| values.get(&info.name[..]).cloned().ok_or_else(|| missing(&info.name))?).collect()
}

/// The outputs of a node whose inputs are among the values.
pub fn compute_node(
    model: &ModelProto,
    node: &NodeProto,
    values: &HashMap<&str, Result<Value, Stop>>,
    device: &Device,
) -> Result<Vec<Value>, Stop> {
    let opset = model.opset_import.iter().find(|opset| opset.domain == node.domain).map_or(0, |opset| opset.version);
    let mut inputs = Vec::new();
    for name in &node.input {
        inputs.push(match values.get(&name[..]) {
            Some(Ok(value)) => Some(value),
            Some(Err(stop)) => return Err(stop.clone()),
            None if name.is_empty() => None,
            None => return Err(Stop::failed(format!("the value {name} was not computed"))),
        });
    }
    let op = ops::find(node).ok_or_else(|| Stop::refused(format!("no operator {}", node.op_type)))?;
    let (By::Operator(_, compute) | By::View(compute)) = op.by else {
        return Err(Stop::refused("no operator yet"));
    };
    let node = Node::new(node, opset, inputs);
    let outputs = compute(&node, device)?;
    node.all_read()?;
    Ok(outputs)
}
