//! Resampling, formula in [`kernel_abi::ops::resample`].

use crate::Judge;
use kernel_abi::ops::resample::{Coordinates, NearestRound, ResampleMode, ResamplePass, ResampleProblem};

impl Judge for ResampleProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        match self.resample_pass() {
            ResamplePass::Forward => vec![forward(self, &operands[0])],
            ResamplePass::Backward => vec![backward(self, &operands[0])],
        }
    }
}

/// y = resample(x).
pub fn forward(problem: &ResampleProblem, x: &[f64]) -> Vec<f64> {
    let mut y = Vec::new();
    for_each_output(problem, |neighbours| {
        y.push(match neighbours {
            Some(neighbours) => neighbours.iter().map(|&(i, weight)| weight * x[i]).sum(),
            None => problem.extrapolation(),
        });
    });
    y
}

/// dx from dy.
pub fn backward(problem: &ResampleProblem, dy: &[f64]) -> Vec<f64> {
    let mut dx = vec![0.0; problem.x().n_elems() as usize];
    let mut dy = dy.iter();
    for_each_output(problem, |neighbours| {
        let dy = dy.next().unwrap_or(&f64::NAN);
        neighbours.iter().flatten().for_each(|&(i, weight)| dx[i] += weight * dy);
    });
    dx
}

/// Calls `body` with the indices in x and weights of each output's neighbours, in the order of y; with none for outputs
/// outside a cropped region.
fn for_each_output(problem: &ResampleProblem, mut body: impl FnMut(Option<Vec<(usize, f64)>>)) {
    let n_axes = problem.x().rank() - 2;
    let n_planes = problem.x().dims()[..2].iter().product::<i64>();
    let (images, outputs) = (&problem.x().dims()[2..], &problem.y().dims()[2..]);
    for plane in 0..n_planes {
        for linear in 0..outputs.iter().product::<i64>() {
            let mut neighbours = Some(vec![(plane as usize, 1.0)]);
            for axis in 0..n_axes {
                let inner: i64 = outputs[axis + 1..].iter().product();
                let along = along_axis(problem, axis, linear / inner % outputs[axis]);
                neighbours = neighbours.zip(along).map(|(outer, along)| {
                    let extent = images[axis] as usize;
                    let with = |&(i, weight): &(usize, f64)| {
                        along.iter().map(move |&(j, factor)| (i * extent + j, weight * factor)).collect::<Vec<_>>()
                    };
                    outer.iter().flat_map(with).collect()
                });
            }
            body(neighbours);
        }
    }
}

/// Positions and weights of an output position's neighbours along an axis; none outside a cropped region.
fn along_axis(problem: &ResampleProblem, axis: usize, output: i64) -> Option<Vec<(usize, f64)>> {
    let image = problem.x().dims()[2 + axis];
    let scale = problem.scale(axis).unwrap_or(problem.y().dims()[2 + axis] as f64 / image as f64);
    let place = place(problem, axis, output);
    let last = (image - 1) as f64;
    if problem.coordinates() == Coordinates::Crop && (place < 0.0 || place > last) {
        return None;
    }
    let clamped = |i: i64| i.clamp(0, image - 1) as usize;
    let floor = place.floor();
    if problem.mode() == ResampleMode::Nearest {
        if let Some((numerator, denominator)) = fraction(problem, axis, output) {
            let (below, rest) = (numerator.div_euclid(denominator), numerator.rem_euclid(denominator));
            let up = match problem.round() {
                NearestRound::PreferFloor => 2 * rest > denominator,
                NearestRound::PreferCeil => 2 * rest >= denominator,
                NearestRound::Floor => false,
                NearestRound::Ceil => rest > 0,
            };
            return Some(vec![(clamped(below as i64 + i64::from(up)), 1.0)]);
        }
        let up = match problem.round() {
            NearestRound::PreferFloor => place - floor > 0.5,
            NearestRound::PreferCeil => place - floor >= 0.5,
            NearestRound::Floor => false,
            NearestRound::Ceil => place > floor,
        };
        return Some(vec![(clamped(floor as i64 + i64::from(up)), 1.0)]);
    }
    let shrink = if problem.antialias() { scale.min(1.0) } else { 1.0 };
    // Wide enough for every filter; weights are 0 beyond it.
    let reach = (2.0 / shrink).ceil() as i64 + 1;
    let weight = |i: i64| {
        if problem.excludes_outside() && !(0..image).contains(&i) {
            return 0.0;
        }
        filter(problem, ((i as f64 - place) * shrink).abs())
    };
    let around = floor as i64 - reach..=floor as i64 + 1 + reach;
    let sum: f64 = around.clone().map(weight).sum();
    let divides = problem.antialias() || problem.excludes_outside();
    let divisor = if divides && sum != 0.0 { sum } else { 1.0 };
    Some(around.map(|i| (clamped(i), weight(i) / divisor)).collect())
}

/// Where an output position lies in the image, as a fraction of integers: in an image that is scaled by its extents.
fn fraction(problem: &ResampleProblem, axis: usize, output: i64) -> Option<(i128, i128)> {
    if problem.scale(axis).is_some() {
        return None;
    }
    let [p, image, outputs] = [output, problem.x().dims()[2 + axis], problem.y().dims()[2 + axis]].map(i128::from);
    Some(match problem.coordinates() {
        Coordinates::Crop => return None,
        Coordinates::PytorchHalfPixel | Coordinates::AlignCorners if outputs == 1 => (0, 1),
        Coordinates::AlignCorners => (p * (image - 1), outputs - 1),
        Coordinates::Asymmetric => (p * image, outputs),
        // (p + 1/2) H / P - 1/2, twice each.
        _ => ((2 * p + 1) * image - outputs, 2 * outputs),
    })
}

