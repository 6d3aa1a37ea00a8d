//! Operators of one, two or any number of tensors, element by element.

use super::{Op, op};
use crate::device::{Array, Device};
use crate::layout::broadcast_dims;
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;
use oxidnn::ops::pointwise::{INPUT_NAMES, MAX_INPUTS, PointwisePass as Pass, PointwiseProblem, Step};
use oxidnn::{Args, DType, TensorDesc};

pub const OPS: &[Op] = &[
    op("Abs", "pointwise", operation),
    op("Add", "pointwise", operation),
    op("And", "pointwise", truth),
    op("Ceil", "pointwise", operation),
    op("Clip", "pointwise chain", clip),
    op("Cos", "pointwise", operation),
    op("Div", "pointwise", operation),
    op("Equal", "pointwise", truth),
    op("Erf", "pointwise", operation),
    op("Exp", "pointwise", operation),
    op("Floor", "pointwise", operation),
    op("Greater", "pointwise", truth),
    op("GreaterOrEqual", "pointwise", truth),
    op("IsInf", "pointwise chain", is_inf),
    op("IsNaN", "pointwise", is_nan),
    op("Less", "pointwise", truth),
    op("LessOrEqual", "pointwise", truth),
    op("Log", "pointwise", operation),
    op("Max", "pointwise chain", any_number),
    op("Mean", "pointwise chain, with alpha", any_number),
    op("Min", "pointwise chain", any_number),
    op("Mod", "pointwise, or a chain", modulo),
    op("Mul", "pointwise", operation),
    op("Neg", "pointwise", operation),
    op("Not", "pointwise", truth),
    op("Or", "pointwise", truth),
    op("PRelu", "pointwise", operation),
    op("Pow", "pointwise", operation),
    op("Reciprocal", "pointwise", operation),
    op("Round", "pointwise", operation),
    op("Sign", "pointwise", operation),
    op("Sin", "pointwise", operation),
    op("Sqrt", "pointwise", operation),
    op("Sub", "pointwise", operation),
    op("Sum", "pointwise chain", any_number),
    op("Tan", "pointwise", operation),
    op("Where", "pointwise", select),
    op("Xor", "pointwise", truth),
];

/// What is done with the inputs.
pub enum Formula<'a> {
    /// One operation of as many inputs as it has.
    Pass(Pass),
    /// A chain, in the words of problem texts.
    Steps(&'a [&'a str]),
}

/// `alpha · formula(inputs)` with all inputs repeated to each other's extents.
pub fn compute(
    device: &Device,
    formula: Formula<'_>,
    inputs: &[Array],
    dtype: DType,
    alpha: f64,
) -> Result<Vec<Value>, Stop> {
    let mut c = device.zeros(dtype, &broadcast_dims(inputs.iter().map(Array::dims))?)?;
    let c_layout = c.layout();
    let rank = c_layout.dims().len();
    let layouts = inputs.iter().map(|input| input.layout().of_rank(rank)).collect::<Result<Vec<_>, _>>()?;
    let descs: Vec<TensorDesc> = layouts.iter().map(|layout| layout.desc).collect();
    let problem = match (formula, &descs[..]) {
        (Formula::Pass(pass), [a]) => PointwiseProblem::unary(pass, a, &c_layout.desc)?,
        (Formula::Pass(pass), [a, b]) => PointwiseProblem::binary(pass, a, b, &c_layout.desc)?,
        (Formula::Pass(Pass::Select), [a, b, t]) => PointwiseProblem::select(a, b, t, &c_layout.desc)?,
        (Formula::Pass(pass), _) => return Err(Stop::failed(format!("{pass} has not {} inputs", descs.len()))),
        (Formula::Steps(words), _) => {
            let steps = words.iter().map(|word| word.parse()).collect::<Result<Vec<Step>, _>>();
            PointwiseProblem::chain(&steps.map_err(Stop::failed)?, &descs, &c_layout.desc)?
        }
    };
    let mut args = Args::new().output("c", c.at_mut(&c_layout)?).alpha(alpha);
    for ((name, input), layout) in INPUT_NAMES.into_iter().zip(inputs).zip(&layouts) {
        args = args.input(name, input.at(layout)?);
    }
    device.run(&problem, args)?;
    Ok(vec![device.value(&c)?])
}

fn arrays(node: &Node<'_>, device: &Device) -> Result<Vec<Array>, Stop> {
    node.inputs()?.into_iter().map(|input| device.array(input)).collect()
}

/// The inputs of an operator of two tensors.
///
/// Before version 7 the second repeats only where `broadcast` says so, and its dimensions stand at `axis` of the
/// first's. PRelu's slopes are those of the channels there.
fn operands(node: &Node<'_>, device: &Device) -> Result<Vec<Array>, Stop> {
    let mut inputs = arrays(node, device)?;
    if node.opset >= 7 || inputs.len() != 2 {
        return Ok(inputs);
    }
    let (Some(second), Some(first)) = (inputs.pop(), inputs.first()) else { return Ok(inputs) };
    let (rank, second_rank) = (first.dims().len() as i64, second.dims().len() as i64);
    let slopes = node.op() == "PRelu";
    let repeats = node.int("broadcast", 0) != 0;
    let at_end = rank - second_rank;
    let axis = node.int("axis", if slopes && second_rank == 1 { at_end.min(1) } else { at_end });
    let axis = if axis < 0 { axis + rank } else { axis };
    if !repeats && !slopes && first.dims() != second.dims() {
        let (a, b) = (first.dims(), second.dims());
        return Err(Stop::refused(format!("expected equal extents where broadcast is 0, given {a:?} and {b:?}")));
    }
    if second.dims().iter().product::<i64>() == 1 {
        inputs.push(second.with_dims(&[])?);
        return Ok(inputs);
    }
    if axis < 0 || axis + second_rank > rank {
        return Err(Stop::refused(format!("expected {second_rank} dimensions at axis {axis}, given {rank} in all")));
    }
    let behind = vec![1; (rank - axis - second_rank) as usize];
    let dims = [second.dims(), &behind].concat();
    inputs.push(second.with_dims(&dims)?);
    Ok(inputs)
}

