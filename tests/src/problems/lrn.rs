//! Random local response normalizations.

use super::tensors::{Layout, dims, dtype, layout};
use kernel_abi::DType;
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

/// Windows across channels that tuned kernels are made for, and neighbours of theirs: positions and channels of any number
/// and of whole vectors, with and without gaps.
pub fn across() -> impl Strategy<Value = LrnProblem> {
    let words = (
        prop::sample::select(LrnPass::ALL),
        prop::sample::select(&[3i64, 3, 5, 5, 4][..]),
        prop::sample::select(&[1e-4, 0.5, 2.0][..]),
        prop::sample::select(&[0.5, 0.75, 1.0][..]),
        prop::sample::select(&[DType::F32, DType::F16, DType::BF16][..]),
    );
    let channels = prop_oneof![1 => 1i64..30, 3 => (1i64..9).prop_map(|c| 8 * c), 1 => 60i64..140];
    let plane = prop_oneof![1 => (1i64..12, 1i64..12), 2 => (1i64..10, 1i64..5).prop_map(|(h, w)| (h, 8 * w))];
    let layouts = prop_oneof![
        2 => Just(Layout::Packed),
        2 => Just(Layout::ChannelsLast),
        // Channels, then positions, with gaps between them; or positions within channels.
        1 => prop::sample::select(&[0i64, 1, 8][..]).prop_map(|gap| Layout::Gaps(vec![(3, 0), (0, gap), (2, 0), (1, 0)])),
        1 => prop::sample::select(&[0i64, 1, 8][..]).prop_map(|gap| Layout::Gaps(vec![(3, 0), (2, 0), (1, gap), (0, 0)])),
    ];
    (words, 1i64..4, channels, plane, layouts, layout(), proptest::bool::weighted(0.2)).prop_map(
        |((pass, n, alpha, beta, dtype), images, channels, (h, w), alike, other, differs)| {
            let desc = LrnDesc::new(LrnRegion::AcrossChannels).window(n).alpha(alpha).beta(beta).k(1.5);
            let dims = [images, channels, h, w];
            let tensor = alike.apply(dtype, &dims);
            let out = if differs { other.apply(dtype, &dims) } else { tensor };
            match pass {
                LrnPass::Forward => LrnProblem::forward(&desc, &tensor, None, &out),
                LrnPass::Backward => LrnProblem::backward(&desc, &tensor, None, &tensor, &out, None),
            }
            .expect("a random problem is legal")
        },
    )
}
