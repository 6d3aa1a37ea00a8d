//! Arithmetic of floating-point numbers.

use super::{Decoder, Modifiers};
use crate::exec::registers::{Compute, Registers, binary, compare, ternary, unary};
use crate::exec::rounded::{self, Direction};
use crate::ptx::{Operand, Result, Type};
use crate::units::formats::saturated;
use half::{bf16, f16};

/// What happens to a single-precision instruction's numbers besides its arithmetic.
#[derive(Clone, Copy)]
struct Manner {
    direction: Direction,
    /// Subnormal numbers are zero.
    flushes: bool,
    /// Results are cut to 0..=1.
    saturates: bool,
    /// Negative results become zero.
    rectifies: bool,
}

impl Manner {
    fn of(modifiers: &mut Modifiers<'_>) -> Self {
        let direction = modifiers.find(|word| match word {
            "rn" => Some(Direction::Nearest),
            "rz" => Some(Direction::Zero),
            "rm" => Some(Direction::Down),
            "rp" => Some(Direction::Up),
            _ => None,
        });
        Manner {
            direction: direction.unwrap_or(Direction::Nearest),
            flushes: modifiers.take("ftz"),
            saturates: modifiers.take("sat"),
            rectifies: modifiers.take("relu"),
        }
    }

    fn is_plain(self) -> bool {
        self.direction == Direction::Nearest && !self.flushes && !self.saturates && !self.rectifies
    }

    fn before(self, a: f32) -> f32 {
        if self.flushes { rounded::flush(a) } else { a }
    }

    fn after(self, a: f32) -> f32 {
        let a = if self.flushes { rounded::flush(a) } else { a };
        // NaN becomes zero in both.
        let a = if self.saturates { saturated(a.into()) as f32 } else { a };
        if self.rectifies { if a.is_nan() { f32::NAN } else { a.max(0.0) } } else { a }
    }

    fn after64(self, a: f64) -> f64 {
        if self.saturates { saturated(a) } else { a }
    }
}

/// Translates an instruction of this kind; false for others.
pub(super) fn decode<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    const KNOWN: [&str; 20] = [
        "add", "sub", "mul", "fma", "mad", "div", "rcp", "sqrt", "rsqrt", "sin", "cos", "lg2", "ex2", "tanh", "neg",
        "abs", "min", "max", "copysign", "testp",
    ];
    let Some(ty) = modifiers.words.iter().rev().find_map(|word| Type::of(word)) else { return Ok(false) };
    let is_float = matches!(ty, Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 | Type::F32 | Type::F64);
    if !KNOWN.contains(&name) || !is_float {
        return Ok(false);
    }
    modifiers.find(Type::of);
    if name == "testp" {
        return test(decoder, ty, modifiers, operands);
    }
    if name == "copysign" {
        let compute = match ty {
            Type::F32 => binary(|a: u32, b: u32| a & 1 << 31 | b & !(1 << 31)),
            _ => binary(|a: u64, b: u64| a & 1 << 63 | b & !(1 << 63)),
        };
        return finish(decoder, compute, ty, operands);
    }
    let approximate = modifiers.take("approx") | modifiers.take("full");
    modifiers.take("noftz");
    let manner = Manner::of(modifiers);
    let compute = match (name, ty) {
        ("min" | "max", _) => extreme(name == "max", ty, manner, modifiers, operands.len()),
        ("neg", Type::F64) => Some(unary(|a: u64| a ^ 1 << 63)),
        ("abs", Type::F64) => Some(unary(|a: u64| a & !(1 << 63))),
        ("neg", Type::F16 | Type::Bf16) => Some(unary(|a: u16| a ^ 1 << 15)),
        ("abs", Type::F16 | Type::Bf16) => Some(unary(|a: u16| a & !(1 << 15))),
        ("neg", Type::F16x2 | Type::Bf16x2) => Some(unary(|a: u32| a ^ 0x8000_8000)),
        ("abs", Type::F16x2 | Type::Bf16x2) => Some(unary(|a: u32| a & 0x7FFF_7FFF)),
        (_, Type::F32) => single(name, approximate, manner),
        (_, Type::F64) => double(name, manner),
        (_, Type::F16) => small(name, manner).map(|f| f.on::<f16>()),
        (_, Type::Bf16) => small(name, manner).map(|f| f.on::<bf16>()),
        (_, Type::F16x2) => small(name, manner).map(|f| f.on_pairs::<f16>()),
        _ => small(name, manner).map(|f| f.on_pairs::<bf16>()),
    };
    match compute {
        Some(compute) => finish(decoder, compute, ty, operands),
        None => decoder.fault(format!("{name} has no type {ty:?}")),
    }
}

