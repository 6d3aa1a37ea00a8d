//! The cut against the formula: every position of dy once, and beside it what its taps meet.

use super::View;
use kernel_abi::ops::conv::halo_wgmma::MAX_SHARED_BYTES;
use kernel_abi::ops::conv::halo_wgmma_split::STEP;

const PROBLEMS: &[&str] = &[
    "pad=1x1 stride=1x1 x=2x64x56x56:bf16:nhwc dw=64x64x3x3:bf16:nhwc",
    "pad=0x0 stride=1x1 x=3x64x9x7:bf16:nhwc dw=64x64x3x3:bf16:nhwc",
    "pad=2x2 stride=1x1 x=1x72x13x5:bf16:nhwc dw=136x72x3x3:bf16:nhwc",
    "pad=0x2 pad_end=2x0 stride=1x1 x=2x64x5x4:f16:nhwc dw=64x64x3x3:f16:nhwc",
    "pad=2x0 pad_end=0x2 stride=1x1 x=2x64x5x4:f16:nhwc dw=64x64x3x3:f16:nhwc mode=convolution",
    "pad=5x7 pad_end=6x3 stride=1x1 x=1x64x3x4:f16:nhwc dw=64x64x3x2:f16:nhwc",
    "pad=2x4 stride=1x1 dil=2x4 x=1x64x17x19:bf16:nhwc dw=64x64x3x3:bf16:nhwc",
    "pad=0x1 stride=1x1 dil=7x1 x=2x64x19x300:bf16:nhwc dw=64x64x2x3:bf16:nhwc",
    "pad=1x1 stride=1x1 groups=2 x=1x128x4x521:bf16:nhwc dw=128x64x3x3:bf16:nhwc",
    "pad=1x0 stride=1x1 x=5x8x1x1:bf16:nhwc dw=8x8x2x1:bf16:nhwc",
    "pad=2 stride=1 dil=3 x=3x64x331:bf16:nhwc dw=64x64x3:bf16:nhwc",
    "pad=1x1x1 stride=1x1x1 x=2x64x3x5x6:bf16:nhwc dw=64x64x3x3x3:bf16:nhwc",
    "pad=0x1x1 stride=1x1x1 dil=2x1x1 x=2x64x7x4x301:bf16:nhwc dw=64x64x2x3x3:bf16:nhwc",
];

#[test]
fn strips_hold_what_taps_meet() {
    for text in PROBLEMS {
        let problem = format!("conv:wgrad {text}").parse().unwrap();
        let view = View::of(&problem).unwrap_or_else(|refusal| panic!("{text}: {}", refusal.0));
        let p = view.params();
        let stage = p.stage;
        assert!(stage.stages >= 2 && stage.smem_bytes() <= MAX_SHARED_BYTES, "{text}: {stage:?}");
        let [_, rows, columns] = view.dy.extents;
        let image = view.x.extents;
        let [_, pad_h, pad_w] = view.padding;
        let pitch = i64::from(stage.pitch.divisor);
        let mut met = vec![0; view.dy.count() as usize];
        let (mut first, mut parts) = (0, 0);
        while parts < p.splits {
            let (begin, end) = p.strips_of(parts);
            assert!(begin == first && end >= begin, "{text}");
            (first, parts) = (end, parts + 1);
        }
        assert_eq!(first, p.n_strips, "{text}");
        for index in 0..p.n_strips {
            let place = p.strip(index);
            let column = i64::from(place.part * p.part_w);
            let last = place.part + 1 == p.row_parts.divisor;
            let first = i64::from(place.first);
            for i in first..first + i64::from(stage.steps * STEP) {
                let (row, offset) = (i / pitch, i % pitch);
                assert!(row < stage.rows[0].into(), "{text}: {place:?}, {stage:?}");
                let row = i64::from(place.p) + row;
                if row >= rows || column + offset >= columns || !last && offset >= i64::from(p.part_w) {
                    continue;
                }
                let plane = i64::from(place.image) * view.dy.extents[0] + i64::from(place.z);
                met[((plane * rows + row) * columns + column + offset) as usize] += 1;
                for r in 0..i64::from(p.taps[1]) {
                    for s in 0..i64::from(p.taps[2]) {
                        let [down, aside] = [1, 2].map(|axis| i64::from(p.tap_offset[axis]));
                        let j = i + r * down * pitch + s * aside;
                        let inside = |[h, w]: [i64; 2]| {
                            ((0..image[1]).contains(&h) && (0..image[2]).contains(&w)).then_some([h, w])
                        };
                        let at = [
                            i64::from(place.p) + i64::from(p.base[1]) + j / pitch,
                            column + i64::from(p.base[2]) + j % pitch,
                        ];
                        let is_loaded = j / pitch < stage.rows[1].into();
                        assert!(is_loaded || j < i64::from(stage.rows[1]) * pitch + i64::from(stage.tail), "{text}");
                        let read = if is_loaded { inside(at) } else { None };
                        let formula = inside([row + r * down - pad_h, column + offset + s * aside - pad_w]);
                        assert_eq!(read, formula, "{text}: position {i} of strip {place:?}, tap {r} {s}, {stage:?}");
                    }
                }
            }
        }
        assert!(met.iter().all(|&times| times == 1), "{text}");
    }
}

