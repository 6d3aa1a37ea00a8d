//! Tensor cores, and loads and stores of their fragments.

use super::program::{Mma, Op, Wgmma, WgmmaA};
use super::{Decoder, Modifiers};
use crate::ptx::{Operand, Result, Space, Type};
use std::sync::Arc;

/// Translates an instruction of this kind; false for others.
pub(super) fn decode<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    match name {
        "ldmatrix" | "stmatrix" => {
            modifiers.drop(|word| matches!(word, "sync" | "aligned" | "m8n8" | "b16"));
            let space = modifiers.find(Space::of).unwrap_or(Space::Generic);
            let transposed = modifiers.take("trans");
            let Some(count) = modifiers.find(|word| ["x1", "x2", "x4"].iter().position(|&other| other == word)) else {
                return Ok(false);
            };
            let [first, second] = operands else { return decoder.fault("expected two operands") };
            let (fragments, address) = if name == "ldmatrix" { (first, second) } else { (second, first) };
            let registers = registers(decoder, fragments)?;
            if registers.len() != 1 << count {
                return decoder.fault(format!("expected {} registers, given {}", 1 << count, registers.len()));
            }
            let address = decoder.address(address, space)?;
            decoder.emit(if name == "ldmatrix" {
                Op::MatrixLoad { into: registers, address, transposed }
            } else {
                Op::MatrixStore { from: registers, address, transposed }
            });
            Ok(true)
        }
        "mma" => mma(decoder, modifiers, operands),
        "wgmma" => wgmma(decoder, modifiers, operands),
        "movmatrix" => decoder.fault("movmatrix is not supported"),
        _ => Ok(false),
    }
}

fn registers<'a>(decoder: &mut Decoder<'a>, operand: &'a Operand<'a>) -> Result<Vec<super::program::Register>> {
    match operand {
        Operand::Vector(parts) => parts.iter().map(|part| decoder.register(part)).collect(),
        one => Ok(vec![decoder.register(one)?]),
    }
}

fn mma<'a>(decoder: &mut Decoder<'a>, modifiers: &mut Modifiers<'_>, operands: &'a [Operand<'a>]) -> Result<bool> {
    modifiers.drop(|word| matches!(word, "sync" | "aligned" | "row" | "rn"));
    modifiers.take("col");
    let saturate = modifiers.take("satfinite");
    let Some(shape) = modifiers.find(|word| {
        word.starts_with("m16n8")
            .then(|| word.to_owned())
            .or_else(|| (word == "m8n8k4" || word == "m8n8k16").then(|| word.to_owned()))
    }) else {
        return Ok(false);
    };
    let mut types = Vec::new();
    while let Some(word) = modifiers.find(|word| is_element(word).then(|| word.to_owned())) {
        types.push(word);
    }
    let (Ok(types), [d, a, b, c]) = (<[String; 4]>::try_from(types), operands) else {
        return decoder.fault("expected four types and four operands");
    };
    let registers = [registers(decoder, d)?, registers(decoder, a)?, registers(decoder, b)?, registers(decoder, c)?];
    decoder.emit(Op::Mma(Box::new(Mma { shape, types, saturate, registers })));
    Ok(true)
}

fn is_element(word: &str) -> bool {
    Type::of(word).is_some() || matches!(word, "e4m3" | "e5m2" | "s4" | "u4")
}

fn wgmma<'a>(decoder: &mut Decoder<'a>, modifiers: &mut Modifiers<'_>, operands: &'a [Operand<'a>]) -> Result<bool> {
    modifiers.drop(|word| matches!(word, "sync" | "aligned"));
    if modifiers.take("fence") {
        decoder.emit(Op::WgmmaFence);
        return Ok(true);
    }
    if modifiers.take("commit_group") {
        decoder.emit(Op::WgmmaCommit);
        return Ok(true);
    }
    if modifiers.take("wait_group") {
        let [Operand::Int(n)] = operands else { return decoder.fault("expected a number") };
        decoder.emit(Op::WgmmaWait(*n as u32));
        return Ok(true);
    }
    if !modifiers.take("mma_async") {
        return Ok(false);
    }
    let saturate = modifiers.take("satfinite");
    let n = modifiers.find(|word| word.strip_prefix("m64n")?.split_once('k')?.0.parse().ok());
    let mut types = Vec::new();
    while let Some(word) = modifiers.find(|word| is_element(word).then(|| word.to_owned())) {
        types.push(word);
    }
    let (Some(n), Ok([result, a_type, b_type])) = (n, <[String; 3]>::try_from(types)) else { return Ok(false) };
    let [d, a, b, accumulate, immediates @ ..] = operands else { return decoder.fault("expected operands") };
    let mut numbers = Vec::new();
    for immediate in immediates {
        let Operand::Int(value) = immediate else { return decoder.fault("expected numbers") };
        numbers.push(*value as i64);
    }
    let (from_registers, a) = match a {
        Operand::Vector(_) => (true, WgmmaA::Registers(registers(decoder, a)?)),
        a => (false, WgmmaA::Descriptor(decoder.register_of(a, Type::B64)?)),
    };
    // Signs for floating-point types; transpositions for those of 16 bits, of a only where it is in memory.
    let (signs, transpositions) = numbers.split_at(numbers.len().min(2));
    let negate = match signs {
        [a, b] => [*a == -1, *b == -1],
        _ => [false; 2],
    };
    let transposed = match transpositions {
        [a, b] => [*a == 1, *b == 1],
        [b] if from_registers => [false, *b == 1],
        [] => [false; 2],
        _ => return decoder.fault("expected signs and transpositions"),
    };
    let accumulate = match accumulate {
        Operand::Int(0) => Some(decoder.condition(accumulate)?),
        Operand::Int(_) => None,
        condition => Some(decoder.condition(condition)?),
    };
    let Some(result) = Type::of(&result) else { return decoder.fault("expected a type") };
    let wgmma = Wgmma {
        n,
        names: [a_type, b_type],
        result,
        d: registers(decoder, d)?,
        a,
        b: decoder.register_of(b, Type::B64)?,
        accumulate,
        negate,
        transposed,
        saturate,
    };
    decoder.emit(Op::Wgmma(Arc::new(wgmma)));
    Ok(true)
}
