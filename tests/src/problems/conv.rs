//! Random convolutions.

use super::tensors::{dtype, layout};
use kernel_abi::ops::conv::{ConvDesc, ConvMode, ConvPass, ConvProblem, index};
use kernel_abi::{DType, Math, TensorDesc};
use proptest::prelude::*;

/// Products that the reference may be asked for.
const MAX_PRODUCTS: f64 = 150_000.0;

/// One axis: input, filter, padding, padding at the end, stride, dilation.
type Axis = [i64; 6];

/// An axis of any kind: filters larger than the image, strides larger than the filter, dilation and padding beyond
/// either, down to all extents 1.
fn axis() -> impl Strategy<Value = Axis> {
    let common = (1i64..=11, 1i64..=3, 0i64..=2, 0i64..=2, 1i64..=2, 1i64..=2);
    let odd = (1i64..=6, 1i64..=7, 0i64..=8, 0i64..=8, 1i64..=5, 1i64..=3);
    prop_oneof![3 => common, 2 => odd].prop_map(|(input, filter, padding, mut padding_end, stride, dilation)| {
        if index::output_extent(input, filter, padding, padding_end, stride, dilation).is_none() {
            padding_end = (filter - 1) * dilation + 1 - input - padding;
        }
        [input, filter, padding, padding_end, stride, dilation]
    })
}

/// The convolution along these axes.
fn along(axes: &[Axis], groups: i64, mode: ConvMode) -> ConvDesc {
    let [padding, padding_end, stride, dilation] =
        [2, 3, 4, 5].map(|i| axes.iter().map(|axis| axis[i]).collect::<Vec<_>>());
    ConvDesc::new()
        .padding(&padding)
        .padding_end(&padding_end)
        .stride(&stride)
        .dilation(&dilation)
        .groups(groups)
        .mode(mode)
}

/// Two extents, and behind them the input's or the filter's along each axis.
fn extents(outer: [i64; 2], axes: &[Axis], i: usize) -> Vec<i64> {
    outer.into_iter().chain(axes.iter().map(|axis| axis[i])).collect()
}

/// Batch, groups, input and output channels of a group; plain, grouped and depthwise.
fn channels() -> impl Strategy<Value = [i64; 4]> {
    prop_oneof![
        3 => (1i64..=3, Just(1i64), 1i64..=17, 1i64..=19),
        2 => (1i64..=3, 2i64..=4, 1i64..=5, 1i64..=5),
        2 => (1i64..=3, 1i64..=13, Just(1i64), 1i64..=2),
        1 => (5i64..=9, Just(1i64), 1i64..=4, 1i64..=4),
    ]
    .prop_map(|(n, g, c, k)| [n, g, c, k])
}

/// Any convolution of the given type and pass.
pub fn of(
    dtype: impl Strategy<Value = DType>,
    pass: impl Strategy<Value = ConvPass>,
) -> impl Strategy<Value = ConvProblem> {
    let spatial = prop::collection::vec(axis(), 1..=3);
    let words = (dtype, pass, prop::sample::select(ConvMode::ALL));
    (words, channels(), spatial, [layout(), layout(), layout()]).prop_map(
        |((dtype, pass, mode), [mut n, groups, mut group_c, mut group_k], axes, layouts)| {
            let desc = along(&axes, groups, mode);
            loop {
                let x = layouts[0].apply(dtype, &extents([n, groups * group_c], &axes, 0));
                let w = layouts[1].apply(dtype, &extents([groups * group_k, group_c], &axes, 1));
                let y_dims = desc.output_dims(&x, &w).expect("random axes are legal");
                let y = layouts[2].apply(dtype, &y_dims);
                let taps: i64 = axes.iter().map(|axis| axis[1]).product();
                if y.n_elems() as f64 * (taps * group_c) as f64 > MAX_PRODUCTS && n * group_c * group_k > 1 {
                    [n, group_c, group_k] = [n, group_c, group_k].map(|extent| (extent + 1) / 2);
                    continue;
                }
                return ConvProblem::new(pass, &desc, &x, &w, &y).expect("a random problem is legal");
            }
        },
    )
}

/// Channels-last convolutions of 16-bit types with channels by 8, as kernels for tensor cores want them: a few tiles
/// with tails everywhere.
pub fn for_tensor_cores(pass: impl Strategy<Value = ConvPass>) -> impl Strategy<Value = ConvProblem> {
    in_units(pass, Just(8))
}

