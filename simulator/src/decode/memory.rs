//! Loads, stores and atomics.

use super::program::{Combine, Element, Op, Register};
use super::{Decoder, Modifiers};
use crate::ptx::{Operand, Result, Space, Type};
use half::{bf16, f16};
use std::sync::Arc;

/// Words that say where data should be cached, who may see it when, and in which order: the simulator does everything
/// in order.
fn is_hint(word: &str) -> bool {
    const HINTS: [&str; 30] = [
        "weak",
        "relaxed",
        "acquire",
        "release",
        "acq_rel",
        "sc",
        "volatile",
        "mmio",
        "cta",
        "cluster",
        "gpu",
        "sys",
        "ca",
        "cg",
        "cs",
        "lu",
        "cv",
        "wb",
        "wt",
        "nc",
        "L1::evict_normal",
        "L1::evict_unchanged",
        "L1::evict_first",
        "L1::evict_last",
        "L1::no_allocate",
        "L2::cache_hint",
        "L2::64B",
        "L2::128B",
        "L2::256B",
        "unified",
    ];
    HINTS.contains(&word)
}

/// Translates an instruction of this kind; false for others.
pub(super) fn decode<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    match name {
        "ld" | "ldu" => {
            let polls = ["volatile", "acquire", "relaxed"].iter().any(|word| modifiers.words.contains(word));
            let (space, ty, lanes) = form(decoder, modifiers)?;
            let [into, address, ..] = operands else { return decoder.fault("expected two operands") };
            let into = match into {
                Operand::Vector(parts) => {
                    parts.iter().map(|part| decoder.place_of(part)).collect::<Result<Vec<_>>>()?
                }
                into => vec![decoder.place_of(into)?],
            };
            if into.len() != lanes {
                return decoder.fault(format!("expected {lanes} registers, given {}", into.len()));
            }
            let address = decoder.address(address, space)?;
            let element = Element { bytes: ty.bytes(), signed: ty.is_signed() };
            decoder.emit(Op::Load { address, element, into, polls });
        }
        "st" if !modifiers.words.contains(&"async") => {
            let (space, ty, lanes) = form(decoder, modifiers)?;
            let [address, from, ..] = operands else { return decoder.fault("expected two operands") };
            let from = match from {
                Operand::Vector(parts) => parts.iter().map(|part| stored(decoder, part, ty)).collect::<Result<_>>()?,
                from => vec![stored(decoder, from, ty)?],
            };
            if from.len() != lanes {
                return decoder.fault(format!("expected {lanes} registers, given {}", from.len()));
            }
            let address = decoder.address(address, space)?;
            let element = Element { bytes: ty.bytes(), signed: false };
            decoder.emit(Op::Store { address, element, from });
        }
        "atom" | "red" if !modifiers.words.contains(&"async") => atomic(decoder, name == "atom", modifiers, operands)?,
        "prefetch" | "prefetchu" | "discard" | "applypriority" => {
            modifiers.words.clear();
            decoder.emit(Op::Nothing);
        }
        "createpolicy" => {
            modifiers.words.clear();
            let [into, ..] = operands else { return decoder.fault("expected operands") };
            let into = decoder.result(into, Type::B64)?;
            let zero = decoder.constant(0, true);
            decoder.compute(crate::exec::registers::unary(|a: u64| a), &[into, zero]);
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// A stored value; a register may be wider than what is stored.
fn stored<'a>(decoder: &mut Decoder<'a>, operand: &'a Operand<'a>, ty: Type) -> Result<Register> {
    decoder.register_of(operand, ty)
}

fn form(decoder: &Decoder<'_>, modifiers: &mut Modifiers<'_>) -> Result<(Space, Type, usize)> {
    let space = modifiers.find(Space::of).unwrap_or(Space::Generic);
    modifiers.drop(is_hint);
    let lanes = modifiers.find(|word| ["v2", "v4", "v8"].iter().position(|&other| other == word));
    match modifiers.find(Type::of) {
        Some(ty) if ty != Type::Pred && ty != Type::B128 => Ok((space, ty, lanes.map_or(1, |log| 2 << log))),
        _ => decoder.fault("expected a type"),
    }
}

fn atomic<'a>(
    decoder: &mut Decoder<'a>,
    has_result: bool,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<()> {
    let space = modifiers.find(Space::of).unwrap_or(Space::Generic);
    modifiers.drop(|word| is_hint(word) || word == "noftz");
    let lanes =
        modifiers.find(|word| ["v2", "v4", "v8"].iter().position(|&other| other == word)).map_or(1, |log| 2 << log);
    let Some(ty) = modifiers.find(Type::of) else { return decoder.fault("expected a type") };
    let Some(combine) = modifiers.find(|word| operation(word, ty)) else {
        return decoder.fault(format!("there is no such atomic operation of {ty:?}"));
    };
    let (into, operands) = if has_result {
        let [into, rest @ ..] = operands else { return decoder.fault("expected operands") };
        (Some(into), rest)
    } else {
        (None, operands)
    };
    let into = match into {
        Some(Operand::Vector(parts)) => {
            parts.iter().map(|part| decoder.result(part, ty)).collect::<Result<Vec<_>>>()?
        }
        Some(into) => vec![decoder.result(into, ty)?],
        None => Vec::new(),
    };
    let [address, a, more @ ..] = operands else { return decoder.fault("expected operands") };
    let a = match a {
        Operand::Vector(parts) => parts.iter().map(|part| stored(decoder, part, ty)).collect::<Result<Vec<_>>>()?,
        a => vec![stored(decoder, a, ty)?],
    };
    if a.len() != lanes {
        return decoder.fault(format!("expected {lanes} registers, given {}", a.len()));
    }
    let b = more.first().map(|b| stored(decoder, b, ty)).transpose()?;
    let address = decoder.address(address, space)?;
    let wide = ty.bytes() == 8;
    let into = into.into_iter().map(|at| if wide { Register::W64(at) } else { Register::W32(at) }).collect();
    decoder.emit(Op::Atomic { address, bytes: ty.bytes(), combine, into, a, b });
    Ok(())
}

/// A reduction by its PTX name.
pub(super) fn operation(name: &str, ty: Type) -> Option<Combine> {
    macro_rules! small {
        ($T:ty, $f:expr) => {{
            let f: fn(f32, f32) -> f32 = $f;
            let one = move |a: u64, b: u64| {
                let (a, b) = (<$T>::from_bits(a as u16), <$T>::from_bits(b as u16));
                u64::from(<$T>::from_f32(f(a.to_f32(), b.to_f32())).to_bits())
            };
            let pair = ty.bytes() == 4;
            Some(Arc::new(
                move |a: u64, b: u64, _| {
                    if pair { one(a & 0xFFFF, b & 0xFFFF) | one(a >> 16, b >> 16) << 16 } else { one(a, b) }
                },
            ) as Combine)
        }};
    }
    macro_rules! float {
        ($f:expr) => {
            match ty {
                Type::F32 => Some(Arc::new(|a: u64, b: u64, _| {
                    let f: fn(f32, f32) -> f32 = $f;
                    let (a, b) = (f32::from_bits(a as u32), f32::from_bits(b as u32));
                    u64::from(f(a, b).to_bits())
                }) as Combine),
                Type::F64 => Some(Arc::new(|a: u64, b: u64, _| {
                    let f: fn(f64, f64) -> f64 = $f;
                    f(f64::from_bits(a), f64::from_bits(b)).to_bits()
                }) as Combine),
                Type::F16 | Type::F16x2 => small!(f16, $f),
                Type::Bf16 | Type::Bf16x2 => small!(bf16, $f),
                _ => None,
            }
        };
    }
    let whole = |f: fn(u64, u64, u64) -> u64| Some(Arc::new(f) as Combine);
    let narrow = ty.bytes() < 8;
    match (name, ty) {
        ("add", Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2 | Type::F32 | Type::F64) => float!(|a, b| a + b),
        ("min", Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) => float!(|a, b| a.min(b)),
        ("max", Type::F16 | Type::F16x2 | Type::Bf16 | Type::Bf16x2) => float!(|a, b| a.max(b)),
        ("add", _) => whole(|a, b, _| a.wrapping_add(b)),
        ("exch", _) => whole(|_, b, _| b),
        ("cas", Type::B16) => whole(|a, b, c| if a & 0xFFFF == b & 0xFFFF { c } else { a }),
        ("cas", _) => whole(|a, b, c| if a == b { c } else { a }),
        ("and", _) => whole(|a, b, _| a & b),
        ("or", _) => whole(|a, b, _| a | b),
        ("xor", _) => whole(|a, b, _| a ^ b),
        ("inc", _) => whole(|a, b, _| if a >= b { 0 } else { a + 1 }),
        ("dec", _) => whole(|a, b, _| if a == 0 || a > b { b } else { a - 1 }),
        ("min", _) if ty.is_signed() && narrow => whole(|a, b, _| (a as i32).min(b as i32) as u32 as u64),
        ("max", _) if ty.is_signed() && narrow => whole(|a, b, _| (a as i32).max(b as i32) as u32 as u64),
        ("min", _) if ty.is_signed() => whole(|a, b, _| (a as i64).min(b as i64) as u64),
        ("max", _) if ty.is_signed() => whole(|a, b, _| (a as i64).max(b as i64) as u64),
        ("min", _) => whole(|a, b, _| a.min(b)),
        ("max", _) => whole(|a, b, _| a.max(b)),
        _ => None,
    }
}
