//! The registers of a warp: 32 lanes each, and how instructions read and write them.

use half::{bf16, f16};
use std::cell::RefCell;
use std::sync::Arc;

/// Lanes of a warp.
pub const LANES: usize = 32;

/// Marks the index of a register as that of a constant.
pub const CONSTANT: u32 = 1 << 31;

/// The constants of a kernel, each repeated for every lane.
#[derive(Debug, Default)]
pub struct Constants {
    /// Those of up to 32 bits.
    pub w32: Vec<[u32; LANES]>,
    /// Those of 64 bits.
    pub w64: Vec<[u64; LANES]>,
}

/// The registers of a warp.
#[derive(Debug, Default)]
pub struct Registers {
    w32: Vec<[u32; LANES]>,
    w64: Vec<[u64; LANES]>,
    /// A bit per lane.
    predicates: Vec<u32>,
    constants: Arc<Constants>,
}

/// Memory of registers that are not needed any more.
type Used = Vec<(Vec<[u32; LANES]>, Vec<[u64; LANES]>)>;

thread_local! {
    /// Every block needs as much as the one before it; getting that from the system each time is slow.
    static USED: RefCell<Used> = const { RefCell::new(Vec::new()) };
}

/// Warps whose memory is kept.
const MOST_USED: usize = 64;

impl Drop for Registers {
    fn drop(&mut self) {
        let memory = (std::mem::take(&mut self.w32), std::mem::take(&mut self.w64));
        // At the end of a thread there is nothing to keep it in.
        let _ = USED.try_with(|used| {
            let mut used = used.borrow_mut();
            if used.len() < MOST_USED {
                used.push(memory);
            }
        });
    }
}

impl Registers {
    /// As many registers of each kind, with a pattern that no program expects.
    pub fn new(n32: usize, n64: usize, n_predicates: usize, constants: Arc<Constants>) -> Self {
        let (mut w32, mut w64) = USED.with_borrow_mut(Vec::pop).unwrap_or_default();
        w32.clear();
        w32.resize(n32, [0x7FBA_DBAD; LANES]);
        w64.clear();
        w64.resize(n64, [0x7FF4_BADB_AD7F_BADB; LANES]);
        Registers { w32, w64, predicates: vec![0; n_predicates], constants }
    }

    /// The lanes of a register or constant of 32 bits.
    #[inline(always)]
    pub fn w32(&self, at: u32) -> &[u32; LANES] {
        if at & CONSTANT == 0 { &self.w32[at as usize] } else { &self.constants.w32[(at ^ CONSTANT) as usize] }
    }

    /// The lanes of a register or constant of 64 bits.
    #[inline(always)]
    pub fn w64(&self, at: u32) -> &[u64; LANES] {
        if at & CONSTANT == 0 { &self.w64[at as usize] } else { &self.constants.w64[(at ^ CONSTANT) as usize] }
    }

    /// The lanes of a register, to be written.
    #[inline(always)]
    pub fn w32_mut(&mut self, at: u32) -> &mut [u32; LANES] {
        &mut self.w32[at as usize]
    }

    /// The lanes of a register, to be written.
    #[inline(always)]
    pub fn w64_mut(&mut self, at: u32) -> &mut [u64; LANES] {
        &mut self.w64[at as usize]
    }

    /// The lanes in which a predicate holds.
    #[inline(always)]
    pub fn predicate(&self, at: u32) -> u32 {
        self.predicates[at as usize]
    }

    /// Sets a predicate in the lanes of `mask`.
    #[inline(always)]
    pub fn set_predicate(&mut self, at: u32, mask: u32, value: u32) {
        let place = &mut self.predicates[at as usize];
        *place = *place & !mask | value & mask;
    }
}

/// The numbers of the lanes in a mask.
#[inline(always)]
pub fn lanes(mut mask: u32) -> impl Iterator<Item = usize> {
    std::iter::from_fn(move || {
        let lane = mask.trailing_zeros() as usize;
        (mask != 0).then(|| {
            mask &= mask - 1;
            lane
        })
    })
}

/// A type that an instruction computes with; narrow ones lie in the low bits of a register, zeros above.
pub trait Lane: Copy + 'static {
    /// All lanes of a register.
    fn read(registers: &Registers, at: u32) -> [Self; LANES];
    /// Writes the lanes of `mask`.
    fn write(registers: &mut Registers, at: u32, mask: u32, values: [Self; LANES]);
}

