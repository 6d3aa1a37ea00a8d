//! Resampling and grid sampling at their edges: places that are ties or integers of extents, coordinates of any magnitude.

use kernel_abi::TensorDesc;
use kernel_abi::ops::gridsample::{GridPadding, GridSampleMode, GridSampleProblem};
use kernel_abi::ops::resample::{Coordinates, NearestRound, ResampleDesc, ResampleMode, ResampleProblem};
use oxidnn::{Args, Context, DType, Policy};
use oxidnn_tests::{check_exact, contexts};
use proptest::prelude::*;

/// Coordinates whose places are fractions of the extents.
const FRACTIONS: [Coordinates; 5] = [
    Coordinates::HalfPixel,
    Coordinates::PytorchHalfPixel,
    Coordinates::HalfPixelSymmetric,
    Coordinates::Asymmetric,
    Coordinates::AlignCorners,
];

/// The element that ONNX's Resize takes, by integers alone.
fn nearest(coordinates: Coordinates, round: NearestRound, [image, outputs]: [i64; 2], p: i64) -> i64 {
    let [h, n, p] = [image, outputs, p].map(i128::from);
    // The place is a / b.
    let (a, b) = match coordinates {
        Coordinates::Asymmetric => (p * h, n),
        Coordinates::AlignCorners if n == 1 => (0, 1),
        Coordinates::AlignCorners => (p * (h - 1), n - 1),
        Coordinates::PytorchHalfPixel if n == 1 => (0, 1),
        _ => (2 * p * h + h - n, 2 * n),
    };
    let floor = |a: i128, b: i128| a.div_euclid(b);
    let ceil = |a: i128, b: i128| -(-a).div_euclid(b);
    let at = match round {
        NearestRound::Floor => floor(a, b),
        NearestRound::Ceil => ceil(a, b),
        NearestRound::PreferFloor => ceil(2 * a - b, 2 * b),
        NearestRound::PreferCeil => floor(2 * a + b, 2 * b),
    };
    at.clamp(0, h - 1) as i64
}

fn descs() -> impl Iterator<Item = (Coordinates, NearestRound, ResampleDesc)> {
    FRACTIONS.into_iter().flat_map(|coordinates| {
        NearestRound::ALL.iter().map(move |&round| {
            (coordinates, round, ResampleDesc::new(ResampleMode::Nearest).coordinates(coordinates).round(round))
        })
    })
}

fn row(extent: i64) -> TensorDesc {
    TensorDesc::packed(DType::F32, &[1, 1, extent]).unwrap()
}

/// What the CPU makes of the numbers 0, 1, 2, ….
fn on_cpu(context: &Context, problem: &ResampleProblem) -> Vec<f32> {
    let stream = context.stream().unwrap();
    let plan = context.plan(problem, Policy::Heuristic).unwrap();
    let x: Vec<f32> = (0..problem.x().n_elems()).map(|i| i as f32).collect();
    let x = context.tensor_from(problem.x(), &x).unwrap();
    let mut y = context.tensor(problem.y()).unwrap();
    let args = Args::new().input("x", &x).output("y", &mut y);
    plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
    y.to_vec(&stream).unwrap()
}

const MOST: i64 = 129;

/// The neighbour that the shared computation takes, for all extents, all coordinates and all ways to round.
#[test]
fn nearest_elements_of_all_small_extents() {
    for (coordinates, round, desc) in descs() {
        for (image, outputs) in (1..=MOST).flat_map(|image| (1..=MOST).map(move |outputs| (image, outputs))) {
            let shape = ResampleProblem::forward(&desc, &row(image), &row(outputs)).unwrap().shape();
            let axis = &shape.axes[2];
            for p in 0..outputs {
                let (got, expected) =
                    (axis.inside(axis.taps(&shape.filter, p).begin), nearest(coordinates, round, [image, outputs], p));
                assert_eq!(got, expected, "{coordinates} {round} {image} to {outputs}: {p}");
            }
        }
    }
}

/// The CPU, for all extents; each pair takes the next coordinates and rounding of the list.
#[test]
fn nearest_elements_on_the_cpu() {
    let (context, descs) = (Context::cpu(), descs().collect::<Vec<_>>());
    for (image, outputs) in (1..=MOST).flat_map(|image| (1..=MOST).map(move |outputs| (image, outputs))) {
        let (coordinates, round, desc) = &descs[((image + 7 * outputs) % descs.len() as i64) as usize];
        let got = on_cpu(&context, &ResampleProblem::forward(desc, &row(image), &row(outputs)).unwrap());
        let expected: Vec<f32> =
            (0..outputs).map(|p| nearest(*coordinates, *round, [image, outputs], p) as f32).collect();
        assert_eq!(got, expected, "{coordinates} {round} {image} to {outputs}");
    }
}