fn finish<'a>(decoder: &mut Decoder<'a>, compute: Compute, ty: Type, operands: &'a [Operand<'a>]) -> Result<bool> {
    let [into, from @ ..] = operands else { return decoder.fault("expected operands") };
    let mut at = vec![decoder.result(into, ty)?];
    at.extend(decoder.sources(from, ty)?);
    decoder.compute(compute, &at);
    Ok(true)
}

fn single(name: &str, approximate: bool, manner: Manner) -> Option<Compute> {
    let m = manner;
    let d = manner.direction;
    if manner.is_plain() {
        // The common ones without choices in their loops.
        match name {
            "add" => return Some(binary(|a: f32, b: f32| a + b)),
            "sub" => return Some(binary(|a: f32, b: f32| a - b)),
            "mul" => return Some(binary(|a: f32, b: f32| a * b)),
            "fma" | "mad" => return Some(ternary(|a: f32, b: f32, c: f32| a.mul_add(b, c))),
            "div" => return Some(binary(|a: f32, b: f32| a / b)),
            "sqrt" => return Some(unary(|a: f32| a.sqrt())),
            _ => {}
        }
    }
    // Approximate functions are computed in double precision and rounded once.
    let approx = |f: fn(f64) -> f64| unary(move |a: f32| m.after(f(f64::from(m.before(a))) as f32));
    Some(match name {
        "add" => binary(move |a: f32, b: f32| m.after(rounded::add(m.before(a), m.before(b), d))),
        "sub" => binary(move |a: f32, b: f32| m.after(rounded::add(m.before(a), -m.before(b), d))),
        "mul" => binary(move |a: f32, b: f32| m.after(rounded::mul(m.before(a), m.before(b), d))),
        "fma" | "mad" => {
            ternary(move |a: f32, b: f32, c: f32| m.after(rounded::fma(m.before(a), m.before(b), m.before(c), d)))
        }
        "div" => binary(move |a: f32, b: f32| m.after(rounded::div(m.before(a), m.before(b), d))),
        "rcp" => unary(move |a: f32| m.after(rounded::div(1.0, m.before(a), d))),
        "sqrt" => unary(move |a: f32| m.after(rounded::sqrt(m.before(a), d))),
        "neg" => unary(move |a: f32| m.after(-m.before(a))),
        "abs" => unary(move |a: f32| m.after(m.before(a).abs())),
        "rsqrt" if approximate => approx(|a| 1.0 / a.sqrt()),
        "sin" if approximate => approx(f64::sin),
        "cos" if approximate => approx(f64::cos),
        "lg2" if approximate => approx(f64::log2),
        "ex2" if approximate => approx(f64::exp2),
        "tanh" if approximate => approx(f64::tanh),
        _ => return None,
    })
}

fn double(name: &str, m: Manner) -> Option<Compute> {
    let d = m.direction;
    if m.is_plain() {
        match name {
            "add" => return Some(binary(|a: f64, b: f64| a + b)),
            "sub" => return Some(binary(|a: f64, b: f64| a - b)),
            "mul" => return Some(binary(|a: f64, b: f64| a * b)),
            "fma" | "mad" => return Some(ternary(|a: f64, b: f64, c: f64| a.mul_add(b, c))),
            _ => {}
        }
    }
    Some(match name {
        "add" => binary(move |a: f64, b: f64| m.after64(rounded::add64(a, b, d))),
        "sub" => binary(move |a: f64, b: f64| m.after64(rounded::add64(a, -b, d))),
        "mul" => binary(move |a: f64, b: f64| m.after64(rounded::mul64(a, b, d))),
        "fma" | "mad" => ternary(move |a: f64, b: f64, c: f64| m.after64(rounded::fma64(a, b, c, d))),
        "div" => binary(move |a: f64, b: f64| rounded::div64(a, b, d)),
        "rcp" => unary(move |a: f64| rounded::div64(1.0, a, d)),
        "sqrt" => unary(move |a: f64| rounded::sqrt64(a, d)),
        "rsqrt" => unary(|a: f64| 1.0 / a.sqrt()),
        _ => return None,
    })
}

/// An operation on numbers of 16 bits: computed in double precision, which holds every sum and product of two of them,
/// and rounded.
enum Small {
    Unary(fn(f64) -> f64, Manner),
    Binary(fn(f64, f64) -> f64, Manner),
    Fma(Manner),
}

