//! Random losses of sequences.

use super::crossentropy::either;
use super::tensors::{dtype, layout};
use kernel_abi::ops::crossentropy::{CrossEntropyInput, LossReduction};
use kernel_abi::ops::ctc::{CtcDesc, CtcPass, CtcProblem};
use kernel_abi::{DType, TensorDesc};
use proptest::prelude::*;

/// Any ctc loss. About half of the sequences are long enough for their labels.
pub fn any() -> impl Strategy<Value = CtcProblem> {
    let words = (
        prop::sample::select(CtcPass::ALL),
        prop::sample::select(CrossEntropyInput::ALL),
        prop::sample::select(LossReduction::ALL),
        proptest::bool::ANY,
    );
    let index = || prop::sample::select(&[DType::I32, DType::I64][..]);
    let extents = (1i64..16, 1i64..6, 2i64..50, 1i64..7, 0i64..50);
    (words, (dtype(), either()), [index(), index(), index()], extents, [layout(), layout(), layout()]).prop_map(
        |((pass, input, reduction, zero), (dtype, loss), indices, (t, n, c, s, blank), layouts)| {
            let desc = CtcDesc::new().input(input).reduction(reduction).zero_infinity(zero).blank(blank % c);
            let x = layouts[0].apply(dtype, &[t, n, c]);
            let target = layouts[1].apply(indices[0], &[n, s]);
            let lengths =
                [1, 2].map(|i: usize| TensorDesc::strided(indices[i], &[n], &[i as i64]).expect("a stride is legal"));
            let losses = if reduction == LossReduction::None { n } else { 1 };
            let loss = TensorDesc::strided(loss(dtype), &[losses], &[3]).expect("a stride is legal");
            match pass {
                CtcPass::Forward => CtcProblem::forward(desc, &x, &target, &lengths[0], &lengths[1], &loss),
                CtcPass::Backward => {
                    let dx = layouts[2].apply(dtype, &[t, n, c]);
                    CtcProblem::backward(desc, &x, &target, &lengths[0], &lengths[1], &loss, &dx)
                }
            }
            .expect("a random problem is legal")
        },
    )
}
