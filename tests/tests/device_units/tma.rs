//! The bulk tensor copy engine against plain loops over coordinates.

use super::unit::{Buffer, Unit, assert_same, hopper_unit, n};
use oxidnn::driver::{Im2col, Swizzle, TensorMap, Tiled, TmaType};
use oxidnn::launch::{KernelArg, LaunchConfig};

const DIMS: [u64; 5] = [24, 5, 4, 3, 2];
const BOX: [u32; 5] = [8, 3, 2, 2, 2];
/// Where the box lies: over the end in the first two dimensions, before the start in the third.
const AT: [i32; 5] = [20, 3, -1, 2, 1];

/// Byte strides of all dimensions but the first, for packed f32.
fn strides(dims: &[u64]) -> Vec<u64> {
    dims[..dims.len() - 1]
        .iter()
        .scan(4, |bytes, dim| {
            *bytes *= dim;
            Some(*bytes)
        })
        .collect()
}

/// Coordinates of every element of a box, fastest first.
fn places(extents: &[u32]) -> Vec<Vec<i32>> {
    let mut all = vec![vec![]];
    for &extent in extents.iter().rev() {
        all = all
            .into_iter()
            .flat_map(|outer: Vec<i32>| (0..extent as i32).map(move |i| [vec![i], outer.clone()].concat()))
            .collect();
    }
    // The first dimension varies fastest.
    all.sort_by_key(|place| place.iter().rev().copied().collect::<Vec<_>>());
    all
}

/// Index of an element; None outside the tensor.
fn index(dims: &[u64], at: &[i32]) -> Option<usize> {
    let mut linear = 0;
    for (&dim, &at) in dims.iter().zip(at).rev() {
        if at < 0 || at as u64 >= dim {
            return None;
        }
        linear = linear * dim as usize + at as usize;
    }
    Some(linear)
}

fn shifted(place: &[i32], by: &[i32]) -> Vec<i32> {
    place.iter().zip(by).map(|(a, b)| a + b).collect()
}

fn coordinates(at: &[i32]) -> [KernelArg; 5] {
    std::array::from_fn(|i| KernelArg::U32(at.get(i).copied().unwrap_or(0) as u32))
}

fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| i as f32 + 1.0).collect()
}

/// A map in device memory.
fn upload_map<'a>(unit: &'a Unit, map: &TensorMap) -> Buffer<'a> {
    unit.upload(&map.words())
}

fn tiled(unit: &Unit, x: &Buffer<'_>, dims: &[u64], box_dims: &[u32], swizzle: Swizzle) -> TensorMap {
    let strides_bytes = &strides(dims);
    let (address, element_strides) = (x.address(), &[][..]);
    let tiled = Tiled { data_type: TmaType::F32, address, dims, strides_bytes, box_dims, element_strides, swizzle };
    TensorMap::tiled(&unit.gpu, &tiled).unwrap()
}

#[test]
fn boxes_are_loaded() {
    let Some(unit) = hopper_unit("boxes_are_loaded") else { return };
    for (rank, code) in [(1, 1), (2, 2), (2, 12), (3, 3), (4, 4), (5, 5)] {
        let (dims, box_dims, at) = (&DIMS[..rank], &BOX[..rank], &AT[..rank]);
        let values = numbers(dims.iter().product::<u64>() as usize);
        let x = unit.upload(&values);
        let map = upload_map(unit, &tiled(unit, &x, dims, box_dims, Swizzle::None));
        let expected: Vec<f32> = places(box_dims)
            .iter()
            .map(|place| index(dims, &shifted(place, at)).map_or(0.0, |at| values[at]))
            .collect();
        let out = unit.zeros::<f32>(expected.len());
        let bytes = 4 * expected.len();
        let args = [&[map.arg(), out.arg(), n(code), n(bytes)][..], &coordinates(at)].concat();
        unit.run_shared("unit_tma_load", 128, bytes, &args);
        assert_same(&format!("rank {rank}"), &out.read::<f32>(), &expected);
    }
}

