//! Operators that name the same elements in another way, or tell extents: nothing is computed or moved.

use super::{By, Compute, Op};
use crate::device::Device;
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;

pub const OPS: &[Op] = &[
    view("Constant", constant),
    view("Flatten", flatten),
    view("Reshape", reshape),
    view("Shape", shape),
    view("Size", size),
    view("Squeeze", squeeze),
    view("Unsqueeze", unsqueeze),
];

const fn view(name: &'static str, compute: Compute) -> Op {
    Op { name, by: By::View(compute) }
}

fn constant(node: &Node<'_>, _: &Device) -> Result<Vec<Value>, Stop> {
    let scalar = |bytes: Vec<u8>, element| Value { element, dims: vec![], bytes };
    if let Some(tensor) = node.tensor("value") {
        return Ok(vec![tensor?]);
    }
    if let Some(ints) = node.ints("value_ints") {
        return Ok(vec![Value::of_ints(ints)]);
    }
    if let Some(float) = node.optional_float("value_float") {
        return Ok(vec![scalar((float as f32).to_le_bytes().to_vec(), crate::value::ElementType::Float)]);
    }
    if let Some(int) = node.optional_int("value_int") {
        return Ok(vec![scalar(int.to_le_bytes().to_vec(), crate::value::ElementType::Int64)]);
    }
    Err(Stop::refused("a constant that is no tensor"))
}

fn with_dims(x: &Value, dims: &[i64]) -> Result<Vec<Value>, Stop> {
    if dims.iter().product::<i64>() != x.n_elems() as i64 {
        return Err(Stop::failed(format!("expected as many elements as in {:?}, given {dims:?}", x.dims)));
    }
    Ok(vec![x.clone().with_dims(dims)])
}

fn flatten(node: &Node<'_>, _: &Device) -> Result<Vec<Value>, Stop> {
    let x = node.input(0)?;
    let rank = x.dims.len();
    let axis = node.int("axis", 1);
    let axis = (if axis < 0 { axis + rank as i64 } else { axis }).clamp(0, rank as i64) as usize;
    with_dims(x, &[x.dims[..axis].iter().product(), x.dims[axis..].iter().product()])
}

fn reshape(node: &Node<'_>, _: &Device) -> Result<Vec<Value>, Stop> {
    let (x, mut dims) = (node.input(0)?, node.ints_or_input(5, "shape", 1)?);
    if node.int("allowzero", 0) == 0 {
        for (i, dim) in dims.iter_mut().enumerate().filter(|(_, dim)| **dim == 0) {
            *dim = x.dims.get(i).copied().unwrap_or(1);
        }
    }
    if let Some(free) = dims.iter().position(|&dim| dim == -1) {
        dims[free] = 1;
        dims[free] = x.n_elems() as i64 / dims.iter().product::<i64>().max(1);
    }
    with_dims(x, &dims)
}

fn shape(node: &Node<'_>, _: &Device) -> Result<Vec<Value>, Stop> {
    let dims = &node.input(0)?.dims;
    let rank = dims.len() as i64;
    let place = |at: i64| if at < 0 { at + rank } else { at }.clamp(0, rank) as usize;
    let (start, end) = (place(node.int("start", 0)), place(node.int("end", rank)));
    Ok(vec![Value::of_ints(dims.get(start..end).unwrap_or_default())])
}

fn size(node: &Node<'_>, _: &Device) -> Result<Vec<Value>, Stop> {
    Ok(vec![Value::of_ints(&[node.input(0)?.n_elems() as i64]).with_dims(&[])])
}

fn squeeze(node: &Node<'_>, _: &Device) -> Result<Vec<Value>, Stop> {
    let x = node.input(0)?;
    let axes = node.axes(1, x.dims.len())?;
    let goes = |axis: usize| axes.as_ref().map_or(x.dims[axis] == 1, |axes| axes.contains(&axis));
    let dims: Vec<i64> = (0..x.dims.len()).filter(|&axis| !goes(axis)).map(|axis| x.dims[axis]).collect();
    with_dims(x, &dims)
}

fn unsqueeze(node: &Node<'_>, _: &Device) -> Result<Vec<Value>, Stop> {
    let x = node.input(0)?;
    let n_new = match (node.ints("axes"), node.optional(1)) {
        (Some(axes), _) => axes.len(),
        (None, Some(axes)) => axes.n_elems(),
        (None, None) => 0,
    };
    let rank = x.dims.len() + n_new;
    let axes = node.axes(1, rank)?.unwrap_or_default();
    let mut old = x.dims.iter();
    let dims: Vec<i64> =
        (0..rank).filter_map(|axis| if axes.contains(&axis) { Some(1) } else { old.next().copied() }).collect();
    with_dims(x, &dims)
}
