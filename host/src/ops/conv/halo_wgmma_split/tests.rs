//! The cut against the formula: every position of dy once, and beside it what its taps meet.

use super::View;
use kernel_abi::ops::conv::halo_wgmma::MAX_SHARED_BYTES;
use kernel_abi::ops::conv::halo_wgmma_split::{Form, STEP, StripPlace};

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
    "pad=1x1 stride=1x1 x=2x32x56x56:bf16:nhwc dw=32x32x3x3:bf16:nhwc",
    "pad=2x0 pad_end=0x2 stride=1x1 x=2x24x5x4:f16:nhwc dw=16x24x3x3:f16:nhwc mode=convolution",
    "pad=3x4 stride=1x1 dil=3x4 x=1x32x17x19:bf16:nhwc dw=64x32x3x3:bf16:nhwc",
    "pad=0x1 stride=1x1 dil=7x1 x=2x96x19x300:bf16:nhwc dw=32x96x2x3:bf16:nhwc",
    "pad=1x1 stride=1x1 groups=2 x=1x64x4x521:bf16:nhwc dw=64x32x3x3:bf16:nhwc",
    "pad=1x0 stride=1x1 x=5x8x1x1:bf16:nhwc dw=8x8x2x1:bf16:nhwc",
    "pad=2 stride=1 dil=3 x=3x32x331:bf16:nhwc dw=32x32x3:bf16:nhwc",
    "pad=1x1x1 stride=1x1x1 x=2x32x3x5x6:bf16:nhwc dw=32x32x3x3x3:bf16:nhwc",
    "pad=1x1 stride=1x1 x=2x136x8x8:bf16:nhwc dw=40x136x3x3:bf16:nhwc",
    "pad=0x2 stride=1x1 dil=1x2 groups=2 x=2x128x9x11:f16:nhwc dw=80x64x2x3:f16:nhwc",
];

#[test]
fn strips_hold_what_taps_meet() {
    let mut views = [0; 3];
    for text in PROBLEMS {
        let problem = format!("conv:wgrad {text}").parse().unwrap();
        let forms = Form::ALL.map(|form| View::of(&problem, form));
        for (view, count) in forms.iter().zip(&mut views) {
            if let Ok(view) = view {
                *count += 1;
                check_strips(text, view);
            }
        }
        assert!(forms.iter().any(Result::is_ok), "{text}: {forms:?}");
    }
    assert!(views[0] >= 13 && views[1] >= 8 && views[2] >= 2, "{views:?}");
}

/// Every row of taps meets every position of dy once, and there what the formula says.
fn check_strips(text: &str, view: &View) {
    let p = view.params();
    let stage = p.stage;
    assert!(stage.stages >= 2 && stage.smem_bytes() <= MAX_SHARED_BYTES, "{text}: {stage:?}");
    let [_, rows, columns] = view.dy.extents;
    let [down, aside] = [1, 2].map(|axis| i64::from(p.tap_offset[axis]));
    let pitch = i64::from(stage.pitch.divisor);
    let mut met = vec![vec![0; view.dy.count() as usize]; p.taps[1] as usize];
    for place in (0..p.n_strips).map(|index| p.strip(index)) {
        let column = i64::from(place.part * p.part_w);
        let last = place.part + 1 == p.row_parts.divisor;
        let first = i64::from(place.first);
        for (i, panel) in (first..first + i64::from(stage.steps * STEP))
            .flat_map(|i| (0..p.form.tap_rows()).map(move |panel| (i, panel)))
        {
            let of_dy = i + i64::from(panel * stage.lead) * pitch;
            let (row, offset) = (of_dy / pitch, of_dy % pitch);
            assert!(row < stage.rows[0].into(), "{text}: {place:?}, {stage:?}");
            let row = i64::from(place.p) + row;
            if !(0..rows).contains(&row) || column + offset >= columns || !last && offset >= i64::from(p.part_w) {
                continue;
            }
            let plane = i64::from(place.image) * view.dy.extents[0] + i64::from(place.z);
            let position = ((plane * rows + row) * columns + column + offset) as usize;
            for consumer in 0..p.consumers() {
                // What a consumer reads of x is its first row's, which the panel of dy makes its own.
                let first_row = consumer * p.form.tap_rows();
                if first_row + panel >= p.taps[1] {
                    continue;
                }
                let (r, reads) = (p.tap_row(first_row + panel), i64::from(p.tap_row(first_row)));
                met[r as usize][position] += 1;
                for s in 0..i64::from(p.taps[2]) {
                    let j = i + reads * down * pitch + s * aside;
                    let read = read_of_x(view, place, column, j);
                    let [_, pad_h, pad_w] = view.padding;
                    let formula =
                        inside(view, [row + i64::from(r) * down - pad_h, column + offset + s * aside - pad_w]);
                    assert_eq!(read, formula, "{text}: position {i} of {place:?}, tap {r} {s}, {stage:?}");
                }
            }
        }
    }
    assert!(met.iter().flatten().all(|&times| times == 1), "{text}: {:?}", p.form);
}

