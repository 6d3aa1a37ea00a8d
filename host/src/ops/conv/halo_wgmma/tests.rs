//! How tiles are cut and shared out, and what is refused.

use super::cut::Cut;
use super::*;
use crate::DeviceInfo;

fn view(text: &str) -> Result<View, String> {
    View::of(&text.parse().unwrap()).map_err(|Refusal(reason)| reason)
}

fn cut(text: &str, form: Form) -> Cut {
    view(text).unwrap().cut(form).unwrap()
}

#[test]
fn small_images_share_a_tile_and_their_padding() {
    // 7 columns and one of padding, 7 rows and one of padding: four images are 256 positions.
    let shape = "conv:fprop pad=1x1 x=9x64x7x7:bf16:nhwc w=64x64x3x3:bf16:nhwc";
    let Cut { pitch, images, image_rows, tail, m_blocks, .. } = cut(shape, C64_P256);
    assert_eq!([pitch, images, image_rows, m_blocks, tail], [8, 4, 8, 1, 18]);
    assert_eq!(view(shape).unwrap().n_tiles(&cut(shape, C64_P256), 64), 3);
    // Without padding there is none to share.
    let Cut { pitch, images, image_rows, .. } = cut("conv:fprop x=9x64x9x9:bf16:nhwc w=64x64x3x3:bf16:nhwc", C64_P256);
    assert_eq!([pitch, images, image_rows], [9, 3, 9]);
    // An image that fills a tile, and one that fills several.
    let Cut { images, m_blocks, .. } =
        cut("conv:dgrad pad=1x1 dx=9x64x14x14:bf16:nhwc w=64x64x3x3:bf16:nhwc", C64_P256);
    assert_eq!([images, m_blocks], [1, 1]);
    let Cut { images, strips, m_blocks, .. } =
        cut("conv:dgrad pad=1x1 dx=9x64x28x28:bf16:nhwc w=64x64x3x3:bf16:nhwc", C64_P256);
    assert_eq!([images, strips * m_blocks], [1, 4]);
}

#[test]
fn rounds_decide_between_tiles() {
    let context = Context::described(DeviceInfo::h200());
    let view = view("conv:dgrad dx=1x128x26x28x28:bf16:nhwc w=256x128x3x3x3:bf16:nhwc").unwrap();
    let n_tiles = |form: Form| view.n_tiles(&view.cut(form).unwrap(), 128);
    // Of 132 multiprocessors.
    assert_eq!([C128_P256, C128_P192].map(n_tiles), [104, 130]);
    assert!(view.products_us(C128_P192, &context) < 0.85 * view.products_us(C128_P256, &context));
}

#[test]
fn strides_part_what_is_read() {
    let parts = |text: &str| view(text).unwrap().parts().map(|parts| (parts.count, parts.shift, parts.longest_span()));
    let of =
        |desc: &str, taps: &str| parts(&format!("conv:fprop {desc} x=2x64x28x28:bf16:nhwc w=64x64x{taps}:bf16:nhwc"));
    assert_eq!(of("pad=1x1", "3x3"), [(1, 1, 2); 2]);
    assert_eq!(of("pad=1x1 stride=2x2", "3x3"), [(2, 1, 1); 2]);
    assert_eq!(of("pad=1x1 stride=2x2 dil=2x4", "3x3"), [(1, 1, 2), (1, 2, 4)]);
    assert_eq!(of("stride=4x6 dil=6x4", "3x2"), [(2, 3, 3), (2, 2, 0)]);
    let strided = "conv:fprop pad=1x1 stride=2x2 x=2x64x28x28:bf16:nhwc w=64x64x3x3:bf16:nhwc";
    let Cut { pitch, images, image_rows, .. } = cut(strided, C64_P256);
    // 14 columns of every second position; the padding at the end is none, so that the next row's is what is missing.
    assert_eq!([pitch, images, image_rows], [15, 1, 15]);
}

#[test]
fn resident_filters_keep_blocks_to_a_group() {
    let view = view("conv:fprop pad=1x1 groups=16 x=128x1024x7x7:bf16:nhwc w=1024x64x3x3:bf16:nhwc").unwrap();
    let cut = view.cut(C64_P256_RESIDENT).unwrap();
    // 32 tiles of a group, two at a time, by 8 blocks of each group.
    assert_eq!(view.shares(&cut, C64_P256_RESIDENT, 132), (8, 2));
    assert_eq!(view.shares(&cut, C64_P256, 132), (128, 4));
    // More groups than multiprocessors.
    assert_eq!(view.shares(&cut, C64_P256_RESIDENT, 10), (1, 16));
    let context = Context::described(DeviceInfo::h200());
    assert!(view.products_us(C64_P256_RESIDENT, &context) < view.products_us(C64_P256, &context));
}

#[test]
fn what_it_does_not_take_is_refused() {
    let refusal = |text: &str| view(text).err().unwrap();
    let refuses = |text: &str, reason: &str| {
        let given = refusal(text);
        assert!(given.contains(reason), "{given}");
    };
    refuses("conv:wgrad x=1x64x9x9:bf16:nhwc dw=64x64x3x3:bf16:nhwc", "the pass is wgrad");
    refuses("conv:dgrad stride=2x1 dx=1x64x9x9:bf16:nhwc w=64x64x3x3:bf16:nhwc", "dgrad of stride 1, given [1, 2, 1]");
    refuses("conv:fprop stride=1x9 x=1x64x19x19:bf16:nhwc w=64x64x3x3:bf16:nhwc", "steps of up to 8, given 9");
    refuses("conv:fprop x=1x64x9x9:bf16:nhwc w=64x64x1x1:bf16:nhwc", "filters of several taps");
    refuses("conv:fprop x=1x64x9x9:f32:nhwc w=64x64x3x3:f32:nhwc", "f32");
    // Groups that end within a panel would read the next one's channels.
    let of = |c: i64| view(&format!("conv:fprop groups=2 x=1x{}x9x9:f16:nhwc w=64x{c}x3x3:f16:nhwc", 2 * c)).unwrap();
    assert!(of(64).fits(C64_P256) && !of(96).fits(C64_P256) && of(96).fits(C64_P256_D32_RESIDENT));
    assert!(!of(40).fits(C64_P256_D32_RESIDENT) && !of(40).fits(C64_P256));
}
