//! What is planned, on the CPU.

use super::cluster::Ways;
use super::direct;
use super::gather::PartsView;
use super::wgrad::Sides;
use crate::ops::conv::ConvProblem;

fn problem(text: &str) -> ConvProblem {
    text.parse().unwrap()
}

fn view(text: &str) -> PartsView {
    PartsView::of(&problem(text)).unwrap()
}

#[test]
fn channels_last_images_are_gathered_as_they_lie() {
    let plain = view("conv:fprop pad=1 x=2x68x7x5:f32:nhwc w=8x68x3x3:f32:nhwc");
    assert!(plain.images.copy.is_none());
    // Three parts of 8 rows and 9 taps of 96 channels.
    assert_eq!(plain.filter_bytes(), 3 * 8 * 9 * 96 * 2);
    assert_eq!(plain.workspace_bytes(), plain.filter_bytes().next_multiple_of(256));
    // Rows are channels of all groups; the sum is over those of one.
    let grouped = view("conv:dgrad pad=1 groups=2 dx=2x68x7x5:f32:nhwc w=128x34x3x3:f32:nhwc");
    assert_eq!(grouped.filter_bytes(), 3 * 68 * 9 * 64 * 2);
    assert_eq!((grouped.view.group_read, grouped.view.group_written), (64, 34));
}

#[test]
fn other_images_are_copied() {
    let packed = view("conv:fprop pad=1 x=2x40x7x5:f32 w=8x40x3x3:f32");
    assert_eq!(packed.images.bytes(), (2 * 7 * 5 * 40 * 4u64).next_multiple_of(256));
    let odd = view("conv:fprop pad=1 x=2x41x7x5:f32:nhwc w=8x41x3x3:f32:nhwc");
    assert_eq!(odd.images.bytes(), (2 * 7 * 5 * 44 * 4u64).next_multiple_of(256));
    assert_eq!(odd.view.read.channels, 41);
    let sides = Sides::of(&problem("conv:wgrad pad=1 x=2x41x7x5:f32:nhwc dw=9x41x3x3:f32")).unwrap();
    let (x, dy) = (2 * 7 * 5 * 44 * 4u64, 2 * 7 * 5 * 12 * 4u64);
    assert_eq!(sides.partials_at(), x.next_multiple_of(256) + dy.next_multiple_of(256));
}

/// A filter of 7 × 7 over 3 channels is one of 7 over 28, at positions that overlap.
#[test]
fn rows_and_channels_are_one_where_there_are_few() {
    let stem = view("conv:fprop pad=3 stride=2 x=2x3x31x29:f32:nhwc w=64x3x7x7:f32:nhwc");
    assert_eq!((stem.view.read.channels, stem.view.filter.taps), (28, [1, 7, 1]));
    assert_eq!(stem.view.read.extents, [1, 31, 15]);
    // 15 windows of 7 positions, 2 apart.
    let row = (14 * 2 + 7) * 4;
    assert_eq!(stem.view.read.strides, [31 * row, row, 8]);
    assert_eq!(stem.filter_bytes(), 3 * 64 * 7 * 32 * 2);
}

/// The columns of a strided `dgrad` are two by two positions of three channels.
#[test]
fn columns_are_spread_where_there_are_few() {
    let stem = view("conv:dgrad pad=3 stride=2 dx=2x3x31x29:f32:nhwc w=64x3x7x7:f32:nhwc");
    assert_eq!((stem.view.group_written, stem.view.filter.taps), (12, [1, 4, 4]));
    assert_eq!(stem.filter_bytes(), 3 * 12 * 16 * 64 * 2);
}

