//! Normalizations.

use super::{Op, op};
use crate::device::{Array, Device};
use crate::layout::Layout;
use crate::node::{Node, axis_of};
use crate::stop::Stop;
use crate::value::{ElementType, Value};
use oxidnn::Args;
use oxidnn::ops::lrn::{LrnDesc, LrnProblem, LrnRegion};
use oxidnn::ops::norm::{NormDesc, NormMode, NormProblem, NormTensors};

pub const OPS: &[Op] = &[
    op("BatchNormalization", "norm batch, inference and forward", batch),
    op("GroupNormalization", "norm group", grouped),
    op("InstanceNormalization", "norm instance", grouped),
    op("LRN", "lrn across_channels", lrn),
    op("LayerNormalization", "norm layer", by_axis),
    op("MeanVarianceNormalization", "norm layer", mean_variance),
    op("RMSNormalization", "norm rms", by_axis),
];

fn batch(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let [x, scale, bias] = three(node, device)?;
    let [mut mean, mut var] = [device.array(node.input(3)?)?, device.array(node.input(4)?)?];
    let (momentum, trains) = (node.float("momentum", 0.9), node.int("training_mode", 0) != 0);
    if node.opset < 14 {
        let n_outputs = (0..node.n_outputs()).filter(|&i| node.wants(i)).count();
        if n_outputs > 1 || (node.opset < 7 && node.int("is_test", 0) == 0) {
            let what = format!("and version {} trains with {n_outputs} outputs", node.opset);
            return Err(Stop::refused(format!("norm has not the saved statistics of versions before 14, {what}")));
        }
        if node.opset < 9 && node.int("spatial", 1) == 0 {
            return each_element(node, device, [x, scale, bias, mean, var]);
        }
    }
    let desc = NormDesc::new(NormMode::Batch).epsilon(node.float("epsilon", 1e-5)).factor(1.0 - momentum);
    let desc = desc.unbiased(false);
    let (layout, small) = (x.layout(), scale.layout());
    let tensors = NormTensors::new().scale(&small.desc).bias(&bias.layout().desc).running(&mean.layout().desc);
    let mut y = device.zeros(x.dtype(), x.dims())?;
    let args = Args::new().input("x", x.at(&layout)?).input("scale", scale.at(&small)?);
    let args = args.input("bias", bias.at(&bias.layout())?).output("y", y.at_mut(&layout)?);
    let (mean_layout, var_layout) = (mean.layout(), var.layout());
    if !trains {
        let problem = NormProblem::inference(&desc, &layout.desc, &layout.desc, &tensors)?;
        let args = args.input("running_mean", mean.at(&mean_layout)?).input("running_var", var.at(&var_layout)?);
        device.run(&problem, args)?;
        return Ok(vec![device.value(&y)?]);
    }
    let problem = NormProblem::forward(&desc, &layout.desc, &layout.desc, &tensors)?;
    let args = args.output("running_mean", mean.at_mut(&mean_layout)?);
    device.run(&problem, args.output("running_var", var.at_mut(&var_layout)?))?;
    Ok(vec![device.value(&y)?, device.value(&mean)?, device.value(&var)?])
}

/// Inference with statistics of each element of an image, as versions before 9 have it with `spatial` 0: elements are
/// channels.
fn each_element(node: &Node<'_>, device: &Device, arrays: [Array; 5]) -> Result<Vec<Value>, Stop> {
    let desc = NormDesc::new(NormMode::Batch).epsilon(node.float("epsilon", 1e-5));
    let [x, scale, bias, mean, var] = arrays;
    let dims = x.dims().to_vec();
    let n_elems: i64 = dims.iter().skip(1).product();
    let flat = |array: Array| array.with_dims(&[n_elems]);
    let x = x.with_dims(&[dims[0], n_elems, 1])?;
    let (scale, bias, mean, var) = (flat(scale)?, flat(bias)?, flat(mean)?, flat(var)?);
    let (layout, small) = (x.layout(), scale.layout());
    let tensors = NormTensors::new().scale(&small.desc).bias(&bias.layout().desc).running(&mean.layout().desc);
    let mut y = device.zeros(x.dtype(), x.dims())?;
    let problem = NormProblem::inference(&desc, &layout.desc, &layout.desc, &tensors)?;
    let args = Args::new().input("x", x.at(&layout)?).input("scale", scale.at(&small)?);
    let args = args.input("bias", bias.at(&small)?).input("running_mean", mean.at(&small)?);
    device.run(&problem, args.input("running_var", var.at(&small)?).output("y", y.at_mut(&layout)?))?;
    Ok(vec![device.value(&y.with_dims(&dims)?)?])
}

fn three(node: &Node<'_>, device: &Device) -> Result<[Array; 3], Stop> {
    Ok([device.array(node.input(0)?)?, device.array(node.input(1)?)?, device.array(node.input(2)?)?])
}

