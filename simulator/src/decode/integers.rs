//! Arithmetic of whole numbers.

use super::{Decoder, Modifiers};
use crate::exec::registers::{At, Compute, Registers, binary, compare, lanes, quaternary, ternary, unary};
use crate::ptx::{Operand, Result, Type};

/// Evaluates `$make` with `$T` as the Rust type of a PTX type, or gives None.
macro_rules! for_integers {
    ($ty:expr, $T:ident => $make:expr) => {
        match $ty {
            Type::U16 | Type::B16 => {
                type $T = u16;
                Some($make)
            }
            Type::S16 => {
                type $T = i16;
                Some($make)
            }
            Type::U32 | Type::B32 => {
                type $T = u32;
                Some($make)
            }
            Type::S32 => {
                type $T = i32;
                Some($make)
            }
            Type::U64 | Type::B64 => {
                type $T = u64;
                Some($make)
            }
            Type::S64 => {
                type $T = i64;
                Some($make)
            }
            _ => None,
        }
    };
}

/// As [`for_integers`], with the type of twice the width.
macro_rules! with_wider {
    ($ty:expr, $T:ident, $W:ident => $make:expr) => {
        match $ty {
            Type::U16 => {
                type $T = u16;
                type $W = u32;
                Some($make)
            }
            Type::S16 => {
                type $T = i16;
                type $W = i32;
                Some($make)
            }
            Type::U32 => {
                type $T = u32;
                type $W = u64;
                Some($make)
            }
            Type::S32 => {
                type $T = i32;
                type $W = i64;
                Some($make)
            }
            _ => None,
        }
    };
}

/// Evaluates `$make` with `$T` and `$W` where the product's upper half is wanted.
macro_rules! with_widest {
    ($ty:expr, $T:ident, $W:ident => $make:expr) => {
        match $ty {
            Type::U64 => { type $T = u64; type $W = u128; Some($make) }
            Type::S64 => { type $T = i64; type $W = i128; Some($make) }
            ty => with_wider!(ty, $T, $W => $make),
        }
    };
}

fn doubled(ty: Type) -> Type {
    match ty {
        Type::U16 => Type::U32,
        Type::S16 => Type::S32,
        Type::U32 => Type::U64,
        _ => Type::S64,
    }
}

/// What a quotient or remainder is where there is none; the hardware gives something, and so does this.
const NO_QUOTIENT: i8 = -1;

