//! Normalization, formula in [`kernel_abi::ops::norm`].

use super::activation::value;
use crate::Judge;
use crate::sum::sum;
use kernel_abi::ops::activation::{Activation, ActivationMode};
use kernel_abi::ops::norm::{NormMode, NormPass, NormProblem};
use kernel_abi::{DType, Problem};

impl Judge for NormProblem {
    fn judge(&self, operands: &[Vec<f64>]) -> Vec<Vec<f64>> {
        let tensors = Named::new(self, operands);
        match self.norm_pass() {
            NormPass::Forward => forward(self, &tensors),
            NormPass::Inference => vec![inference(self, &tensors)],
            NormPass::Backward => backward(self, &tensors, |[h, shift, tilt]| h - shift - tilt),
            NormPass::Finalize => finalize(self, &tensors),
        }
    }

    /// Backward: the summands of dx with one sign. They cancel where a mean is of few elements, all of it where it is of one.
    fn judge_magnitudes(&self, operands: &[Vec<f64>], alpha: f64, beta: f64) -> Vec<Vec<f64>> {
        if self.norm_pass() != NormPass::Backward {
            return Judge::judge_scaled(self, operands, alpha, beta);
        }
        backward(self, &Named::new(self, operands), |summands| summands.map(f64::abs).iter().sum())
    }

    /// Variances are positive, and sums of squares those of numbers with the given sums. Statistics of x are never far
    /// from it: the gradient has cubes of `inv_std`, so that of others a few elements would be made of numbers that are
    /// hundreds of times those of the rest.
    fn make_admissible(&self, operands: &mut [Vec<f64>]) {
        let names: Vec<&str> = self.operands().iter().map(|operand| operand.name).collect();
        for (name, values) in names.iter().zip(operands.iter_mut()) {
            match *name {
                "running_var" => values.iter_mut().for_each(|v| *v = v.abs().max(0.125)),
                "inv_std" => values.iter_mut().for_each(|v| *v = v.abs().clamp(0.125, 2.0)),
                "mean" => values.iter_mut().for_each(|v| *v = v.clamp(-2.0, 2.0)),
                _ => {}
            }
        }
        if self.norm_pass() == NormPass::Finalize {
            let n = self.count() as f64;
            for i in 0..operands[0].len() {
                let exact = operands[0][i] * operands[0][i] / n + n * (0.5 + operands[1][i].abs());
                operands[1][i] = if self.x().dtype() == DType::F64 { exact } else { f64::from(exact as f32) };
            }
        }
    }

    /// Statistics are not made of y.
    fn rounded_to(&self) -> Vec<DType> {
        crate::stored_types(self)
    }
}

/// A problem's operands by name.
struct Named<'a> {
    names: Vec<&'static str>,
    values: &'a [Vec<f64>],
}

impl<'a> Named<'a> {
    fn new(problem: &NormProblem, values: &'a [Vec<f64>]) -> Self {
        Named { names: problem.operands().iter().map(|operand| operand.name).collect(), values }
    }

    fn get(&self, name: &str) -> Option<&'a [f64]> {
        let at = self.names.iter().position(|n| *n == name)?;
        Some(&self.values[at])
    }

    /// Element `i`, or `or` where there is no such operand.
    fn at(&self, name: &str, i: usize, or: f64) -> f64 {
        self.get(name).map_or(or, |values| values[i])
    }
}

/// For each element of x, the index of its row and that of its parameter.
fn places(problem: &NormProblem) -> Vec<(usize, usize)> {
    let dims: Vec<usize> = problem.x().dims().iter().map(|&dim| dim as usize).collect();
    let elems: usize = dims.iter().product();
    (0..elems)
        .map(|linear| {
            let per_image = elems / dims[0];
            let (n, in_image) = (linear / per_image, linear % per_image);
            // Modes with channels have a rank of at least 2.
            let channels = dims.get(1).copied().unwrap_or(1);
            let c = in_image / (per_image / channels).max(1);
            match problem.mode() {
                NormMode::Batch => (c, c),
                NormMode::PerActivation => (in_image, in_image),
                NormMode::Layer { axis } | NormMode::Rms { axis } => {
                    let in_row: usize = dims[axis..].iter().product();
                    (linear / in_row, linear % in_row)
                }
                NormMode::Group { groups } => {
                    let groups = groups as usize;
                    (n * groups + c / (channels / groups), c)
                }
                NormMode::Instance => (n * channels + c, c),
            }
        })
        .collect()
}

/// What is known of a row: of its elements times a power of two, so that squares neither overflow nor vanish beside ε. The mean is
/// the sum of two numbers: one would be off by much of a deviation that is small beside it.
struct Row {
    scale: f64,
    mean: [f64; 2],
    variance: f64,
    elems: f64,
}