/// The same with channels by 4, by 2 or of any number, which copy engines cannot take as they lie.
pub fn odd_channels(pass: impl Strategy<Value = ConvPass>) -> impl Strategy<Value = ConvProblem> {
    in_units(pass, prop_oneof![3 => Just(4), 1 => Just(2), 1 => Just(1)])
}

fn in_units(
    pass: impl Strategy<Value = ConvPass>,
    unit: impl Strategy<Value = i64>,
) -> impl Strategy<Value = ConvProblem> {
    /// Products that the reference may be asked for.
    const MAX_PRODUCTS: f64 = 2_000_000.0;
    let spatial = prop::collection::vec(axis(), 1..=3);
    let words = (prop::sample::select(&[DType::F16, DType::BF16][..]), pass, prop::sample::select(ConvMode::ALL));
    let channels = prop_oneof![
        4 => (1i64..=5, Just(1i64), 1i64..=20, 1i64..=34),
        1 => (1i64..=3, 2i64..=3, Just(8i64), prop::sample::select(&[8i64, 16][..])),
    ];
    // Elements between neighbouring positions that belong to nobody, as many as channels come by: a slice of a wider
    // tensor.
    let gaps = [0i64..=1, 0i64..=1];
    (words, channels, spatial, gaps, unit).prop_map(
        |((dtype, pass, mode), (mut n, groups, mut group_c, mut group_k), axes, [x_gap, y_gap], unit)| {
            let desc = along(&axes, groups, mode);
            loop {
                let x = channels_last(dtype, &extents([n, groups * group_c * unit], &axes, 0), unit * x_gap);
                let w = channels_last(dtype, &extents([groups * group_k * unit, group_c * unit], &axes, 1), 0);
                let y_dims = desc.output_dims(&x, &w).expect("random axes are legal");
                let y = channels_last(dtype, &y_dims, unit * y_gap);
                let taps: i64 = axes.iter().map(|axis| axis[1]).product();
                if y.n_elems() as f64 * (taps * group_c * unit) as f64 > MAX_PRODUCTS && (n > 1 || groups == 1) {
                    if n * group_c * group_k == 1 {
                        // The positions alone are too many: leave it at that.
                    } else if groups > 1 {
                        n = (n + 1) / 2;
                        continue;
                    } else {
                        [n, group_c, group_k] = [n, group_c, group_k].map(|extent| (extent + 1) / 2);
                        continue;
                    }
                }
                return ConvProblem::new(pass, &desc, &x, &w, &y).expect("a random problem is legal");
            }
        },
    )
}

