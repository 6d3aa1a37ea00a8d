//! Steps of optimizers.

use super::{Op, op};
use crate::device::{Array, Device};
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;
use oxidnn::operators::Operation;
use oxidnn::ops::adam::{AdamDesc, AdamMode, AdamProblem, AdamTensors};
use oxidnn::ops::sgd::{SgdDesc, SgdProblem, SgdTensors};
use oxidnn::{Args, Role};

pub const OPS: &[Op] =
    &[op("ai.onnx.preview.training.Adam", "adam", adam), op("ai.onnx.preview.training.Momentum", "sgd", momentum)];

/// The inputs behind learning rate and step: all tensors of the first kind, then all of the second, ….
fn kinds(node: &Node<'_>, device: &Device, n_kinds: usize) -> Result<Vec<Vec<Array>>, Stop> {
    let mut inputs = node.inputs()?[2..].iter().map(|input| device.array(input)).collect::<Result<Vec<_>, _>>()?;
    let n_tensors = inputs.len() / n_kinds;
    Ok((0..n_kinds).map(|_| inputs.drain(..n_tensors).collect()).collect())
}

/// Runs a step on the operands' arrays, given in their order.
fn step<P: Operation>(device: &Device, problem: &P, arrays: Vec<&mut Array>, rate: f64) -> Result<(), Stop> {
    let mut args = Args::new().alpha(rate);
    for (operand, array) in problem.operands().into_iter().zip(arrays) {
        let layout = array.layout();
        args = match operand.role {
            Role::Input => args.input(operand.name, array.at(&layout)?),
            _ => args.output(operand.name, array.at_mut(&layout)?),
        };
    }
    device.run(problem, args)
}

fn number(node: &Node<'_>, input: usize) -> Result<f64, Stop> {
    let numbers = node.input(input)?.reals()?;
    numbers.first().copied().ok_or_else(|| Stop::failed(format!("expected a number in input {input}, given none")))
}

/// ONNX adds epsilon to the root before the bias of the second moment is corrected, ours behind it.
fn adam(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let (rate, count) = (number(node, 0)?, number(node, 1)?);
    let mut kinds = kinds(node, device, 4)?;
    let (beta1, beta2) = (node.float("alpha", 0.9), node.float("beta", 0.999));
    let (epsilon, after) = (node.float("epsilon", 0.0), node.float("norm_coefficient_post", 0.0));
    if after != 0.0 {
        return Err(Stop::refused(format!("adam has no decay behind the step, and norm_coefficient_post is {after}")));
    }
    let corrects = count > 0.0;
    let second = if corrects { 1.0 - beta2.powf(count) } else { 1.0 };
    let desc = AdamDesc::new(AdamMode::Adam).betas(beta1, beta2).eps(epsilon / second.sqrt());
    let desc = desc.weight_decay(node.float("norm_coefficient", 0.0)).corrects_bias(corrects);
    let [ws, dws, ms, vs] = &mut kinds[..] else { return Err(Stop::failed("expected four kinds of tensors")) };
    let descs = ws.iter().map(|w| w.layout().desc);
    let tensors: Vec<AdamTensors> =
        descs.map(|desc| AdamTensors { dw: desc, m: desc, v: desc, w: desc, master: None }).collect();
    let problem = AdamProblem::new(desc, &tensors)?;
    let count = Value {
        element: crate::value::ElementType::Float,
        dims: vec![1],
        bytes: (count as f32).to_le_bytes().to_vec(),
    };
    let mut count = device.array(&count)?;
    let mut arrays: Vec<&mut Array> = corrects.then_some(&mut count).into_iter().collect();
    for (((w, dw), m), v) in ws.iter_mut().zip(dws).zip(ms.iter_mut()).zip(vs.iter_mut()) {
        arrays.extend([dw, m, v, w]);
    }
    step(device, &problem, arrays, rate)?;
    ws.iter().chain(&*ms).chain(&*vs).map(|array| device.value(array)).collect()
}

fn momentum(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let (rate, count) = (number(node, 0)?, number(node, 1)?);
    let mut kinds = kinds(node, device, 3)?;
    // The share of the gradient that the velocity gets: all of it in the first step.
    let share = if count > 0.0 { node.float("beta", 1.0) } else { 1.0 };
    node.float("beta", 1.0);
    let desc = SgdDesc::new().momentum(node.float("alpha", 0.0)).dampening(1.0 - share);
    let desc = desc.weight_decay(node.float("norm_coefficient", 0.0));
    let desc = desc.nesterov(node.word("mode", "standard")? == "nesterov");
    let [ws, dws, vs] = &mut kinds[..] else { return Err(Stop::failed("expected three kinds of tensors")) };
    let descs = ws.iter().map(|w| w.layout().desc);
    let tensors: Vec<SgdTensors> =
        descs.map(|desc| SgdTensors { dw: desc, v: Some(desc), w: desc, master: None }).collect();
    let problem = SgdProblem::new(desc, &tensors)?;
    let mut arrays = Vec::new();
    for ((w, dw), v) in ws.iter_mut().zip(dws).zip(vs.iter_mut()) {
        arrays.extend([dw, v, w]);
    }
    step(device, &problem, arrays, rate)?;
    ws.iter().chain(&*vs).map(|array| device.value(array)).collect()
}
