//! `wgmma.mma_async`: D (+)= A · B of a warpgroup, with operands in shared memory as descriptors say.
//!
//! Products are exact; they are added to D one after the other in f32, in order of k. A tensor core adds them in
//! another order and with other roundings (with 8-bit numbers less exactly), so only sums without rounding are the
//! same. Sums of integers are exact.

use super::formats::{Element, f16_from_f32, f32_from_f16};
use super::tensor_map::Swizzle;

/// Rows of A and D.
pub const M: usize = 64;
/// Bytes of a row of A, or a column of B.
const K_BYTES: usize = 32;
const WARPS: usize = 4;

/// A register of a warp.
pub type Register = [u32; 32];

/// Types of D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Accumulator {
    /// f16, two of them in a register. Rounded once an instruction.
    F16,
    /// Single precision.
    F32,
    /// Integers: they wrap, or with `.satfinite` stop at the ends.
    S32 {
        /// `.satfinite`.
        saturates: bool,
    },
}

/// An instruction without its operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Columns of D.
    pub n: usize,
    /// Type of A's elements.
    pub a: Element,
    /// Type of B's elements.
    pub b: Element,
    /// Type of D's.
    pub d: Accumulator,
    /// `imm-scale-a`, `imm-scale-b`: whether elements are negated.
    pub negates: [bool; 2],
    /// `imm-trans-a`, `imm-trans-b`: whether the operand is MN-major.
    pub transposes: [bool; 2],
}

impl Instruction {
    /// Checks what the instruction set says about types and shapes.
    ///
    /// # Errors
    /// When there is no such instruction.
    pub fn check(&self) -> Result<(), String> {
        use Element::{Bf16, E4m3, E5m2, F16, S8, Tf32, U8};
        let types = match (self.a, self.b) {
            (F16, F16) | (E4m3 | E5m2, E4m3 | E5m2) => matches!(self.d, Accumulator::F16 | Accumulator::F32),
            (Bf16, Bf16) | (Tf32, Tf32) => self.d == Accumulator::F32,
            (S8 | U8, S8 | U8) => matches!(self.d, Accumulator::S32 { .. }),
            _ => false,
        };
        let integer = self.a.integer().is_some();
        let step = if integer && self.n > 32 { 16 } else { 8 };
        if !types || !(8..=256).contains(&self.n) || !self.n.is_multiple_of(step) {
            let (a, b, d, n) = (self.a, self.b, self.d, self.n);
            return Err(format!("there is no wgmma of {a:?} and {b:?} to {d:?} with n = {n}"));
        }
        if (self.transposes != [false; 2] && self.a.bits() != 16) || (self.negates != [false; 2] && integer) {
            return Err(format!("wgmma of {:?} has no transposed or negated operands", self.a));
        }
        Ok(())
    }

    /// Elements of a step's sum.
    pub fn k(&self) -> usize {
        8 * K_BYTES / self.a.bits() as usize
    }

    /// Registers of D in each thread.
    pub fn d_registers(&self) -> usize {
        if self.d == Accumulator::F16 { self.n / 4 } else { self.n / 2 }
    }
}

/// A matrix descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Descriptor {
    /// Where the matrix begins in shared memory.
    pub address: u32,
    /// Leading dimension byte offset.
    pub leading: u32,
    /// Stride dimension byte offset.
    pub stride: u32,
    /// Rows of 128 bytes by which the pattern is shifted against addresses.
    pub base_offset: u32,
    /// The pattern.
    pub swizzle: Swizzle,
}

impl Descriptor {
    /// Reads the 64 bits.
    pub fn new(bits: u64) -> Self {
        let bytes = |shift: u32| (bits >> shift) as u32 & 0x3fff;
        Descriptor {
            address: bytes(0) << 4,
            leading: bytes(16) << 4,
            stride: bytes(32) << 4,
            base_offset: (bits >> 49) as u32 & 7,
            swizzle: [Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32][(bits >> 62) as usize],
        }
    }

    /// Where a chunk of 16 bytes lies. K-major: chunk `chunk` (0 or 1) of row `line`; MN-major: the chunk of elements
    /// 8 `chunk` … of k = `line`.
    fn chunk(&self, line: u32, chunk: u32, transposed: bool) -> u32 {
        let (group, within) = (line / 8, line % 8);
        let offset = match (self.swizzle.span(), transposed) {
            // Core matrices of 8 rows, of 16 bytes each.
            (None, false) => group * self.stride + within * 16 + chunk * self.leading,
            (None, true) => group * self.leading + within * 16 + chunk * self.stride,
            (Some(span), false) => group * self.stride + within * span + chunk * 16,
            // Panels as wide as the pattern.
            (Some(span), true) => {
                let panel = span / 16;
                chunk / panel * self.leading + group * self.stride + within * span + chunk % panel * 16
            }
        };
        let address = self.address.wrapping_add(offset) & 0x3_ffff;
        // The pattern belongs to addresses; a base offset says that it began so many rows later.
        let shift = self.base_offset << 7;
        self.swizzle.apply(address.wrapping_sub(shift)).wrapping_add(shift)
    }
}