fn small(name: &str, manner: Manner) -> Option<Small> {
    Some(match name {
        "add" => Small::Binary(|a, b| a + b, manner),
        "sub" => Small::Binary(|a, b| a - b, manner),
        "mul" => Small::Binary(|a, b| a * b, manner),
        "fma" | "mad" => Small::Fma(manner),
        "ex2" => Small::Unary(f64::exp2, manner),
        "tanh" => Small::Unary(f64::tanh, manner),
        _ => return None,
    })
}

/// A format of 16 bits.
trait Small16: crate::exec::registers::Lane + Send + Sync {
    fn wide(self) -> f64;
    /// Rounded; only f16 flushes.
    fn narrow(value: f64, flushes: bool) -> Self;
}

impl Small16 for f16 {
    fn wide(self) -> f64 {
        self.to_f64()
    }
    fn narrow(value: f64, flushes: bool) -> Self {
        let narrow = f16::from_f64(value);
        if flushes && narrow.to_bits() & 0x7C00 == 0 { f16::from_bits(narrow.to_bits() & 0x8000) } else { narrow }
    }
}

impl Small16 for bf16 {
    fn wide(self) -> f64 {
        self.to_f64()
    }
    fn narrow(value: f64, _: bool) -> Self {
        bf16::from_f64(value)
    }
}

impl Small {
    fn manner(&self) -> Manner {
        match self {
            Small::Unary(_, manner) | Small::Binary(_, manner) | Small::Fma(manner) => *manner,
        }
    }

    fn on<T: Small16>(self) -> Compute {
        let m = self.manner();
        let read = move |a: T| if m.flushes { T::narrow(a.wide(), true).wide() } else { a.wide() };
        let write = move |a: f64| {
            let a = if m.saturates { saturated(a) } else { a };
            T::narrow(if m.rectifies && !a.is_nan() { a.max(0.0) } else { a }, m.flushes)
        };
        match self {
            Small::Unary(f, _) => unary(move |a: T| write(f(read(a)))),
            Small::Binary(f, _) => binary(move |a: T, b: T| write(f(read(a), read(b)))),
            Small::Fma(_) => ternary(move |a: T, b: T, c: T| write(read(a).mul_add(read(b), read(c)))),
        }
    }

    fn on_pairs<T: Small16>(self) -> Compute
    where
        [T; 2]: crate::exec::registers::Lane,
    {
        let m = self.manner();
        let read = move |a: T| if m.flushes { T::narrow(a.wide(), true).wide() } else { a.wide() };
        let write = move |a: f64| {
            let a = if m.saturates { saturated(a) } else { a };
            T::narrow(if m.rectifies && !a.is_nan() { a.max(0.0) } else { a }, m.flushes)
        };
        match self {
            Small::Unary(f, _) => unary(move |a: [T; 2]| a.map(|a| write(f(read(a))))),
            Small::Binary(f, _) => {
                binary(move |a: [T; 2], b: [T; 2]| [write(f(read(a[0]), read(b[0]))), write(f(read(a[1]), read(b[1])))])
            }
            Small::Fma(_) => ternary(move |a: [T; 2], b: [T; 2], c: [T; 2]| {
                [0, 1].map(|i| write(read(a[i]).mul_add(read(b[i]), read(c[i]))))
            }),
        }
    }
}

