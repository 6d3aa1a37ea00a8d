//! Resampling against the reference, exactly where nothing is added, its adjoint law and its refusals.

use kernel_abi::DType;
use kernel_abi::ops::resample::{ResampleMode, ResamplePass, ResampleProblem};
use oxidnn_reference::ops::resample::{backward, forward};
use oxidnn_tests::{Case, Fill, check, check_case, check_exact, problems};
use proptest::prelude::*;

proptest! {
    #![proptest_config(oxidnn_tests::config())]

    #[test]
    fn every_algorithm_matches_the_reference(problem in problems::resample::any(), seed in any::<u64>()) {
        check(&problem, seed)?;
        check_case(&problem, &Case::normal(seed).shifted(1))?;
    }

    #[test]
    fn nearest_elements_come_out_exactly(problem in problems::resample::any(), seed in any::<u64>()) {
        if problem.mode() == ResampleMode::Nearest {
            check_exact(&problem, seed, 1)?;
        }
    }

    #[test]
    fn the_passes_are_adjoint(problem in problems::resample::any(), seed in any::<u64>()) {
        if problem.resample_pass() == ResamplePass::Forward {
            let x = Fill::Normal.values(problem.x().n_elems() as usize, DType::F64, seed);
            let dy = Fill::Normal.values(problem.y().n_elems() as usize, DType::F64, !seed);
            let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
            // What is beyond a cropped region does not depend on x.
            let constant = forward(&problem, &vec![0.0; x.len()]);
            let left = dot(&dy, &forward(&problem, &x)) - dot(&dy, &constant);
            let right = dot(&backward(&problem, &dy), &x);
            prop_assert!((left - right).abs() <= 1e-10 * (1.0 + left.abs()), "{left} and {right}");
        }
    }
}

/// The only neighbour inside the image weighs 10⁻¹⁶ before it is divided by that.
#[test]
fn a_neighbour_of_next_to_no_weight_is_found() {
    let words = "mode=linear coords=half_pixel_symmetric antialias=1 exclude_outside=1 scale=0.375";
    for (pass, x, y) in [("forward", "x", "y"), ("backward", "dx", "dy")] {
        let problem: ResampleProblem = format!("resample:{pass} {words} {x}=1x1x9:f32 {y}=1x1x8:f32").parse().unwrap();
        check(&problem, 1).unwrap();
    }
}

/// To eight times the size, up to 17 elements of dy flow into one of dx; its 21 channels are no multiple of 16 bytes.
#[test]
fn enlargements_of_any_number_of_channels() {
    for layout in ["", ":nhwc"] {
        for dtype in ["bf16", "f32"] {
            let (x, y) = (format!("1x21x2x9:{dtype}{layout}"), format!("1x21x9x65:{dtype}{layout}"));
            for operands in [
                format!("forward mode=linear coords=align_corners x={x} y={y}"),
                format!("backward mode=linear coords=align_corners dy={y} dx={x}"),
            ] {
                check(&format!("resample:{operands}").parse::<ResampleProblem>().unwrap(), 3).unwrap();
            }
        }
    }
}

/// Rows of several tiles of columns, the last of which may have an odd number.
#[test]
fn wide_rows() {
    for dtype in ["bf16", "f32"] {
        let head = "mode=nearest coords=asymmetric round=floor";
        for (mode, x, y) in [
            (head, [19, 160], [38, 320]),
            (head, [5, 131], [10, 262]),
            ("mode=linear coords=half_pixel", [18, 136], [9, 272]),
            ("mode=linear coords=half_pixel", [4, 131], [8, 393]),
            ("mode=linear coords=align_corners", [3, 33], [9, 259]),
            ("mode=cubic coords=half_pixel", [3, 261], [3, 131]),
        ] {
            let tensor = |[rows, columns]: [i32; 2]| format!("2x3x{rows}x{columns}:{dtype}");
            let (x, y) = (tensor(x), tensor(y));
            for operands in [format!("forward {mode} x={x} y={y}"), format!("backward {mode} dy={y} dx={x}")] {
                check(&format!("resample:{operands}").parse::<ResampleProblem>().unwrap(), 5).unwrap();
            }
        }
    }
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let text = |text: &str| text.parse::<ResampleProblem>().unwrap_err().to_string();
    let head = "resample:forward mode=linear";
    assert!(text(&format!("{head} x=4x4:f32 y=4x4:f32")).contains("bad x: expected a rank of 3 to 5"));
    assert!(text(&format!("{head} x=1x2x4:f32 y=1x3x4:f32")).contains("bad y: expected rank 3 and N, C 1x2"));
    assert!(text(&format!("{head} x=1x2x4:f32 y=1x2x4x4:f32")).contains("bad y: expected rank 3"));
    assert!(text(&format!("{head} x=1x2x4:f32 y=1x2x4:f64")).contains("element type f32"));
    assert!(text(&format!("{head} x=1x2x4:i8 y=1x2x4:i8")).contains("given i8"));
    assert!(text(&format!("{head} x=1x2x4:f32 y=1x2x4:f32:s4x4x0")).contains("do not overlap"));
    assert!(text(&format!("{head} x=1x2x4:f32")).contains("bad scale: expected 1 values"));
    assert!(text(&format!("{head} scale=2x2 x=1x2x4:f32 y=1x2x4:f32")).contains("given 2"));
    assert!(text(&format!("{head} scale=0 x=1x2x4:f32 y=1x2x4:f32")).contains("given 0 for axis 0"));
    assert!(text(&format!("{head} scale=inf x=1x2x4:f32 y=1x2x4:f32")).contains("given inf for axis 0"));
    assert!(text(&format!("{head} scale=1y x=1x2x4:f32 y=1x2x4:f32")).contains("numbers joined by x"));
    assert!(text(&format!("{head} coords=crop x=1x2x4:f32 y=1x2x4:f32")).contains("bad region"));
    assert!(text(&format!("{head} region=0x1 x=1x2x4:f32 y=1x2x4:f32")).contains("bad region"));
    assert!(text(&format!("{head} coords=crop region=0x1x0x1 x=1x2x4:f32 y=1x2x4:f32")).contains("given 2"));
    assert!(text(&format!("{head} coords=crop region=0xNaN x=1x2x4:f32 y=1x2x4:f32")).contains("finite"));
    assert!(text(&format!("{head} coords=crop region=0x1e300 x=1x2x4:f32 y=1x2x4:f32")).contains("bad coords"));
    assert!(text(&format!("{head} extrapolation=3 x=1x2x4:f32 y=1x2x4:f32")).contains("bad extrapolation"));
    assert!(text("resample:forward mode=cubic a=inf x=1x2x4:f32 y=1x2x4:f32").contains("bad a"));
    assert!(text("resample:forward mode=nearest antialias=1 x=1x2x4:f32 y=1x2x4:f32").contains("bad antialias"));
    assert!(text("resample:forward mode=nearest exclude_outside=1 x=1x2x4:f32 y=1x2x4:f32").contains("given 1"));
    assert!(text("resample:forward mode=nearest exclude_outside=2 x=1x2x4:f32 y=1x2x4:f32").contains("given 2"));
    assert!(text("resample:backward mode=linear dy=1x2x4:f32 dx=1x2x4:f32:s4x4x0").contains("bad dx"));
}