#[test]
fn refusals_name_the_numbers() {
    let refusal = |text: &str| View::of(&format!("conv:{text}").parse().unwrap()).unwrap_err().0;
    let of = |words: &str, x: &str, w: &str| refusal(&format!("wgrad {words} x={x}:nhwc dw={w}:nhwc"));
    assert!(refusal("fprop pad=1x1 x=1x64x8x8:bf16:nhwc w=64x64x3x3:bf16:nhwc").contains("the pass is fprop"));
    assert!(of("stride=2x1", "1x64x8x8:bf16", "64x64x3x3:bf16").contains("stride 1, given [1, 2, 1]"));
    assert!(of("", "1x64x8x8:bf16", "64x64x5x3:bf16").contains("3 x 3 taps along h and w, given 5 x 3"));
    assert!(of("", "1x64x8x8:bf16", "64x64x1x1:bf16").contains("given 1 x 1"));
    assert!(of("", "1x60x8x8:bf16", "64x60x3x3:bf16").contains("a multiple of 8"));
    assert!(of("", "1x64x8x8:f32", "64x64x3x3:f32").contains("element type is f32"));
    assert!(of("groups=2", "1x64x8x8:bf16", "64x32x3x3:bf16").contains("multiples of 64 channels, given 32 and 32"));
    assert!(of("dil=120x1", "1x64x300x300:bf16", "64x64x3x3:bf16").contains("fits twice in shared memory"));
    assert!(refusal("wgrad x=1x64x8x8:bf16 dw=64x64x3x3:bf16").contains("channels-last"));
}

/// Layers of networks stay near the time of their products.
#[test]
fn cuts_waste_little() {
    for (text, most) in [
        ("pad=1x1 x=256x64x56x56:bf16:nhwc dw=64x64x3x3:bf16:nhwc", 1.03),
        ("pad=1x1 x=256x128x28x28:bf16:nhwc dw=128x128x3x3:bf16:nhwc", 1.05),
        ("pad=1x1 x=256x256x14x14:bf16:nhwc dw=256x256x3x3:bf16:nhwc", 1.2),
        ("pad=1x1 x=64x64x224x224:bf16:nhwc dw=64x64x3x3:bf16:nhwc", 1.05),
    ] {
        let view = View::of(&format!("conv:wgrad {text}").parse().unwrap()).unwrap();
        let p = view.params();
        let computed = u64::from(p.n_strips) * u64::from(p.stage.steps * STEP);
        let waste = computed as f64 / view.dy.count() as f64;
        assert!(waste <= most, "{text}: {waste}, {:?}", view.cut);
    }
}
