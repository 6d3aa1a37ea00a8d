//! Operators that pick elements of a tensor, or put others around them.

use super::layout::moved;
use super::{Op, op};
use crate::device::Device;
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;
use oxidnn::Args;
use oxidnn::ops::gather::GatherProblem;
use oxidnn::ops::pad::{PadMode, PadProblem};

pub const OPS: &[Op] =
    &[op("Gather", "gather", gather), op("Pad", "pad", pad), op("Slice", "transform; pad for negative steps", slice)];

fn slice(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let rank = x.dims().len();
    let (starts, ends) = (node.ints_or_input(10, "starts", 1)?, node.ints_or_input(10, "ends", 2)?);
    let axes = node.axes(3, rank)?.unwrap_or_else(|| (0..starts.len()).collect());
    let steps = node.optional(4).map_or(Ok(vec![1; starts.len()]), Value::ints)?;
    if [ends.len(), axes.len(), steps.len()].iter().any(|&n| n != starts.len()) || steps.contains(&0) {
        let given = format!("{starts:?}, {ends:?}, {axes:?}, {steps:?}");
        return Err(Stop::refused(format!(
            "expected starts, ends, axes and steps other than 0 of one length, given {given}"
        )));
    }
    let (mut start, mut step, mut dims) = (vec![0; rank], vec![1; rank], x.dims().to_vec());
    for (i, &axis) in axes.iter().enumerate() {
        let (dim, by) = (x.dims()[axis], steps[i]);
        let place = |at: i64| if at < 0 { at.saturating_add(dim) } else { at };
        // A walk backwards begins at the last index and ends before the first.
        let (first, behind) = if by > 0 { (0, dim) } else { (-1, dim - 1) };
        let from = place(starts[i]).clamp(first.max(0), behind);
        let to = place(ends[i]).clamp(first, behind);
        let len = (to - from).saturating_add(by - by.signum()) / by;
        if len < 1 {
            return Err(Stop::refused(format!("tensors have elements, and dimension {axis} would have the extent 0")));
        }
        // The step of one element may be beyond any extent.
        (start[axis], step[axis], dims[axis]) = (from, if len == 1 { by.signum() } else { by }, len);
    }
    if step.iter().any(|&step| step < 0) {
        let mut y = device.zeros(x.dtype(), &dims)?;
        let (x_layout, y_layout) = (x.layout(), y.layout());
        device.map((&x, &x_layout), (&mut y, &y_layout), |x, y| PadProblem::slice(&start, &step, x, y))?;
        return Ok(vec![device.value(&y)?]);
    }
    let mut layout = x.layout();
    for axis in 0..rank {
        layout = layout.part(axis, start[axis], dims[axis], step[axis])?;
    }
    moved(device, &x, &layout, &dims)
}

fn pad(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let rank = x.dims().len();
    let mode = match node.word("mode", "constant")? {
        "constant" => PadMode::Constant,
        "edge" => PadMode::Edge,
        "reflect" => PadMode::Reflect,
        "wrap" => PadMode::Wrap,
        other => return Err(Stop::failed(format!("expected a kind of padding, given {other}"))),
    };
    let pads = node.ints_or_input(11, if node.opset < 2 { "paddings" } else { "pads" }, 1)?;
    let value = match node.opset {
        ..11 => node.float("value", 0.0),
        _ => node.optional(2).map_or(Ok(vec![]), Value::reals)?.first().copied().unwrap_or(0.0),
    };
    let axes = node.axes(3, rank)?.unwrap_or_else(|| (0..rank).collect());
    if pads.len() != 2 * axes.len() {
        return Err(Stop::refused(format!("expected two pads of each of {} axes, given {pads:?}", axes.len())));
    }
    let (mut before, mut dims, mut x_layout) = (vec![0; rank], x.dims().to_vec(), x.layout());
    for (i, &axis) in axes.iter().enumerate() {
        let (begin, end) = (pads[i], pads[axes.len() + i]);
        before[axis] = begin;
        dims[axis] += begin + end;
        // What negative pads remove is not repeated by positive ones: as in onnxruntime, the image is cropped first.
        if mode != PadMode::Constant && begin.min(end) < 0 {
            before[axis] = begin.max(0);
            x_layout = x_layout.part(axis, (-begin).max(0), x.dims()[axis] + begin.min(0) + end.min(0), 1)?;
        }
    }
    let mut y = device.zeros(x.dtype(), &dims)?;
    let y_layout = y.layout();
    device.map((&x, &x_layout), (&mut y, &y_layout), |x, y| {
        Ok(PadProblem::forward(mode, &before, x, y)?.with_value(value))
    })?;
    Ok(vec![device.value(&y)?])
}

/// Indices of any extents are one row of them; the result has their extents in place of the axis.
fn gather(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let (x, indices) = (device.array(node.input(0)?)?, device.array(node.input(1)?)?);
    let axis = node.axis(0, x.dims().len())?;
    let (outer, inner) = (&x.dims()[..axis], &x.dims()[axis + 1..]);
    let row = indices.layout().reshaped(&[indices.dims().iter().product()])?;
    let mut y = device.zeros(x.dtype(), &[outer, row.dims(), inner].concat())?;
    let (x_layout, y_layout) = (x.layout(), y.layout());
    let problem = GatherProblem::forward(axis, &x_layout.desc, &row.desc, &y_layout.desc)?;
    let args = Args::new().input("x", x.at(&x_layout)?).input("indices", indices.at(&row)?);
    device.run(&problem, args.output("y", y.at_mut(&y_layout)?))?;
    let dims = [outer, indices.dims(), inner].concat();
    Ok(vec![device.value(&y.with_dims(&dims)?)?])
}
