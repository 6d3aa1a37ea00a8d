//! Random normalizations.

use super::tensors::{Layout, dims, dtype, layout};
use kernel_abi::ops::activation::ActivationMode;
use kernel_abi::ops::norm::{NormDesc, NormMode, NormPass, NormProblem, NormTensors, Sharing};
use kernel_abi::{DType, TensorDesc};
use proptest::prelude::*;

/// Any normalization.
pub fn any() -> impl Strategy<Value = NormProblem> {
    // Rows of up to a few thousand elements, and many short ones.
    let extents = prop_oneof![
        3 => dims(4, 3000).prop_map(|mut dims| {
            dims.insert(0, 3);
            dims
        }),
        2 => (1i64..5, 1i64..48, 1i64..80).prop_map(|(n, c, w)| vec![n, c, w]),
        1 => (1i64..6, 1i64..600).prop_map(|(n, c)| vec![n, c]),
    ];
    of_extents(extents)
}

/// Channels-last images with whole vectors of channels, and rows of whole vectors: what tuned kernels are for.
pub fn aligned() -> impl Strategy<Value = NormProblem> {
    let extents = prop_oneof![
        2 => (1i64..4, 1i64..12, 1i64..12, 1i64..12).prop_map(|(n, c, h, w)| vec![n, 8 * c, h, w]),
        1 => (1i64..4, 1i64..12, 1i64..8, 1i64..8).prop_map(|(n, c, h, w)| vec![n, c, h, 8 * w]),
        2 => (1i64..40, 1i64..300).prop_map(|(n, c)| vec![n, 8 * c]),
        1 => (1i64..4, 300i64..2500).prop_map(|(n, c)| vec![n, 8 * c]),
    ];
    let plain = prop_oneof![Just([Layout::Packed, Layout::Packed]), Just([Layout::ChannelsLast, Layout::ChannelsLast])];
    (extents, plain, words()).prop_map(|(dims, [x, y], words)| {
        let layouts = [x.clone(), y.clone(), x.clone(), y.clone(), x.clone(), Layout::Packed, Layout::Packed];
        problem(&dims, &layouts, words)
    })
}

/// Contiguous rows of whole vectors, of all lengths that kernels hold in registers and longer ones, without residual and activation.
pub fn rows() -> impl Strategy<Value = NormProblem> {
    // As many of each order of magnitude, from 8 to 65536 elements.
    let extents = (0u32..13, 1i64..=8, 1i64..40).prop_map(|(order, of_eight, rows)| {
        let elems = 8 * ((of_eight << order) / 4).max(1);
        (if elems * rows > 40_000 { 1 + rows % 3 } else { rows }, elems)
    });
    let pass = prop::sample::select(&[NormPass::Forward, NormPass::Backward][..]);
    let words = (pass, 0usize..4, dtype(), 0i64..3, proptest::arbitrary::any::<[bool; 7]>());
    (extents, words).prop_map(|((n, elems), (pass, mode, dtype, gap, flags))| {
        let of_channels = mode == 3;
        let dims = if of_channels { vec![n, elems / 8, 2, 4] } else { vec![n, elems] };
        let mode =
            [NormMode::Layer { axis: 1 }, NormMode::Layer { axis: 1 }, NormMode::Rms { axis: 1 }, NormMode::Instance]
                [mode];
        let pitched = |gap: i64| {
            if of_channels {
                return Layout::Packed.apply(dtype, &dims);
            }
            TensorDesc::strided(dtype, &dims, &[elems + 8 * gap, 1]).expect("a pitch of a row or more is legal")
        };
        let (x, out, dy) = (pitched(gap), pitched(0), pitched(2 - gap));
        let desc = NormDesc::new(mode).epsilon(if elems < 16 { 0.125 } else { 1e-5 });
        let sharing = Sharing::new(mode, &x);
        let parameter_type = if flags[0] { dtype.accumulator() } else { dtype };
        let parameter = Layout::Packed.apply(parameter_type, &sharing.parameter_extents());
        let mut tensors = NormTensors::new();
        if flags[1] {
            tensors = tensors.scale(&parameter);
        }
        if flags[2] {
            tensors = tensors.statistics();
        }
        if pass == NormPass::Forward {
            tensors = if flags[3] { tensors.bias(&parameter) } else { tensors };
            return NormProblem::forward(&desc, &x, &out, &tensors).expect("a random problem is legal");
        }
        if flags[1] && flags[4] && !of_channels {
            tensors = tensors.dscale(&parameter);
        }
        if flags[5] && !of_channels {
            tensors = tensors.dbias(&parameter);
        }
        NormProblem::backward(&desc, &x, &dy, &out, &tensors).expect("a random problem is legal")
    })
}

fn of_extents(extents: impl Strategy<Value = Vec<i64>>) -> impl Strategy<Value = NormProblem> {
    let layouts = prop::collection::vec(layout(), 7);
    (extents, layouts, words()).prop_map(|(dims, layouts, words)| problem(&dims, &layouts, words))
}

