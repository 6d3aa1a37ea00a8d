//! Logic, shifts, moves, comparisons and selections.

use super::{Decoder, Modifiers, floats, integers};
use crate::exec::registers::{Compute, Registers, binary, lanes, ternary, unary};
use crate::ptx::{Operand, Result, Type};

use super::program::{Guard, Op};

/// Translates an instruction of this kind; false for others.
pub(super) fn decode<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    match name {
        "and" | "or" | "xor" | "not" | "cnot" | "shl" | "shr" | "shf" | "prmt" | "lop3" => {
            bits(decoder, name, modifiers, operands)
        }
        "mov" => mov(decoder, modifiers, operands),
        "setp" | "set" => compare(decoder, name == "setp", modifiers, operands),
        "selp" => {
            let Some(ty) = modifiers.find(Type::of) else { return Ok(false) };
            let [into, a, b, condition] = operands else { return decoder.fault("expected four operands") };
            let at = [decoder.result(into, ty)?, decoder.source(a, ty)?, decoder.source(b, ty)?];
            let guard = decoder.condition(condition)?;
            let wide = ty.bytes() == 8;
            let compute: Compute = Box::new(move |registers, mask, at| {
                let chosen = holding(registers, guard);
                // Both moves read before they write where registers are the same.
                if wide {
                    let (a, b) = (*registers.w64(at[1]), *registers.w64(at[2]));
                    <u64 as crate::exec::registers::Lane>::write(
                        registers,
                        at[0],
                        mask,
                        std::array::from_fn(|i| if chosen >> i & 1 == 1 { a[i] } else { b[i] }),
                    );
                } else {
                    let (a, b) = (*registers.w32(at[1]), *registers.w32(at[2]));
                    <u32 as crate::exec::registers::Lane>::write(
                        registers,
                        at[0],
                        mask,
                        std::array::from_fn(|i| if chosen >> i & 1 == 1 { a[i] } else { b[i] }),
                    );
                }
            });
            decoder.compute(compute, &at);
            Ok(true)
        }
        "slct" => {
            let flushes = modifiers.take("ftz");
            let [Some(ty), Some(by)] = [modifiers.find(Type::of), modifiers.find(Type::of)] else { return Ok(false) };
            let [into, a, b, c] = operands else { return decoder.fault("expected four operands") };
            let at =
                [decoder.result(into, ty)?, decoder.source(a, ty)?, decoder.source(b, ty)?, decoder.source(c, by)?];
            // A subnormal number that is flushed is zero of its sign, which counts as not negative.
            let first = move |c: f32| c >= 0.0 || (flushes && c.abs() < f32::MIN_POSITIVE);
            let compute = match (ty.bytes() == 8, by) {
                (false, Type::S32) => ternary(|a: u32, b: u32, c: i32| if c >= 0 { a } else { b }),
                (true, Type::S32) => ternary(|a: u64, b: u64, c: i32| if c >= 0 { a } else { b }),
                (false, Type::F32) => ternary(move |a: u32, b: u32, c: f32| if first(c) { a } else { b }),
                (true, Type::F32) => ternary(move |a: u64, b: u64, c: f32| if first(c) { a } else { b }),
                _ => return Ok(false),
            };
            decoder.compute(compute, &at);
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// The lanes where a condition holds.
pub(crate) fn holding(registers: &Registers, guard: Guard) -> u32 {
    let value = registers.predicate(guard.predicate);
    if guard.negated { !value } else { value }
}

fn bits<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    let funnel_left = modifiers.take("l");
    let funnel_right = modifiers.take("r");
    let clamps = modifiers.take("clamp");
    modifiers.take("wrap");
    let mode = modifiers.find(|word| ["f4e", "b4e", "rc8", "ecl", "ecr", "rc16"].iter().position(|&m| m == word));
    let Some(ty) = modifiers.find(Type::of) else { return Ok(false) };
    if ty == Type::Pred {
        return predicates(decoder, name, operands);
    }
    let [into, from @ ..] = operands else { return decoder.fault("expected operands") };
    let into = decoder.result(into, ty)?;
    let wide = ty.bytes() == 8;
    if name == "lop3" {
        let [a, b, c, Operand::Int(table)] = from else { return decoder.fault("expected a table") };
        let at = [into, decoder.source(a, ty)?, decoder.source(b, ty)?, decoder.source(c, ty)?];
        let table = *table as u8;
        let pick = move |a: u32, b: u32, c: u32| {
            (0..8).filter(|i| table >> i & 1 == 1).fold(0, |d, i: u32| {
                let side = |x: u32, bit: u32| if i >> bit & 1 == 1 { x } else { !x };
                d | side(a, 2) & side(b, 1) & side(c, 0)
            })
        };
        decoder.compute(ternary(pick), &at);
        return Ok(true);
    }
    let mut at = vec![into];
    for (i, operand) in from.iter().enumerate() {
        let is_shift = i == 1 && matches!(name, "shl" | "shr");
        at.push(decoder.source(operand, if is_shift { Type::U32 } else { ty })?);
    }
    let compute = match (name, ty) {
        ("and", _) if wide => binary(|a: u64, b: u64| a & b),
        ("or", _) if wide => binary(|a: u64, b: u64| a | b),
        ("xor", _) if wide => binary(|a: u64, b: u64| a ^ b),
        ("not", _) if wide => unary(|a: u64| !a),
        ("cnot", _) if wide => unary(|a: u64| u64::from(a == 0)),
        ("and", _) => binary(|a: u32, b: u32| a & b),
        ("or", _) => binary(|a: u32, b: u32| a | b),
        ("xor", _) => binary(|a: u32, b: u32| a ^ b),
        ("not", Type::B16) => unary(|a: u16| !a),
        ("not", _) => unary(|a: u32| !a),
        ("cnot", Type::B16) => unary(|a: u16| u16::from(a == 0)),
        ("cnot", _) => unary(|a: u32| u32::from(a == 0)),
        // Shifts by more than the width give what the last bit shifted in gives.
        ("shl", Type::B16) => binary(|a: u16, b: u32| a.checked_shl(b).unwrap_or(0)),
        ("shl", Type::B32) => binary(|a: u32, b: u32| a.checked_shl(b).unwrap_or(0)),
        ("shl", Type::B64) => binary(|a: u64, b: u32| a.checked_shl(b).unwrap_or(0)),
        ("shr", Type::B16 | Type::U16) => binary(|a: u16, b: u32| a.checked_shr(b).unwrap_or(0)),
        ("shr", Type::B32 | Type::U32) => binary(|a: u32, b: u32| a.checked_shr(b).unwrap_or(0)),
        ("shr", Type::B64 | Type::U64) => binary(|a: u64, b: u32| a.checked_shr(b).unwrap_or(0)),
        ("shr", Type::S16) => binary(|a: i16, b: u32| a >> b.min(15)),
        ("shr", Type::S32) => binary(|a: i32, b: u32| a >> b.min(31)),
        ("shr", Type::S64) => binary(|a: i64, b: u32| a >> b.min(63)),
        ("shf", _) if funnel_left || funnel_right => ternary(move |low: u32, high: u32, by: u32| {
            let by = if clamps { by.min(32) } else { by & 31 };
            let both = u64::from(high) << 32 | u64::from(low);
            if funnel_left { (both << by >> 32) as u32 } else { (both >> by) as u32 }
        }),
        ("prmt", _) => ternary(move |a: u32, b: u32, c: u32| permute(mode, a, b, c)),
        _ => return decoder.fault(format!("{name} has no type {ty:?}")),
    };
    decoder.compute(compute, &at);
    Ok(true)
}

/// `prmt`: bytes of a and b chosen by the nibbles of c, or by a pattern that c's low bits shift.
fn permute(mode: Option<usize>, a: u32, b: u32, c: u32) -> u32 {
    let both = u64::from(b) << 32 | u64::from(a);
    let c2 = c & 3;
    let select = match mode {
        None => c,
        Some(0) => (0..4).fold(0, |s, i| s | (c2 + i) << (4 * i)),
        Some(1) => (0..4).fold(0, |s, i| s | (c2.wrapping_sub(i) & 7) << (4 * i)),
        Some(2) => c2 * 0x1111,
        Some(3) => (0..4).fold(0, |s, i: u32| s | i.max(c2) << (4 * i)),
        Some(4) => (0..4).fold(0, |s, i: u32| s | i.min(c2) << (4 * i)),
        Some(_) => 0x1010 + (c & 1) * 0x2222,
    };
    (0..4).fold(0, |result, i| {
        let nibble = select >> (4 * i) & 15;
        let byte = (both >> (8 * (nibble & 7))) as u8;
        let byte = if nibble & 8 == 0 { byte } else { ((byte as i8) >> 7) as u8 };
        result | u32::from(byte) << (8 * i)
    })
}

fn predicates<'a>(decoder: &mut Decoder<'a>, name: &str, operands: &'a [Operand<'a>]) -> Result<bool> {
    let [into, from @ ..] = operands else { return decoder.fault("expected operands") };
    let into = decoder.predicate_result(into)?;
    let from = from.iter().map(|operand| decoder.condition(operand)).collect::<Result<Vec<_>>>()?;
    let f: fn(u32, u32) -> u32 = match name {
        "and" => |a, b| a & b,
        "or" => |a, b| a | b,
        "xor" => |a, b| a ^ b,
        "not" => |a, _| !a,
        "mov" => |a, _| a,
        _ => return Ok(false),
    };
    let [a, b] = [from[0], *from.last().unwrap_or(&from[0])];
    let compute: Compute = Box::new(move |registers, mask, at| {
        let value = f(holding(registers, a), holding(registers, b));
        registers.set_predicate(at[0], mask, value);
    });
    decoder.compute(compute, &[into]);
    Ok(true)
}

