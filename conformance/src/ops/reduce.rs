//! Reductions, and what is divided by one.

use super::elementwise::{Formula, compute};
use super::{Op, op};
use crate::device::{Array, Device};
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;
use oxidnn::ops::reduce::{ReducePass as Pass, ReduceProblem};
use oxidnn::{Args, DType};

pub const OPS: &[Op] = &[
    op("ArgMax", "reduce max with indices", arg),
    op("ArgMin", "reduce min with indices", arg),
    op("LpNormalization", "reduce norm, pointwise chain", lp_normalization),
    op("ReduceL1", "reduce norm1", reduce),
    op("ReduceL2", "reduce norm2", reduce),
    op("ReduceLogSum", "reduce log_sum", reduce),
    op("ReduceLogSumExp", "reduce log_sum_exp", reduce),
    op("ReduceMax", "reduce max", reduce),
    op("ReduceMean", "reduce avg", reduce),
    op("ReduceMin", "reduce min", reduce),
    op("ReduceProd", "reduce mul", reduce),
    op("ReduceSum", "reduce add", reduce),
    op("ReduceSumSquare", "reduce sum_square", reduce),
];

/// x reduced over some axes, which have the extent 1 then.
fn reduced(device: &Device, pass: Pass, x: &Array, axes: &[usize]) -> Result<Array, Stop> {
    let mut y = device.zeros(x.dtype(), &with_ones(x, axes))?;
    let (x_layout, y_layout) = (x.layout(), y.layout());
    device.map((x, &x_layout), (&mut y, &y_layout), |x, y| ReduceProblem::new(pass, x, y))?;
    Ok(y)
}

/// Extents of x with 1 for some axes.
fn with_ones(x: &Array, axes: &[usize]) -> Vec<i64> {
    x.dims().iter().enumerate().map(|(i, &dim)| if axes.contains(&i) { 1 } else { dim }).collect()
}

/// The same without those axes, unless the node keeps them.
fn kept(node: &Node<'_>, y: Array, axes: &[usize]) -> Result<Array, Stop> {
    if node.int("keepdims", 1) != 0 {
        return Ok(y);
    }
    let dims: Vec<i64> = (0..y.dims().len()).filter(|i| !axes.contains(i)).map(|i| y.dims()[i]).collect();
    y.with_dims(&dims)
}

fn reduce(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let pass = match node.op() {
        "ReduceL1" => Pass::Norm1,
        "ReduceL2" => Pass::Norm2,
        "ReduceLogSum" => Pass::LogSum,
        "ReduceLogSumExp" => Pass::LogSumExp,
        "ReduceMax" => Pass::Max,
        "ReduceMean" => Pass::Avg,
        "ReduceMin" => Pass::Min,
        "ReduceProd" => Pass::Mul,
        "ReduceSum" => Pass::Add,
        "ReduceSumSquare" => Pass::SumSquare,
        other => return Err(Stop::failed(format!("expected a reduction, given {other}"))),
    };
    let x = device.array(node.input(0)?)?;
    let mut axes = node.axes(1, x.dims().len())?.unwrap_or_default();
    // Without axes, all are meant, or with this attribute none.
    let means_none = node.int("noop_with_empty_axes", 0) != 0;
    if axes.is_empty() && !means_none {
        axes = (0..x.dims().len()).collect();
    }
    let y = reduced(device, pass, &x, &axes)?;
    Ok(vec![device.value(&kept(node, y, &axes)?)?])
}

fn arg(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    if node.int("select_last_index", 0) != 0 {
        return Err(Stop::refused("reduce gives the index of the first of equal elements, and select_last_index is 1"));
    }
    let pass = if node.op() == "ArgMax" { Pass::Max } else { Pass::Min };
    let x = device.array(node.input(0)?)?;
    let axes = [node.axis(0, x.dims().len())?];
    let dims = with_ones(&x, &axes);
    let (mut y, mut indices) = (device.zeros(x.dtype(), &dims)?, device.zeros(DType::I64, &dims)?);
    let (x_layout, y_layout, indices_layout) = (x.layout(), y.layout(), indices.layout());
    let problem = ReduceProblem::new(pass, &x_layout.desc, &y_layout.desc)?.with_indices(&indices_layout.desc)?;
    let args = Args::new().input("x", x.at(&x_layout)?).output("y", y.at_mut(&y_layout)?);
    device.run(&problem, args.output("indices", indices.at_mut(&indices_layout)?))?;
    Ok(vec![device.value(&kept(node, indices, &axes)?)?])
}

/// `x / norm`, 0 where the norm is.
fn lp_normalization(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let axis = node.axis(-1, x.dims().len())?;
    let pass = if node.int("p", 2) == 1 { Pass::Norm1 } else { Pass::Norm2 };
    let norm = reduced(device, pass, &x, &[axis])?;
    let dtype = x.dtype();
    compute(device, Formula::Steps(&["div:b", "select:_:0:b"]), &[x, norm], dtype, 1.0)
}
