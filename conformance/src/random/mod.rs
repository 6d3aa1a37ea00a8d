//! Random nodes: drawn by seed, computed by our operators, and judged by loops written from the specification.
//!
//! The judge knows neither the mapping nor the operators. A second one, `conformance/random_judge.py`, computes what
//! [`run`] exports by onnxruntime and by ONNX's own evaluator.

mod draw;
mod elementwise;
mod judge;
mod layout;
mod norms;
mod resample;
mod sums;
mod training;
mod windows;

use crate::device::Device;
use crate::graph;
use crate::proto::{GraphProto, ModelProto, NodeProto, OperatorSetProto, TensorProto};
use crate::stop::Stop;
use crate::value::Value;
use anyhow::{Context as _, Result};
use draw::{Drawn, Rng};
use judge::Wide;
use prost::Message as _;
use std::collections::{BTreeMap, HashMap};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// How many nodes came out right, were refused, and were wrong.
#[derive(Default)]
pub struct Counts {
    pub right: usize,
    /// Refusals by operator and reason.
    pub refused: BTreeMap<String, usize>,
    pub wrong: usize,
}

type Family = (fn(&mut Rng) -> Drawn, fn(&Drawn) -> Vec<Wide>);

/// Who draws and who judges each family.
const FAMILIES: [Family; 20] = [
    (elementwise::unary, |drawn| vec![judge::elementwise::expect(drawn)]),
    (elementwise::binary, |drawn| vec![judge::elementwise::expect(drawn)]),
    (elementwise::several, |drawn| vec![judge::elementwise::expect(drawn)]),
    (elementwise::activation, |drawn| vec![judge::elementwise::expect(drawn)]),
    (sums::reduction, |drawn| vec![judge::sums::reduction(drawn)]),
    (sums::softmax, |drawn| vec![judge::sums::softmax(drawn)]),
    (sums::product, |drawn| vec![judge::sums::product(drawn)]),
    (layout::slice, judge::layout::expect),
    (layout::pad, judge::layout::expect),
    (layout::moved, judge::layout::expect),
    (layout::named, |drawn| match drawn.inputs[..] {
        [] => judge::layout::constant(drawn),
        _ => judge::layout::expect(drawn),
    }),
    (layout::cast, judge::layout::cast),
    (windows::convolution, judge::windows::convolution),
    (windows::pooling, judge::windows::pooling),
    (norms::normalization, judge::norms::expect),
    (resample::resized, judge::resample::resized),
    (resample::sampled, judge::resample::sampled),
    (training::loss, judge::training::loss),
    (training::dropout, judge::training::dropout),
    (training::step, judge::training::step),
];

/// Draws, computes and judges nodes. Writes the computed ones as models where a folder is named.
pub fn run(seed: u64, nodes: std::ops::Range<u64>, export: Option<&Path>, device: &Device) -> Result<Counts> {
    let mut counts = Counts::default();
    for index in nodes {
        let (draw, expect) = FAMILIES[(index % FAMILIES.len() as u64) as usize];
        let drawn = draw(&mut Rng::new(seed, index));
        let computed = catch_unwind(AssertUnwindSafe(|| compute(&drawn, device)))
            .unwrap_or_else(|_| Err(Stop::failed("panicked")));
        let wrong = match &computed {
            Err(Stop::Refused(reason)) => {
                *counts.refused.entry(format!("{}: {reason}", drawn.node.op_type)).or_default() += 1;
                continue;
            }
            Err(Stop::Failed(reason)) => Some(reason.clone()),
            Ok(got) => {
                let expected = expect(&drawn);
                expected.iter().enumerate().find_map(|(i, expected)| match got.get(i) {
                    Some(got) => judge::difference(expected, got).map(|what| format!("output {i}: {what}")),
                    None => Some(format!("expected an output {i}, given none")),
                })
            }
        };
        match wrong {
            Some(what) => {
                counts.wrong += 1;
                println!("WRONG  --seed {seed} --only {index}  {what}\n       {drawn}");
            }
            None => counts.right += 1,
        }
        if let (Some(folder), Ok(got)) = (export, &computed) {
            let path = folder.join(format!("{seed}-{index}.onnx"));
            std::fs::write(&path, model(&drawn, got).encode_to_vec())
                .with_context(|| format!("writing {}", path.display()))?;
        }
    }
    Ok(counts)
}

