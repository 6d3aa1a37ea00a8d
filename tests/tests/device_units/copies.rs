//! `cp.async`, `ldmatrix`, `stmatrix`, `mbarrier`.

use super::unit::{assert_same, hopper_unit, n, random, unit};

#[test]
fn asynchronous_copies() {
    let Some(unit) = unit("asynchronous_copies") else { return };
    let values: Vec<u32> = random(5).take(8 * 128).collect();
    let x = unit.upload(&values);
    for valid in [8, 4, 0] {
        let out = unit.zeros::<u32>(8 * 128);
        unit.run("unit_cp_async_copy", 1, 128, &[x.arg(), out.arg(), n(valid)]);
        // How many bytes each word's copy needs to reach it.
        let needs = [0, 0, 0, 0, 4, 8, 4, 4];
        let expected: Vec<u32> = (0..8 * 128)
            .map(|at| if valid >= needs[at % 8] { values[8 * ((at / 8) ^ 1) + at % 8] } else { 0 })
            .collect();
        assert_same(&format!("{valid} valid bytes"), &out.read::<u32>(), &expected);
    }
    let Some(unit) = hopper_unit("asynchronous_copies: barrier") else { return };
    let out = unit.zeros::<u32>(4 * 128);
    unit.run("unit_cp_async_barrier", 1, 128, &[x.arg(), out.arg()]);
    let expected: Vec<u32> = (0..4 * 128).map(|at| values[4 * ((at / 4) ^ 1) + at % 4]).collect();
    assert_same("counted by a barrier", &out.read::<u32>(), &expected);
}

/// Register of a lane: elements (row, column) and the next of an 8×8 matrix of `x`, as the documentation says.
fn fragment(x: &[u16], matrix: usize, lane: usize, transposed: bool) -> u32 {
    let pair = [0, 1].map(|i| {
        let (row, column) = (lane / 4, 2 * (lane % 4) + i);
        let (row, column) = if transposed { (column, row) } else { (row, column) };
        u32::from(x[64 * matrix + 8 * row + column])
    });
    pair[0] | pair[1] << 16
}

#[test]
fn matrices() {
    let Some(unit) = unit("matrices") else { return };
    let values: Vec<u16> = random(6).take(256).map(|v| v as u16).collect();
    let x = unit.upload(&values);
    let out = unit.zeros::<u32>(14 * 32);
    unit.run("unit_matrix_load", 1, 32, &[x.arg(), out.arg()]);
    let got = out.read::<u32>();
    for transposed in [false, true] {
        for (i, matrix) in [0, 1, 2, 3, 0, 1, 0].into_iter().enumerate() {
            let row = i + if transposed { 7 } else { 0 };
            let expected: Vec<u32> = (0..32).map(|lane| fragment(&values, matrix, lane, transposed)).collect();
            assert_same(&format!("register {row}"), &got[32 * row..32 * (row + 1)], &expected);
        }
    }

    let Some(unit) = hopper_unit("matrices: store") else { return };
    let registers: Vec<u32> =
        (0..4).flat_map(|m| (0..32).map(move |lane| (m, lane))).map(|(m, l)| fragment(&values, m, l, false)).collect();
    let (x, out) = (unit.upload(&registers), unit.zeros::<u16>(512));
    unit.run("unit_matrix_store", 1, 32, &[x.arg(), out.arg()]);
    let got = out.read::<u16>();
    assert_same("stored", &got[..256], &values);
    let transposed: Vec<u16> = (0..256).map(|at| values[64 * (at / 64) + 8 * (at % 8) + at / 8 % 8]).collect();
    assert_same("stored transposed", &got[256..], &transposed);
}

#[test]
fn barriers_in_memory() {
    let Some(unit) = hopper_unit("barriers_in_memory") else { return };
    let rounds = 50;
    let values: Vec<u32> = random(7).take(32 * rounds).map(|v| v >> 8).collect();
    let (x, out) = (unit.upload(&values), unit.zeros::<u32>(values.len()));
    unit.run("unit_mbarrier_ring", 1, 64, &[x.arg(), out.arg(), n(rounds)]);
    let expected: Vec<u32> = values.iter().enumerate().map(|(at, v)| v + (at / 32) as u32).collect();
    assert_same("ring", &out.read::<u32>(), &expected);

    let out = unit.zeros::<u32>(6);
    unit.run("unit_mbarrier_steps", 1, 1, &[out.arg()]);
    assert_same("steps", &out.read::<u32>(), &[1, 0, 1, 0, 1, 1]);
}