/// Translates an instruction of this kind; false for others.
pub(super) fn decode<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    let words = modifiers.words.clone();
    let Some(ty) = words.iter().rev().find_map(|word| Type::of(word)) else { return Ok(false) };
    if name.starts_with("dp") || matches!(name, "bfind" | "popc" | "clz" | "brev") {
        return counted(decoder, name, ty, modifiers, operands);
    }
    let is_integer = matches!(ty, Type::U16 | Type::U32 | Type::U64 | Type::S16 | Type::S32 | Type::S64);
    let is_bits = matches!(ty, Type::B32 | Type::B64);
    if matches!(name, "bfe" | "bfi" | "bmsk" | "szext") && (is_integer || is_bits) {
        return fields(decoder, name, ty, modifiers, operands);
    }
    if !is_integer {
        return Ok(false);
    }
    let carries = modifiers.take("cc");
    if carries || matches!(name, "addc" | "subc" | "madc") {
        return extended(decoder, name, ty, carries, modifiers, operands);
    }
    let (mut result, mut last) = (ty, ty);
    let compute: Option<Compute> = match name {
        "add" if modifiers.take("sat") => for_integers!(ty, T => binary(|a: T, b: T| a.saturating_add(b))),
        "sub" if modifiers.take("sat") => for_integers!(ty, T => binary(|a: T, b: T| a.saturating_sub(b))),
        "add" => for_integers!(ty, T => binary(|a: T, b: T| a.wrapping_add(b))),
        "sub" => for_integers!(ty, T => binary(|a: T, b: T| a.wrapping_sub(b))),
        "div" => for_integers!(ty, T => binary(|a: T, b: T| if b == 0 { NO_QUOTIENT as T } else { a.wrapping_div(b) })),
        "rem" => for_integers!(ty, T => binary(|a: T, b: T| if b == 0 { a } else { a.wrapping_rem(b) })),
        "min" if modifiers.take("relu") => Some(binary(|a: i32, b: i32| a.min(b).max(0))),
        "max" if modifiers.take("relu") => Some(binary(|a: i32, b: i32| a.max(b).max(0))),
        "min" => for_integers!(ty, T => binary(|a: T, b: T| a.min(b))),
        "max" => for_integers!(ty, T => binary(|a: T, b: T| a.max(b))),
        "neg" => for_integers!(ty, T => unary(|a: T| (0 as T).wrapping_sub(a))),
        "abs" => match ty {
            Type::S16 => Some(unary(|a: i16| a.wrapping_abs())),
            Type::S32 => Some(unary(|a: i32| a.wrapping_abs())),
            Type::S64 => Some(unary(|a: i64| a.wrapping_abs())),
            _ => None,
        },
        "sad" => for_integers!(ty, T => ternary(|a: T, b: T, c: T| c.wrapping_add(a.abs_diff(b) as T))),
        "mul" | "mad" if modifiers.take("wide") => {
            result = doubled(ty);
            last = result;
            match name {
                "mul" => with_wider!(ty, T, W => binary(|a: T, b: T| W::from(a) * W::from(b))),
                _ => with_wider!(ty, T, W => ternary(|a: T, b: T, c: W| (W::from(a) * W::from(b)).wrapping_add(c))),
            }
        }
        "mul" if modifiers.take("hi") => {
            with_widest!(ty, T, W => binary(|a: T, b: T| ((W::from(a) * W::from(b)) >> T::BITS) as T))
        }
        "mad" if modifiers.take("hi") => {
            if modifiers.take("sat") {
                let high = |a: i32, b: i32| ((i64::from(a) * i64::from(b)) >> 32) as i32;
                Some(ternary(move |a: i32, b: i32, c: i32| high(a, b).saturating_add(c)))
            } else {
                with_widest!(ty, T, W => ternary(|a: T, b: T, c: T| {
                    (((W::from(a) * W::from(b)) >> T::BITS) as T).wrapping_add(c)
                }))
            }
        }
        "mul" if modifiers.take("lo") => for_integers!(ty, T => binary(|a: T, b: T| a.wrapping_mul(b))),
        "mad" if modifiers.take("lo") => {
            for_integers!(ty, T => ternary(|a: T, b: T, c: T| a.wrapping_mul(b).wrapping_add(c)))
        }
        "mul24" | "mad24" => Some(short_product(name, ty, modifiers)),
        _ => return Ok(false),
    };
    let Some(compute) = compute else { return decoder.fault(format!("{name} has no type {ty:?}")) };
    modifiers.find(Type::of);
    let [into, from @ ..] = operands else { return decoder.fault("expected operands") };
    let mut at = vec![decoder.result(into, result)?];
    for (i, operand) in from.iter().enumerate() {
        at.push(decoder.source(operand, if i == 2 { last } else { ty })?);
    }
    decoder.compute(compute, &at);
    Ok(true)
}

fn short_product(name: &str, ty: Type, modifiers: &mut Modifiers<'_>) -> Compute {
    let shift = if modifiers.take("hi") { 16 } else { 0 };
    modifiers.take("lo");
    let cut = move |a: u32| if ty == Type::S32 { i64::from((a << 8) as i32 >> 8) } else { i64::from(a & 0xFF_FFFF) };
    let product = move |a, b| ((cut(a) * cut(b)) >> shift) as u32;
    if name == "mul24" { binary(product) } else { ternary(move |a: u32, b: u32, c: u32| product(a, b).wrapping_add(c)) }
}

