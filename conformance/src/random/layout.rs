//! Operators that move elements.

use super::draw::{Drawn, Holds, Rng, is_real, limits, reals, tensor};
use super::judge::layout::NAMED;
use crate::value::ElementType::{self, *};
use crate::value::Value;

const ANY: [ElementType; 8] = [Float, Float, Double, Float16, Int32, Int64, Uint8, Int8];

/// A part of a tensor, before version 10 by attributes.
pub fn slice(rng: &mut Rng) -> Drawn {
    let (element, opset, dims) = (rng.pick(&ANY), rng.pick(&[1, 10, 11, 13]), rng.dims(1, 4, 6));
    let mut drawn = Drawn::new("Slice", opset).input(tensor(rng, element, &dims, Holds::Edges));
    let axes = if rng.chance(25) { (0..dims.len()).collect() } else { rng.axes(dims.len()) };
    let is_all = axes.len() == dims.len();
    let (mut starts, mut ends, mut steps) = (vec![], vec![], vec![]);
    for &axis in &axes {
        let (dim, walks_back) = (dims[axis], opset >= 10 && rng.chance(30));
        let (low, far) = (rng.int(0, dim - 1), [i64::from(i32::MAX), dim + 3, i64::MAX]);
        if walks_back {
            starts.push(rng.pick(&[low, -1, far[1]]));
            ends.push(rng.pick(&[i64::from(i32::MIN), -dim - 1]));
            steps.push(-rng.int(1, 3));
        } else {
            starts.push(rng.pick(&[low, low - dim, -dim - 2]));
            ends.push(rng.pick(&[far[0], far[1], far[2], low + 1]));
            steps.push(rng.pick(&[1, 2, 3, 1 << 40]));
        }
    }
    drawn = drawn.ints_or_input(10, "starts", &starts).ints_or_input(10, "ends", &ends);
    let has_steps = opset >= 10 && (rng.chance(70) || steps.iter().any(|&step| step < 0));
    if is_all && !has_steps && rng.chance(50) {
        return drawn;
    }
    let named: Vec<i64> =
        axes.iter().map(|&axis| if opset >= 10 { rng.named(axis, dims.len()) } else { axis as i64 }).collect();
    drawn = drawn.ints_or_input(10, "axes", &named);
    if has_steps { drawn.input(Value::of_ints(&steps)) } else { drawn }
}

/// Elements around a tensor, before version 11 by attributes.
pub fn pad(rng: &mut Rng) -> Drawn {
    let (opset, dims) = (rng.pick(&[1, 2, 10, 11, 13, 18, 19]), rng.dims(1, 4, 5));
    let element = rng.pick(if opset < 11 { &ANY[..4] } else { &ANY[..] });
    let mode = rng.pick(&["constant", "constant", "edge", "reflect"]);
    let limit = |dim: i64| if mode == "reflect" { dim - 1 } else { 3 };
    let mut drawn = Drawn::new("Pad", opset).input(tensor(rng, element, &dims, Holds::Edges));
    let pads: Vec<i64> = dims.iter().chain(&dims).map(|&dim| rng.int(0, limit(dim))).collect();
    if mode != "constant" || rng.chance(50) {
        drawn = drawn.word("mode", mode);
    }
    drawn = drawn.ints_or_input(11, if opset < 2 { "paddings" } else { "pads" }, &pads);
    if mode != "constant" || rng.chance(40) {
        return drawn;
    }
    if opset < 11 { drawn.float("value", 1.5) } else { drawn.input(tensor(rng, element, &[], Holds::Small)) }
}

