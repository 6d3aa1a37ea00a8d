//! Element by element.

use super::super::draw::{Drawn, limits};
use super::{Elems, Wide, counted, float, indices, int, place};
use crate::value::ElementType;

/// The extents to which all repeat.
pub fn repeated(shapes: &[&[usize]]) -> Vec<usize> {
    let rank = shapes.iter().map(|dims| dims.len()).max().unwrap_or(0);
    let at = |dims: &[usize], i: usize| (i + dims.len()).checked_sub(rank).map_or(1, |i| dims[i]);
    (0..rank).map(|i| shapes.iter().map(|dims| at(dims, i)).find(|&dim| dim != 1).unwrap_or(1)).collect()
}

/// erf by its series, and by the continued fraction of erfc in the tail.
pub fn erf(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    x.signum() * (1.0 - erfc(x.abs())).max(0.0)
}

/// erfc of a number that is not below 0.
fn erfc(x: f64) -> f64 {
    if x > 30.0 {
        return 0.0;
    }
    if x < 1.0 {
        let (mut term, mut sum) = (x, x);
        for n in 1..200 {
            term *= -x * x / f64::from(n);
            sum += term / f64::from(2 * n + 1);
        }
        return 1.0 - sum * 2.0 / std::f64::consts::PI.sqrt();
    }
    let tail = (1..200).rev().fold(x, |below, k| x + f64::from(k) / 2.0 / below);
    (-x * x).exp() / tail / std::f64::consts::PI.sqrt()
}

/// `max` and `min` through which NaN spreads.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

fn smaller(a: f64, b: f64) -> f64 {
    -larger(-a, -b)
}

fn activation(drawn: &Drawn, x: f64) -> f64 {
    let alpha = |default: f64| float(drawn, "alpha", default);
    let sigmoid = |x: f64| 1.0 / (1.0 + (-x).exp());
    let softplus = |x: f64| larger(x, 0.0) + (-x.abs()).exp().ln_1p();
    // A factor that vanishes faster than x grows.
    let weighted = |x: f64, by: f64| if x == f64::NEG_INFINITY { 0.0 } else { x * by };
    let below = |factor: f64| if x < 0.0 { factor } else { x };
    match drawn.node.op_type.as_str() {
        "Relu" => larger(x, 0.0),
        "LeakyRelu" => below(alpha(0.01) * x),
        "Elu" => below(alpha(1.0) * x.exp_m1()),
        "Selu" => {
            let (default, gamma) =
                if drawn.opset < 6 { (1.6732, 1.0507) } else { (1.673_263_192_176_818_8, 1.050_701_022_148_132_3) };
            float(drawn, "gamma", gamma) * below(alpha(default) * x.exp_m1())
        }
        "Celu" => larger(0.0, x) + smaller(0.0, alpha(1.0) * (x / alpha(1.0)).exp_m1()),
        "HardSigmoid" => larger(0.0, smaller(1.0, alpha(0.2) * x + float(drawn, "beta", 0.5))),
        "HardSwish" => weighted(x, larger(0.0, smaller(1.0, x / 6.0 + 0.5))),
        "Sigmoid" => sigmoid(x),
        "Softplus" => softplus(x),
        "Softsign" => {
            if x.is_infinite() {
                x.signum()
            } else {
                x / (1.0 + x.abs())
            }
        }
        "Tanh" => x.tanh(),
        "ThresholdedRelu" => {
            if x > alpha(1.0) {
                x
            } else {
                0.0
            }
        }
        "Mish" => weighted(x, softplus(x).tanh()),
        "Gelu" if drawn.get("approximate").is_some() => {
            let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044715 * x * x * x);
            weighted(x, 0.5 * (1.0 + inner.tanh()))
        }
        "Gelu" => {
            let tail = erfc(x.abs() / std::f64::consts::SQRT_2) / 2.0;
            if x.is_nan() { x } else { weighted(x, if x < 0.0 { tail } else { 1.0 - tail }) }
        }
        _ => weighted(x, sigmoid(alpha(1.0) * x)),
    }
}