/// What A is read from.
#[derive(Clone, Copy, Debug)]
pub enum Operand<'a> {
    /// A descriptor.
    Shared(u64),
    /// Four registers of each warp.
    Registers(&'a [[Register; 4]; WARPS]),
}

/// A matrix by rows.
#[derive(Clone, Debug)]
struct Matrix {
    columns: usize,
    values: Vec<f32>,
}

/// One step: D = A · B + (`accumulates` ? D : 0) for 64 rows. `d` holds the registers of the four warps; `shared` is the
/// block's memory from address 0 on.
///
/// # Errors
/// When there is no such instruction, or an operand lies beyond the end of shared memory.
pub fn multiply(
    instruction: &Instruction,
    shared: &[u8],
    a: Operand<'_>,
    b: u64,
    accumulates: bool,
    d: [&mut [Register]; WARPS],
) -> Result<(), String> {
    instruction.check()?;
    if d.iter().any(|d| d.len() != instruction.d_registers()) {
        return Err(format!("D has {} registers in each thread", instruction.d_registers()));
    }
    let (k, n) = (instruction.k(), instruction.n);
    // A by rows, B by k: both as the loop over k wants them.
    let mut rows = Matrix { columns: k, values: vec![0.0; M * k] };
    match a {
        Operand::Registers(registers) => read_registers(instruction.a, registers, &mut rows),
        Operand::Shared(bits) => {
            let transposed = instruction.transposes[0];
            read_shared("A", Descriptor::new(bits), instruction.a, M, transposed, shared, &mut |i, k, value| {
                rows.values[i * rows.columns + k] = value;
            })?;
        }
    }
    let mut columns = Matrix { columns: n, values: vec![0.0; k * n] };
    let transposed = instruction.transposes[1];
    read_shared("B", Descriptor::new(b), instruction.b, n, transposed, shared, &mut |j, k, value| {
        columns.values[k * n + j] = value;
    })?;
    // The sign of a product is that of one factor.
    if instruction.negates[0] != instruction.negates[1] {
        rows.values.iter_mut().for_each(|value| *value = -*value);
    }
    let products = |sums: &mut [f32]| add_products(sums, &rows, &columns);
    match instruction.d {
        Accumulator::F32 => update::<Floats>(d, n, accumulates, products),
        Accumulator::F16 => update::<Halves>(d, n, accumulates, products),
        Accumulator::S32 { saturates } => {
            let (rows, columns) = (integers(&rows), integers(&columns));
            update::<Integers>(d, n, accumulates, |sums| {
                let mut step = vec![0; sums.len()];
                add_all(&mut step, &rows, &columns, n, |sum, a: i32, b| a.wrapping_mul(b).wrapping_add(sum));
                let add = if saturates { i32::saturating_add } else { i32::wrapping_add };
                sums.iter_mut().zip(step).for_each(|(sum, step)| *sum = add(*sum, step));
            });
        }
    }
    Ok(())
}

/// Reads an operand of `lines` rows (columns of B), and gives each element with its line and its k.
fn read_shared(
    name: &str,
    descriptor: Descriptor,
    element: Element,
    lines: usize,
    transposed: bool,
    shared: &[u8],
    put: &mut impl FnMut(usize, usize, f32),
) -> Result<(), String> {
    let size = element.bits() as usize / 8;
    let per_chunk = 16 / size;
    let (outer, chunks) = if transposed { (2 * per_chunk, lines / per_chunk) } else { (lines, 2) };
    for line in 0..outer {
        for chunk in 0..chunks {
            let at = descriptor.chunk(line as u32, chunk as u32, transposed) as usize;
            let Some(bytes) = shared.get(at..at + 16) else {
                let end = shared.len();
                return Err(format!(
                    "{name} reaches address {at:#x} of {end:#x} bytes of shared memory, {descriptor:x?}"
                ));
            };
            let values = decode(element, bytes);
            for (i, &value) in values[..per_chunk].iter().enumerate() {
                if transposed {
                    put(per_chunk * chunk + i, line, value)
                } else {
                    put(line, per_chunk * chunk + i, value)
                }
            }
        }
    }
    Ok(())
}

/// The elements of 16 bytes.
fn decode(element: Element, chunk: &[u8]) -> [f32; 16] {
    let mut values = [0.0; 16];
    match element.bits() {
        8 => {
            for (value, &byte) in values.iter_mut().zip(chunk) {
                *value = element.value(byte.into());
            }
        }
        16 => {
            for (value, &bytes) in values.iter_mut().zip(chunk.as_chunks().0) {
                *value = element.value(u16::from_le_bytes(bytes).into());
            }
        }
        _ => {
            for (value, &bytes) in values.iter_mut().zip(chunk.as_chunks().0) {
                *value = element.value(u32::from_le_bytes(bytes));
            }
        }
    }
    values
}

