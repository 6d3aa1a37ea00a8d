//! Operands as the device tests lay them out, which an H200 passed.

use super::*;
use crate::units::formats::{Format, Overflow, Rounding};

const SWIZZLES: [Swizzle; 4] = [Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32];

fn random(seed: u32) -> impl Iterator<Item = u32> {
    let mut state = seed;
    std::iter::repeat_with(move || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state ^ state >> 15
    })
}

fn encode(element: Element, value: i32) -> Vec<u8> {
    let format = match element {
        Element::F16 => Format::F16,
        Element::Bf16 => Format::BF16,
        Element::Tf32 => Format::TF32,
        Element::E4m3 => Format::E4M3,
        Element::E5m2 => Format::E5M2,
        _ => return vec![value as u8],
    };
    let bits = format.encode(value.into(), Rounding::NearestEven, Overflow::Infinite);
    bits.to_le_bytes()[..element.bits() as usize / 8].to_vec()
}

/// Small integers that the type has, `[mn][k]`.
fn integers(seed: u32, mn: usize, k: usize, element: Element) -> Vec<Vec<i32>> {
    let mut random = random(seed);
    let mut next = || {
        let value = (random.next().unwrap() >> 8) as i32;
        match element {
            Element::U8 => value % 7 + if value % 5 == 0 { 200 } else { 0 },
            Element::S8 => value % 7 - 3 - if value % 5 == 0 { 100 } else { 0 },
            _ => value % 7 - 3,
        }
    };
    (0..mn).map(|_| (0..k).map(|_| next()).collect()).collect()
}

/// An operand in shared memory, as the device tests lay it out, and the descriptor of its first step.
struct Image {
    bytes: Vec<u8>,
    leading: usize,
    stride: usize,
    swizzle: Swizzle,
    step: usize,
}

impl Image {
    fn new(values: &[Vec<i32>], element: Element, swizzle: Swizzle, transposed: bool) -> Self {
        let (mn, k, size) = (values.len(), values[0].len(), element.bits() as usize / 8);
        let span = swizzle.span().unwrap_or(16) as usize;
        let (width, row_bytes) = (span / size, k * size);
        let (leading, stride, step) = match (swizzle, transposed) {
            (Swizzle::None, false) => (128, 128 * row_bytes / 16, 256),
            (Swizzle::None, true) => (128, 128 * k / 8, 256),
            (_, false) => (16, 8 * span, 32),
            (_, true) => (k * span, 8 * span, 16 * span),
        };
        let mut bytes = vec![0; mn.next_multiple_of(width) * k.next_multiple_of(width) * size];
        for (i, row) in values.iter().enumerate() {
            for (j, &value) in row.iter().enumerate() {
                let byte = match (swizzle, transposed) {
                    (Swizzle::None, false) => i / 8 * stride + j * size / 16 * leading + i % 8 * 16 + j * size % 16,
                    (Swizzle::None, true) => i / 8 * stride + j / 8 * leading + j % 8 * 16 + i % 8 * size,
                    (_, false) => i * span + j * size,
                    (_, true) => i / width * leading + j * span + i % width * size,
                };
                let at = swizzle.apply(byte as u32) as usize;
                bytes[at..at + size].copy_from_slice(&encode(element, value));
            }
        }
        Image { bytes, leading, stride, swizzle, step }
    }

    fn descriptor(&self, base: usize, step: usize) -> u64 {
        let pattern = [0, 3, 2, 1][self.swizzle as usize];
        let bytes = |value: usize, shift: u32| ((value >> 4) as u64) << shift;
        bytes(base + step * self.step, 0) | bytes(self.leading, 16) | bytes(self.stride, 32) | pattern << 62
    }
}

fn fragment(values: &[Vec<i32>], element: Element, step: usize) -> [[Register; 4]; WARPS] {
    let (size, mut registers) = (element.bits() as usize / 8, [[[0; 32]; 4]; WARPS]);
    let (per_register, k_step) = (4 / size, 32 / size);
    for (t, r) in (0..128).flat_map(|t| (0..4).map(move |r| (t, r))) {
        let row = 16 * (t / 32) + t % 32 / 4 + 8 * (r % 2);
        let k = k_step * step + per_register * (t % 4) + k_step / 2 * (r / 2);
        let bytes: Vec<u8> = (0..per_register).flat_map(|i| encode(element, values[row][k + i])).collect();
        registers[t / 32][r][t % 32] = u32::from_le_bytes(bytes.try_into().unwrap());
    }
    registers
}

