//! Random gatherings of rows.

use super::tensors::{any_dtype, dims, layout};
use kernel_abi::ops::gather::{GatherPass, GatherProblem};
use kernel_abi::{DType, TensorDesc};
use proptest::prelude::*;

/// Any gathering; with the values of normal fills, many indices are equal, and some are outside.
pub fn any() -> impl Strategy<Value = GatherProblem> {
    let words = (prop::sample::select(GatherPass::ALL), any_dtype(), 0usize..4, prop::bool::ANY);
    let indices = (1i64..40, 1i64..3);
    (words, indices, dims(4, 1000), [layout(), layout()]).prop_map(
        |((pass, dtype, axis, long), (n, stride), x_dims, layouts)| {
            let axis = axis % x_dims.len();
            let mut y_dims = x_dims.clone();
            y_dims[axis] = n;
            let (x, y) = (layouts[0].apply(dtype, &x_dims), layouts[1].apply(dtype, &y_dims));
            let dtype = if long { DType::I64 } else { DType::I32 };
            let indices = TensorDesc::strided(dtype, &[n], &[stride]).expect("a row is legal");
            match pass {
                GatherPass::Forward => GatherProblem::forward(axis, &x, &indices, &y),
                GatherPass::Backward => GatherProblem::backward(axis, &indices, &y, &x),
            }
            .expect("a random problem is legal")
        },
    )
}