#[test]
fn refusals_name_the_numbers() {
    let refusal = |text: &str| PartsView::of(&problem(text)).map(|_| ()).unwrap_err().0;
    assert!(refusal("conv:fprop x=1x8x4x4:bf16 w=8x8x1x1:bf16").contains("the element type is bf16"));
    assert!(refusal("conv:fprop stride=9 x=1x8x40x40:f32 w=8x8x1x1:f32").contains("up to 8, given 9"));
    assert!(refusal("conv:fprop pad=200 x=1x8x4x4:f32:nhwc w=8x8x3x3:f32:nhwc").contains("one is -200"));
    assert!(refusal("conv:fprop groups=2 x=1x6x4x4:f32 w=8x3x1x1:f32").contains("x has 2 groups of 3"));
    assert!(refusal("conv:dgrad groups=2 dx=1x8x4x4:f32 w=12x4x1x1:f32").contains("dy has 2 groups of 6"));
    let groups = problem("conv:wgrad groups=2 x=1x8x4x4:f32 dw=12x4x1x1:f32");
    assert!(Sides::of(&groups).map(|_| ()).unwrap_err().0.contains("dy has 2 groups of 6"));
    let gap = problem("conv:wgrad pad=1 x=2x16x7x5:f32:nhwc dw=8x16x3x2:f32:s160x1x48x16");
    assert!(Sides::of(&gap).map(|_| ()).unwrap_err().0.contains("one behind the other"));
}

/// A filter that is read as it lies: by four channels of the sum or four rows where they lie so, else one by
/// one.
#[test]
fn filters_are_read_as_they_lie() {
    let source = |text: &str| direct::planned(&problem(text)).unwrap().1;
    let fprop = source("conv:fprop pad=1 groups=2 x=2x64x7x5:f32:nhwc w=8x32x3x3:f32:nhwc");
    assert_eq!((fprop.load_bytes, fprop.rows_first, fprop.channel_stride), (16, 0, 1));
    assert_eq!((fprop.group_stride, fprop.row_stride, fprop.tap_stride), (4 * 288, 288, 32));
    let dgrad = source("conv:dgrad pad=1 groups=2 dx=2x68x7x5:f32:nhwc w=64x34x3x3:f32:nhwc");
    assert_eq!((dgrad.load_bytes, dgrad.rows_first, dgrad.channel_stride), (4, 1, 306));
    assert_eq!((dgrad.group_stride, dgrad.row_stride, dgrad.tap_stride), (32 * 306, 1, 34));
    let across = source("conv:dgrad pad=1 groups=2 dx=2x72x7x5:f32:nhwc w=64x36x3x3:f32:nhwc");
    assert_eq!((across.load_bytes, across.rows_first, across.row_stride), (16, 1, 1));
    let spread = source("conv:dgrad pad=3 stride=2 dx=2x3x31x29:f32:nhwc w=64x3x7x7:f32:nhwc");
    assert_eq!((spread.rows_first, spread.channel_stride, spread.tap_strides), (1, 147, [21, 3]));
    assert_eq!((spread.step, spread.taps), ([2; 2], [7; 2]));
    let refusal = |text: &str| direct::planned(&problem(text)).map(|_| ()).unwrap_err().0;
    assert!(refusal("conv:fprop x=1x8x4x4:f32 w=8x8x1x1:f32").contains("needs x channels-last"));
    assert!(refusal("conv:fprop x=1x6x4x4:f32:nhwc w=8x6x1x1:f32").contains("a multiple of 4 elements"));
    let gap = "conv:fprop pad=1 x=2x16x7x5:f32:nhwc w=8x16x3x2:f32:s160x1x48x16";
    assert!(refusal(gap).contains("taps one behind the other"));
}

