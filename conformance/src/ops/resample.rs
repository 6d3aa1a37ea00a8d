//! Images in other sizes, and read at places that a grid names.

use super::{Op, op};
use crate::device::{Array, Device};
use crate::layout::Layout;
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;
use oxidnn::Args;
use oxidnn::ops::affinegrid::AffineGridProblem;
use oxidnn::ops::gridsample::{GridPadding, GridSampleDesc, GridSampleMode, GridSampleProblem};
use oxidnn::ops::resample::{Coordinates, NearestRound, ResampleDesc, ResampleMode, ResampleProblem};

pub const OPS: &[Op] = &[
    op("AffineGrid", "affinegrid", affine_grid),
    op("GridSample", "gridsample", grid_sample),
    op("Resize", "resample", resize),
    op("Upsample", "resample", upsample),
];

fn affine_grid(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let theta = device.array(node.input(0)?)?;
    let size = node.input(1)?.ints()?;
    let spatial = size.get(2..).unwrap_or_default();
    let dims = [&size[..1], spatial, &[spatial.len() as i64]].concat();
    let mut grid = device.zeros(theta.dtype(), &dims)?;
    let (theta_layout, grid_layout) = (theta.layout(), grid.layout());
    let align_corners = node.int("align_corners", 0) != 0;
    let problem = AffineGridProblem::forward(&theta_layout.desc, &grid_layout.desc, align_corners)?;
    let args = Args::new().input("theta", theta.at(&theta_layout)?);
    device.run(&problem, args.output("grid", grid.at_mut(&grid_layout)?))?;
    Ok(vec![device.value(&grid)?])
}

fn grid_sample(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let (x, grid) = (device.array(node.input(0)?)?, device.array(node.input(1)?)?);
    let mode = match node.word("mode", "linear")? {
        "linear" | "bilinear" => GridSampleMode::Linear,
        "cubic" | "bicubic" => GridSampleMode::Cubic,
        "nearest" => GridSampleMode::Nearest,
        other => return Err(Stop::failed(format!("expected a mode, given {other}"))),
    };
    let padding = match node.word("padding_mode", "zeros")? {
        "zeros" => GridPadding::Zeros,
        "border" => GridPadding::Border,
        "reflection" => GridPadding::Reflection,
        other => return Err(Stop::failed(format!("expected a padding, given {other}"))),
    };
    if mode == GridSampleMode::Cubic && padding == GridPadding::Border {
        // onnxruntime and ONNX's reference read what is beyond the image as if it were at its border.
        if let Some(beyond) = node.input(1)?.reals()?.iter().find(|place| !(-1.0..=1.0).contains(*place)) {
            let what =
                format!("gridsample weighs cubic neighbours around places beyond the image, and one is {beyond}");
            return Err(Stop::refused(what));
        }
    }
    let mut desc = GridSampleDesc::new(mode).padding(padding);
    if node.int("align_corners", 0) != 0 {
        desc = desc.align_corners();
    }
    let spatial = &grid.dims()[1..grid.dims().len() - 1];
    let mut y = device.zeros(x.dtype(), &[&x.dims()[..2], spatial].concat())?;
    let (x_layout, grid_layout, y_layout) = (x.layout(), grid.layout(), y.layout());
    let problem = GridSampleProblem::forward(&desc, &x_layout.desc, &grid_layout.desc, &y_layout.desc)?;
    let args = Args::new().input("x", x.at(&x_layout)?).input("grid", grid.at(&grid_layout)?);
    device.run(&problem, args.output("y", y.at_mut(&y_layout)?))?;
    Ok(vec![device.value(&y)?])
}

/// What becomes of one axis.
struct Axis {
    axis: usize,
    /// The scale, where it is not the ratio of the extents.
    scale: Option<f64>,
    extent: i64,
    region: [f64; 2],
}

/// The operator's older form: the nearest element below.
fn upsample(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    let scales = match node.opset {
        ..7 => {
            let [height, width] = ["height_scale", "width_scale"].map(|name| node.float(name, 1.0));
            vec![1.0, 1.0, height, width]
        }
        7..9 => node.floats("scales").ok_or_else(|| Stop::refused("expected the attribute scales, given none"))?,
        _ => node.input(1)?.reals()?,
    };
    asymmetric(node, device, &x, &scales)
}

