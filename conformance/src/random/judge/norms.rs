//! Normalizations, row by row in two passes.

use super::super::draw::Drawn;
use super::{Wide, counted, float, indices, int, list, place};
use crate::value::ElementType;

/// Statistics of a row. The mean is an element and what is added to it, so that a row far from 0 loses nothing.
#[derive(Clone, Copy)]
struct Statistics {
    first: f64,
    mean: f64,
    var: f64,
}

impl Statistics {
    fn of(row: &[f64]) -> Self {
        let (n, first) = (row.len() as f64, row[0]);
        let mean = row.iter().map(|x| x - first).sum::<f64>() / n;
        Statistics { first, mean, var: row.iter().map(|x| (x - first - mean).powi(2)).sum::<f64>() / n }
    }

    fn mean(&self) -> f64 {
        self.first + self.mean
    }

    fn deviation(&self, x: f64) -> f64 {
        x - self.first - self.mean
    }
}

/// Which row each element is of, by the extents of rows, and what their members are.
fn rows(x: &Wide, of_rows: &[usize]) -> (Vec<usize>, Vec<Vec<f64>>) {
    let row: Vec<usize> = indices(&x.dims).iter().map(|index| place(of_rows, index)).collect();
    let mut members = vec![Vec::new(); of_rows.iter().product()];
    x.reals().iter().zip(&row).for_each(|(&x, &row)| members[row].push(x));
    (row, members)
}

fn statistics(x: &Wide, of_rows: &[usize]) -> Vec<Statistics> {
    rows(x, of_rows).1.iter().map(|row| Statistics::of(row)).collect()
}

/// `scale · x̂ + bias` with what rounding may cost: a part of the row's deviation, and of the bias.
fn affine(normalized: f64, scale: f64, bias: f64) -> (f64, f64) {
    (normalized * scale + bias, scale.abs() * normalized.abs().max(1.0) + bias.abs())
}

/// What a normalization makes of its inputs.
pub fn expect(drawn: &Drawn) -> Vec<Wide> {
    let inputs: Vec<Wide> = drawn.inputs.iter().flatten().map(Wide::of).collect();
    let x = &inputs[0];
    let epsilon = float(drawn, "epsilon", 1e-5);
    match drawn.node.op_type.as_str() {
        "BatchNormalization" => batch(drawn, &inputs, epsilon),
        "LayerNormalization" | "RMSNormalization" => by_axis(drawn, &inputs, epsilon),
        "InstanceNormalization" => vec![of_channels(&inputs, x.dims[1], x.dims[1], epsilon)],
        "GroupNormalization" => {
            let groups = int(drawn, "num_groups", 1) as usize;
            let n_factors = if drawn.opset < 21 { groups } else { x.dims[1] };
            vec![of_channels(&inputs, groups, n_factors, epsilon)]
        }
        "MeanVarianceNormalization" => {
            let axes = list(drawn, "axes", 1).unwrap_or_else(|| vec![0, 2, 3]);
            let of_rows: Vec<usize> =
                (0..x.dims.len()).map(|i| if axes.contains(&(i as i64)) { 1 } else { x.dims[i] }).collect();
            vec![by_rows(x, &of_rows, |row, x| {
                // ONNX writes it with 1e-9 added to the deviation: equal numbers are 0.
                let deviation = row.deviation(x);
                if deviation == 0.0 { 0.0 } else { deviation / row.var.sqrt() }
            })]
        }
        "LpNormalization" => vec![by_norm(drawn, x)],
        _ => vec![by_neighbors(drawn, x)],
    }
}

/// Elements by the statistics of their row.
fn by_rows(x: &Wide, of_rows: &[usize], one: impl Fn(Statistics, f64) -> f64) -> Wide {
    let (row, statistics) = (rows(x, of_rows).0, statistics(x, of_rows));
    let elem = |(&x, &row): (&f64, &usize)| (one(statistics[row], x), 1.0);
    Wide::real(x.element, &x.dims, x.reals().iter().zip(&row).map(elem).collect())
}

/// Each element with a factor and a bias of its channel or of all.
fn with_factors(x: &Wide, normalized: &Wide, factor_of: impl Fn(&[usize]) -> (f64, f64)) -> Wide {
    let one = |(index, y): (Vec<usize>, f64)| {
        let (scale, bias) = factor_of(&index);
        affine(y, scale, bias)
    };
    Wide::real(x.element, &x.dims, indices(&x.dims).into_iter().zip(normalized.reals()).map(one).collect())
}

