//! Random resamplings.

use super::tensors::{dtype, layout};
use kernel_abi::TensorDesc;
use kernel_abi::ops::resample::{Coordinates, NearestRound, ResampleDesc, ResampleMode, ResamplePass, ResampleProblem};
use proptest::prelude::*;

/// Coordinates with all that belongs to them, for a number of axes.
fn desc(n_axes: usize) -> impl Strategy<Value = ResampleDesc> {
    let words = (
        prop::sample::select(ResampleMode::ALL),
        prop::sample::select(Coordinates::ALL),
        prop::sample::select(NearestRound::ALL),
    );
    let switches = (prop::bool::ANY, prop::bool::ANY, prop::sample::select(&[-0.75, -0.5][..]));
    let scale = prop::option::weighted(0.3, prop::collection::vec(0.3f64..3.0, n_axes));
    let region = prop::collection::vec([-0.3f64..1.3, -0.3f64..1.3], n_axes);
    (words, switches, scale, region).prop_map(|((mode, coordinates, round), (antialias, exclude, a), scale, region)| {
        let mut desc = ResampleDesc::new(mode).round(round).cubic_coefficient(a);
        desc = if coordinates == Coordinates::Crop { desc.crop(&region, 7.0) } else { desc.coordinates(coordinates) };
        if mode != ResampleMode::Nearest && antialias {
            desc = desc.antialias();
        }
        if mode != ResampleMode::Nearest && exclude {
            desc = desc.exclude_outside();
        }
        // Where an own scale leads beyond the image, what remains of cubic weights may be nothing but rounding, of which
        // every algorithm has another.
        let scale = scale.filter(|_| !(exclude && mode == ResampleMode::Cubic));
        // Numbers of a few bits, so that places are often ties.
        let scale = scale.map(|scale| scale.iter().map(|value| (value * 8.0).round() / 8.0).collect::<Vec<_>>());
        scale.map_or(desc.clone(), |scale| desc.scale(&scale))
    })
}

/// Any resampling: small images of every kind, and larger ones that lie together.
pub fn any() -> impl Strategy<Value = ResampleProblem> {
    prop_oneof![2 => small(), 1 => together()]
}

/// Up to three axes, any layout.
fn small() -> impl Strategy<Value = ResampleProblem> {
    let axes = prop::collection::vec((1i64..=9, 1i64..=9), 1..=3);
    let described = axes.prop_flat_map(|axes| {
        let n_axes = axes.len();
        (Just(axes), desc(n_axes))
    });
    let words = (prop::sample::select(ResamplePass::ALL), dtype(), 1i64..=2, 1i64..=5);
    (words, described, [layout(), layout()]).prop_map(|((pass, dtype, n, c), (axes, desc), layouts)| {
        let (image, output): (Vec<i64>, Vec<i64>) = axes.into_iter().unzip();
        let dims = |spatial: Vec<i64>| [n, c].into_iter().chain(spatial).collect::<Vec<_>>();
        let x = layouts[0].apply(dtype, &dims(image));
        let y = layouts[1].apply(dtype, &dims(output));
        match pass {
            ResamplePass::Forward => ResampleProblem::forward(&desc, &x, &y),
            ResamplePass::Backward => ResampleProblem::backward(&desc, &y, &x),
        }
        .expect("a random problem is legal")
    })
}

/// Images of several tiles, channels or columns of which lie together, by simple factors.
fn together() -> impl Strategy<Value = ResampleProblem> {
    let words = (prop::sample::select(ResamplePass::ALL), dtype(), 1i64..=2, 1i64..=9, prop::bool::ANY);
    let factor = || prop::sample::select(&[(1i64, 2i64), (2, 1), (1, 3), (1, 1), (3, 2)][..]);
    let axes = ((1i64..=12, factor()), (1i64..=40, factor()));
    (words, desc(2), axes).prop_map(|((pass, dtype, n, c, last), desc, (rows, columns))| {
        let dims = |up: bool| {
            let extent = |(extent, (down, times)): (i64, (i64, i64))| extent * if up { times } else { down };
            // Some channels that lie together are no multiple of 16 bytes.
            [n, if last && c % 3 != 0 { 8 * c } else { c }, extent(rows), extent(columns)]
        };
        let lie = |dims: [i64; 4]| {
            let desc = if last { TensorDesc::channels_last(dtype, &dims) } else { TensorDesc::packed(dtype, &dims) };
            desc.expect("random extents are legal")
        };
        let (x, y) = (lie(dims(false)), lie(dims(true)));
        match pass {
            ResamplePass::Forward => ResampleProblem::forward(&desc, &x, &y),
            ResamplePass::Backward => ResampleProblem::backward(&desc, &y, &x),
        }
        .expect("a random problem is legal")
    })
}
