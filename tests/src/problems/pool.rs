//! Random poolings.

use super::tensors::{dtype, layout};
use kernel_abi::ops::pool::{PoolDesc, PoolMode, PoolPass, PoolProblem};
use proptest::prelude::*;

/// An axis: image, window, padding, padding at the end, stride.
fn axis() -> impl Strategy<Value = [i64; 5]> {
    (1i64..=11, 1i64..=5, 0i64..=4, 0i64..=4, 1i64..=4)
        .prop_map(|(image, window, padding, padding_end, stride)| {
            let (padding, padding_end) = (padding.min(window - 1), padding_end.min(window - 1));
            [image, window.min(image + padding + padding_end), padding, padding_end, stride]
        })
        .prop_map(|[image, window, padding, padding_end, stride]| {
            [image, window, padding.min(window - 1), padding_end.min(window - 1), stride]
        })
        .prop_filter("the window fits", |[image, window, padding, padding_end, _]| {
            *window <= image + padding + padding_end
        })
}

/// Any pooling.
pub fn any() -> impl Strategy<Value = PoolProblem> {
    let words = (prop::sample::select(PoolMode::ALL), prop::sample::select(PoolPass::ALL), dtype());
    let channels = (1i64..=3, 1i64..=7);
    (words, channels, prop::collection::vec(axis(), 1..=3), [layout(), layout(), layout()]).prop_map(
        |((mode, pass, dtype), (n, c), axes, layouts)| {
            let column = |i: usize| axes.iter().map(|axis| axis[i]).collect::<Vec<_>>();
            let desc = PoolDesc::new(mode, &column(1)).padding(&column(2)).padding_end(&column(3)).stride(&column(4));
            let dims = [n, c].into_iter().chain(column(0)).collect::<Vec<_>>();
            let x = layouts[0].apply(dtype, &dims);
            let y = layouts[1].apply(dtype, &desc.output_dims(&x).expect("random axes are legal"));
            match pass {
                PoolPass::Forward => PoolProblem::forward(&desc, &x, &y),
                PoolPass::Backward => PoolProblem::backward(&desc, &x, &y, &layouts[2].apply(dtype, &dims)),
            }
            .expect("a random problem is legal")
        },
    )
}
