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
    let x_layout = x.layout();
    let mut desc = described(node, mode, n_axes, &x_layout)?.index_base(IndexBase::Tensor);
    if mode == PoolMode::Lp {
        // A real number in version 1.
        desc = desc.exponent(if node.opset < 2 { node.float("p", 2.0) } else { node.int("p", 2) as f64 });
    }
    let dims = desc.output_dims(&x_layout.desc)?;
    let mut y = device.zeros(x.dtype(), &dims)?;
    let y_layout = y.layout();
    if !node.wants(1) {
        device.map((&x, &x_layout), (&mut y, &y_layout), |x, y| PoolProblem::forward(&desc, x, y))?;
        return Ok(vec![device.value(&y)?]);
    }
    let mut index = device.zeros(DType::I64, &dims)?;
    let index_layout = index.layout();
    let problem = PoolProblem::forward_with_index(&desc, &x_layout.desc, &y_layout.desc, &index_layout.desc)?;
    let args = Args::new().input("x", x.at(&x_layout)?).output("y", y.at_mut(&y_layout)?);
    device.run(&problem, args.output("index", index.at_mut(&index_layout)?))?;
    let mut index = device.value(&index)?;
    if node.int("storage_order", 0) == 1 {
        let ints: Vec<i64> = index.ints()?.iter().map(|&i| along_columns(i, &x.dims()[2..])).collect();
        index = Value::of_ints(&ints).with_dims(&dims);
    }
    Ok(vec![device.value(&y)?, index])
}

/// The number of a place, counted along the columns of its image, from that along the rows. A storage order of 1 renames
/// places and chooses none: of equal elements the first along the rows counts, as in onnxruntime and ONNX's reference.
fn along_columns(mut index: i64, image: &[i64]) -> i64 {
    let pixels: i64 = image.iter().product();
    let (mut at, mut stride) = (index.div_euclid(pixels) * pixels, pixels);
    for extent in image.iter().rev() {
        stride /= extent;
        at += index.rem_euclid(*extent) * stride;
        index = index.div_euclid(*extent);
    }
    at
}

/// The descriptor of a pooling of `x`.
fn described(node: &Node<'_>, mode: PoolMode, n_axes: usize, x: &Layout) -> Result<PoolDesc, Stop> {
    let windows = Windows::of(node, n_axes, None)?;
    let (begin, end) = windows.pads(x.dims().get(2..).unwrap_or_default());
    let desc = PoolDesc::new(mode, &windows.kernel).padding(&begin).padding_end(&end);
    let desc = desc.stride(&windows.stride).dilation(&windows.dilation);
    Ok(if node.int("ceil_mode", 0) != 0 { desc.ceil() } else { desc })
}

/// Numbers of places are those in the image that the windows need; a larger one has it in its first corner.
fn unpool(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let (x, index) = (device.array(node.input(0)?)?, device.array(node.input(1)?)?);
    let (x_layout, index_layout) = (x.layout(), index.layout());
    let desc =
        described(node, PoolMode::Max, x.dims().len().saturating_sub(2), &x_layout)?.index_base(IndexBase::Tensor);
    let image = desc.unpooled_dims(&x_layout.desc);
    if let Some(outside) = outside_its_window(&Windows::of(node, image.len() - 2, None)?, &image, node.input(1)?)? {
        return Err(Stop::refused(format!(
            "unpool puts elements into their own windows, and index {outside} is in another"
        )));
    }
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

/// An index of an unpooling that is not in the window of its element.
fn outside_its_window(windows: &Windows, image: &[i64], index: &Value) -> Result<Option<i64>, Stop> {
    let (begin, _) = windows.pads(&image[2..]);
    let is_inside = |(element, &at): (usize, &i64)| {
        let (mut element, mut at) = (element as i64, at);
        let inside = (0..image.len()).rev().all(|axis| {
            let (output, place) = (element.rem_euclid(index.dims[axis]), at.rem_euclid(image[axis]));
            (element, at) = (element.div_euclid(index.dims[axis]), at.div_euclid(image[axis]));
            let Some(spatial) = axis.checked_sub(2) else { return output == place };
            let from_first = place + begin[spatial] - output * windows.stride[spatial];
            (0..windows.kernel[spatial]).contains(&from_first)
        });
        inside && at == 0
    };
    let ints = index.ints()?;
    Ok(ints.iter().enumerate().find(|&place| !is_inside(place)).map(|(_, &at)| at))
}

#[cfg(test)]
mod tests {
    use super::along_columns;

    #[test]
    fn places_are_renamed_along_columns() {
        let image = [2, 3, 4];
        for (n, d, h, w) in (0..48).map(|i| (i / 24, i / 12 % 2, i / 4 % 3, i % 4)) {
            assert_eq!(along_columns(n * 24 + (d * 3 + h) * 4 + w, &image), n * 24 + d + 2 * (h + 3 * w));
        }
    }
}