/// Channels-last convolutions of 16-bit types with up to 3 × 3 taps, mostly of stride 1, as kernels that keep a halo in
/// shared memory want them: rows around a strip's and a copy's length, several strips and images, small images, groups of
/// multiples of 32 channels, paddings on any side.
pub fn with_halo(pass: impl Strategy<Value = ConvPass>) -> impl Strategy<Value = ConvProblem> {
    /// Products that the reference may be asked for.
    const MAX_PRODUCTS: f64 = 3_000_000.0;
    let axis = |input| (input, 1i64..=3, 0i64..=2, 0i64..=2, 1i64..=2, prop_oneof![4 => Just(1i64), 1 => 2i64..=3]);
    let width = prop_oneof![6 => 1i64..=60, 1 => 120i64..=135, 1 => 250i64..=265];
    let depth = prop_oneof![3 => Just(None), 1 => axis((1i64..=4).boxed()).prop_map(Some)];
    // Small images, of which a tile has several, or any.
    let planes = prop_oneof![
        1 => (axis((1i64..=12).boxed()), axis((1i64..=12).boxed())),
        2 => (axis((1i64..=30).boxed()), axis(width.boxed())),
    ];
    let words = (prop::sample::select(&[DType::F16, DType::BF16][..]), pass, prop::sample::select(ConvMode::ALL));
    let eighths = || prop_oneof![2 => 1i64..=5, 1 => 7i64..=9, 1 => Just(16i64)];
    let channels = prop_oneof![
        5 => (1i64..=7, Just(1i64), eighths(), eighths()),
        1 => (1i64..=6, 2i64..=3, prop::sample::select(&[4i64, 8, 12][..]), eighths()),
    ];
    (words, channels, (depth, planes), [0i64..=1, 0i64..=1]).prop_map(
        |((dtype, pass, mode), (mut n, mut groups, mut group_c, mut group_k), (d, (h, w)), [x_gap, y_gap])| {
            let mut axes: Vec<_> = d.into_iter().chain([h, w]).collect();
            for (input, filter, padding, padding_end, dilation, _) in &mut axes {
                *padding_end = (*padding_end).max((*filter - 1) * *dilation + 1 - *input - *padding);
            }
            loop {
                let desc = ConvDesc::new()
                    .padding(&axes.iter().map(|axis| axis.2).collect::<Vec<_>>())
                    .padding_end(&axes.iter().map(|axis| axis.3).collect::<Vec<_>>())
                    .dilation(&axes.iter().map(|axis| axis.4).collect::<Vec<_>>())
                    .stride(&axes.iter().map(|axis| axis.5).collect::<Vec<_>>())
                    .groups(groups)
                    .mode(mode);
                let inputs = [n, groups * group_c * 8].into_iter().chain(axes.iter().map(|axis| axis.0));
                let x = channels_last(dtype, &inputs.collect::<Vec<_>>(), 8 * x_gap);
                let filters = [groups * group_k * 8, group_c * 8].into_iter().chain(axes.iter().map(|axis| axis.1));
                let w = channels_last(dtype, &filters.collect::<Vec<_>>(), 0);
                let y_dims = desc.output_dims(&x, &w).expect("random axes are legal");
                let y = channels_last(dtype, &y_dims, 8 * y_gap);
                let terms = w.n_elems() / (groups * group_k * 8);
                if y.n_elems() as f64 * terms as f64 > MAX_PRODUCTS {
                    let most = [n, group_c, group_k].into_iter().max().unwrap_or(1);
                    if groups > 1 {
                        // Groups keep the multiples of 32 channels that the halo's kernels want of them.
                        if n > 1 || group_k > 1 {
                            [n, group_k] = [n, group_k].map(|extent| (extent + 1) / 2);
                        } else {
                            groups -= 1;
                        }
                        continue;
                    } else if most > 1 {
                        for extent in [&mut n, &mut group_c, &mut group_k] {
                            *extent = if *extent == most { (*extent + 1) / 2 } else { *extent };
                        }
                        continue;
                    }
                }
                return ConvProblem::new(pass, &desc, &x, &w, &y).expect("a random problem is legal");
            }
        },
    )
}

/// f32 convolutions as `bf16x3_wgmma` wants them, and as it does not: channels of any number around its panels of 32 and
/// tiles of 64 and 128, mostly channels-last, with gaps, and positions of a few tiles.
pub fn single(pass: impl Strategy<Value = ConvPass>) -> impl Strategy<Value = ConvProblem> {
    /// Products that the reference may be asked for.
    const MAX_PRODUCTS: f64 = 2_000_000.0;
    let width =
        || prop_oneof![2 => 1i64..=20, 3 => prop::sample::select(&[31i64, 32, 33, 36, 61, 64, 67, 128, 131][..])];
    let channels = prop_oneof![
        4 => (1i64..=5, Just(1i64), width(), width()),
        1 => (1i64..=3, 2i64..=3, width(), 1i64..=40),
    ];
    // Up to two plain axes, so that there are positions enough, or any.
    let plain = (5i64..=19, 1i64..=3, 0i64..=2, 0i64..=2, 1i64..=2, 1i64..=2).prop_map(
        |(input, filter, before, behind, stride, dilation)| {
            [input, filter, before, behind, stride, if filter == 1 { 1 } else { dilation }]
        },
    );
    let spatial = prop_oneof![
        3 => prop::collection::vec(plain, 1..=2),
        2 => prop::collection::vec(axis(), 1..=3),
    ];
    let layouts = prop_oneof![4 => Just(true), 1 => Just(false)];
    let gaps = [0i64..=5, 0i64..=5, 0i64..=1];
    (pass, prop::sample::select(ConvMode::ALL), channels, spatial, layouts, gaps).prop_map(
        |(pass, mode, (mut n, mut groups, mut group_c, mut group_k), axes, last, [x_gap, y_gap, w_gap])| {
            loop {
                let desc = along(&axes, groups, mode);
                let tensor = |dims: &[i64], gap: i64| {
                    if last {
                        channels_last(DType::F32, dims, gap)
                    } else {
                        TensorDesc::packed(DType::F32, dims).expect("random extents are legal")
                    }
                };
                let x = tensor(&extents([n, groups * group_c], &axes, 0), x_gap);
                let w = tensor(&extents([groups * group_k, group_c], &axes, 1), w_gap);
                let y = tensor(&desc.output_dims(&x, &w).expect("random axes are legal"), y_gap);
                let taps: i64 = axes.iter().map(|axis| axis[1]).product();
                if y.n_elems() as f64 * (taps * group_c) as f64 > MAX_PRODUCTS && n * groups * group_c * group_k > 1 {
                    (n, groups, group_c, group_k) = if n > 1 {
                        (n / 2, groups, group_c, group_k)
                    } else if groups > 1 {
                        (n, groups - 1, group_c, group_k)
                    } else {
                        (n, groups, (group_c + 1) / 2, (group_k + 1) / 2)
                    };
                    continue;
                }
                return ConvProblem::new(pass, &desc, &x, &w, &y).expect("a random problem is legal");
            }
        },
    )
}

