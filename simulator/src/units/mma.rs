//! `mma.sync`, `ldmatrix`, `stmatrix` and `movmatrix`: matrices in the registers of a warp.
//!
//! With l the lane, g = l / 4, t = l % 4 and p elements in a register of A and B, register r of a lane holds
//!
//! - of A: row g + 8 (r % 2), columns p t + 4 p (r / 2) and the p - 1 next (A of 8 rows: row g, columns p t + 4 p r …);
//! - of B: column g, rows p t + 4 p r …;
//! - of C and D: row g + 8 (r / 2), columns 2 t + r % 2; in f16, register r is row g + 8 r, both columns.
//!
//! Products are exact. They are added to C one after the other, in order of k, in f32 or f64.

use super::formats::{Element, f16_from_f32, f32_from_f16};

/// A register of a warp.
pub type Register = [u32; 32];

/// Columns of B and D.
const N: usize = 8;

/// Types of C or D.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sum {
    /// f16, both of a row in a register.
    F16,
    /// Single precision.
    F32,
    /// Integers.
    S32,
}

/// An instruction of `mma.sync.aligned.m….n8.k….row.col`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Instruction {
    /// Rows of A and D: 8 or 16.
    pub m: usize,
    /// Columns of A.
    pub k: usize,
    /// Type of A's elements.
    pub a: Element,
    /// Type of B's elements.
    pub b: Element,
    /// Type of C's.
    pub c: Sum,
    /// Type of D's.
    pub d: Sum,
    /// `.satfinite`: integers stop at the ends of their range instead of wrapping.
    pub saturates: bool,
}

impl Instruction {
    /// Checks what the instruction set says about types and shapes.
    ///
    /// # Errors
    /// When there is no such instruction, or this library does not have it (f16 of 8×8×4, single bits).
    pub fn check(&self) -> Result<(), String> {
        use Element::{Bf16, E4m3, E5m2, F16, S4, S8, Tf32, U4, U8};
        let floats = (matches!(self.d, Sum::F16 | Sum::F32), self.c == self.d || (self.a, self.b) == (F16, F16));
        let single = self.c == Sum::F32 && self.d == Sum::F32;
        let integers = self.c == Sum::S32 && self.d == Sum::S32;
        let exists = match (self.a, self.b, self.m, self.k) {
            (F16, F16, 16, 8 | 16) | (E4m3 | E5m2, E4m3 | E5m2, 16, 16 | 32) => {
                floats == (true, true) && self.c != Sum::S32
            }
            (Bf16, Bf16, 16, 8 | 16) | (Tf32, Tf32, 16, 4 | 8) => single,
            (S8 | U8, S8 | U8, 8, 16) | (S8 | U8, S8 | U8, 16, 16 | 32) => integers,
            (S4 | U4, S4 | U4, 8, 32) | (S4 | U4, S4 | U4, 16, 32 | 64) => integers,
            _ => false,
        };
        if !exists || (self.saturates && !integers) {
            return Err(format!("there is no mma.sync like {self:?}"));
        }
        Ok(())
    }

    /// Elements of A or B in a register.
    fn per_register(&self) -> usize {
        32 / self.a.bits() as usize
    }

    /// Registers of A, B, C and D in each lane.
    pub fn registers(&self) -> [usize; 4] {
        let of_sum = |sum| self.m / 8 * if sum == Sum::F16 { 1 } else { 2 };
        let of_column = self.k / (4 * self.per_register());
        [self.m / 8 * of_column, of_column, of_sum(self.c), of_sum(self.d)]
    }
}

/// D = A · B + C. `d` may be any registers; what they hold before does not matter.
///
/// # Errors
/// When there is no such instruction, or it has other numbers of registers.
pub fn multiply(
    instruction: &Instruction,
    a: &[Register],
    b: &[Register],
    c: &[Register],
    d: &mut [Register],
) -> Result<(), String> {
    instruction.check()?;
    let expected = instruction.registers();
    if [a.len(), b.len(), c.len(), d.len()] != expected {
        return Err(format!("{instruction:?} has registers {expected:?}"));
    }
    let &Instruction { m, k, .. } = instruction;
    let p = instruction.per_register();
    let halves = m / 8;
    let mut rows = vec![0.0; m * k];
    unpack(a, instruction.a, [k, 1], &mut rows, |r| 8 * (r % halves) * k + 4 * p * (r / halves));
    let mut columns = vec![0.0; k * N];
    unpack(b, instruction.b, [1, N], &mut columns, |r| 4 * p * r * N);
    if instruction.d == Sum::S32 {
        let [rows, columns] =
            [&rows, &columns].map(|values| values.iter().map(|&v: &f32| v as i64).collect::<Vec<_>>());
        let mut sums: Vec<i64> = sums_of(c, m, Sum::S32).map(|(bits, _)| i64::from(bits as i32)).collect();
        add_products(&mut sums, &rows, &columns, |sum, a, b| sum + a * b);
        place(d, instruction.d, &sums, |sum| {
            let limited = sum.clamp(i32::MIN.into(), i32::MAX.into());
            if instruction.saturates { limited as u32 } else { sum as u32 }
        });
    } else {
        let mut sums: Vec<f32> = sums_of(c, m, instruction.c)
            .map(|(bits, half)| if half { f32_from_f16(bits as u16) } else { f32::from_bits(bits) })
            .collect();
        add_products(&mut sums, &rows, &columns, |sum, a, b| sum + a * b);
        let half = instruction.d == Sum::F16;
        place(d, instruction.d, &sums, |sum| if half { f16_from_f32(sum).into() } else { sum.to_bits() });
    }
    Ok(())
}

