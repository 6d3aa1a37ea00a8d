//! Threads, shared memory, warps, atomics, wide accesses.

use super::unit::{assert_same, hopper_unit, n, random, unit};
use oxidnn::launch::{KernelArg, LaunchConfig};

#[test]
fn indices() {
    let Some(unit) = unit("indices") else { return };
    let (grid, block) = ([2, 3, 2], [4, 2, 2]);
    let out = unit.zeros::<u32>(12 * 16 * 12);
    unit.run_with("unit_threads_indices", &LaunchConfig { grid, block, ..LaunchConfig::default() }, &[out.arg()]);
    let mut expected = Vec::new();
    let places =
        |[x, y, z]: [u32; 3]| (0..z).flat_map(move |k| (0..y).flat_map(move |j| (0..x).map(move |i| [i, j, k])));
    for b in places(grid) {
        for t in places(block) {
            expected.extend([t, b, block, grid].concat());
        }
    }
    assert_same("indices", &out.read::<u32>(), &expected);

    let out = unit.zeros::<u32>(768 * 6);
    unit.run("unit_threads_linear", 3, 256, &[out.arg()]);
    let expected: Vec<u32> = (0..768)
        .flat_map(|i| {
            let t = i % 256;
            [i, 768, t % 32, t / 32, t / 128, (1 << (t % 32)) - 1]
        })
        .collect();
    assert_same("linear indices", &out.read::<u32>(), &expected);
}

#[test]
fn barriers() {
    let Some(unit) = unit("barriers") else { return };
    for held in [0, 50, 128] {
        let out = unit.zeros::<u32>(3 * 128);
        unit.run("unit_threads_votes", 1, 128, &[out.arg(), n(held)]);
        let expected = [held, u32::from(held == 128), u32::from(held > 0)].repeat(128);
        assert_same("votes of a block", &out.read::<u32>(), &expected);
    }
    let out = unit.zeros::<u32>(32);
    unit.run("unit_threads_named_barrier", 1, 128, &[out.arg()]);
    assert_same("named barrier", &out.read::<u32>(), &(1000..1032).collect::<Vec<_>>());
    for split in [0, 40, 128] {
        let out = unit.zeros::<u32>(128);
        unit.run("unit_threads_convergence", 1, 128, &[out.arg(), n(split)]);
        let slot = |t: u32| if t < split { 7 * t } else { 5 * t };
        let expected: Vec<u32> = (0..128).map(|t| slot(127 - t) + if t < split { 1 } else { 2 }).collect();
        assert_same("barrier between two branches", &out.read::<u32>(), &expected);
    }
}

#[test]
fn shared_memory() {
    let Some(unit) = unit("shared_memory") else { return };
    let values: Vec<u32> = random(1).take(256).map(|v| v >> 8).collect();
    let (x, out) = (unit.upload(&values), unit.zeros::<u32>(256));
    unit.run("unit_shared_static", 1, 256, &[x.arg(), out.arg()]);
    let expected: Vec<u32> = (0..256).map(|t| values[255 - t] + (t * t) as u32).collect();
    assert_same("static arrays", &out.read::<u32>(), &expected);

    let (threads, bytes) = (200, 4096);
    let out = unit.zeros::<u32>(threads + 2);
    unit.run_shared("unit_shared_dynamic", threads as u32, bytes, &[x.arg(), out.arg(), n(threads)]);
    let mut expected: Vec<u32> = (0..threads).map(|t| values[(t + 1) % threads]).collect();
    expected.extend([bytes as u32, 0]);
    assert_same("dynamic memory", &out.read::<u32>(), &expected);

    let out = unit.zeros::<u32>(16);
    unit.run("unit_shared_widths", 1, 1, &[out.arg()]);
    let expected = [1, 2, 3, 4, 5, 6, 7, 8, 9 | 10 << 16, 11, 12, 10, 3, 4, 2, 1];
    assert_same("widths", &out.read::<u32>(), &expected);
}

#[test]
fn warps() {
    let Some(unit) = unit("warps") else { return };
    let x: Vec<u32> = (0..32).map(|lane| (lane * 37 + 11) % 101).collect();
    let (values, out) = (unit.upload(&x), unit.zeros::<u32>(24 * 32));
    unit.run("unit_warp_lanes", 1, 32, &[values.arg(), out.arg()]);
    let sum: u32 = x.iter().sum();
    let (most, least) = (*x.iter().max().unwrap(), *x.iter().min().unwrap());
    let lanes_with =
        |holds: &dyn Fn(u32) -> bool| x.iter().enumerate().map(|(lane, &v)| u32::from(holds(v)) << lane).sum::<u32>();
    let negative = |v: u32| (v as i32).wrapping_neg() as u32;
    let all_and_any = u32::from(x.iter().all(|&v| v > 0)) | u32::from(x.iter().any(|&v| v % 7 == 3)) << 1;
    type Row<'a> = &'a dyn Fn(usize) -> u32;
    let rows: [Row<'_>; 24] = [
        &|l| x[(l + 5) % 32],
        &|l| x[l ^ 9],
        &|l| x[if l >= 3 { l - 3 } else { l }],
        &|l| x[if l + 4 < 32 { l + 4 } else { l }],
        &|l| x[l ^ 1],
        &|l| x[l.saturating_sub(1)],
        &|l| x[(l & !7) + 2],
        &|_| x[0],
        &|_| lanes_with(&|v| v % 3 == 0),
        &|_| all_and_any,
        &|_| u32::MAX,
        &|l| lanes_with(&|v| v % 4 == x[l] % 4),
        &|_| sum,
        &|_| negative(sum),
        &|_| most,
        &|_| least,
        &|_| negative(least),
        &|_| negative(most),
        &|_| x.iter().fold(u32::MAX, |a, &v| a & (v | 0xff00)),
        &|_| x.iter().fold(0, |a, &v| a | v),
        &|_| x.iter().fold(0, |a, &v| a ^ v),
        &|_| sum,
        &|_| most + least,
        &|l| x[..=l].iter().sum(),
    ];
    let got = out.read::<u32>();
    for (i, row) in rows.iter().enumerate() {
        let expected: Vec<u32> = (0..32).map(row).collect();
        assert_same(&format!("row {i}"), &got[32 * i..32 * (i + 1)], &expected);
    }

    let out = unit.zeros::<u32>(32);
    unit.run("unit_warp_masked", 1, 32, &[out.arg()]);
    let expected: Vec<u32> = (0..32).map(|l| if l < 16 { 100 + (l & !3) + 3 + 0x5555 } else { l }).collect();
    assert_same("half a warp", &out.read::<u32>(), &expected);

    let Some(unit) = hopper_unit("warps: elect") else { return };
    let out = unit.zeros::<u32>(32);
    unit.run("unit_warp_elect", 1, 32, &[out.arg()]);
    assert_eq!(out.read::<u32>().iter().sum::<u32>(), 1, "elected lanes");
}