/// The smaller or larger of two or three. Without `.NaN`, a number wins over NaN.
fn extreme(max: bool, ty: Type, m: Manner, modifiers: &mut Modifiers<'_>, n_operands: usize) -> Option<Compute> {
    let keeps_nan = modifiers.take("NaN");
    let xor_sign = modifiers.take("xorsign") && modifiers.take("abs");
    let of = move |a: f64, b: f64| {
        let negative = xor_sign && (a.is_sign_negative() != b.is_sign_negative());
        let (a, b) = if xor_sign { (a.abs(), b.abs()) } else { (a, b) };
        let found = if a.is_nan() || b.is_nan() {
            if keeps_nan || (a.is_nan() && b.is_nan()) {
                return f64::NAN;
            }
            if a.is_nan() { b } else { a }
        } else {
            // -0 is less than +0.
            let a_first = a < b || (a == b && a.is_sign_negative());
            if a_first != max { a } else { b }
        };
        if negative { -found } else { found }
    };
    macro_rules! small {
        ($T:ty) => {
            binary(move |a: $T, b: $T| {
                <$T as Small16>::narrow(f64::from(m.after(of(a.wide(), b.wide()) as f32)), m.flushes)
            })
        };
    }
    macro_rules! pairs {
        ($T:ty) => {
            binary(move |a: [$T; 2], b: [$T; 2]| {
                [0, 1].map(|i| {
                    <$T as Small16>::narrow(f64::from(m.after(of(a[i].wide(), b[i].wide()) as f32)), m.flushes)
                })
            })
        };
    }
    Some(match ty {
        Type::F32 if n_operands == 4 => ternary(move |a: f32, b: f32, c: f32| {
            let [a, b, c] = [a, b, c].map(|a| f64::from(m.before(a)));
            m.after(of(of(a, b), c) as f32)
        }),
        Type::F32 => binary(move |a: f32, b: f32| m.after(of(f64::from(m.before(a)), f64::from(m.before(b))) as f32)),
        Type::F64 => binary(of),
        Type::F16 => small!(f16),
        Type::Bf16 => small!(bf16),
        Type::F16x2 => pairs!(f16),
        Type::Bf16x2 => pairs!(bf16),
        _ => return None,
    })
}

fn test<'a>(
    decoder: &mut Decoder<'a>,
    ty: Type,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    let known = ["finite", "infinite", "number", "notanumber", "normal", "subnormal"];
    let Some(kind) = modifiers.find(|word| known.iter().position(|&other| other == word)) else { return Ok(false) };
    let holds = move |class: std::num::FpCategory| {
        use std::num::FpCategory::{Infinite, Nan, Normal, Subnormal};
        match kind {
            0 => !matches!(class, Infinite | Nan),
            1 => class == Infinite,
            2 => class != Nan,
            3 => class == Nan,
            4 => class == Normal,
            _ => class == Subnormal,
        }
    };
    let [into, from] = operands else { return decoder.fault("expected two operands") };
    let at = [decoder.predicate_result(into)?, decoder.source(from, ty)?];
    let wide = ty == Type::F64;
    let compute: Compute = Box::new(move |registers, mask, at| {
        let value = if wide {
            compare::<f64>(registers, at[1], at[1], |a, _| holds(a.classify()))
        } else {
            compare::<f32>(registers, at[1], at[1], |a, _| holds(a.classify()))
        };
        registers.set_predicate(at[0], mask, value);
    });
    decoder.compute(compute, &at);
    Ok(true)
}

/// Whether one of them is NaN.
fn no_order(a: f64, b: f64) -> bool {
    a.is_nan() || b.is_nan()
}

/// The comparison of two floating-point numbers, by its PTX name.
pub(super) fn comparison(name: &str, ty: Type, flushes: bool) -> Option<fn(&Registers, u32, u32) -> u32> {
    macro_rules! of {
        ($T:ty, $wide:expr) => {{
            macro_rules! f {
                ($f:expr) => {
                    |registers: &Registers, a: u32, b: u32| {
                        compare::<$T>(registers, a, b, |a, b| {
                            let holds: fn(f64, f64) -> bool = $f;
                            holds($wide(a), $wide(b))
                        })
                    }
                };
            }
            let f: fn(&Registers, u32, u32) -> u32 = match name {
                "eq" => f!(|a, b| a == b),
                "ne" => f!(|a, b| a != b && !no_order(a, b)),
                "lt" => f!(|a, b| a < b),
                "le" => f!(|a, b| a <= b),
                "gt" => f!(|a, b| a > b),
                "ge" => f!(|a, b| a >= b),
                "equ" => f!(|a, b| a == b || no_order(a, b)),
                "neu" => f!(|a, b| a != b),
                "ltu" => f!(|a, b| a < b || no_order(a, b)),
                "leu" => f!(|a, b| a <= b || no_order(a, b)),
                "gtu" => f!(|a, b| a > b || no_order(a, b)),
                "geu" => f!(|a, b| a >= b || no_order(a, b)),
                "num" => f!(|a, b| !no_order(a, b)),
                "nan" => f!(no_order),
                _ => return None,
            };
            f
        }};
    }
    Some(match ty {
        Type::F32 if flushes => of!(f32, |a| f64::from(rounded::flush(a))),
        Type::F32 => of!(f32, f64::from),
        Type::F64 => of!(f64, f64::from),
        Type::F16 => of!(f16, f64::from),
        Type::Bf16 => of!(bf16, f64::from),
        _ => return None,
    })
}
