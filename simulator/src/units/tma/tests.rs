//! The device tests' boxes and pixels, which an H200 passed, and the faults it was seen to raise.

use super::*;
use crate::units::tensor_map::{self, Arguments};

fn map(arguments: &Arguments<'_>, box_dims: &[u32]) -> TensorMap {
    decode(tensor_map::encode_tiled(arguments, box_dims).unwrap())
}

fn decode(words: [u64; 16]) -> TensorMap {
    let bytes: Vec<u8> = words.into_iter().flat_map(u64::to_le_bytes).collect();
    TensorMap::decode(bytes.first_chunk().unwrap()).unwrap()
}

const BASE: u64 = 0x1000;

fn f32s<'a>(dims: &'a [u64], strides: &'a [u64], steps: &'a [u32], swizzle: u32) -> Arguments<'a> {
    Arguments { data_type: 7, address: BASE, dims, strides, steps, interleave: 0, swizzle, l2_promotion: 0, fill: 0 }
}

/// Lands a load in a fresh shared memory.
fn landed(plan: &Plan, memory: &[f32]) -> Vec<f32> {
    let bytes: Vec<u8> = memory.iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut shared = vec![0xaa; plan.shared_range().end as usize];
    for row in &plan.rows {
        let from = if row.inside.is_empty() { 0 } else { (row.global - BASE) as usize };
        plan.put(row, &bytes[from..from + row.inside.len()], &mut shared);
    }
    let first = plan.shared_range().start as usize;
    shared[first..].as_chunks().0.iter().map(|&word| f32::from_le_bytes(word)).collect()
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| i as f32 + 1.0).collect()
}

fn packed(dims: &[u64]) -> Vec<u64> {
    (1..dims.len()).map(|i| 4 * dims[..i].iter().product::<u64>()).collect()
}

/// The element at coordinates, 0 outside.
fn element(dims: &[u64], at: &[i64], values: &[f32]) -> f32 {
    let mut linear = 0;
    for (&dim, &at) in dims.iter().zip(at).rev() {
        if at < 0 || at >= dim as i64 {
            return 0.0;
        }
        linear = linear * dim as usize + at as usize;
    }
    values[linear]
}

/// The device test `boxes_are_loaded`.
#[test]
fn boxes_hang_over_all_edges() {
    let (dims, extents, at) = ([24, 5, 4, 3, 2], [8u32, 3, 2, 2, 2], [20, 3, -1, 2, 1]);
    for rank in 1..=5 {
        let values = numbers(dims[..rank].iter().product::<u64>() as usize);
        let strides = packed(&dims[..rank]);
        let map = map(&f32s(&dims[..rank], &strides, &[1; 5][..rank], 0), &extents[..rank]);
        let plan = load(&map, &Request { shared: 1024, at: &at[..rank], offsets: None }).unwrap();
        let count = extents[..rank].iter().product::<u32>();
        let expected: Vec<f32> = (0..count)
            .map(|i| {
                let mut rest = i;
                let place: Vec<i64> = (0..rank)
                    .map(|d| {
                        let along = rest % extents[d];
                        rest /= extents[d];
                        i64::from(at[d]) + i64::from(along)
                    })
                    .collect();
                element(&dims[..rank], &place, &values)
            })
            .collect();
        assert_eq!((landed(&plan, &values), plan.bytes), (expected, 4 * count), "rank {rank}");
    }
}

#[test]
fn steps_skip_elements() {
    let map = map(&f32s(&[4, 7], &[16], &[5, 3], 0), &[4, 6]);
    let plan = load(&map, &Request { shared: 0, at: &[0, 2], offsets: None }).unwrap();
    assert_eq!(plan.rows.iter().map(|row| row.global).collect::<Vec<_>>(), [BASE + 32, BASE + 80]);
}

#[test]
fn chunks_are_permuted_by_address() {
    for (swizzle, span, mask) in [(1, 32, 1), (2, 64, 3), (3, 128, 7)] {
        let columns = span / 4;
        let values = numbers(columns * 16);
        let (dims, strides) = ([columns as u64, 16], [span as u64]);
        let map = map(&f32s(&dims, &strides, &[1, 1], swizzle), &[columns as u32, 16]);
        // A box that begins inside of the pattern.
        let shared = 128;
        let plan = load(&map, &Request { shared, at: &[0, 0], offsets: None }).unwrap();
        let mut memory = vec![0; 128 + 64 * columns];
        let bytes: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
        for row in &plan.rows {
            let from = (row.global - BASE) as usize;
            plan.put(row, &bytes[from..from + span], &mut memory);
        }
        for (i, value) in values.iter().enumerate() {
            let byte = shared as usize + 4 * i;
            let at = byte ^ ((byte >> 7) & mask) << 4;
            assert_eq!(memory[at..at + 4], value.to_le_bytes(), "swizzle {swizzle}, element {i}");
        }
        // And back.
        let plan = store(&map, &Request { shared, at: &[0, 0], offsets: None }).unwrap();
        let mut out = vec![0; bytes.len()];
        for row in &plan.rows {
            let to = (row.global - BASE) as usize;
            plan.take(row, &memory, &mut out[to..to + row.inside.len()]);
        }
        assert_eq!(out, bytes);
    }
}

