//! Random cross-entropies.

use super::tensors::{Layout, dims, dtype, layout};
use kernel_abi::ops::crossentropy::{
    CrossEntropyDesc, CrossEntropyInput, CrossEntropyPass, CrossEntropyProblem, LossReduction,
};
use kernel_abi::{DType, TensorDesc};
use proptest::prelude::*;

/// Any cross-entropy.
pub fn any() -> impl Strategy<Value = CrossEntropyProblem> {
    let extents = prop_oneof![
        2 => dims(5, 2000).prop_map(|mut dims| {
            dims.insert(0, 2);
            dims
        }),
        1 => (1i64..6, 1i64..400).prop_map(|(n, c)| vec![n, c]),
    ];
    of(extents, dtype(), [layout(), layout(), layout(), layout()])
}

/// Rows of contiguous classes, of any number and any distance: below, at and beyond what tuned kernels take at a time.
pub fn rows() -> impl Strategy<Value = CrossEntropyProblem> {
    let dtypes = prop_oneof![3 => prop::sample::select(&[DType::F32, DType::F16, DType::BF16][..]), 1 => dtype()];
    let extents = prop_oneof![
        4 => (1i64..40, 1i64..700).prop_map(|(n, c)| vec![n, c]),
        3 => (1i64..5, 700i64..9000).prop_map(|(n, c)| vec![n, c]),
        1 => (1i64..3, 9000i64..50_000).prop_map(|(n, c)| vec![n, c]),
        1 => (1500i64..3000, 1i64..12).prop_map(|(n, c)| vec![n, c]),
        1 => (1i64..3, 1i64..30, 1i64..200).prop_map(|(n, c, inner)| vec![n, c, inner]),
    ];
    of(extents, dtypes, [pitched(), pitched(), pitched(), pitched()])
}

/// As the sums of the losses that [`rows`] have, but such that every number is an integer.
pub fn integers() -> impl Strategy<Value = CrossEntropyProblem> {
    rows().prop_map(|problem| {
        // Sums need more bits than 16-bit types have.
        let (loss, sums) = (problem.loss(), problem.x().dtype().accumulator());
        let wide = TensorDesc::strided(sums, loss.dims(), loss.strides()).expect("a loss of another type is legal");
        let text = problem.to_string().replace(&format!("loss={loss} "), &format!("loss={wide} "));
        let text = text.strip_suffix(&format!("loss={loss}")).map_or(text.clone(), |rest| format!("{rest}loss={wide}"));
        let words = text.split(' ').filter(|word| !word.starts_with("lse=") && !word.starts_with("total="));
        let integer = |word: &str| match word.split_once('=') {
            Some(("input", _)) => "input=log_probs".to_owned(),
            Some(("reduction", "mean")) => "reduction=sum".to_owned(),
            Some(("smoothing", _)) => "smoothing=0".to_owned(),
            _ => word.to_owned(),
        };
        words.map(integer).collect::<Vec<_>>().join(" ").parse().expect("a problem of integers is legal")
    })
}

/// Classes next to each other, and up to 9 elements between rows.
fn pitched() -> impl Strategy<Value = Layout> {
    prop_oneof![
        1 => Just(Layout::Packed),
        1 => (0i64..10).prop_map(|gap| Layout::Gaps(vec![(1, 0), (0, gap), (2, 0)])),
    ]
}

fn of(
    extents: impl Strategy<Value = Vec<i64>>,
    dtype: impl Strategy<Value = DType>,
    layouts: [impl Strategy<Value = Layout>; 4],
) -> impl Strategy<Value = CrossEntropyProblem> {
    let words = (
        prop::sample::select(CrossEntropyPass::ALL),
        prop::sample::select(CrossEntropyInput::ALL),
        prop::sample::select(LossReduction::ALL),
        prop::sample::select(&[0.0, 0.0, 0.25, 1.0][..]),
        prop::option::of(-1i64..4),
    );
    let targets = prop::sample::select(&[Some(DType::I32), Some(DType::I64), None][..]);
    let types = (dtype, either(), prop::option::of(either()));
    (words, targets, types, extents, layouts).prop_map(
        |((pass, input, reduction, smoothing, ignored), target, (dtype, loss, weight), dims, layouts)| {
            let mut desc = CrossEntropyDesc::new().input(input).reduction(reduction).label_smoothing(smoothing);
            if let (Some(class), Some(_)) = (ignored, target) {
                desc = desc.ignore_index(class);
            }
            let positions = [&dims[..1], &dims[2..]].concat();
            let sums = dtype.accumulator();
            let one = |dtype| TensorDesc::packed(dtype, &[1]).expect("one number is legal");
            let x = layouts[0].apply(dtype, &dims);
            let target_desc = match target {
                Some(class) => layouts[1].apply(class, &positions),
                None => layouts[1].apply(dtype, &dims),
            };
            let weight =
                weight.map(|of| TensorDesc::strided(of(dtype), &[dims[1]], &[2]).expect("a stride of 2 is legal"));
            let loss = loss(dtype);
            let loss = if reduction == LossReduction::None { layouts[2].apply(loss, &positions) } else { one(loss) };
            let lse = (input == CrossEntropyInput::Logits).then(|| layouts[3].apply(sums, &positions));
            let total = (reduction == LossReduction::Mean && target.is_some()).then(|| one(sums));
            let (weight, lse, total) = (weight.as_ref(), lse.as_ref(), total.as_ref());
            match pass {
                CrossEntropyPass::Forward => {
                    CrossEntropyProblem::forward(desc, &x, &target_desc, weight, &loss, lse, total)
                }
                CrossEntropyPass::Backward => {
                    let dx = layouts[3].apply(dtype, &dims);
                    CrossEntropyProblem::backward(desc, &x, &target_desc, weight, lse, total, &loss, &dx)
                }
            }
            .expect("a random problem is legal")
        },
    )
}

/// A type itself, or its accumulator's.
pub(super) fn either() -> impl Strategy<Value = fn(DType) -> DType> {
    prop::sample::select(&[(|dtype| dtype) as fn(DType) -> DType, DType::accumulator][..])
}
