//! `wgmma`: images of shared memory from the descriptor's documentation, D from the fragment's.

use super::encode::Type;
use super::unit::{Unit, assert_same, hopper_unit, random};
use oxidnn::half::f16;

/// Numbers of the descriptor's swizzle field.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Swizzle {
    None = 0,
    B128 = 1,
    B64 = 2,
    B32 = 3,
}

const SWIZZLES: [Swizzle; 4] = [Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32];

impl Swizzle {
    /// Bytes of a row of the pattern.
    fn span(self) -> usize {
        match self {
            Swizzle::None => 16,
            Swizzle::B128 => 128,
            Swizzle::B64 => 64,
            Swizzle::B32 => 32,
        }
    }

    fn apply(self, byte: usize) -> usize {
        let mask = match self {
            Swizzle::None => 0,
            Swizzle::B128 => 7,
            Swizzle::B64 => 3,
            Swizzle::B32 => 1,
        };
        byte ^ (((byte >> 7) & mask) << 4)
    }
}

/// An operand in shared memory: the image and what the descriptor says of it.
struct Image {
    bytes: Vec<u8>,
    leading: usize,
    stride: usize,
    swizzle: Swizzle,
    step: usize,
}

impl Image {
    /// `values[mn][k]`; MN-major when `transposed`, else K-major.
    fn new(values: &[Vec<i32>], element: Type, swizzle: Swizzle, transposed: bool) -> Self {
        let (mn, k, size) = (values.len(), values[0].len(), element.bytes());
        let span = swizzle.span();
        let width = span / size;
        let row_bytes = k * size;
        // A row, or a panel, takes a whole span of the pattern, whether it fills it or not.
        let mut bytes = vec![
            0;
            match (swizzle, transposed) {
                (Swizzle::None, _) => mn * row_bytes,
                (_, false) => mn * span,
                (_, true) => mn.div_ceil(width) * k * span,
            }
        ];
        let (leading, stride, step) = match (swizzle, transposed) {
            // Core matrices of 8 rows × 16 bytes: along k first.
            (Swizzle::None, false) => (128, 128 * row_bytes / 16, 256),
            // Blocks of 8 k × 16 bytes: along k first.
            (Swizzle::None, true) => (128, 128 * k / 8, 256),
            (_, false) => (16, 8 * span, 32),
            // Panels of the swizzle's width, all k of one before the next.
            (_, true) => (k * span, 8 * span, 16 * span),
        };
        for (i, row) in values.iter().enumerate() {
            for (j, &value) in row.iter().enumerate() {
                let byte = match (swizzle, transposed) {
                    (Swizzle::None, false) => {
                        let byte = j * size;
                        i / 8 * stride + byte / 16 * leading + i % 8 * 16 + byte % 16
                    }
                    (Swizzle::None, true) => i / 8 * stride + j / 8 * leading + j % 8 * 16 + i % 8 * size,
                    (_, false) => {
                        assert!(row_bytes <= span, "one panel of k");
                        i * span + j * size
                    }
                    (_, true) => i / width * leading + j * span + i % width * size,
                };
                let at = swizzle.apply(byte);
                bytes[at..at + size].copy_from_slice(&element.encode(value));
            }
        }
        Image { bytes, leading, stride, swizzle, step }
    }

    /// The words of the kernel's `Operand`.
    fn words(&self) -> [u32; 5] {
        [self.bytes.len() as u32, self.leading as u32, self.stride as u32, self.swizzle as u32, self.step as u32]
    }
}

