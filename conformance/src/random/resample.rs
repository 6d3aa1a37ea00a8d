//! Images in other sizes, and read at places that a grid names.

use super::draw::{Drawn, Holds, Rng, reals, tensor};
use crate::value::ElementType::{self, *};
use crate::value::Value;

const REAL: [ElementType; 4] = [Float, Float, Double, Float16];

/// A resampling to scales or sizes, in any version.
pub fn resized(rng: &mut Rng) -> Drawn {
    if rng.chance(25) { scaled(rng) } else { resize(rng) }
}

/// Upsample, and version 10 of Resize.
fn scaled(rng: &mut Rng) -> Drawn {
    let (op, opset) = rng.pick(&[("Upsample", 1), ("Upsample", 7), ("Upsample", 9), ("Resize", 10)]);
    let dims = [rng.int(1, 2), rng.int(1, 2), rng.int(2, 7), rng.int(2, 7)];
    let scales: &[f64] = if op == "Resize" { &[0.5, 0.75, 1.0, 1.5, 2.0, 2.5] } else { &[1.0, 1.5, 2.0, 2.5, 3.0] };
    let scales = [1.0, 1.0, rng.pick(scales), rng.pick(scales)];
    let mode = match opset {
        1 => rng.pick(&["nearest", "bilinear"]),
        _ => rng.pick(&["nearest", "nearest", "linear"]),
    };
    let drawn = Drawn::new(op, opset).input(tensor(rng, Float, &dims, Holds::Small)).word("mode", mode);
    match opset {
        1 => drawn.float("height_scale", scales[2] as f32).float("width_scale", scales[3] as f32),
        7 => drawn.floats("scales", &scales.map(|scale| scale as f32)),
        _ => drawn.input(reals(Float, &[4], &scales)),
    }
}

fn resize(rng: &mut Rng) -> Drawn {
    let opset = rng.pick(&[11, 13, 18, 19]);
    let mode = rng.pick(&["nearest", "nearest", "linear", "linear", "cubic"]);
    let dims = rng.dims(1, 4, 7);
    let rank = dims.len();
    let element =
        if mode == "nearest" { rng.pick(&[Float, Double, Float16, Int32, Uint8, Int8]) } else { rng.pick(&REAL) };
    let mut changed = rng.axes(rank);
    changed.truncate(2);
    let names_axes = opset >= 18 && rng.chance(40);
    let axes: Vec<usize> = if names_axes { changed.clone() } else { (0..rank).collect() };
    let coordinates = match opset {
        11 => rng.pick(&COORDINATES[..6]),
        13 | 18 => rng.pick(&COORDINATES[..5]),
        _ => rng.pick(&[&COORDINATES[..5], &["half_pixel_symmetric"]].concat()),
    };
    let mut drawn = Drawn::new("Resize", opset).input(tensor(rng, element, &dims, Holds::Small)).word("mode", mode);
    if coordinates != "half_pixel" || rng.chance(30) {
        drawn = drawn.word("coordinate_transformation_mode", coordinates);
    }
    let absent = |drawn: Drawn| if opset < 13 { drawn.input(reals(Float, &[0], &[])) } else { drawn.no_input() };
    drawn = if coordinates == "tf_crop_and_resize" {
        let mut roi = Vec::new();
        for (low, high, whole) in [(-0.3, 0.4, 0.0), (0.6, 1.3, 1.0)] {
            roi.extend(axes.iter().map(|axis| if changed.contains(axis) { rng.real(low, high) } else { whole }));
        }
        drawn.input(reals(Float, &[roi.len() as i64], &roi))
    } else {
        absent(drawn)
    };
    // The middle is a whole place or halfway, and a sum of three rounded terms: by sizes it is exact.
    let is_exact_by_sizes = mode == "nearest" && coordinates == "half_pixel_symmetric";
    if !is_exact_by_sizes && rng.chance(50) {
        let of = |&axis: &usize| if changed.contains(&axis) { scale(rng, mode == "nearest", dims[axis]) } else { 1.0 };
        let scales: Vec<f64> = axes.iter().map(of).collect();
        drawn = drawn.input(reals(Float, &[scales.len() as i64], &scales));
    } else {
        let sizes: Vec<i64> =
            axes.iter().map(|&axis| if changed.contains(&axis) { rng.int(1, 12) } else { dims[axis] }).collect();
        drawn = absent(drawn).input(Value::of_ints(&sizes));
        if opset >= 18 && names_axes && rng.chance(40) {
            let policy = rng.pick(&["stretch", "not_larger", "not_smaller"]);
            // Something is left of each axis.
            let keeps = |size: i64, of: usize| axes.iter().all(|&axis| 2 * size * dims[axis] >= dims[of]);
            if axes.iter().zip(&sizes).all(|(&axis, &size)| keeps(size, axis)) {
                drawn = drawn.word("keep_aspect_ratio_policy", policy);
            }
        }
    }
    if names_axes {
        let named: Vec<i64> = axes.iter().map(|&axis| rng.named(axis, rank)).collect();
        drawn = drawn.ints("axes", &named);
    }
    match mode {
        "nearest" if rng.chance(70) => {
            drawn.word("nearest_mode", rng.pick(&["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"]))
        }
        "nearest" => drawn,
        _ => weighted(rng, drawn, mode),
    }
}

