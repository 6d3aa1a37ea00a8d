//! Normalization of rows at the edge of the number range: equal and nearly equal large numbers, outliers, infinities, and
//! numbers whose squares overflow. Expected values are made here, of differences from an element of the row, and tolerances
//! are relative to the row's own deviation.

use kernel_abi::ops::norm::NormProblem;
use kernel_abi::{DType, Problem, Role};
use oxidnn::operators::AnyProblem;
use oxidnn::{Args, Context, Plan, Policy, Verdict, Workspace};
use oxidnn_tests::edges;
use oxidnn_tests::oracle::contexts;
use proptest::prelude::*;

/// What a row holds.
#[derive(Clone, Copy, Debug)]
enum Kind {
    /// One number.
    Equal(f64),
    /// Numbers from the first on, so far apart.
    Steps(f64, f64),
    /// Small numbers and one large one, at a place.
    Outlier(f64, usize),
    /// Large numbers of both signs, and small ones beside them.
    Alternating(f64),
    /// Small numbers times this.
    Times(f64),
    /// Small numbers and one that is not finite, at a place.
    NotFinite(f64, usize),
}

impl Kind {
    /// Element `i` of a row of `n`.
    fn element(self, i: usize, n: usize) -> f64 {
        let small = [0.5, -1.25, 0.75, 2.0, -0.375, -1.0, 0.125][i % 7] + (i % 64) as f64 / 128.0;
        match self {
            Kind::Equal(value) => value,
            Kind::Steps(first, step) => first + i as f64 * step,
            Kind::Outlier(value, place) | Kind::NotFinite(value, place) if i == place % n => value,
            Kind::Outlier(..) | Kind::NotFinite(..) => small,
            Kind::Alternating(value) => (if i.is_multiple_of(2) { value } else { -value }) + small,
            Kind::Times(factor) => small * factor,
        }
    }
}

/// The element as a tensor of the type holds it.
fn stored(value: f64, dtype: DType) -> f64 {
    match dtype {
        DType::F64 => value,
        DType::F32 => f64::from(value as f32),
        // Cut off: any number of the type does.
        _ => f64::from(f32::from_bits((value as f32).to_bits() & 0xffff_0000)),
    }
}

/// x̂ of a row, of differences from the element in the middle of its order.
fn normal(row: &[f64], epsilon: f64) -> Vec<f64> {
    if row.iter().any(|x| !x.is_finite()) {
        return vec![f64::NAN; row.len()];
    }
    let largest = row.iter().fold(0.0f64, |largest, x| largest.max(x.abs()));
    let scale = if largest > 1e100 { 2f64.powi(-600) } else { 1.0 };
    let scaled: Vec<f64> = row.iter().map(|x| x * scale).collect();
    let mut sorted = scaled.clone();
    sorted.sort_by(f64::total_cmp);
    let pivot = sorted[sorted.len() / 2];
    let n = row.len() as f64;
    let mean = scaled.iter().map(|x| x - pivot).sum::<f64>() / n;
    let variance = scaled.iter().map(|x| (x - pivot - mean) * (x - pivot - mean)).sum::<f64>() / n;
    let root = (variance + epsilon * scale * scale).sqrt();
    scaled.iter().map(|x| (x - pivot - mean) / root).collect()
}

/// Of each element its row.
fn rows_of(mode: &str, dims: &[usize]) -> Vec<usize> {
    let (images, channels) = (dims[0], dims[1]);
    let positions: usize = dims[2..].iter().product();
    (0..images * channels * positions)
        .map(|i| {
            let (image, channel) = (i / (channels * positions), i / positions % channels);
            match mode {
                "batch" => channel,
                "layer axis=1" => image,
                "instance" => image * channels + channel,
                _ => image * 2 + channel / (channels / 2),
            }
        })
        .collect()
}