/// A node's outputs, by our operators.
fn compute(drawn: &Drawn, device: &Device) -> Result<Vec<Value>, Stop> {
    let opset = OperatorSetProto { domain: drawn.node.domain.clone(), version: drawn.opset };
    let model = ModelProto { opset_import: vec![opset], ..Default::default() };
    let mut values = HashMap::new();
    for (name, value) in drawn.node.input.iter().zip(&drawn.inputs) {
        if let Some(value) = value {
            values.insert(&name[..], Ok(value.clone()));
        }
    }
    graph::compute_node(&model, &drawn.node, &values, device)
}

/// The node as a model, with the values of inputs and our outputs as initializers.
fn model(drawn: &Drawn, outputs: &[Value]) -> ModelProto {
    let tensor = |name: &String, value: &Value| TensorProto {
        name: name.clone(),
        dims: value.dims.clone(),
        data_type: value.element as i32,
        raw_data: value.bytes.clone(),
        ..Default::default()
    };
    let node: &NodeProto = &drawn.node;
    let inputs = node.input.iter().zip(&drawn.inputs);
    let mut initializer: Vec<_> = inputs.filter_map(|(name, value)| Some(tensor(name, value.as_ref()?))).collect();
    initializer.extend(node.output.iter().zip(outputs).map(|(name, value)| tensor(name, value)));
    let graph = GraphProto { node: vec![node.clone()], initializer, ..Default::default() };
    let opset = OperatorSetProto { domain: drawn.node.domain.clone(), version: drawn.opset };
    ModelProto { graph: Some(graph), opset_import: vec![opset] }
}

#[cfg(test)]
mod tests {
    use super::draw::reals;
    use super::*;
    use crate::ops::{self, By};
    use crate::value::ElementType::{Double, Float, Int32};
    use std::collections::BTreeSet;

    /// What a node gives on the CPU, once the judge has agreed.
    fn computed(drawn: &Drawn, expect: fn(&Drawn) -> Vec<Wide>) -> Vec<f64> {
        let got = compute(drawn, &Device::new(&oxidnn::Context::cpu()).unwrap()).unwrap();
        assert_eq!(judge::difference(&expect(drawn)[0], &got[0]), None, "{drawn}");
        got[0].reals().unwrap()
    }

    fn row(values: &[f64], dims: &[i64]) -> Value {
        reals(Float, dims, values)
    }