/// Few channels are read by threads too, and what the copy engine cannot gather by them alone.
#[test]
fn windows_are_read_by_threads_where_they_must() {
    let ways = |text: &str| {
        let ways = Ways::of(&problem(text)).unwrap();
        let columns = ways.windows.map(|windows| windows.view.group_c);
        (ways.gathered.is_some(), columns)
    };
    assert_eq!(ways("conv:wgrad pad=1 x=2x64x7x5:f32:nhwc dw=8x64x3x3:f32:nhwc"), (true, None));
    assert_eq!(ways("conv:wgrad pad=1 x=2x4x7x5:f32:nhwc dw=8x4x3x3:f32:nhwc"), (true, Some(36)));
    assert_eq!(ways("conv:wgrad pad=3 stride=2 x=2x3x31x29:f32:nhwc dw=64x3x7x7:f32"), (false, Some(147)));
    assert_eq!(
        ways("conv:wgrad pad=1 groups=2 x=2x66x7x5:f32 dw=8x33x3x3:f32 dy=2x8x7x5:f32:nhwc"),
        (false, Some(297))
    );
    let refusal = |text: &str| Ways::of(&problem(text)).map(|_| ()).unwrap_err().0;
    assert!(refusal("conv:wgrad x=1x8x4x4:f32 dw=8x8x1x1:f32").contains("needs dy channels-last"));
    assert!(
        refusal("conv:wgrad x=1x6x4x4:f32:nhwc dw=7x6x1x1:f32").contains("needs dy with strides of a multiple of 4")
    );
    let gap = refusal("conv:wgrad pad=1 x=2x15x7x5:f32:nhwc dw=8x15x3x2:f32:s160x1x48x15");
    assert!(gap.contains("one behind the other"), "{gap}");
    let deep = refusal("conv:wgrad x=1x6x4x4x4:f32:nhwc dw=8x6x1x1x1:f32");
    assert!(deep.contains("needs x with strides") && deep.contains("one or two axes, given 3"), "{deep}");
}

/// Whatever is legal is planned or refused, without overflow.
#[test]
fn odd_problems_are_planned_or_refused() {
    let (mut legal, mut planned) = (0, 0);
    for text in [
        "pad=0x0 stride=2x3 x=2x8x9x7:f32 w=5x8x1x1:f32",
        "pad=9x7 pad_end=8x0 stride=3x2 dil=4x3 x=1x4x5x4:f32 w=5x4x3x2:f32",
        "pad=5x5 stride=4x4 x=1x2x3x3:f32 w=2x2x1x1:f32",
        "pad=0x0 stride=5x4 x=2x3x17x18:f32 w=4x3x2x3:f32",
        "pad=0x1 stride=1000000x9223372036854775807 x=2x3x2x3:f32 w=4x3x2x2:f32",
        "pad=4 pad_end=0 stride=1 dil=2 x=2x3x301:f32 w=5x3x3:f32 mode=convolution",
        "pad=0 stride=7 x=1x1x97:f32:nhwc w=3x1x11:f32:nhwc",
        "pad=0x2x1 pad_end=1x0x1 stride=2x1x3 dil=1x2x2 groups=2 x=2x4x3x4x5:f32 w=6x2x2x3x2:f32 mode=convolution",
        "pad=0x0 stride=1x1 x=1x1x1x1:f32 w=1x1x1x1:f32",
        "pad=0x1 stride=1x1 groups=70 x=3x70x4x4:f32 w=70x1x2x2:f32",
        "pad=4611686018427387900x0 pad_end=0x0 stride=8x1 x=1x1x1x1:f32 w=1x1x1x1:f32",
        "x=1x3x128:f32:s0x0x1 w=1x3x32:f32:s0x0x1",
        "x=1x9007199254740992x128:f32:s0x0x1 w=1x9007199254740992x32:f32:s0x0x1",
    ] {
        for pass in ["fprop", "dgrad", "wgrad"] {
            let text = match pass {
                "dgrad" => text.replace("x=", "dx=").replace("ddx", "dx"),
                "wgrad" => text.replace(" w=", " dw="),
                _ => text.to_owned(),
            };
            // Tensors that are written may not repeat elements.
            let Ok(problem) = format!("conv:{pass} {text}").parse::<ConvProblem>() else { continue };
            legal += 1;
            let parts = match pass {
                "wgrad" => {
                    let _ = Ways::of(&problem);
                    Sides::of(&problem).is_ok()
                }
                _ => {
                    let _ = direct::planned(&problem);
                    PartsView::of(&problem).is_ok()
                }
            };
            planned += u32::from(parts) + u32::from(crate::ops::conv::ffma::planned(&problem).is_ok());
        }
    }
    assert!(legal > 30 && planned > 45, "{legal} {planned}");
}
