//! Operators whose elements are sums or extremes of many: reductions, softmax, products of matrices.

use super::draw::{Drawn, Holds, Rng, is_real, tensor};
use super::elementwise::repeating;
use super::windows::zero_points;
use crate::value::ElementType::{self, *};

const REAL: [ElementType; 4] = [Float, Float, Double, Float16];

/// A reduction, or the place of an extreme.
pub fn reduction(rng: &mut Rng) -> Drawn {
    let op = rng.pick(&[
        "ReduceL1",
        "ReduceL2",
        "ReduceLogSum",
        "ReduceLogSumExp",
        "ReduceMax",
        "ReduceMean",
        "ReduceMin",
        "ReduceProd",
        "ReduceSum",
        "ReduceSumSquare",
        "ArgMax",
        "ArgMin",
    ]);
    let is_arg = op.starts_with("Arg");
    let opset = rng.pick(&[1, 11, 13, 18]);
    let element = match op {
        "ReduceLogSum" | "ReduceLogSumExp" | "ReduceL2" => rng.pick(&REAL),
        "ReduceL1" | "ReduceMean" | "ReduceProd" | "ReduceSum" | "ReduceSumSquare" => {
            rng.pick(&[Float, Float, Double, Float16, Int32, Int64])
        }
        _ => rng.pick(&[Float, Double, Float16, Int32, Int64, Uint8, Int8]),
    };
    let holds = match op {
        "ReduceLogSum" => Holds::Positive,
        "ReduceMax" | "ReduceMin" | "ReduceSum" | "ReduceProd" if !is_real(element) => Holds::Edges,
        _ if is_arg => Holds::Ordered,
        "ReduceMax" | "ReduceMin" => Holds::Edges,
        _ => Holds::Small,
    };
    let element = if opset >= 13 && is_real(element) && rng.chance(15) { Bfloat16 } else { element };
    let dims = rng.dims_or_none(1, 4, 5);
    let mut drawn = Drawn::new(op, opset).input(tensor(rng, element, &dims, holds));
    if rng.chance(60) {
        drawn = drawn.int("keepdims", rng.int(0, 1));
    }
    if is_arg {
        let axis = rng.int(0, dims.len() as i64 - 1);
        let axis = if opset >= 11 { rng.named(axis as usize, dims.len()) } else { axis };
        return drawn.int("axis", axis);
    }
    let since = if op == "ReduceSum" { 13 } else { 18 };
    if rng.chance(25) {
        return if opset >= since && rng.chance(50) { drawn.int("noop_with_empty_axes", 0) } else { drawn };
    }
    let axes = rng.axes(dims.len());
    let name = |&axis: &usize| if opset >= 11 { rng.named(axis, dims.len()) } else { axis as i64 };
    let axes: Vec<i64> = axes.iter().map(name).collect();
    drawn.ints_or_input(since, "axes", &axes)
}

/// A softmax; before version 13 of all dimensions from the axis on.
pub fn softmax(rng: &mut Rng) -> Drawn {
    let (op, opset) = (rng.pick(&["Softmax", "LogSoftmax"]), rng.pick(&[1, 11, 12, 13, 22]));
    let dims = rng.dims(2, 4, 5);
    let element = if opset >= 13 && rng.chance(20) { Bfloat16 } else { rng.pick(&REAL) };
    let drawn = Drawn::new(op, opset).input(tensor(rng, element, &dims, Holds::Small));
    if rng.chance(25) {
        return drawn;
    }
    let axis = rng.int(0, dims.len() as i64 - 1) as usize;
    let axis = if opset >= 11 { rng.named(axis, dims.len()) } else { axis as i64 };
    drawn.int("axis", axis)
}

/// A product of matrices.
pub fn product(rng: &mut Rng) -> Drawn {
    let [m, k, n] = [0; 3].map(|_| rng.int(1, 9));
    match rng.int(0, 9) {
        0..4 => {
            let opset = rng.pick(&[1, 9, 13]);
            let element = if opset >= 13 && rng.chance(20) { Bfloat16 } else { rng.pick(&REAL) };
            let element = if opset >= 9 && rng.chance(15) { rng.pick(&[Int32, Int64]) } else { element };
            multiplied(rng, Drawn::new("MatMul", opset), [element; 2], [m, k, n])
        }
        4 => {
            let elements = [rng.pick(&[Uint8, Int8]), rng.pick(&[Uint8, Int8])];
            let drawn = multiplied(rng, Drawn::new("MatMulInteger", 10), elements, [m, k, n]);
            zero_points(rng, drawn, elements)
        }
        _ => gemm(rng, [m, k, n]),
    }
}

/// Two operands, vectors or matrices, whose batches repeat.
fn multiplied(rng: &mut Rng, drawn: Drawn, elements: [ElementType; 2], [m, k, n]: [i64; 3]) -> Drawn {
    let batch = rng.dims(0, 2, 3);
    let a = if rng.chance(15) { vec![k] } else { [&repeating(rng, &batch)[..], &[m, k]].concat() };
    let b = if rng.chance(15) { vec![k] } else { [&repeating(rng, &batch)[..], &[k, n]].concat() };
    let drawn = drawn.input(tensor(rng, elements[0], &a, Holds::Small));
    drawn.input(tensor(rng, elements[1], &b, Holds::Small))
}

fn gemm(rng: &mut Rng, [m, k, n]: [i64; 3]) -> Drawn {
    let opset = rng.pick(&[1, 6, 7, 9, 11, 13]);
    let element = if opset >= 13 && rng.chance(20) { Bfloat16 } else { rng.pick(&REAL) };
    let (a_turns, b_turns) = (rng.chance(50), rng.chance(50));
    let mut drawn = Drawn::new("Gemm", opset);
    for (name, turns, dims) in [("transA", a_turns, [m, k]), ("transB", b_turns, [k, n])] {
        let dims = if turns { [dims[1], dims[0]] } else { dims };
        drawn = drawn.input(tensor(rng, element, &dims, Holds::Small)).int(name, i64::from(turns));
    }
    for name in ["alpha", "beta"] {
        if rng.chance(50) {
            drawn = drawn.float(name, rng.real(-2.0, 2.0) as f32);
        }
    }
    if opset < 11 || rng.chance(70) {
        let c: &[i64] = match rng.int(0, 5) {
            0 => &[m, n],
            1 => &[1, n],
            2 => &[m, 1],
            3 => &[1, 1],
            4 => &[n],
            _ => &[],
        };
        if opset < 7 {
            drawn = drawn.int("broadcast", i64::from(c != [m, n]));
        }
        drawn = drawn.input(tensor(rng, element, c, Holds::Small));
    }
    drawn
}