/// The device test `pixels_are_loaded_in_im2col_order`.
#[test]
fn pixels_are_walked_as_a_convolution_does() {
    for (spatial, images) in [(vec![13u64], 4u64), (vec![5, 4], 3), (vec![4, 3, 3], 2)] {
        let rank = spatial.len() + 2;
        let dims = [vec![8], spatial.clone(), vec![images]].concat();
        let (values, strides) = (numbers(dims.iter().product::<u64>() as usize), packed(&dims));
        for stride in [1i64, 2] {
            let steps = [vec![1], vec![stride as u32; spatial.len()], vec![1]].concat();
            let corner = vec![-1; spatial.len()];
            let arguments = f32s(&dims, &strides, &steps, 0);
            let map = decode(tensor_map::encode_im2col(&arguments, &corner, &corner, 8, 32).unwrap());
            let outputs: Vec<i64> = spatial.iter().map(|&w| (w as i64 - 1) / stride + 1).collect();
            for (first, tap) in [(0, [0, 0, 0]), (7, [2, 1, 0]), (3, [1, 2, 2])] {
                let base = |pixel: i64| -> Vec<i64> {
                    let mut rest = pixel;
                    let mut at = vec![0];
                    for &q in &outputs {
                        at.push(rest % q * stride - 1);
                        rest /= q;
                    }
                    at.push(rest);
                    at
                };
                let expected: Vec<f32> = (first..first + 32)
                    .flat_map(|pixel| {
                        let mut at = base(pixel);
                        for (at, tap) in at[1..rank - 1].iter_mut().zip(tap) {
                            *at += i64::from(tap);
                        }
                        let (dims, values) = (&dims, &values);
                        (0..8).map(move |c| element(dims, &[&[c], &at[1..]].concat(), values))
                    })
                    .collect();
                let at: Vec<i32> = base(first).into_iter().map(|at| at as i32).collect();
                let request = Request { shared: 0, at: &at, offsets: Some(&tap[..rank - 2]) };
                let plan = load(&map, &request).unwrap();
                assert_eq!(landed(&plan, &values), expected, "{spatial:?} stride {stride}, {first}, {tap:?}");
                assert_eq!(plan.bytes, 32 * 32);
            }
        }
    }
}

#[test]
fn stores_end_with_sixteen_bytes() {
    let map = map(&f32s(&[6, 2], &[32], &[1, 1], 0), &[8, 2]);
    let request = Request { shared: 0, at: &[4, 1], offsets: None };
    let plan = store(&map, &request).unwrap();
    assert_eq!(plan.rows[0], Row { shared: 0, inside: 0..16, global: BASE + 48 });
    assert!(plan.rows[1].inside.is_empty());
    assert_eq!(load(&map, &request).unwrap().rows[0].inside, 0..8);
}

#[test]
fn faults_are_those_of_the_hardware() {
    let map = map(&f32s(&[24, 2], &[96], &[1, 1], 0), &[8, 2]);
    let request = |shared, at| Request { shared, at, offsets: None };
    assert!(matches!(load(&map, &request(0, &[2, 0])), Err(Fault::IllegalInstruction(_))));
    assert!(matches!(store(&map, &request(0, &[0, -1])), Err(Fault::IllegalInstruction(_))));
    assert!(matches!(load(&map, &request(0, &[0])), Err(Fault::IllegalInstruction(_))));
    assert!(matches!(load(&map, &request(64, &[0, 0])), Err(Fault::Misaligned(_))));
    let im2col = Request { shared: 0, at: &[0, 0], offsets: Some(&[]) };
    assert!(matches!(load(&map, &im2col), Err(Fault::IllegalInstruction(_))));
    assert!(load(&map, &request(0, &[-4, -1])).is_ok());
}

#[test]
fn loads_fill_and_convert() {
    let nan = Arguments { fill: 1, ..f32s(&[4], &[], &[1], 0) };
    let plan = load(&map(&nan, &[8]), &Request { shared: 0, at: &[-4], offsets: None }).unwrap();
    let got = landed(&plan, &[1.0, 2.0, 3.0, 4.0]);
    assert!(got[..4].iter().all(|v| v.is_nan()) && got[4..] == [1.0, 2.0, 3.0, 4.0]);
    let tf32 = Arguments { data_type: 11, ..f32s(&[4], &[], &[1], 0) };
    let plan = load(&map(&tf32, &[4]), &Request { shared: 0, at: &[0], offsets: None }).unwrap();
    let ulp = 2f32.powi(-10);
    assert_eq!(landed(&plan, &[1.0 + 0.75 * ulp, -1.0, 3.0, 1.0 + 0.5 * ulp]), [1.0 + ulp, -1.0, 3.0, 1.0]);
}
