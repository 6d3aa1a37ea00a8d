//! Random gatherings of rows.

use super::tensors::{any_dtype, dims, layout};
use kernel_abi::ops::gather::{GatherPass, GatherProblem};
use kernel_abi::{DType, TensorDesc};
use proptest::prelude::*;

/// Any gathering: small ones of every kind, and long rows.
pub fn any() -> impl Strategy<Value = GatherProblem> {
    prop_oneof![2 => small(), 1 => long_rows()]
}

/// Up to four dimensions, any layout and type; some indices are equal.
fn small() -> impl Strategy<Value = GatherProblem> {
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

/// Rows that lie together, of a matrix or around another dimension, many or few, with up to thousands of indices.
fn long_rows() -> impl Strategy<Value = GatherProblem> {
    let words = (prop::sample::select(GatherPass::ALL), any_dtype(), prop::bool::ANY, 1i64..3);
    let row = prop_oneof![(1i64..40).prop_map(|n| 8 * n), 1i64..100, Just(2056)];
    let counts =
        prop_oneof![4 => (1i64..300, 1i64..60), 1 => (1i64..4, 1000i64..6000), 1 => (33i64..70, 1000i64..2200)];
    let gap = prop::sample::select(&[0i64, 0, 8, 1][..]);
    (words, row, counts, gap).prop_map(|((pass, dtype, long, outer), row, (rows, n), gap)| {
        let row = if n > 1000 { row.min(16) } else { row };
        let lie = |count: i64| {
            let stride = row + gap;
            TensorDesc::strided(dtype, &[outer, count, row], &[count * stride, stride, 1]).expect("rows are legal")
        };
        let (x, y) = (lie(rows), lie(n));
        let indices = TensorDesc::packed(if long { DType::I64 } else { DType::I32 }, &[n]).expect("a row is legal");
        match pass {
            GatherPass::Forward => GatherProblem::forward(1, &x, &indices, &y),
            GatherPass::Backward => GatherProblem::backward(1, &indices, &y, &x),
        }
        .expect("a random problem is legal")
    })
}
