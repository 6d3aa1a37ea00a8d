//! Normalizations.

use super::draw::{Drawn, Holds, Rng, reals, tensor};
use crate::value::ElementType::{self, *};
use crate::value::Value;

const REAL: [ElementType; 5] = [Float, Float, Double, Float16, Bfloat16];

/// Rows to be normalized: small numbers, small ones that stand far from 0, or one number alone.
fn rows(rng: &mut Rng, element: ElementType, dims: &[i64]) -> Value {
    let far = match element {
        Double | Float => 1e3,
        _ => 16.0,
    };
    let (offset, spread) = match rng.int(0, 9) {
        0..7 => (0.0, 1.0),
        7 | 8 => (far, 1.0),
        _ => (far, 0.0),
    };
    let n_elems = dims.iter().product::<i64>();
    let values: Vec<f64> = (0..n_elems).map(|_| offset + spread * rng.real(-3.0, 3.0)).collect();
    reals(element, dims, &values)
}

/// A normalization by statistics that it is given or makes.
pub fn normalization(rng: &mut Rng) -> Drawn {
    match rng.int(0, 9) {
        0..3 => batch(rng),
        3 | 4 => by_axis(rng, "LayerNormalization"),
        5 => by_axis(rng, "RMSNormalization"),
        6 | 7 => of_channels(rng),
        8 => mean_variance(rng),
        _ => relative(rng),
    }
}

fn epsilon(rng: &mut Rng, drawn: Drawn) -> Drawn {
    if rng.chance(50) { drawn.float("epsilon", rng.pick(&[1e-5, 1e-3, 0.1])) } else { drawn }
}

fn batch(rng: &mut Rng) -> Drawn {
    let opset = rng.pick(&[1, 6, 7, 9, 14, 15]);
    let dims = [rng.dims(2, 2, 4), rng.dims(0, 3, 4)].concat();
    let element = if opset >= 14 { rng.pick(&REAL) } else { rng.pick(&REAL[..4]) };
    let is_16_bit = matches!(element, Float16 | Bfloat16);
    let small = if opset >= 15 && is_16_bit && rng.chance(50) { Float } else { element };
    let each_element = opset < 9 && rng.chance(20);
    let channels = if each_element { dims[1..].to_vec() } else { vec![dims[1]] };
    let mut drawn = Drawn::new("BatchNormalization", opset).input(rows(rng, element, &dims));
    for holds in [Holds::Small, Holds::Small, Holds::Small, Holds::Positive] {
        drawn = drawn.input(tensor(rng, small, &channels, holds));
    }
    drawn = epsilon(rng, drawn);
    if rng.chance(40) {
        drawn = drawn.float("momentum", rng.pick(&[0.9, 0.5, 0.0]));
    }
    if opset < 7 {
        drawn = drawn.int("is_test", 1);
    }
    if opset < 9 && (each_element || rng.chance(20)) {
        drawn = drawn.int("spatial", i64::from(!each_element));
    }
    if opset >= 14 && rng.chance(40) { drawn.int("training_mode", 1).output().output() } else { drawn }
}

fn by_axis(rng: &mut Rng, op: &str) -> Drawn {
    let (element, dims) = (rng.pick(&REAL), rng.dims(1, 4, 6));
    let opset = if op == "RMSNormalization" { 23 } else { 17 };
    let axis = rng.int(0, dims.len() as i64 - 1) as usize;
    let mut drawn = Drawn::new(op, opset).input(rows(rng, element, &dims));
    drawn = drawn.input(tensor(rng, element, &dims[axis..], Holds::Small));
    if op == "LayerNormalization" {
        if rng.chance(60) {
            drawn = drawn.input(tensor(rng, element, &dims[axis..], Holds::Small));
        }
        if rng.chance(40) {
            drawn = drawn.output();
            drawn = if rng.chance(70) { drawn.output() } else { drawn };
        }
    }
    if axis + 1 < dims.len() || rng.chance(50) {
        drawn = drawn.int("axis", rng.named(axis, dims.len()));
    }
    if rng.chance(20) {
        drawn = drawn.int("stash_type", 1);
    }
    epsilon(rng, drawn)
}

/// Of channels or groups of them.
fn of_channels(rng: &mut Rng) -> Drawn {
    let (groups, in_group) = (rng.int(1, 3), rng.int(1, 3));
    let dims = [&[rng.int(1, 3), groups * in_group][..], &rng.dims(1, 3, 4)].concat();
    let by_group = rng.chance(50);
    let opset = if by_group { rng.pick(&[18, 21]) } else { rng.pick(&[1, 6, 22]) };
    let element = if opset >= 18 { rng.pick(&REAL) } else { rng.pick(&REAL[..4]) };
    let op = if by_group { "GroupNormalization" } else { "InstanceNormalization" };
    let mut drawn = Drawn::new(op, opset).input(rows(rng, element, &dims));
    let n_factors = if by_group && opset < 21 { groups } else { dims[1] };
    for _ in 0..2 {
        drawn = drawn.input(tensor(rng, element, &[n_factors], Holds::Small));
    }
    if by_group {
        drawn = drawn.int("num_groups", groups);
    }
    epsilon(rng, drawn)
}

fn mean_variance(rng: &mut Rng) -> Drawn {
    let opset = rng.pick(&[9, 13]);
    let element = if opset >= 13 { rng.pick(&REAL) } else { rng.pick(&REAL[..4]) };
    if rng.chance(50) {
        let dims = rng.dims(4, 4, 4);
        return Drawn::new("MeanVarianceNormalization", opset).input(rows(rng, element, &dims));
    }
    let dims = rng.dims(1, 4, 5);
    let axes: Vec<i64> = rng.axes(dims.len()).iter().map(|&axis| axis as i64).collect();
    Drawn::new("MeanVarianceNormalization", opset).input(rows(rng, element, &dims)).ints("axes", &axes)
}

/// Relative to a norm of the row, or to the channels around.
fn relative(rng: &mut Rng) -> Drawn {
    if rng.chance(50) {
        let opset = rng.pick(&[1, 22]);
        let (element, dims) = (rng.pick(&REAL[..if opset < 22 { 4 } else { 5 }]), rng.dims(1, 4, 5));
        let x = if rng.chance(15) {
            reals(element, &dims, &vec![0.0; dims.iter().product::<i64>() as usize])
        } else {
            tensor(rng, element, &dims, Holds::Small)
        };
        let mut drawn = Drawn::new("LpNormalization", opset).input(x);
        if rng.chance(60) {
            drawn = drawn.int("p", rng.int(1, 2));
        }
        let axis = rng.int(0, dims.len() as i64 - 1) as usize;
        return if rng.chance(70) { drawn.int("axis", rng.named(axis, dims.len())) } else { drawn };
    }
    let opset = rng.pick(&[1, 13]);
    let (element, dims) =
        (rng.pick(&REAL[..if opset < 13 { 4 } else { 5 }]), [rng.dims(1, 1, 2), rng.dims(3, 3, 6)].concat());
    let mut drawn =
        Drawn::new("LRN", opset).input(tensor(rng, element, &dims, Holds::Small)).int("size", rng.int(1, 6));
    for (name, low, high) in [("alpha", 1e-4, 1.0), ("beta", 0.25, 1.5), ("bias", 0.5, 2.0)] {
        if rng.chance(50) {
            drawn = drawn.float(name, rng.real(low, high) as f32);
        }
    }
    drawn
}
