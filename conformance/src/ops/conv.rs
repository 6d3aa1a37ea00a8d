//! Convolutions.

use super::window::{Padding, Windows, shared};
use super::{Op, op};
use crate::device::{Array, Device};
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;
use oxidnn::Args;
use oxidnn::epilogue::Epilogue;
use oxidnn::ops::activation::ActivationMode;
use oxidnn::ops::bias::BiasProblem;
use oxidnn::ops::conv::{ConvDesc, ConvProblem};

pub const OPS: &[Op] = &[
    op("Conv", "conv fprop with a bias", conv),
    op("ConvInteger", "conv fprop", conv_integer),
    op("ConvTranspose", "conv dgrad, bias", conv_transpose),
    op("CausalConvWithState", "transform, conv fprop with bias and activation", causal_conv_with_state),
];

fn conv(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let (x, w) = (device.array(node.input(0)?)?, device.array(node.input(1)?)?);
    let bias = node.optional(2).map(|bias| device.array(bias)).transpose()?;
    let desc = described(node, &x, &w)?;
    let dims = desc.output_dims(&x.layout().desc, &w.layout().desc)?;
    let mut y = device.zeros(x.dtype(), &dims)?;
    fprop(device, &desc, [&x, &w], bias.as_ref(), ActivationMode::Identity, &mut y)?;
    Ok(vec![device.value(&y)?])
}

/// The descriptor of a convolution node for its operands.
fn described(node: &Node<'_>, x: &Array, w: &Array) -> Result<ConvDesc, Stop> {
    let image = x.dims().get(2..).unwrap_or_default();
    let windows = Windows::of(node, image.len(), w.dims().get(2..))?;
    let (begin, end) = windows.pads(image);
    let desc = ConvDesc::new().padding(&begin).padding_end(&end).stride(&windows.stride).dilation(&windows.dilation);
    Ok(desc.groups(node.int("group", 1)))
}

/// `y = act(conv(x, w) + bias)`.
fn fprop(
    device: &Device,
    desc: &ConvDesc,
    [x, w]: [&Array; 2],
    bias: Option<&Array>,
    activation: ActivationMode,
    y: &mut Array,
) -> Result<(), Stop> {
    let (x_layout, w_layout, y_layout) = (x.layout(), w.layout(), y.layout());
    let mut epilogue = Epilogue::new().activation(activation, 1.0);
    if let Some(bias) = bias {
        epilogue = epilogue.bias(&bias.layout().desc);
    }
    let problem = ConvProblem::fprop(desc, &x_layout.desc, &w_layout.desc, &y_layout.desc)?.with_epilogue(epilogue)?;
    let mut args =
        Args::new().input("x", x.at(&x_layout)?).input("w", w.at(&w_layout)?).output("y", y.at_mut(&y_layout)?);
    if let Some(bias) = bias {
        args = args.input("bias", bias.at(&bias.layout())?);
    }
    device.run(&problem, args)
}

fn conv_integer(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    for (name, input) in [("x", 2), ("w", 3)] {
        if let Some(zero) = node.optional(input)
            && zero.ints()?.iter().any(|&zero| zero != 0)
        {
            return Err(Stop::refused(format!("conv has no zero points, and {name} has one")));
        }
    }
    let (x, w) = (device.array(node.input(0)?)?, device.array(node.input(1)?)?);
    let desc = described(node, &x, &w)?;
    let dims = desc.output_dims(&x.layout().desc, &w.layout().desc)?;
    let mut y = device.zeros(oxidnn::DType::I32, &dims)?;
    fprop(device, &desc, [&x, &w], None, ActivationMode::Identity, &mut y)?;
    Ok(vec![device.value(&y)?])
}

