//! Random local response normalizations.

use super::tensors::{dims, dtype, layout};
use kernel_abi::ops::lrn::{LrnDesc, LrnPass, LrnProblem, LrnRegion};
use proptest::prelude::*;

/// Any local response normalization.
pub fn any() -> impl Strategy<Value = LrnProblem> {
    let words = (
        prop::sample::select(LrnPass::ALL),
        prop::sample::select(LrnRegion::ALL),
        1i64..8,
        prop::sample::select(&[0.0, 1e-4, 0.5, 2.0][..]),
        prop::sample::select(&[0.0, 0.5, 0.75, 1.0][..]),
        prop::sample::select(&[0.5, 1.0, 2.0][..]),
    );
    let extents = (1i64..20, dims(3, 300)).prop_map(|(channels, mut dims)| {
        dims.splice(0..0, [2, channels]);
        dims
    });
    let layouts = prop::collection::vec(layout(), 5);
    (words, extents, dtype(), layouts, proptest::arbitrary::any::<[bool; 2]>()).prop_map(
        |(words, dims, dtype, layouts, flags)| {
            let (pass, region, n, alpha, beta, k) = words;
            let desc = LrnDesc::new(region).window(n).alpha(alpha).beta(beta).k(k);
            let tensor = |i: usize| layouts[i].apply(dtype, &dims);
            let means = flags[0].then(|| tensor(1));
            let dmeans = (flags[0] && flags[1]).then(|| tensor(4));
            match pass {
                LrnPass::Forward => LrnProblem::forward(&desc, &tensor(0), means.as_ref(), &tensor(2)),
                LrnPass::Backward => {
                    LrnProblem::backward(&desc, &tensor(0), means.as_ref(), &tensor(2), &tensor(3), dmeans.as_ref())
                }
            }
            .expect("a random problem is legal")
        },
    )
}
