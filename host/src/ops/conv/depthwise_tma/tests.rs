//! Refusals, and that cuts cover the target.

use super::MAX_SHARED_BYTES;
use super::cut::{FEWEST_SLOTS, View};
use crate::ops::conv::ConvProblem;
use crate::select::Refusal;
use kernel_abi::ops::conv::depthwise_tma::{DEPTHWISE_TMA_MAX_BOX, DEPTHWISE_TMA_MAX_SLOTS};

fn of(text: &str) -> Result<View, String> {
    View::of(&text.parse::<ConvProblem>().unwrap()).map_err(|Refusal(reason)| reason)
}

#[test]
fn refusals_name_what_is_taken_and_given() {
    for (text, expected) in [
        ("wgrad groups=8 x=2x8x7x7:bf16:nhwc dw=8x1x3x3:bf16", "the pass is wgrad"),
        ("fprop groups=8 x=2x8x7x7:bf16 w=8x1x3x3:bf16", "takes channels-last images, given 2x8x7x7:bf16 and"),
        (
            "dgrad stride=2x2 groups=8 dx=2x8x7x7:bf16:nhwc w=8x1x3x3:bf16",
            "given bf16, 3x3, stride 2x2 and padding 0x0",
        ),
        (
            "dgrad stride=3x3 groups=8 dx=2x8x7x7:bf16:nhwc w=8x1x3x3:bf16",
            "has dgrad of stride 2x2 for f16 and bf16, 3x3",
        ),
        ("fprop dil=2x1 groups=8 x=2x8x7x7:bf16:nhwc w=8x1x3x3:bf16", "takes neighbouring taps, given dilation 2x1"),
        (
            "fprop groups=12 x=2x12x7x7:bf16:nhwc w=12x1x3x3:bf16",
            "a multiple of 8 channels, for copies of 16 bytes; there are 12",
        ),
        (
            "fprop groups=8 x=2x8x9x9:f16:nhwc w=8x1x7x7:f16",
            "3x3 and 5x5 taps, stride 1x1 and 2x2, given f16, 7x7 and 1x1",
        ),
        ("fprop stride=1x2 groups=8 x=2x8x9x9:f16:nhwc w=8x1x3x3:f16", "given f16, 3x3 and 1x2"),
        ("fprop groups=8 x=2x8x9x9:f32:nhwc w=8x1x3x3:f32", "has kernels for f16 and bf16, 3x3 and"),
        ("fprop groups=8 x=2147483648x8x3x3:f16:nhwc w=8x1x3x3:f16", "up to 2147483647 images, given 2147483648"),
    ] {
        let reason = of(&format!("conv:{text}")).unwrap_err();
        assert!(reason.contains(expected), "{text}: {reason}");
    }
    let view = of("conv:fprop groups=8 x=2000000000x8x3000x3000:f16:nhwc w=8x1x3x3:f16").unwrap();
    let row = view.rows().next().unwrap();
    let Refusal(reason) = view.cut(row, 132).unwrap_err();
    assert!(reason.contains("up to 1073741824 tiles, images of 2998x2998 and 8 channels, 2000000000"), "{reason}");
}