/// What there is to choose beside extents and layouts.
#[derive(Clone, Debug)]
struct Words {
    pass: NormPass,
    mode: usize,
    which: usize,
    dtype: DType,
    activation: ActivationMode,
    epsilon: usize,
    flags: [bool; 8],
}

fn words() -> impl Strategy<Value = Words> {
    let passes = prop_oneof![
        3 => Just(NormPass::Forward),
        3 => Just(NormPass::Backward),
        1 => Just(NormPass::Inference),
        1 => Just(NormPass::Finalize),
    ];
    let activations = prop_oneof![
        2 => Just(ActivationMode::Identity),
        1 => Just(ActivationMode::Relu),
        1 => prop::sample::select(ActivationMode::EPILOGUE),
    ];
    (passes, 0usize..6, 0usize..8, dtype(), activations, 0usize..3, proptest::arbitrary::any::<[bool; 8]>()).prop_map(
        |(pass, mode, which, dtype, activation, epsilon, flags)| Words {
            pass,
            mode,
            which,
            dtype,
            activation,
            epsilon,
            flags,
        },
    )
}

fn problem(dims: &[i64], layouts: &[Layout], words: Words) -> NormProblem {
    let Words { pass, which, dtype, flags, .. } = words;
    let axis = which % dims.len();
    let divisors: Vec<i64> = (1..=dims[1]).filter(|groups| dims[1] % groups == 0).collect();
    let mode = match (pass, words.mode) {
        (NormPass::Finalize, _) | (_, 0) => NormMode::Batch,
        (NormPass::Inference, mode) => [NormMode::Batch, NormMode::PerActivation][mode % 2],
        (_, 1) => NormMode::PerActivation,
        (_, 2) => NormMode::Layer { axis },
        (_, 3) => NormMode::Rms { axis },
        (_, 4) => NormMode::Group { groups: divisors[which % divisors.len()] },
        _ => NormMode::Instance,
    };
    let x = layouts[0].apply(dtype, dims);
    let sharing = Sharing::new(mode, &x);
    // Where rows are short their variance may be small: then a small epsilon would magnify every rounding.
    let small = if sharing.row_elems() >= 16 { 1e-5 } else { 0.125 };
    let activation = match (pass, words.activation) {
        (NormPass::Finalize, _) | (NormPass::Backward, ActivationMode::Swish) => ActivationMode::Identity,
        (_, activation) => activation,
    };
    let desc = NormDesc::new(mode)
        .epsilon([small, 0.125, 1.0][words.epsilon])
        .activation(activation, 0.75)
        .factor([0.1, 0.25, 1.0][which % 3])
        .unbiased(flags[7]);
    let wide = |flag: bool| if flag { dtype.accumulator() } else { dtype };
    let parameter = layouts[5].apply(wide(flags[0]), &sharing.parameter_extents());
    let other = layouts[6].apply(wide(flags[0]), &sharing.parameter_extents());
    let large = |layout: usize| layouts[layout].apply(dtype, dims);
    let mut tensors = NormTensors::new();
    if flags[1] {
        tensors = tensors.scale(&parameter);
    }
    let has_bias = flags[2];
    let running = mode.has_running_statistics() && flags[3];
    let running = running.then(|| layouts[6].apply(wide(flags[5]), &sharing.statistic_extents()));
    let with_running = |tensors: NormTensors| running.iter().fold(tensors, |tensors, desc| tensors.running(desc));
    let result = match pass {
        NormPass::Forward | NormPass::Inference => {
            tensors = with_running(if has_bias { tensors.bias(&other) } else { tensors });
            if flags[4] {
                tensors = tensors.residual(&large(3));
            }
            if pass == NormPass::Forward && flags[6] {
                tensors = tensors.statistics();
            }
            let make = if pass == NormPass::Forward { NormProblem::forward } else { NormProblem::inference };
            make(&desc, &x, &large(1), &tensors)
        }
        NormPass::Backward => {
            if activation != ActivationMode::Identity {
                tensors = tensors.result(&large(3));
            }
            if flags[6] {
                tensors = tensors.statistics();
            }
            if flags[1] && flags[5] {
                tensors = tensors.dscale(&other);
            }
            if has_bias {
                tensors = tensors.dbias(&parameter);
            }
            if flags[4] {
                tensors = tensors.dresidual(&large(4));
            }
            NormProblem::backward(&desc, &x, &large(2), &large(1), &tensors)
        }
        NormPass::Finalize => {
            // Sums in f64 may have results in f32.
            let sums = if flags[0] { DType::F64 } else { dtype.accumulator() };
            let sum = TensorDesc::packed(sums, &dims[1..2]).expect("a vector is legal");
            let vector = |layout: usize| layouts[layout].apply(dtype.accumulator(), &dims[1..2]);
            let mut tensors = NormTensors::new();
            if flags[1] {
                tensors = tensors.scale(&vector(5));
            }
            if has_bias {
                tensors = tensors.bias(&vector(6));
            }
            if flags[3] {
                tensors = tensors.running(&vector(4));
            }
            NormProblem::finalize(&desc, 1 + 7 * which as i64, &sum, &tensors)
        }
    };
    result.expect("a random problem is legal")
}
