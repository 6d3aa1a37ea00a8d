//! Random matmul problems.

use super::tensors::{Layout, dtype, layout};
use kernel_abi::TensorDesc;
use kernel_abi::ops::matmul::{MatmulDesc, MatmulProblem};
use proptest::prelude::*;

/// Any matmul: tails, single rows, batches that repeat, any strides.
pub fn any() -> impl Strategy<Value = MatmulProblem> {
    let extent = || prop_oneof![3 => 1i64..=24, 1 => prop::sample::select(&[1i64, 31, 37, 64, 67][..])];
    let batch = prop::collection::vec(1i64..=3, 0..=3);
    let transposes = (prop::bool::ANY, prop::bool::ANY);
    // Which batch dimensions a and b repeat along, as bits.
    let repeats = (0u8..8, 0u8..8, prop::bool::ANY);
    (dtype(), batch, [extent(), extent(), extent()], transposes, repeats, [layout(), layout(), layout()]).prop_map(
        |(dtype, batch, [m, n, k], (transpose_a, transpose_b), (repeat_a, repeat_b, repeats), layouts)| {
            let [a_layout, b_layout, c_layout] = layouts;
            let matrix = |transposed, rows, cols| if transposed { [cols, rows] } else { [rows, cols] };
            let input = |layout: Layout, matrix: [i64; 2], mask: u8| {
                let dims = [&batch[..], &matrix[..]].concat();
                let desc = layout.apply(dtype, &dims);
                if repeats { repeated(&desc, batch.len(), mask) } else { desc }
            };
            let a = input(a_layout, matrix(transpose_a, m, k), repeat_a);
            let b = input(b_layout, matrix(transpose_b, k, n), repeat_b);
            let c = c_layout.apply(dtype, &[&batch[..], &[m, n][..]].concat());
            MatmulDesc { transpose_a, transpose_b }.problem(&a, &b, &c).expect("a random problem is legal")
        },
    )
}

/// The same tensor with a stride of 0 along the batch dimensions in `mask`.
fn repeated(desc: &TensorDesc, n_batch: usize, mask: u8) -> TensorDesc {
    let strides: Vec<i64> =
        (0..desc.rank()).map(|i| if i < n_batch && mask >> i & 1 == 1 { 0 } else { desc.strides()[i] }).collect();
    TensorDesc::strided(desc.dtype(), desc.dims(), &strides).expect("smaller strides are legal")
}
