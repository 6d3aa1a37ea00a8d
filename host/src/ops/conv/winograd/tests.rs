use super::*;
use crate::DeviceInfo;
use crate::select::{Candidate, Verdict};

fn geometry(text: &str, tile: Tile, method: Method) -> Result<Geometry, String> {
    Geometry::of(&text.parse().unwrap(), tile, method).map_err(|Refusal(reason)| reason)
}

#[test]
fn products_are_a_grouped_convolution_of_one_tap() {
    let text = "conv:fprop pad=1 x=2x67x9x7:f32:nhwc w=33x67x3x3:f32:nhwc";
    let parts = geometry(text, Tile::F4, Method::Parts).unwrap();
    assert_eq!(parts.n_tiles(), 2 * 3 * 2);
    assert_eq!(
        parts.product(12).unwrap().to_string(),
        "conv:fprop pad=0 stride=1 dil=1 groups=36 x=1x3456x12:f32:nhwc w=1296x96x1:f32:nhwc y=1x1296x12:f32:nhwc"
    );
    let scalar = geometry(text, Tile::F2, Method::Ffma).unwrap();
    assert_eq!(scalar.n_tiles(), 2 * 5 * 4);
    assert_eq!(
        scalar.product(40).unwrap().to_string(),
        "conv:fprop pad=0 stride=1 dil=1 groups=16 x=1x1088x40:f32:nhwc w=576x68x1:f32:nhwc y=1x576x40:f32:nhwc"
    );
    assert_eq!(
        parts.layout(12),
        [6 * 36 * 36 * 96, 6 * 36 * 36 * 96 + 12 * 36 * 96 * 4, 6 * 36 * 36 * 96 + 12 * 36 * (96 + 36) * 4]
    );
}

#[test]
fn filters_get_their_gradient_from_all_tiles() {
    let text = "conv:wgrad pad=1 x=2x67x9x7:f32:nhwc dw=33x67x3x3:f32:nhwc";
    let parts = geometry(text, Tile::F4, Method::Parts).unwrap();
    assert_eq!(
        parts.product(12).unwrap().to_string(),
        "conv:wgrad pad=0 stride=1 dil=1 groups=36 x=1x2448x12:f32:nhwc dy=1x1296x12:f32:nhwc dw=1296x68x1:f32:nhwc"
    );
    assert_eq!(parts.filter_bytes(), 36 * 36 * 68 * 4);
}

#[test]
fn gradients_turn_the_filter_around() {
    let filter = |text: &str| {
        let params = geometry(text, Tile::F4, Method::Ffma).unwrap().filter();
        (params.strides, params.tap_strides, params.first_tap, params.rows, params.columns)
    };
    assert_eq!(filter("conv:fprop x=1x4x5x5:f32:nhwc w=8x4x3x3:f32:nhwc"), ([36, 1], [12, 4], 0, 8, 4));
    assert_eq!(
        filter("conv:fprop mode=convolution x=1x4x5x5:f32:nhwc w=8x4x3x3:f32:nhwc"),
        ([36, 1], [-12, -4], 32, 8, 4)
    );
    assert_eq!(filter("conv:dgrad dx=1x4x5x5:f32:nhwc w=8x4x3x3:f32:nhwc"), ([1, 36], [-12, -4], 32, 4, 8));
    let padding = |text: &str| geometry(text, Tile::F4, Method::Ffma).unwrap().images(0, 1, [0, 0]).padding;
    assert_eq!(padding("conv:fprop pad=1x2 x=1x4x5x5:f32:nhwc w=8x4x3x3:f32:nhwc"), [1, 2]);
    assert_eq!(padding("conv:dgrad pad=0x4 dx=1x4x5x5:f32:nhwc w=8x4x3x3:f32:nhwc"), [2, -2]);
}

