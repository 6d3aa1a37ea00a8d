//! Operators that move elements: where each one comes from.

use super::super::draw::Drawn;
use super::{Elems, Wide, counted, float, indices, int, list, place, word};
use crate::value::ElementType::{self, *};

/// Elements by their index in the result; none where the constant stands.
fn from(x: &Wide, dims: &[usize], constant: f64, place_of: impl Fn(&[usize]) -> Option<Vec<usize>>) -> Wide {
    let places: Vec<_> =
        indices(dims).iter().map(|index| place_of(index).map(|index| place(&x.dims, &index))).collect();
    x.picked(dims, &places, constant)
}

/// What a node makes of its inputs.
pub fn expect(drawn: &Drawn) -> Vec<Wide> {
    let inputs: Vec<Wide> = drawn.inputs.iter().flatten().map(Wide::of).collect();
    let x = &inputs[0];
    let rank = x.dims.len();
    let axis = |default: i64| counted(int(drawn, "axis", default), rank);
    let result = match drawn.node.op_type.as_str() {
        "Slice" => slice(drawn, x),
        "Pad" => pad(drawn, x),
        "Concat" => {
            let axis = axis(i64::from(drawn.opset < 4));
            let mut dims = x.dims.clone();
            dims[axis] = inputs.iter().map(|x| x.dims[axis]).sum();
            // All elements in one row, of which each result takes one.
            let mut row = inputs.iter().skip(1).fold(x.clone(), |mut row, next| {
                match (&mut row.elems, &next.elems) {
                    (Elems::Int(a), Elems::Int(b)) => a.extend(b),
                    (Elems::Real(a), Elems::Real(b)) => a.extend(b),
                    _ => {}
                }
                row
            });
            row.dims = vec![inputs.iter().map(|x| x.dims.iter().product::<usize>()).sum()];
            from(&row, &dims, 0.0, |index| {
                let (mut index, mut first) = (index.to_vec(), 0);
                for part in &inputs {
                    if index[axis] < part.dims[axis] {
                        return Some(vec![first + place(&part.dims, &index)]);
                    }
                    index[axis] -= part.dims[axis];
                    first += part.dims.iter().product::<usize>();
                }
                None
            })
        }
        "Split" => {
            let (axis, mut start) = (axis(0), 0);
            let part = |&len: &i64| {
                let mut dims = x.dims.clone();
                dims[axis] = len as usize;
                let at = start;
                start += dims[axis];
                from(x, &dims, 0.0, |index| {
                    let mut index = index.to_vec();
                    index[axis] += at;
                    Some(index)
                })
            };
            return list(drawn, "split", 1).unwrap_or_default().iter().map(part).collect();
        }
        "Transpose" => {
            let order: Vec<usize> = match list(drawn, "perm", 1) {
                Some(order) => order.iter().map(|&axis| axis as usize).collect(),
                None => (0..rank).rev().collect(),
            };
            let dims: Vec<usize> = order.iter().map(|&axis| x.dims[axis]).collect();
            from(x, &dims, 0.0, |index| {
                let mut of = vec![0; rank];
                order.iter().zip(index).for_each(|(&axis, &i)| of[axis] = i);
                Some(of)
            })
        }
        "Tile" => {
            let mut repeats = vec![1; rank];
            match drawn.opset {
                ..6 => repeats[inputs[2].reals()[0] as usize] = inputs[1].reals()[0] as usize,
                _ => repeats = inputs[1].ints().iter().map(|&n| n as usize).collect(),
            }
            let dims: Vec<usize> = x.dims.iter().zip(&repeats).map(|(dim, n)| dim * n).collect();
            from(x, &dims, 0.0, |index| Some(index.iter().zip(&x.dims).map(|(i, dim)| i % dim).collect()))
        }
        "Gather" => {
            let (axis, places) = (axis(0), &inputs[1]);
            let dims = [&x.dims[..axis], &places.dims, &x.dims[axis + 1..]].concat();
            let n = places.dims.len();
            let ints = places.ints();
            from(x, &dims, 0.0, |index| {
                let at = ints[place(&places.dims, &index[axis..axis + n])];
                Some([&index[..axis], &[counted(at as i64, x.dims[axis])], &index[axis + n..]].concat())
            })
        }
        "Squeeze" => {
            let axes = list(drawn, "axes", 1).map(|axes| axes[0] as usize);
            let goes = |i: usize| axes.map_or(x.dims[i] == 1, |axis| axis == i);
            let dims = (0..rank).filter(|&i| !goes(i)).map(|i| x.dims[i]).collect();
            Wide { dims, ..x.clone() }
        }
        "Unsqueeze" => {
            let mut dims = x.dims.clone();
            list(drawn, "axes", 1).unwrap_or_default().iter().for_each(|&axis| dims.insert(axis as usize, 1));
            Wide { dims, ..x.clone() }
        }
        "Reshape" => Wide { dims: vec![x.dims[0], x.dims[1..].iter().product()], ..x.clone() },
        "Expand" => {
            let dims: Vec<usize> = inputs[1].ints().iter().map(|&dim| dim as usize).collect();
            from(x, &dims, 0.0, |index| Some(index[index.len() - rank..].to_vec()))
        }
        "DepthToSpace" => depth_to_space(drawn, x),
        "SpaceToDepth" => space_to_depth(drawn, x),
        "Flatten" => {
            let axis = match int(drawn, "axis", 1) {
                axis if axis < 0 => axis + rank as i64,
                axis => axis,
            } as usize;
            Wide { dims: vec![x.dims[..axis].iter().product(), x.dims[axis..].iter().product()], ..x.clone() }
        }
        "Shape" => {
            let at = |axis: i64| if axis < 0 { axis + rank as i64 } else { axis }.clamp(0, rank as i64) as usize;
            let (start, end) = (at(int(drawn, "start", 0)), at(int(drawn, "end", rank as i64)));
            let dims: Vec<i128> = x.dims[start..end.max(start)].iter().map(|&dim| dim as i128).collect();
            Wide::int(Int64, &[dims.len()], dims)
        }
        "Size" => Wide::int(Int64, &[], vec![x.dims.iter().product::<usize>() as i128]),
        _ => x.clone(),
    };
    vec![result]
}