/// The scaling of Upsample and of version 10 of Resize: output `i` is at `i / scale`.
///
/// The nearest element is the one below where an axis grows, and the one above where it shrinks: onnxruntime has it so,
/// and the specification does not say.
fn asymmetric(node: &Node<'_>, device: &Device, x: &Array, scales: &[f64]) -> Result<Vec<Value>, Stop> {
    if scales.len() != x.dims().len() {
        return Err(Stop::refused(format!("expected a scale of each of {} axes, given {scales:?}", x.dims().len())));
    }
    let mode = match node.word("mode", "nearest")? {
        "nearest" => ResampleMode::Nearest,
        "linear" | "bilinear" => ResampleMode::Linear,
        other => return Err(Stop::failed(format!("expected a mode, given {other}"))),
    };
    let all: Vec<usize> = (0..x.dims().len()).collect();
    let pass = |x: &Array, scales: &[f64], round: NearestRound| {
        let desc = ResampleDesc::new(mode).coordinates(Coordinates::Asymmetric).round(round);
        resampled(device, x, desc, scaled_axes(x, &all, scales, None), None)
    };
    let (grows, shrinks) = (scales.iter().any(|&scale| scale > 1.0), scales.iter().any(|&scale| scale < 1.0));
    if mode != ResampleMode::Nearest || !(grows && shrinks) {
        return pass(x, scales, if shrinks { NearestRound::Ceil } else { NearestRound::Floor });
    }
    // Axes that grow, then those that shrink: the nearest element of an axis does not depend on others.
    let some = |keep: fn(f64, f64) -> f64| scales.iter().map(|&scale| keep(scale, 1.0)).collect::<Vec<_>>();
    let larger = pass(x, &some(f64::max), NearestRound::Floor)?;
    pass(&device.array(&larger[0])?, &some(f64::min), NearestRound::Ceil)
}

fn resize(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let x = device.array(node.input(0)?)?;
    if node.opset < 11 {
        return asymmetric(node, device, &x, &node.input(1)?.reals()?);
    }
    let rank = x.dims().len();
    let mode = match node.word("mode", "nearest")? {
        "nearest" => ResampleMode::Nearest,
        "linear" => ResampleMode::Linear,
        "cubic" => ResampleMode::Cubic,
        other => return Err(Stop::failed(format!("expected a mode, given {other}"))),
    };
    let mut desc = ResampleDesc::new(mode).cubic_coefficient(node.float("cubic_coeff_a", -0.75));
    desc = match node.word("nearest_mode", "round_prefer_floor")? {
        "round_prefer_floor" => desc.round(NearestRound::PreferFloor),
        "round_prefer_ceil" => desc.round(NearestRound::PreferCeil),
        "floor" => desc.round(NearestRound::Floor),
        "ceil" => desc.round(NearestRound::Ceil),
        other => return Err(Stop::failed(format!("expected a rounding, given {other}"))),
    };
    if node.int("antialias", 0) != 0 {
        desc = desc.antialias();
    }
    if node.int("exclude_outside", 0) != 0 {
        desc = desc.exclude_outside();
    }
    let extrapolation = node.float("extrapolation_value", 0.0);
    let mut crops = None;
    desc = match node.word("coordinate_transformation_mode", "half_pixel")? {
        "half_pixel" => desc,
        "half_pixel_symmetric" => desc.coordinates(Coordinates::HalfPixelSymmetric),
        "pytorch_half_pixel" => desc.coordinates(Coordinates::PytorchHalfPixel),
        "align_corners" => desc.coordinates(Coordinates::AlignCorners),
        "asymmetric" => desc.coordinates(Coordinates::Asymmetric),
        "tf_crop_and_resize" => {
            crops = Some(extrapolation);
            desc
        }
        "tf_half_pixel_for_nn" => return Err(Stop::refused("resample has no coordinates tf_half_pixel_for_nn")),
        other => return Err(Stop::failed(format!("expected coordinates, given {other}"))),
    };
    let axes = match node.ints("axes") {
        Some(axes) => axes.iter().map(|&axis| crate::node::axis_of(axis, rank)).collect::<Result<Vec<_>, _>>()?,
        None => (0..rank).collect(),
    };
    let roi = node.optional(1).filter(|_| crops.is_some()).map(Value::reals).transpose()?;
    let policy = node.word("keep_aspect_ratio_policy", "stretch")?;
    let given = |input: usize| node.optional(input).filter(|value| value.n_elems() > 0);
    let axes = match (given(2), given(3)) {
        (Some(scales), _) => scaled_axes(&x, &axes, &scales.reals()?, roi.as_deref()),
        (None, Some(sizes)) => sized_axes(&x, &axes, &sizes.ints()?, roi.as_deref(), policy),
        (None, None) => return Err(Stop::failed("expected scales or sizes, given neither")),
    };
    resampled(device, &x, desc, axes, crops)
}

