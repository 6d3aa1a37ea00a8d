//! What is planned, on the CPU.

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
    let grouped = view("conv:dgrad pad=1 groups=2 dx=2x68x7x5:f32:nhwc w=80x34x3x3:f32:nhwc");
    assert_eq!(grouped.filter_bytes(), 3 * 68 * 9 * 64 * 2);
    assert_eq!((grouped.view.group_read, grouped.view.group_written), (40, 34));
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
    let gap = problem("conv:wgrad pad=1 x=2x16x7x5:f32:nhwc dw=8x16x3x2:f32:s160x1x48x16");
    assert!(Sides::of(&gap).map(|_| ()).unwrap_err().0.contains("one behind the other"));
}
