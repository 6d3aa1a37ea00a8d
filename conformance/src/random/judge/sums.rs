//! Reductions, softmax and products of matrices.

use super::super::draw::Drawn;
use super::elementwise::repeated;
use super::{Elems, Wide, counted, float, indices, int, list, place};
use crate::value::ElementType;

/// A sum with the sum of the terms' magnitudes.
fn sum(terms: impl Iterator<Item = f64>) -> (f64, f64) {
    terms.fold((0.0, 0.0), |(sum, all), term| (sum + term, all + term.abs()))
}

fn reduce_reals(op: &str, x: &[f64]) -> (f64, f64) {
    let squares = || sum(x.iter().map(|x| x * x));
    let extreme = |sign: f64| {
        let of = |a: f64, b: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) };
        (sign * x.iter().fold(f64::NEG_INFINITY, |a, &b| of(a, sign * b)), 0.0)
    };
    match op {
        "ReduceL1" => sum(x.iter().map(|x| x.abs())),
        "ReduceL2" => (squares().0.sqrt(), 0.0),
        "ReduceLogSum" => (sum(x.iter().copied()).0.ln(), 1.0),
        "ReduceLogSumExp" => (sum(x.iter().map(|x| x.exp())).0.ln(), x.iter().fold(1.0, |a, b| b.abs().max(a))),
        "ReduceMax" => extreme(1.0),
        "ReduceMin" => extreme(-1.0),
        "ReduceMean" => {
            let (sum, all) = sum(x.iter().copied());
            (sum / x.len() as f64, all / x.len() as f64)
        }
        "ReduceProd" => (x.iter().product(), 0.0),
        "ReduceSum" => sum(x.iter().copied()),
        _ => squares(),
    }
}

/// Wraps where the result does: a sum of products of i64 fits i128 unless many are multiplied.
fn reduce_ints(op: &str, x: &[i128]) -> i128 {
    let wrapped = |a: i128, b: i128| i128::from((a as i64).wrapping_mul(b as i64));
    match op {
        "ReduceL1" => x.iter().map(|x| x.abs()).sum(),
        "ReduceMax" => x.iter().copied().max().unwrap_or(0),
        "ReduceMin" => x.iter().copied().min().unwrap_or(0),
        "ReduceMean" => x.iter().sum::<i128>() / x.len() as i128,
        "ReduceProd" => x.iter().fold(1, |a, &b| wrapped(a, b)),
        "ReduceSum" => x.iter().sum(),
        _ => x.iter().map(|&x| wrapped(x, x)).sum(),
    }
}

/// The first place of the largest number.
fn first_largest(keys: &[(f64, i128)]) -> i128 {
    let mut best = 0;
    for i in 1..keys.len() {
        if keys[i] > keys[best] {
            best = i;
        }
    }
    best as i128
}

/// What a reduction makes of its input.
pub fn reduction(drawn: &Drawn) -> Wide {
    let op = drawn.node.op_type.as_str();
    let x = Wide::of(drawn.inputs[0].as_ref().expect("an input"));
    let rank = x.dims.len();
    let is_arg = op.starts_with("Arg");
    let axes: Vec<usize> = match list(drawn, "axes", 1) {
        _ if is_arg => vec![counted(int(drawn, "axis", 0), rank)],
        Some(axes) => axes.iter().map(|&axis| counted(axis, rank)).collect(),
        None => (0..rank).collect(),
    };
    let with_ones: Vec<usize> = (0..rank).map(|i| if axes.contains(&i) { 1 } else { x.dims[i] }).collect();
    let mut members = vec![Vec::new(); with_ones.iter().product()];
    for (at, index) in indices(&x.dims).iter().enumerate() {
        members[place(&with_ones, index)].push(at);
    }
    let keeps = int(drawn, "keepdims", 1) != 0;
    let dims: Vec<usize> = (0..rank).filter(|i| keeps || !axes.contains(i)).map(|i| with_ones[i]).collect();
    let (reals, ints) = (x.reals(), x.ints());
    let is_real = matches!(x.elems, Elems::Real(_));
    if is_arg {
        let sign = if op == "ArgMax" { 1 } else { -1 };
        let key =
            |&at: &usize| if is_real { (f64::from(sign) * reals[at], 0) } else { (0.0, i128::from(sign) * ints[at]) };
        let one = |members: &Vec<usize>| first_largest(&members.iter().map(key).collect::<Vec<_>>());
        return Wide::int(ElementType::Int64, &dims, members.iter().map(one).collect());
    }
    if is_real {
        let one = |members: &Vec<usize>| reduce_reals(op, &members.iter().map(|&at| reals[at]).collect::<Vec<_>>());
        return Wide::real(x.element, &dims, members.iter().map(one).collect());
    }
    let one = |members: &Vec<usize>| reduce_ints(op, &members.iter().map(|&at| ints[at]).collect::<Vec<_>>());
    Wide::int(x.element, &dims, members.iter().map(one).collect())
}