/// Runs a plan on x and gives y, in the order of memory.
fn run(context: &Context, plan: &Plan, x: &[f64], dtype: DType) -> Result<Vec<f64>, oxidnn::Error> {
    let stream = context.stream()?;
    let mut workspace = Workspace::new(context, plan.workspace_bytes())?;
    let bytes: Vec<u8> = match dtype {
        DType::F64 => x.iter().flat_map(|x| x.to_le_bytes()).collect(),
        DType::F32 => x.iter().flat_map(|&x| (x as f32).to_le_bytes()).collect(),
        _ => x.iter().flat_map(|&x| (((x as f32).to_bits() >> 16) as u16).to_le_bytes()).collect(),
    };
    let operands = plan.operands();
    let mut from = context.tensor(&operands[0].desc)?;
    let mut to = context.tensor(&operands[1].desc)?;
    from.write_bytes(&stream, &bytes)?;
    plan.run(&stream, Args::new().input("x", &from).output("y", &mut to), &mut workspace)?;
    let bytes = to.to_bytes(&stream)?;
    Ok(match dtype {
        DType::F64 => bytes.chunks_exact(8).map(|b| f64::from_le_bytes(b.try_into().unwrap_or_default())).collect(),
        DType::F32 => {
            bytes.chunks_exact(4).map(|b| f64::from(f32::from_le_bytes(b.try_into().unwrap_or_default()))).collect()
        }
        _ => bytes.chunks_exact(2).map(|b| f64::from(f32::from_bits(u32::from_le_bytes([0, 0, b[0], b[1]])))).collect(),
    })
}

/// Every algorithm on every device, on rows of a kind; y is off by at most `tolerance` beside the rounding to its type.
fn check(words: &str, dims: &[usize], layout: &str, dtype: DType, kind: Kind, tolerance: f64) -> Result<(), String> {
    let shape: Vec<String> = dims.iter().map(usize::to_string).collect();
    let text = format!("norm:forward mode={words} x={}:{dtype}{layout}", shape.join("x"));
    let problem: NormProblem = text.parse().map_err(|e| format!("{text}: {e}"))?;
    let mode = words.split(" eps").next().unwrap_or(words);
    let rows = rows_of(mode, dims);
    let n = rows.len() / (1 + rows.iter().max().copied().unwrap_or(0));
    let mut places = vec![0; rows.len()];
    let x: Vec<f64> = rows
        .iter()
        .map(|&row| {
            let place = places[row];
            places[row] += 1;
            stored(kind.element(place, n), dtype)
        })
        .collect();
    let mut expected = vec![0.0; x.len()];
    for row in 0..=rows.iter().max().copied().unwrap_or(0) {
        let of_row: Vec<usize> = (0..x.len()).filter(|&i| rows[i] == row).collect();
        let values: Vec<f64> = of_row.iter().map(|&i| x[i]).collect();
        of_row.iter().zip(normal(&values, problem.epsilon())).for_each(|(&i, y)| expected[i] = y);
    }
    // In the order of memory.
    let operands = Problem::operands(&problem);
    let order = |values: &[f64]| {
        let mut ordered = vec![0.0; values.len()];
        values.iter().enumerate().for_each(|(i, &v)| ordered[operands[0].desc.offset_of(i as i64) as usize] = v);
        ordered
    };
    let (x, expected) = (order(&x), order(&expected));
    let rounding = match dtype {
        DType::F64 | DType::F32 => 0.0,
        _ => 2f64.powi(-8),
    };
    for context in contexts() {
        let candidates = AnyProblem::candidates(&problem, context);
        for candidate in candidates.iter().filter(|c| matches!(c.verdict, Verdict::Able { .. })) {
            let name = if context.is_gpu() { candidate.config } else { candidate.algorithm };
            if candidate.algorithm.starts_with("resident") && matches!(kind, Kind::Times(factor) if factor > 1e18) {
                // Squares beyond the type's range are not summed again there.
                continue;
            }
            let plan = context.plan(&problem, Policy::fixed(name)).map_err(|e| e.to_string())?;
            let got = run(context, &plan, &x, dtype).map_err(|e| e.to_string())?;
            for (i, (&got, &expected)) in got.iter().zip(&expected).enumerate() {
                let close = match expected {
                    e if e.is_nan() => got.is_nan(),
                    // Of equal numbers nothing is left.
                    e if matches!(kind, Kind::Equal(_)) => got == e,
                    e => (got - e).abs() <= (tolerance + rounding) * (1.0 + e.abs()),
                };
                if !close {
                    return Err(format!("{text}, {kind:?}, {name}: element {i} is {got}, expected {expected}"));
                }
            }
        }
    }
    Ok(())
}