fn slice(drawn: &Drawn, x: &Wide) -> Wide {
    let (starts, ends) = (list(drawn, "starts", 1).unwrap_or_default(), list(drawn, "ends", 2).unwrap_or_default());
    let axes = list(drawn, "axes", 3).unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = list(drawn, "steps", 4).unwrap_or_else(|| vec![1; starts.len()]);
    let mut places: Vec<Vec<usize>> = x.dims.iter().map(|&dim| (0..dim).collect()).collect();
    for (i, &axis) in axes.iter().enumerate() {
        let axis = counted(axis, x.dims.len());
        let (dim, step) = (x.dims[axis] as i128, i128::from(steps[i]));
        let at = |value: i64| i128::from(value) + if value < 0 { dim } else { 0 };
        let (low, high) = if step > 0 { (0, dim) } else { (-1, dim - 1) };
        let (mut at_now, end) = (at(starts[i]).clamp(low.max(0), high), at(ends[i]).clamp(low, high));
        places[axis].clear();
        while if step > 0 { at_now < end } else { at_now > end } {
            places[axis].push(at_now as usize);
            at_now += step;
        }
    }
    let dims: Vec<usize> = places.iter().map(Vec::len).collect();
    from(x, &dims, 0.0, |index| Some(index.iter().zip(&places).map(|(&i, places)| places[i]).collect()))
}

fn pad(drawn: &Drawn, x: &Wide) -> Wide {
    let name = if drawn.opset < 2 { "paddings" } else { "pads" };
    let pads: Vec<usize> = list(drawn, name, 1).unwrap_or_default().iter().map(|&pad| pad as usize).collect();
    let given = drawn.inputs.get(2).and_then(Option::as_ref).map(|value| Wide::of(value).reals()[0]);
    let constant = given.unwrap_or_else(|| float(drawn, "value", 0.0));
    let mode = word(drawn, "mode", "constant");
    let rank = x.dims.len();
    let dims: Vec<usize> = (0..rank).map(|i| x.dims[i] + pads[i] + pads[rank + i]).collect();
    from(x, &dims, constant, |index| {
        let mut of = Vec::new();
        for i in 0..rank {
            let (at, dim) = (index[i] as i64 - pads[i] as i64, x.dims[i] as i64);
            of.push(match &mode[..] {
                "edge" => at.clamp(0, dim - 1),
                "reflect" if at < 0 => -at,
                "reflect" if at >= dim => 2 * (dim - 1) - at,
                _ if (0..dim).contains(&at) => at,
                _ => return None,
            } as usize);
        }
        Some(of)
    })
}

/// The element of the input that a block of the image comes from.
fn depth_to_space(drawn: &Drawn, x: &Wide) -> Wide {
    let block = int(drawn, "blocksize", 1) as usize;
    let [n, depth] = [x.dims[0], x.dims[1] / (block * block)];
    let is_depth_inner = word(drawn, "mode", "DCR") == "DCR";
    from(x, &[n, depth, x.dims[2] * block, x.dims[3] * block], 0.0, |index| {
        let in_block = index[2] % block * block + index[3] % block;
        let channel = if is_depth_inner { in_block * depth + index[1] } else { index[1] * block * block + in_block };
        Some(vec![index[0], channel, index[2] / block, index[3] / block])
    })
}

fn space_to_depth(drawn: &Drawn, x: &Wide) -> Wide {
    let block = int(drawn, "blocksize", 1) as usize;
    let channels = x.dims[1];
    let dims = [x.dims[0], channels * block * block, x.dims[2] / block, x.dims[3] / block];
    from(x, &dims, 0.0, |index| {
        let (in_block, channel) = (index[1] / channels, index[1] % channels);
        Some(vec![index[0], channel, index[2] * block + in_block / block, index[3] * block + in_block % block])
    })
}