/// Parts joined, or taken apart, or put in another order, or repeated.
pub fn moved(rng: &mut Rng) -> Drawn {
    let (element, dims) = (rng.pick(&ANY), rng.dims(1, 4, 4));
    let rank = dims.len();
    let op = rng.pick(&["Concat", "Split", "Transpose", "Tile", "Gather", "Squeeze", "Unsqueeze", "Reshape", "Expand"]);
    let x = tensor(rng, element, &dims, Holds::Edges);
    let axis = rng.int(0, rank as i64 - 1) as usize;
    match op {
        "Concat" => {
            let opset = rng.pick(&[1, 4, 11, 13]);
            let axis = if opset < 4 && rank > 1 && rng.chance(50) { 1 } else { axis };
            let mut drawn = Drawn::new(op, opset);
            if !(opset < 4 && axis == 1) {
                drawn = drawn.int("axis", if opset < 11 { axis as i64 } else { rng.named(axis, rank) });
            }
            for _ in 0..rng.int(1, 3) {
                let mut part = dims.clone();
                part[axis] = rng.int(1, 4);
                drawn = drawn.input(tensor(rng, element, &part, Holds::Edges));
            }
            drawn
        }
        "Split" => {
            let (opset, n) = (rng.pick(&[2, 11, 13, 18]), rng.int(1, 3));
            let lens: Vec<i64> = (0..n).map(|_| rng.int(1, 3)).collect();
            let mut dims = dims.clone();
            dims[axis] = lens.iter().sum();
            let axis = if opset < 11 { axis as i64 } else { rng.named(axis, rank) };
            let drawn = Drawn::new(op, opset).input(tensor(rng, element, &dims, Holds::Edges)).int("axis", axis);
            (1..n).fold(drawn.ints_or_input(13, "split", &lens), |drawn, _| drawn.output())
        }
        "Transpose" => {
            let drawn = Drawn::new(op, rng.pick(&[1, 13])).input(x);
            let mut order: Vec<i64> = (0..rank as i64).collect();
            (1..rank).for_each(|i| order.swap(i, rng.int(0, i as i64) as usize));
            if rng.chance(70) { drawn.ints("perm", &order) } else { drawn }
        }
        "Tile" if rng.chance(30) => {
            let (copies, axis) = (rng.int(1, 3) as f64, axis as f64);
            let x = tensor(rng, Float, &dims, Holds::Edges);
            Drawn::new(op, 1).input(x).input(reals(Float, &[], &[copies])).input(reals(Float, &[], &[axis]))
        }
        "Tile" => {
            let repeats: Vec<i64> = (0..rank).map(|_| rng.int(1, 3)).collect();
            Drawn::new(op, rng.pick(&[6, 13])).input(x).input(Value::of_ints(&repeats))
        }
        "Gather" => {
            let (opset, extents) = (rng.pick(&[1, 11, 13]), rng.dims(0, 2, 3));
            let low = if opset < 11 { 0 } else { -dims[axis] };
            let places: Vec<i64> = (0..extents.iter().product::<i64>()).map(|_| rng.int(low, dims[axis] - 1)).collect();
            let drawn = Drawn::new(op, opset).input(x).input(Value::of_ints(&places).with_dims(&extents));
            drawn.int("axis", if opset < 11 { axis as i64 } else { rng.named(axis, rank) })
        }
        "Squeeze" => {
            let mut dims = dims.clone();
            dims[axis] = 1;
            let drawn = Drawn::new(op, rng.pick(&[1, 11, 13])).input(tensor(rng, element, &dims, Holds::Edges));
            if rng.chance(70) { drawn.ints_or_input(13, "axes", &[axis as i64]) } else { drawn }
        }
        "Unsqueeze" => {
            Drawn::new(op, rng.pick(&[1, 11, 13])).input(x).ints_or_input(13, "axes", &[axis as i64, rank as i64 + 1])
        }
        "Reshape" => Drawn::new(op, rng.pick(&[1, 5, 13])).input(x).ints_or_input(5, "shape", &[0, -1]),
        _ => {
            let to = [&[rng.int(1, 3)], &dims[..]].concat();
            let from: Vec<i64> = dims.iter().map(|&dim| if rng.chance(30) { 1 } else { dim }).collect();
            Drawn::new(op, rng.pick(&[8, 13]))
                .input(tensor(rng, element, &from, Holds::Edges))
                .input(Value::of_ints(&to))
        }
    }
}