/// Dimensions, and how they lie, of rows that threads hold, rows that blocks go along, channels and groups.
fn shapes() -> impl Strategy<Value = (&'static str, Vec<usize>, &'static str)> {
    prop_oneof![
        (1usize..3, 1usize..90).prop_map(|(n, c)| ("layer axis=1", vec![n, 8 * c], "")),
        (1usize..3, 1usize..300).prop_map(|(n, c)| ("layer axis=1", vec![n, c], "")),
        (1usize..4, 1usize..4, 2usize..9).prop_map(|(n, c, p)| ("batch", vec![n, 8 * c, p, p], ":nhwc")),
        (1usize..4, 1usize..6, 2usize..9).prop_map(|(n, c, p)| ("batch", vec![n, c, p, p], "")),
        (1usize..3, 1usize..4, 2usize..9).prop_map(|(n, c, p)| ("instance", vec![n, c, p, p], "")),
        (1usize..3, 1usize..3, 2usize..9).prop_map(|(n, c, p)| ("instance", vec![n, 8 * c, p, p], ":nhwc")),
        (1usize..3, 1usize..3, 2usize..9).prop_map(|(n, c, p)| ("group groups=2", vec![n, 8 * c, p, p], ":nhwc")),
        (1usize..3, 1usize..3, 2usize..9).prop_map(|(n, c, p)| ("group groups=2", vec![n, 2 * c, p, p], "")),
    ]
}

fn kinds() -> impl Strategy<Value = Kind> {
    let number = prop_oneof![-1e5f64..1e5, -1e10f64..1e10, Just(8191.3), Just(-7.3e9), Just(1e30), Just(3e38)];
    prop_oneof![
        number.prop_map(Kind::Equal),
        (1e3f64..1e6, 1e-8f64..1e-5).prop_map(|(first, step)| Kind::Steps(first, first * step)),
        (prop_oneof![Just(1e8), Just(-1e8), Just(1e20)], 0usize..1000).prop_map(|(v, at)| Kind::Outlier(v, at)),
        prop_oneof![Just(1e8), Just(1e4)].prop_map(Kind::Alternating),
        prop_oneof![Just(1e30), Just(1e25), Just(1e19), Just(1e12)].prop_map(Kind::Times),
        (prop_oneof![Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(f64::NAN)], 0usize..1000)
            .prop_map(|(v, at)| Kind::NotFinite(v, at)),
    ]
}

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn rows_at_the_edge_are_normal((mode, dims, layout) in shapes(), kind in kinds(), dtype in 0usize..3) {
        let (dtype, tolerance) = [(DType::F32, 4e-6), (DType::F64, 1e-12), (DType::BF16, 4e-6)][dtype];
        check(mode, &dims, layout, dtype, kind, tolerance).map_err(TestCaseError::fail)?;
    }
}

/// The rows that were reported.
#[test]
fn reported_rows() {
    let f32s = [
        ("layer axis=1", vec![8, 16], "", Kind::Steps(10000.0, 1e-3), 1e-6),
        ("layer axis=1", vec![4, 12000], "", Kind::Equal(8191.3), 0.0),
        ("layer axis=1", vec![1, 12000], "", Kind::Equal(-7.3e9), 0.0),
        ("layer axis=1", vec![1, 33_000], "", Kind::Equal(8191.3), 0.0),
        ("layer axis=1", vec![1, 33_000], "", Kind::Outlier(1e8, 0), 1e-5),
        ("layer axis=1", vec![2, 4096], "", Kind::Outlier(1e8, 0), 1e-5),
        ("layer axis=1", vec![2, 4096], "", Kind::Times(1e30), 4e-6),
        ("batch", vec![4, 8, 16, 16], ":nhwc", Kind::Equal(8191.3), 0.0),
        ("batch", vec![4, 3, 16, 16], "", Kind::Equal(-7.3e9), 0.0),
        ("batch", vec![2, 8, 8, 8], ":nhwc", Kind::Times(1e30), 4e-6),
        ("instance", vec![2, 3, 16, 16], "", Kind::Times(1e30), 4e-6),
        ("group groups=2", vec![2, 4, 8, 8], "", Kind::Times(1e30), 4e-6),
        ("batch", vec![2, 8, 8, 8], ":nhwc", Kind::Steps(10000.0, 1e-3), 2e-6),
        ("layer axis=1", vec![2, 64], "", Kind::Times(1e38), 4e-6),
        ("layer axis=1 eps=0", vec![2, 64], "", Kind::Times(1e-30), 4e-6),
    ];
    for (mode, dims, layout, kind, tolerance) in f32s {
        check(mode, &dims, layout, DType::F32, kind, tolerance).unwrap();
    }
    check("layer axis=1", &[3, 40], "", DType::F64, Kind::Times(1e300), 1e-12).unwrap();
    check("layer axis=1", &[3, 40], "", DType::F64, Kind::Steps(1e8, 1e-7), 1e-12).unwrap();
    check("layer axis=1 eps=0", &[3, 40], "", DType::F64, Kind::Times(1e-300), 1e-12).unwrap();
}