macro_rules! lane {
    ($($ty:ty: $get:ident $place:ident, $from:expr, $to:expr;)*) => { $(
        impl Lane for $ty {
            #[inline(always)]
            fn read(registers: &Registers, at: u32) -> [Self; LANES] {
                let from = $from;
                let bits = registers.$get(at);
                std::array::from_fn(|i| from(bits[i]))
            }

            #[inline(always)]
            fn write(registers: &mut Registers, at: u32, mask: u32, values: [Self; LANES]) {
                let place = registers.$place(at);
                let to = $to;
                if mask == u32::MAX {
                    for i in 0..LANES {
                        place[i] = to(values[i]);
                    }
                } else {
                    for i in 0..LANES {
                        place[i] = if mask >> i & 1 == 1 { to(values[i]) } else { place[i] };
                    }
                }
            }
        }
    )* };
}

lane! {
    u8: w32 w32_mut, |bits: u32| bits as u8, |value: u8| u32::from(value);
    i8: w32 w32_mut, |bits: u32| bits as i8, |value: i8| u32::from(value as u8);
    u16: w32 w32_mut, |bits: u32| bits as u16, |value: u16| u32::from(value);
    i16: w32 w32_mut, |bits: u32| bits as i16, |value: i16| u32::from(value as u16);
    u32: w32 w32_mut, |bits: u32| bits, |value: u32| value;
    i32: w32 w32_mut, |bits: u32| bits as i32, |value: i32| value as u32;
    f32: w32 w32_mut, f32::from_bits, f32::to_bits;
    f16: w32 w32_mut, |bits: u32| f16::from_bits(bits as u16), |value: f16| u32::from(value.to_bits());
    bf16: w32 w32_mut, |bits: u32| bf16::from_bits(bits as u16), |value: bf16| u32::from(value.to_bits());
    [f16; 2]: w32 w32_mut,
        |bits: u32| [f16::from_bits(bits as u16), f16::from_bits((bits >> 16) as u16)],
        |[low, high]: [f16; 2]| u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16;
    [bf16; 2]: w32 w32_mut,
        |bits: u32| [bf16::from_bits(bits as u16), bf16::from_bits((bits >> 16) as u16)],
        |[low, high]: [bf16; 2]| u32::from(low.to_bits()) | u32::from(high.to_bits()) << 16;
    u64: w64 w64_mut, |bits: u64| bits, |value: u64| value;
    i64: w64 w64_mut, |bits: u64| bits as i64, |value: i64| value as u64;
    f64: w64 w64_mut, f64::from_bits, f64::to_bits;
}

/// Indices of an instruction's registers: results first, then operands.
pub type At = [u32; 6];

/// What an instruction does that only reads and writes registers, in the lanes of a mask.
pub type Compute = Box<dyn Fn(&mut Registers, u32, &At) + Send + Sync>;

/// `at[0] = f(at[1])`.
pub fn unary<A: Lane, D: Lane>(f: impl Fn(A) -> D + Send + Sync + 'static) -> Compute {
    Box::new(move |registers, mask, at| {
        let a = A::read(registers, at[1]);
        D::write(registers, at[0], mask, std::array::from_fn(|i| f(a[i])));
    })
}

/// `at[0] = f(at[1], at[2])`.
pub fn binary<A: Lane, B: Lane, D: Lane>(f: impl Fn(A, B) -> D + Send + Sync + 'static) -> Compute {
    Box::new(move |registers, mask, at| {
        let a = A::read(registers, at[1]);
        let b = B::read(registers, at[2]);
        D::write(registers, at[0], mask, std::array::from_fn(|i| f(a[i], b[i])));
    })
}

/// `at[0] = f(at[1], at[2], at[3])`.
pub fn ternary<A: Lane, B: Lane, C: Lane, D: Lane>(f: impl Fn(A, B, C) -> D + Send + Sync + 'static) -> Compute {
    Box::new(move |registers, mask, at| {
        let a = A::read(registers, at[1]);
        let b = B::read(registers, at[2]);
        let c = C::read(registers, at[3]);
        D::write(registers, at[0], mask, std::array::from_fn(|i| f(a[i], b[i], c[i])));
    })
}

/// `at[0] = f(at[1], at[2], at[3], at[4])`.
pub fn quaternary<A: Lane, B: Lane, C: Lane, E: Lane, D: Lane>(
    f: impl Fn(A, B, C, E) -> D + Send + Sync + 'static,
) -> Compute {
    Box::new(move |registers, mask, at| {
        let a = A::read(registers, at[1]);
        let b = B::read(registers, at[2]);
        let c = C::read(registers, at[3]);
        let e = E::read(registers, at[4]);
        D::write(registers, at[0], mask, std::array::from_fn(|i| f(a[i], b[i], c[i], e[i])));
    })
}

/// The lanes in which `f(at[a], at[b])` holds.
#[inline(always)]
pub fn compare<T: Lane>(registers: &Registers, a: u32, b: u32, f: impl Fn(T, T) -> bool) -> u32 {
    let (a, b) = (T::read(registers, a), T::read(registers, b));
    let mut holds = 0;
    for i in 0..LANES {
        holds |= u32::from(f(a[i], b[i])) << i;
    }
    holds
}
