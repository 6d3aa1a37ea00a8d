//! `mma.sync`.

use super::encode::Type;
use super::unit::{assert_same, hopper_unit, random, unit};
use bytemuck::Pod;

/// Rows of 32 bytes of a type, and their integers.
pub fn rows(seed: u32, count: usize, element: Type) -> (Vec<u8>, Vec<Vec<i32>>) {
    let mut random = random(seed);
    let values: Vec<Vec<i32>> = (0..count)
        .map(|_| (0..32 / element.bytes()).map(|_| element.integer(random.next().unwrap_or(0))).collect())
        .collect();
    (values.iter().flatten().flat_map(|&v| element.encode(v)).collect(), values)
}

fn check<T: Pod + PartialEq + std::fmt::Debug>(kernel: &str, element: Type, from: fn(i32) -> T) {
    let Some(unit) = (match element {
        Type::E4m3 | Type::E5m2 => hopper_unit(kernel),
        _ => unit(kernel),
    }) else {
        return;
    };
    let (a, a_values) = rows(11, 16, element);
    let (b, b_values) = rows(12, 8, element);
    let prior: Vec<i32> = (0..128).map(|i| i - 60).collect();
    let mut expected = prior.clone();
    for (i, sum) in expected.iter_mut().enumerate() {
        *sum += a_values[i / 8].iter().zip(&b_values[i % 8]).map(|(a, b)| a * b).sum::<i32>();
    }
    let d = unit.upload(&prior.into_iter().map(from).collect::<Vec<T>>());
    unit.run(kernel, 1, 32, &[unit.upload(&a).arg(), unit.upload(&b).arg(), d.arg()]);
    assert_same(kernel, &d.read::<T>(), &expected.into_iter().map(from).collect::<Vec<T>>());
}

#[test]
fn products_of_warps() {
    let float = |v: i32| v as f32;
    check("unit_mma_bf16", Type::Bf16, float);
    check("unit_mma_f16", Type::F16, float);
    check("unit_mma_half_bf16", Type::Bf16, float);
    check("unit_mma_half_f16", Type::F16, float);
    check("unit_mma_tf32", Type::Tf32, float);
    check("unit_mma_s8", Type::S8, |v| v);
    check("unit_mma_u8", Type::U8, |v| v);
    check("unit_mma_e4m3", Type::E4m3, float);
    check("unit_mma_e5m2", Type::E5m2, float);
}

#[test]
fn products_of_f64() {
    let Some(unit) = unit("products_of_f64") else { return };
    let values = |seed| random(seed).take(32).map(|v| f64::from(v >> 8) - 8e6).collect::<Vec<f64>>();
    let (a, b) = (values(13), values(14));
    let expected: Vec<f64> =
        (0..64).map(|i| 1.0 + (0..4).map(|k| a[4 * (i / 8) + k] * b[4 * (i % 8) + k]).sum::<f64>()).collect();
    let d = unit.upload(&[1.0f64; 64]);
    unit.run("unit_mma_f64", 1, 32, &[unit.upload(&a).arg(), unit.upload(&b).arg(), d.arg()]);
    assert_same("f64", &d.read::<f64>(), &expected);
}
