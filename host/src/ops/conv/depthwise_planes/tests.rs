//! Refusals, and that cuts cover the target.

use super::cut::{FEWEST_SLOTS, View};
use crate::ops::conv::ConvProblem;
use crate::select::Refusal;
use kernel_abi::ops::conv::depthwise_planes::{
    DEPTHWISE_PLANES_COLUMNS, DEPTHWISE_PLANES_MAX_SLOTS, DEPTHWISE_PLANES_PAIRS, DEPTHWISE_PLANES_WARPS,
};
use kernel_abi::ops::conv::halo_wgmma::MAX_SHARED_BYTES;

fn of(text: &str) -> Result<View, String> {
    View::of(&text.parse::<ConvProblem>().unwrap()).map_err(|Refusal(reason)| reason)
}

#[test]
fn refusals_name_what_is_taken_and_given() {
    for (text, expected) in [
        ("wgrad groups=8 x=2x8x8x8:bf16 dw=8x1x3x3:bf16", "the pass is wgrad"),
        ("fprop groups=8 x=2x8x8x8:bf16:nhwc w=8x1x3x3:bf16", "takes packed images, NCHW, given 2x8x8x8:bf16:nhwc and"),
        ("fprop dil=2x1 groups=8 x=2x8x8x8:bf16 w=8x1x3x3:bf16", "takes neighbouring taps, given dilation 2x1"),
        ("dgrad stride=2x2 groups=8 dx=2x8x8x8:bf16 w=8x1x3x3:bf16", "computes dgrad of stride 1x1, given 2x2"),
        ("fprop stride=2x2 groups=8 x=2x8x9x9:f16 w=8x1x3x3:f16", "given f16, 3x3, 2x2 and 9 columns"),
        ("fprop stride=2x2 groups=8 x=2x8x10x10:f16 w=8x1x7x7:f16", "given f16, 7x7, 2x2 and 10 columns"),
        ("fprop groups=8 x=2x8x8x8:f32 w=8x1x3x3:f32", "given f32, 3x3, 1x1 and 8 columns"),
        ("fprop groups=8 x=2147483648x8x3x3:f16 w=8x1x3x3:f16", "up to 2147483647 images, given 2147483648"),
        (
            "fprop groups=4 x=2x4x5x5:f16 w=4x1x3x3:f16",
            "source images of a multiple of 16 bytes, given 4 planes of 50 bytes",
        ),
        (
            "fprop groups=3 x=2x3x4x8:f16 w=3x1x3x3:f16",
            "target images of a multiple of 16 bytes, given 3 planes of 24 bytes",
        ),
    ] {
        let reason = of(&format!("conv:{text}")).unwrap_err();
        assert!(reason.contains(expected), "{text}: {reason}");
    }
    for (text, expected) in [
        ("pad=1x1 groups=8 x=1x8x300x300:f16 w=8x1x3x3:f16", "given 1 images of 8 planes of 300x300, of 180000 bytes"),
        ("pad=1x1 groups=2 x=1x2x1x131072:f16 w=2x1x3x3:f16", "given 1 images of 2 planes of 1x131072"),
        ("pad=1x1 groups=32 x=2000000000x32x64x64:f16 w=32x1x3x3:f16", "counts up to 1073741824 times"),
    ] {
        let Refusal(reason) = of(&format!("conv:fprop {text}")).unwrap().cut(132).unwrap_err();
        assert!(reason.contains(expected), "{text}: {reason}");
    }
}

