//! Random reductions.

use super::tensors::{Layout, any_dtype, dims, dtype, layout};
use kernel_abi::ops::reduce::{ReducePass, ReduceProblem};
use kernel_abi::{DType, TensorDesc};
use proptest::prelude::*;

/// Any reduction, over any dimensions; of half of those that have indices, also these.
pub fn any() -> impl Strategy<Value = ReduceProblem> {
    prop_oneof![3 => of_any_dims(), 2 => runs()]
}

/// Contiguous rows, whole or around others, and columns, of lengths that are seldom multiples of anything.
fn runs() -> impl Strategy<Value = ReduceProblem> {
    let dtype = prop::sample::select(&DType::GENERAL[..]);
    let length = prop_oneof![2 => 2i64..60, 2 => 60i64..1500, 1 => (1i64..40).prop_map(|n| 8 * n)];
    let words = (prop::sample::select(ReducePass::ALL), dtype, prop::option::of(prop::bool::ANY));
    (words, 1i64..7, 1i64..40, length, 0usize..4).prop_map(|((pass, dtype, indices), n, c, w, kept)| {
        let c = c.min(20_000 / (n * w)).max(1);
        let y_dims = [[n, c, 1], [1, c, 1], [n, 1, w], [1, 1, 1]][kept];
        let packed = |dtype, dims: &[i64]| TensorDesc::packed(dtype, dims).expect("small extents are legal");
        let problem = ReduceProblem::new(pass, &packed(dtype, &[n, c, w]), &packed(dtype, &y_dims));
        let problem = problem.expect("a random problem is legal");
        match indices.filter(|_| pass.has_indices()) {
            Some(long) => {
                let desc = packed(if long { DType::I64 } else { DType::I32 }, &y_dims);
                problem.with_indices(&desc).expect("a random problem is legal")
            }
            None => problem,
        }
    })
}

/// Over any dimensions, in any layout.
fn of_any_dims() -> impl Strategy<Value = ReduceProblem> {
    let reduced = prop::collection::vec(prop::bool::ANY, 8);
    let dtypes = prop_oneof![3 => dtype().prop_map(|dtype| [dtype; 2]), 1 => [any_dtype(), any_dtype()]];
    let extents = prop_oneof![
        3 => dims(5, 3000),
        // Long rows and columns, so that there are several vectors, and parts.
        1 => (1i64..4, 1i64..2500).prop_map(|(n, c)| vec![n, c]),
        1 => (1i64..3, 1i64..700, 1i64..9).prop_map(|(n, c, eights)| vec![n, c, 8 * eights]),
        1 => (1i64..3, 1i64..9, 1i64..9, 1i64..40).prop_map(|(n, c, h, w)| vec![n, 8 * c, h, w]),
    ];
    let words = (prop::sample::select(ReducePass::ALL), dtypes, prop::option::of(prop::bool::ANY));
    (words, extents, reduced, [layout(), layout(), layout()]).prop_map(
        |((pass, dtypes, indices), dims, reduced, layouts)| {
            let y_dims: Vec<i64> = dims.iter().zip(&reduced).map(|(&dim, &gone)| if gone { 1 } else { dim }).collect();
            let [x, y] = [layouts[0].apply(dtypes[0], &dims), layouts[1].apply(dtypes[1], &y_dims)];
            let problem = ReduceProblem::new(pass, &x, &y).expect("a random problem is legal");
            match indices.filter(|_| pass.has_indices()) {
                Some(long) => {
                    let desc = layouts[2].apply(if long { DType::I64 } else { DType::I32 }, &y_dims);
                    problem.with_indices(&desc).expect("a random problem is legal")
                }
                None => problem,
            }
        },
    )
}

/// Extents of networks, cut down: over rows, over columns, over all, over what lies around channels.
pub fn named() -> Vec<ReduceProblem> {
    let packed = |dims: &[i64], dtype| TensorDesc::packed(dtype, dims).expect("small extents are legal");
    let mut problems = Vec::new();
    for dtype in DType::GENERAL {
        for (dims, y_dims) in [
            (vec![3, 20_000], vec![3, 1]),
            (vec![1, 70_001], vec![1, 1]),
            (vec![5000, 24], vec![1, 24]),
            (vec![3001, 7], vec![1, 7]),
            (vec![40, 96, 33], vec![1, 96, 1]),
            (vec![4, 300, 64], vec![4, 1, 64]),
            (vec![2000, 3], vec![2000, 1]),
            // Runs that begin alike, in parts.
            (vec![1100, 8, 49], vec![1, 8, 1]),
            // Rounded up, 67 parts of 65 rows are more than there are.
            (vec![4289, 128], vec![1, 128]),
        ] {
            let (x, y) = (packed(&dims, dtype), packed(&y_dims, dtype));
            for pass in [ReducePass::Add, ReducePass::Max, ReducePass::Norm2] {
                problems.push(ReduceProblem::new(pass, &x, &y).expect("the extents fit"));
            }
        }
        // A block a row, and some threads of a warp.
        for dims in [[3, 9001], [70, 49]] {
            let (x, y) = (packed(&dims, dtype), packed(&[dims[0], 1], dtype));
            let problem = |pass| ReduceProblem::new(pass, &x, &y).expect("the extents fit");
            problems.push(problem(ReducePass::LogSumExp));
            problems
                .push(problem(ReducePass::Min).with_indices(&packed(&[dims[0], 1], DType::I64)).expect("they have"));
        }
        let x = Layout::ChannelsLast.apply(dtype, &[4, 48, 13, 11]);
        problems
            .push(ReduceProblem::new(ReducePass::Avg, &x, &packed(&[4, 48, 1, 1], dtype)).expect("the extents fit"));
        problems
            .push(ReduceProblem::new(ReducePass::Add, &x, &packed(&[1, 48, 1, 1], dtype)).expect("the extents fit"));
    }
    problems
}
