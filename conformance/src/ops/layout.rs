//! Operators that move elements, or store them as another type.

use super::{Op, op};
use crate::device::{Array, Device};
use crate::layout::Layout;
use crate::node::{Node, axis_of};
use crate::stop::Stop;
use crate::value::{ElementType, Value};

pub const OPS: &[Op] = &[
    op("Cast", "transform", cast),
    op("CastLike", "transform", cast_like),
    op("Concat", "transform", concat),
    op("DepthToSpace", "transform", depth_to_space),
    op("Expand", "transform", expand),
    op("Identity", "transform", identity),
    op("SpaceToDepth", "transform", space_to_depth),
    op("Split", "transform", split),
    op("Tile", "transform", tile),
    op("Transpose", "transform", transpose),
];

/// A view of the first input, as a tensor of these extents.
pub fn moved(device: &Device, x: &Array, layout: &Layout, dims: &[i64]) -> Result<Vec<Value>, Stop> {
    Ok(vec![device.value(&device.packed((x, layout), dims)?)?])
}

fn identity(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    moved(device, &x, &x.layout(), x.dims())
}

fn transpose(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let rank = x.dims().len();
    let order = match node.ints("perm") {
        Some(order) => order.iter().map(|&axis| axis_of(axis, rank)).collect::<Result<_, _>>()?,
        None => (0..rank).rev().collect::<Vec<_>>(),
    };
    let layout = x.layout().permuted(&order)?;
    moved(device, &x, &layout, layout.dims())
}

fn expand(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let dims = crate::layout::broadcast_dims([x.dims(), &node.input(1)?.ints()?])?;
    moved(device, &x, &x.layout().broadcast(&dims)?, &dims)
}

/// Each axis has its repeats in front, along a stride of 0.
fn tile(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let mut repeats = node.input(1)?.reals()?.iter().map(|&n| n as i64).collect::<Vec<_>>();
    if node.opset < 6 {
        // A number of copies along one axis.
        let (n_copies, axis) = (repeats.first().copied().unwrap_or(1), node.input(2)?.reals()?);
        let axis = axis_of(axis.first().copied().unwrap_or(0.0) as i64, x.dims().len())?;
        repeats = vec![1; x.dims().len()];
        repeats[axis] = n_copies;
    }
    let (mut layout, mut apart) = (x.layout(), Vec::new());
    for (axis, (&dim, &repeats)) in x.dims().iter().zip(&repeats).enumerate() {
        layout = layout.split(2 * axis, &[1, dim])?;
        apart.extend([repeats, dim]);
    }
    let dims: Vec<i64> = x.dims().iter().zip(&repeats).map(|(dim, repeats)| dim * repeats).collect();
    moved(device, &x, &layout.broadcast(&apart)?, &dims)
}

/// `[N, C, H, W]` to `[N, C b b, H / b, W / b]`.
fn space_to_depth(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let (block, [n, c, h, w]) = (node.int("blocksize", 1), image(&x)?);
    let apart = x.layout().split(3, &[w / block, block])?.split(2, &[h / block, block])?;
    let layout = apart.permuted(&[0, 3, 5, 1, 2, 4])?;
    moved(device, &x, &layout, &[n, c * block * block, h / block, w / block])
}

/// `[N, C, H, W]` to `[N, C / (b b), H b, W b]`; blocks are the outer part of the channels (`DCR`) or the inner (`CRD`).
fn depth_to_space(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let (block, [n, c, h, w]) = (node.int("blocksize", 1), image(&x)?);
    let depth = c / (block * block);
    let layout = match node.word("mode", "DCR")? {
        "DCR" => x.layout().split(1, &[block, block, depth])?.permuted(&[0, 3, 4, 1, 5, 2])?,
        _ => x.layout().split(1, &[depth, block, block])?.permuted(&[0, 1, 4, 2, 5, 3])?,
    };
    moved(device, &x, &layout, &[n, depth, h * block, w * block])
}

fn image(x: &Array) -> Result<[i64; 4], Stop> {
    x.dims().try_into().map_err(|_| Stop::failed(format!("expected 4 dimensions, given {:?}", x.dims())))
}

fn concat(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let parts: Vec<Array> = node.inputs()?.into_iter().map(|part| device.array(part)).collect::<Result<_, _>>()?;
    let first = parts.first().ok_or_else(|| Stop::failed("expected inputs, given none"))?;
    let axis = node.axis(i64::from(node.opset < 4), first.dims().len())?;
    let mut dims = first.dims().to_vec();
    dims[axis] = parts.iter().map(|part| part.dims()[axis]).sum();
    let mut y = device.zeros(first.dtype(), &dims)?;
    let mut start = 0;
    for part in &parts {
        let to = y.layout().part(axis, start, part.dims()[axis], 1)?;
        device.copy((part, &part.layout()), (&mut y, &to))?;
        start += part.dims()[axis];
    }
    Ok(vec![device.value(&y)?])
}

fn split(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let axis = node.axis(0, x.dims().len())?;
    let extent = x.dims()[axis];
    let n_parts = node.int("num_outputs", node.n_outputs() as i64);
    let share = (extent + n_parts - 1) / n_parts;
    let lens = match (node.optional(1), node.ints("split")) {
        (Some(lens), _) => lens.ints()?,
        (None, Some(lens)) => lens.to_vec(),
        (None, None) => (0..n_parts).map(|i| share.min(extent - i * share)).collect(),
    };
    let (mut start, mut outputs) = (0, Vec::new());
    for len in lens {
        if len < 1 {
            return Err(Stop::refused(format!(
                "tensors have elements, and dimension {axis} would have the extent {len}"
            )));
        }
        let layout = x.layout().part(axis, start, len, 1)?;
        outputs.extend(moved(device, &x, &layout, layout.dims())?);
        start += len;
    }
    Ok(outputs)
}

fn cast(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    if node.opset < 6 {
        // The name of the type.
        let to = node.word("to", "")?.to_uppercase();
        let named = (1..=26).filter_map(|number| ElementType::of(number).ok());
        let found = named.into_iter().find(|element| format!("{element:?}").to_uppercase() == to);
        return converted(node, device, found.ok_or_else(|| Stop::refused(format!("no element type {to}")))?);
    }
    let to = node.int("to", 0);
    converted(node, device, ElementType::of(to as i32)?)
}

fn cast_like(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    converted(node, device, node.input(1)?.element)
}

fn converted(node: &Node<'_>, device: &Device, to: ElementType) -> Result<Vec<Value>, Stop> {
    node.input(0)?.element.dtype()?;
    let to = to.dtype()?;
    let (saturates, rounding) = (node.int("saturate", 1) != 0, node.word("round_mode", "up")?);
    if to.is_fp8() && !saturates {
        return Err(Stop::refused("transform saturates 8-bit floating-point numbers, and saturate is 0"));
    }
    if rounding != "up" {
        return Err(Stop::refused(format!("transform rounds to nearest, and round_mode is {rounding}")));
    }
    let x = device.array(node.input(0)?)?;
    let mut y = device.zeros(to, x.dims())?;
    let (x_layout, y_layout) = (x.layout(), y.layout());
    device.copy((&x, &x_layout), (&mut y, &y_layout))?;
    Ok(vec![device.value(&y)?])
}
