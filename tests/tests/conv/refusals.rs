//! What is no legal convolution, and what is said about it.

use kernel_abi::TensorDesc;
use kernel_abi::ops::conv::{ConvDesc, ConvProblem};

fn refusal(desc: &ConvDesc, x: &str, w: &str, y: &str) -> String {
    let tensor = |text: &str| text.parse::<TensorDesc>().unwrap();
    ConvProblem::fprop(desc, &tensor(x), &tensor(w), &tensor(y)).unwrap_err().to_string()
}

#[test]
fn refusals_name_argument_expected_and_given() {
    let plain = ConvDesc::new();
    let (x, w, y) = ("2x8x7x7:f32", "4x8x3x3:f32", "2x4x5x5:f32");
    assert_eq!(refusal(&plain, "8x7:f32", w, y), "conv: bad x: expected 3 to 5 dimensions [N, C, spatial...], given 2");
    assert!(refusal(&plain, "1x1x1x1x1x1:f32", w, y).contains("bad x: expected 3 to 5 dimensions"));
    assert_eq!(refusal(&plain, x, "4x8x3:f32", y), "conv: bad w: expected the 4 dimensions of x, given 3");
    assert_eq!(
        refusal(&plain, x, "4x7x3x3:f32", y),
        "conv: bad w: expected the 8 channels of x to be 1 groups of the filter's, given 7"
    );
    assert_eq!(
        refusal(&plain.clone().groups(3), x, "3x2x3x3:f32", y),
        "conv: bad w: expected the 8 channels of x to be 3 groups of the filter's, given 2"
    );
    assert_eq!(
        refusal(&plain.clone().groups(4), x, "6x2x3x3:f32", y),
        "conv: bad w: expected output channels divisible by 4 groups, given 6"
    );
    assert_eq!(refusal(&plain.clone().groups(0), x, w, y), "conv: bad groups: expected at least 1, given 0");
    assert_eq!(refusal(&plain.clone().groups(-2), x, w, y), "conv: bad groups: expected at least 1, given -2");
    assert_eq!(
        refusal(&plain, x, w, "2x4x5x6:f32"),
        "conv: bad y: expected the extents 2x4x5x5 that x and w give, given 2x4x5x6"
    );
    assert!(refusal(&plain, x, w, "2x4x25:f32").contains("bad y: expected the extents 2x4x5x5"));
    assert!(refusal(&plain, x, w, "2x4x5x5:f32:s0x25x5x1").contains("bad y: expected an output whose elements do not"));
    assert_eq!(refusal(&plain, x, "4x8x3x3:f16", y), "conv: bad w: expected the element type f32 of x, given f16");
    assert_eq!(refusal(&plain, x, w, "2x4x5x5:bf16"), "conv: bad y: expected the element type f32 of x, given bf16");
}

#[test]
fn illegal_windows_are_refused() {
    let (x, w, y) = ("2x8x7x7:f32", "4x8x3x3:f32", "2x4x5x5:f32");
    let of = |desc: ConvDesc| refusal(&desc, x, w, y);
    assert_eq!(of(ConvDesc::new().padding(&[1, -1])), "conv: bad pad: expected at least 0 in every axis, given 1x-1");
    assert!(of(ConvDesc::new().padding_end(&[-3])).contains("bad pad_end: expected at least 0"));
    assert!(of(ConvDesc::new().stride(&[0])).contains("bad stride: expected at least 1 in every axis, given 0x0"));
    assert!(of(ConvDesc::new().dilation(&[1, 0])).contains("bad dil: expected at least 1 in every axis, given 1x0"));
    assert_eq!(
        of(ConvDesc::new().stride(&[1, 1, 1])),
        "conv: bad stride: expected 2 values, one a spatial axis, given 3"
    );
    assert!(of(ConvDesc::new().padding(&[])).contains("expected 2 values, one a spatial axis, given 0"));
    assert_eq!(
        of(ConvDesc::new().dilation(&[1, 4])),
        "conv: bad w: expected a filter no larger than the padded input in axis 1, given 3 with dilation 4 on 7 with \
         padding 0 and 0"
    );
    // Numbers whose sums and products do not fit 64 bits.
    assert!(of(ConvDesc::new().padding(&[i64::MAX])).contains("bad pad, dil: expected sizes below 2^63 in axis 0"));
    assert!(of(ConvDesc::new().dilation(&[i64::MAX])).contains("bad pad, dil: expected sizes below 2^63 in axis 0"));
    assert!(of(ConvDesc::new().groups(i64::MAX)).contains("groups of the filter's"));
}

#[test]
fn each_pass_judges_what_it_writes() {
    let text = |text: &str| text.parse::<ConvProblem>().unwrap_err().to_string();
    assert!(
        text("conv:dgrad dy=2x4x5x5:f32 w=4x8x3x3:f32 dx=2x8x7x7:f32:s0x49x7x1").contains("bad dx: expected an output")
    );
    assert!(
        text("conv:wgrad x=2x8x7x7:f32 dy=2x4x5x5:f32 dw=4x8x3x3:f32:s0x9x3x1").contains("bad dw: expected an output")
    );
    assert!(
        text("conv:dgrad dy=2x4x5x6:f32 w=4x8x3x3:f32 dx=2x8x7x7:f32")
            .contains("bad dy: expected the extents 2x4x5x5 that dx and w")
    );
    assert!(
        text("conv:wgrad x=2x8x7x7:f32 dy=2x4x5x5:f32 dw=4x9x3x3:f32").contains("bad dw: expected the 8 channels of x")
    );
    assert!(text("conv:sideways x=2x8x7x7:f32 w=4x8x3x3:f32").contains("given \"sideways\""));
    assert!(text("conv:fprop x=2x8x7x7:f32").contains("expected w="));
    assert!(text("conv:fprop pad=1y1 x=2x8x7x7:f32 w=4x8x3x3:f32").contains("bad pad: expected integers"));
    assert!(text("conv:fprop mode=sum x=2x8x7x7:f32 w=4x8x3x3:f32").contains("bad mode"));
    assert!(text("conv:fprop dx=2x8x7x7:f32 x=2x8x7x7:f32 w=4x8x3x3:f32").contains("unknown or repeated key \"dx\""));
    assert!(text("conv:fprop pad=2305843009213693952 x=1x1x1:f32 w=4x1x1:f32").contains("2^63"));
}

/// Inputs that repeat elements are legal at any size; their algorithms may need more memory than there is.
#[test]
fn more_workspace_than_memory_is_an_error() {
    let problem: ConvProblem =
        "conv:fprop x=1x9007199254740992x128:f32:s0x0x1 w=1x9007199254740992x32:f32:s0x0x1".parse().unwrap();
    let context = oxidnn::Context::cpu();
    for algorithm in ["cpu_gemm", "cpu_direct"] {
        let plan = context.plan(&problem, oxidnn::Policy::fixed(algorithm)).unwrap();
        assert!(matches!(plan.workspace(), Err(oxidnn::Error::OutOfMemory { .. })), "{algorithm}");
    }
}