    #[test]
    fn old_versions_are_computed_by_their_own_rules() {
        let x = || row(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], &[1, 1, 2, 4]);
        let drawn = Drawn::new("Slice", 1).input(x()).ints("starts", &[1]).ints("ends", &[-1]).ints("axes", &[3]);
        assert_eq!(computed(&drawn, judge::layout::expect), [2.0, 3.0, 6.0, 7.0]);
        let drawn = Drawn::new("Pad", 2).input(row(&[1.0], &[1])).ints("pads", &[1, 2]).float("value", 0.5);
        assert_eq!(computed(&drawn, judge::layout::expect), [0.5, 1.0, 0.5, 0.5]);
        let drawn = Drawn::new("Resize", 10).input(x()).input(row(&[1.0, 1.0, 0.6, 0.6], &[4]));
        assert_eq!(computed(&drawn, judge::resample::resized), [1.0, 3.0]);
        let clip = |drawn: &Drawn| vec![judge::elementwise::expect(drawn)];
        let drawn = Drawn::new("Clip", 6).input(row(&[-2.0, 0.5, f64::INFINITY], &[3])).float("min", -1.0);
        assert_eq!(computed(&drawn, clip), [-1.0, 0.5, f64::from(f32::MAX)]);
        let softmax = |drawn: &Drawn| vec![judge::sums::softmax(drawn)];
        let drawn = Drawn::new("Softmax", 11).input(row(&[0.0; 8], &[1, 2, 4]));
        assert_eq!(computed(&drawn, softmax), [0.125; 8]);
    }

    #[test]
    fn results_are_those_of_the_text() {
        // One element is at place 0, whatever the scale says.
        let drawn = Drawn::new("Resize", 19).input(row(&[1.0, 2.0, 3.0], &[3])).no_input().input(row(&[0.5], &[1]));
        let drawn = drawn.word("coordinate_transformation_mode", "pytorch_half_pixel").word("nearest_mode", "ceil");
        assert_eq!(computed(&drawn, judge::resample::resized), [1.0]);
        let wide = 1i64 << 60;
        let drawn = Drawn::new("Cast", 13).input(Value::of_ints(&[wide + 2, -wide - 2])).int("to", Double as i64);
        assert_eq!(computed(&drawn, judge::layout::cast), [wide as f64, -wide as f64]);
        let drawn = Drawn::new("MeanVarianceNormalization", 13).input(row(&[1e3; 4], &[2, 2])).ints("axes", &[1]);
        assert_eq!(computed(&drawn, judge::norms::expect), [0.0; 4]);
        let (x, scale) = (reals(Double, &[1, 3], &[1.0, 2.0, 3.0]), reals(Double, &[3], &[1.0, 2.0, 3.0]));
        let drawn = Drawn::new("LayerNormalization", 17).input(x).input(scale).output().output();
        let got = compute(&drawn, &Device::new(&oxidnn::Context::cpu()).unwrap()).unwrap();
        assert_eq!(judge::difference(&judge::norms::expect(&drawn)[1], &got[1]), None);
    }

    #[test]
    fn what_others_read_in_another_way_has_a_reason() {
        let device = Device::new(&oxidnn::Context::cpu()).unwrap();
        let x = || row(&[1.0, 2.0, 3.0, 4.0], &[1, 1, 2, 2]);
        let sampled = Drawn::new("GridSample", 22).input(x()).input(row(&[1.5, 0.0], &[1, 1, 1, 2]));
        let index = Value::of_ints(&[0, 4, 1, 14]).with_dims(&[1, 1, 2, 2]);
        let unpooled = Drawn::new("MaxUnpool", 11).input(x()).input(index);
        for drawn in [
            sampled.word("mode", "cubic").word("padding_mode", "border"),
            unpooled.ints("kernel_shape", &[2, 2]).ints("strides", &[2, 2]),
        ] {
            assert!(matches!(compute(&drawn, &device), Err(Stop::Refused(_))), "{drawn}");
        }
    }

    #[test]
    fn what_old_versions_ask_for_beyond_that_has_a_reason() {
        let device = Device::new(&oxidnn::Context::cpu()).unwrap();
        let x = || row(&[1.0, 2.0], &[1, 2]);
        let small = || row(&[1.0, 2.0], &[2]);
        let norm = Drawn::new("BatchNormalization", 6).input(x()).input(small()).input(small()).input(small());
        let cases =
            [norm.input(small()), Drawn::new("Dropout", 7).input(x()).output(), Drawn::new("Slice", 1).input(x())];
        for drawn in &cases {
            assert!(matches!(compute(drawn, &device), Err(Stop::Refused(_))), "{drawn}");
        }
    }

    #[test]
    fn every_mapped_operator_is_drawn() {
        let name = |node: NodeProto| match &node.domain[..] {
            "" => node.op_type,
            domain => format!("{domain}.{}", node.op_type),
        };
        let draw = |index: u64| FAMILIES[(index % FAMILIES.len() as u64) as usize].0(&mut Rng::new(20, index));
        let drawn: BTreeSet<String> = (0..10_000).map(|index| name(draw(index).node)).collect();
        let mapped = ops::all().filter(|op| !matches!(op.by, By::Nothing)).map(|op| op.name.to_owned());
        assert_eq!(mapped.collect::<BTreeSet<_>>(), drawn);
    }

    #[test]
    fn the_judge_sees_what_is_wrong() {
        let drawn = Drawn::new("Add", 14).input(Value::of_ints(&[(1 << 60) + 1])).input(Value::of_ints(&[2]));
        let expected = judge::elementwise::expect(&drawn);
        assert_eq!(judge::difference(&expected, &Value::of_ints(&[(1 << 60) + 3])), None);
        assert!(judge::difference(&expected, &Value::of_ints(&[(1 << 60) + 4])).is_some());
        let wrapped = Wide::int(Int32, &[1], vec![i128::from(i32::MAX) + 1]);
        assert_eq!(wrapped.ints(), [i128::from(i32::MIN)]);
    }
}
