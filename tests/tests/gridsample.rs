//! Grid sampling against the reference, exactly where weights are halves, its gradients against differences, refusals.

use kernel_abi::DType;
use kernel_abi::ops::gridsample::{GridSampleMode, GridSampleProblem};
use oxidnn::{Args, Policy};
use oxidnn_reference::ops::gridsample::{backward_data, backward_grid, forward};
use oxidnn_tests::{Fill, check, check_exact, contexts, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::gridsample::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
    }

    #[test]
    fn halves_come_out_exactly(problem in problems::gridsample::any(), seed in any::<u64>()) {
        if problem.desc().mode != GridSampleMode::Cubic {
            check_exact(&problem, seed, 2)?;
        }
    }

    #[test]
    fn gradients_are_slopes(problem in problems::gridsample::any(), seed in any::<u64>()) {
        let values = |n: i64, seed: u64| Fill::Normal.values(n as usize, DType::F64, seed);
        let (x, dy) = (values(problem.x().n_elems(), seed), values(problem.y().n_elems(), !seed));
        let grid = values(problem.grid().n_elems(), seed ^ 0xff);
        let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
        let value = |grid: &[f64]| dot(&dy, &forward(&problem, &x, grid));
        let (left, right) = (value(&grid), dot(&backward_data(&problem, &grid, &dy), &x));
        prop_assert!((left - right).abs() <= 1e-10 * (1.0 + left.abs()), "{left} and {right}");
        // Kinks lie between few of the places, so the middle one of three steps is all but always smooth.
        let slopes = backward_grid(&problem, &x, &grid, &dy);
        for i in (0..grid.len()).step_by(7) {
            let at = |step: f64| {
                let mut grid = grid.clone();
                grid[i] += step;
                value(&grid)
            };
            let step = 1e-7;
            let (below, above) = ((at(0.0) - at(-step)) / step, (at(step) - at(0.0)) / step);
            let smooth = (below - above).abs() < 1e-3 * (1.0 + below.abs());
            prop_assert!(!smooth || (slopes[i] - below).abs() < 1e-3 * (1.0 + below.abs()), "{} and {below}", slopes[i]);
        }
    }
}

/// More outputs than a list has room for read one tile.
#[test]
fn many_outputs_of_few_positions() {
    for padding in ["zeros", "border"] {
        let words = format!("gridsample:backward_data mode=linear padding={padding} align_corners=0");
        let text = format!("{words} grid=1x31x43x2:f32 dy=1x2x31x43:f32 dx=1x2x3x5:f32");
        check(&text.parse::<GridSampleProblem>().unwrap(), 4).unwrap();
    }
}

/// Places that are no numbers, on every device.
#[test]
fn places_that_are_no_numbers() {
    for (padding, expected) in [("zeros", [0.0; 4]), ("border", [5.0, 7.0, 5.0, 5.0]), ("reflection", [5.0; 4])] {
        for mode in ["nearest", "linear", "cubic"] {
            let text = format!("gridsample:forward mode={mode} padding={padding} x=1x1x3:f32 grid=1x4x1:f32");
            let problem: GridSampleProblem = text.parse().unwrap();
            for context in contexts() {
                let stream = context.stream().unwrap();
                let plan = context.plan(&problem, Policy::Heuristic).unwrap();
                let x = context.tensor_from(problem.x(), &[5.0f32, 6.0, 7.0]).unwrap();
                let grid = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
                let grid = context.tensor_from(problem.grid(), &grid).unwrap();
                let mut y = context.tensor(problem.y()).unwrap();
                let args = Args::new().input("x", &x).input("grid", &grid).output("y", &mut y);
                plan.run(&stream, args, &mut plan.workspace().unwrap()).unwrap();
                assert_eq!(y.to_vec::<f32>(&stream).unwrap(), expected, "{text}");
            }
        }
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<GridSampleProblem>().unwrap_err().to_string();
    let head = "gridsample:forward mode=linear";
    assert!(text(&format!("{head} x=2x3:f32 grid=2x3x1:f32")).contains("bad x: expected a rank of 3 to 5"));
    assert!(text(&format!("{head} x=1x2x4x4:f32 grid=1x3x2:f32")).contains("bad grid: expected [1, spatial..., 2]"));
    assert!(text(&format!("{head} x=1x2x4x4:f32 grid=2x3x3x2:f32")).contains("bad grid"));
    assert!(text(&format!("{head} x=1x2x4x4:f32 grid=1x3x3x3:f32")).contains("bad grid"));
    assert!(text(&format!("{head} x=1x2x4x4:f32 grid=1x3x3x2:f32 y=1x2x3x4:f32")).contains("extents 1x2x3x3"));
    assert!(
        text(&format!("{head} x=1x2x4x4:f32 grid=1x3x3x2:f64")).contains("bad grid: expected the element type f32")
    );
    assert!(
        text(&format!("{head} x=1x2x4x4:f64 grid=1x3x3x2:f32")).contains("bad grid: expected the element type f64")
    );
    assert!(text(&format!("{head} x=1x2x4x4:f32 grid=1x3x3x2:f32 y=1x2x3x3:f64")).contains("bad y"));
    assert!(text(&format!("{head} x=1x2x4x4:i8 grid=1x3x3x2:i8")).contains("given i8"));
    assert!(text(&format!("{head} x=1x1x4:f32 grid=1x3x1:f32 y=1x1x3:f32:s3x3x0")).contains("do not overlap"));
    assert!(text(&format!("{head} padding=mirror x=1x1x4:f32 grid=1x3x1:f32")).contains("zeros, border, reflection"));
    let back = "gridsample:backward_grid mode=linear x=1x1x4:f32 grid=1x3x1:f32";
    assert!(text(&format!("{back} dgrid=1x4x1:f32")).contains("bad dgrid"));
    assert!(text(&format!("{back} dgrid=1x3x1:f64")).contains("bad dgrid"));
    assert!(text(&format!("{back} dgrid=1x3x1:f32:s3x0x1")).contains("bad dgrid"));
    assert!(text("gridsample:backward_data mode=linear dx=1x1x4:f32:s4x4x0 grid=1x3x1:f32").contains("bad dx"));
}