/// What a softmax makes of its input.
pub fn softmax(drawn: &Drawn) -> Wide {
    let x = Wide::of(drawn.inputs[0].as_ref().expect("an input"));
    let old = drawn.opset < 13;
    let axis = counted(int(drawn, "axis", if old { 1 } else { -1 }), x.dims.len());
    // All elements of a row have the same index but for these axes.
    let in_row = |i: usize| if old { i >= axis } else { i == axis };
    let rows: Vec<usize> = x.dims.iter().enumerate().map(|(i, &dim)| if in_row(i) { 1 } else { dim }).collect();
    let (values, all) = (x.reals(), indices(&x.dims));
    let row: Vec<usize> = all.iter().map(|index| place(&rows, index)).collect();
    let n_rows = rows.iter().product();
    let (mut top, mut sums) = (vec![f64::NEG_INFINITY; n_rows], vec![0.0; n_rows]);
    values.iter().zip(&row).for_each(|(&x, &row)| top[row] = top[row].max(x));
    values.iter().zip(&row).for_each(|(&x, &row)| sums[row] += (x - top[row]).exp());
    let is_log = drawn.node.op_type == "LogSoftmax";
    let one = |(&x, &row): (&f64, &usize)| match is_log {
        true => (x - top[row] - sums[row].ln(), x.abs() + top[row].abs() + 1.0),
        false => ((x - top[row]).exp() / sums[row], 0.0),
    };
    Wide::real(x.element, &x.dims, values.iter().zip(&row).map(one).collect())
}

/// What a product makes of its inputs: vectors are a row and a column, and batches repeat.
pub fn product(drawn: &Drawn) -> Wide {
    let x: Vec<Wide> = drawn.inputs.iter().flatten().map(Wide::of).collect();
    let turned = |name: &str| int(drawn, name, 0) != 0;
    let [a_is_row, b_is_column] = [x[0].dims.len() == 1, x[1].dims.len() == 1];
    let a_dims = if a_is_row { [&[1], &x[0].dims[..]].concat() } else { x[0].dims.clone() };
    let b_dims = if b_is_column { [&x[1].dims[..], &[1]].concat() } else { x[1].dims.clone() };
    let [a_rank, b_rank] = [a_dims.len(), b_dims.len()];
    let batch = repeated(&[&a_dims[..a_rank - 2], &b_dims[..b_rank - 2]]);
    let [mut m, mut k] = [a_dims[a_rank - 2], a_dims[a_rank - 1]];
    if turned("transA") {
        (m, k) = (k, m);
    }
    let n = b_dims[b_rank - if turned("transB") { 2 } else { 1 }];
    let all = [&batch[..], &[m, n]].concat();
    // The places of the operands of each term.
    let pair = |index: &[usize], l: usize| {
        let (outer, [i, j]) = (&index[..batch.len()], [index[batch.len()], index[batch.len() + 1]]);
        let at = |turned: bool, pair: [usize; 2]| [outer, &if turned { [pair[1], pair[0]] } else { pair }].concat();
        [place(&a_dims, &at(turned("transA"), [i, l])), place(&b_dims, &at(turned("transB"), [l, j]))]
    };
    let mut dims = batch.clone();
    dims.extend((!a_is_row).then_some(m));
    dims.extend((!b_is_column).then_some(n));
    if let (Elems::Int(a), Elems::Int(b)) = (&x[0].elems, &x[1].elems) {
        let zero = |i: usize| x.get(i).map_or(0, |zero| zero.ints()[0]);
        let of = |index: &Vec<usize>| {
            (0..k).map(|l| pair(index, l)).map(|[i, j]| (a[i] - zero(2)) * (b[j] - zero(3))).sum::<i128>()
        };
        let element = if drawn.node.op_type == "MatMulInteger" { ElementType::Int32 } else { x[0].element };
        return Wide::int(element, &dims, indices(&all).iter().map(of).collect());
    }
    let (a, b) = (x[0].reals(), x[1].reals());
    let (alpha, beta) = (float(drawn, "alpha", 1.0), float(drawn, "beta", 1.0));
    let one = |index: &Vec<usize>| {
        let (sum, all) = sum((0..k).map(|l| pair(index, l)).map(|[i, j]| a[i] * b[j]));
        let c = x.get(2).map_or(0.0, |c| beta * c.reals()[place(&c.dims, index)]);
        (alpha * sum + c, alpha.abs() * all + c.abs())
    };
    Wide::real(x[0].element, &dims, indices(&all).iter().map(one).collect())
}
