//! Softmax along an axis.

use super::{Op, op};
use crate::device::Device;
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;
use oxidnn::ops::softmax::{SoftmaxKind, SoftmaxMode, SoftmaxProblem};

pub const OPS: &[Op] = &[op("LogSoftmax", "softmax log", log_softmax), op("Softmax", "softmax accurate", softmax)];

fn softmax(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    along_axis(node, device, SoftmaxKind::Accurate)
}

fn log_softmax(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    along_axis(node, device, SoftmaxKind::Log)
}

/// The axis becomes our channels, what lies before it the batch, what lies behind it the positions.
fn along_axis(node: &Node<'_>, device: &Device, kind: SoftmaxKind) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let axis = node.axis(if node.opset < 13 { 1 } else { -1 }, x.dims().len())?;
    let product = |dims: &[i64]| dims.iter().product::<i64>();
    let rows = [product(&x.dims()[..axis]), x.dims()[axis], product(&x.dims()[axis + 1..])];
    // Before version 13, all dimensions from the axis on were one row.
    let rows = if node.opset < 13 { [rows[0], rows[1] * rows[2], 1] } else { rows };
    let layout = x.layout().reshaped(&rows)?;
    let mut y = device.zeros(x.dtype(), x.dims())?;
    device.map((&x, &layout), (&mut y, &layout), |x, y| SoftmaxProblem::forward(kind, SoftmaxMode::Channel, x, y))?;
    Ok(vec![device.value(&y)?])
}