/// f32 convolutions of 3 × 3 taps and stride 1, as `winograd` wants them, half of them permitting its larger tiles: tiles
/// with tails, asymmetric padding beyond the filter, channels that are odd, channels-last with gaps or channels before the
/// image.
pub fn three_by_three(pass: impl Strategy<Value = ConvPass>) -> impl Strategy<Value = ConvProblem> {
    /// Products that the reference may be asked for.
    const MAX_PRODUCTS: i64 = 2_000_000;
    let extent = || prop_oneof![2 => 1i64..=9, 2 => 7i64..=23, 1 => prop::sample::select(&[31i64, 32, 33, 37][..])];
    let axis = || (extent(), 0i64..=4, 0i64..=4).prop_map(|(input, before, behind)| [input, before, behind]);
    let width = || prop_oneof![2 => 1i64..=9, 2 => 10i64..=41, 1 => prop::sample::select(&[64i64, 67, 128, 131][..])];
    let layouts = (0u32..=4, [0i64..=3, 0i64..=3, 0i64..=2]);
    let maths = prop::sample::select(&[Math::Full, Math::Winograd4x4][..]);
    let words = (pass, prop::sample::select(ConvMode::ALL), maths);
    (words, [axis(), axis()], 1i64..=7, width(), width(), layouts).prop_map(
        |((pass, mode, math), mut axes, mut n, mut c, mut k, (layout, gaps))| {
            for axis in &mut axes {
                axis[2] = axis[2].max(3 - axis[0] - axis[1]);
            }
            let column = |i: usize| [axes[0][i], axes[1][i]];
            let desc = ConvDesc::new().padding(&column(1)).padding_end(&column(2)).mode(mode).math(math);
            let tensor = |dims: &[i64], gap: i64| {
                if layout == 0 {
                    TensorDesc::packed(DType::F32, dims).expect("random extents are legal")
                } else {
                    channels_last(DType::F32, dims, if layout < 3 { gap } else { 0 })
                }
            };
            loop {
                let [h, w] = column(0);
                let x = tensor(&[n, c, h, w], gaps[0]);
                let w = tensor(&[k, c, 3, 3], gaps[1]);
                let y = tensor(&desc.output_dims(&x, &w).expect("random axes are legal"), gaps[2]);
                if y.n_elems() * 9 * c > MAX_PRODUCTS && n * c * k > 1 {
                    [n, c, k] = if n > 1 { [n / 2, c, k] } else { [n, (c + 1) / 2, (k + 1) / 2] };
                    continue;
                }
                return ConvProblem::new(pass, &desc, &x, &w, &y).expect("a random problem is legal");
            }
        },
    )
}