/// The examples that were wrong, by every algorithm on every device, in both passes.
#[test]
fn nearest_elements_by_every_algorithm() {
    for (words, image, outputs, at, expected) in [
        ("coords=asymmetric round=floor", 14, 18, 9, 7.0),
        ("coords=asymmetric round=floor", 18, 42, 35, 15.0),
        ("coords=half_pixel round=prefer_ceil", 14, 9, 4, 7.0),
    ] {
        for lie in ["", ":nhwc"] {
            let tensors = |x: &str, y: &str| format!("{x}=1x8x3x{image}:f32{lie} {y}=1x8x6x{outputs}:f32{lie}");
            for text in [format!("forward mode=nearest {words} {}", tensors("x", "y")), {
                format!("backward mode=nearest {words} {}", tensors("dx", "dy"))
            }] {
                check_exact(&format!("resample:{text}").parse::<ResampleProblem>().unwrap(), 1, 9).unwrap();
            }
        }
        let text = format!("resample:forward mode=nearest {words} x=1x1x{image}:f32 y=1x1x{outputs}:f32");
        assert_eq!(on_cpu(&Context::cpu(), &text.parse().unwrap())[at], expected, "{text}");
    }
}

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    /// Extents whose products no f64 holds.
    #[test]
    fn nearest_elements_of_large_extents(
        image in 1i64..1 << 40, shift in -8i64..=8, odd in 0i64..1 << 20, parts in prop::collection::vec(0u32..=64, 16),
    ) {
        let outputs = (if shift < 0 { image >> -shift } else { image << shift } + odd).max(1);
        for (coordinates, round, desc) in descs() {
            let Ok(problem) = ResampleProblem::forward(&desc, &row(image), &row(outputs)) else {
                continue;
            };
            let shape = problem.shape();
            for &part in &parts {
                let p = ((i128::from(outputs) * i128::from(part) / 64) as i64).min(outputs - 1);
                let got = shape.axes[2].inside(shape.axes[2].taps(&shape.filter, p).begin);
                let expected = nearest(coordinates, round, [image, outputs], p);
                prop_assert_eq!(got, expected, "{} {} {} to {}: {}", coordinates, round, image, outputs, p);
            }
        }
    }

    /// Linear and cubic weights at places that are integers: the element there and no other, infinite ones beside it.
    #[test]
    fn places_on_elements_take_nothing_beside_them(
        image in 1i64..=129, outputs in 1i64..=129, which in 0usize..5, cubic in prop::bool::ANY,
    ) {
        let mode = if cubic { ResampleMode::Cubic } else { ResampleMode::Linear };
        let desc = ResampleDesc::new(mode).coordinates(FRACTIONS[which]);
        let shape = ResampleProblem::forward(&desc, &row(image), &row(outputs)).unwrap().shape();
        for p in 0..outputs {
            let [below, above] =
                [NearestRound::Floor, NearestRound::Ceil].map(|round| nearest(FRACTIONS[which], round, [image, outputs], p));
            if below == above && below > 0 && below < image - 1 {
                let weights: Vec<f64> =
                    (0..image).map(|at| shape.axes[2].weight_at(&shape.filter, p, at)).collect();
                let expected: Vec<f64> = (0..image).map(|at| f64::from(u8::from(at == below))).collect();
                prop_assert_eq!(weights, expected, "{} to {}: {}", image, outputs, p);
            }
        }
    }

    /// Any coordinate, against a place that is found in integers: every device, all modes and paddings.
    #[test]
    fn coordinates_of_any_magnitude(
        exponent in 0i32..128, mantissa in 0u32..1 << 23, negative in prop::bool::ANY, extent in 2i64..=9,
        mode in prop::sample::select(GridSampleMode::ALL), padding in prop::sample::select(GridPadding::ALL),
        align in prop::bool::ANY,
    ) {
        let magnitude = f32::from_bits((((exponent + 127) as u32) << 23).min(0x7f00_0000) | mantissa);
        let coordinate = if negative { -magnitude } else { magnitude };
        let x: Vec<f64> = (0..extent).map(|i| ((i * 37 + 11) % 16) as f64 - 8.0).collect();
        let expected = sampled(mode, padding, align, &x, coordinate);
        let text = format!(
            "gridsample:forward mode={mode} padding={padding} align_corners={} x=1x1x{extent}:f32 grid=1x1x1:f32",
            u8::from(align)
        );
        for context in contexts() {
            let got = f64::from(on_grid(context, &text, &x, &[coordinate])[0]);
            let tolerance = 1e-5 * 8.0;
            prop_assert!((got - expected).abs() <= tolerance, "{text} at {coordinate:e}: {got}, expected {expected}");
        }
    }
}

