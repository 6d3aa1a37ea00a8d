//! Poolings.

use super::window::Windows;
use super::{Op, op};
use crate::device::Device;
use crate::layout::Layout;
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;
use oxidnn::ops::pool::{IndexBase, PoolDesc, PoolMode, PoolProblem};
use oxidnn::ops::unpool::UnpoolProblem;
use oxidnn::{Args, DType};

pub const OPS: &[Op] = &[
    op("AveragePool", "pool average", pool),
    op("GlobalAveragePool", "pool average, one bin", global),
    op("GlobalMaxPool", "pool max, one bin", global),
    op("LpPool", "pool lp", pool),
    op("MaxPool", "pool max", pool),
    op("MaxUnpool", "unpool", unpool),
];

fn global(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let mode = if node.op() == "GlobalMaxPool" { PoolMode::Max } else { PoolMode::AverageIncludePadding };
    let desc = PoolDesc::global(mode);
    let x_layout = x.layout();
    let mut y = device.zeros(x.dtype(), &desc.output_dims(&x_layout.desc)?)?;
    let y_layout = y.layout();
    device.map((&x, &x_layout), (&mut y, &y_layout), |x, y| PoolProblem::forward(&desc, x, y))?;
    Ok(vec![device.value(&y)?])
}

fn pool(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let n_axes = x.dims().len().saturating_sub(2);
    let mode = match node.op() {
        "MaxPool" => PoolMode::Max,
        "LpPool" => PoolMode::Lp,
        _ if node.int("count_include_pad", 0) != 0 => PoolMode::AverageIncludePadding,
        _ => PoolMode::AverageExcludePadding,
    };
    // Places are counted along the columns with a storage order of 1: as in an image whose spatial axes stand in the
    // other order.
    let order = Order { n_axes, is_reversed: node.op() == "MaxPool" && node.int("storage_order", 0) == 1 };
    let x_layout = order.layout(&x.layout())?;
    let mut desc = described(node, mode, &order, &x_layout)?.index_base(IndexBase::Tensor);
    if mode == PoolMode::Lp {
        desc = desc.exponent(node.int("p", 2) as f64);
    }
    let dims = order.list(&desc.output_dims(&x_layout.desc)?);
    let mut y = device.zeros(x.dtype(), &dims)?;
    let y_layout = order.layout(&y.layout())?;
    if !node.wants(1) {
        device.map((&x, &x_layout), (&mut y, &y_layout), |x, y| PoolProblem::forward(&desc, x, y))?;
        return Ok(vec![device.value(&y)?]);
    }
    let mut index = device.zeros(DType::I64, &dims)?;
    let index_layout = order.layout(&index.layout())?;
    let problem = PoolProblem::forward_with_index(&desc, &x_layout.desc, &y_layout.desc, &index_layout.desc)?;
    let args = Args::new().input("x", x.at(&x_layout)?).output("y", y.at_mut(&y_layout)?);
    device.run(&problem, args.output("index", index.at_mut(&index_layout)?))?;
    Ok(vec![device.value(&y)?, device.value(&index)?])
}

/// The descriptor of a pooling of `x`, whose axes stand in this order.
fn described(node: &Node<'_>, mode: PoolMode, order: &Order, x: &Layout) -> Result<PoolDesc, Stop> {
    let windows = Windows::of(node, order.n_axes, None)?;
    let image = order.list(x.dims());
    let (begin, end) = windows.pads(image.get(2..).unwrap_or_default());
    let axes = |list: &[i64]| if order.is_reversed { list.iter().rev().copied().collect() } else { list.to_vec() };
    let desc = PoolDesc::new(mode, &axes(&windows.kernel)).padding(&axes(&begin)).padding_end(&axes(&end));
    let desc = desc.stride(&axes(&windows.stride)).dilation(&axes(&windows.dilation));
    Ok(if node.int("ceil_mode", 0) != 0 { desc.ceil() } else { desc })
}

/// In which order the spatial axes stand: as they are, or the last first.
struct Order {
    n_axes: usize,
    is_reversed: bool,
}

impl Order {
    fn places(&self) -> Vec<usize> {
        let axes = 2..2 + self.n_axes;
        if self.is_reversed { [0, 1].into_iter().chain(axes.rev()).collect() } else { (0..axes.end).collect() }
    }

    fn layout(&self, layout: &Layout) -> Result<Layout, Stop> {
        if self.is_reversed { layout.permuted(&self.places()) } else { Ok(*layout) }
    }

    /// Extents in this order, from those in the other or back.
    fn list(&self, dims: &[i64]) -> Vec<i64> {
        if self.is_reversed { self.places().into_iter().map(|place| dims[place]).collect() } else { dims.to_vec() }
    }
}

/// Numbers of places are those in the image that the windows need; a larger one has it in its first corner.
fn unpool(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let (x, index) = (device.array(node.input(0)?)?, device.array(node.input(1)?)?);
    let order = Order { n_axes: x.dims().len().saturating_sub(2), is_reversed: false };
    let (x_layout, index_layout) = (x.layout(), index.layout());
    let desc = described(node, PoolMode::Max, &order, &x_layout)?.index_base(IndexBase::Tensor);
    let image = desc.unpooled_dims(&x_layout.desc);
    let dims = node.optional(2).map_or(Ok(image.clone()), Value::ints)?;
    let mut y = device.zeros(x.dtype(), &dims)?;
    let mut y_layout = y.layout();
    for (axis, &extent) in image.iter().enumerate() {
        y_layout = y_layout.part(axis, 0, extent, 1)?;
    }
    let problem = UnpoolProblem::forward(&desc, &x_layout.desc, &index_layout.desc, &y_layout.desc)?;
    let args = Args::new().input("x", x.at(&x_layout)?).input("index", index.at(&index_layout)?);
    device.run(&problem, args.output("y", y.at_mut(&y_layout)?))?;
    Ok(vec![device.value(&y)?])
}