/// Sums with a carry bit from and to the condition code, which is a predicate of its own here.
fn extended<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    ty: Type,
    carries_out: bool,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    modifiers.find(Type::of);
    let wide = ty.bytes() == 8;
    let code = match decoder.carry {
        Some(code) => code,
        None => *decoder.carry.insert(decoder.n_registers[2] as u32),
    };
    decoder.n_registers[2] = decoder.n_registers[2].max(code as usize + 1);
    let takes_in = name.ends_with('c');
    let stem = name.trim_end_matches('c');
    let product = match (stem, modifiers.take("hi"), modifiers.take("lo")) {
        ("mad", true, _) => Some(true),
        ("mad", _, true) => Some(false),
        ("add" | "sub", false, false) => None,
        _ => return Ok(false),
    };
    let [into, from @ ..] = operands else { return decoder.fault("expected operands") };
    let mut at: At = [0; 6];
    at[0] = decoder.result(into, ty)?;
    at[5] = code;
    for (place, operand) in at[1..].iter_mut().zip(from) {
        *place = decoder.source(operand, ty)?;
    }
    let subtracts = stem == "sub";
    let bits = 8 * ty.bytes() as u32;
    let signed = ty.is_signed();
    let get = move |registers: &Registers, at: u32, lane: usize| {
        if wide { registers.w64(at)[lane] } else { u64::from(registers.w32(at)[lane]) }
    };
    let half = move |a: u64, b: u64, upper: bool| {
        let extend = |a: u64| {
            if signed && !wide {
                i128::from(a as i32)
            } else if signed {
                i128::from(a as i64)
            } else {
                i128::from(a)
            }
        };
        let product = extend(a).wrapping_mul(extend(b));
        let part = if upper { product >> bits } else { product };
        part as u64 & (u64::MAX >> (64 - bits))
    };
    let compute: Compute = Box::new(move |registers, mask, at| {
        let carry_in = if takes_in { registers.predicate(at[5]) } else { 0 };
        let mut carry_out = 0;
        for lane in lanes(mask) {
            let (mut a, mut b) = (get(registers, at[1], lane), get(registers, at[2], lane));
            if let Some(upper) = product {
                (a, b) = (half(a, b, upper), get(registers, at[3], lane));
            }
            let carry = u128::from(carry_in >> lane & 1);
            let sum = if subtracts {
                u128::from(a).wrapping_sub(u128::from(b)).wrapping_sub(carry)
            } else {
                u128::from(a) + u128::from(b) + carry
            };
            carry_out |= (sum >> bits & 1) as u32 * (1 << lane);
            if wide {
                registers.w64_mut(at[0])[lane] = sum as u64;
            } else {
                registers.w32_mut(at[0])[lane] = sum as u32;
            }
        }
        if carries_out {
            registers.set_predicate(at[5], mask, carry_out);
        }
    });
    decoder.emit(super::Op::Compute(compute, at));
    Ok(true)
}

/// Counts of bits, and sums of products of bytes.
fn counted<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    ty: Type,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    if name.starts_with("dp") {
        return dot(decoder, name, modifiers, operands);
    }
    modifiers.find(Type::of);
    let is_amount = modifiers.take("shiftamt");
    let position = move |leading: u32, bits: u32| match leading {
        all if all == bits => u32::MAX,
        leading if is_amount => leading,
        leading => bits - 1 - leading,
    };
    let mut result = Type::U32;
    let compute = match (name, ty.bytes()) {
        ("popc", 4) => unary(|a: u32| a.count_ones()),
        ("popc", 8) => unary(|a: u64| a.count_ones()),
        ("clz", 4) => unary(|a: u32| a.leading_zeros()),
        ("clz", 8) => unary(|a: u64| a.leading_zeros()),
        ("brev", 4) => unary(|a: u32| a.reverse_bits()),
        ("brev", 8) => {
            result = Type::U64;
            unary(|a: u64| a.reverse_bits())
        }
        ("bfind", 4) if ty.is_signed() => unary(move |a: i32| position((a ^ a >> 31).leading_zeros(), 32)),
        ("bfind", 8) if ty.is_signed() => unary(move |a: i64| position((a ^ a >> 63).leading_zeros(), 64)),
        ("bfind", 4) => unary(move |a: u32| position(a.leading_zeros(), 32)),
        ("bfind", 8) => unary(move |a: u64| position(a.leading_zeros(), 64)),
        _ => return Ok(false),
    };
    let [into, from] = operands else { return decoder.fault("expected two operands") };
    let at = [decoder.result(into, result)?, decoder.source(from, ty)?];
    decoder.compute(compute, &at);
    Ok(true)
}