/// Every row, column, channel and image is some tile's, no tile is empty, and blocks fit a multiprocessor.
#[test]
fn cuts_cover_the_target() {
    for text in [
        "fprop pad=1x1 groups=32 x=128x32x112x112:bf16:nhwc w=32x1x3x3:bf16",
        "fprop pad=1x1 stride=2x2 groups=96 x=128x96x112x112:bf16:nhwc w=96x1x3x3:bf16",
        "fprop pad=1x1 groups=144 x=128x144x56x56:bf16:nhwc w=144x1x3x3:bf16",
        "dgrad pad=1x1 groups=72 dx=128x72x56x56:bf16:nhwc w=72x1x3x3:bf16",
        "fprop pad=2x2 stride=2x2 groups=72 x=128x72x56x56:bf16:nhwc w=72x1x5x5:bf16",
        "fprop pad=1x1 groups=192 x=128x192x28x28:bf16:nhwc w=192x1x3x3:bf16",
        "fprop pad=2x2 groups=240 x=128x240x28x28:bf16:nhwc w=240x1x5x5:bf16",
        "fprop pad=1x1 groups=576 x=128x576x14x14:bf16:nhwc w=576x1x3x3:bf16",
        "fprop pad=1x1 stride=2x2 groups=576 x=128x576x14x14:bf16:nhwc w=576x1x3x3:bf16",
        "fprop pad=1x1 groups=672 x=128x672x14x14:bf16:nhwc w=672x1x3x3:bf16",
        "dgrad pad=1x1 groups=384 dx=128x384x14x14:bf16:nhwc w=384x1x3x3:bf16",
        "fprop pad=2x2 groups=672 x=128x672x14x14:bf16:nhwc w=672x1x5x5:bf16",
        "fprop pad=2x2 groups=1152 x=128x1152x7x7:f16:nhwc w=1152x1x5x5:f16",
        "fprop pad=1x1 groups=960 x=128x960x7x7:f16:nhwc w=960x1x3x3:f16",
        "dgrad pad=1x1 stride=2x2 groups=96 dx=128x96x112x112:bf16:nhwc w=96x1x3x3:bf16",
        "dgrad pad=2x2 stride=2x2 groups=672 dx=128x672x14x14:bf16:nhwc w=672x1x5x5:bf16",
        "fprop pad=9x9 groups=8 x=2x8x1x1:f16:nhwc w=8x1x5x5:f16",
        "fprop groups=8 x=1x8x3x40001:f16:nhwc w=8x1x3x3:f16",
        "fprop groups=8 x=1x8x40001x3:f16:nhwc w=8x1x3x3:f16",
        "fprop groups=20000 x=1x20000x3x3:f16:nhwc w=20000x1x3x3:f16",
    ] {
        let view = of(&format!("conv:{text}")).unwrap();
        for (row, units) in view.rows().flat_map(|row| [(row, 4), (row, 132)]) {
            let cut = view.cut(row, units).unwrap_or_else(|Refusal(reason)| panic!("{text}: {reason}"));
            let (p, form) = (&cut.params, row.form);
            let tile = p.tile;
            let covers =
                |parts: u32, part: u32, all: i32| parts * part >= all as u32 && (parts - 1) * part < all as u32;
            assert!(covers(p.slices.divisor, tile.channels, view.c), "{text}: {p:?}");
            assert!(covers(p.column_tiles.divisor, tile.spans(form), form.spans(view.target_dims[1])), "{text}: {p:?}");
            assert!(covers(p.bands.divisor, tile.rows, form.spans(view.target_dims[0])), "{text}: {p:?}");
            let groups = p.n_tiles / (p.column_tiles.divisor * p.bands.divisor);
            assert!(covers(groups, tile.images, view.n), "{text}: {p:?}");
            assert_eq!(p.n_tiles, groups * p.column_tiles.divisor * p.bands.divisor, "{text}");
            assert_eq!(cut.blocks, p.slices.divisor * p.workers, "{text}");
            assert!(p.workers <= p.n_tiles && p.workers > 0, "{text}: {p:?}");
            assert!(tile.threads() <= cut.threads && cut.threads <= row.threads, "{text}: {cut:?}");
            assert!(tile.smem_bytes(form) <= MAX_SHARED_BYTES, "{text}: {p:?}");
            assert!((FEWEST_SLOTS..=DEPTHWISE_TMA_MAX_SLOTS).contains(&tile.slots), "{text}: {p:?}");
            let boxes = [tile.channels, tile.columns(form), tile.result_columns(form), tile.images];
            assert!(boxes.iter().all(|&extent| extent <= DEPTHWISE_TMA_MAX_BOX), "{text}: {p:?}");
            println!(
                "{text}: {} on {units}: {:.0} cycles, {} blocks of {} threads, {} bytes, {} slices, {} tiles, {tile:?}",
                row.symbol,
                cut.cycles,
                cut.blocks,
                cut.threads,
                tile.smem_bytes(form),
                p.slices.divisor,
                p.n_tiles
            );
        }
    }
}
