//! Conversions between types, and of addresses between spaces.

use super::program::Op;
use super::{Decoder, Modifiers};
use crate::exec::registers::{Compute, Lane, binary, lanes, ternary, unary};
use crate::exec::{rounded, spaces};
use crate::ptx::{Operand, Result, Space, Type};
use crate::units::formats::{Format, Integer, Overflow, Rounding, integral, rectified, saturated};
use half::{bf16, f16};

/// Translates an instruction of this kind; false for others.
pub(super) fn decode<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    match name {
        "cvt" if modifiers.take("pack") => pack(decoder, modifiers, operands),
        "cvt" => cvt(decoder, modifiers, operands),
        "cvta" => cvta(decoder, modifiers, operands),
        "isspacep" => {
            let Some(space) = modifiers.find(Space::of) else { return Ok(false) };
            let [into, from] = operands else { return decoder.fault("expected two operands") };
            let (into, from) = (decoder.predicate_result(into)?, decoder.register_of(from, Type::B64)?);
            decoder.emit(Op::IsSpace { into, from, space });
            Ok(true)
        }
        _ => Ok(false),
    }
}

/// How a conversion treats what does not fit.
#[derive(Clone, Copy)]
struct Manner {
    rounding: Rounding,
    /// The result is integral though its type is not.
    to_integral: bool,
    saturates: bool,
    overflow: Overflow,
    flushes: bool,
    rectifies: bool,
}

fn cvt<'a>(decoder: &mut Decoder<'a>, modifiers: &mut Modifiers<'_>, operands: &'a [Operand<'a>]) -> Result<bool> {
    let [Some(to), Some(from)] = [modifiers.find(Type::of), modifiers.find(Type::of)] else { return Ok(false) };
    let rounding = modifiers.find(|word| {
        Some(match word {
            "rn" | "rni" => (Rounding::NearestEven, word == "rni"),
            "rz" | "rzi" => (Rounding::Zero, word == "rzi"),
            "rm" | "rmi" => (Rounding::Down, word == "rmi"),
            "rp" | "rpi" => (Rounding::Up, word == "rpi"),
            "rna" => (Rounding::NearestAway, false),
            _ => return None,
        })
    });
    let (rounding, to_integral) = rounding.unwrap_or((Rounding::Zero, false));
    let manner = Manner {
        rounding,
        to_integral,
        saturates: modifiers.take("sat"),
        overflow: if modifiers.take("satfinite") { Overflow::Largest } else { Overflow::Infinite },
        flushes: modifiers.take("ftz"),
        rectifies: modifiers.take("relu"),
    };
    let [into, source @ ..] = operands else { return decoder.fault("expected operands") };
    let compute = match (source.len(), parts(to), parts(from)) {
        (1, None, None) => quick(to, from, manner).unwrap_or_else(|| single(to, from, manner)),
        (2, Some(format), None) => join(format, to, manner),
        (1, Some(format), Some(source)) => repack(format, source, manner),
        _ => return decoder.fault(format!("there is no conversion from {from:?} to {to:?}")),
    };
    let mut at = vec![decoder.result(into, to)?];
    for operand in source {
        at.push(decoder.source(operand, from)?);
    }
    decoder.compute(compute, &at);
    Ok(true)
}

/// The format of both halves of a packed type.
fn parts(ty: Type) -> Option<Format> {
    match ty {
        Type::F16x2 => Some(Format::F16),
        Type::Bf16x2 => Some(Format::BF16),
        Type::E4m3x2 => Some(Format::E4M3),
        Type::E5m2x2 => Some(Format::E5M2),
        _ => None,
    }
}