fn dot<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    let upper = modifiers.take("hi");
    modifiers.take("lo");
    let [Some(a), Some(b)] = [modifiers.find(Type::of), modifiers.find(Type::of)] else { return Ok(false) };
    let byte = |bits: u32, i: u32, signed: bool| {
        let byte = (bits >> (8 * i)) as u8;
        if signed { i32::from(byte as i8) } else { i32::from(byte) }
    };
    let (a_signed, b_signed) = (a.is_signed(), b.is_signed());
    let compute = match name {
        "dp4a" => ternary(move |a: u32, b: u32, c: u32| {
            let sum: i32 = (0..4).map(|i| byte(a, i, a_signed) * byte(b, i, b_signed)).sum();
            c.wrapping_add(sum as u32)
        }),
        "dp2a" => ternary(move |a: u32, b: u32, c: u32| {
            let word = |i: u32| {
                let word = (a >> (16 * i)) as u16;
                if a_signed { i32::from(word as i16) } else { i32::from(word) }
            };
            let first = if upper { 2 } else { 0 };
            let sum = (0..2).fold(0i32, |sum, i| sum.wrapping_add(word(i).wrapping_mul(byte(b, first + i, b_signed))));
            c.wrapping_add(sum as u32)
        }),
        _ => return Ok(false),
    };
    let [into, a, b, c] = operands else { return decoder.fault("expected four operands") };
    let at = [
        decoder.result(into, Type::B32)?,
        decoder.source(a, Type::B32)?,
        decoder.source(b, Type::B32)?,
        decoder.source(c, Type::B32)?,
    ];
    decoder.compute(compute, &at);
    Ok(true)
}

/// Fields of bits.
fn fields<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    ty: Type,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    modifiers.find(Type::of);
    let clamps = modifiers.take("clamp");
    modifiers.take("wrap");
    let bits = 8 * ty.bytes() as u32;
    let low = |length: u32| if length >= 64 { u64::MAX } else { (1u64 << length) - 1 };
    let signed = ty.is_signed();
    let field = move |a: u64, start: u32, length: u32| {
        let (start, length) = (start & 255, length & 255);
        // The field's sign is its last bit, or the word's where the field goes beyond.
        let last = (start + length).saturating_sub(1).min(bits - 1);
        let ones = signed && length > 0 && a >> last & 1 == 1;
        let shifted = if start < bits { a >> start } else { 0 };
        let there = length.min(bits.saturating_sub(start));
        let value = shifted & low(there);
        if ones { value | !low(there) } else { value }
    };
    let insert = move |a: u64, b: u64, start: u32, length: u32| {
        let (start, length) = (start & 255, length & 255);
        if start >= bits {
            return b;
        }
        let mask = low(length) << start;
        b & !mask | a << start & mask
    };
    let wide = bits == 64;
    let (compute, types): (Compute, Vec<Type>) = match name {
        "bfe" if wide => (ternary(move |a: u64, s: u32, l: u32| field(a, s, l)), vec![ty, Type::U32, Type::U32]),
        "bfe" => {
            (ternary(move |a: u32, s: u32, l: u32| field(u64::from(a), s, l) as u32), vec![ty, Type::U32, Type::U32])
        }
        "bfi" if wide => (quaternary(insert), vec![ty, ty, Type::U32, Type::U32]),
        "bfi" => (
            quaternary(move |a: u32, b: u32, s: u32, l: u32| insert(u64::from(a), u64::from(b), s, l) as u32),
            vec![ty, ty, Type::U32, Type::U32],
        ),
        "bmsk" => (
            binary(move |a: u32, b: u32| {
                let (start, length) = if clamps { (a.min(32), b.min(32)) } else { (a & 31, b & 31) };
                (low(length) << start) as u32
            }),
            vec![ty, ty],
        ),
        "szext" => (
            binary(move |a: u32, n: u32| {
                let length = if clamps { n.min(32) } else { n & 31 };
                field(u64::from(a), 0, length) as u32
            }),
            vec![ty, Type::U32],
        ),
        _ => return Ok(false),
    };
    let [into, from @ ..] = operands else { return decoder.fault("expected operands") };
    let mut at = vec![decoder.result(into, ty)?];
    for (operand, ty) in from.iter().zip(types) {
        at.push(decoder.source(operand, ty)?);
    }
    decoder.compute(compute, &at);
    Ok(true)
}

/// The comparison of two whole numbers, by its PTX name.
pub(super) fn comparison(name: &str, ty: Type) -> Option<fn(&Registers, u32, u32) -> u32> {
    macro_rules! of {
        ($T:ident, $op:tt) => { |registers: &Registers, a: u32, b: u32| compare::<$T>(registers, a, b, |a, b| a $op b) };
    }
    for_integers!(ty, T => {
        let f: fn(&Registers, u32, u32) -> u32 = match name {
            "eq" => of!(T, ==),
            "ne" => of!(T, !=),
            "lt" | "lo" => of!(T, <),
            "le" | "ls" => of!(T, <=),
            "gt" | "hi" => of!(T, >),
            "ge" | "hs" => of!(T, >=),
            _ => return None,
        };
        f
    })
}