/// A position of an image of x, unless it is in the padding.
fn inside(view: &View, [h, w]: [i64; 2]) -> Option<[i64; 2]> {
    let image = view.x.extents;
    ((0..image[1]).contains(&h) && (0..image[2]).contains(&w)).then_some([h, w])
}

/// What lies at position `j` of a strip's x in shared memory.
fn read_of_x(view: &View, place: StripPlace, column: i64, j: i64) -> Option<[i64; 2]> {
    let p = view.params();
    let pitch = i64::from(p.stage.pitch.divisor);
    let [row, offset] = [j / pitch, j % pitch];
    if row >= p.stage.rows[1].into() {
        assert!(j < i64::from(p.stage.rows[1]) * pitch + i64::from(p.stage.tail), "{place:?}, {:?}", p.stage);
        return None;
    }
    inside(view, [i64::from(place.p + p.base[1]) + row, column + i64::from(p.base[2]) + offset])
}

#[test]
fn refusals_name_the_numbers() {
    let of_form = |form, text: &str| View::of(&format!("conv:{text}").parse().unwrap(), form).unwrap_err().0;
    let refusal = |text: &str| of_form(Form::WIDE, text);
    let of = |words: &str, x: &str, w: &str| refusal(&format!("wgrad {words} x={x}:nhwc dw={w}:nhwc"));
    assert!(refusal("fprop pad=1x1 x=1x64x8x8:bf16:nhwc w=64x64x3x3:bf16:nhwc").contains("the pass is fprop"));
    assert!(of("stride=2x1", "1x64x8x8:bf16", "64x64x3x3:bf16").contains("stride 1, given [1, 2, 1]"));
    assert!(of("", "1x64x8x8:bf16", "64x64x5x3:bf16").contains("3 x 3 taps along h and w, given 5 x 3"));
    assert!(of("", "1x64x8x8:bf16", "64x64x1x1:bf16").contains("given 1 x 1"));
    assert!(of("", "1x60x8x8:bf16", "64x60x3x3:bf16").contains("a multiple of 8"));
    assert!(of("", "1x64x8x8:f32", "64x64x3x3:f32").contains("element type is f32"));
    assert!(
        of("groups=2", "1x64x8x8:bf16", "64x32x3x3:bf16").contains("multiples of 64 and 64 channels, given 32 and 32")
    );
    assert!(of("dil=120x1", "1x64x300x300:bf16", "64x64x3x3:bf16").contains("fits twice in shared memory"));
    let few_k = of_form(Form::FEW_K, "wgrad x=1x64x8x8:bf16:nhwc dw=48x64x3x3:bf16:nhwc");
    assert!(few_k.contains("40 x 64 for 33 to 40 k, given 48"), "{few_k}");
    let narrow = |words: &str, x: &str, w: &str| {
        of_form(Form::NARROW, &format!("wgrad {words} x={x}:bf16:nhwc dw={w}:bf16:nhwc"))
    };
    assert!(narrow("", "1x40x8x8", "64x40x3x3").contains("for up to 32 channels, given 64 and 40"));
    assert!(narrow("groups=2", "1x64x8x8", "48x32x3x3").contains("multiples of 32 and 32 channels, given 24 and 32"));
    assert!(refusal("wgrad x=1x64x8x8:bf16 dw=64x64x3x3:bf16").contains("channels-last"));
}

/// Layers of networks stay near the time of their products.
#[test]
fn cuts_waste_little() {
    for (form, text, most) in [
        (Form::WIDE, "pad=1x1 x=256x64x56x56:bf16:nhwc dw=64x64x3x3:bf16:nhwc", 1.03),
        (Form::WIDE, "pad=1x1 x=256x128x28x28:bf16:nhwc dw=128x128x3x3:bf16:nhwc", 1.05),
        (Form::WIDE, "pad=1x1 x=256x256x14x14:bf16:nhwc dw=256x256x3x3:bf16:nhwc", 1.2),
        (Form::WIDE, "pad=1x1 x=64x64x224x224:bf16:nhwc dw=64x64x3x3:bf16:nhwc", 1.05),
        (Form::NARROW, "pad=1x1x1 x=2x32x128x128x128:bf16:nhwc dw=32x32x3x3x3:bf16:nhwc", 1.05),
        (Form::NARROW, "pad=1x1 x=256x32x32x32:bf16:nhwc dw=32x32x3x3:bf16:nhwc", 1.08),
        (Form::FEW_K, "pad=1x1 x=256x456x32x32:bf16:nhwc dw=40x456x3x3:bf16:nhwc", 1.05),
        (Form::FEW_K, "pad=1x1 x=256x1216x8x8:bf16:nhwc dw=40x1216x3x3:bf16:nhwc", 1.25),
    ] {
        let view = View::of(&format!("conv:wgrad {text}").parse().unwrap(), form).unwrap();
        let p = view.params();
        let computed = u64::from(p.n_strips) * u64::from(p.stage.steps * STEP);
        let waste = computed as f64 / view.dy.count() as f64;
        assert!(waste <= most, "{text}: {waste}, {:?}", view.cut);
    }
}