/// Normalization over groups of channels, or over each channel of an image.
fn grouped(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let [x, mut scale, mut bias] = three(node, device)?;
    let mode = match node.op() {
        "GroupNormalization" => {
            let groups = node.int("num_groups", 1);
            if node.opset < 21 {
                // Factor and bias are those of a group.
                let channels = x.dims().get(1).copied().unwrap_or(1);
                for small in [&mut scale, &mut bias] {
                    let layout =
                        small.layout().split(0, &[groups, 1])?.broadcast(&[groups, channels / groups.max(1)])?;
                    *small = device.packed((small, &layout), &[channels])?;
                }
            }
            NormMode::Group { groups }
        }
        _ => NormMode::Instance,
    };
    node.int("stash_type", 1);
    let desc = NormDesc::new(mode).epsilon(node.float("epsilon", 1e-5));
    let (layout, scale_layout, bias_layout) = (x.layout(), scale.layout(), bias.layout());
    let tensors = NormTensors::new().scale(&scale_layout.desc).bias(&bias_layout.desc);
    let mut y = device.zeros(x.dtype(), x.dims())?;
    let problem = NormProblem::forward(&desc, &layout.desc, &layout.desc, &tensors)?;
    let args = Args::new().input("x", x.at(&layout)?).input("scale", scale.at(&scale_layout)?);
    device.run(&problem, args.input("bias", bias.at(&bias_layout)?).output("y", y.at_mut(&layout)?))?;
    Ok(vec![device.value(&y)?])
}

/// Normalization over all dimensions from an axis on, with the statistics as further outputs.
fn by_axis(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let (x, scale) = (device.array(node.input(0)?)?, device.array(node.input(1)?)?);
    let bias = node.optional(2).map(|bias| device.array(bias)).transpose()?;
    let axis = node.axis(-1, x.dims().len())?;
    // The type that statistics are computed in: ours are in the accumulator of x's, which is f32 or better.
    let stash = ElementType::of(node.int("stash_type", 1) as i32)?.dtype()?;
    let mode = if node.op() == "RMSNormalization" { NormMode::Rms { axis } } else { NormMode::Layer { axis } };
    let desc = NormDesc::new(mode).epsilon(node.float("epsilon", 1e-5));
    let layout = x.layout();
    let repeated = |small: &Array| small.layout().broadcast(&x.dims()[axis..]);
    let scale_layout = repeated(&scale)?;
    let bias = bias.as_ref().map(|bias| Ok::<_, Stop>((bias, repeated(bias)?))).transpose()?;
    let mut tensors = NormTensors::new().scale(&scale_layout.desc);
    if let Some((_, bias_layout)) = &bias {
        tensors = tensors.bias(&bias_layout.desc);
    }
    let gives_statistics = node.wants(1) || node.wants(2);
    if gives_statistics {
        tensors = tensors.statistics();
    }
    let rows: Vec<i64> = (0..x.dims().len()).map(|i| if i < axis { x.dims()[i] } else { 1 }).collect();
    let mut y = device.zeros(x.dtype(), x.dims())?;
    let mut mean = device.zeros(x.dtype().accumulator(), &rows)?;
    let mut inv_std = device.zeros(x.dtype().accumulator(), &rows)?;
    let row_layout = mean.layout();
    let problem = NormProblem::forward(&desc, &layout.desc, &layout.desc, &tensors)?;
    let mut args = Args::new().input("x", x.at(&layout)?).input("scale", scale.at(&scale_layout)?);
    args = args.output("y", y.at_mut(&layout)?);
    if let Some((bias, bias_layout)) = &bias {
        args = args.input("bias", bias.at(bias_layout)?);
    }
    if gives_statistics {
        args = args.output("mean", mean.at_mut(&row_layout)?).output("inv_std", inv_std.at_mut(&row_layout)?);
    }
    device.run(&problem, args)?;
    if !gives_statistics {
        return Ok(vec![device.value(&y)?]);
    }
    // They have the type that they are said to be computed in, also where that is less than ours.
    let stashed = |statistic: &Array| {
        let mut to = device.zeros(stash, &rows)?;
        let to_layout = to.layout();
        device.copy((statistic, &row_layout), (&mut to, &to_layout))?;
        device.value(&to)
    };
    Ok(vec![device.value(&y)?, stashed(&mean)?, stashed(&inv_std)?])
}

/// Normalization over any axes, which become the last ones.
fn mean_variance(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let rank = x.dims().len();
    let axes = node.ints("axes").unwrap_or(&[0, 2, 3]);
    let axes = axes.iter().map(|&axis| axis_of(axis, rank)).collect::<Result<Vec<_>, _>>()?;
    let mut order: Vec<usize> = (0..rank).filter(|axis| !axes.contains(axis)).collect();
    let axis = order.len();
    order.extend(axes);
    let layout: Layout = x.layout().permuted(&order)?;
    let mut y = device.zeros(x.dtype(), x.dims())?;
    // ONNX adds 1e-9 to the deviation, so that a row of equal numbers is 0.
    let desc = NormDesc::new(NormMode::Layer { axis }).epsilon(1e-18);
    device.map((&x, &layout), (&mut y, &layout), |x, y| NormProblem::forward(&desc, x, y, &NormTensors::new()))?;
    Ok(vec![device.value(&y)?])
}

fn lrn(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let desc = LrnDesc::new(LrnRegion::AcrossChannels).window(node.int("size", 1)).k(node.float("bias", 1.0));
    let desc = desc.alpha(node.float("alpha", 1e-4)).beta(node.float("beta", 0.75));
    let mut y = device.zeros(x.dtype(), x.dims())?;
    let layout = x.layout();
    device.map((&x, &layout), (&mut y, &layout), |x, y| LrnProblem::forward(&desc, x, None, y))?;
    Ok(vec![device.value(&y)?])
}