/// The conversions that kernels are full of.
fn quick(to: Type, from: Type, m: Manner) -> Option<Compute> {
    use Type::{B16, B32, B64, Bf16, F16, F32, F64, S8, S16, S32, S64, U8, U16, U32, U64};
    if m.saturates || m.flushes || m.rectifies || m.overflow == Overflow::Largest {
        return None;
    }
    let near = m.rounding == Rounding::NearestEven;
    Some(match (to, from) {
        (U64 | S64 | B64, U32 | B32) => unary(|a: u32| u64::from(a)),
        (U64 | S64, S32) => unary(|a: i32| i64::from(a)),
        (U64 | S64, U16 | B16) => unary(|a: u16| u64::from(a)),
        (U64 | S64, S16) => unary(|a: i16| i64::from(a)),
        (U64 | S64, U8) => unary(|a: u8| u64::from(a)),
        (U64 | S64, S8) => unary(|a: i8| i64::from(a)),
        (U32 | S32 | B32, U64 | S64 | B64) => unary(|a: u64| a as u32),
        (U16 | S16 | B16, U64 | S64 | B64) => unary(|a: u64| a as u16),
        (U16 | S16 | B16, U32 | S32 | B32) => unary(|a: u32| a as u16),
        (U32 | S32, U16 | B16) => unary(|a: u16| u32::from(a)),
        (U32 | S32, S16) => unary(|a: i16| i32::from(a)),
        (U32 | S32, U8) => unary(|a: u8| u32::from(a)),
        (U32 | S32, S8) => unary(|a: i8| i32::from(a)),
        (U16 | S16, S8) => unary(|a: i8| i16::from(a)),
        (U16 | S16, U8) => unary(|a: u8| u16::from(a)),
        (F32, F16) => unary(|a: f16| a.to_f32()),
        (F32, Bf16) => unary(|a: bf16| a.to_f32()),
        (F64, F32) if !m.to_integral => unary(|a: f32| f64::from(a)),
        (F32, F64) if near && !m.to_integral => unary(|a: f64| a as f32),
        (F16, F32) if near => unary(|a: f32| f16::from_f32(a)),
        (Bf16, F32) if near => unary(|a: f32| bf16::from_f32(a)),
        (F32, S32) if near => unary(|a: i32| a as f32),
        (F32, U32) if near => unary(|a: u32| a as f32),
        (F32, U16) => unary(|a: u16| f32::from(a)),
        (F64, S32) => unary(|a: i32| f64::from(a)),
        (F64, U32) => unary(|a: u32| f64::from(a)),
        (S32, F32) if m.rounding == Rounding::Zero => unary(|a: f32| a as i32),
        (U32, F32) if m.rounding == Rounding::Zero => unary(|a: f32| a as u32),
        (S32, F32) if near => unary(|a: f32| a.round_ties_even() as i32),
        _ => return None,
    })
}

/// A type's values.
#[derive(Clone, Copy)]
enum Kind {
    Whole(Integer),
    Floating(Format),
}

fn kind(ty: Type) -> Kind {
    match ty {
        Type::F16 => Kind::Floating(Format::F16),
        Type::Bf16 => Kind::Floating(Format::BF16),
        Type::Tf32 => Kind::Floating(Format::TF32),
        Type::F32 => Kind::Floating(Format::F32),
        Type::F64 => Kind::Floating(Format::F64),
        _ => Kind::Whole(Integer { signed: ty.is_signed(), bits: 8 * ty.bytes() as u32 }),
    }
}

/// Any conversion of one value, bit for bit.
fn single(to: Type, from: Type, m: Manner) -> Compute {
    let (source, target) = (kind(from), kind(to));
    let from_single = from != Type::F64;
    let flush = move |x: f64| if m.flushes && x.abs() < f64::from(f32::MIN_POSITIVE) { 0f64.copysign(x) } else { x };
    let convert = move |bits: u64| match (source, target) {
        (Kind::Whole(source), Kind::Whole(target)) => {
            let value = source.decode(bits);
            if m.saturates { target.saturate(value) } else { value as u64 & u64::MAX >> (64 - target.bits) }
        }
        (Kind::Whole(source), Kind::Floating(target)) => {
            let bits = target.encode_integer(source.decode(bits), m.rounding);
            if m.saturates { target.encode(saturated(target.decode(bits)), m.rounding, m.overflow) } else { bits }
        }
        (Kind::Floating(source), Kind::Whole(target)) => {
            let value = flush(source.decode(bits));
            if from_single { target.from_f32(value as f32, m.rounding) } else { target.from_f64(value, m.rounding) }
        }
        (Kind::Floating(source), Kind::Floating(target)) => {
            let mut value = flush(source.decode(bits));
            if m.to_integral {
                value = integral(value, m.rounding);
            }
            if m.saturates {
                value = saturated(value);
            }
            if m.rectifies {
                value = rectified(value);
            }
            let bits = target.encode(value, m.rounding, m.overflow);
            if m.flushes && target == Format::F32 {
                u64::from(rounded::flush(f32::from_bits(bits as u32)).to_bits())
            } else {
                bits
            }
        }
    };
    match (from.bytes() == 8, to.bytes() == 8) {
        (false, false) => unary(move |a: u32| convert(narrowed(a, from)) as u32),
        (false, true) => unary(move |a: u32| convert(narrowed(a, from))),
        (true, false) => unary(move |a: u64| convert(a) as u32),
        (true, true) => unary(convert),
    }
}

