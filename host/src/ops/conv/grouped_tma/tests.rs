//! Refusals, and that cuts cover the target.

use super::cut::{Device, RESERVED_BYTES, View};
use crate::ops::conv::ConvProblem;
use crate::select::Refusal;
use kernel_abi::ops::conv::ConvPass;
use kernel_abi::ops::conv::grouped_tma::GROUPED_TMA_MAX_BOX;
use kernel_abi::ops::conv::halo_wgmma::MAX_SHARED_BYTES;

fn of(text: &str) -> Result<View, String> {
    View::of(&text.parse::<ConvProblem>().unwrap()).map_err(|Refusal(reason)| reason)
}

#[test]
fn refusals_name_what_is_taken_and_given() {
    for (text, expected) in [
        ("fprop groups=8 x=2x8x7x7:bf16 w=8x1x3x3:bf16", "needs x densely channels-last"),
        (
            "fprop groups=4 x=2x12x7x7:bf16:nhwc w=12x3x3x3:bf16",
            "groups of 1, 2, 4, 8, 16 or 32 channels on both sides",
        ),
        ("fprop groups=12 x=2x12x7x7:bf16:nhwc w=12x1x3x3:bf16:nhwc", "needs a multiple of 8 channels"),
        (
            "dgrad stride=2x2 groups=8 dx=2x8x7x7:bf16:nhwc w=8x1x3x3:bf16:nhwc",
            "has kernels for stride 1x1, and for 2x2 but in dgrad and of 7x7 taps, given 2x2",
        ),
        ("fprop stride=1x2 groups=8 x=2x8x7x7:f16:nhwc w=8x1x3x3:f16:nhwc", "but in dgrad and of 7x7 taps, given 1x2"),
        (
            "wgrad dil=2x1 groups=8 x=2x8x7x7:f16:nhwc dw=8x1x3x3:f16:nhwc",
            "takes neighbouring taps, given dilation 2x1",
        ),
        (
            "fprop groups=8 x=2x8x9x9:bf16:nhwc w=8x1x9x9:bf16:nhwc",
            "has kernels for 3x3 and 5x5 and 7x7 taps, the filter has 9x9",
        ),
        (
            "fprop groups=8 x=2x8x9x9:bf16:nhwc w=8x1x3x5:bf16:nhwc",
            "has kernels for 3x3 and 5x5 and 7x7 taps, the filter has 3x5",
        ),
        (
            "wgrad stride=2x2 groups=8 x=2x8x9x9:bf16:nhwc dw=8x1x7x7:bf16:nhwc",
            "but in dgrad and of 7x7 taps, given 2x2",
        ),
        (
            "dgrad groups=2 dx=2x32x9x9:f16:nhwc w=32x16x5x5:f16:nhwc",
            "has kernels of 5x5 taps for groups of up to 8 channels, given 16",
        ),
        (
            "dgrad stride=2x2 groups=8 dx=2x8x9x9:bf16:nhwc w=8x1x5x5:bf16:nhwc",
            "but in dgrad and of 7x7 taps, given 2x2",
        ),
    ] {
        let reason = of(&format!("conv:{text}")).unwrap_err();
        assert!(reason.contains(expected), "{text}: {reason}");
    }
    let view = of("conv:fprop groups=8 x=64x8x4000x4000:f16:nhwc w=8x1x3x3:f16:nhwc").unwrap();
    let device = Device { units: 132, blocks: 1, bytes_per_cycle: 17.0 };
    assert!(view.cut(device).is_ok());
}