/// f32 convolutions of stride 1 as `fft` wants them: results and window need up to 32, 64 or 128 positions together, or
/// a few more, with windows up to the image's size, dilation, padding beyond the filter, groups, and any strides.
pub fn large_windows(pass: impl Strategy<Value = ConvPass>) -> impl Strategy<Value = ConvProblem> {
    /// Products that the reference may be asked for.
    const MAX_PRODUCTS: i64 = 1_000_000;
    let needed = prop_oneof![2 => 18i64..=32, 2 => 33i64..=64, 1 => 65i64..=130];
    let axis = || (0i64..=12, 1i64..=40, 1i64..=3, 0i64..=20, 0i64..=20);
    let channels = (1i64..=3, 1i64..=3, 1i64..=6, 1i64..=6);
    let words = (pass, prop::sample::select(ConvMode::ALL));
    (words, needed, [axis(), axis()], channels, [layout(), layout(), layout()]).prop_map(
        |((pass, mode), needed, mut axes, (mut n, groups, mut group_c, mut group_k), layouts)| {
            loop {
                // Output, filter, padding, padding at the end, dilation.
                let axes_now = axes.map(|(short, filter, dilation, before, behind)| {
                    let filter = filter.min((needed - 1 - short) / dilation + 1);
                    let window = (filter - 1) * dilation + 1;
                    let output = needed - short - window + 1;
                    let padding = before.min(output + window - 2);
                    [output, filter, padding, behind.min(output + window - 2 - padding), dilation]
                });
                let column = |i: usize| axes_now.map(|axis| axis[i]);
                let desc = ConvDesc::new()
                    .padding(&column(2))
                    .padding_end(&column(3))
                    .dilation(&column(4))
                    .groups(groups)
                    .mode(mode);
                let ([p, q], [r, s]) = (column(0), column(1));
                if n * p * q * r * s * groups * group_c * group_k > MAX_PRODUCTS {
                    if n * group_c * group_k > 1 {
                        [n, group_c, group_k] = [n, group_c, group_k].map(|extent| (extent + 1) / 2);
                    } else {
                        axes = axes.map(|(short, filter, dilation, before, behind)| {
                            (short, (filter + 1) / 2, dilation, before, behind)
                        });
                    }
                    continue;
                }
                let [h, w] = axes_now.map(|[output, filter, before, behind, dilation]| {
                    output + (filter - 1) * dilation - before - behind
                });
                let x = layouts[0].apply(DType::F32, &[n, groups * group_c, h, w]);
                let w = layouts[1].apply(DType::F32, &[groups * group_k, group_c, r, s]);
                let y = layouts[2].apply(DType::F32, &desc.output_dims(&x, &w).expect("random axes are legal"));
                return ConvProblem::new(pass, &desc, &x, &w, &y).expect("a random problem is legal");
            }
        },
    )
}

/// Dense channels-last convolutions of 16-bit types with groups of many widths and with odd channels: 3 × 3, 5 × 5 and
/// 7 × 7 taps with the strides of residual networks, and windows of any kind.
pub fn grouped(pass: impl Strategy<Value = ConvPass>) -> impl Strategy<Value = ConvProblem> {
    dense(&[DType::F16, DType::BF16], pass)
}

/// The same of f32, as `tf32x3_mma` wants them.
pub fn grouped_single(pass: impl Strategy<Value = ConvPass>) -> impl Strategy<Value = ConvProblem> {
    dense(&[DType::F32], pass)
}

fn dense(dtypes: &'static [DType], pass: impl Strategy<Value = ConvPass>) -> impl Strategy<Value = ConvProblem> {
    /// Products that the reference may be asked for.
    const MAX_PRODUCTS: i64 = 2_000_000;
    let width = || prop::sample::select(&[1i64, 2, 3, 4, 7, 8, 16, 24, 32, 37][..]);
    let channels = prop_oneof![
        4 => (2i64..=32, width()).prop_map(|(groups, width)| [groups, width, width]),
        1 => (1i64..=3, width(), width()).prop_map(|(groups, c, k)| [groups, c, k]),
    ];
    let tap_axis = |taps: i64| {
        (1i64..=19, 0i64..=3, 0i64..=2, 1i64..=2, 1i64..=2).prop_map(move |(input, before, behind, stride, dil)| {
            let behind = behind.max((taps - 1) * dil + 1 - input - before);
            [input, taps, before, behind, stride, dil]
        })
    };
    let taps = prop::sample::select(&[3i64, 3, 5, 7][..]);
    let spatial = prop_oneof![
        3 => taps.prop_flat_map(move |taps| prop::collection::vec(tap_axis(taps), 2..=2)),
        1 => prop::collection::vec(axis(), 1..=3),
    ];
    let words = (prop::sample::select(dtypes), pass, prop::sample::select(ConvMode::ALL));
    (words, 1i64..=5, channels, spatial, prop::bool::ANY).prop_map(
        |((dtype, pass, mode), mut n, [mut groups, group_c, group_k], mut axes, same)| {
            if same {
                // One stride for all axes, and no dilation with it: what `dgrad` has kernels for.
                let stride = axes[0][4];
                for axis in &mut axes {
                    let dilation = if stride == 1 { axis[5] } else { 1 };
                    axis[4] = stride;
                    axis[5] = dilation;
                    axis[3] = axis[3].max((axis[1] - 1) * dilation + 1 - axis[0] - axis[2]);
                }
            }
            loop {
                let desc = along(&axes, groups, mode);
                let x = channels_last(dtype, &extents([n, groups * group_c], &axes, 0), 0);
                let w = channels_last(dtype, &extents([groups * group_k, group_c], &axes, 1), 0);
                let y = channels_last(dtype, &desc.output_dims(&x, &w).expect("random axes are legal"), 0);
                let terms = w.n_elems() / (groups * group_k);
                if y.n_elems() * terms > MAX_PRODUCTS && n * groups > 1 {
                    (n, groups) = if n > 1 { (n / 2, groups) } else { (n, groups / 2) };
                    continue;
                }
                return ConvProblem::new(pass, &desc, &x, &w, &y).expect("a random problem is legal");
            }
        },
    )
}