fn real(drawn: &Drawn, x: &[f64]) -> f64 {
    let a = x[0];
    match drawn.node.op_type.as_str() {
        "Abs" => a.abs(),
        "Neg" => -a,
        "Sign" => {
            if a == 0.0 || a.is_nan() {
                a
            } else {
                a.signum()
            }
        }
        "Ceil" => a.ceil(),
        "Floor" => a.floor(),
        "Round" => a.round_ties_even(),
        "Sqrt" => a.sqrt(),
        "Reciprocal" => 1.0 / a,
        "Exp" => a.exp(),
        "Log" => a.ln(),
        "Erf" => erf(a),
        "Sin" => a.sin(),
        "Cos" => a.cos(),
        "Tan" => a.tan(),
        "Pow" => a.powf(x[1]),
        "Add" => a + x[1],
        "Sub" => a - x[1],
        "Mul" => a * x[1],
        "Div" => a / x[1],
        "Mod" => a % x[1],
        "PRelu" => {
            if a < 0.0 {
                a * x[1]
            } else {
                a
            }
        }
        "Max" => x[1..].iter().fold(a, |a, &b| larger(a, b)),
        "Min" => x[1..].iter().fold(a, |a, &b| smaller(a, b)),
        "Sum" => x.iter().sum(),
        "Mean" => x.iter().sum::<f64>() / x.len() as f64,
        _ => activation(drawn, a),
    }
}

fn whole(drawn: &Drawn, x: &[i128]) -> i128 {
    let a = x[0];
    match drawn.node.op_type.as_str() {
        "Abs" => a.abs(),
        "Neg" => -a,
        "Sign" => a.signum(),
        "Add" => a + x[1],
        "Sub" => a - x[1],
        "Mul" => a * x[1],
        "Div" => a / x[1],
        "Mod" if int(drawn, "fmod", 0) != 0 => a % x[1],
        "Mod" => a - x[1] * a.div_euclid(x[1]),
        "Pow" => a.pow(x[1] as u32),
        "Max" => x.iter().copied().fold(a, i128::max),
        _ => x.iter().copied().fold(a, i128::min),
    }
}

