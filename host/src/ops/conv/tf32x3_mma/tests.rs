//! What is planned, on the CPU.

use super::*;
use crate::DeviceInfo;

fn problem(text: &str) -> ConvProblem {
    text.parse().unwrap()
}

fn configs(text: &str) -> Result<Vec<&'static str>, String> {
    let context = Context::described(DeviceInfo::h200());
    Tf32x3Mma
        .configs(&problem(text), &context)
        .map(|all| all.iter().map(|c| c.0).collect())
        .map_err(|refusal| refusal.0)
}

#[test]
fn names_lead_back_to_their_variants() {
    for each in variants() {
        let found = variant(Config(each.name));
        assert_eq!((found.symbol, found.cut), (each.symbol, each.cut));
        assert_eq!((small(each).pass, small(each).cut, small(each).tile.size), (each.pass, each.cut, 64));
        assert!(each.name.starts_with(each.symbol) && each.symbol.contains(each.pass));
        if let Cut::Cluster(blocks) = each.cut {
            assert_eq!(each.name, format!("{}+cluster{blocks}", each.symbol));
        }
    }
}

#[test]
fn refusals_name_the_numbers() {
    let refusal = |text: &str| configs(text).unwrap_err();
    assert!(refusal("conv:fprop x=1x8x4x4:bf16:nhwc w=8x8x1x1:bf16:nhwc").contains("the element type is bf16"));
    assert!(refusal("conv:fprop x=1x8x4x4:f32 w=8x8x1x1:f32:nhwc").contains("needs x densely channels-last"));
    assert!(refusal("conv:fprop x=1x8x30x30:f32:nhwc w=8x8x29x29:f32:nhwc").contains("the filter has 841"));
    assert!(refusal("conv:fprop x=40000x1x200x200:f32:nhwc w=1x1x1x1:f32:nhwc").contains("needs pixels of x below"));
    let cpu = Tf32x3Mma.configs(&problem("conv:fprop x=1x8x4x4:f32:nhwc w=8x8x1x1:f32:nhwc"), &Context::cpu());
    assert!(cpu.unwrap_err().0.contains("runs on a GPU"));
}

/// A cluster shares the sum of a tile; its blocks have all positions between them.
#[test]
fn sums_are_cut() {
    let text = "conv:wgrad pad=2 stride=4 x=256x3x224x224:f32:nhwc dw=64x3x11x11:f32:nhwc";
    let names = configs(text).unwrap();
    assert!(names.contains(&"convtf32x3_wgrad_mma_f32_64x64x32_sm90+cluster8"), "{names:?}");
    assert!(!names.contains(&"convtf32x3_wgrad_mma_f32_64x64x32"), "{names:?}");
    for name in names {
        let (variant, problem) = (variant(Config(name)), problem(text));
        let params = params(&problem, variant);
        assert!(params.slabs * params.slab_pixels >= 256 * 55 * 55, "{name}");
        assert_eq!((params.source_elems, params.other_elems, params.wide_stores), (1, 4, 0), "{name}");
        let bytes = Tf32x3Mma.workspace_bytes(&problem, Config(name));
        assert_eq!(bytes > 0, variant.cut == Cut::Slabs, "{name}");
    }
}

/// Large tiles need more shared memory than every device has.
#[test]
fn tiles_fit_the_device() {
    let text = "conv:fprop pad=2 x=2x64x27x27:f32:nhwc w=192x64x6x6:f32:nhwc";
    let ada = Context::described(DeviceInfo::of_gpu("Ada".to_owned(), (8, 9), 100, 1 << 34));
    let names: Vec<_> = Tf32x3Mma.configs(&problem(text), &ada).unwrap().iter().map(|config| config.0).collect();
    assert_eq!(names, ["convtf32x3_fprop_mma_f32_64x64x32"]);
    assert_eq!(configs(text).unwrap().len(), 2);
}

/// Sixteen classes of three channels fill most of a tile, and meet 4 × 4 distances between them.
#[test]
fn classes_of_few_channels_are_columns() {
    let few = problem("conv:dgrad pad=2 stride=4 dx=256x3x224x224:f32:nhwc w=64x3x11x11:f32:nhwc");
    let of = |problem: &ConvProblem| params(problem, variant(Config("convtf32x3_dgrad_mma_f32_64x64x32")));
    let params = of(&few);
    assert_eq!((params.spread_classes, params.classes, params.n_tiles), (16, [1; 3], 1));
    assert_eq!([1, 2].map(|axis| params.spread(axis)), [(-2, 4); 2]);
    assert_eq!(params.m_tiles, (256 * 56 * 56u32).div_ceil(64));
    let many = problem("conv:dgrad pad=1 stride=2 dx=2x64x28x28:f32:nhwc w=64x64x3x3:f32:nhwc");
    assert_eq!((of(&many).spread_classes, of(&many).classes), (0, [1, 2, 2]));
    let far = problem("conv:dgrad pad=500000000 stride=500000000 dx=1x1x7x7x7:f32:nhwc w=1x1x2x2x2:f32:nhwc");
    assert_eq!(of(&far).spread_classes, 0);
}