fn mov<'a>(decoder: &mut Decoder<'a>, modifiers: &mut Modifiers<'_>, operands: &'a [Operand<'a>]) -> Result<bool> {
    let Some(ty) = modifiers.find(Type::of) else { return Ok(false) };
    if ty == Type::Pred {
        return predicates(decoder, "mov", operands);
    }
    let part = |n: usize| match ty.bytes() / n {
        1 => Type::B8,
        2 => Type::B16,
        _ => Type::B32,
    };
    match operands {
        [
            into,
            Operand::Name("%clock" | "%clock_hi" | "%clock64" | "%globaltimer" | "%globaltimer_lo" | "%globaltimer_hi"),
        ] => {
            if let Some(register) = decoder.place_of(into)? {
                decoder.emit(Op::Clock(register));
            }
            Ok(true)
        }
        [into, Operand::Vector(parts)] => {
            let into = decoder.result(into, ty)?;
            let part_bits = 8 * (ty.bytes() / parts.len().max(1)) as u32;
            let from = decoder.sources(parts, part(parts.len()))?;
            let wide = ty.bytes() == 8;
            let compute: Compute = Box::new(move |registers, mask, at| {
                for lane in lanes(mask) {
                    let bits = from.iter().rev().fold(0u64, |bits, &from| {
                        bits << part_bits | u64::from(registers.w32(from)[lane]) & ((1 << part_bits) - 1)
                    });
                    if wide {
                        registers.w64_mut(at[0])[lane] = bits;
                    } else {
                        registers.w32_mut(at[0])[lane] = bits as u32;
                    }
                }
            });
            decoder.compute(compute, &[into]);
            Ok(true)
        }
        [Operand::Vector(parts), from] => {
            let from = decoder.source(from, ty)?;
            let part_bits = 8 * (ty.bytes() / parts.len().max(1)) as u32;
            let part = part(parts.len());
            for (i, into) in parts.iter().enumerate() {
                if *into == Operand::Sink {
                    continue;
                }
                let into = decoder.result(into, part)?;
                let (by, mask) = (i as u32 * part_bits, u32::MAX >> (32 - part_bits));
                let compute = if ty.bytes() == 8 {
                    unary(move |a: u64| (a >> by) as u32 & mask)
                } else {
                    unary(move |a: u32| a >> by & mask)
                };
                decoder.compute(compute, &[into, from]);
            }
            Ok(true)
        }
        [into, from] => {
            let (into, from) = (decoder.result(into, ty)?, decoder.source(from, ty)?);
            let compute = match ty.bytes() {
                8 => unary(|a: u64| a),
                2 => unary(|a: u16| a),
                1 => unary(|a: u8| a),
                _ => unary(|a: u32| a),
            };
            decoder.compute(compute, &[into, from]);
            Ok(true)
        }
        _ => decoder.fault("expected two operands"),
    }
}

