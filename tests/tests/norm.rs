//! Normalization against the reference, its laws and its refusals.

use kernel_abi::DType;
use kernel_abi::ops::norm::{NormDesc, NormMode, NormProblem, NormTensors};
use oxidnn_reference::judge;
use oxidnn_tests::oracle::check_case;
use oxidnn_tests::{Case, Fill, check, check_exact, check_in_place, problems, refusal};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::norm::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn every_algorithm_matches_where_vectors_fit(problem in problems::norm::aligned(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn every_algorithm_matches_on_contiguous_rows(problem in problems::norm::rows(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    /// Also where addresses are no multiples of 16.
    #[test]
    fn contiguous_rows_that_lie_anywhere_match_the_reference(
        problem in problems::norm::rows(),
        shift in 1i64..8,
        seed in any::<u64>(),
    ) {
        check_case(&problem, &Case::normal(seed).scaled(1.5, -0.75).shifted(shift))?;
    }

    /// The backward pass is the forward pass's derivative, by a central difference in x, scale, bias and z together.
    #[test]
    fn the_gradient_is_the_derivative(seed in any::<u64>(), mode in 0usize..6) {
        let (words, c, p) = [
            ("mode=batch", "4", 4),
            ("mode=per_activation", "4x3", 12),
            ("mode=layer axis=2", "3", 3),
            ("mode=rms axis=1", "4x3", 12),
            ("mode=group groups=2", "4", 4),
            ("mode=instance", "4", 4),
        ][mode];
        let words = format!("{words} eps=0.01 act=tanh");
        let forward = judge(&format!("norm:forward {words} x=5x4x3:f64 scale={c}:f64 bias={c}:f64 z=5x4x3:f64")).unwrap();
        let backward = judge(&format!(
            "norm:backward {words} x=5x4x3:f64 scale={c}:f64 dz=5x4x3:f64 dscale={c}:f64 dbias={c}:f64"
        ))
        .unwrap();
        let sizes = [60, p, p, 60];
        let fill = |first: u64| -> Vec<Vec<f64>> {
            (0..4).map(|i| Fill::Normal.values(sizes[i as usize], DType::F64, seed.wrapping_add(first + i))).collect()
        };
        let (at, step) = (fill(0), fill(4));
        let dy = Fill::Normal.values(60, DType::F64, seed.wrapping_add(8));
        let y = |sign: f64| {
            let moved = |i: usize| at[i].iter().zip(&step[i]).map(|(v, s)| v + sign * 1e-6 * s).collect();
            // x, scale, bias, z, and y's prior value.
            let operands: Vec<Vec<f64>> = (0..4).map(moved).chain([vec![0.0; 60]]).collect();
            forward.judge_scaled(&operands, 1.0, 0.0).remove(0)
        };
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let difference = (dot(&dy, &y(1.0)) - dot(&dy, &y(-1.0))) / 2e-6;
        // x, y, dy, scale, and the prior values of what is written.
        let operands = vec![at[0].clone(), y(0.0), dy.clone(), at[1].clone(), vec![], vec![], vec![], vec![]];
        let [dx, dz, dscale, dbias] = backward.judge_scaled(&operands, 1.0, 0.0).try_into().unwrap();
        let gradient = dot(&dx, &step[0]) + dot(&dz, &step[3]) + dot(&dscale, &step[1]) + dot(&dbias, &step[2]);
        prop_assert!((difference - gradient).abs() < 1e-5 * (1.0 + gradient.abs()), "{difference} and {gradient}");
    }
}

/// Rows for a block each, around the lengths that its threads take at a time, far from 0, where squares would lose digits.
#[test]
fn long_rows() {
    for (i, n) in [1024i64, 2048, 8192, 8200, 33_000].into_iter().enumerate() {
        for dtype in ["f32", "f16", "bf16"] {
            for mode in ["layer", "rms"] {
                let words = format!("mode={mode} axis=1 x=2x{n}:{dtype} scale={n}:f32");
                let mean = if mode == "layer" { " mean=2x1:f32" } else { "" };
                let bias = if mode == "layer" { format!(" bias={n}:f32") } else { String::new() };
                let rest = format!(" dscale={n}:f32 dbias={n}:f32");
                for text in [
                    format!("norm:forward {words}{bias}{mean} inv_std=2x1:f32"),
                    format!("norm:backward {words}{rest}"),
                    format!("norm:backward {words}{mean} inv_std=2x1:f32{rest}"),
                ] {
                    let problem: NormProblem = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
                    let fill = Fill::Uniform { low: 9.0, high: 11.0 };
                    let case = Case::normal(i as u64);
                    check_case(&problem, &case.scaled(1.5, -0.75)).unwrap();
                    if text.contains("forward") {
                        check_case(&problem, &Case { fill, ..case }).unwrap();
                    }
                }
            }
        }
    }
}

/// More rows than blocks that stay have in several turns, with rows apart, lengths that leave threads with less, and
/// parameters of both types.
#[test]
fn many_rows() {
    for (i, (n_rows, n, dtype)) in
        [(300i64, 12_288i64, "bf16"), (600, 2072, "f16"), (1400, 1032, "f32")].into_iter().enumerate()
    {
        for (mode, parameters) in [("layer", dtype), ("rms", dtype), ("layer", "f32")] {
            let (x, y) = (format!("{n_rows}x{n}:{dtype}:s{}x1", n + 8), format!("{n_rows}x{n}:{dtype}"));
            let statistics = match mode {
                "layer" => format!("mean={n_rows}x1:f32 inv_std={n_rows}x1:f32"),
                _ => format!("inv_std={n_rows}x1:f32"),
            };
            let p = format!("{n}:{parameters}");
            let bias = if mode == "layer" { format!(" bias={p}") } else { String::new() };
            let dbias = if mode == "layer" { format!(" dbias={p}") } else { String::new() };
            let words = format!("mode={mode} axis=1 x={x} scale={p}");
            for text in [
                format!("norm:forward {words}{bias} y={y} {statistics}"),
                format!("norm:backward {words} dy={y} {statistics} dx={y} dscale={p}{dbias}"),
            ] {
                let problem: NormProblem = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
                check_case(&problem, &Case::normal(i as u64).scaled(1.5, -0.75)).unwrap();
            }
        }
    }
}

/// Channels of too many elements for one block, in every order that elements lie and are shared out in; and few, which a
/// block has all of.
#[test]
fn channels_in_parts_and_whole() {
    for (i, (x, c)) in [
        ("1500x8x3x1:bf16:nhwc", 8),
        ("2x24x50x52:f16:nhwc", 24),
        ("1x8x67x67:f32:nhwc", 8),
        ("140x1x3x3:bf16", 1),
        ("17x2x40x40:f16", 2),
        ("40x8x7x7:bf16", 8),
        ("33x4x3x5:f32", 4),
        ("1x40x7x7:bf16:nhwc", 40),
        ("9x144x14x14:bf16:nhwc", 144),
        ("3x5x8x8:f16", 5),
    ]
    .into_iter()
    .enumerate()
    {
        let p = format!("{c}:f32");
        let statistics = format!("mean={p} inv_std={p}");
        for text in [
            format!(
                "norm:forward mode=batch factor=0.1 x={x} scale={p} bias={p} {statistics} running_mean={p} running_var={p}"
            ),
            format!("norm:forward mode=batch act=relu x={x} scale={p} bias={p} z={x}"),
            format!("norm:backward mode=batch x={x} dy={x} scale={p} {statistics} dx={x} dscale={p} dbias={p}"),
            format!("norm:backward mode=batch x={x} scale={p} dscale={p}"),
            format!("norm:backward mode=batch act=relu x={x} y={x} scale={p} {statistics} dbias={p} dz={x}"),
            format!("norm:inference mode=batch x={x} scale={p} bias={p} running_mean={p} running_var={p}"),
            format!("norm:forward mode=instance x={x} scale={p} bias={p}"),
        ] {
            let problem: NormProblem = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            let case = Case::normal(i as u64);
            check_case(&problem, &case.scaled(1.5, -0.75)).unwrap();
            check_case(&problem, &case.shifted(1 + i as i64 % 7)).unwrap();
        }
    }
}

/// Channels-last tensors of more positions than go into runs of all blocks, without some at the end, whose channels leave
/// threads without; and addresses that no 16 bytes are read at.
#[test]
fn channels_summed_in_runs() {
    let Some(gpu) = oxidnn_tests::gpu("channels_summed_in_runs") else { return };
    // Vectors of which each of 1024 threads of a multiprocessor has four.
    let vectors = 4096 * gpu.info().n_units as i64;
    for (i, (positions, c, dtype)) in [
        (vectors / 9 + 77, 72, "bf16"),
        (vectors / 33 + 1300, 264, "bf16"),
        (vectors / 5 + 3, 20, "f32"),
        // A vector a position: by so many that blocks go over them together.
        (4 * vectors + 1029, 8, "f16"),
    ]
    .into_iter()
    .enumerate()
    {
        let (p, x) = (format!("{c}:f32"), format!("1x{c}x{positions}x1:{dtype}:nhwc"));
        let statistics = format!("mean={p} inv_std={p}");
        let (forward, backward) =
            (format!("norm_channelwise_apply_runs_{dtype}"), format!("norm_channelwise_apply_gradients_runs_{dtype}"));
        for (text, config) in [
            (format!("norm:forward mode=batch x={x} scale={p} bias={p} {statistics}"), forward),
            (format!("norm:backward mode=batch x={x} scale={p} {statistics} dscale={p} dbias={p}"), backward),
        ] {
            // The reference of all passes of the longest would take a minute.
            if c == 8 && text.contains("backward") {
                continue;
            }
            let problem: NormProblem = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            gpu.plan(&problem, oxidnn::Policy::fixed(config)).unwrap();
            let case = Case::normal(i as u64);
            check_case(&problem, &case.scaled(1.5, -0.75)).unwrap();
            if c == 72 {
                check_case(&problem, &case.shifted(3)).unwrap();
            }
            // Far from 0, where squares would lose digits.
            if c == 20 && text.contains("forward") {
                check_case(&problem, &Case { fill: Fill::Uniform { low: 9.0, high: 11.0 }, ..case }).unwrap();
            }
        }
    }
    // Sums of integers that are exact in any order: each position counts once.
    let x = format!("1x72x{}x1:bf16:nhwc", (vectors / 9 + 1).unsigned_abs().next_power_of_two());
    let text =
        format!("norm:backward mode=batch x={x} scale=72:f32 mean=72:f32 inv_std=72:f32 dscale=72:f32 dbias=72:f32");
    check_exact(&text.parse::<NormProblem>().unwrap(), 7, 1).unwrap();
}

/// Channels-last tensors of which a device of few multiprocessors keeps all in shared memory, leaves some to the cache, and
/// gives some to whoever is first; slices of channels that are not alike, few channels that stand there for several positions,
/// and chunks that end beyond the tensor.
#[test]
fn channels_that_stay_on_the_chip() {
    let Some(gpu) = oxidnn_tests::gpu("channels_that_stay_on_the_chip") else { return };
    let units = gpu.info().n_units as i64;
    let of_unit = |chunks: i64, rest: i64| 128 * chunks * units.min(8) + rest;
    for (i, (positions, c, dtype)) in [
        (of_unit(30, 77), 64, "bf16"),
        (of_unit(9, -5), 32, "f16"),
        (of_unit(27, 1), 32, "f32"),
        (of_unit(12, 130), 72, "bf16"),
        (of_unit(4, 0), 200, "f16"),
        (3, 136, "bf16"),
        (of_unit(30, 12), 32, "bf16"),
        (of_unit(8, 8), 8, "bf16"),
        (of_unit(4, 12), 24, "f16"),
        (of_unit(6, 6), 40, "f16"),
        (of_unit(8, 4), 16, "f32"),
        (6, 16, "bf16"),
        (of_unit(5, 9), 144, "bf16"),
        (of_unit(3, 2), 72, "f32"),
    ]
    .into_iter()
    .enumerate()
    {
        let (p, x) = (format!("{c}:f32"), format!("1x{c}x{positions}x1:{dtype}:nhwc"));
        let statistics = format!("mean={p} inv_std={p} running_mean={p} running_var={p}");
        for text in [
            format!("norm:forward mode=batch factor=0.1 x={x} scale={p} bias={p} {statistics}"),
            format!("norm:forward mode=batch act=relu x={x} z={x} scale={c}:{dtype}"),
            format!("norm:backward mode=batch x={x} scale={p} mean={p} inv_std={p} dz={x} dscale={p} dbias={p}"),
            format!("norm:backward mode=batch act=relu x={x} y={x} mean={p} inv_std={p} dz={x} dbias={c}:{dtype}"),
        ] {
            let problem: NormProblem = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            let pass = kernel_abi::Problem::pass(&problem);
            let config = |lanes: u32| format!("norm_{pass}_resident_channels_{dtype}_l{lanes}");
            // 144 channels of 16 bits are what 18 threads have, and two positions of 72.
            let fill_18 = pass == "forward" && (c == 72 || c == 144);
            for lanes in [8, 16].into_iter().chain(fill_18.then_some(18)) {
                gpu.plan(&problem, oxidnn::Policy::fixed(config(lanes))).unwrap();
            }
            let case = Case::normal(i as u64);
            // Far from 0, where squares would lose digits.
            check_case(&problem, &Case { fill: Fill::Uniform { low: 9.0, high: 11.0 }, ..case }).unwrap();
            check_case(&problem, &case.scaled(1.5, -0.75)).unwrap();
        }
        check_in_place(&format!("norm:forward mode=batch x={x} scale={p}").parse::<NormProblem>().unwrap(), "x", 3)
            .unwrap();
    }
}

/// Gradients of small integers over a power of two of positions, whose sums and shares are exact in any order: each position
/// counts once, whoever reads and writes it.
#[test]
fn channels_that_stay_on_the_chip_exactly() {
    let Some(gpu) = oxidnn_tests::gpu("channels_that_stay_on_the_chip_exactly") else { return };
    for (i, (c, dtype)) in [(64, "bf16"), (72, "f16"), (32, "f32"), (16, "bf16")].into_iter().enumerate() {
        let (p, x) = (format!("{c}:f32"), format!("8x{c}x32x64:{dtype}:nhwc"));
        for text in [
            format!("norm:backward mode=batch x={x} scale={p} mean={p} inv_std={p} dscale={p} dbias={p}"),
            format!("norm:backward mode=batch act=relu x={x} y={x} mean={p} inv_std={p} dz={x} dbias={p}"),
        ] {
            // The reference of all passes of the longest would take a minute.
            if c == 8 && text.contains("backward") {
                continue;
            }
            let problem: NormProblem = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            gpu.plan(&problem, oxidnn::Policy::fixed(format!("norm_backward_resident_channels_{dtype}_l8"))).unwrap();
            check_exact(&problem, i as u64, 1).unwrap();
        }
    }
}

/// Planar tensors whose channels stay on the chip: one at a time and by groups, whole planes and pieces, more rounds than
/// stages and less, blocks with a unit more than others.
#[test]
fn planes_that_stay_on_the_chip() {
    let Some(gpu) = oxidnn_tests::gpu("planes_that_stay_on_the_chip") else { return };
    for (i, (x, vector)) in [
        ("9x37x8x7:bf16", 16),
        ("67x6x14x14:f16", 8),
        ("5x48x7x7:bf16", 2),
        ("3x5x64x160:f16", 16),
        ("3x20x5x6:f32", 8),
        ("33x8x3x3:f32", 4),
        ("2x9x4x6x10:bf16", 16),
        ("1x2x9x2000:f32", 16),
    ]
    .into_iter()
    .enumerate()
    {
        let c = x.split('x').nth(1).unwrap();
        let dtype = x.split(':').nth(1).unwrap();
        let p = format!("{c}:f32");
        let statistics = format!("mean={p} inv_std={p} running_mean={p} running_var={p}");
        for text in [
            format!("norm:forward mode=batch factor=0.1 x={x} scale={p} bias={p} {statistics}"),
            format!("norm:forward mode=batch act=relu x={x} z={x} scale={c}:{dtype}"),
            format!("norm:backward mode=batch x={x} scale={p} mean={p} inv_std={p} dscale={p} dbias={p}"),
            format!("norm:backward mode=batch act=relu x={x} y={x} mean={p} inv_std={p} dz={x} dbias={c}:{dtype}"),
        ] {
            let problem: NormProblem = text.parse().unwrap_or_else(|e| panic!("{text}: {e}"));
            let pass = kernel_abi::Problem::pass(&problem);
            let config = format!("norm_{pass}_resident_planes_{dtype}_w{vector}");
            gpu.plan(&problem, oxidnn::Policy::fixed(config)).unwrap();
            let case = Case::normal(i as u64);
            // Far from 0, where squares would lose digits.
            check_case(&problem, &Case { fill: Fill::Uniform { low: 9.0, high: 11.0 }, ..case }).unwrap();
            check_case(&problem, &case).unwrap();
            check_case(&problem, &case.scaled(1.5, -0.75)).unwrap();
        }
        check_in_place(&format!("norm:forward mode=batch x={x} scale={p}").parse::<NormProblem>().unwrap(), "x", 3)
            .unwrap();
    }
}

#[test]
fn refusals_of_planes_that_stay_on_the_chip() {
    let Some(gpu) = oxidnn_tests::gpu("refusals_of_planes_that_stay_on_the_chip") else { return };
    let refused = |text: &str| refusal(&gpu, &text.parse::<NormProblem>().unwrap(), "resident_planes");
    let x = "x=4x64x9x8:bf16";
    assert!(refused(&format!("norm:inference mode=batch {x}")).contains("takes forward and backward, given inference"));
    assert!(refused(&format!("norm:backward mode=batch {x}")).contains("takes mean and inv_std for backward"));
    assert!(refused(&format!("norm:forward mode=instance {x}")).contains("takes batch, given instance"));
    assert!(refused(&format!("norm:forward mode=batch act=tanh {x}")).contains("given the activation tanh"));
    assert!(refused("norm:forward mode=batch x=4x64x9x8:f64").contains("has no kernel for pass"));
    for x in ["4x64x9x8:bf16:nhwc", "4x64x1x1:bf16"] {
        let reason = refused(&format!("norm:forward mode=batch x={x}"));
        assert!(reason.contains("takes planes without gaps"), "{reason}");
    }
    let reason = refused("norm:forward mode=batch x=4x12x7x7:bf16");
    assert!(reason.contains("takes planes of 98 bytes by 8, one behind the other, given 12 channels"), "{reason}");
    let reason = refused("norm:forward mode=batch x=4x2x16411x8:bf16");
    assert!(reason.contains("cut into equal runs of 1024 to 32768, given 262576"), "{reason}");
    let reason = refused(&format!("norm:forward mode=batch x={}x1x256x256:bf16", gpu.info().n_units));
    assert!(reason.contains("bytes of a channel at a time, given"), "{reason}");
}

#[test]
fn refusals_of_channels_that_stay_on_the_chip() {
    let Some(gpu) = oxidnn_tests::gpu("refusals_of_channels_that_stay_on_the_chip") else { return };
    let refused = |text: &str| refusal(&gpu, &text.parse::<NormProblem>().unwrap(), "resident_channels");
    let x = "x=4x64x9x9:bf16:nhwc";
    assert!(refused(&format!("norm:inference mode=batch {x}")).contains("takes forward and backward, given inference"));
    assert!(refused(&format!("norm:backward mode=batch {x}")).contains("takes mean and inv_std for backward"));
    let given = "mean=64:f32 inv_std=64:f32";
    assert!(
        refused(&format!("norm:backward mode=batch act=elu {x} y=4x64x9x9:bf16:nhwc {given}"))
            .contains("given the activation elu")
    );
    assert!(
        refused(&format!("norm:backward mode=batch x=4x64x9x9:bf16 {given}")).contains("takes channels-last tensors")
    );
    assert!(refused(&format!("norm:forward mode=instance {x}")).contains("takes batch, given instance"));
    assert!(refused(&format!("norm:forward mode=batch act=tanh {x}")).contains("given the activation tanh"));
    assert!(refused("norm:forward mode=batch x=4x64x9x9:f64:nhwc").contains("has no kernel for pass"));
    for x in ["4x64x9x9:bf16", "40x8x7x7:bf16", "4x60x9x9:bf16:nhwc", "4x10x9x9:f32:nhwc"] {
        let reason = refused(&format!("norm:forward mode=batch x={x}"));
        assert!(reason.contains("takes channels-last tensors without gaps between images, channels in"), "{reason}");
    }
    for (x, least, given) in [("1x24x7x1:bf16:nhwc", 32, 24), ("1x8x1x1:f32:nhwc", 16, 8)] {
        let reason = refused(&format!("norm:forward mode=batch x={x}"));
        let expected = format!("takes {least} channels and more of positions that follow one another, given {given}");
        assert!(reason.contains(&expected), "{reason}");
    }
    // Beyond what rows of 18 threads take too, which fit some numbers of channels.
    let most = gpu.info().n_units * 144;
    let reason = refused(&format!("norm:forward mode=batch x=1x{}x2x1:bf16:nhwc", most + 8));
    assert!(reason.contains("channels here, given"), "{reason}");
}

#[test]
fn refusals_of_long_rows() {
    let Some(gpu) = oxidnn_tests::gpu("refusals_of_long_rows") else { return };
    let refused = |text: &str| refusal(&gpu, &text.parse::<NormProblem>().unwrap(), "looped_rows");
    let layer = |rest: &str| refused(&format!("norm:forward mode=layer axis=1 {rest}"));
    assert!(layer("x=3x1020:f32").contains("takes rows of 1024 to 1073741824 elements, given 1020"));
    assert!(layer("x=3x4096:f64").contains("has no kernel for pass forward with f64"));
    assert!(layer("x=3x4095:f32").contains("multiples of 4 elements, a row has 4095"));
    assert!(layer("act=relu x=3x4096:f32").contains("takes no activation, given relu"));
    assert!(layer("x=3x4096:f32 z=3x4096:f32").contains("takes no z"));
}

#[test]
fn results_in_place_have_the_same_bits() {
    for (i, n) in [64, 4096, 12_288, 40_000].into_iter().enumerate() {
        for dtype in ["f32", "f16"] {
            let text = format!("norm:forward mode=layer axis=1 x=3x{n}:{dtype} scale={n}:f32 bias={n}:f32");
            check_in_place(&text.parse::<NormProblem>().unwrap(), "x", i as u64).unwrap();
        }
    }
}

/// What the formulas say, by hand: two channels of [1, 3] and [2, 2].
#[test]
fn small_numbers() {
    let run = |text: &str, operands: &[&[f64]]| {
        let operands: Vec<Vec<f64>> = operands.iter().map(|values| values.to_vec()).collect();
        judge(text).unwrap().judge_scaled(&operands, 1.0, 0.0)
    };
    let x: &[f64] = &[1.0, 2.0, 3.0, 2.0];
    let results = run(
        "norm:forward mode=batch eps=3 factor=0.5 x=2x2:f64 scale=2:f64 mean=2:f64 inv_std=2:f64 running_mean=2:f64",
        &[x, &[4.0, 1.0], &[0.0; 4], &[0.0; 2], &[0.0; 2], &[0.0, 1.0], &[1.0, 1.0]],
    );
    assert_eq!(results[0], [-2.0, 0.0, 2.0, 0.0]);
    assert_eq!(results[1], [2.0, 2.0]);
    assert_eq!(results[2], [0.5, 1.0 / 3f64.sqrt()]);
    assert_eq!(results[3], [1.0, 1.5]);
    // The variance 1 of two numbers, corrected: 2.
    assert_eq!(results[4], [1.5, 0.5]);
    let plain = "norm:forward mode=batch factor=0.5 unbiased=0 x=2x2:f64 running_mean=2:f64";
    assert_eq!(run(plain, &[x, &[0.0; 4], &[0.0, 1.0], &[1.0, 1.0]])[2], [1.0, 0.5]);
    // The mean of squares of [4, 8] is 40, with eps 24 its root is 8.
    assert_eq!(run("norm:forward mode=rms eps=24 x=1x2:f64", &[&[4.0, 8.0], &[0.0; 2]])[0], [0.5, 1.0]);
    let sums = "norm:finalize mode=batch eps=3 count=2 sum=2:f64 scale=2:f64";
    let results = run(sums, &[&[4.0, 4.0], &[10.0, 8.0], &[4.0, 1.0], &[], &[], &[], &[]]);
    assert_eq!((results[2][0], results[3][0]), (2.0, -4.0));
}

/// Instance norm is batch norm of one image, and group norm with a group for each channel.
#[test]
fn modes_agree_where_they_are_the_same() {
    let x = Fill::Normal.values(60, DType::F64, 7);
    let scale = Fill::Normal.values(4, DType::F64, 8);
    let y = |words: &str, n: &str| {
        let problem = judge(&format!("norm:forward {words} x={n}x5x3:f64 scale=4:f64")).unwrap();
        problem.judge_scaled(&[x.clone(), scale.clone(), vec![]], 1.0, 0.0).remove(0)
    };
    assert_eq!(y("mode=instance", "1x4"), y("mode=batch", "1x4"));
    assert_eq!(y("mode=instance", "1x4"), y("mode=group groups=4", "1x4"));
    let layer = judge("norm:forward mode=layer axis=1 x=1x4x5x3:f64").unwrap();
    let group = judge("norm:forward mode=group groups=1 x=1x4x5x3:f64").unwrap();
    let operands = [x, vec![]];
    assert_eq!(layer.judge_scaled(&operands, 1.0, 0.0), group.judge_scaled(&operands, 1.0, 0.0));
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<NormProblem>().unwrap_err().to_string();
    assert!(text("norm:forward mode=batch x=4:f32").contains("bad x: expected a rank of at least 2"));
    assert!(text("norm:forward mode=layer axis=2 x=4x2:f32").contains("one of the 2 dimensions of x, given 2"));
    assert!(text("norm:forward mode=group groups=3 x=4x8:f32").contains("divisor of the 8 channels of x, given 3"));
    assert!(
        text("norm:forward mode=group groups=2 x=1x2x1x1x1x1x1x1:f32").contains("at most 7 for mode group, given 8")
    );
    assert!(text("norm:forward mode=none x=4x8:f32").contains("given \"none\""));
    assert!(
        text("norm:forward mode=batch eps=-1 x=4x8:f32").contains("bad eps: expected a finite number of at least 0")
    );
    assert!(text("norm:forward mode=batch factor=2 x=4x8:f32 running_mean=8:f32").contains("from 0 to 1, given 2"));
    assert!(text("norm:forward mode=batch unbiased=2 x=4x8:f32").contains("expected 0 or 1, given 2"));
    assert!(text("norm:forward mode=batch act=clipped_relu coef=-1 x=4x8:f32").contains("at least 0, given -1"));
    assert!(text("norm:forward mode=batch act=gelu x=4x8:f32").contains("given gelu"));
    assert!(text("norm:forward mode=batch x=4x8:i8").contains("one of the element types f32"));
    assert!(text("norm:forward mode=batch x=4x8:f32 y=8x4:f32").contains("bad y: expected the extents 4x8 of x"));
    assert!(text("norm:forward mode=batch x=4x8:f32 z=4x8:f16").contains("bad z: expected the element type f32 of x"));
    assert!(text("norm:forward mode=batch x=4x8:f32 y=4x8:f32:s0x1").contains("do not overlap"));
    assert!(text("norm:forward mode=batch x=4x8:f32 scale=4:f32").contains("extents 8 of the parameters, given 4"));
    assert!(
        text("norm:forward mode=batch x=4x8:f16 scale=8:bf16").contains("element type f16 of x or f32, given bf16")
    );
    let mixed = text("norm:forward mode=batch x=4x8:f16 scale=8:f16 bias=8:f32");
    assert!(mixed.contains("bad bias: expected the element type f16 of scale, given f32"), "{mixed}");
    assert!(text("norm:forward mode=layer x=4x8:f32 running_mean=4x1:f32").contains("expected none for mode layer"));
    assert!(text("norm:forward mode=batch x=4x8:f32 running_mean=4:f32").contains("extents 8 of the rows, given 4"));
    assert!(text("norm:forward mode=batch x=4x8:f32 running_mean=8:f32:s0").contains("do not overlap"));
    let pair = text("norm:forward mode=batch x=4x8:f32 running_mean=8:f32 running_var=4:f32");
    assert!(pair.contains("form of running_mean, 8:f32, given 4:f32"), "{pair}");
    assert!(text("norm:forward mode=layer x=4x8:f32 mean=4:f32").contains("bad mean: expected 4x1:f32, given 4:f32"));
    assert!(text("norm:forward mode=rms x=4x8:f32 mean=4x1:f32").contains("expected none for mode rms"));
    assert!(text("norm:inference mode=layer x=4x8:f32").contains("expected batch or per_activation for inference"));
    assert!(text("norm:inference mode=batch x=4x8:f32 mean=8:f32").contains("given mean"));
    assert!(text("norm:backward mode=batch act=swish x=4x8:f32").contains("given swish"));
    assert!(text("norm:backward mode=batch x=4x8:f32 y=4x8:f32").contains("expected no y without an activation"));
    assert!(text("norm:backward mode=batch x=4x8:f32 dscale=8:f32").contains("expected no dscale without a scale"));
    assert!(text("norm:backward mode=batch x=4x8:f32 dbias=8:f32:s0").contains("do not overlap"));
    assert!(text("norm:backward mode=batch x=4x8:f32 dz=4x8:f32:s0x1").contains("bad dz"));
    assert!(text("norm:backward mode=batch x=4x8:f32 z=4x8:f32").contains("given z"));
    assert!(text("norm:finalize mode=layer count=2 sum=8:f32").contains("expected batch for finalize"));
    assert!(text("norm:finalize mode=batch count=0 sum=8:f32").contains("expected at least 1, given 0"));
    assert!(text("norm:finalize mode=batch count=2 act=relu sum=8:f32").contains("expected none for finalize"));
    assert!(text("norm:finalize mode=batch count=2 sum=8:f16").contains("packed vector of f32 or f64, given 8:f16"));
    assert!(text("norm:finalize mode=batch count=2 sum=8:f32 eq_bias=4:f32").contains("expected 8:f32, given 4:f32"));
    let x = "4x8:f32".parse().unwrap();
    let relu = NormDesc::new(NormMode::Batch).activation(oxidnn::ops::activation::ActivationMode::Relu, 0.0);
    let missing = NormProblem::backward(&relu, &x, &x, &x, &NormTensors::new()).unwrap_err().to_string();
    assert!(missing.contains("bad y: expected y for the activation relu, given none"), "{missing}");
}