#[test]
fn atomic_operations() {
    let Some(unit) = unit("atomic_operations") else { return };
    let mut words = [0u64; 24];
    for ones in [5, 9, 13] {
        words[ones] = u64::MAX;
    }
    let out = unit.upload(&words);
    // 256 threads bring 1 to 256.
    unit.run("unit_atomics_global", 4, 64, &[out.arg()]);
    let got = out.read::<u64>();
    let sum = 256 * 257 / 2;
    let low = |i: usize| got[i] as u32;
    let numbers = [0, 5, 6, 8, 14, 15, 20, 22].map(low);
    assert_same("32 bits", &numbers, &[sum, 1, 256, 256, 511, 256, 256, sum]);
    assert_same("signed 32 bits", &[low(1) as i32, low(7) as i32], &[-(sum as i32), -256]);
    assert_eq!(low(13), !8, "and");
    let wide = [got[2], got[9], got[10], got[12], got[21]];
    assert_same("64 bits", &wide, &[u64::from(sum) << 32, 1 << 33, 256 << 33, 256 << 33, 256 << 32]);
    assert_eq!(got[11] as i64, -(256 << 33), "signed minimum of 64 bits");
    assert_same("f32", &[f32::from_bits(low(3)), f32::from_bits(low(23))], &[sum as f32; 2]);
    assert_eq!(f64::from_bits(got[4]), f64::from(sum), "f64");
    assert_eq!(low(16) + low(17), sum, "what was exchanged in comes out");
    assert_eq!(got[18] + got[19], u64::from(sum), "what was exchanged in comes out, 64 bits");

    let out = unit.zeros::<u32>(8);
    unit.run("unit_atomics_block", 4, 128, &[out.arg()]);
    let expected: Vec<u32> = (0..4).flat_map(|b| [127 * 128 / 2, 127 + b]).collect();
    assert_same("block scope", &out.read::<u32>(), &expected);

    let (partial, ticket, out) = (unit.zeros::<u32>(50), unit.zeros::<u32>(1), unit.zeros::<u32>(1));
    unit.run("unit_atomics_last_block", 50, 32, &[partial.arg(), ticket.arg(), out.arg()]);
    assert_same("last block", &out.read::<u32>(), &[(0..50).map(|b| b * b).sum()]);

    let words = unit.zeros::<u32>(3);
    unit.run("unit_atomics_release_acquire", 2, 32, &[words.arg()]);
    assert_same("release and acquire", &words.read::<u32>(), &[4711, 1, 4712]);
}

#[test]
fn vector_atomics() {
    let Some(unit) = hopper_unit("vector_atomics") else { return };
    let (f32s, bf16s, f16s) = (unit.zeros::<f32>(8), unit.zeros::<u16>(16), unit.zeros::<u16>(2));
    unit.run("unit_atomics_vectors", 4, 64, &[f32s.arg(), bf16s.arg(), f16s.arg()]);
    assert_same("f32", &f32s.read::<f32>(), &[1.0, 2.0, 0.0, 0.0, 3.0, 4.0, 5.0, 6.0].map(|v| v * 256.0));
    let got: Vec<f32> = bf16s.read::<u16>().into_iter().map(|b| oxidnn::half::bf16::from_bits(b).to_f32()).collect();
    let expected = [1., 2., 0., 0., 0., 0., 0., 0., 1., 2., 2., 1., 2., 2., 1., 1.].map(|v: f32| v * 256.0);
    assert_same("bf16", &got, &expected);
    let got: Vec<f32> = f16s.read::<u16>().into_iter().map(|b| oxidnn::half::f16::from_bits(b).to_f32()).collect();
    assert_same("f16", &got, &[256.0, 512.0]);
}

#[test]
fn wide_accesses() {
    let Some(unit) = unit("wide_accesses") else { return };
    let values: Vec<u32> = random(2).take(4 * 512).collect();
    let x = unit.upload(&values);
    for how in 0..8 {
        let out = unit.zeros::<u32>(values.len());
        unit.run("unit_vector_copy", 4, 128, &[x.arg(), out.arg(), KernelArg::U32(how)]);
        assert_same(&format!("way {how}"), &out.read::<u32>(), &values);
    }
}
