//! Functions of one number that networks use as activations.

use super::{Op, op};
use crate::device::Device;
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;
use oxidnn::ops::activation::{Activation, ActivationMode as Mode, ActivationProblem};

pub const OPS: &[Op] = &[
    op("Celu", "activation", activation),
    op("Elu", "activation", activation),
    op("Gelu", "activation", activation),
    op("HardSigmoid", "activation", activation),
    op("HardSwish", "activation", activation),
    op("LeakyRelu", "activation", activation),
    op("Mish", "activation", activation),
    op("Relu", "activation", activation),
    op("Selu", "activation", activation),
    op("Sigmoid", "activation", activation),
    op("Softplus", "activation", activation),
    op("Softsign", "activation", activation),
    op("Swish", "activation", activation),
    op("Tanh", "activation", activation),
    op("ThresholdedRelu", "activation", activation),
];

fn activation(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let alpha = |default: f64| node.float("alpha", default);
    let activation = match node.op() {
        "Celu" => Activation::new(Mode::Celu, &[alpha(1.0)]),
        "Elu" => Activation::new(Mode::Elu, &[alpha(1.0)]),
        "Gelu" if node.word("approximate", "none")? == "tanh" => Mode::GeluTanh.into(),
        "Gelu" => Mode::Gelu.into(),
        "HardSigmoid" => Activation::new(Mode::Hardsigmoid, &[alpha(0.2), node.float("beta", 0.5)]),
        "HardSwish" => Mode::Hardswish.into(),
        "LeakyRelu" => Activation::new(Mode::Relu, &[0.0, f64::INFINITY, alpha(0.01)]),
        "Mish" => Mode::Mish.into(),
        "Relu" => Mode::Relu.into(),
        // ONNX's defaults are ours rounded to f32.
        "Selu" if node.opset < 6 => Activation::new(Mode::Selu, &[alpha(1.6732), node.float("gamma", 1.0507)]),
        "Selu" => Activation::new(Mode::Selu, &[alpha(1.67326319), node.float("gamma", 1.05070102)]),
        "Sigmoid" => Mode::Sigmoid.into(),
        "Softplus" => Mode::Softplus.into(),
        "Softsign" => Mode::Softsign.into(),
        "Swish" => Activation::new(Mode::Swish, &[alpha(1.0)]),
        "Tanh" => Mode::Tanh.into(),
        "ThresholdedRelu" => Activation::new(Mode::ThresholdedRelu, &[alpha(1.0)]),
        other => return Err(Stop::failed(format!("expected an activation, given {other}"))),
    };
    let x = device.array(node.input(0)?)?;
    let mut y = device.zeros(x.dtype(), x.dims())?;
    let layout = x.layout();
    device.map((&x, &layout), (&mut y, &layout), |x, y| ActivationProblem::forward(activation, x, y))?;
    Ok(vec![device.value(&y)?])
}
