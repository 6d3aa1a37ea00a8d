//! What is planned, on the CPU.

use super::gather::PartsView;
use super::wgrad::Sides;
use crate::ops::conv::ConvProblem;

fn view(text: &str) -> PartsView {
    PartsView::of(&text.parse::<ConvProblem>().unwrap()).unwrap()
}

#[test]
fn channels_last_images_are_gathered_as_they_lie() {
    let view = view("conv:fprop pad=1 x=2x68x7x5:f32:nhwc w=8x68x3x3:f32:nhwc");
    assert!(view.images.copy.is_none());
    // Three parts of 8 rows and 9 taps of 96 channels.
    assert_eq!(view.filter_bytes(), 3 * 8 * 9 * 96 * 2);
    assert_eq!(view.workspace_bytes(), (3 * 8 * 9 * 96 * 2u64).next_multiple_of(256));
}
