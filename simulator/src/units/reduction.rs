//! What `cp.reduce.async.bulk` does to memory, with a tensor map or without.

use super::formats::{bf16_from_f32, f16_from_f32, f32_from_bf16, f32_from_f16};
use super::tensor_map::ElementType;

/// How an element is combined with the one in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum Operation {
    Add,
    Min,
    Max,
    /// One more, up to the operand, then 0.
    Inc,
    /// One less, after 0 the operand.
    Dec,
    And,
    Or,
    Xor,
}

/// Combines `values` with as many elements of `memory`, one by one; types without a sign stand for `.b32` and `.b64`.
///
/// # Errors
/// When there is no such operation for the type.
pub fn combine(operation: Operation, element: ElementType, memory: &mut [u8], values: &[u8]) -> Result<(), String> {
    use ElementType as E;
    use Operation::{Add, Max, Min};
    let none = || format!("there is no reduction {operation:?} of {element:?}");
    match (element, operation) {
        (E::U32, _) => each(memory, values, |a, b| unsigned(operation, a, b, u32::wrapping_add, u32::wrapping_sub)),
        (E::U64, Operation::Inc | Operation::Dec) => return Err(none()),
        (E::U64, _) => each(memory, values, |a, b| unsigned(operation, a, b, u64::wrapping_add, u64::wrapping_sub)),
        (E::S32, Add) => each(memory, values, i32::wrapping_add),
        (E::S32, Min) => each(memory, values, i32::min),
        (E::S32, Max) => each(memory, values, i32::max),
        (E::S64, Add) => each(memory, values, i64::wrapping_add),
        (E::S64, Min) => each(memory, values, i64::min),
        (E::S64, Max) => each(memory, values, i64::max),
        (E::F16, Add | Min | Max) => {
            each(memory, values, |a: u16, b: u16| f16_from_f32(float(operation, f32_from_f16(a), f32_from_f16(b))))
        }
        (E::Bf16, Add | Min | Max) => {
            each(memory, values, |a: u16, b: u16| bf16_from_f32(float(operation, f32_from_bf16(a), f32_from_bf16(b))))
        }
        (E::F32 | E::F32Ftz | E::Tf32 | E::Tf32Ftz, Add) => each(memory, values, |a: f32, b: f32| a + b),
        (E::F64, Add) => each(memory, values, |a: f64, b: f64| a + b),
        _ => return Err(none()),
    }
    Ok(())
}

/// Sums of 16-bit numbers in f32 round as if they had been rounded once.
fn float(operation: Operation, a: f32, b: f32) -> f32 {
    match operation {
        Operation::Min => a.min(b),
        Operation::Max => a.max(b),
        _ => a + b,
    }
}

fn unsigned<T>(operation: Operation, a: T, b: T, add: fn(T, T) -> T, sub: fn(T, T) -> T) -> T
where
    T: Ord
        + Copy
        + From<u8>
        + std::ops::BitAnd<Output = T>
        + std::ops::BitOr<Output = T>
        + std::ops::BitXor<Output = T>,
{
    let (zero, one) = (T::from(0), T::from(1));
    match operation {
        Operation::Add => add(a, b),
        Operation::Min => a.min(b),
        Operation::Max => a.max(b),
        Operation::Inc => {
            if a >= b {
                zero
            } else {
                add(a, one)
            }
        }
        Operation::Dec => {
            if a == zero || a > b {
                b
            } else {
                sub(a, one)
            }
        }
        Operation::And => a & b,
        Operation::Or => a | b,
        Operation::Xor => a ^ b,
    }
}

/// Numbers as bytes of memory.
trait Bytes<const N: usize>: Copy {
    fn read(bytes: [u8; N]) -> Self;
    fn bytes(self) -> [u8; N];
}

macro_rules! bytes {
    ($($t:ty = $n:literal),*) => { $(
        impl Bytes<$n> for $t {
            fn read(bytes: [u8; $n]) -> Self {
                <$t>::from_le_bytes(bytes)
            }
            fn bytes(self) -> [u8; $n] {
                self.to_le_bytes()
            }
        }
    )* };
}

bytes!(u16 = 2, u32 = 4, i32 = 4, f32 = 4, u64 = 8, i64 = 8, f64 = 8);

fn each<T: Bytes<N>, const N: usize>(memory: &mut [u8], values: &[u8], combine: impl Fn(T, T) -> T) {
    for (memory, value) in memory.as_chunks_mut::<N>().0.iter_mut().zip(values.as_chunks::<N>().0) {
        *memory = combine(T::read(*memory), T::read(*value)).bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of<T: Bytes<N>, const N: usize>(operation: Operation, element: ElementType, a: T, b: T) -> T {
        let mut memory = a.bytes();
        combine(operation, element, &mut memory, &b.bytes()).unwrap();
        T::read(memory)
    }

    #[test]
    fn elements_are_combined() {
        use ElementType as E;
        use Operation::{Add, And, Dec, Inc, Max, Min, Or, Xor};
        assert_eq!(of(Add, E::F32, 1.5f32, 2.0), 3.5);
        assert_eq!(of(Add, E::F64, 1.5f64, 2.0), 3.5);
        assert_eq!(of(Add, E::F16, 0x3c00u16, 0x3c00), 0x4000);
        assert_eq!(of(Max, E::Bf16, 0xbf80u16, 0x3f80), 0x3f80);
        assert_eq!((of(Add, E::U32, u32::MAX, 2), of(Inc, E::U32, 5u32, 5), of(Inc, E::U32, 4u32, 5)), (1, 0, 5));
        assert_eq!((of(Dec, E::U32, 0u32, 5), of(Dec, E::U32, 4u32, 5)), (5, 3));
        assert_eq!(
            (of(Min, E::S32, -1i32, 1), of(Max, E::S64, -1i64, 1), of(Max, E::U64, u64::MAX, 1)),
            (-1, 1, u64::MAX)
        );
        assert_eq!((of(And, E::U32, 6u32, 3), of(Or, E::U64, 6u64, 3), of(Xor, E::U32, 6u32, 3)), (2, 7, 5));
        assert!(combine(Min, E::F32, &mut [0; 4], &[0; 4]).is_err() && combine(Add, E::U8, &mut [0], &[0]).is_err());
        let mut three = [1u32, 2, 3].map(u32::to_le_bytes).concat();
        combine(Add, E::U32, &mut three, &[10u32, 20, 30].map(u32::to_le_bytes).concat()).unwrap();
        assert_eq!(three, [11u32, 22, 33].map(u32::to_le_bytes).concat());
    }
}
