//! Dropout.

use super::{Op, op};
use crate::device::Device;
use crate::node::Node;
use crate::stop::Stop;
use crate::value::Value;
use oxidnn::ops::dropout::{DropoutDesc, DropoutProblem, PhiloxState};
use oxidnn::ops::pointwise::PointwiseProblem;
use oxidnn::{Args, DType};

pub const OPS: &[Op] = &[op("Dropout", "dropout, pointwise", dropout)];

/// Where it does not train, everything is kept. What is dropped when it does is drawn by numpy in the cases.
fn dropout(node: &Node<'_>, device: &Device) -> Result<Vec<Value>, Stop> {
    let ratio = match node.optional(1) {
        Some(ratio) => ratio.reals()?.first().copied().unwrap_or(0.0),
        None => node.float("ratio", 0.5),
    };
    node.int("seed", 0);
    // Before version 7 an attribute says that it does not train; up to version 11 it never does.
    let trains = match node.opset {
        ..7 => node.int("is_test", 0) == 0,
        _ => node.optional(2).map_or(Ok(vec![0]), Value::ints)?.first() != Some(&0),
    };
    if trains && ratio != 0.0 {
        let reason = "dropout draws by Philox which elements are kept, the case by numpy's generator, and ratio is";
        return Err(Stop::refused(format!("{reason} {ratio}")));
    }
    if node.wants(1) && node.opset < 10 {
        return Err(Stop::refused(format!("version {} does not say what the mask holds", node.opset)));
    }
    let x = device.array(node.input(0)?)?;
    let words: Vec<u8> = PhiloxState::default().to_words().iter().flat_map(|word| word.to_le_bytes()).collect();
    let state = Value { element: crate::value::ElementType::Int32, dims: vec![4], bytes: words };
    let state = device.array(&state)?;
    let mut y = device.zeros(x.dtype(), x.dims())?;
    let layout = x.layout();
    let problem = DropoutProblem::forward(DropoutDesc::new(0.0), &layout.desc, &layout.desc, false, false)?;
    let args = Args::new().input("x", x.at(&layout)?).input("state", state.at(&state.layout())?);
    device.run(&problem, args.output("y", y.at_mut(&layout)?))?;
    let mut outputs = vec![device.value(&y)?];
    if node.wants(1) {
        let mut mask = device.zeros(DType::Bool, x.dims())?;
        let layout = mask.layout();
        let problem = PointwiseProblem::set(1.0, &layout.desc)?;
        device.run(&problem, Args::new().output("c", mask.at_mut(&layout)?))?;
        outputs.push(device.value(&mask)?);
    }
    Ok(outputs)
}