#[test]
fn turns_take_all_tiles_in_whole_blocks() {
    let geometry =
        geometry("conv:fprop pad=1 x=5x8x61x59:f32:nhwc w=8x8x3x3:f32:nhwc", Tile::F2, Method::Parts).unwrap();
    assert_eq!(geometry.n_tiles(), 5 * 31 * 30);
    for chunks in [1, 2, 3, 8, 128] {
        let tiles = geometry.chunk_tiles(chunks);
        assert!(tiles * chunks >= geometry.n_tiles());
        assert!(chunks == 1 || tiles % 128 == 0, "{chunks}: {tiles}");
    }
}

#[test]
fn names_are_told_apart() {
    let of_tiles = NCHW_NAMES.iter().flatten().flat_map(|names| names.iter());
    let mut names: Vec<&str> = of_tiles.flat_map(|&(a, b)| [a, b]).collect();
    let n = names.len();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), n);
    let variant = variants::chosen(Config("convbf16x3_gather_f32_128x128_sm90+f4x4+chunks6"));
    assert_eq!((variant.tile, variant.chunks, variant.method), (Tile::F4, 6, Method::Parts));
    for (tile, names) in [Tile::F2, Tile::F4].into_iter().zip(NCHW_NAMES) {
        assert!(
            names.iter().flat_map(|names| names.iter()).all(|(name, _)| variants::chosen(Config(name)).tile == tile)
        );
    }
}

#[test]
fn larger_tiles_are_for_problems_that_permit_their_error() {
    let context = Context::described(DeviceInfo::h200());
    for layout in ["nhwc", "nchw"] {
        let offered = |math: &str| {
            let text = format!("conv:fprop pad=1 math={math} x=9x64x59x57:f32:{layout} w=64x64x3x3:f32:{layout}");
            let all = crate::select::candidates::<ConvProblem>(&context, &text.parse().unwrap(), None);
            let tiles = ["+f2x2", "+f4x4"].map(|tile| all.iter().any(|candidate| candidate.config.contains(tile)));
            let is_larger = |candidate: &&Candidate| candidate.algorithm == "winograd_4x4";
            (tiles, all.iter().find(is_larger).map(|candidate| candidate.verdict.clone()).unwrap())
        };
        let (tiles, verdict) = offered("full");
        assert_eq!(tiles, [true, false], "{layout}");
        if layout == "nhwc" {
            let reason = "takes math=winograd4x4 or math=tf32, given math=full";
            assert!(matches!(&verdict, Verdict::Refused(given) if given.ends_with(reason)), "{verdict:?}");
        }
        for math in ["winograd4x4", "tf32"] {
            assert!(offered(math).0[1], "{layout} {math}");
        }
    }
}

#[test]
fn refusals_name_the_numbers() {
    let refusal = |text: &str| geometry(text, Tile::F4, Method::Parts).map(|_| ()).unwrap_err();
    assert!(refusal("conv:fprop x=1x4x5x5:bf16:nhwc w=8x4x3x3:bf16:nhwc").contains("the element type is bf16"));
    assert!(refusal("conv:fprop x=1x4x5x5:f32:nhwc w=8x4x1x3:f32:nhwc").contains("given taps [1, 3]"));
    assert!(refusal("conv:fprop stride=2 x=1x4x5x5:f32:nhwc w=8x4x3x3:f32:nhwc").contains("strides [2, 2]"));
    assert!(refusal("conv:fprop dil=2 x=1x4x5x5:f32:nhwc w=8x4x3x3:f32:nhwc").contains("dilations [2, 2]"));
    assert!(refusal("conv:fprop groups=2 x=1x4x5x5:f32:nhwc w=8x2x3x3:f32:nhwc").contains("2 groups"));
    assert!(refusal("conv:fprop x=1x4x5x5:f32 w=8x4x3x3:f32").contains("stride of its channels is 25"));
    assert!(refusal("conv:fprop pad=300000000 x=1x1x5x5:f32 w=1x1x3x3:f32").contains("given 600000003"));
}