/// Operators whose result has the type of the first input.
fn operation(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let pass = match node.op() {
        "Abs" => Pass::Abs,
        "Add" => Pass::Add,
        "Ceil" => Pass::Ceil,
        "Cos" => Pass::Cos,
        "Div" => Pass::Div,
        "Erf" => Pass::Erf,
        "Exp" => Pass::Exp,
        "Floor" => Pass::Floor,
        "Log" => Pass::Log,
        "Mul" => Pass::Mul,
        "Neg" => Pass::Neg,
        "PRelu" => Pass::Prelu,
        "Pow" => Pass::Pow,
        "Reciprocal" => Pass::Reciprocal,
        "Round" => Pass::Round,
        "Sign" => Pass::Sign,
        "Sin" => Pass::Sin,
        "Sqrt" => Pass::Sqrt,
        "Sub" => Pass::Sub,
        "Tan" => Pass::Tan,
        other => return Err(Stop::failed(format!("expected an operation, given {other}"))),
    };
    let inputs = operands(node, device)?;
    compute(device, Formula::Pass(pass), &inputs, inputs[0].dtype(), 1.0)
}

/// Operators whose result is a truth value.
fn truth(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let pass = match node.op() {
        "And" => Pass::LogicalAnd,
        "Equal" => Pass::CmpEq,
        "Greater" => Pass::CmpGt,
        "GreaterOrEqual" => Pass::CmpGe,
        "Less" => Pass::CmpLt,
        "LessOrEqual" => Pass::CmpLe,
        "Not" => Pass::LogicalNot,
        "Or" => Pass::LogicalOr,
        "Xor" => Pass::LogicalXor,
        other => return Err(Stop::failed(format!("expected a comparison, given {other}"))),
    };
    compute(device, Formula::Pass(pass), &operands(node, device)?, DType::Bool, 1.0)
}

/// Only a NaN differs from itself.
fn is_nan(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let twice = [device.array(node.input(0)?)?, device.array(node.input(0)?)?];
    compute(device, Formula::Pass(Pass::CmpNeq), &twice, DType::Bool, 1.0)
}

fn is_inf(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let steps: &[&str] = match (node.int("detect_negative", 1) != 0, node.int("detect_positive", 1) != 0) {
        (true, true) => &["abs", "cmp_eq:inf"],
        (false, true) => &["cmp_eq:inf"],
        (true, false) => &["cmp_eq:-inf"],
        (false, false) => &["set:0"],
    };
    compute(device, Formula::Steps(steps), &arrays(node, device)?, DType::Bool, 1.0)
}

fn select(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let [t, a, b] = [0, 1, 2].map(|i| node.input(i).and_then(|input| device.array(input)));
    let inputs = [a?, b?, t?];
    compute(device, Formula::Pass(Pass::Select), &inputs, inputs[0].dtype(), 1.0)
}

fn clip(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let (mut inputs, mut steps) = (vec![device.array(node.input(0)?)?], Vec::new());
    if node.opset < 11 {
        // The defaults are the largest numbers of f32: infinities become those.
        for (pass, name, default) in [("max", "min", f64::from(f32::MIN)), ("min", "max", f64::from(f32::MAX))] {
            steps.push(format!("{pass}:{:e}", node.float(name, default)));
        }
    }
    for (i, pass) in [(1, "max"), (2, "min")] {
        if let Some(bound) = node.optional(i) {
            steps.push(format!("{pass}:{}", INPUT_NAMES[inputs.len()]));
            inputs.push(device.array(bound)?);
        }
    }
    let words: Vec<&str> = steps.iter().map(String::as_str).collect();
    let formula = if words.is_empty() { Formula::Pass(Pass::Scale) } else { Formula::Steps(&words) };
    compute(device, formula, &inputs, inputs[0].dtype(), 1.0)
}

/// The remainder has the sign of the dividend with `fmod`, as ours has, else that of the divisor.
fn modulo(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let inputs = arrays(node, device)?;
    let formula = match node.int("fmod", 0) {
        0 => Formula::Steps(&["mod:b", "add:b", "mod:b"]),
        _ => Formula::Pass(Pass::Mod),
    };
    compute(device, formula, &inputs, inputs[0].dtype(), 1.0)
}

/// A step for each input behind the first; a mean has their number in alpha.
fn any_number(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let pass = match node.op() {
        "Max" => "max",
        "Min" => "min",
        "Mean" | "Sum" => "add",
        other => return Err(Stop::failed(format!("expected an operator of any number of tensors, given {other}"))),
    };
    let inputs = arrays(node, device)?;
    if inputs.len() > MAX_INPUTS {
        return Err(Stop::refused(format!("pointwise has up to {MAX_INPUTS} inputs, given {}", inputs.len())));
    }
    let steps: Vec<String> = INPUT_NAMES[1..inputs.len()].iter().map(|name| format!("{pass}:{name}")).collect();
    let words: Vec<&str> = steps.iter().map(String::as_str).collect();
    let formula = if words.is_empty() { Formula::Pass(Pass::Scale) } else { Formula::Steps(&words) };
    let alpha = if node.op() == "Mean" { 1.0 / inputs.len() as f64 } else { 1.0 };
    compute(device, formula, &inputs, inputs[0].dtype(), alpha)
}
