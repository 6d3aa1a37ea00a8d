//! Random poolings.

use super::tensors::{dtype, layout};
use kernel_abi::ops::pool::{IndexBase, PoolDesc, PoolMode, PoolNan, PoolPass, PoolProblem};
use kernel_abi::{DType, TensorDesc};
use proptest::prelude::*;

/// An axis: image, window, padding, padding at the end, stride, dilation.
fn axis() -> impl Strategy<Value = [i64; 6]> {
    let dilation = prop_oneof![2 => Just(1i64), 1 => 1i64..=3];
    (1i64..=11, 1i64..=5, 0i64..=6, 0i64..=6, 1i64..=4, dilation).prop_map(
        |(image, window, padding, padding_end, stride, dilation)| {
            // Steps larger than an image could leave it out.
            let dilation = dilation.min(image);
            let paddings = |window: i64| [padding, padding_end].map(|padding| padding.min((window - 1) * dilation));
            let fits = |window: i64| (window - 1) * dilation < image + paddings(window).iter().sum::<i64>();
            let window = (1..=window).rev().find(|&window| fits(window)).unwrap_or(1);
            let [padding, padding_end] = paddings(window);
            [image, window, padding, padding_end, stride, dilation]
        },
    )
}

/// Windows or bins, and the image's spatial extents.
pub(super) fn desc(mode: PoolMode) -> impl Strategy<Value = (PoolDesc, Vec<i64>)> {
    let sliding = (prop::collection::vec(axis(), 1..=3), prop::bool::ANY).prop_map(move |(axes, ceil)| {
        let column = |i: usize| axes.iter().map(|axis| axis[i]).collect::<Vec<_>>();
        let desc = PoolDesc::new(mode, &column(1)).padding(&column(2)).padding_end(&column(3));
        let desc = desc.stride(&column(4)).dilation(&column(5));
        (if ceil { desc.ceil() } else { desc }, column(0))
    });
    let bins = prop::collection::vec((1i64..=9, 1i64..=7), 1..=3).prop_map(move |axes| {
        let (image, bins): (Vec<i64>, Vec<i64>) = axes.into_iter().unzip();
        (PoolDesc::adaptive(mode, &bins), image)
    });
    let global = prop::collection::vec(1i64..=12, 1..=3).prop_map(move |image| (PoolDesc::global(mode), image));
    prop_oneof![5 => sliding, 2 => bins, 1 => global]
}

/// Poolings of images whose channels or columns lie together, many at a time, as tuned kernels take them.
fn vectors() -> impl Strategy<Value = PoolProblem> {
    let modes = prop::sample::select(&[PoolMode::Max, PoolMode::Max, PoolMode::AverageIncludePadding][..]);
    let words = (modes, prop::sample::select(PoolPass::ALL), prop::sample::select(PoolNan::ALL));
    let dtype = prop::sample::select(&[DType::F32, DType::F16, DType::BF16][..]);
    let channels = prop::sample::select(&[1i64, 3, 8, 16, 24, 64, 72, 136][..]);
    let side = || prop_oneof![2 => Just(3i64), 1 => 1i64..=5];
    let windows = (side(), side(), 1i64..=3, 1i64..=3, 0i64..=2, prop::sample::select(&[0u8, 0, 0, 1, 2, 3][..]));
    let images = (prop::option::weighted(0.2, 1i64..=3), 1i64..=40, 1i64..=40, 1i64..=2);
    (words, dtype, channels, windows, images, prop::bool::ANY).prop_map(
        |((mode, pass, nan), dtype, c, (r, s, u, v, pad, kind), (depth, h, w, n), channels_last)| {
            // Few enough elements that the reference is done soon.
            let shrink = |extent: i64| if c * h * w > 12_000 { (extent + 3) / 4 } else { extent };
            let (h, w) = (shrink(h), shrink(w));
            let desc = match kind {
                1 => PoolDesc::global(mode),
                2 => PoolDesc::adaptive(mode, &[1, h, 1][if depth.is_some() { 0 } else { 1 }..]),
                _ => {
                    let padding = [pad.min(r - 1), pad.min(s - 1)];
                    let (r, s) = (r.min(h + 2 * padding[0]), s.min(w + 2 * padding[1]));
                    let padding = [padding[0].min(r - 1), padding[1].min(s - 1)];
                    let with_depth = |value: i64, [h, w]: [i64; 2]| {
                        if depth.is_some() { vec![value, h, w] } else { vec![h, w] }
                    };
                    let desc = PoolDesc::new(mode, &with_depth(1, [r.min(h), s.min(w)]));
                    let desc = desc.stride(&with_depth(1, [u, v]));
                    let padding = [padding[0].min(r.min(h) - 1), padding[1].min(s.min(w) - 1)];
                    let desc = desc.padding(&with_depth(0, padding));
                    if kind == 3 { desc.ceil() } else { desc }
                }
            };
            let dims: Vec<i64> = [n, c].into_iter().chain(depth).chain([h, w]).collect();
            let tensor = |dims: &[i64]| {
                let desc = if channels_last {
                    TensorDesc::channels_last(dtype, dims)
                } else {
                    TensorDesc::packed(dtype, dims)
                };
                desc.expect("small extents are legal")
            };
            let (x, desc) = (tensor(&dims), desc.nan(nan));
            let y = tensor(&desc.output_dims(&x).expect("random windows fit"));
            match pass {
                PoolPass::Forward => PoolProblem::forward(&desc, &x, &y),
                PoolPass::Backward => PoolProblem::backward(&desc, &x, &y, &x),
            }
            .expect("a random problem is legal")
        },
    )
}

