//! Random softmaxes.

use super::tensors::{Layout, dims, dtype, layout};
use kernel_abi::DType;
use kernel_abi::ops::softmax::{SoftmaxKind, SoftmaxMode, SoftmaxPass, SoftmaxProblem};
use proptest::prelude::*;

/// Any softmax.
pub fn any() -> impl Strategy<Value = SoftmaxProblem> {
    let words = (
        prop::sample::select(SoftmaxKind::ALL),
        prop::sample::select(SoftmaxMode::ALL),
        prop::sample::select(SoftmaxPass::ALL),
        dtype(),
    );
    // Rows of up to a few hundred elements, so that a warp goes round several times.
    let extents = prop_oneof![
        3 => dims(6, 3000).prop_map(|mut dims| {
            dims.insert(0, 2);
            dims
        }),
        1 => (1i64..4, 1i64..400).prop_map(|(n, c)| vec![n, c]),
    ];
    (words, extents, [layout(), layout(), layout()]).prop_map(|((kind, mode, pass, dtype), dims, layouts)| {
        let [input, dy, out] = layouts.map(|layout| layout.apply(dtype, &dims));
        match pass {
            SoftmaxPass::Forward => SoftmaxProblem::forward(kind, mode, &input, &out),
            SoftmaxPass::Backward => SoftmaxProblem::backward(kind, mode, &input, &dy, &out),
        }
        .expect("a random problem is legal")
    })
}

/// Softmaxes that tuned kernels are made for: rows of contiguous elements of any length, and rows side by side.
pub fn tuned() -> impl Strategy<Value = SoftmaxProblem> {
    let words = (
        prop::sample::select(SoftmaxKind::ALL),
        prop::sample::select(SoftmaxPass::ALL),
        prop::sample::select(&[DType::F32, DType::F16, DType::BF16][..]),
    );
    let extents = prop_oneof![
        3 => (1i64..300, 1i64..140).prop_map(|(n, c)| vec![n, c]),
        2 => (1i64..20, 100i64..1100).prop_map(|(n, c)| vec![n, c]),
        2 => (1i64..4, prop_oneof![1000i64..9000, 9000i64..33_000]).prop_map(|(n, c)| vec![n, c]),
        1 => (1i64..3, 30_000i64..70_000).prop_map(|(n, c)| vec![n, c]),
        // So many rows that blocks go on to others.
        1 => (1i64..50, 256i64..520).prop_map(|(n, c)| vec![n, 8 * c]),
        1 => (1i64..14, 520i64..2049).prop_map(|(n, c)| vec![n, 8 * c]),
        // The same of rows that a warp has.
        1 => (6000i64..9000, 17i64..34).prop_map(|(n, c)| vec![n, 8 * c]),
        // Of which it has two at a time.
        1 => (3000i64..6000, 33i64..65).prop_map(|(n, c)| vec![n, 8 * c]),
        1 => (1500i64..4000, 65i64..257).prop_map(|(n, c)| vec![n, 8 * c]),
        // Of whole pieces, for clusters of any size.
        1 => (1i64..4, 2048i64..17_000).prop_map(|(n, c)| vec![n, 8 * c]),
        // So many long ones that a cluster has several.
        1 => (133i64..180, 4096i64..8500).prop_map(|(n, c)| vec![n, c]),
        1 => (15i64..18, 40_000i64..110_000).prop_map(|(n, c)| vec![n, c]),
        3 => (1i64..4, 1i64..80, 1i64..100).prop_map(|(n, c, inner)| vec![n, c, inner]),
        // Few channels of an image.
        2 => (1i64..4, 1i64..26, 1i64..400).prop_map(|(n, c, inner)| vec![n, c, 2 * inner]),
        // Rows of 16 bytes, side by side or one behind the other.
        2 => (1i64..4, 1i64..12, 1i64..12).prop_map(|(n, c, inner)| vec![n, 8 * c, 8 * inner]),
    ];
    let layout = prop_oneof![Just(Layout::Packed), Just(Layout::ChannelsLast)];
    (words, extents, layout).prop_map(|((kind, pass, dtype), dims, layout)| {
        let desc = layout.apply(dtype, &dims);
        match pass {
            SoftmaxPass::Forward => SoftmaxProblem::forward(kind, SoftmaxMode::Channel, &desc, &desc),
            SoftmaxPass::Backward => SoftmaxProblem::backward(kind, SoftmaxMode::Channel, &desc, &desc, &desc),
        }
        .expect("a random problem is legal")
    })
}