/// Blocks of an image as channels, or back, and what only names elements in another way.
pub fn named(rng: &mut Rng) -> Drawn {
    let (element, dims) = (rng.pick(&ANY), rng.dims(0, 4, 4));
    let x = tensor(rng, element, &dims, Holds::Edges);
    let rank = dims.len() as i64;
    match rng.pick(&["DepthToSpace", "SpaceToDepth", "Identity", "Flatten", "Shape", "Size", "Constant"]) {
        op @ ("DepthToSpace" | "SpaceToDepth") => {
            let is_to_space = op == "DepthToSpace";
            let opset = if is_to_space { rng.pick(&[1, 11, 13]) } else { rng.pick(&[1, 13]) };
            let (block, [n, c, h, w]) = (rng.int(1, 3), [rng.int(1, 2), rng.int(1, 3), rng.int(1, 3), rng.int(1, 3)]);
            let dims = if is_to_space { [n, c * block * block, h, w] } else { [n, c, h * block, w * block] };
            let drawn = Drawn::new(op, opset).input(tensor(rng, element, &dims, Holds::Edges)).int("blocksize", block);
            let names_mode = is_to_space && opset >= 11 && rng.chance(70);
            if names_mode { drawn.word("mode", rng.pick(&["DCR", "CRD"])) } else { drawn }
        }
        "Identity" => Drawn::new("Identity", rng.pick(&[1, 13, 14])).input(x),
        "Flatten" => {
            let opset = rng.pick(&[9, 11, 13]);
            let drawn = Drawn::new("Flatten", opset).input(x);
            let low = if opset < 11 { 0 } else { -rank };
            if rank == 0 || rng.chance(60) { drawn.int("axis", rng.int(low, rank)) } else { drawn }
        }
        "Shape" => {
            let opset = rng.pick(&[1, 13, 15]);
            let drawn = Drawn::new("Shape", opset).input(x);
            if opset < 15 || rng.chance(40) {
                return drawn;
            }
            drawn.int("start", rng.int(-rank - 1, rank)).int("end", rng.int(-rank, rank + 1))
        }
        "Size" => Drawn::new("Size", rng.pick(&[1, 13])).input(x),
        _ => {
            let drawn = Drawn::new("Constant", rng.pick(&[12, 13]));
            match rng.int(0, 2) {
                0 => drawn.int("value_int", rng.int(-1 << 61, 1 << 61)),
                1 => drawn.float("value_float", rng.real(-9.0, 9.0) as f32),
                _ => drawn.ints("value_ints", &[rng.int(-9, 9), rng.int(-9, 9)]),
            }
        }
    }
}

/// Elements as another type.
pub fn cast(rng: &mut Rng) -> Drawn {
    let opset = rng.pick(&[1, 6, 9, 13, 19, 21, 23]);
    let n_types = match opset {
        ..13 => 8,
        13..19 => 9,
        _ => 11,
    };
    let types =
        &[Float, Double, Float16, Int32, Int64, Int8, Uint8, Bool, Bfloat16, Float8E4M3Fn, Float8E5M2][..n_types];
    let (element, to, dims) = (rng.pick(types), rng.pick(types), rng.dims(0, 3, 5));
    let x = if is_real(element) && !is_real(to) && to != Bool {
        // What has no place in the type of integers is undefined.
        let (low, high) = limits(to);
        let top = if element == Float8E4M3Fn { 400.0 } else { 30000.0 };
        let (low, high) = (low.max(-(top as i128)) as f64, high.min(top as i128) as f64);
        let wide = rng.chance(50);
        let one = |_| if wide { rng.real(low, high) } else { rng.real(low.max(-9.0), 9.0) };
        // Rounding to a type of few digits may leave the range.
        let values: Vec<f64> = (0..dims.iter().product::<i64>()).map(one).map(|x| x * 0.87).collect();
        reals(element, &dims, &values)
    } else if is_real(element) && rng.chance(50) {
        // Halfway between two numbers of a smaller type, and beside.
        let one = |_| {
            let halfway = f64::from(rng.int(2049, 4095) as i32) * 2f64.powi(rng.int(-30, 6) as i32);
            halfway + rng.pick(&[0.0, 1.0, -1.0]) * halfway * 2f64.powi(-rng.int(20, 50) as i32)
        };
        let values: Vec<f64> = (0..dims.iter().product::<i64>()).map(one).collect();
        reals(element, &dims, &values)
    } else {
        tensor(rng, element, &dims, Holds::Edges)
    };
    if opset >= 19 && rng.chance(30) {
        let like = tensor(rng, to, &[1], Holds::Small);
        return Drawn::new("CastLike", opset).input(x).input(like);
    }
    let drawn = Drawn::new("Cast", opset).input(x);
    match opset {
        ..6 => drawn.word("to", NAMED.into_iter().find(|named| named.1 == to).map_or("FLOAT", |named| named.0)),
        _ => drawn.int("to", to as i64),
    }
}
