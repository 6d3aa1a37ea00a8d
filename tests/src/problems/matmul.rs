//! Random matmul problems.

use super::tensors::{Layout, dtype, layout};
use kernel_abi::ops::matmul::{MatmulDesc, MatmulProblem};
use kernel_abi::{DType, TensorDesc};
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
            MatmulDesc { transpose_a, transpose_b, ..MatmulDesc::default() }
                .problem(&a, &b, &c)
                .expect("a random problem is legal")
        },
    )
}

/// Products of f32 and 16-bit elements around the edges of tiles: long and narrow, wide and low, long sums; rows packed, a
/// multiple of 16 bytes, or of any length.
pub fn tiled() -> impl Strategy<Value = MatmulProblem> {
    let dtype = prop::sample::select(&[DType::BF16, DType::F16, DType::F32][..]);
    let side = || {
        let edges = prop::sample::select(&[1i64, 8, 15, 16, 17, 32, 33, 63, 64, 65, 127, 128, 129, 192, 193, 257][..]);
        prop_oneof![3 => edges, 1 => 1i64..=300]
    };
    let depth = prop_oneof![
        2 => prop::sample::select(&[1i64, 7, 8, 63, 64, 65, 128, 200, 513, 1100][..]),
        1 => 1i64..=700,
    ];
    let batch = prop_oneof![3 => Just(vec![]), 1 => prop::collection::vec(1i64..=2, 1..=2)];
    let orders = (prop::bool::ANY, prop::bool::ANY, prop::bool::weighted(0.2));
    (dtype, batch, [side(), side()], depth, orders, [gap(), gap(), gap()]).prop_map(
        |(dtype, batch, [m, n], k, (transpose_a, transpose_b, c_by_columns), [a_gap, b_gap, c_gap])| {
            // Small enough for the reference.
            let k = k.min((MOST_PRODUCTS / (m * n)).max(1));
            let matrix = |transposed, rows, cols| if transposed { [cols, rows] } else { [rows, cols] };
            let a = rows_with_gap(dtype, &batch, matrix(transpose_a, m, k), a_gap);
            let b = rows_with_gap(dtype, &batch, matrix(transpose_b, k, n), b_gap);
            let c = if c_by_columns {
                let turned = rows_with_gap(dtype, &batch, [n, m], c_gap);
                let (mut dims, mut strides) = (turned.dims().to_vec(), turned.strides().to_vec());
                let last = dims.len() - 1;
                dims.swap(last - 1, last);
                strides.swap(last - 1, last);
                TensorDesc::strided(dtype, &dims, &strides).expect("an exchange keeps the size")
            } else {
                rows_with_gap(dtype, &batch, [m, n], c_gap)
            };
            MatmulDesc { transpose_a, transpose_b, ..MatmulDesc::default() }
                .problem(&a, &b, &c)
                .expect("a random problem is legal")
        },
    )
}

/// The most multiply-adds of a problem that every variant of every algorithm computes.
const MOST_PRODUCTS: i64 = 4 << 20;

/// What lies between the rows of a matrix.
#[derive(Clone, Copy, Debug)]
enum Gap {
    /// Nothing.
    None,
    /// What makes them a multiple of 16 bytes.
    Align,
    /// Some elements.
    Elems(i64),
}

fn gap() -> impl Strategy<Value = Gap> {
    prop_oneof![2 => Just(Gap::None), 3 => Just(Gap::Align), 1 => (1i64..=9).prop_map(Gap::Elems)]
}

/// Row-major matrices with gaps between their rows.
fn rows_with_gap(dtype: DType, batch: &[i64], [rows, cols]: [i64; 2], gap: Gap) -> TensorDesc {
    let pitch = match gap {
        Gap::None => cols,
        Gap::Align => (cols + 7) / 8 * 8,
        Gap::Elems(elems) => cols + elems,
    };
    let dims = [batch, &[rows, cols][..]].concat();
    let mut strides = vec![1; dims.len()];
    let mut stride = pitch;
    for i in (0..dims.len() - 1).rev() {
        strides[i] = stride;
        stride *= dims[i];
    }
    TensorDesc::strided(dtype, &dims, &strides).expect("random extents are legal")
}

/// The same tensor with a stride of 0 along the batch dimensions in `mask`.
fn repeated(desc: &TensorDesc, n_batch: usize, mask: u8) -> TensorDesc {
    let strides: Vec<i64> =
        (0..desc.rank()).map(|i| if i < n_batch && mask >> i & 1 == 1 { 0 } else { desc.strides()[i] }).collect();
    TensorDesc::strided(desc.dtype(), desc.dims(), &strides).expect("smaller strides are legal")
}