/// Channels-last, with `gap` elements behind the channels of every position.
fn channels_last(dtype: DType, dims: &[i64], gap: i64) -> TensorDesc {
    let mut strides = vec![1; dims.len()];
    let mut stride = dims[1] + gap;
    for i in (2..dims.len()).rev().chain([0]) {
        strides[i] = stride;
        stride *= dims[i];
    }
    TensorDesc::strided(dtype, dims, &strides).expect("random extents are legal")
}

/// Convolutions of 16-bit types with images NCHW and filters KCRS, or some of them: channels and groups as tensor cores
/// want them, and odd ones.
pub fn nchw(pass: impl Strategy<Value = ConvPass> + Clone) -> impl Strategy<Value = ConvProblem> {
    let problem = prop_oneof![3 => for_tensor_cores(pass.clone()), 2 => grouped(pass)];
    let moved = prop_oneof![4 => Just([true; 3]), 1 => [prop::bool::ANY, prop::bool::ANY, prop::bool::ANY]];
    (problem, moved).prop_map(|(problem, [x, w, y])| {
        let lay = |moved: bool, desc: &TensorDesc| if moved { desc.to_packed() } else { *desc };
        problem
            .with_layouts(&lay(x, problem.x()), &lay(w, problem.w()), &lay(y, problem.y()))
            .expect("extents and type stay")
    })
}

/// Any convolution.
pub fn any() -> impl Strategy<Value = ConvProblem> {
    of(dtype(), prop::sample::select(ConvPass::ALL))
}

/// The problem of another pass over the same three tensors.
///
/// # Panics
/// When the tensor that the other pass writes overlaps itself.
pub fn with_pass(problem: &ConvProblem, pass: ConvPass) -> ConvProblem {
    let desc = problem.desc();
    let (x, w, y) = (problem.x(), problem.w(), problem.y());
    ConvProblem::new(pass, &desc, x, w, y).expect("the tensors fit each other")
}