/// Puts elements where they belong: `steps` from one g to the next, and from one k to the next, from `first` of the
/// register on.
fn unpack(
    registers: &[Register],
    element: Element,
    steps: [usize; 2],
    values: &mut [f32],
    first: impl Fn(usize) -> usize,
) {
    let per_register = 32 / element.bits() as usize;
    for (r, register) in registers.iter().enumerate() {
        let values = &mut values[first(r)..];
        for (lane, &word) in register.iter().enumerate() {
            let at = lane / 4 * steps[0] + lane % 4 * per_register * steps[1];
            for (value, from) in values[at..].iter_mut().step_by(steps[1]).zip(&element.values(word)[..per_register]) {
                *value = *from;
            }
        }
    }
}

/// Adds products to `sums`, m rows of 8.
fn add_products<T: Copy>(sums: &mut [T], rows: &[T], columns: &[T], add: impl Fn(T, T, T) -> T) {
    let k = columns.len() / N;
    for (sums, row) in sums.chunks_exact_mut(N).zip(rows.chunks_exact(k)) {
        for (&a, line) in row.iter().zip(columns.chunks_exact(N)) {
            for (sum, &b) in sums.iter_mut().zip(line) {
                *sum = add(*sum, a, b);
            }
        }
    }
}

/// Where the number of row and column lies: register, lane, and bits to shift.
fn sum_place(row: usize, column: usize, sum: Sum) -> (usize, usize, usize) {
    let lane = 4 * (row % 8) + column / 2;
    if sum == Sum::F16 { (row / 8, lane, 16 * (column % 2)) } else { (2 * (row / 8) + column % 2, lane, 0) }
}

/// C by rows: bits, and whether they are f16's.
fn sums_of(c: &[Register], m: usize, sum: Sum) -> impl Iterator<Item = (u32, bool)> {
    (0..m * N).map(move |i| {
        let (register, lane, shift) = sum_place(i / N, i % N, sum);
        (c[register][lane] >> shift, sum == Sum::F16)
    })
}

fn place<T: Copy>(d: &mut [Register], sum: Sum, sums: &[T], bits: impl Fn(T) -> u32) {
    d.iter_mut().for_each(|register| *register = [0; 32]);
    for (i, &value) in sums.iter().enumerate() {
        let (register, lane, shift) = sum_place(i / N, i % N, sum);
        d[register][lane] |= bits(value) << shift;
    }
}

/// D = A · B + C in f64, `m8n8k4`, `m16n8k4`, `m16n8k8`, `m16n8k16`, each product and sum rounded once, as `fma` does.
///
/// # Errors
/// When there is no such shape, or it has other numbers of registers.
pub fn multiply_f64(
    m: usize,
    k: usize,
    a: &[[f64; 32]],
    b: &[[f64; 32]],
    c: &[[f64; 32]],
    d: &mut [[f64; 32]],
) -> Result<(), String> {
    let halves = m / 8;
    let expected = [halves * k / 4, k / 4, 2 * halves, 2 * halves];
    if !matches!((m, k), (8, 4) | (16, 4 | 8 | 16)) || [a.len(), b.len(), c.len(), d.len()] != expected {
        return Err(format!("mma.sync of f64, m{m}n8k{k}, with registers {:?}", [a.len(), b.len(), c.len(), d.len()]));
    }
    let mut sums: Vec<f64> = (0..m * N)
        .map(|i| {
            let (register, lane, _) = sum_place(i / N, i % N, Sum::F32);
            c[register][lane]
        })
        .collect();
    let rows: Vec<f64> = (0..m * k)
        .map(|i| {
            let (row, column) = (i / k, i % k);
            a[row / 8 + halves * (column / 4)][4 * (row % 8) + column % 4]
        })
        .collect();
    let columns: Vec<f64> = (0..k * N).map(|i| b[i / N / 4][4 * (i % N) + i / N % 4]).collect();
    add_products(&mut sums, &rows, &columns, |sum, a, b| a.mul_add(b, sum));
    for (i, sum) in sums.into_iter().enumerate() {
        let (register, lane, _) = sum_place(i / N, i % N, Sum::F32);
        d[register][lane] = sum;
    }
    Ok(())
}