/// A transposed convolution is the gradient of a convolution by its input: ONNX's X is our dy, its Y our dx.
fn conv_transpose(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let (dy, w) = (device.array(node.input(0)?)?, device.array(node.input(1)?)?);
    let image = dy.dims().get(2..).unwrap_or_default();
    let windows = Windows::of(node, image.len(), w.dims().get(2..))?;
    let groups = node.int("group", 1);
    let more = node.ints("output_padding").map_or(vec![0; image.len()], <[i64]>::to_vec);
    let asked_for = node.ints("output_shape").map(|dims| &dims[dims.len().saturating_sub(image.len())..]);
    let mut dims = vec![dy.dims()[0], w.dims().get(1).copied().unwrap_or(1) * groups];
    let (mut begin, mut end) = (Vec::new(), Vec::new());
    for (axis, &n_windows) in image.iter().enumerate() {
        // All that windows reach, and what is asked for at the end besides.
        let reach = windows.stride[axis] * (n_windows - 1) + windows.extent(axis) + more[axis];
        let extent = match (asked_for, &windows.padding) {
            (Some(dims), _) => dims[axis],
            (None, Padding::Same { .. }) => n_windows * windows.stride[axis],
            (None, Padding::Given(begin, end)) => reach - begin[axis] - end[axis],
        };
        let (pad, pad_end) = match (asked_for, &windows.padding) {
            (None, Padding::Given(begin, end)) => (begin[axis], end[axis]),
            // More than windows reach is no padding but elements at the end that no window meets.
            (_, Padding::Same { odd_at_end }) => shared((reach - extent).max(0), *odd_at_end),
            (Some(_), Padding::Given(..)) => shared((reach - extent).max(0), false),
        };
        dims.push(extent);
        begin.push(pad);
        end.push(pad_end);
    }
    let desc = ConvDesc::new().padding(&begin).padding_end(&end).stride(&windows.stride);
    let desc = desc.dilation(&windows.dilation).groups(groups);
    let mut dx = device.zeros(dy.dtype(), &dims)?;
    let (dy_layout, w_layout, dx_layout) = (dy.layout(), w.layout(), dx.layout());
    let problem = ConvProblem::dgrad(&desc, &dy_layout.desc, &w_layout.desc, &dx_layout.desc)?;
    let args = Args::new().input("dy", dy.at(&dy_layout)?).input("w", w.at(&w_layout)?);
    device.run(&problem, args.output("dx", dx.at_mut(&dx_layout)?))?;
    let Some(bias) = node.optional(2) else { return Ok(vec![device.value(&dx)?]) };
    let bias = device.array(bias)?;
    let mut y = device.zeros(dy.dtype(), &dims)?;
    let problem = BiasProblem::forward(&dx_layout.desc, &bias.layout().desc, &dx_layout.desc)?;
    let args = Args::new().input("x", dx.at(&dx_layout)?).input("bias", bias.at(&bias.layout())?);
    device.run(&problem, args.output("y", y.at_mut(&dx_layout)?))?;
    Ok(vec![device.value(&y)?])
}

/// Past positions and new ones stand in one row, over which a convolution of one filter a channel goes.
fn causal_conv_with_state(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let (x, w) = (device.array(node.input(0)?)?, device.array(node.input(1)?)?);
    let activation = match node.word("activation", "none")? {
        "none" => ActivationMode::Identity,
        "silu" | "swish" => ActivationMode::Swish,
        other => return Err(Stop::failed(format!("expected none, silu or swish, given {other}"))),
    };
    let bias = node.optional(2).map(|bias| device.array(bias)).transpose()?;
    let [n, channels, len] = x.dims()[..] else {
        return Err(Stop::failed(format!("expected 3 dimensions, given {:?}", x.dims())));
    };
    let n_past = w.dims().get(2).copied().unwrap_or(1) - 1;
    let mut row = device.zeros(x.dtype(), &[n, channels, n_past + len])?;
    let copy = |from: &Array, at: i64, to: &mut Array, to_at: i64, len: i64| {
        let (from_layout, to_layout) = (from.layout().part(2, at, len, 1)?, to.layout().part(2, to_at, len, 1)?);
        device.copy((from, &from_layout), (to, &to_layout))
    };
    copy(&x, 0, &mut row, n_past, len)?;
    if let Some(past) = node.optional(3).filter(|_| n_past > 0) {
        copy(&device.array(past)?, 0, &mut row, 0, n_past)?;
    }
    let mut y = device.zeros(x.dtype(), x.dims())?;
    fprop(device, &ConvDesc::new().groups(channels), [&row, &w], bias.as_ref(), activation, &mut y)?;
    let mut outputs = vec![device.value(&y)?];
    if node.wants(1) {
        let mut present = device.zeros(x.dtype(), &[n, channels, n_past])?;
        copy(&row, len, &mut present, 0, n_past)?;
        outputs.push(device.value(&present)?);
    }
    Ok(outputs)
}