/// Depthwise convolutions of two axes, images channels-last or packed: square filters of 3, 5 and 7 with stride 1 or 2,
/// and windows of any kind.
pub fn depthwise(
    dtype: impl Strategy<Value = DType>,
    pass: impl Strategy<Value = ConvPass>,
) -> impl Strategy<Value = ConvProblem> {
    /// Products that the reference may be asked for.
    const MAX_PRODUCTS: i64 = 400_000;
    let extent = || 1i64..=26;
    let padding = || [0i64..=8, 0i64..=8, 0i64..=8, 0i64..=8];
    let square = (prop::sample::select(&[3i64, 5, 7][..]), 1i64..=2, extent(), extent(), padding()).prop_map(
        |(filter, stride, h, w, pad)| {
            // Up to one more than what a tap still meets.
            let pad = pad.map(|pad| pad.min(filter));
            [[h, filter, pad[0], pad[1], stride, 1], [w, filter, pad[2], pad[3], stride, 1]]
        },
    );
    let axes = prop_oneof![3 => square, 1 => [axis(), axis()]];
    let channels = prop_oneof![2 => 1i64..=11, 2 => (1i64..=20).prop_map(|c| 4 * c), 1 => 60i64..=140];
    let words = (dtype, pass, prop::sample::select(ConvMode::ALL), prop::bool::ANY);
    (words, 1i64..=5, channels, axes, layout()).prop_map(
        |((dtype, pass, mode, last), mut n, mut channels, mut axes, w_layout)| {
            for axis in &mut axes {
                axis[3] = axis[3].max((axis[1] - 1) * axis[5] + 1 - axis[0] - axis[2]);
            }
            let images = |dims: &[i64]| {
                let desc = if last { TensorDesc::channels_last(dtype, dims) } else { TensorDesc::packed(dtype, dims) };
                desc.expect("random extents are legal")
            };
            loop {
                let desc = along(&axes, channels, mode);
                let x = images(&[n, channels, axes[0][0], axes[1][0]]);
                let w = w_layout.apply(dtype, &[channels, 1, axes[0][1], axes[1][1]]);
                let y = images(&desc.output_dims(&x, &w).expect("random axes are legal"));
                if y.n_elems() * axes[0][1] * axes[1][1] > MAX_PRODUCTS && n * channels > 1 {
                    (n, channels) = if n > 1 { (n / 2, channels) } else { (n, channels / 2) };
                    continue;
                }
                return ConvProblem::new(pass, &desc, &x, &w, &y).expect("a random problem is legal");
            }
        },
    )
}

/// Depthwise convolutions as the kernels take them that copy rows: 16-bit channels-last images of multiples of 8
/// channels, square filters of 3, 5 and 7 with stride 1 or 2, any padding.
pub fn depthwise_rows(pass: impl Strategy<Value = ConvPass>) -> impl Strategy<Value = ConvProblem> {
    /// Products that the reference may be asked for.
    const MAX_PRODUCTS: i64 = 400_000;
    let extent = || prop_oneof![3 => 1i64..=30, 1 => 31i64..=90];
    let padding = || [0i64..=7, 0i64..=7, 0i64..=7, 0i64..=7];
    let images = (1i64..=9, 1i64..=20, extent(), extent(), padding());
    let dtype = prop::sample::select(&[DType::F16, DType::BF16][..]);
    let filter = (prop::sample::select(&[3i64, 5, 7][..]), 1i64..=2, prop::sample::select(ConvMode::ALL));
    (dtype, pass, images, filter, layout()).prop_map(
        |(dtype, pass, (mut n, eighths, mut h, mut w, mut pad), (extent, stride, mode), w_layout)| {
            // Up to two more than what a tap still meets, at least one window.
            pad = pad.map(|pad| pad.min(extent + 1));
            pad[1] = pad[1].max(extent - h - pad[0]);
            pad[3] = pad[3].max(extent - w - pad[2]);
            let mut channels = 8 * eighths;
            loop {
                let desc = ConvDesc::new()
                    .padding(&[pad[0], pad[2]])
                    .padding_end(&[pad[1], pad[3]])
                    .stride(&[stride; 2])
                    .groups(channels)
                    .mode(mode);
                let images = |dims: &[i64]| TensorDesc::channels_last(dtype, dims).expect("random extents are legal");
                let x = images(&[n, channels, h, w]);
                let filter = w_layout.apply(dtype, &[channels, 1, extent, extent]);
                let y = images(&desc.output_dims(&x, &filter).expect("random axes are legal"));
                if y.n_elems() * extent * extent > MAX_PRODUCTS {
                    if n > 1 {
                        n = (n + 1) / 2;
                    } else if channels > 8 {
                        channels = (channels / 8 + 1) / 2 * 8;
                    } else if h > w {
                        h = (h + 1) / 2;
                    } else {
                        w = (w + 1) / 2;
                    }
                    continue;
                }
                return ConvProblem::new(pass, &desc, &x, &filter, &y).expect("a random problem is legal");
            }
        },
    )
}

/// The same with packed images.
pub fn depthwise_planes(pass: impl Strategy<Value = ConvPass>) -> impl Strategy<Value = ConvProblem> {
    depthwise_rows(pass).prop_map(|problem| {
        let packed = |desc: &TensorDesc| TensorDesc::packed(desc.dtype(), desc.dims()).expect("the extents are legal");
        let (x, y) = (packed(problem.x()), packed(problem.y()));
        ConvProblem::new(problem.conv_pass(), &problem.desc(), &x, problem.w(), &y).expect("the tensors fit each other")
    })
}