/// A row of an 8×8 matrix of 16-bit elements in shared memory.
pub type MatrixRow = [u8; 16];

/// One matrix of `ldmatrix`: from its rows to a register. The row's address comes from lane 8 i + row for matrix i.
pub fn load_matrix(rows: &[MatrixRow; 8], transposed: bool) -> Register {
    let element = |row: usize, column: usize| u16::from_le_bytes([rows[row][2 * column], rows[row][2 * column + 1]]);
    std::array::from_fn(|lane| {
        let (g, t) = (lane / 4, 2 * (lane % 4));
        let [low, high] =
            if transposed { [element(t, g), element(t + 1, g)] } else { [element(g, t), element(g, t + 1)] };
        u32::from(low) | u32::from(high) << 16
    })
}

/// One matrix of `stmatrix`: from a register to its rows.
pub fn store_matrix(register: &Register, transposed: bool) -> [MatrixRow; 8] {
    let mut rows = [[0; 16]; 8];
    for (lane, word) in register.iter().enumerate() {
        let [low0, low1, high0, high1] = word.to_le_bytes();
        let (g, t) = (lane / 4, 2 * (lane % 4));
        for (i, element) in [[low0, low1], [high0, high1]].into_iter().enumerate() {
            let (row, column) = if transposed { (t + i, g) } else { (g, t + i) };
            rows[row][2 * column..2 * column + 2].copy_from_slice(&element);
        }
    }
    rows
}

/// `movmatrix.sync.aligned.m8n8.trans.b16`.
pub fn transpose_matrix(register: &Register) -> Register {
    load_matrix(&store_matrix(register, false), true)
}

#[cfg(test)]
mod tests {
    use super::super::formats::{Format, Overflow, Rounding};
    use super::*;

    fn encode(element: Element, value: i32) -> u32 {
        let format = match element {
            Element::F16 => Format::F16,
            Element::Bf16 => Format::BF16,
            Element::Tf32 => Format::TF32,
            Element::E4m3 => Format::E4M3,
            Element::E5m2 => Format::E5M2,
            _ => return value as u32 & (u32::MAX >> (32 - element.bits())),
        };
        format.encode(value.into(), Rounding::NearestEven, Overflow::Infinite) as u32
    }

    /// Rows of small numbers.
    fn matrix(seed: usize, rows: usize, k: usize, element: Element) -> Vec<Vec<i32>> {
        let small = |i: usize| ((i * 2_654_435_761 + seed * 40_503) >> 7) as i32 & 3;
        let low = if matches!(element, Element::U8 | Element::U4) { 0 } else { 2 };
        (0..rows).map(|row| (0..k).map(|k| small(row * 131 + k) - low).collect()).collect()
    }

    /// Four bytes of a row from a byte on, as the device tests read fragments.
    fn word(row: &[i32], element: Element, byte: usize) -> u32 {
        let bits = element.bits() as usize;
        (0..32 / bits).map(|i| encode(element, row[8 * byte / bits + i]) << (i * bits)).sum()
    }

    #[test]
    fn fragments_of_every_shape() {
        use Element::{Bf16, E4m3, E5m2, F16, S4, S8, Tf32, U4, U8};
        let shapes = [
            (F16, F16, 16, 8),
            (F16, F16, 16, 16),
            (Bf16, Bf16, 16, 8),
            (Bf16, Bf16, 16, 16),
            (Tf32, Tf32, 16, 4),
            (Tf32, Tf32, 16, 8),
            (E4m3, E5m2, 16, 32),
            (E5m2, E4m3, 16, 16),
            (S8, U8, 8, 16),
            (U8, S8, 16, 16),
            (S8, S8, 16, 32),
            (S4, U4, 8, 32),
            (U4, S4, 16, 32),
            (S4, S4, 16, 64),
        ];
        for (a_type, b_type, m, k) in shapes {
            let (a, b) = (matrix(1, m, k, a_type), matrix(2, N, k, b_type));
            let sum = if a_type.integer().is_some() { Sum::S32 } else { Sum::F32 };
            let instruction = Instruction { m, k, a: a_type, b: b_type, c: sum, d: sum, saturates: false };
            let [a_count, b_count, c_count, _] = instruction.registers();
            // 16 bytes of a row are in registers of the same number of four lanes.
            let fragment_a: Vec<Register> = (0..a_count)
                .map(|r| {
                    let (below, along) = if m == 16 { (r % 2, r / 2) } else { (0, r) };
                    std::array::from_fn(|l| word(&a[l / 4 + 8 * below], a_type, 4 * (l % 4) + 16 * along))
                })
                .collect();
            let fragment_b: Vec<Register> =
                (0..b_count).map(|r| std::array::from_fn(|l| word(&b[l / 4], b_type, 4 * (l % 4) + 16 * r))).collect();
            let of = |v: i32| if sum == Sum::S32 { v as u32 } else { (v as f32).to_bits() };
            let c: Vec<Register> = vec![[of(5); 32]; c_count];
            let mut d = vec![[7; 32]; c_count];
            multiply(&instruction, &fragment_a, &fragment_b, &c, &mut d).unwrap();
            for (row, column) in (0..m).flat_map(|row| (0..N).map(move |column| (row, column))) {
                let expected: i32 = 5 + a[row].iter().zip(&b[column]).map(|(a, b)| a * b).sum::<i32>();
                let got = d[2 * (row / 8) + column % 2][4 * (row % 8) + column / 2];
                assert_eq!(got, of(expected), "{instruction:?} row {row}, column {column}");
            }
        }
    }

