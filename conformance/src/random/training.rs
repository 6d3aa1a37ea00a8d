//! What training consists of: losses, dropout and steps of optimizers.

use super::draw::{Drawn, Holds, Rng, ints, reals, tensor};
use crate::value::ElementType::{self, *};
use crate::value::Value;

const REAL: [ElementType; 5] = [Float, Float, Double, Float16, Bfloat16];

/// The domain of steps.
const TRAINING: &str = "ai.onnx.preview.training";

/// A loss of classification.
pub fn loss(rng: &mut Rng) -> Drawn {
    let op = rng.pick(&["NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"]);
    let opset = rng.pick(&[12, 13]);
    let element = rng.pick(&REAL[..if opset < 13 { 4 } else { 5 }]);
    let (n, classes, image) = (rng.int(1, 3), rng.int(1, 5), rng.dims(0, 3, 3));
    let dims = [&[n, classes], &image[..]].concat();
    let ignored = rng.chance(40).then(|| rng.int(-1, classes));
    let target_dims = [&[n], &image[..]].concat();
    let mut one = |_: i64| {
        let ignores = ignored.is_some() && rng.chance(30);
        i128::from(if ignores { ignored.unwrap_or(0) } else { rng.int(0, classes - 1) })
    };
    let mut classes_of: Vec<i128> = (0..target_dims.iter().product::<i64>()).map(&mut one).collect();
    if let Some(ignored) = ignored.map(i128::from)
        && classes > 1
        && classes_of.iter().all(|&class| class == ignored)
    {
        // The mean of none is not a number.
        classes_of[0] = (ignored + 1).rem_euclid(i128::from(classes));
    }
    let target = ints(rng.pick(&[Int64, Int32]), &target_dims, &classes_of);
    let mut drawn = Drawn::new(op, opset).input(tensor(rng, element, &dims, Holds::Small)).input(target);
    if rng.chance(50) {
        drawn = drawn.input(tensor(rng, element, &[classes], Holds::Positive));
    }
    if rng.chance(70) {
        drawn = drawn.word("reduction", rng.pick(&["none", "sum", "mean"]));
    }
    if let Some(ignored) = ignored {
        drawn = drawn.int("ignore_index", ignored);
    }
    if op == "SoftmaxCrossEntropyLoss" && rng.chance(40) { drawn.output() } else { drawn }
}

/// A dropout that keeps everything.
pub fn dropout(rng: &mut Rng) -> Drawn {
    let opset = rng.pick(&[1, 6, 7, 10, 12, 13, 22]);
    let (element, dims) = (rng.pick(&REAL[..if opset < 13 { 4 } else { 5 }]), rng.dims(1, 4, 4));
    let mut drawn = Drawn::new("Dropout", opset).input(tensor(rng, element, &dims, Holds::Edges));
    if opset >= 10 && rng.chance(50) {
        drawn = drawn.output();
    }
    if opset < 12 {
        if opset < 7 {
            drawn = drawn.int("is_test", 1);
        }
        return if rng.chance(50) { drawn.float("ratio", 0.25) } else { drawn };
    }
    if rng.chance(30) {
        drawn = drawn.int("seed", 3);
    }
    match rng.int(0, 3) {
        0 => drawn,
        1 => drawn.input(reals(Float, &[], &[0.25])),
        2 => drawn.input(reals(Float, &[], &[0.75])).input(ints(Bool, &[], &[0])),
        _ => drawn.input(reals(Float, &[], &[0.0])).input(ints(Bool, &[], &[1])),
    }
}

/// A step of an optimizer.
pub fn step(rng: &mut Rng) -> Drawn {
    let is_adam = rng.chance(50);
    let (element, n_tensors) = (rng.pick(&[Float, Float, Double]), rng.int(1, 3));
    let mut drawn = Drawn::new(if is_adam { "Adam" } else { "Momentum" }, 1).of_domain(TRAINING);
    drawn =
        drawn.input(reals(element, &[], &[rng.real(0.01, 0.5)])).input(Value::of_ints(&[rng.int(0, 5)]).with_dims(&[]));
    let shapes: Vec<Vec<i64>> = (0..n_tensors).map(|_| rng.dims(1, 3, 4)).collect();
    let holds: &[Holds] = if is_adam {
        &[Holds::Small, Holds::Small, Holds::Small, Holds::Positive]
    } else {
        &[Holds::Small, Holds::Small, Holds::Small]
    };
    for &holds in holds {
        for dims in &shapes {
            drawn = drawn.input(tensor(rng, element, dims, holds));
        }
    }
    let n_outputs = n_tensors as usize * (holds.len() - 1);
    drawn = (1..n_outputs).fold(drawn, |drawn, _| drawn.output());
    if is_adam {
        for (name, low, high) in [("alpha", 0.5, 0.99), ("beta", 0.5, 0.999), ("norm_coefficient", 0.0, 0.1)] {
            if rng.chance(60) {
                drawn = drawn.float(name, rng.real(low, high) as f32);
            }
        }
        return drawn.float("epsilon", rng.pick(&[1e-6, 1e-3, 0.1]));
    }
    for (name, low, high) in [("alpha", 0.0, 0.99), ("beta", 0.1, 1.0), ("norm_coefficient", 0.0, 0.1)] {
        drawn = drawn.float(name, rng.real(low, high) as f32);
    }
    drawn.word("mode", rng.pick(&["standard", "nesterov"]))
}