/// A grid sampling of a row by its formula, with places as fractions: coordinates of f32 are integers over 2^149, of
/// which 4 is a period between mirrors.
fn sampled(mode: GridSampleMode, padding: GridPadding, align: bool, x: &[f64], coordinate: f32) -> f64 {
    let size = x.len() as f64;
    let coordinate = f64::from(coordinate);
    let moved = match padding {
        // Far beyond the image, one place is as good as another.
        GridPadding::Zeros | GridPadding::Border => coordinate.clamp(-1e6, 1e6),
        GridPadding::Reflection => {
            let bits = coordinate.abs().to_bits();
            let (exponent, mantissa) = ((bits >> 52) as i32 - 1075, (bits & ((1 << 52) - 1)) | 1 << 52);
            // Above 2^2 times the mantissa's last bit nothing remains.
            let rest = match exponent {
                2.. => 0.0,
                _ => {
                    let period = 1u128 << (2 - exponent).min(100);
                    (u128::from(mantissa) % period) as f64 * 2f64.powi(exponent)
                }
            };
            rest.copysign(coordinate)
        }
    };
    let place = if align { (moved + 1.0) / 2.0 * (size - 1.0) } else { ((moved + 1.0) * size - 1.0) / 2.0 };
    let mirrored = |mut place: f64| {
        let (low, high) = if align { (0.0, size - 1.0) } else { (-0.5, size - 0.5) };
        while place < low || place > high {
            place = if place < low { 2.0 * low - place } else { 2.0 * high - place };
        }
        place
    };
    let padded = |place: f64| match padding {
        GridPadding::Zeros => place,
        GridPadding::Border => place.clamp(0.0, size - 1.0),
        GridPadding::Reflection => mirrored(place).clamp(0.0, size - 1.0),
    };
    let element = |at: f64| {
        let at = padded(at);
        if at < 0.0 || at > size - 1.0 { 0.0 } else { x[at as usize] }
    };
    match mode {
        GridSampleMode::Nearest => element(padded(place).round_ties_even()),
        GridSampleMode::Linear => {
            let place = padded(place);
            let below = place.floor();
            (below + 1.0 - place) * element(below) + (place - below) * element(below + 1.0)
        }
        GridSampleMode::Cubic => {
            let (below, a) = (place.floor(), -0.75f64);
            let term = |i: i32| {
                let at = below + f64::from(i);
                let d = (at - place).abs();
                let weight = if d <= 1.0 {
                    (a + 2.0) * d.powi(3) - (a + 3.0) * d.powi(2) + 1.0
                } else {
                    a * d.powi(3) - 5.0 * a * d.powi(2) + 8.0 * a * d - 4.0 * a
                };
                weight * element(at)
            };
            (-1..=2).map(term).sum()
        }
    }
}

/// What a device makes of elements and coordinates.
fn on_grid(context: &Context, text: &str, x: &[f64], grid: &[f32]) -> Vec<f32> {
    let problem: GridSampleProblem = text.parse().unwrap();
    let stream = context.stream().unwrap();
    let plan = context.plan(&problem, Policy::Heuristic).unwrap();
    let x: Vec<f32> = x.iter().map(|&x| x as f32).collect();
    let x = context.tensor_from(problem.x(), &x).unwrap();
    let grid = context.tensor_from(problem.grid(), grid).unwrap();
    let mut y = context.tensor(problem.y()).unwrap();
    let args = Args::new().input("x", &x).input("grid", &grid).output("y", &mut y);
    plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
    y.to_vec(&stream).unwrap()
}

/// Far beyond an image whose border is repeated: the end that the coordinate lies behind, in every mode, also at
/// infinity; the largest numbers of mirrors have a place, and zeros are outside.
#[test]
fn the_largest_coordinates() {
    let far = [1e20, f32::MAX, f32::INFINITY, -1e20, -f32::MAX, f32::NEG_INFINITY, f32::NAN];
    for context in contexts() {
        for (mode, align) in ["nearest", "linear", "cubic"].into_iter().flat_map(|mode| [(mode, 0), (mode, 1)]) {
            let run = |padding: &str| {
                let words = format!("mode={mode} padding={padding} align_corners={align}");
                on_grid(
                    context,
                    &format!("gridsample:forward {words} x=1x1x3:f32 grid=1x7x1:f32"),
                    &[5.0, 6.0, 7.0],
                    &far,
                )
            };
            assert_eq!(run("border"), [7.0, 7.0, 7.0, 5.0, 5.0, 5.0, 5.0], "{mode} {align}");
            assert_eq!(run("zeros"), [0.0; 7], "{mode} {align}");
            // These numbers are multiples of 4: as the middle is. Infinities have no place, as NaN.
            assert_eq!(run("reflection"), [6.0, 6.0, 5.0, 6.0, 6.0, 5.0, 5.0], "{mode} {align}");
        }
        // The example: rows and columns of an image, the middle of its last column.
        let text = "gridsample:forward mode=linear padding=border x=1x1x3x3:f32 grid=1x1x1x2:f32";
        let x: Vec<f64> = (1..=9).map(f64::from).collect();
        assert_eq!(on_grid(context, text, &x, &[1e20, 0.0]), [6.0]);
        assert_eq!(on_grid(context, text, &x, &[0.0, f32::NEG_INFINITY]), [2.0]);
        let text = "gridsample:forward mode=linear padding=border x=1x1x2x2x2:f32 grid=1x1x1x1x3:f32";
        assert_eq!(
            on_grid(context, text, &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0], &[1e30, -1e30, f32::INFINITY]),
            [6.0]
        );
    }
}