/// Gradients where no statistics are given: those that are found keep what the rounding of the mean takes away.
#[test]
fn gradients_by_own_statistics() {
    let cases = [
        ("layer axis=1", vec![8, 16], ""),
        ("layer axis=1", vec![2, 1024], ""),
        ("layer axis=1", vec![2, 20_000], ""),
        ("batch", vec![2, 8, 4, 4], ":nhwc"),
        ("batch", vec![2, 3, 4, 4], ""),
        ("batch", vec![2, 64, 16, 16], ":nhwc"),
    ];
    for (mode, dims, layout) in cases {
        let shape: Vec<String> = dims.iter().map(usize::to_string).collect();
        let (x_text, n_params) = (shape.join("x"), dims[1]);
        let text = format!(
            "norm:backward mode={mode} x={x_text}:f32{layout} scale={n_params}:f32 dscale={n_params}:f32 dbias={n_params}:f32"
        );
        let problem: NormProblem = text.parse().unwrap();
        let rows = rows_of(mode, &dims);
        let n_rows = 1 + rows.iter().max().unwrap();
        let n = rows.len() / n_rows;
        let positions: usize = dims[2..].iter().product();
        let mut places = vec![0; n_rows];
        let x: Vec<f64> = rows
            .iter()
            .map(|&row| {
                let place = places[row];
                places[row] += 1;
                // Steps of a unit in the last place: the mean lies between two numbers.
                stored(10000.0 + (place * 7 % 5) as f64 / 1024.0, DType::F32)
            })
            .collect();
        // Gradients of one sign show a mean that is off.
        let dy: Vec<f64> = (0..x.len()).map(|i| stored(1.0 + (i % 13) as f64 / 16.0, DType::F32)).collect();
        let scale: Vec<f64> = (0..n_params).map(|c| stored(0.5 + (c % 3) as f64, DType::F32)).collect();
        let (mut dx, mut dscale) = (vec![0.0; x.len()], vec![0.0; n_params]);
        for row in 0..n_rows {
            let of_row: Vec<usize> = (0..x.len()).filter(|&i| rows[i] == row).collect();
            let values: Vec<f64> = of_row.iter().map(|&i| x[i]).collect();
            let mean = values.iter().map(|x| x - 10000.0).sum::<f64>() / n as f64;
            let squares = values.iter().map(|x| (x - 10000.0 - mean) * (x - 10000.0 - mean)).sum::<f64>();
            let inv_std = 1.0 / (squares / n as f64 + problem.epsilon()).sqrt();
            let normal = normal(&values, problem.epsilon());
            let h: Vec<f64> = of_row.iter().map(|&i| dy[i] * scale[i / positions % n_params]).collect();
            let shift = h.iter().sum::<f64>() / n as f64;
            let tilt = h.iter().zip(&normal).map(|(h, x)| h * x).sum::<f64>() / n as f64;
            for ((&i, &normal), h) in of_row.iter().zip(&normal).zip(&h) {
                dx[i] = inv_std * (h - shift - normal * tilt);
                dscale[i / positions % n_params] += dy[i] * normal;
            }
        }
        let operands = Problem::operands(&problem);
        let values: Vec<Vec<f64>> = operands
            .iter()
            .map(|operand| match operand.name {
                "x" => x.clone(),
                "dy" => dy.clone(),
                "scale" => scale.clone(),
                _ => vec![0.0; operand.desc.n_elems() as usize],
            })
            .collect();
        for context in contexts() {
            for candidate in edges::able(&problem, context) {
                let got = edges::run(&problem, context, &candidate, &values).unwrap();
                let written = operands.iter().filter(|operand| operand.role != Role::Input);
                for (operand, got) in written.zip(&got) {
                    let (expected, size) = match operand.name {
                        "dx" => (&dx, 2000.0),
                        "dscale" => (&dscale, (x.len() / n_params) as f64),
                        _ => continue,
                    };
                    for (i, (got, expected)) in got.iter().zip(expected).enumerate() {
                        assert!(
                            (got - expected).abs() <= 2e-6 * size,
                            "{text} {} {}: {i} is {got}, expected {expected}",
                            candidate.config,
                            operand.name
                        );
                    }
                }
            }
        }
    }
}