/// Maxima backward of windows of 3 × 3 and 2 × 2, and whole planes, of NCHW or with channels in vectors.
fn planes() -> impl Strategy<Value = PoolProblem> {
    let dtype = prop::sample::select(&[DType::F32, DType::F16, DType::BF16][..]);
    let window = prop::sample::select(&[(3i64, 1i64), (3, 2), (3, 2), (2, 2), (0, 0)][..]);
    let extents = (1i64..=3, 1i64..=6, 1i64..=70, 1i64..=70);
    let words = (0i64..=2, 0i64..=2, prop::bool::ANY, prop::sample::select(PoolNan::ALL), prop::bool::ANY);
    (dtype, window, extents, words, prop::bool::ANY).prop_map(
        |(dtype, (side, stride), (n, c, h, w), (top, left, ceil, nan, forward), channels_last)| {
            let packed = |dims: &[i64]| {
                let desc = if channels_last {
                    TensorDesc::channels_last(dtype, dims)
                } else {
                    TensorDesc::packed(dtype, dims)
                };
                desc.expect("small extents are legal")
            };
            // Few enough elements that the reference is done soon.
            let (c, h) = if channels_last { (8 * c, (h + 1) / 2) } else { (c, h) };
            let x = packed(&[n, c, h, w]);
            let desc = if side == 0 {
                PoolDesc::global(PoolMode::AverageIncludePadding)
            } else {
                let desc = PoolDesc::new(PoolMode::Max, &[side; 2]).stride(&[stride; 2]).nan(nan);
                // Padding that the smallest images need.
                let padding = |extent: i64, wanted: i64| wanted.max((side - extent + 1) / 2).min(side - 1);
                let desc = desc.padding(&[padding(h, top), padding(w, left)]);
                if ceil { desc.ceil() } else { desc }
            };
            let y = packed(&desc.output_dims(&x).expect("the windows fit"));
            match forward && side == 0 {
                true => PoolProblem::forward(&desc, &x, &y),
                false => PoolProblem::backward(&desc, &x, &y, &x),
            }
            .expect("a random problem is legal")
        },
    )
}

/// Any pooling.
pub fn any() -> impl Strategy<Value = PoolProblem> {
    prop_oneof![2 => general(), 1 => vectors(), 1 => planes()]
}

/// Any windows, details and layouts, of small images.
fn general() -> impl Strategy<Value = PoolProblem> {
    let desc = prop::sample::select(PoolMode::ALL).prop_flat_map(|mode| (Just(mode), desc(mode)));
    let words = (desc, prop::sample::select(PoolPass::ALL), dtype());
    let index = (prop::sample::select(&[None, Some(DType::I32), Some(DType::I64)][..]), prop::bool::ANY, layout());
    let details = (1.0f64..6.0, prop::sample::select(PoolNan::ALL), index);
    let layouts = [layout(), layout(), layout()];
    (words, details, (1i64..=3, 1i64..=7), layouts).prop_map(
        |(((mode, (desc, image)), pass, dtype), (p, nan, (index, whole, index_layout)), (n, c), layouts)| {
            let p = if p < 3.0 { p.round() } else { p };
            let base = if whole { IndexBase::Tensor } else { IndexBase::Plane };
            let desc = desc.exponent(p).nan(nan).index_base(base);
            let dims = [n, c].into_iter().chain(image).collect::<Vec<_>>();
            let x = layouts[0].apply(dtype, &dims);
            let output = desc.output_dims(&x).expect("random axes are legal");
            let y = layouts[1].apply(dtype, &output);
            let dx = layouts[2].apply(dtype, &dims);
            let index = index.filter(|_| mode == PoolMode::Max).map(|dtype| index_layout.apply(dtype, &output));
            match (pass, index) {
                (PoolPass::Forward, None) => PoolProblem::forward(&desc, &x, &y),
                (PoolPass::Forward, Some(index)) => PoolProblem::forward_with_index(&desc, &x, &y, &index),
                (PoolPass::Backward, None) => PoolProblem::backward(&desc, &x, &y, &dx),
                (PoolPass::Backward, Some(index)) => PoolProblem::backward_from_index(&desc, &index, &y, &dx),
            }
            .expect("a random problem is legal")
        },
    )
}
