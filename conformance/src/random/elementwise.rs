//! Operators of one, two or any number of tensors, element by element, and activations.

use super::draw::{Drawn, Holds, Rng, ints, is_real, reals, tensor};
use crate::value::ElementType::{self, *};

const REAL: [ElementType; 4] = [Float, Float, Double, Float16];
const NUMBERS: [ElementType; 8] = [Float, Float, Double, Float16, Int32, Int64, Int8, Uint8];

/// A node of one input.
pub fn unary(rng: &mut Rng) -> Drawn {
    let op = rng.pick(&[
        "Abs",
        "Neg",
        "Sign",
        "Ceil",
        "Floor",
        "Round",
        "Sqrt",
        "Reciprocal",
        "Exp",
        "Log",
        "Erf",
        "Sin",
        "Cos",
        "Tan",
        "Not",
        "IsNaN",
        "IsInf",
    ]);
    let element = match op {
        "Abs" | "Sign" => rng.pick(&NUMBERS),
        "Neg" => rng.pick(&[Float, Double, Int32, Int64, Int8]),
        "Not" => Bool,
        "IsInf" | "Erf" => Float,
        _ => rng.pick(&REAL),
    };
    let holds = match op {
        "Sin" | "Cos" | "Tan" => Holds::Small,
        _ => Holds::Edges,
    };
    let opset = match op {
        "IsInf" | "Sign" | "IsNaN" | "Erf" => 13,
        "Round" => 11,
        "Sin" | "Cos" | "Tan" => rng.pick(&[7, 22]),
        "Not" => 1,
        _ => rng.pick(&[6, 13]),
    };
    let has_bf16 = opset >= 13 && is_real(element) && op != "IsInf";
    let element = if has_bf16 && rng.chance(15) { Bfloat16 } else { element };
    let dims = rng.dims_or_none(0, 4, 5);
    let mut drawn = Drawn::new(op, opset).input(tensor(rng, element, &dims, holds));
    if op == "IsInf" && rng.chance(60) {
        drawn = drawn.int("detect_negative", rng.int(0, 1)).int("detect_positive", rng.int(0, 1));
    }
    drawn
}

/// Extents that repeat to others.
pub fn repeating(rng: &mut Rng, dims: &[i64]) -> Vec<i64> {
    let first = rng.int(0, dims.len() as i64) as usize;
    dims[first..].iter().map(|&dim| if rng.chance(30) { 1 } else { dim }).collect()
}

/// A power, whose exponent has a type of its own since version 12.
fn pow(rng: &mut Rng) -> Drawn {
    let opset = rng.pick(&[1, 7, 12, 13, 15]);
    let types: &[ElementType] = if opset < 12 { &REAL } else { &[Float, Float, Double, Float16, Int32, Int64] };
    let element = rng.pick(types);
    let of_exponent = if opset < 12 || rng.chance(60) { element } else { rng.pick(types) };
    let dims = rng.dims(1, 3, 4);
    let n_elems = |dims: &[i64]| dims.iter().product::<i64>();
    let numbers = |rng: &mut Rng, element: ElementType, dims: &[i64], low: i64, high: i64| {
        if is_real(element) {
            let values: Vec<f64> = (0..n_elems(dims)).map(|_| rng.real(low as f64, high as f64)).collect();
            reals(element, dims, &values)
        } else {
            let values: Vec<i128> = (0..n_elems(dims)).map(|_| i128::from(rng.int(low, high))).collect();
            ints(element, dims, &values)
        }
    };
    // A base below 0 has powers of whole exponents alone, and an integer none below 0.
    let below = if is_real(of_exponent) { 0 } else { -4 };
    let base = numbers(rng, element, &dims, below, 5);
    let drawn = Drawn::new("Pow", opset).input(base);
    let exponents = if opset < 7 { dims } else { repeating(rng, &dims) };
    let lowest = if is_real(element) && is_real(of_exponent) { -2 } else { 0 };
    drawn.input(numbers(rng, of_exponent, &exponents, lowest, 4))
}

/// A node of two inputs, before version 7 with the attributes that say how the second repeats.
pub fn binary(rng: &mut Rng) -> Drawn {
    if rng.chance(7) {
        return pow(rng);
    }
    let op = rng.pick(&[
        "Add",
        "Sub",
        "Mul",
        "Div",
        "Mod",
        "Equal",
        "Less",
        "Greater",
        "LessOrEqual",
        "GreaterOrEqual",
        "And",
        "Or",
        "Xor",
        "PRelu",
    ]);
    let opset = match op {
        "Add" | "Sub" | "Mul" | "Div" | "And" | "Or" | "Xor" if rng.chance(30) => rng.pick(&[1, 6]),
        "Equal" | "Less" | "Greater" if rng.chance(30) => 1,
        "PRelu" => rng.pick(&[6, 7, 9, 16]),
        "LessOrEqual" | "GreaterOrEqual" => 16,
        _ => 14,
    };
    let element = match op {
        "And" | "Or" | "Xor" => Bool,
        "Mod" => rng.pick(&NUMBERS),
        "PRelu" => rng.pick(&REAL),
        "Equal" if opset < 7 => rng.pick(&[Int32, Int64, Bool]),
        "Less" | "Greater" if opset < 7 => rng.pick(&REAL),
        _ if opset < 7 => rng.pick(&[Float, Double, Int32, Int64]),
        _ => rng.pick(&NUMBERS),
    };
    let has_bf16 = opset >= 13 && (op != "PRelu" || opset >= 16) && is_real(element);
    let element = if has_bf16 && rng.chance(15) { Bfloat16 } else { element };
    let holds = if op == "Mod" && is_real(element) { Holds::Small } else { Holds::Edges };
    let mut dims = rng.dims_or_none(1, 4, 4);
    if op == "PRelu" && opset < 7 && dims.len() < 2 {
        dims.push(3);
    }
    // What divides integers is never 0.
    let divides = matches!(op, "Div" | "Mod") && (!is_real(element) || op == "Mod");
    let second = if divides { Holds::Positive } else { holds };
    let mut drawn = Drawn::new(op, opset);
    let a_dims = if opset >= 7 && op != "PRelu" && rng.chance(40) { repeating(rng, &dims) } else { dims.clone() };
    drawn = drawn.input(tensor(rng, element, &a_dims, holds));
    if op == "Mod" && (is_real(element) || rng.chance(50)) {
        drawn = drawn.int("fmod", 1);
    }
    let b_dims = match op {
        "PRelu" if opset < 7 => vec![if rng.chance(30) { 1 } else { dims[1] }],
        _ if opset >= 7 => repeating(rng, &dims),
        _ if rng.chance(25) => dims.clone(),
        _ => {
            let axis = rng.int(0, dims.len() as i64 - 1) as usize;
            let end = rng.int(axis as i64 + 1, dims.len() as i64) as usize;
            drawn = drawn.int("broadcast", 1);
            if end < dims.len() || rng.chance(50) {
                drawn = drawn.int("axis", axis as i64);
            }
            dims[axis..end].to_vec()
        }
    };
    drawn.input(tensor(rng, element, &b_dims, second))
}