/// What the attributes of a constant say.
pub fn constant(drawn: &Drawn) -> Vec<Wide> {
    let ints = |dims: &[usize], ints: &[i64]| Wide::int(Int64, dims, ints.iter().map(|&int| i128::from(int)).collect());
    if let Some(list) = drawn.get("value_ints") {
        return vec![ints(&[list.ints.len()], &list.ints)];
    }
    match drawn.get("value_float") {
        Some(value) => vec![Wide { exact: true, ..Wide::real(Float, &[], vec![(f64::from(value.f), 0.0)]) }],
        None => vec![ints(&[], &[int(drawn, "value_int", 0)])],
    }
}

/// Bits of the significand, the smallest exponent of a normal number, and the largest number, of a type.
fn format(element: ElementType) -> (i32, i32, f64) {
    match element {
        Float8E4M3Fn => (4, -6, 448.0),
        Float8E5M2 => (3, -14, 57344.0),
        Float16 => (11, -14, 65504.0),
        Bfloat16 => (8, -126, 2f64.powi(120) * 255.0),
        Float => (24, -126, f64::from(f32::MAX)),
        _ => (53, -1022, f64::MAX),
    }
}

/// A number rounded to the nearest of its type, of two the even one. Types of 8 bits saturate.
fn rounded(x: f64, element: ElementType) -> f64 {
    let (digits, lowest, max) = format(element);
    if x == 0.0 || x.is_nan() || element == Double {
        return x;
    }
    let saturates = matches!(element, Float8E4M3Fn | Float8E5M2);
    let beyond = if saturates { max } else { f64::INFINITY };
    if x.is_infinite() {
        return beyond * x.signum();
    }
    // The exponent of the last place, which is at least that of the smallest number.
    let exponent = ((x.abs().to_bits() >> 52) as i32 - 1023).max(lowest);
    let place = 2f64.powi(exponent - digits + 1);
    let nearest = (x / place).round_ties_even() * place;
    if nearest.abs() > max { beyond * x.signum() } else { nearest }
}

/// An integer as a number with a fraction, rounded once.
fn rounded_int(x: i128, element: ElementType) -> f64 {
    let digits = format(element).0;
    let bits = (128 - x.unsigned_abs().leading_zeros()) as i32;
    let shift = (bits - digits).max(0) as u32;
    let (above, rest) = (x.unsigned_abs() >> shift, x.unsigned_abs() & ((1 << shift) - 1));
    let half = if shift > 0 { 1u128 << (shift - 1) } else { 1 };
    let up = shift > 0 && (rest > half || (rest == half && above & 1 == 1));
    let nearest = ((above + u128::from(up)) as f64) * 2f64.powi(shift as i32);
    rounded(nearest * x.signum() as f64, element)
}

/// What a cast makes of its input.
pub fn cast(drawn: &Drawn) -> Vec<Wide> {
    let x = Wide::of(drawn.inputs[0].as_ref().expect("an input"));
    let to = match drawn.node.op_type.as_str() {
        "CastLike" => drawn.inputs[1].as_ref().expect("a type").element,
        _ if drawn.opset < 6 => NAMED.into_iter().find(|named| named.0 == word(drawn, "to", "")).expect("a type").1,
        _ => ElementType::of(int(drawn, "to", 1) as i32).expect("a type"),
    };
    let is_real = super::super::draw::is_real(to);
    let y = match &x.elems {
        Elems::Real(elems) if is_real => {
            Wide::real(to, &x.dims, elems.iter().map(|x| (rounded(x.0, to), 0.0)).collect())
        }
        Elems::Int(elems) if is_real => {
            Wide::real(to, &x.dims, elems.iter().map(|&x| (rounded_int(x, to), 0.0)).collect())
        }
        Elems::Real(elems) if to == Bool => {
            Wide::int(to, &x.dims, elems.iter().map(|x| i128::from(x.0 != 0.0)).collect())
        }
        Elems::Int(elems) if to == Bool => Wide::int(to, &x.dims, elems.iter().map(|&x| i128::from(x != 0)).collect()),
        // A fraction is cut off.
        Elems::Real(elems) => Wide::int(to, &x.dims, elems.iter().map(|x| x.0 as i128).collect()),
        Elems::Int(elems) => Wide::int(to, &x.dims, elems.clone()),
    };
    vec![Wide { exact: true, ..y }]
}

/// Names of types, as version 1 has them.
pub const NAMED: [(&str, ElementType); 8] = [
    ("FLOAT", Float),
    ("DOUBLE", Double),
    ("FLOAT16", Float16),
    ("INT32", Int32),
    ("INT64", Int64),
    ("INT8", Int8),
    ("UINT8", Uint8),
    ("BOOL", Bool),
];