    #[test]
    fn half_sums_are_packed() {
        let f16 =
            Instruction { m: 16, k: 8, a: Element::F16, b: Element::F16, c: Sum::F16, d: Sum::F16, saturates: false };
        let one = 0x3c00_3c00;
        let c = [std::array::from_fn(|l| 0x4000_3c00 + l as u32), [0; 32]];
        let mut d = [[0; 32]; 2];
        multiply(&f16, &[[one; 32]; 2], &[[one; 32]], &c, &mut d).unwrap();
        assert_eq!((d[0][0], d[1][0]), (0x4900_4880, 0x4800_4800));
        let mixed = Instruction { c: Sum::F32, ..f16 };
        multiply(&mixed, &[[one; 32]; 2], &[[one; 32]], &[[1f32.to_bits(); 32]; 4], &mut d).unwrap();
        assert_eq!(d[0][31], 0x4880_4880);
        assert!(Instruction { d: Sum::S32, ..f16 }.check().is_err() && Instruction { k: 32, ..f16 }.check().is_err());
    }

    #[test]
    fn integers_wrap_or_stop() {
        let s8 =
            Instruction { m: 16, k: 16, a: Element::S8, b: Element::S8, c: Sum::S32, d: Sum::S32, saturates: false };
        let (ones, c, mut d) = ([[0x0101_0101; 32]; 2], [[i32::MAX as u32; 32]; 4], [[0; 32]; 4]);
        multiply(&s8, &ones, &ones[..1], &c, &mut d).unwrap();
        assert_eq!(d[3][31] as i32, i32::MIN + 15);
        multiply(&Instruction { saturates: true, ..s8 }, &ones, &ones[..1], &c, &mut d).unwrap();
        assert_eq!(d[3][31] as i32, i32::MAX);
    }

    #[test]
    fn double_precision() {
        for (m, k) in [(8, 4), (16, 4), (16, 8), (16, 16)] {
            let at = |row: usize, column: usize| (row * 17 + column * 3 + 1) as f64;
            let a: Vec<[f64; 32]> = (0..m / 8 * k / 4)
                .map(|r| {
                    let (below, along) = if m == 16 { (r % 2, r / 2) } else { (0, r) };
                    std::array::from_fn(|l| at(l / 4 + 8 * below, l % 4 + 4 * along))
                })
                .collect();
            let b: Vec<[f64; 32]> = (0..k / 4).map(|r| std::array::from_fn(|l| at(l / 4, l % 4 + 4 * r))).collect();
            let c = vec![[1.0; 32]; m / 4];
            let mut d = c.clone();
            multiply_f64(m, k, &a, &b, &c, &mut d).unwrap();
            for (row, column) in (0..m).flat_map(|row| (0..N).map(move |column| (row, column))) {
                let expected = 1.0 + (0..k).map(|k| at(row, k) * at(column, k)).sum::<f64>();
                assert_eq!(d[2 * (row / 8) + column % 2][4 * (row % 8) + column / 2], expected);
            }
        }
        assert!(multiply_f64(8, 8, &[], &[], &[], &mut []).is_err());
    }

    #[test]
    fn matrices_between_memory_and_registers() {
        let rows: [MatrixRow; 8] = std::array::from_fn(|row| std::array::from_fn(|byte| (16 * row + byte) as u8));
        let plain = load_matrix(&rows, false);
        assert_eq!((plain[0], plain[5]), (0x0302_0100, 0x1716_1514));
        let transposed = load_matrix(&rows, true);
        // Rows 2 and 3 of column 1.
        assert_eq!(transposed[5], 0x3332_2322);
        assert_eq!((store_matrix(&plain, false), store_matrix(&transposed, true)), (rows, rows));
        assert_eq!(transpose_matrix(&plain), transposed);
    }
}