/// D's numbers from registers, by rows.
fn rows_of(d: &[Vec<Register>], n: usize, accumulator: Accumulator) -> Vec<i32> {
    let mut rows = vec![0; M * n];
    for t in 0..128 {
        for i in 0..n / 2 {
            let registers = &d[t / 32];
            let value = match accumulator {
                Accumulator::F32 => f32::from_bits(registers[i][t % 32]) as i32,
                Accumulator::F16 => f32_from_f16((registers[i / 2][t % 32] >> (16 * (i % 2))) as u16) as i32,
                Accumulator::S32 { .. } => registers[i][t % 32] as i32,
            };
            let row = 16 * (t / 32) + t % 32 / 4 + 8 * (i / 2 % 2);
            rows[row * n + 8 * (i / 4) + 2 * (t % 4) + i % 2] = value;
        }
    }
    rows
}

fn expected(a: &[Vec<i32>], b: &[Vec<i32>]) -> Vec<i32> {
    a.iter().flat_map(|a| b.iter().map(|b| a.iter().zip(b).map(|(a, b)| a * b).sum())).collect()
}

fn instruction(a: Element, b: Element, n: usize) -> Instruction {
    let d = if a.integer().is_some() { Accumulator::S32 { saturates: false } } else { Accumulator::F32 };
    Instruction { n, a, b, d, negates: [false; 2], transposes: [false; 2] }
}

/// Steps of a product over operands in shared memory, B at the next multiple of 1024 behind A.
fn run(instruction: &Instruction, a: &Image, b: &Image, steps: usize) -> Vec<i32> {
    let at_b = a.bytes.len().next_multiple_of(1024);
    let mut shared = a.bytes.clone();
    shared.resize(at_b, 0);
    shared.extend(&b.bytes);
    let mut d = vec![vec![[0x4242_4242; 32]; instruction.d_registers()]; WARPS];
    for step in 0..steps {
        let [d0, d1, d2, d3] = d.each_mut_slices();
        let a = Operand::Shared(a.descriptor(0, step));
        multiply(instruction, &shared, a, b.descriptor(at_b, step), step != 0, [d0, d1, d2, d3]).unwrap();
    }
    rows_of(&d, instruction.n, instruction.d)
}

trait Warps {
    fn each_mut_slices(&mut self) -> [&mut [Register]; WARPS];
}

impl Warps for Vec<Vec<Register>> {
    fn each_mut_slices(&mut self) -> [&mut [Register]; WARPS] {
        let mut warps = self.iter_mut().map(Vec::as_mut_slice);
        std::array::from_fn(|_| warps.next().unwrap())
    }
}

#[test]
fn every_layout_of_every_type() {
    use Element::{Bf16, E4m3, E5m2, F16, S8, Tf32, U8};
    let pairs = [
        (Bf16, Bf16),
        (F16, F16),
        (Tf32, Tf32),
        (E4m3, E4m3),
        (E5m2, E4m3),
        (E4m3, E5m2),
        (S8, S8),
        (U8, U8),
        (S8, U8),
        (U8, S8),
    ];
    for (a, b) in pairs {
        for transposes in [[false; 2], [true, false], [false, true], [true, true]] {
            if a.bits() != 16 && transposes != [false; 2] {
                continue;
            }
            for (swizzle_a, swizzle_b) in SWIZZLES.iter().flat_map(|a| SWIZZLES.map(|b| (*a, b))) {
                let steps = |swizzle: Swizzle, transposed: bool| match swizzle.span() {
                    Some(span) if !transposed => span as usize / 32,
                    _ => 4,
                };
                let steps = steps(swizzle_a, transposes[0]).min(steps(swizzle_b, transposes[1]));
                let instruction = Instruction { transposes, ..instruction(a, b, 96) };
                let values_a = integers(21, M, steps * instruction.k(), a);
                let values_b = integers(22, 96, steps * instruction.k(), b);
                let image_a = Image::new(&values_a, a, swizzle_a, transposes[0]);
                let image_b = Image::new(&values_b, b, swizzle_b, transposes[1]);
                let got = run(&instruction, &image_a, &image_b, steps);
                assert!(got == expected(&values_a, &values_b), "{instruction:?} {swizzle_a:?} {swizzle_b:?}");
            }
        }
    }
}

#[test]
fn a_from_registers_and_half_sums() {
    use Element::{Bf16, E4m3, F16, S8, Tf32};
    for (element, d) in [
        (Bf16, Accumulator::F32),
        (Tf32, Accumulator::F32),
        (E4m3, Accumulator::F16),
        (F16, Accumulator::F16),
        (S8, Accumulator::S32 { saturates: true }),
    ] {
        let instruction = Instruction { d, ..instruction(element, element, 64) };
        let (a, b) = (integers(1, M, 4 * instruction.k(), element), integers(2, 64, 4 * instruction.k(), element));
        let image = Image::new(&b, element, Swizzle::B128, false);
        let mut registers = vec![vec![[7; 32]; instruction.d_registers()]; WARPS];
        for step in 0..4 {
            let fragment = fragment(&a, element, step);
            let d = registers.each_mut_slices();
            let b = image.descriptor(0, step);
            multiply(&instruction, &image.bytes, Operand::Registers(&fragment), b, step != 0, d).unwrap();
        }
        assert_eq!(rows_of(&registers, 64, d), expected(&a, &b), "{element:?}");
    }
}