/// A's fragment: register r of a lane holds neighbours along k, of row l / 4 and the row 8 below, then of the second
/// half of k.
fn read_registers(element: Element, registers: &[[Register; 4]; WARPS], rows: &mut Matrix) {
    let per_register = 32 / element.bits() as usize;
    for (warp, registers) in registers.iter().enumerate() {
        for (r, register) in registers.iter().enumerate() {
            for (lane, &word) in register.iter().enumerate() {
                let row = 16 * warp + lane / 4 + 8 * (r % 2);
                let k = per_register * (lane % 4) + rows.columns / 2 * (r / 2);
                let at = row * rows.columns + k;
                rows.values[at..at + per_register].copy_from_slice(&element.values(word)[..per_register]);
            }
        }
    }
}

/// How numbers lie in D's registers.
trait Numbers {
    type Value: Copy + Default;
    const PER_REGISTER: usize;
    fn get(bits: u32, i: usize) -> Self::Value;
    fn put(bits: &mut u32, i: usize, value: Self::Value);
}

struct Floats;

impl Numbers for Floats {
    type Value = f32;
    const PER_REGISTER: usize = 1;
    fn get(bits: u32, _: usize) -> f32 {
        f32::from_bits(bits)
    }
    fn put(bits: &mut u32, _: usize, value: f32) {
        *bits = value.to_bits();
    }
}

struct Integers;

impl Numbers for Integers {
    type Value = i32;
    const PER_REGISTER: usize = 1;
    fn get(bits: u32, _: usize) -> i32 {
        bits as i32
    }
    fn put(bits: &mut u32, _: usize, value: i32) {
        *bits = value as u32;
    }
}

struct Halves;

impl Numbers for Halves {
    type Value = f32;
    const PER_REGISTER: usize = 2;
    fn get(bits: u32, i: usize) -> f32 {
        f32_from_f16((bits >> (16 * i)) as u16)
    }
    fn put(bits: &mut u32, i: usize, value: f32) {
        let shift = 16 * i;
        *bits = *bits & !(0xffff << shift) | u32::from(f16_from_f32(value)) << shift;
    }
}

/// Runs `work` on D by rows.
fn update<N: Numbers>(
    mut d: [&mut [Register]; WARPS],
    n: usize,
    accumulates: bool,
    work: impl FnOnce(&mut [N::Value]),
) {
    let mut sums = vec![N::Value::default(); M * n];
    // Number i of a lane: pairs of columns, of two rows, in groups of 8 columns.
    let lanes: Register = std::array::from_fn(|lane| (lane / 4 * n + 2 * (lane % 4)) as u32);
    let first = |warp: usize, i: usize| (16 * warp + 8 * (i / 2 % 2)) * n + 8 * (i / 4) + i % 2;
    if accumulates {
        for (warp, registers) in d.iter().enumerate() {
            for i in 0..n / 2 {
                let sums = &mut sums[first(warp, i)..];
                for (bits, at) in registers[i / N::PER_REGISTER].iter().zip(lanes) {
                    sums[at as usize] = N::get(*bits, i % N::PER_REGISTER);
                }
            }
        }
    }
    work(&mut sums);
    for (warp, registers) in d.iter_mut().enumerate() {
        for i in 0..n / 2 {
            let sums = &sums[first(warp, i)..];
            for (bits, at) in registers[i / N::PER_REGISTER].iter_mut().zip(lanes) {
                N::put(bits, i % N::PER_REGISTER, sums[at as usize]);
            }
        }
    }
}

fn integers(matrix: &Matrix) -> Vec<i32> {
    matrix.values.iter().map(|&value| value as i32).collect()
}

/// Steps of k whose products are added while a sum stays in a register. It divides every k.
const UNROLLED: usize = 8;

/// Adds the product of A by rows and B by k, in order of k.
#[inline(always)]
fn add_all<T: Copy>(sums: &mut [T], a: &[T], b: &[T], n: usize, add: impl Fn(T, T, T) -> T) {
    let k = a.len() / M;
    for (sums, a) in sums.chunks_exact_mut(n).zip(a.chunks_exact(k)) {
        for (a, b) in a.as_chunks::<UNROLLED>().0.iter().zip(b.chunks_exact(UNROLLED * n)) {
            let lines: [&[T]; UNROLLED] = std::array::from_fn(|k| &b[k * n..][..sums.len()]);
            for (j, sum) in sums.iter_mut().enumerate() {
                let mut total = *sum;
                for (a, line) in a.iter().zip(lines) {
                    total = add(total, *a, line[j]);
                }
                *sum = total;
            }
        }
    }
}

fn add_products(sums: &mut [f32], a: &Matrix, b: &Matrix) {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function was compiled for.
        return unsafe { add_products_avx2(sums, &a.values, &b.values, b.columns) };
    }
    add_all(sums, &a.values, &b.values, b.columns, |sum, a, b| sum + a * b);
}

/// The same, eight numbers at a time: without fused operations, so the same numbers.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn add_products_avx2(sums: &mut [f32], a: &[f32], b: &[f32], n: usize) {
    add_all(sums, a, b, n, |sum, a, b| sum + a * b);
}

#[cfg(test)]
mod tests;