impl Row {
    fn new(values: &[f64], centred: bool, epsilon: f64) -> Row {
        let largest = values.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
        let scale = if largest > 2f64.powi(480) {
            2f64.powi(-520)
        } else if largest < 2f64.powi(-450) && epsilon < 2f64.powi(-520) {
            2f64.powi(520)
        } else {
            1.0
        };
        let elems = values.len() as f64;
        let mut row = Row { scale, mean: [0.0; 2], variance: 0.0, elems };
        // Each time from what was found before: the mean of equal numbers is that number.
        let rounds = if centred { 3 } else { 0 };
        for _ in 0..rounds {
            let high = row.mean[0] + row.mean[1];
            if !high.is_finite() {
                break;
            }
            row.mean = [high, sum(values.iter().map(|x| x * scale - high)) / elems];
        }
        row.variance = sum(values.iter().map(|&x| row.deviation(x) * row.deviation(x))) / elems;
        row
    }

    /// Of scaled elements.
    fn deviation(&self, x: f64) -> f64 {
        (x * self.scale - self.mean[0]) - self.mean[1]
    }

    fn root(&self, epsilon: f64) -> f64 {
        (self.variance + epsilon * self.scale * self.scale).sqrt()
    }

    fn normal(&self, x: f64, epsilon: f64) -> f64 {
        self.deviation(x) / self.root(epsilon)
    }

    fn mean(&self) -> f64 {
        let [high, low] = self.mean;
        (if high.is_finite() { high + low } else { high }) / self.scale
    }

    fn inv_std(&self, epsilon: f64) -> f64 {
        self.scale / self.root(epsilon)
    }

    /// Mean, variance and number of elements.
    fn moments(&self) -> (f64, f64, f64) {
        (self.mean(), self.variance / self.scale / self.scale, self.elems)
    }
}

/// Of each row.
fn statistics(problem: &NormProblem, x: &[f64]) -> Vec<Row> {
    let places = places(problem);
    let n_rows = places.iter().map(|place| place.0 + 1).max().unwrap_or(0);
    let mut rows = vec![Vec::new(); n_rows];
    places.iter().zip(x).for_each(|(place, &x)| rows[place.0].push(x));
    let centred = !matches!(problem.mode(), NormMode::Rms { .. });
    rows.iter().map(|values| Row::new(values, centred, problem.epsilon())).collect()
}

/// y; then mean, inv_std, running_mean and running_var, as far as the problem has them.
fn forward(problem: &NormProblem, tensors: &Named<'_>) -> Vec<Vec<f64>> {
    let x = tensors.get("x").unwrap_or_default();
    let statistics = statistics(problem, x);
    let epsilon = problem.epsilon();
    let y = places(problem)
        .into_iter()
        .enumerate()
        .map(|(i, (row, param))| finish(problem, tensors, i, param, statistics[row].normal(x[i], epsilon)))
        .collect();
    let mut results = vec![y];
    if tensors.get("mean").is_some() {
        results.push(statistics.iter().map(Row::mean).collect());
    }
    if tensors.get("inv_std").is_some() {
        results.push(statistics.iter().map(|row| row.inv_std(epsilon)).collect());
    }
    let moments: Vec<_> = statistics.iter().map(Row::moments).collect();
    results.extend(running(problem, tensors, &moments));
    results
}

/// running_mean and running_var, where the problem has them.
fn running(problem: &NormProblem, tensors: &Named<'_>, statistics: &[(f64, f64, f64)]) -> Vec<Vec<f64>> {
    let (Some(mean), Some(variance)) = (tensors.get("running_mean"), tensors.get("running_var")) else {
        return Vec::new();
    };
    let factor = problem.factor();
    let blend = |prior: f64, new: f64| (1.0 - factor) * prior + factor * new;
    let means = mean.iter().zip(statistics).map(|(&prior, s)| blend(prior, s.0));
    let variances = variance.iter().zip(statistics).map(|(&prior, s)| blend(prior, s.1 * problem.correction()));
    vec![means.collect(), variances.collect()]
}

/// y by running statistics.
fn inference(problem: &NormProblem, tensors: &Named<'_>) -> Vec<f64> {
    let x = tensors.get("x").unwrap_or_default();
    places(problem)
        .into_iter()
        .enumerate()
        .map(|(i, (row, param))| {
            let normal = match (tensors.get("running_mean"), tensors.get("running_var")) {
                (Some(mean), Some(variance)) => (x[i] - mean[row]) / (variance[row] + problem.epsilon()).sqrt(),
                _ => x[i],
            };
            finish(problem, tensors, i, param, normal)
        })
        .collect()
}