/// A node of any number of inputs, or a choice.
pub fn several(rng: &mut Rng) -> Drawn {
    let op = rng.pick(&["Max", "Min", "Sum", "Mean", "Where", "Clip"]);
    let dims = rng.dims(1, 3, 4);
    let element = match op {
        "Sum" | "Mean" => rng.pick(&REAL),
        "Where" => rng.pick(&[Float, Int64, Uint8, Int32]),
        _ => rng.pick(&NUMBERS),
    };
    match op {
        "Where" => {
            let (condition, a) = (repeating(rng, &dims), repeating(rng, &dims));
            let drawn = Drawn::new(op, rng.pick(&[9, 16])).input(tensor(rng, Bool, &condition, Holds::Small));
            let drawn = drawn.input(tensor(rng, element, &a, Holds::Edges));
            drawn.input(tensor(rng, element, &dims, Holds::Edges))
        }
        "Clip" if is_real(element) && rng.chance(50) => {
            let opset = rng.pick(&[1, 6, 10]);
            let mut drawn = Drawn::new(op, opset).input(tensor(rng, element, &dims, Holds::Ordered));
            if rng.chance(60) {
                drawn = drawn.float("min", rng.real(-2.0, 0.0) as f32);
            }
            if rng.chance(60) {
                drawn = drawn.float("max", rng.real(0.0, 2.0) as f32);
            }
            drawn
        }
        "Clip" => {
            let mut drawn = Drawn::new(op, rng.pick(&[12, 13])).input(tensor(rng, element, &dims, Holds::Edges));
            drawn =
                if rng.chance(70) { drawn.input(tensor(rng, element, &[], Holds::Small)) } else { drawn.no_input() };
            if rng.chance(70) { drawn.input(tensor(rng, element, &[], Holds::Positive)) } else { drawn }
        }
        _ => {
            let repeats = rng.chance(60);
            let mut drawn = Drawn::new(op, if repeats || !is_real(element) { 13 } else { 6 });
            for i in 0..rng.int(1, 4) {
                let dims = if repeats && i > 0 { repeating(rng, &dims) } else { dims.clone() };
                let holds = if matches!(op, "Max" | "Min") { Holds::Edges } else { Holds::Small };
                drawn = drawn.input(tensor(rng, element, &dims, holds));
            }
            drawn
        }
    }
}

/// An activation.
pub fn activation(rng: &mut Rng) -> Drawn {
    let (op, opset) = rng.pick(&[
        ("Relu", 6),
        ("Relu", 14),
        ("LeakyRelu", 6),
        ("LeakyRelu", 16),
        ("Elu", 6),
        ("Selu", 1),
        ("Selu", 6),
        ("Celu", 12),
        ("HardSigmoid", 6),
        ("HardSwish", 14),
        ("Sigmoid", 6),
        ("Sigmoid", 13),
        ("Softplus", 1),
        ("Softsign", 1),
        ("Tanh", 6),
        ("Tanh", 13),
        ("ThresholdedRelu", 10),
        ("Mish", 18),
        ("Gelu", 20),
        ("Swish", 24),
    ]);
    let element = if op == "Celu" { Float } else { rng.pick(&REAL) };
    let has_bf16 = matches!((op, opset), ("Relu", 14) | ("LeakyRelu", 16) | ("Sigmoid" | "Tanh", 13) | (_, 18..));
    let element = if has_bf16 && rng.chance(15) { Bfloat16 } else { element };
    let dims = rng.dims_or_none(0, 3, 6);
    let mut drawn = Drawn::new(op, opset).input(tensor(rng, element, &dims, Holds::Edges));
    let takes_alpha = matches!(op, "LeakyRelu" | "Elu" | "Selu" | "Celu" | "HardSigmoid" | "ThresholdedRelu" | "Swish");
    if takes_alpha && rng.chance(60) {
        drawn = drawn.float("alpha", rng.real(0.1, 2.0) as f32);
    }
    if op == "Gelu" && rng.chance(50) {
        drawn = drawn.word("approximate", "tanh");
    }
    drawn
}