/// The device tests `tiles_may_begin_at_any_row` and `panels_may_overlap`.
#[test]
fn tiles_begin_anywhere_and_overlap() {
    let bf16 = instruction(Element::Bf16, Element::Bf16, 64);
    for shift in [1, 3, 8, 13] {
        let rows = integers(29, 64 + shift, 64, Element::Bf16);
        let a: Vec<_> = (0..64).map(|i| [&rows[i][..16], &rows[i + shift][..16]].concat()).collect();
        let image_a = Image { step: 128 * shift, ..Image::new(&rows, Element::Bf16, Swizzle::B128, false) };
        let b = integers(30, 64, 32, Element::Bf16);
        let image_b = Image::new(&b, Element::Bf16, Swizzle::B64, false);
        assert!(run(&bf16, &image_a, &image_b, 2) == expected(&a, &b), "shift {shift}");
        let k = 64;
        let rows = integers(33, 64, k + shift, Element::Bf16);
        let panel = |i: usize| rows.iter().map(move |row| row[i * shift..i * shift + k].to_vec());
        let b: Vec<_> = (0..2).flat_map(panel).collect();
        let image_b = Image { leading: 128 * shift, ..Image::new(&rows, Element::Bf16, Swizzle::B128, true) };
        let a = integers(34, 64, k, Element::Bf16);
        let image_a = Image::new(&a, Element::Bf16, Swizzle::B128, false);
        let wide = Instruction { n: 128, transposes: [false, true], ..bf16 };
        assert!(run(&wide, &image_a, &image_b, 4) == expected(&a, &b), "shift {shift} of panels");
    }
    // Rows 16 bytes behind one another, as windows of a convolution.
    let line = integers(25, 1, 8 * 64 + 32, Element::Bf16).remove(0);
    let a: Vec<_> = (0..64).map(|i| line[8 * i..8 * i + 32].to_vec()).collect();
    let bytes = line.iter().flat_map(|&v| encode(Element::Bf16, v)).collect();
    let image_a = Image { bytes, leading: 16, stride: 128, swizzle: Swizzle::None, step: 32 };
    let b = integers(26, 64, 32, Element::Bf16);
    assert!(run(&bf16, &image_a, &Image::new(&b, Element::Bf16, Swizzle::B128, false), 2) == expected(&a, &b));
}

#[test]
fn negation_saturation_and_base_offset() {
    let (a, b) = (integers(1, M, 16, Element::Bf16), integers(2, 8, 16, Element::Bf16));
    let [image_a, image_b] = [&a, &b].map(|values| Image::new(values, Element::Bf16, Swizzle::B32, false));
    let plain = instruction(Element::Bf16, Element::Bf16, 8);
    let negative: Vec<i32> = expected(&a, &b).into_iter().map(|v| -v).collect();
    assert_eq!(run(&Instruction { negates: [true, false], ..plain }, &image_a, &image_b, 1), negative);
    assert_eq!(run(&Instruction { negates: [true, true], ..plain }, &image_a, &image_b, 1), expected(&a, &b));
    let ones = Image::new(&vec![vec![127; 32]; 64], Element::S8, Swizzle::B32, false);
    for (saturates, sum) in [(true, i32::MAX), (false, i32::MAX.wrapping_add(32 * 127 * 127))] {
        let d = Accumulator::S32 { saturates };
        let s8 = Instruction { d, ..instruction(Element::S8, Element::S8, 8) };
        let mut registers = vec![vec![[i32::MAX as u32; 32]; 4]; WARPS];
        let operand = ones.descriptor(0, 0);
        let d = registers.each_mut_slices();
        multiply(&s8, &ones.bytes, Operand::Shared(operand), operand, true, d).unwrap();
        assert_eq!(registers[0][0][0] as i32, sum);
    }
    let shifted = Descriptor::new(image_a.descriptor(256, 0) | 2 << 49);
    let base = Descriptor::new(image_a.descriptor(0, 0));
    assert_eq!(shifted.chunk(5, 1, false), base.chunk(5, 1, false) + 256);
}

#[test]
fn what_there_is_not_is_refused() {
    let good = instruction(Element::Bf16, Element::Bf16, 64);
    let mut d = vec![vec![[0; 32]; 32]; WARPS];
    let far = multiply(&good, &[0; 1024], Operand::Shared(0x4000_0040_0001_0000), 0x40, false, d.each_mut_slices());
    assert!(far.unwrap_err().contains("0x400"));
    assert!(instruction(Element::Bf16, Element::F16, 64).check().is_err());
    assert!(instruction(Element::S8, Element::S8, 40).check().is_err());
    assert!(Instruction { n: 264, ..good }.check().is_err());
    assert!(Instruction { transposes: [true, false], ..instruction(Element::E4m3, Element::E4m3, 8) }.check().is_err());
}