/// Where an output position lies in the image: ONNX's table, or the fraction where there is one.
fn place(problem: &ResampleProblem, axis: usize, output: i64) -> f64 {
    if let Some((numerator, denominator)) = fraction(problem, axis, output) {
        return numerator as f64 / denominator as f64;
    }
    let x = output as f64;
    let (image, output) = (problem.x().dims()[2 + axis] as f64, problem.y().dims()[2 + axis] as f64);
    let scale = problem.scale(axis).unwrap_or(output / image);
    let length = problem.scale(axis).map_or(output, |scale| scale * image);
    match problem.coordinates() {
        Coordinates::HalfPixel => (x + 0.5) / scale - 0.5,
        Coordinates::PytorchHalfPixel if output > 1.0 => (x + 0.5) / scale - 0.5,
        Coordinates::PytorchHalfPixel => 0.0,
        Coordinates::HalfPixelSymmetric => {
            let adjustment = output / length;
            image / 2.0 * (1.0 - adjustment) + (x + 0.5) / scale - 0.5
        }
        Coordinates::Asymmetric => x / scale,
        Coordinates::AlignCorners if length == 1.0 => 0.0,
        Coordinates::AlignCorners => x * (image - 1.0) / (length - 1.0),
        Coordinates::Crop => {
            let [begin, end] = problem.region(axis).unwrap_or([0.0, 1.0]);
            let from_begin = if length == 1.0 {
                (end - begin) * (image - 1.0) / 2.0
            } else {
                x * (end - begin) * (image - 1.0) / (length - 1.0)
            };
            from_begin + begin * (image - 1.0)
        }
    }
}

/// The filter at a distance of at least 0.
fn filter(problem: &ResampleProblem, d: f64) -> f64 {
    let a = problem.cubic_coefficient();
    match problem.mode() {
        ResampleMode::Nearest => f64::NAN,
        ResampleMode::Linear => (1.0 - d).max(0.0),
        ResampleMode::Cubic if d <= 1.0 => (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0,
        ResampleMode::Cubic if d < 2.0 => a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a,
        ResampleMode::Cubic => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(text: &str, x: &[f64]) -> Vec<f64> {
        forward(&text.parse().unwrap(), x)
    }

    fn close(got: &[f64], expected: &[f64]) {
        assert_eq!(got.len(), expected.len());
        assert!(got.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{got:?}, expected {expected:?}");
    }

    /// Expected values are those that ONNX prints in the documentation of Resize.
    #[test]
    fn examples_of_onnx() {
        let four: Vec<f64> = (1..=16).map(f64::from).collect();
        let row: Vec<f64> = (1..=8).map(f64::from).collect();
        let head = "resample:forward mode=linear";
        close(&run(&format!("{head} scale=0.6x0.6 x=1x1x2x4:f64"), &row), &[2.6666665, 4.3333331]);
        close(&run(&format!("{head} coords=align_corners scale=0.6x0.6 x=1x1x2x4:f64"), &row), &[1.0, 3.142857]);
        close(
            &run(&format!("{head} scale=2x2 x=1x1x2x2:f64"), &[1.0, 2.0, 3.0, 4.0]),
            &[1.0, 1.25, 1.75, 2.0, 1.5, 1.75, 2.25, 2.5, 2.5, 2.75, 3.25, 3.5, 3.0, 3.25, 3.75, 4.0],
        );
        close(
            &run(&format!("{head} coords=half_pixel_symmetric scale=1x0.6 x=1x1x1x4:f64"), &[1.0, 2.0, 3.0, 4.0]),
            &[1.6666667, 3.3333333],
        );
        close(&run(&format!("{head} antialias=1 scale=0.6x0.6 x=1x1x4x4:f64"), &four), &[2.875, 4.5, 9.375, 11.0]);
        close(
            &run(&format!("{head} coords=pytorch_half_pixel x=1x1x4x4:f64 y=1x1x3x1:f64"), &four),
            &[1.6666666, 7.0, 12.333333],
        );
        close(
            &run(&format!("{head} coords=crop region=0.4x0.6x0.6x0.8 x=1x1x4x4:f64 y=1x1x3x3:f64"), &four),
            &[7.6, 7.9, 8.2, 8.8, 9.1, 9.4, 10.0, 10.3, 10.6],
        );
        close(
            &run(
                &format!("{head} coords=crop region=0.4x1.2x0.6x1.7 extrapolation=10 x=1x1x4x4:f64 y=1x1x3x3:f64"),
                &four,
            ),
            &[7.6, 10.0, 10.0, 12.4, 10.0, 10.0, 10.0, 10.0, 10.0],
        );
        let head = "resample:forward mode=cubic";
        close(
            &run(&format!("{head} scale=0.8x0.8 x=1x1x4x4:f64"), &four),
            &[
                1.47119141,
                2.78125,
                4.08251953,
                6.71142578,
                8.02148438,
                9.32275391,
                11.91650391,
                13.2265625,
                14.52783203,
            ],
        );
        close(
            &run(&format!("{head} a=-0.5 exclude_outside=1 scale=0.8x0.8 x=1x1x4x4:f64"), &four),
            &[1.36812675, 2.6695014, 4.0133367, 6.57362535, 7.875, 9.2188353, 11.94896657, 13.25034122, 14.59417652],
        );
        let head = "resample:forward mode=nearest";
        close(&run(&format!("{head} x=1x1x2x4:f64 y=1x1x1x3:f64"), &row), &[1.0, 2.0, 4.0]);
        close(
            &run(&format!("{head} round=ceil x=1x1x4x4:f64 y=1x1x8x8:f64"), &four)[..8],
            &[1.0, 2.0, 2.0, 3.0, 3.0, 4.0, 4.0, 4.0],
        );
    }
}