/// What says how weights are found.
fn weighted(rng: &mut Rng, mut drawn: Drawn, mode: &str) -> Drawn {
    if mode == "cubic" && rng.chance(40) {
        drawn = drawn.float("cubic_coeff_a", rng.pick(&[-0.5, -0.75, -1.0]));
    }
    if mode == "cubic" && rng.chance(30) {
        drawn = drawn.int("exclude_outside", 1);
    }
    if drawn.opset >= 18 && rng.chance(30) {
        drawn = drawn.int("antialias", 1);
    }
    if rng.chance(20) { drawn.float("extrapolation_value", 2.5) } else { drawn }
}

const COORDINATES: [&str; 6] =
    ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "tf_crop_and_resize", "tf_half_pixel_for_nn"];

/// A scale that leaves something, and as much in f32 as in f64.
fn scale(rng: &mut Rng, is_plain: bool, dim: i64) -> f64 {
    loop {
        let scales = [0.5, 0.75, 1.25, 1.5, 2.0, 2.5, 3.0];
        let scale = if is_plain { rng.pick(&scales) } else { rng.real(0.3, 3.0) } as f32;
        let extent = f64::from(scale) * dim as f64;
        if extent >= 1.0 && (scale * dim as f32).floor() == extent.floor() as f32 {
            return f64::from(scale);
        }
    }
}

/// A grid of places, or what is there.
pub fn sampled(rng: &mut Rng) -> Drawn {
    if rng.chance(20) {
        return affine_grid(rng);
    }
    let opset = rng.pick(&[16, 20, 22]);
    let n_axes = if opset >= 20 && rng.chance(30) { 3 } else { 2 };
    let element = rng.pick(&REAL);
    let mode = match opset {
        16 => rng.pick(&["bilinear", "nearest", "bicubic"]),
        _ => rng.pick(&["linear", "nearest", "cubic"]),
    };
    let padding = rng.pick(&["zeros", "border", "reflection"]);
    let align_corners = rng.chance(50);
    let image: Vec<i64> = (0..n_axes).map(|_| rng.int(2, 5)).collect();
    let places: Vec<i64> = (0..n_axes).map(|_| rng.int(1, 4)).collect();
    let outer = [rng.int(1, 2), rng.int(1, 2)];
    let grid_dims = [&outer[..1], &places, &[n_axes as i64]].concat();
    // What is beyond the border is not read by all in the same way.
    let stays = padding == "border" && mode.ends_with("cubic") && rng.chance(80);
    let mut grid = Vec::new();
    for _ in 0..outer[0] * places.iter().product::<i64>() {
        // The last axis of the image comes first.
        for &dim in image.iter().rev() {
            grid.push(match rng.int(0, 19) {
                _ if stays => rng.real(-1.0, 1.0),
                0 if padding == "border" && element != Float16 => rng.pick(&[1e20, -1e20]),
                1 if mode != "nearest" => rng.real(-6.0, 6.0),
                _ if mode == "nearest" => {
                    // Not in the middle between two elements, where the type of the grid would decide.
                    let (dim, at) = (dim as f64, rng.int(-2, dim + 1) as f64 + rng.real(-0.4, 0.4));
                    if align_corners { 2.0 * at / (dim - 1.0) - 1.0 } else { (2.0 * at + 1.0) / dim - 1.0 }
                }
                _ => rng.real(-1.4, 1.4),
            });
        }
    }
    let x = tensor(rng, element, &[&outer[..], &image].concat(), Holds::Small);
    let drawn = Drawn::new("GridSample", opset).input(x).input(reals(element, &grid_dims, &grid));
    let drawn = drawn.word("mode", mode).word("padding_mode", padding);
    if align_corners || rng.chance(30) { drawn.int("align_corners", i64::from(align_corners)) } else { drawn }
}

fn affine_grid(rng: &mut Rng) -> Drawn {
    let (n, n_axes) = (rng.int(1, 3), rng.int(2, 3));
    let element = rng.pick(&REAL);
    let theta = tensor(rng, element, &[n, n_axes, n_axes + 1], Holds::Small);
    let image: Vec<i64> = (0..n_axes).map(|_| rng.int(2, 5)).collect();
    let size = [&[n, rng.int(1, 3)], &image[..]].concat();
    let drawn = Drawn::new("AffineGrid", 20).input(theta).input(Value::of_ints(&size));
    if rng.chance(60) { drawn.int("align_corners", rng.int(0, 1)) } else { drawn }
}