/// What a node makes of its inputs.
pub fn expect(drawn: &Drawn) -> Wide {
    let op = drawn.node.op_type.as_str();
    let mut x: Vec<Wide> = drawn.inputs.iter().flatten().map(Wide::of).collect();
    if op == "Clip" {
        return clip(drawn, &x[0]);
    }
    if drawn.opset < 7 && x.len() == 2 {
        // The second's dimensions stand at an axis of the first's.
        let at_end = x[0].dims.len() - x[1].dims.len();
        let axis = if op == "PRelu" && x[1].dims[0] > 1 { 1 } else { int(drawn, "axis", at_end as i64) };
        let behind = x[0].dims.len() - counted(axis, x[0].dims.len()) - x[1].dims.len();
        x[1].dims.extend(vec![1; behind]);
    }
    let dims = repeated(&x.iter().map(|x| &x.dims[..]).collect::<Vec<_>>());
    let places: Vec<Vec<usize>> =
        indices(&dims).iter().map(|index| x.iter().map(|x| place(&x.dims, index)).collect()).collect();
    if op == "Where" {
        let choose = x[0].ints();
        let from = |places: &Vec<usize>| if choose[places[0]] != 0 { (1, places[1]) } else { (2, places[2]) };
        let elems = match (&x[1].elems, &x[2].elems) {
            (Elems::Int(a), Elems::Int(b)) => {
                Elems::Int(places.iter().map(from).map(|(which, p)| if which == 1 { a[p] } else { b[p] }).collect())
            }
            (Elems::Real(a), Elems::Real(b)) => {
                Elems::Real(places.iter().map(from).map(|(which, p)| if which == 1 { a[p] } else { b[p] }).collect())
            }
            _ => unreachable!("both have one type"),
        };
        return Wide { element: x[1].element, dims, elems, exact: true };
    }
    let element = x[0].element;
    let is_real = matches!(x[0].elems, Elems::Real(_));
    let (reals, ints): (Vec<_>, Vec<_>) = x.iter().map(|x| (x.reals(), x.ints())).unzip();
    let real_at = |p: &Vec<usize>| p.iter().zip(&reals).map(|(&p, x)| x[p]).collect::<Vec<_>>();
    let int_at = |p: &Vec<usize>| p.iter().zip(&ints).map(|(&p, x)| x[p]).collect::<Vec<_>>();
    let truth = |of_real: fn(&[f64]) -> bool, of_int: fn(&[i128]) -> bool| {
        let one = |p: &Vec<usize>| i128::from(if is_real { of_real(&real_at(p)) } else { of_int(&int_at(p)) });
        Wide::int(ElementType::Bool, &dims, places.iter().map(one).collect())
    };
    match op {
        "Not" => truth(|_| false, |x| x[0] == 0),
        "And" => truth(|_| false, |x| x[0] != 0 && x[1] != 0),
        "Or" => truth(|_| false, |x| x[0] != 0 || x[1] != 0),
        "Xor" => truth(|_| false, |x| (x[0] != 0) != (x[1] != 0)),
        "Equal" => truth(|x| x[0] == x[1], |x| x[0] == x[1]),
        "Less" => truth(|x| x[0] < x[1], |x| x[0] < x[1]),
        "Greater" => truth(|x| x[0] > x[1], |x| x[0] > x[1]),
        "LessOrEqual" => truth(|x| x[0] <= x[1], |x| x[0] <= x[1]),
        "GreaterOrEqual" => truth(|x| x[0] >= x[1], |x| x[0] >= x[1]),
        "IsNaN" => truth(|x| x[0].is_nan(), |_| false),
        "IsInf" => {
            let (negative, positive) = (int(drawn, "detect_negative", 1) != 0, int(drawn, "detect_positive", 1) != 0);
            let one = |x: &f64| i128::from((*x == f64::INFINITY && positive) || (*x == f64::NEG_INFINITY && negative));
            Wide::int(ElementType::Bool, &dims, reals[0].iter().map(one).collect())
        }
        // The fraction of an integer's power is cut off.
        "Pow" if !is_real && matches!(x[1].elems, Elems::Real(_)) => {
            let one = |p: &Vec<usize>| real_at(p);
            Wide::int(element, &dims, places.iter().map(one).map(|x| x[0].powf(x[1]) as i128).collect())
        }
        _ if is_real => {
            let one = |p: &Vec<usize>| {
                let x = real_at(p);
                (real(drawn, &x), if x.len() > 1 { x.iter().map(|x| x.abs()).sum() } else { 0.0 })
            };
            // Only sums have terms that cancel.
            let sums = matches!(op, "Add" | "Sub" | "Sum" | "Mean");
            let cancels = |magnitude: f64| match op {
                _ if sums => magnitude,
                // A product and the half that is added to it.
                "HardSigmoid" => 1.0,
                _ => 0.0,
            };
            let elems = places.iter().map(one).map(|(y, magnitude)| (y, cancels(magnitude))).collect();
            Wide::real(element, &dims, elems)
        }
        _ => Wide::int(element, &dims, places.iter().map(|p| whole(drawn, &int_at(p))).collect()),
    }
}

fn clip(drawn: &Drawn, x: &Wide) -> Wide {
    let bound = |i: usize| drawn.inputs.get(i).and_then(Option::as_ref).map(Wide::of);
    match &x.elems {
        Elems::Real(elems) => {
            let (mut low, mut high) = (f64::NEG_INFINITY, f64::INFINITY);
            if drawn.opset < 11 {
                low = float(drawn, "min", f64::from(f32::MIN));
                high = float(drawn, "max", f64::from(f32::MAX));
            }
            low = bound(1).map_or(low, |bound| bound.reals()[0]);
            high = bound(2).map_or(high, |bound| bound.reals()[0]);
            let one = |&(x, _): &(f64, f64)| (smaller(larger(x, low), high), 0.0);
            Wide::real(x.element, &x.dims, elems.iter().map(one).collect())
        }
        Elems::Int(elems) => {
            let (low, high) = limits(x.element);
            let low = bound(1).map_or(low, |bound| bound.ints()[0]);
            let high = bound(2).map_or(high, |bound| bound.ints()[0]);
            Wide::int(x.element, &x.dims, elems.iter().map(|&x| x.max(low).min(high)).collect())
        }
    }
}
