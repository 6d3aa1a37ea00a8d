//! Random transforms.

use super::tensors::{Layout, any_dtype, dims, layout};
use kernel_abi::ops::transform::TransformProblem;
use kernel_abi::{DType, TensorDesc};
use proptest::prelude::*;

/// Any transform; often between equal types and layouts, as a copy is, or from channels first to last or back.
pub fn any() -> impl Strategy<Value = TransformProblem> {
    let copy = (any_dtype(), dims(4, 40_000), layout()).prop_map(|(dtype, dims, layout)| {
        let x = layout.apply(dtype, &dims);
        TransformProblem::new(&x, &x).expect("a random problem is legal")
    });
    let long = (any_dtype(), 1i64..70_000).prop_map(|(dtype, n)| {
        let x = TensorDesc::packed(dtype, &[n]).expect("a row is legal");
        TransformProblem::new(&x, &x).expect("a random problem is legal")
    });
    let types = prop::sample::select(&[DType::F16, DType::BF16, DType::F32, DType::I32][..]);
    let transpose = (types, 1i64..=3, 1i64..=140, 1i64..=290, prop::bool::ANY).prop_map(|(dtype, n, c, w, back)| {
        let dims = [if c * w > 9000 { 1 } else { n }, c, w];
        let [x, y] = [TensorDesc::packed(dtype, &dims), TensorDesc::channels_last(dtype, &dims)];
        let (x, y) = (x.expect("small extents are legal"), y.expect("small extents are legal"));
        let (x, y) = if back { (y, x) } else { (x, y) };
        TransformProblem::new(&x, &y).expect("a random problem is legal")
    });
    let permuted =
        (any_dtype(), prop::collection::vec(2i64..45, 2..=4), layout()).prop_map(|(dtype, mut dims, layout)| {
            while dims.iter().product::<i64>() > 20_000 {
                dims.iter_mut().for_each(|dim| *dim = (*dim + 1) / 2);
            }
            let x = TensorDesc::packed(dtype, &dims).expect("small extents are legal");
            let reversed: Vec<i64> = dims.iter().rev().copied().collect();
            // Dimensions in the opposite order, or in any with gaps.
            let y = TensorDesc::packed(dtype, &reversed).expect("small extents are legal");
            let strides: Vec<i64> = y.strides().iter().rev().copied().collect();
            let y = if matches!(layout, Layout::Gaps(_)) {
                layout.apply(dtype, &dims)
            } else {
                TensorDesc::strided(dtype, &dims, &strides).expect("small extents are legal")
            };
            TransformProblem::new(&x, &y).expect("a random problem is legal")
        });
    let change =
        ([any_dtype(), any_dtype()], dims(5, 3000), [layout(), layout()]).prop_map(|(dtypes, dims, layouts)| {
            let [x, y] = [0, 1].map(|i| layouts[i].apply(dtypes[i], &dims));
            TransformProblem::new(&x, &y).expect("a random problem is legal")
        });
    let casts =
        &[[DType::F32, DType::F16], [DType::F32, DType::BF16], [DType::F16, DType::F32], [DType::BF16, DType::F32]];
    let cast = (prop::sample::select(&casts[..]), 1i64..5000).prop_map(|([from, to], n)| {
        let [x, y] = [from, to].map(|dtype| TensorDesc::packed(dtype, &[n]).expect("a row is legal"));
        TransformProblem::new(&x, &y).expect("a random problem is legal")
    });
    prop_oneof![1 => copy, 1 => long, 1 => cast, 2 => transpose, 2 => permuted, 3 => change]
}
