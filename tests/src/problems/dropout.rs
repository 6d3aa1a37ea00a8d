//! Random dropouts.

use super::tensors::{Layout, dims, dtype, layout};
use kernel_abi::ops::dropout::{DropoutDesc, DropoutOrder, DropoutPass, DropoutProblem};
use proptest::prelude::*;

/// Any dropout.
pub fn any() -> impl Strategy<Value = DropoutProblem> {
    of(dims(5, 3000), [layout(), layout()])
}

/// Tensors that lie as their elements are counted.
pub fn dense() -> impl Strategy<Value = DropoutProblem> {
    let extents = prop_oneof![
        (1i64..20_000).prop_map(|n| vec![n]),
        (1i64..5, -9i64..10).prop_map(|(blocks, more)| vec![(2048 * blocks + more).max(1)]),
        (1i64..4, 1i64..40, 1i64..80).prop_map(|(n, c, inner)| vec![n, c, inner]),
    ];
    let alike = prop_oneof![Just(Layout::Packed), Just(Layout::ChannelsLast)];
    alike.prop_flat_map(move |layout| of(extents.clone(), [Just(layout.clone()), Just(layout)]))
}

fn of(
    extents: impl Strategy<Value = Vec<i64>>,
    layouts: [impl Strategy<Value = Layout>; 2],
) -> impl Strategy<Value = DropoutProblem> {
    let words = (
        prop::sample::select(DropoutPass::ALL),
        prop::sample::select(DropoutOrder::ALL),
        prop::sample::select(&[0.0, 0.1, 0.5, 0.9, 1.0][..]),
        proptest::bool::ANY,
        proptest::bool::ANY,
    );
    (words, dtype(), extents, layouts).prop_map(|((pass, order, p, mask, next), dtype, dims, layouts)| {
        let order = if dims.len() < 2 { DropoutOrder::RowMajor } else { order };
        let desc = DropoutDesc::new(p).order(order);
        let [input, out] = layouts.map(|layout| layout.apply(dtype, &dims));
        match pass {
            DropoutPass::Forward => DropoutProblem::forward(desc, &input, &out, mask, next),
            DropoutPass::Backward => DropoutProblem::backward(desc, &input, &out, mask),
        }
        .expect("a random problem is legal")
    })
}
