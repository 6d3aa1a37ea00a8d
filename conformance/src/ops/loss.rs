//! Losses of classification.

use super::{Op, op};
use crate::device::Device;
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;
use oxidnn::Args;
use oxidnn::ops::crossentropy::{CrossEntropyDesc, CrossEntropyInput, CrossEntropyProblem, LossReduction};
use oxidnn::ops::softmax::{SoftmaxKind, SoftmaxMode, SoftmaxProblem};

pub const OPS: &[Op] = &[
    op("NegativeLogLikelihoodLoss", "crossentropy log_probs", loss),
    op("SoftmaxCrossEntropyLoss", "crossentropy logits, softmax log", loss),
];

fn loss(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let (x, target) = (device.array(node.input(0)?)?, device.array(node.input(1)?)?);
    let weight = node.optional(2).map(|weight| device.array(weight)).transpose()?;
    let (reduction, dims) = match node.word("reduction", "mean")? {
        "none" => (LossReduction::None, target.dims().to_vec()),
        "sum" => (LossReduction::Sum, vec![]),
        "mean" => (LossReduction::Mean, vec![]),
        other => return Err(Stop::failed(format!("expected none, sum or mean, given {other}"))),
    };
    let input = match node.op() {
        "SoftmaxCrossEntropyLoss" => CrossEntropyInput::Logits,
        _ => CrossEntropyInput::LogProbs,
    };
    let mut desc = CrossEntropyDesc::new().input(input).reduction(reduction);
    if let Some(class) = node.optional_int("ignore_index") {
        desc = desc.ignore_index(class);
    }
    let mut loss = device.zeros(x.dtype(), &dims)?;
    let (x_layout, target_layout, loss_layout) = (x.layout(), target.layout(), loss.layout());
    let weight_desc = weight.as_ref().map(|weight| weight.layout().desc);
    let problem = CrossEntropyProblem::forward(
        desc,
        &x_layout.desc,
        &target_layout.desc,
        weight_desc.as_ref(),
        &loss_layout.desc,
        None,
        None,
    )?;
    let mut args = Args::new().input("x", x.at(&x_layout)?).input("target", target.at(&target_layout)?);
    if let Some(weight) = &weight {
        args = args.input("weight", weight.at(&weight.layout())?);
    }
    device.run(&problem, args.output("loss", loss.at_mut(&loss_layout)?))?;
    let mut outputs = vec![device.value(&loss)?];
    if node.wants(1) {
        let mut log_prob = device.zeros(x.dtype(), x.dims())?;
        device.map((&x, &x_layout), (&mut log_prob, &x_layout), |x, y| {
            SoftmaxProblem::forward(SoftmaxKind::Log, SoftmaxMode::Channel, x, y)
        })?;
        outputs.push(device.value(&log_prob)?);
    }
    Ok(outputs)
}
