//! Poolings.

use super::window::Windows;
use super::{Op, op};
use crate::device::Device;
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;
use oxidnn::ops::pool::{PoolDesc, PoolMode, PoolProblem};

pub const OPS: &[Op] = &[
    op("AveragePool", "pool", pool),
    op("GlobalAveragePool", "pool", global),
    op("GlobalMaxPool", "pool", global),
    op("MaxPool", "pool", pool),
];

fn global(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let mode = if node.op() == "GlobalMaxPool" { PoolMode::Max } else { PoolMode::AverageIncludePadding };
    let desc = PoolDesc::new(mode, x.dims().get(2..).unwrap_or_default());
    pooled(device, &x, &desc)
}

fn pool(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let image = x.dims().get(2..).unwrap_or_default();
    let windows = Windows::of(node, image.len(), None)?;
    let mode = match (node.op(), node.int("count_include_pad", 0)) {
        ("MaxPool", _) => PoolMode::Max,
        (_, 0) => PoolMode::AverageExcludePadding,
        _ => PoolMode::AverageIncludePadding,
    };
    if node.int("ceil_mode", 0) != 0 {
        return Err(Stop::refused("pool rounds the number of windows down, and ceil_mode is 1"));
    }
    if windows.dilation.iter().any(|&dilation| dilation != 1) {
        return Err(Stop::refused("pool has no dilation"));
    }
    node.int("storage_order", 0);
    if node.wants(1) {
        return Err(Stop::refused("pool gives no indices"));
    }
    let (begin, end) = windows.pads(image);
    let desc = PoolDesc::new(mode, &windows.kernel).padding(&begin).padding_end(&end).stride(&windows.stride);
    pooled(device, &x, &desc)
}

fn pooled(device: &Device, x: &crate::device::Array, desc: &PoolDesc) -> Result<Vec<Value>, Stop> {
    let x_layout = x.layout();
    let mut y = device.zeros(x.dtype(), &desc.output_dims(&x_layout.desc)?)?;
    let y_layout = y.layout();
    device.map((x, &x_layout), (&mut y, &y_layout), |x, y| PoolProblem::forward(desc, x, y))?;
    Ok(vec![device.value(&y)?])
}