/// The gradients there: all of dy goes to the end, and the place does not move.
#[test]
fn gradients_of_the_largest_coordinates() {
    let grid = [1e20f32, f32::INFINITY, -1e20, f32::NEG_INFINITY];
    for (context, mode) in
        contexts().iter().flat_map(|context| ["nearest", "linear", "cubic"].map(|mode| (context, mode)))
    {
        let stream = context.stream().unwrap();
        let words = format!("mode={mode} padding=border");
        let text = format!("gridsample:backward_data {words} grid=1x4x1:f32 dy=1x1x4:f32 dx=1x1x3:f32");
        let problem: GridSampleProblem = text.parse().unwrap();
        for config in oxidnn::operators::AnyProblem::candidates(&problem, context) {
            if !matches!(config.verdict, oxidnn::Verdict::Able { .. }) {
                continue;
            }
            let name = if context.is_gpu() { config.config } else { config.algorithm };
            let plan = context.plan(&problem, Policy::fixed(name)).unwrap();
            let grid = context.tensor_from(problem.grid(), &grid).unwrap();
            let dy = context.tensor_from(problem.y(), &[1.0f32, 2.0, 4.0, 8.0]).unwrap();
            let mut dx = context.tensor(problem.x()).unwrap();
            let args = Args::new().input("grid", &grid).input("dy", &dy).output("dx", &mut dx);
            plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
            assert_eq!(dx.to_vec::<f32>(&stream).unwrap(), [12.0, 0.0, 3.0], "{text} {name}");
        }
        let text = format!("gridsample:backward_grid {words} x=1x1x3:f32 grid=1x4x1:f32 dy=1x1x4:f32 dgrid=1x4x1:f32");
        let problem: GridSampleProblem = text.parse().unwrap();
        let plan = context.plan(&problem, Policy::Heuristic).unwrap();
        let x = context.tensor_from(problem.x(), &[5.0f32, 6.0, 7.0]).unwrap();
        let grid = context.tensor_from(problem.grid(), &grid).unwrap();
        let dy = context.tensor_from(problem.y(), &[1.0f32, 2.0, 4.0, 8.0]).unwrap();
        let mut dgrid = context.tensor(problem.grid()).unwrap();
        let args = Args::new().input("x", &x).input("grid", &grid).input("dy", &dy).output("dgrid", &mut dgrid);
        plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
        assert_eq!(dgrid.to_vec::<f32>(&stream).unwrap(), [0.0; 4], "{text}");
    }
}

/// f64, whose largest coordinates times an extent are infinite.
#[test]
fn the_largest_coordinates_of_f64() {
    for (context, (padding, expected)) in contexts().iter().flat_map(|context| {
        [("zeros", [0.0, 0.0]), ("border", [7.0, 5.0]), ("reflection", [6.0, 6.0])].map(|case| (context, case))
    }) {
        let text = format!("gridsample:forward mode=linear padding={padding} x=1x1x3:f64 grid=1x2x1:f64");
        let problem: GridSampleProblem = text.parse().unwrap();
        let stream = context.stream().unwrap();
        let plan = context.plan(&problem, Policy::Heuristic).unwrap();
        let x = context.tensor_from(problem.x(), &[5.0, 6.0, 7.0]).unwrap();
        let grid = context.tensor_from(problem.grid(), &[f64::MAX, -f64::MAX]).unwrap();
        let mut y = context.tensor(problem.y()).unwrap();
        let args = Args::new().input("x", &x).input("grid", &grid).output("y", &mut y);
        plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
        assert_eq!(y.to_vec::<f64>(&stream).unwrap(), expected, "{text}");
    }
}

/// An infinity beside a place that is an integer has no part in what is read there.
#[test]
fn what_weighs_nothing_is_not_read() {
    for context in contexts() {
        let text = "gridsample:forward mode=linear align_corners=1 x=1x1x3:f32 grid=1x2x1:f32";
        assert_eq!(on_grid(context, text, &[5.0, 6.0, f64::INFINITY], &[0.0, -1.0]), [6.0, 5.0]);
    }
}