/// What a kernel computes with.
#[derive(Clone, Copy)]
struct Case {
    kernel: &'static str,
    a: Type,
    b: Type,
    n: usize,
    transposed: [bool; 2],
    accumulator: Accumulator,
    a_in_registers: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Accumulator {
    F32,
    F16,
    S32,
}

const fn case(kernel: &'static str, a: Type, b: Type, n: usize) -> Case {
    let accumulator = match a {
        Type::S8 | Type::U8 => Accumulator::S32,
        _ => Accumulator::F32,
    };
    Case { kernel, a, b, n, transposed: [false, false], accumulator, a_in_registers: false }
}

const fn transposed(case: Case, a: bool, b: bool) -> Case {
    Case { transposed: [a, b], ..case }
}

const fn to_f16(case: Case) -> Case {
    Case { accumulator: Accumulator::F16, ..case }
}

const fn from_registers(case: Case) -> Case {
    Case { a_in_registers: true, ..case }
}

const CASES: [Case; 27] = [
    case("unit_wgmma_bf16_n8", Type::Bf16, Type::Bf16, 8),
    case("unit_wgmma_bf16_n64", Type::Bf16, Type::Bf16, 64),
    transposed(case("unit_wgmma_bf16_n64_ta", Type::Bf16, Type::Bf16, 64), true, false),
    transposed(case("unit_wgmma_bf16_n64_tb", Type::Bf16, Type::Bf16, 64), false, true),
    transposed(case("unit_wgmma_bf16_n64_tab", Type::Bf16, Type::Bf16, 64), true, true),
    case("unit_wgmma_bf16_n128", Type::Bf16, Type::Bf16, 128),
    transposed(case("unit_wgmma_bf16_n128_tb", Type::Bf16, Type::Bf16, 128), false, true),
    case("unit_wgmma_bf16_n256", Type::Bf16, Type::Bf16, 256),
    transposed(case("unit_wgmma_bf16_n256_tb", Type::Bf16, Type::Bf16, 256), false, true),
    case("unit_wgmma_f16_n64", Type::F16, Type::F16, 64),
    to_f16(case("unit_wgmma_f16_f16_n64", Type::F16, Type::F16, 64)),
    case("unit_wgmma_tf32_n64", Type::Tf32, Type::Tf32, 64),
    case("unit_wgmma_e4m3_n64", Type::E4m3, Type::E4m3, 64),
    case("unit_wgmma_e5m2_n64", Type::E5m2, Type::E5m2, 64),
    case("unit_wgmma_e4m3_e5m2_n64", Type::E4m3, Type::E5m2, 64),
    case("unit_wgmma_e5m2_e4m3_n64", Type::E5m2, Type::E4m3, 64),
    to_f16(case("unit_wgmma_e4m3_f16_n64", Type::E4m3, Type::E4m3, 64)),
    case("unit_wgmma_s8_n64", Type::S8, Type::S8, 64),
    case("unit_wgmma_s8_n96", Type::S8, Type::S8, 96),
    case("unit_wgmma_u8_n64", Type::U8, Type::U8, 64),
    case("unit_wgmma_s8_u8_n64", Type::S8, Type::U8, 64),
    case("unit_wgmma_u8_s8_n64", Type::U8, Type::S8, 64),
    from_registers(case("unit_wgmma_bf16_n64_registers", Type::Bf16, Type::Bf16, 64)),
    from_registers(transposed(case("unit_wgmma_bf16_n64_tb_registers", Type::Bf16, Type::Bf16, 64), false, true)),
    from_registers(case("unit_wgmma_tf32_n64_registers", Type::Tf32, Type::Tf32, 64)),
    from_registers(case("unit_wgmma_e4m3_n64_registers", Type::E4m3, Type::E4m3, 64)),
    from_registers(case("unit_wgmma_s8_n64_registers", Type::S8, Type::S8, 64)),
];

/// Integers `[mn][k]`.
fn integers(seed: u32, mn: usize, k: usize, element: Type) -> Vec<Vec<i32>> {
    let mut random = random(seed);
    (0..mn).map(|_| (0..k).map(|_| element.integer(random.next().unwrap_or(0))).collect()).collect()
}

/// A's registers, four for each step and thread: element by element from the documentation.
fn a_registers(values: &[Vec<i32>], element: Type) -> Vec<u8> {
    let size = element.bytes();
    let (per_register, k_per_step) = (4 / size, 32 / size);
    let mut bytes = Vec::new();
    for step in 0..values[0].len() / k_per_step {
        for t in 0..128 {
            let (warp, lane) = (t / 32, t % 32);
            for register in 0..4 {
                let row = 16 * warp + lane / 4 + 8 * (register % 2);
                let k = k_per_step * step + per_register * (lane % 4) + k_per_step / 2 * (register / 2);
                for i in 0..per_register {
                    bytes.extend(element.encode(values[row][k + i]));
                }
            }
        }
    }
    bytes
}

/// D as registers, thread by thread, from the documentation.
fn d_registers(product: &[Vec<i32>], n: usize, accumulator: Accumulator) -> Vec<u32> {
    let mut registers = Vec::new();
    for t in 0..128 {
        let (warp, lane) = (t / 32, t % 32);
        let at = |i: usize| product[16 * warp + lane / 4 + 8 * (i / 2 % 2)][8 * (i / 4) + 2 * (lane % 4) + i % 2];
        match accumulator {
            Accumulator::F32 => registers.extend((0..n / 2).map(|i| (at(i) as f32).to_bits())),
            Accumulator::S32 => registers.extend((0..n / 2).map(|i| at(i) as u32)),
            Accumulator::F16 => registers.extend((0..n / 4).map(|i| {
                let bits = |i: usize| u32::from(f16::from_f32(at(i) as f32).to_bits());
                bits(2 * i) | (bits(2 * i + 1) << 16)
            })),
        }
    }
    registers
}

fn multiply(a: &[Vec<i32>], b: &[Vec<i32>]) -> Vec<Vec<i32>> {
    a.iter().map(|a| b.iter().map(|b| a.iter().zip(b).map(|(a, b)| a * b).sum()).collect()).collect()
}

/// Runs a case with both operands laid out in one way.
fn run(unit: &Unit, case: Case, swizzle_a: Swizzle, swizzle_b: Swizzle) {
    let k_per_step = 32 / case.a.bytes();
    // A panel of a K-major operand holds all of k here; the next panel is a matter of addresses, not of wgmma.
    let steps_of = |swizzle: Swizzle, transposed: bool| match (swizzle, transposed) {
        (Swizzle::None, _) | (_, true) => 4,
        _ => swizzle.span() / 32,
    };
    let steps_of_a = if case.a_in_registers { 4 } else { steps_of(swizzle_a, case.transposed[0]) };
    let steps = steps_of_a.min(steps_of(swizzle_b, case.transposed[1]));
    let a = integers(21, 64, steps * k_per_step, case.a);
    let b = integers(22, case.n, steps * k_per_step, case.b);
    let image_b = Image::new(&b, case.b, swizzle_b, case.transposed[1]);
    let (a_bytes, a_words) = if case.a_in_registers {
        (a_registers(&a, case.a), [0; 5])
    } else {
        let image = Image::new(&a, case.a, swizzle_a, case.transposed[0]);
        (image.bytes.clone(), image.words())
    };
    let layout = [&a_words[..], &image_b.words(), &[steps as u32]].concat();
    let shared_bytes = a_bytes.len().next_multiple_of(1024) + image_b.bytes.len();
    let expected = d_registers(&multiply(&a, &b), case.n, case.accumulator);
    // What is there before must not matter, whatever it is.
    let out = unit.upload(&vec![0x4242_4242u32; expected.len()]);
    let (in_a, in_b, layout) = (unit.upload(&a_bytes), unit.upload(&image_b.bytes), unit.upload(&layout));
    unit.run_shared(case.kernel, 128, shared_bytes, &[in_a.arg(), in_b.arg(), out.arg(), layout.arg()]);
    let what = format!("{} with A {swizzle_a:?}, B {swizzle_b:?}", case.kernel);
    assert_same(&what, &out.read::<u32>(), &expected);
}

#[test]
fn products_of_warpgroups() {
    let Some(unit) = hopper_unit("products_of_warpgroups") else { return };
    for case in CASES {
        for swizzle_b in SWIZZLES {
            for swizzle_a in if case.a_in_registers { &SWIZZLES[..1] } else { &SWIZZLES } {
                run(unit, case, *swizzle_a, swizzle_b);
            }
        }
    }
}

/// Runs a kernel whose operands are not laid out by [`Image::new`], over `a[row][k]` and `b[column][k]` as they then are.
fn run_views(unit: &Unit, kernel: &str, [image_a, image_b]: [&Image; 2], a: &[Vec<i32>], b: &[Vec<i32>]) {
    let layout = [&image_a.words()[..], &image_b.words(), &[a[0].len() as u32 / 16]].concat();
    let shared_bytes = image_a.bytes.len().next_multiple_of(1024) + image_b.bytes.len();
    let expected = d_registers(&multiply(a, b), b.len(), Accumulator::F32);
    let out = unit.upload(&vec![0x4242_4242u32; expected.len()]);
    let (in_a, in_b, layout) = (unit.upload(&image_a.bytes), unit.upload(&image_b.bytes), unit.upload(&layout));
    unit.run_shared(kernel, 128, shared_bytes, &[in_a.arg(), in_b.arg(), out.arg(), layout.arg()]);
    assert_same(kernel, &out.read::<u32>(), &expected);
}

/// Rows that begin 16 bytes behind one another and overlap, as windows of a convolution do.
#[test]
fn rows_may_overlap() {
    let Some(unit) = hopper_unit("rows_may_overlap") else { return };
    let encode = |values: &[i32]| values.iter().flat_map(|&v| Type::Bf16.encode(v)).collect::<Vec<u8>>();
    let k = 32;
    // A: element k of row i is element 8 i + k of a line.
    let line = integers(25, 1, 8 * 64 + k, Type::Bf16).remove(0);
    let a: Vec<_> = (0..64).map(|i| line[8 * i..8 * i + k].to_vec()).collect();
    let image_a = Image { bytes: encode(&line), leading: 16, stride: 128, swizzle: Swizzle::None, step: 32 };
    let b = integers(26, 64, k, Type::Bf16);
    run_views(unit, "unit_wgmma_bf16_n64", [&image_a, &Image::new(&b, Type::Bf16, Swizzle::B128, false)], &a, &b);
    // B: element k of column n is element 8 k + n.
    let line = integers(27, 1, 8 * k + 64, Type::Bf16).remove(0);
    let b: Vec<_> = (0..64).map(|n| (0..k).map(|k| line[8 * k + n]).collect::<Vec<_>>()).collect();
    let image_b = Image { bytes: encode(&line), leading: 128, stride: 16, swizzle: Swizzle::None, step: 256 };
    let a = integers(28, 64, k, Type::Bf16);
    run_views(unit, "unit_wgmma_bf16_n64_tb", [&Image::new(&a, Type::Bf16, Swizzle::B128, false), &image_b], &a, &b);
}

/// Swizzled tiles that begin at any row of the pattern, as those of shifted taps do.
#[test]
fn tiles_may_begin_at_any_row() {
    let Some(unit) = hopper_unit("tiles_may_begin_at_any_row") else { return };
    for shift in [1, 3, 8, 13] {
        // A: the second step reads the same 16 columns, `shift` rows below.
        let rows = integers(29, 64 + shift, 64, Type::Bf16);
        let a: Vec<_> = (0..64).map(|i| [&rows[i][..16], &rows[i + shift][..16]].concat()).collect();
        let image_a = Image { step: 128 * shift, ..Image::new(&rows, Type::Bf16, Swizzle::B128, false) };
        let b = integers(30, 64, 32, Type::Bf16);
        run_views(unit, "unit_wgmma_bf16_n64", [&image_a, &Image::new(&b, Type::Bf16, Swizzle::B64, false)], &a, &b);
        for swizzle in [Swizzle::B128, Swizzle::B64] {
            // B with n contiguous: the second step's 16 k begin `shift` rows below the first's.
            let rows = integers(31, 64, 16 + shift, Type::Bf16);
            let shifted: Vec<_> = rows.iter().map(|row| [&row[..16], &row[shift..shift + 16]].concat()).collect();
            let image_of_rows = Image { step: swizzle.span() * shift, ..Image::new(&rows, Type::Bf16, swizzle, true) };
            let plain = integers(32, 64, 32, Type::Bf16);
            let image = Image::new(&plain, Type::Bf16, Swizzle::B64, false);
            run_views(unit, "unit_wgmma_bf16_n64_tb", [&image, &image_of_rows], &plain, &shifted);
            // The same of A.
            run_views(unit, "unit_wgmma_bf16_n64_ta", [&image_of_rows, &image], &shifted, &plain);
        }
    }
}

/// Panels of columns, or of rows, that begin a few rows of the tile behind one another, and overlap, as neighbouring taps
/// do.
#[test]
fn panels_may_overlap() {
    let Some(unit) = hopper_unit("panels_may_overlap") else { return };
    let k = 64;
    for (kernel, columns) in [("unit_wgmma_bf16_n128_tb", 128), ("unit_wgmma_bf16_n256_tb", 256)] {
        for (swizzle, shift) in
            [Swizzle::B128, Swizzle::B64].into_iter().flat_map(|of| [1, 2, 3, 8, 13].map(|by| (of, by)))
        {
            let (image_b, b) = overlapping(columns, k, swizzle, shift);
            let a = integers(34, 64, k, Type::Bf16);
            run_views(unit, kernel, [&Image::new(&a, Type::Bf16, Swizzle::B128, false), &image_b], &a, &b);
        }
    }
    for shift in [1, 2, 3, 8, 13, 129] {
        let (image_a, a) = overlapping(64, k, Swizzle::B64, shift);
        let b = integers(34, 64, k, Type::Bf16);
        let image_b = Image::new(&b, Type::Bf16, Swizzle::B128, false);
        run_views(unit, "unit_wgmma_bf16_n64_ta", [&image_a, &image_b], &a, &b);
    }
}

/// An operand of `mn` columns or rows whose panels begin `shift` rows of the tile behind one another, and its values.
fn overlapping(mn: usize, k: usize, swizzle: Swizzle, shift: usize) -> (Image, Vec<Vec<i32>>) {
    let width = swizzle.span() / 2;
    let panels = mn / width;
    let rows = integers(33, width, k + (panels - 1) * shift, Type::Bf16);
    let panel = |i: usize| rows.iter().map(move |row| row[i * shift..i * shift + k].to_vec());
    let values = (0..panels).flat_map(panel).collect();
    let image = Image::new(&rows, Type::Bf16, swizzle, true);
    (Image { leading: swizzle.span() * shift, ..image }, values)
}

/// Two blocks of four steps in flight, as in a main loop.
#[test]
fn blocks_in_flight() {
    let Some(unit) = hopper_unit("blocks_in_flight") else { return };
    let (n, k) = (128, 128);
    let (a, b) = (integers(23, 64, k, Type::Bf16), integers(24, n, k, Type::Bf16));
    // The second half of k is another panel, behind the first.
    let half = |values: &[Vec<i32>], from: usize| {
        values.iter().map(|row| row[from..from + 64].to_vec()).collect::<Vec<Vec<i32>>>()
    };
    let panels =
        |values: &[Vec<i32>]| [0, 64].map(|from| Image::new(&half(values, from), Type::Bf16, Swizzle::B128, false));
    let ([a0, a1], [b0, b1]) = (panels(&a), panels(&b));
    let (a_bytes, b_bytes) = ([&a0.bytes[..], &a1.bytes].concat(), [&b0.bytes[..], &b1.bytes].concat());
    let with_size = |image: &Image, bytes: usize| {
        let [_, rest @ ..] = image.words();
        [&[bytes as u32][..], &rest].concat()
    };
    let layout = [with_size(&a0, a_bytes.len()), with_size(&b0, b_bytes.len()), vec![4]].concat();
    let expected = d_registers(&multiply(&a, &b), n, Accumulator::F32);
    let out = unit.upload(&vec![0x4242_4242u32; expected.len()]);
    let (in_a, in_b, layout) = (unit.upload(&a_bytes), unit.upload(&b_bytes), unit.upload(&layout));
    let args = [in_a.arg(), in_b.arg(), out.arg(), layout.arg()];
    unit.run_shared("unit_wgmma_blocks", 128, a_bytes.len() + b_bytes.len(), &args);
    assert_same("blocks", &out.read::<u32>(), &expected);
}

#[test]
fn integers_stay_exact() {
    // Sums of the largest k of each accumulator, so that no case depends on rounding.
    for case in CASES {
        let (a, b) = (integers(21, 64, 128, case.a), integers(22, case.n, 128, case.b));
        let most = multiply(&a, &b).into_iter().flatten().map(i32::abs).max().unwrap_or(0);
        let limit = if case.accumulator == Accumulator::F16 { 2048 } else { 1 << 24 };
        assert!(most <= limit, "{}: {most}", case.kernel);
    }
}

#[test]
fn images_hold_every_element_once() {
    for swizzle in SWIZZLES {
        for transposed in [false, true] {
            // A swizzled K-major operand is one panel: as many k as fit its row.
            let k = if transposed || swizzle == Swizzle::None { 64 } else { swizzle.span() as i32 / 2 };
            let values: Vec<Vec<i32>> = (0..64).map(|i| (0..k).map(|j| (i * 3 + j) % 200 + 1).collect()).collect();
            let image = Image::new(&values, Type::Bf16, swizzle, transposed);
            assert!(image.bytes.chunks(2).all(|pair| pair != [0, 0]), "{swizzle:?} transposed {transposed}");
        }
    }
}