/// `setp` and `set`.
fn compare<'a>(
    decoder: &mut Decoder<'a>,
    to_predicate: bool,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    let flushes = modifiers.take("ftz");
    let into_type = if to_predicate { Some(Type::Pred) } else { modifiers.find(Type::of) };
    let (Some(into_type), Some(ty)) = (into_type, modifiers.find(Type::of)) else { return Ok(false) };
    if modifiers.words.is_empty() {
        return Ok(false);
    }
    let name = modifiers.words.remove(0);
    let test = integers::comparison(name, ty)
        .or_else(|| if ty == Type::Pred { None } else { floats::comparison(name, ty, flushes) });
    let pairs = match ty {
        Type::F16x2 => floats::comparison(name, Type::F16, false),
        Type::Bf16x2 => floats::comparison(name, Type::Bf16, false),
        _ => None,
    };
    let combine: Option<fn(u32, u32) -> u32> = modifiers.find(|word| {
        let f: fn(u32, u32) -> u32 = match word {
            "and" => |a, b| a & b,
            "or" => |a, b| a | b,
            "xor" => |a, b| a ^ b,
            _ => return None,
        };
        Some(f)
    });
    let [into, a, b, more @ ..] = operands else { return decoder.fault("expected operands") };
    let (a, b) = (decoder.source(a, ty)?, decoder.source(b, ty)?);
    let other = match (combine, more) {
        (Some(combine), [condition]) => Some((combine, decoder.condition(condition)?)),
        (None, []) => None,
        _ => return decoder.fault("expected a predicate to combine with"),
    };
    let combined = move |registers: &Registers, holds: u32| match other {
        Some((combine, guard)) => combine(holds, holding(registers, guard)),
        None => holds,
    };
    if let (Some(test), Type::Pred, Operand::Pair(low, high)) = (pairs, into_type, into) {
        // Each half has a predicate of its own.
        let (low, high) = (decoder.predicate_result(low)?, decoder.predicate_result(high)?);
        let upper = decoder.fresh(Type::U32).index();
        for (i, operand) in [a, b].into_iter().enumerate() {
            let place = if i == 0 { upper } else { decoder.fresh(Type::U32).index() };
            decoder.compute(unary(|a: u32| a >> 16), &[place, operand]);
        }
        let compute: Compute = Box::new(move |registers, mask, at| {
            let (first, second) = (test(registers, at[0], at[1]), test(registers, at[2], at[2] + 1));
            let (first, second) = (combined(registers, first), combined(registers, second));
            registers.set_predicate(low, mask, first);
            registers.set_predicate(high, mask, second);
        });
        decoder.compute(compute, &[a, b, upper]);
        return Ok(true);
    }
    if let (Some(test), Type::U32) = (pairs, into_type) {
        // Each half has a mask of its own.
        let into = decoder.result(into, into_type)?;
        let [upper_a, upper_b] = [decoder.fresh(Type::U32).index(), decoder.fresh(Type::U32).index()];
        decoder.compute(unary(|a: u32| a >> 16), &[upper_a, a]);
        decoder.compute(unary(|a: u32| a >> 16), &[upper_b, b]);
        let compute: Compute = Box::new(move |registers, mask, at| {
            let low = combined(registers, test(registers, at[1], at[2]));
            let high = combined(registers, test(registers, at[3], at[4]));
            for lane in lanes(mask) {
                let half = |holds: u32, ones: u32| if holds >> lane & 1 == 1 { ones } else { 0 };
                registers.w32_mut(at[0])[lane] = half(low, 0xffff) | half(high, 0xffff_0000);
            }
        });
        decoder.compute(compute, &[into, a, b, upper_a, upper_b]);
        return Ok(true);
    }
    let Some(test) = test else { return decoder.fault(format!("there is no comparison .{name} of {ty:?}")) };
    if to_predicate {
        let (holds, fails) = match into {
            Operand::Pair(holds, fails) => (decoder.predicate_result(holds)?, Some(decoder.predicate_result(fails)?)),
            into => (decoder.predicate_result(into)?, None),
        };
        let compute: Compute = match (fails, other) {
            (None, None) => Box::new(move |registers, mask, at| {
                let value = test(registers, at[1], at[2]);
                registers.set_predicate(at[0], mask, value);
            }),
            _ => Box::new(move |registers, mask, at| {
                let value = test(registers, at[1], at[2]);
                let (first, second) = (combined(registers, value), combined(registers, !value));
                registers.set_predicate(at[0], mask, first);
                if let Some(fails) = fails {
                    registers.set_predicate(fails, mask, second);
                }
            }),
        };
        decoder.compute(compute, &[holds, a, b]);
        return Ok(true);
    }
    let into = decoder.result(into, into_type)?;
    let ones = if into_type == Type::F32 { 1f32.to_bits() } else { u32::MAX };
    let compute: Compute = Box::new(move |registers, mask, at| {
        let value = combined(registers, test(registers, at[1], at[2]));
        for lane in lanes(mask) {
            registers.w32_mut(at[0])[lane] = if value >> lane & 1 == 1 { ones } else { 0 };
        }
    });
    decoder.compute(compute, &[into, a, b]);
    Ok(true)
}