#[test]
fn boxes_have_steps() {
    let Some(unit) = hopper_unit("boxes_have_steps") else { return };
    let (dims, steps, counts) = ([8u64, 9, 7, 3], [1u32, 2, 3, 1], [4u32, 5, 3, 2]);
    let values = numbers(dims.iter().product::<u64>() as usize);
    let x = unit.upload(&values);
    let box_dims: Vec<u32> = counts.iter().zip(steps).map(|(count, step)| (count - 1) * step + 1).collect();
    let tiled = Tiled {
        data_type: TmaType::F32,
        address: x.address(),
        dims: &dims,
        strides_bytes: &strides(&dims),
        box_dims: &box_dims,
        element_strides: &steps,
        swizzle: Swizzle::None,
    };
    let map = upload_map(unit, &TensorMap::tiled(&unit.gpu, &tiled).unwrap());
    // From in front of the tensor, and from between two elements that are visited from 0 on; along the first dimension
    // boxes begin at multiples of 16 bytes.
    for at in [[4, -1, -1, 0], [0, 0, 1, 1], [0, 3, 2, 2]] {
        let visited = |place: &Vec<i32>| -> Vec<i32> {
            place.iter().zip(steps).zip(at).map(|((i, step), at)| i * step as i32 + at).collect()
        };
        let expected: Vec<f32> =
            places(&counts).iter().map(|place| index(&dims, &visited(place)).map_or(0.0, |at| values[at])).collect();
        let out = unit.zeros::<f32>(expected.len());
        let bytes = 4 * expected.len();
        let args = [&[map.arg(), out.arg(), n(4), n(bytes)][..], &coordinates(&at)].concat();
        unit.run_shared("unit_tma_load", 128, bytes, &args);
        assert_same(&format!("from {at:?}"), &out.read::<f32>(), &expected);
    }
    let refusal = TensorMap::tiled(&unit.gpu, &Tiled { element_strides: &[1, 9, 1, 1], ..tiled });
    assert!(refusal.unwrap_err().to_string().contains("element strides in 1..=8"));
}

#[test]
fn boxes_are_swizzled() {
    let Some(unit) = hopper_unit("boxes_are_swizzled") else { return };
    let rows = 16;
    for (swizzle, span, mask) in [(Swizzle::B32, 32, 1), (Swizzle::B64, 64, 3), (Swizzle::B128, 128, 7)] {
        let columns = span / 4;
        let dims = [columns as u64, rows as u64];
        let values = numbers(columns * rows);
        let x = unit.upload(&values);
        let map = upload_map(unit, &tiled(unit, &x, &dims, &[columns as u32, rows as u32], swizzle));
        let mut expected = vec![0.0; values.len()];
        for (at, &value) in values.iter().enumerate() {
            let byte = 4 * at;
            expected[(byte ^ ((byte >> 7) & mask) << 4) / 4] = value;
        }
        let out = unit.zeros::<f32>(values.len());
        let bytes = 4 * values.len();
        let args = [&[map.arg(), out.arg(), n(2), n(bytes)][..], &coordinates(&[0, 0])].concat();
        unit.run_shared("unit_tma_load", 128, bytes, &args);
        assert_same(&format!("{swizzle:?}"), &out.read::<f32>(), &expected);
    }
}

/// Pixels of a 3×3 (3, 3×3×3) convolution with padding 1, walked as the implicit matrix's rows.
#[test]
fn pixels_are_loaded_in_im2col_order() {
    let Some(unit) = hopper_unit("pixels_are_loaded_in_im2col_order") else { return };
    const CHANNELS: usize = 8;
    const PIXELS: u32 = 32;
    // Spatial extents fastest first, images last.
    for (spatial, images) in [(vec![13u64], 4u64), (vec![5, 4], 3), (vec![4, 3, 3], 2)] {
        let rank = spatial.len() + 2;
        let dims = [vec![CHANNELS as u64], spatial.clone(), vec![images]].concat();
        let values = numbers(dims.iter().product::<u64>() as usize);
        let x = unit.upload(&values);
        for stride in [1i32, 2] {
            let element_strides = [vec![1], vec![stride as u32; spatial.len()], vec![1]].concat();
            let corner = vec![-1; spatial.len()];
            let im2col = Im2col {
                data_type: TmaType::F32,
                address: x.address(),
                dims: &dims,
                strides_bytes: &strides(&dims),
                lower_corner: &corner,
                upper_corner: &corner,
                channels_per_pixel: CHANNELS as u32,
                pixels_per_column: PIXELS,
                element_strides: &element_strides,
                swizzle: Swizzle::None,
            };
            let map = upload_map(unit, &TensorMap::im2col(&unit.gpu, &im2col).unwrap());
            let outputs: Vec<u32> = spatial.iter().map(|&w| ((w as i32 - 1) / stride + 1) as u32).collect();
            let bases = places(&[outputs.clone(), vec![images as u32]].concat());
            for (first, tap) in [(0, [0, 0, 0]), (7, [2, 1, 0]), (3, [1, 2, 2])] {
                let base = |at: &[i32]| -> Vec<i32> {
                    at.iter().enumerate().map(|(i, &q)| if i < spatial.len() { q * stride - 1 } else { q }).collect()
                };
                let mut expected = Vec::new();
                for pixel in first..first + PIXELS as usize {
                    let place = bases.get(pixel).map(|at| {
                        let mut at = base(at);
                        for (at, tap) in at.iter_mut().zip(&tap[..spatial.len()]) {
                            *at += tap;
                        }
                        at
                    });
                    for channel in 0..CHANNELS as i32 {
                        let at =
                            place.as_ref().and_then(|place| index(&dims, &[vec![channel], place.clone()].concat()));
                        expected.push(at.map_or(0.0, |at| values[at]));
                    }
                }
                let out = unit.zeros::<f32>(expected.len());
                let bytes = 4 * expected.len();
                let at = [vec![0], base(&bases[first])].concat();
                let offsets = tap[0] | tap[1] << 8 | tap[2] << 16;
                let args = [&[map.arg(), out.arg(), n(rank), n(bytes)][..], &coordinates(&at), &[n(offsets)]].concat();
                unit.run_shared("unit_tma_im2col", 128, bytes, &args);
                let what = format!("{spatial:?} stride {stride} from pixel {first}, tap {tap:?}");
                assert_same(&what, &out.read::<f32>(), &expected);
            }
        }
    }
}