/// act(x̂ · scale + bias + z).
fn finish(problem: &NormProblem, tensors: &Named<'_>, i: usize, param: usize, normal: f64) -> f64 {
    let activation = Activation::from(problem.activation());
    let sum = normal * tensors.at("scale", param, 1.0) + tensors.at("bias", param, 0.0) + tensors.at("z", i, 0.0);
    value(&activation, sum)
}

/// dx; then dz, dscale and dbias, as far as the problem has them. dx is made by `sum` of three summands: the gradient of the
/// normalized x, and what of it goes through mean and variance.
fn backward(problem: &NormProblem, tensors: &Named<'_>, sum: impl Fn([f64; 3]) -> f64) -> Vec<Vec<f64>> {
    let (x, dy) = (tensors.get("x").unwrap_or_default(), tensors.get("dy").unwrap_or_default());
    let places = places(problem);
    let own = statistics(problem, x);
    let (mode, coefficient) = problem.activation();
    let g: Vec<f64> = (0..x.len()).map(|i| dy[i] * slope(mode, coefficient, tensors.at("y", i, 0.0))).collect();
    let inv_std = |row: usize| tensors.at("inv_std", row, own[row].inv_std(problem.epsilon()));
    let normal = |row: usize, x: f64| match tensors.get("inv_std") {
        Some(inv_std) => (x - tensors.at("mean", row, 0.0)) * inv_std[row],
        None => own[row].normal(x, problem.epsilon()),
    };
    let normal: Vec<f64> = places.iter().zip(x).map(|(&(row, _), &x)| normal(row, x)).collect();
    let h: Vec<f64> = places.iter().zip(&g).map(|(&(_, param), g)| g * tensors.at("scale", param, 1.0)).collect();
    let (mut sum_h, mut sum_hx) = (vec![0.0; own.len()], vec![0.0; own.len()]);
    for (i, &(row, _)) in places.iter().enumerate() {
        sum_h[row] += h[i];
        sum_hx[row] += h[i] * normal[i];
    }
    let centred = !matches!(problem.mode(), NormMode::Rms { .. });
    let dx = (0..x.len()).map(|i| {
        let row = places[i].0;
        let m = own[row].elems;
        let shift = if centred { sum_h[row] / m } else { 0.0 };
        inv_std(row) * sum([h[i], shift, normal[i] * sum_hx[row] / m])
    });
    let mut results = vec![dx.collect()];
    if tensors.get("dz").is_some() {
        results.push(g.clone());
    }
    let n_params = places.iter().map(|place| place.1 + 1).max().unwrap_or(0);
    let (mut dscale, mut dbias) = (vec![0.0; n_params], vec![0.0; n_params]);
    for (i, &(_, param)) in places.iter().enumerate() {
        dscale[param] += g[i] * normal[i];
        dbias[param] += g[i];
    }
    results.extend(tensors.get("dscale").map(|_| dscale));
    results.extend(tensors.get("dbias").map(|_| dbias));
    results
}

/// The activation's derivative from its value.
fn slope(mode: ActivationMode, c: f64, y: f64) -> f64 {
    match mode {
        ActivationMode::Relu => f64::from(y > 0.0),
        ActivationMode::ClippedRelu => f64::from(y > 0.0 && y < c),
        ActivationMode::Elu => {
            if y > 0.0 {
                1.0
            } else {
                y + c
            }
        }
        ActivationMode::Sigmoid => y * (1.0 - y),
        ActivationMode::Tanh => 1.0 - y * y,
        // Identity; others are refused backward.
        _ => 1.0,
    }
}

/// mean, inv_std, eq_scale, eq_bias; then running_mean and running_var, where the problem has them.
fn finalize(problem: &NormProblem, tensors: &Named<'_>) -> Vec<Vec<f64>> {
    let (sum, squares) = (tensors.get("sum").unwrap_or_default(), tensors.get("sum_squares").unwrap_or_default());
    let n = problem.count() as f64;
    let statistics: Vec<(f64, f64, f64)> = sum
        .iter()
        .zip(squares)
        .map(|(sum, squares)| {
            let mean = sum / n;
            let spread = squares / n - mean * mean;
            // A comparison and not `max`, which would drop a NaN.
            (mean, if spread < 0.0 { 0.0 } else { spread }, n)
        })
        .collect();
    let inv_std: Vec<f64> = statistics.iter().map(|s| 1.0 / (s.1 + problem.epsilon()).sqrt()).collect();
    let eq_scale: Vec<f64> = inv_std.iter().enumerate().map(|(c, i)| i * tensors.at("scale", c, 1.0)).collect();
    let eq_bias =
        statistics.iter().zip(&eq_scale).enumerate().map(|(c, (s, a))| tensors.at("bias", c, 0.0) - s.0 * a).collect();
    let mut results = vec![statistics.iter().map(|s| s.0).collect(), inv_std, eq_scale.clone(), eq_bias];
    results.extend(running(problem, tensors, &statistics));
    results
}