/// The region of the axis that stands at `i` among `n`: all of it, or what the list of begins and ends says.
fn region(roi: Option<&[f64]>, i: usize, n: usize) -> [f64; 2] {
    roi.map_or([0.0, 1.0], |roi| [roi[i], roi[n + i]])
}

/// Extents are those of the whole axis also where a region is cropped, as onnxruntime and ONNX's reference have it; the
/// text of the operator would multiply them by the region's share.
fn scaled_axes(x: &Array, axes: &[usize], scales: &[f64], roi: Option<&[f64]>) -> Vec<Axis> {
    let axis = |(i, (&axis, &scale)): (usize, (&usize, &f64))| {
        let extent = (x.dims()[axis] as f64 * scale).floor() as i64;
        Axis { axis, scale: Some(scale), extent, region: region(roi, i, axes.len()) }
    };
    axes.iter().zip(scales).enumerate().map(axis).collect()
}

/// With `not_larger` and `not_smaller` all axes have one scale, that of the axis which needs the least or the most.
fn sized_axes(x: &Array, axes: &[usize], sizes: &[i64], roi: Option<&[f64]>, policy: &str) -> Vec<Axis> {
    let ratios = axes.iter().zip(sizes).map(|(&axis, &size)| size as f64 / x.dims()[axis] as f64);
    let common = match policy {
        "not_larger" => Some(ratios.fold(f64::INFINITY, f64::min)),
        "not_smaller" => Some(ratios.fold(0.0, f64::max)),
        _ => None,
    };
    let axis = |(i, (&axis, &size)): (usize, (&usize, &i64))| {
        let extent = common.map_or(size, |scale| (scale * x.dims()[axis] as f64 + 0.5).floor() as i64);
        Axis { axis, scale: common, extent, region: region(roi, i, axes.len()) }
    };
    axes.iter().zip(sizes).enumerate().map(axis).collect()
}

/// Axes that change become the spatial ones; the others are N and C, and the last of more than two are spatial too.
fn resampled(
    device: &Device,
    x: &Array,
    desc: ResampleDesc,
    mut axes: Vec<Axis>,
    crops: Option<f64>,
) -> Result<Vec<Value>, Stop> {
    let mut dims = x.dims().to_vec();
    axes.iter().for_each(|axis| dims[axis.axis] = axis.extent);
    let changes = |axis: &Axis| {
        axis.extent != x.dims()[axis.axis] || axis.scale.is_some_and(|scale| scale != 1.0) || axis.region != [0.0, 1.0]
    };
    axes.retain(changes);
    let mut order: Vec<usize> = (0..dims.len()).filter(|&i| axes.iter().all(|axis| axis.axis != i)).collect();
    let n_spatial = axes.len().max(dims.len().saturating_sub(2)).max(1);
    for axis in order.drain(dims.len() - n_spatial..) {
        axes.push(Axis { axis, scale: None, extent: dims[axis], region: [0.0, 1.0] });
    }
    axes.sort_by_key(|axis| axis.axis);
    let n_kept = order.len();
    order.extend(axes.iter().map(|axis| axis.axis));
    let regions: Vec<[f64; 2]> = axes.iter().map(|axis| axis.region).collect();
    let mut desc = crops.map_or(desc.clone(), |extrapolation| desc.crop(&regions, extrapolation));
    if axes.iter().any(|axis| axis.scale.is_some()) {
        let ratio = |axis: &Axis| axis.extent as f64 / x.dims()[axis.axis] as f64;
        let scales: Vec<f64> = axes.iter().map(|axis| axis.scale.unwrap_or_else(|| ratio(axis))).collect();
        desc = desc.scale(&scales);
    }
    let mut y = device.zeros(x.dtype(), &dims)?;
    let spatial_last = |layout: Layout| layout.permuted(&order)?.of_rank(order.len() + 2 - n_kept);
    let (x_layout, y_layout) = (spatial_last(x.layout())?, spatial_last(y.layout())?);
    device.map((x, &x_layout), (&mut y, &y_layout), |x, y| ResampleProblem::forward(&desc, x, y))?;
    Ok(vec![device.value(&y)?])
}
