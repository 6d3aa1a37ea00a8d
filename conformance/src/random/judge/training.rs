//! Losses, dropout and steps of optimizers.

use super::super::draw::Drawn;
use super::{Wide, float, indices, place, word};
use crate::value::ElementType;

/// What a loss makes of scores and classes.
pub fn loss(drawn: &Drawn) -> Vec<Wide> {
    let x: Vec<Wide> = drawn.inputs.iter().flatten().map(Wide::of).collect();
    let (scores, classes) = (x[0].reals(), x[1].ints());
    let weights = x.get(2).map(Wide::reals);
    let n_classes = x[0].dims[1];
    let of = |position: &[usize], class: usize| {
        scores[place(&x[0].dims, &[&position[..1], &[class], &position[1..]].concat())]
    };
    let takes_logits = drawn.node.op_type == "SoftmaxCrossEntropyLoss";
    // The logarithm of a class's probability, with the magnitude of its terms.
    let log_prob = |position: &[usize], class: usize| {
        if !takes_logits {
            return (of(position, class), 0.0);
        }
        let all = || (0..n_classes).map(|class| of(position, class));
        let top = all().fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = all().map(|x| (x - top).exp()).sum();
        (of(position, class) - top - sum.ln(), of(position, class).abs() + top.abs() + 1.0)
    };
    let ignored = drawn.get("ignore_index").map(|attribute| i128::from(attribute.i));
    // The weight and the weighed loss of each position.
    let one = |(position, &class): (Vec<usize>, &i128)| {
        if Some(class) == ignored {
            return (0.0, (0.0, 0.0));
        }
        let weight = weights.as_ref().map_or(1.0, |weights| weights[class as usize]);
        let (log_prob, magnitude) = log_prob(&position, class as usize);
        (weight, (-weight * log_prob, weight * magnitude))
    };
    let all: Vec<_> = indices(&x[1].dims).into_iter().zip(&classes).map(one).collect();
    let total = all.iter().fold((0.0, 0.0), |(sum, all), (_, term)| (sum + term.0, all + term.0.abs() + term.1));
    let weight: f64 = all.iter().map(|one| one.0).sum();
    let element = x[0].element;
    let loss = match &word(drawn, "reduction", "mean")[..] {
        "none" => Wide::real(element, &x[1].dims, all.iter().map(|one| one.1).collect()),
        "sum" => Wide::real(element, &[], vec![total]),
        _ => Wide::real(element, &[], vec![(total.0 / weight, total.1 / weight)]),
    };
    if drawn.node.output.len() < 2 {
        return vec![loss];
    }
    let one = |index: &Vec<usize>| log_prob(&[&index[..1], &index[2..]].concat(), index[1]);
    vec![loss, Wide::real(element, &x[0].dims, indices(&x[0].dims).iter().map(one).collect())]
}

/// What a dropout makes of its input where it keeps everything: the same, and true.
pub fn dropout(drawn: &Drawn) -> Vec<Wide> {
    let x = Wide::of(drawn.inputs[0].as_ref().expect("an input"));
    let mask = Wide::int(ElementType::Bool, &x.dims, vec![1; x.dims.iter().product()]);
    if drawn.node.output.len() > 1 { vec![x, mask] } else { vec![x] }
}

/// What a step makes of tensors, their gradients and what is kept of those before.
pub fn step(drawn: &Drawn) -> Vec<Wide> {
    let x: Vec<Wide> = drawn.inputs.iter().flatten().map(Wide::of).collect();
    let (rate, count) = (x[0].reals()[0], x[1].ints()[0]);
    let is_adam = drawn.node.op_type == "Adam";
    let n_kinds = if is_adam { 4 } else { 3 };
    let n_tensors = (x.len() - 2) / n_kinds;
    let tensor = |kind: usize, i: usize| &x[2 + kind * n_tensors + i];
    let decay = float(drawn, "norm_coefficient", 0.0);
    let mut outputs: Vec<Vec<Wide>> = vec![Vec::new(); n_kinds - 1];
    for i in 0..n_tensors {
        let kinds: Vec<Vec<f64>> = (0..n_kinds).map(|kind| tensor(kind, i).reals()).collect();
        let mut new = vec![Vec::new(); n_kinds - 1];
        for (at, (&w, gradient)) in kinds[0].iter().zip(&kinds[1]).enumerate() {
            let (g, size) = (decay * w + gradient, (decay * w).abs() + gradient.abs());
            let (direction, kept) = if is_adam {
                let (alpha, beta) = (float(drawn, "alpha", 0.9), float(drawn, "beta", 0.999));
                let v = alpha * kinds[2][at] + (1.0 - alpha) * g;
                let h = beta * kinds[3][at] + (1.0 - beta) * g * g;
                let power = |base: f64| base.powi(count as i32);
                let corrected = if count > 0 { (1.0 - power(beta)).sqrt() / (1.0 - power(alpha)) } else { 1.0 };
                let root = h.sqrt() + float(drawn, "epsilon", 0.0);
                let v_size = alpha * kinds[2][at].abs() + (1.0 - alpha) * size;
                let h_size = beta * kinds[3][at] + (1.0 - beta) * size * size;
                ((corrected * v / root, corrected * v_size / root), vec![(v, v_size), (h, h_size)])
            } else {
                let alpha = float(drawn, "alpha", 0.0);
                let share = if count > 0 { float(drawn, "beta", 1.0) } else { 1.0 };
                let v = (alpha * kinds[2][at] + share * g, alpha * kinds[2][at].abs() + share * size);
                let is_nesterov = word(drawn, "mode", "standard") == "nesterov";
                (if is_nesterov { (g + alpha * v.0, size + alpha * v.1) } else { v }, vec![v])
            };
            new[0].push((w - rate * direction.0, w.abs() + rate * direction.1));
            kept.into_iter().enumerate().for_each(|(kind, kept)| new[1 + kind].push(kept));
        }
        for (kind, elems) in new.into_iter().enumerate() {
            outputs[kind].push(Wide::real(tensor(0, i).element, &tensor(0, i).dims, elems));
        }
    }
    outputs.into_iter().flatten().collect()
}