#[test]
fn boxes_are_stored_and_added() {
    let Some(unit) = hopper_unit("boxes_are_stored_and_added") else { return };
    for rank in 1..=5 {
        // A store that begins before the tensor is an illegal instruction, though a load may.
        let at = AT.map(|at| at.max(0));
        let (dims, box_dims, at) = (&DIMS[..rank], &BOX[..rank], &at[..rank]);
        let prior = numbers(dims.iter().product::<u64>() as usize);
        let boxed: Vec<f32> = numbers(box_dims.iter().product::<u32>() as usize).iter().map(|v| v * 1000.0).collect();
        let x = unit.upload(&boxed);
        for add in [0, 1] {
            let out = unit.upload(&prior);
            let map = upload_map(unit, &tiled(unit, &out, dims, box_dims, Swizzle::None));
            let mut expected = prior.clone();
            for (place, value) in places(box_dims).iter().zip(&boxed) {
                if let Some(at) = index(dims, &shifted(place, at)) {
                    expected[at] = value + if add == 1 { expected[at] } else { 0.0 };
                }
            }
            let bytes = 4 * boxed.len();
            // A fault ends the process's use of the GPU: this line then tells where.
            println!("rank {rank}, add {add}");
            let args = [&[map.arg(), x.arg(), n(rank), n(bytes), n(add)][..], &coordinates(at)].concat();
            unit.run_shared("unit_tma_store", 128, bytes, &args);
            assert_same(&format!("rank {rank}, add {add}"), &out.read::<f32>(), &expected);
        }
    }
}

#[test]
fn bytes_are_copied() {
    let Some(unit) = hopper_unit("bytes_are_copied") else { return };
    let values = numbers(1000);
    let (x, out, sums) = (unit.upload(&values), unit.zeros::<f32>(1000), unit.upload(&values));
    unit.run_shared("unit_tma_bytes", 128, 4000, &[x.arg(), out.arg(), sums.arg(), n(4000)]);
    assert_same("copied", &out.read::<f32>(), &values);
    let expected: Vec<f32> = values.iter().map(|v| 2.0 * v).collect();
    assert_same("added", &sums.read::<f32>(), &expected);
}

#[test]
fn boxes_reach_the_whole_cluster() {
    let Some(unit) = hopper_unit("boxes_reach_the_whole_cluster") else { return };
    let values = numbers(16 * 16);
    let (x, out) = (unit.upload(&values), unit.zeros::<f32>(2 * values.len()));
    let map = upload_map(unit, &tiled(unit, &x, &[16, 16], &[16, 8], Swizzle::None));
    let config = LaunchConfig {
        grid: [2, 1, 1],
        block: [128, 1, 1],
        shared_bytes: 1024,
        cluster: Some([2, 1, 1]),
        ..LaunchConfig::default()
    };
    unit.run_with("unit_tma_multicast", &config, &[map.arg(), out.arg(), n(512), n(8)]);
    assert_same("both blocks", &out.read::<f32>(), &values.repeat(2));
}

#[test]
fn maps_are_passed_by_value() {
    let Some(unit) = hopper_unit("maps_are_passed_by_value") else { return };
    let values = numbers(16 * 8);
    let (x, out) = (unit.upload(&values), unit.zeros::<f32>(values.len()));
    let map = tiled(unit, &x, &[16, 8], &[16, 8], Swizzle::None);
    unit.run_shared("unit_tma_parameter", 128, 512, &[KernelArg::Map(map), out.arg(), n(512)]);
    assert_same("loaded", &out.read::<f32>(), &values);
}

#[test]
fn places_vary_fastest_first() {
    assert_eq!(places(&[2, 2]), [[0, 0], [1, 0], [0, 1], [1, 1]]);
    assert_eq!((index(&[3, 2], &[1, 1]), index(&[3, 2], &[3, 0]), index(&[3, 2], &[0, -1])), (Some(4), None, None));
    assert_eq!(strides(&[8, 5, 3]), [32, 160]);
}