fn narrowed(bits: u32, ty: Type) -> u64 {
    u64::from(bits) & u64::MAX >> (64 - 8 * ty.bytes())
}

/// Two single-precision numbers become one register; the first is the upper half.
fn join(format: Format, to: Type, m: Manner) -> Compute {
    let near = m.rounding == Rounding::NearestEven && m.overflow == Overflow::Infinite && !m.rectifies;
    match to {
        Type::F16x2 if near => return binary(|a: f32, b: f32| [f16::from_f32(b), f16::from_f32(a)]),
        Type::Bf16x2 if near => return binary(|a: f32, b: f32| [bf16::from_f32(b), bf16::from_f32(a)]),
        _ => {}
    }
    let half = 4 * to.bytes() as u32;
    let encode = move |a: f32| {
        let value = if m.rectifies { rectified(f64::from(a)) } else { f64::from(a) };
        format.encode(value, m.rounding, m.overflow) as u32
    };
    binary(move |a: f32, b: f32| encode(a) << half | encode(b))
}

/// Both halves of a packed register change their format.
fn repack(to: Format, from: Format, m: Manner) -> Compute {
    let half = |format: Format| if format == Format::F16 || format == Format::BF16 { 16 } else { 8 };
    let (to_bits, from_bits) = (half(to), half(from));
    unary(move |a: u32| {
        (0..2).fold(0, |result, i| {
            let value = from.decode(u64::from(a >> (i * from_bits) & u32::MAX >> (32 - from_bits)));
            let value = if m.rectifies { rectified(value) } else { value };
            result | (to.encode(value, m.rounding, m.overflow) as u32) << (i * to_bits)
        })
    })
}

/// `cvt.pack.sat.u8.s32.b32 d, a, b, c`.
fn pack<'a>(decoder: &mut Decoder<'a>, modifiers: &mut Modifiers<'_>, operands: &'a [Operand<'a>]) -> Result<bool> {
    modifiers.take("sat");
    let [Some(to), Some(_)] = [modifiers.find(Type::of), modifiers.find(Type::of)] else { return Ok(false) };
    modifiers.find(Type::of);
    let Kind::Whole(target) = kind(to) else { return decoder.fault("whole numbers are packed") };
    let bits = target.bits;
    let both = move |a: i32, b: i32| target.saturate(a.into()) << bits | target.saturate(b.into());
    let [into, from @ ..] = operands else { return decoder.fault("expected operands") };
    let mut at = vec![decoder.result(into, Type::B32)?];
    at.extend(decoder.sources(from, Type::B32)?);
    let compute = match from.len() {
        3 => ternary(move |a: i32, b: i32, c: u32| (u64::from(c) << (2 * bits) | both(a, b)) as u32),
        _ => binary(move |a: i32, b: i32| both(a, b) as u32),
    };
    decoder.compute(compute, &at);
    Ok(true)
}

/// Addresses of a space become generic ones or the reverse.
fn cvta<'a>(decoder: &mut Decoder<'a>, modifiers: &mut Modifiers<'_>, operands: &'a [Operand<'a>]) -> Result<bool> {
    let to_space = modifiers.take("to");
    let Some(space) = modifiers.find(Space::of) else { return Ok(false) };
    let Some(ty) = modifiers.find(Type::of) else { return Ok(false) };
    if ty.bytes() != 8 {
        return decoder.fault("addresses have 64 bits");
    }
    let [into, from] = operands else { return decoder.fault("expected two operands") };
    let at = [decoder.result(into, ty)?, decoder.source(from, ty)?];
    let window = spaces::window(space);
    let compute: Compute = Box::new(move |registers, mask, at| {
        let from = u64::read(registers, at[1]);
        let into = registers.w64_mut(at[0]);
        for lane in lanes(mask) {
            into[lane] = if to_space { from[lane].wrapping_sub(window) } else { from[lane].wrapping_add(window) };
        }
    });
    decoder.compute(compute, &at);
    Ok(true)
}