fn batch(drawn: &Drawn, inputs: &[Wide], epsilon: f64) -> Vec<Wide> {
    let x = &inputs[0];
    let [scale, bias, mean, var] = [1, 2, 3, 4].map(|i| inputs[i].reals());
    let each_element = drawn.opset < 9 && int(drawn, "spatial", 1) == 0;
    let of = |index: &[usize]| if each_element { place(&x.dims[1..], &index[1..]) } else { index[1] };
    let factors = |index: &[usize]| (scale[of(index)], bias[of(index)]);
    if int(drawn, "training_mode", 0) == 0 {
        let values = x.reals();
        let one = |(index, &x): (Vec<usize>, &f64)| {
            let at = of(&index);
            let factor = scale[at] / (var[at] + epsilon).sqrt();
            // The mean may be far from the element: both are terms.
            ((x - mean[at]) * factor + bias[at], (x.abs() + mean[at].abs()) * factor.abs() + bias[at].abs())
        };
        return vec![Wide::real(x.element, &x.dims, indices(&x.dims).into_iter().zip(&values).map(one).collect())];
    }
    let of_rows: Vec<usize> = (0..x.dims.len()).map(|i| if i == 1 { x.dims[1] } else { 1 }).collect();
    let normalized = by_rows(x, &of_rows, |row, x| row.deviation(x) / (row.var + epsilon).sqrt());
    let momentum = float(drawn, "momentum", 0.9);
    let statistics = statistics(x, &of_rows);
    let mixed = |old: f64, new: f64| {
        let (old, new) = (old * momentum, new * (1.0 - momentum));
        (old + new, old.abs() + new.abs())
    };
    let small = |values: Vec<(f64, f64)>| Wide::real(inputs[3].element, &[x.dims[1]], values);
    let means = statistics.iter().zip(&mean).map(|(new, &old)| mixed(old, new.mean())).collect();
    let vars = statistics.iter().zip(&var).map(|(new, &old)| mixed(old, new.var)).collect();
    vec![with_factors(x, &normalized, factors), small(means), small(vars)]
}

fn by_axis(drawn: &Drawn, inputs: &[Wide], epsilon: f64) -> Vec<Wide> {
    let x = &inputs[0];
    let rank = x.dims.len();
    let axis = counted(int(drawn, "axis", -1), rank);
    let of_rows: Vec<usize> = (0..rank).map(|i| if i < axis { x.dims[i] } else { 1 }).collect();
    let is_rms = drawn.node.op_type == "RMSNormalization";
    let inv_std = |row: Statistics| {
        let square = if is_rms { row.var + row.mean() * row.mean() } else { row.var };
        1.0 / (square + epsilon).sqrt()
    };
    let normalized = by_rows(x, &of_rows, |row, x| if is_rms { x } else { row.deviation(x) } * inv_std(row));
    let (scale, bias) = (inputs[1].reals(), inputs.get(2).map(Wide::reals));
    let factors = |index: &[usize]| {
        let at = place(&inputs[1].dims, &index[axis..]);
        (scale[at], bias.as_ref().map_or(0.0, |bias| bias[at]))
    };
    let mut outputs = vec![with_factors(x, &normalized, factors)];
    if drawn.node.output.len() > 1 {
        let statistics = statistics(x, &of_rows);
        // They have the type that the stash says, which is f32.
        let mean = statistics.iter().map(|row| (row.mean(), row.mean().abs())).collect();
        let inv_std = statistics.iter().map(|&row| (inv_std(row), 0.0)).collect();
        outputs.push(Wide::real(ElementType::Float, &of_rows, mean));
        outputs.push(Wide::real(ElementType::Float, &of_rows, inv_std));
        outputs.truncate(drawn.node.output.len());
    }
    outputs
}

/// Each image's channels in groups, with so many factors for all of them.
fn of_channels(inputs: &[Wide], groups: usize, n_factors: usize, epsilon: f64) -> Wide {
    let x = &inputs[0];
    let channels = x.dims[1];
    let apart = Wide { dims: [&[x.dims[0], groups, channels / groups], &x.dims[2..]].concat(), ..x.clone() };
    let of_rows: Vec<usize> = (0..apart.dims.len()).map(|i| if i < 2 { apart.dims[i] } else { 1 }).collect();
    let normalized = by_rows(&apart, &of_rows, |row, x| row.deviation(x) / (row.var + epsilon).sqrt());
    let (scale, bias) = (inputs[1].reals(), inputs[2].reals());
    with_factors(x, &normalized, |index| {
        let at = index[1] / (channels / n_factors);
        (scale[at], bias[at])
    })
}

fn by_norm(drawn: &Drawn, x: &Wide) -> Wide {
    let axis = counted(int(drawn, "axis", -1), x.dims.len());
    let p = int(drawn, "p", 2) as i32;
    let of_rows: Vec<usize> = (0..x.dims.len()).map(|i| if i == axis { 1 } else { x.dims[i] }).collect();
    let (values, (row, members)) = (x.reals(), rows(x, &of_rows));
    let sums: Vec<f64> = members.iter().map(|row| row.iter().map(|x| x.abs().powi(p)).sum()).collect();
    // Where the norm is 0, the result is.
    let one = |(&x, &row): (&f64, &usize)| (if x == 0.0 { 0.0 } else { x / sums[row].powf(1.0 / f64::from(p)) }, 0.0);
    Wide::real(x.element, &x.dims, values.iter().zip(&row).map(one).collect())
}

fn by_neighbors(drawn: &Drawn, x: &Wide) -> Wide {
    let size = int(drawn, "size", 1);
    let (alpha, beta, bias) = (float(drawn, "alpha", 1e-4), float(drawn, "beta", 0.75), float(drawn, "bias", 1.0));
    let values = x.reals();
    let one = |index: Vec<usize>| {
        let channel = index[1] as i64;
        let window = (channel - (size - 1) / 2).max(0)..=(channel + size / 2).min(x.dims[1] as i64 - 1);
        let at = |channel: usize| values[place(&x.dims, &[&[index[0], channel], &index[2..]].concat())];
        let squares: f64 = window.map(|channel| at(channel as usize).powi(2)).sum();
        (at(index[1]) / (bias + alpha / size as f64 * squares).powf(beta), 0.0)
    };
    Wide::real(x.element, &x.dims, indices(&x.dims).into_iter().map(one).collect())
}