/// Every row, column, channel and image is some tile's, no tile is empty, blocks fit a multiprocessor, and a workspace has
/// room for the partial sums of all blocks.
#[test]
fn cuts_cover_the_target() {
    for text in [
        "fprop pad=1x1 groups=32 x=128x128x56x56:bf16:nhwc w=128x4x3x3:bf16:nhwc",
        "fprop pad=1x1 stride=2x2 groups=32 x=128x256x56x56:bf16:nhwc w=256x8x3x3:bf16:nhwc",
        "dgrad pad=1x1 groups=32 dx=128x512x14x14:bf16:nhwc w=512x16x3x3:bf16:nhwc",
        "fprop pad=1x1 groups=32 x=128x1024x7x7:bf16:nhwc w=1024x32x3x3:bf16:nhwc",
        "wgrad pad=1x1 groups=32 x=128x1024x7x7:bf16:nhwc dw=1024x32x3x3:bf16:nhwc",
        "wgrad pad=1x1 stride=2x2 groups=32 x=128x512x28x28:bf16:nhwc dw=512x16x3x3:bf16:nhwc",
        "wgrad pad=1x1 groups=144 x=128x144x56x56:bf16:nhwc dw=144x1x3x3:bf16:nhwc",
        "wgrad pad=1x1 groups=8 x=3x8x5x5:f16:nhwc dw=8x1x3x3:f16:nhwc",
        "fprop pad=1x1 groups=8 x=1x8x3x1000:f16:nhwc w=8x1x3x3:f16:nhwc",
        "fprop pad=1x1 groups=8 x=1x8x1x900000000:f16:nhwc w=8x1x3x3:f16:nhwc",
        "fprop pad=2x2 groups=240 x=128x240x28x28:bf16:nhwc w=240x1x5x5:bf16:nhwc",
        "fprop pad=2x2 stride=2x2 groups=672 x=128x672x14x14:bf16:nhwc w=672x1x5x5:bf16:nhwc",
        "dgrad pad=2x2 groups=960 dx=128x960x7x7:f16:nhwc w=960x1x5x5:f16:nhwc",
        "fprop pad=2x2 stride=2x2 groups=1 x=1x8x9x1000:f16:nhwc w=8x8x5x5:f16:nhwc",
        "dgrad groups=4 dx=3x8x5x9:bf16:nhwc w=8x2x5x5:bf16:nhwc",
        "wgrad pad=2x2 groups=240 x=128x240x28x28:bf16:nhwc dw=240x1x5x5:bf16:nhwc",
        "wgrad pad=2x2 stride=2x2 groups=672 x=128x672x14x14:bf16:nhwc dw=672x1x5x5:bf16:nhwc",
        "fprop pad=3x3 groups=96 x=128x96x56x56:bf16:nhwc w=96x1x7x7:bf16:nhwc",
        "dgrad pad=3x3 groups=768 dx=128x768x7x7:f16:nhwc w=768x1x7x7:f16:nhwc",
        "wgrad pad=3x3 groups=384 x=128x384x14x14:bf16:nhwc dw=384x1x7x7:bf16:nhwc",
        "wgrad pad=3x3 groups=2 x=1x16x3x1000:bf16:nhwc dw=16x8x7x7:bf16:nhwc",
        "wgrad pad=1x1 groups=20000 x=1x20000x5x5:f16:nhwc dw=20000x1x3x3:f16:nhwc",
    ] {
        for [units, blocks] in [[1, 1], [20, 1], [132, 1], [1000, 1], [1, 2], [132, 2]] {
            let problem: ConvProblem = format!("conv:{text}").parse().unwrap();
            let view = of(&format!("conv:{text}")).unwrap();
            let cut = view
                .cut(Device { units, blocks, bytes_per_cycle: 17.0 })
                .unwrap_or_else(|Refusal(reason)| panic!("{text}: {reason}"));
            let (p, form) = (cut.params, view.row.form());
            let (tile, wgrad) = (p.tile, problem.conv_pass() == ConvPass::Wgrad);
            assert_eq!((form.wgrad, i64::from(form.taps)), (wgrad, problem.shape().filter[1]), "{text}");
            let [height, width] = view.target_dims;
            let counts = [p.column_tiles.divisor, p.bands.divisor];
            for (parts, (size, extent)) in counts.into_iter().zip([(tile.columns, width), (tile.rows, height)]) {
                assert_eq!(parts, extent.div_ceil(size), "{text}: {cut:?}");
            }
            assert_eq!(p.n_tiles, counts[0] * counts[1] * view.n.div_ceil(tile.images), "{text}: {cut:?}");
            assert!(p.slabs >= 1 && p.slabs <= p.n_tiles, "{text}: {cut:?}");
            assert_eq!(cut.blocks, p.slabs * p.slices.divisor, "{text}: {cut:?}");
            assert!(tile.images.max(tile.source_columns(form)) <= GROUPED_TMA_MAX_BOX, "{text}: {cut:?}");
            let width = problem.shape().group_c().max(8) as u32;
            let warps = view.warps(tile.channels);
            assert_eq!(p.slices.divisor, view.c.div_ceil(tile.channels), "{text}: {cut:?}");
            assert_eq!(warps, form.warps(view.c.min(tile.channels), width));
            assert_eq!(cut.threads, 32 * (tile.strips(form) * warps + form.movers()), "{text}: {cut:?}");
            assert!(cut.threads <= view.row.most_threads(blocks), "{text}: {cut:?}");
            assert!(
                tile.stages >= 3
                    && blocks * (tile.smem_bytes(form) + RESERVED_BYTES) <= MAX_SHARED_BYTES + RESERVED_BYTES,
                "{text}: {cut:?}"
            );
            if wgrad {
                let ring = tile.stages * tile.stage_bytes(form);
                assert!(tile.sums_bytes(form, warps, width) <= ring, "{text}: {cut:?}");
                let partials = u64::from(p.slabs) * problem.w().n_elems() as u64 * 4;
                assert!(partials <= view.partials_bytes(blocks), "{text}: {cut:?}");
            }
        }
    }
}