/// Every plane, row and column is some job's, warps of a channel have the same columns each time, and jobs fit.
#[test]
fn cuts_cover_the_target() {
    for text in [
        "fprop pad=1x1 groups=32 x=128x32x112x112:bf16 w=32x1x3x3:bf16",
        "fprop pad=1x1 stride=2x2 groups=96 x=128x96x112x112:bf16 w=96x1x3x3:bf16",
        "fprop pad=1x1 groups=144 x=128x144x56x56:bf16 w=144x1x3x3:bf16",
        "dgrad pad=1x1 groups=72 dx=128x72x56x56:bf16 w=72x1x3x3:bf16",
        "fprop pad=2x2 stride=2x2 groups=72 x=128x72x56x56:bf16 w=72x1x5x5:bf16",
        "fprop pad=1x1 groups=192 x=128x192x28x28:bf16 w=192x1x3x3:bf16",
        "fprop pad=2x2 groups=240 x=128x240x28x28:bf16 w=240x1x5x5:bf16",
        "fprop pad=1x1 stride=2x2 groups=240 x=128x240x28x28:bf16 w=240x1x3x3:bf16",
        "fprop pad=1x1 groups=576 x=128x576x14x14:bf16 w=576x1x3x3:bf16",
        "fprop pad=1x1 groups=184 x=128x184x14x14:bf16 w=184x1x3x3:bf16",
        "fprop pad=1x1 stride=2x2 groups=576 x=128x576x14x14:bf16 w=576x1x3x3:bf16",
        "dgrad pad=2x2 groups=672 dx=128x672x14x14:bf16 w=672x1x5x5:bf16",
        "fprop pad=2x2 groups=1152 x=128x1152x7x7:f16 w=1152x1x5x5:f16",
        "fprop pad=3x3 groups=96 x=128x96x56x56:f16 w=96x1x7x7:f16",
        "fprop pad=3x3 groups=768 x=128x768x7x7:f16 w=768x1x7x7:f16",
        "fprop pad=1x1 groups=512 x=1x512x14x14:bf16 w=512x1x3x3:bf16",
        "fprop pad=9x9 groups=8 x=2x8x1x1:f16 w=8x1x5x5:f16",
        "fprop pad=1x1 groups=3 x=1000x3x8x8:f16 w=3x1x3x3:f16",
        "fprop pad=1x1 groups=8 x=1x8x3x701:f16 w=8x1x3x3:f16",
        "fprop pad=1x1 groups=8 x=1x8x701x3:f16 w=8x1x3x3:f16",
        "fprop pad=1x1 groups=20000 x=1x20000x3x3:f16 w=20000x1x3x3:f16",
    ] {
        let view = of(&format!("conv:{text}")).unwrap();
        for units in [4, 132] {
            let cut = view.cut(units).unwrap_or_else(|Refusal(reason)| panic!("{text}: {reason}"));
            let p = &cut.params;
            let tile = p.tile;
            let covers = |parts: u32, part: u32, all: u32| parts * part >= all && (parts - 1) * part < all;
            let jobs = cut.blocks * p.jobs + p.jobs_left;
            assert!(covers(p.sets.divisor, tile.images, p.n as u32), "{text}: {p:?}");
            assert_eq!(tile.images % p.unit_images, 0, "{text}: {p:?}");
            assert_eq!(jobs % p.sets.divisor, 0, "{text}: {p:?}");
            assert!(covers(jobs / p.sets.divisor, tile.channels, p.c as u32), "{text}: {p:?}");
            let columns = (p.target_dims[1] as u32).div_ceil(DEPTHWISE_PLANES_COLUMNS);
            assert!(covers(tile.parts, p.part_columns, columns), "{text}: {p:?}");
            assert!(tile.bands * p.band_pairs.divisor >= p.pairs, "{text}: {p:?}");
            assert!(p.unit_images * p.band_pairs.divisor <= DEPTHWISE_PLANES_PAIRS, "{text}: {p:?}");
            assert!(p.unit_images == 1 || tile.bands == 1, "{text}: {p:?}");
            assert!(tile.channels.is_power_of_two(), "{text}: {p:?}");
            assert!(tile.channels <= DEPTHWISE_PLANES_WARPS, "{text}: {p:?}");
            assert!(p.jobs_left < cut.blocks && p.jobs > 0, "{text}: {p:?}");
            assert!(cut.shared_bytes <= MAX_SHARED_BYTES, "{text}: {p:?}");
            assert!((FEWEST_SLOTS..=DEPTHWISE_PLANES_MAX_SLOTS).contains(&tile.slots), "{text}: {p:?}");
            println!(
                "{text}: {} on {units}: {:.0} cycles, {} blocks, {jobs} jobs, {} bytes, {} images of {} pairs, {} products, {tile:?}",
                view.row().symbol,
                cut.cycles,
                cut.blocks,
                cut.shared_bytes,
                p.unit_images,
                p.band_pairs.divisor,
                p.part_columns
            );
        }
    }
}
