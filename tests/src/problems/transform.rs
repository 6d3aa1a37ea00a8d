//! Random transforms.

use super::tensors::{dims, dtype, layout};
use kernel_abi::ops::transform::TransformProblem;
use proptest::prelude::*;

/// Any transform; often between equal types and layouts, as a copy is.
pub fn any() -> impl Strategy<Value = TransformProblem> {
    let copy = (dtype(), dims(4, 40_000), layout()).prop_map(|(dtype, dims, layout)| {
        let x = layout.apply(dtype, &dims);
        TransformProblem::new(&x, &x).expect("a random problem is legal")
    });
    let long = (dtype(), 1i64..70_000).prop_map(|(dtype, n)| {
        let x = kernel_abi::TensorDesc::packed(dtype, &[n]).expect("a row is legal");
        TransformProblem::new(&x, &x).expect("a random problem is legal")
    });
    let change = ([dtype(), dtype()], dims(5, 3000), [layout(), layout()]).prop_map(|(dtypes, dims, layouts)| {
        let [x, y] = [0, 1].map(|i| layouts[i].apply(dtypes[i], &dims));
        TransformProblem::new(&x, &y).expect("a random problem is legal")
    });
    prop_oneof![1 => copy, 1 => long, 3 => change]
}
