//! Instructions between the threads of a warp, and those that only pass time.

use super::program::{Op, Shuffle, Vote};
use super::{Decoder, Modifiers};
use crate::ptx::{Operand, Result, Type};

/// Translates an instruction of this kind; false for others.
pub(super) fn decode<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    match name {
        "shfl" => shuffle(decoder, modifiers, operands)?,
        "vote" => vote(decoder, modifiers, operands)?,
        "match" => matching(decoder, modifiers, operands)?,
        "redux" => redux(decoder, modifiers, operands)?,
        "activemask" => {
            modifiers.find(Type::of);
            let [into] = operands else { return decoder.fault("expected one operand") };
            if let Some(into) = decoder.place_of(into)? {
                decoder.emit(Op::ActiveMask(into));
            }
        }
        "elect" => {
            modifiers.take("sync");
            let [Operand::Pair(leader, into), members] = operands else {
                return decoder.fault("expected d|p and a mask");
            };
            let (leader, into) = (decoder.place_of(leader)?, decoder.predicate_result(into)?);
            let members = decoder.register32(members)?;
            decoder.emit(Op::Elect { leader, into, members });
        }
        "nanosleep" => {
            modifiers.find(Type::of);
            decoder.emit(Op::Sleep);
        }
        // The order of execution is that of one processor, so memory needs no fences; kernels run one after another;
        // there are registers for everyone.
        "membar" | "griddepcontrol" | "setmaxnreg" | "pmevent" => {
            modifiers.words.clear();
            decoder.emit(Op::Nothing);
        }
        "fence" => {
            let is_proxy = modifiers.words.first() == Some(&"proxy") && modifiers.words.get(1) == Some(&"async");
            modifiers.words.clear();
            decoder.emit(if is_proxy { Op::ProxyFence } else { Op::Nothing });
        }
        _ => return Ok(false),
    }
    Ok(true)
}

fn shuffle<'a>(decoder: &mut Decoder<'a>, modifiers: &mut Modifiers<'_>, operands: &'a [Operand<'a>]) -> Result<()> {
    modifiers.take("sync");
    modifiers.find(Type::of);
    let kind = modifiers.find(|word| match word {
        "up" => Some(Shuffle::Up),
        "down" => Some(Shuffle::Down),
        "bfly" => Some(Shuffle::Butterfly),
        "idx" => Some(Shuffle::Index),
        _ => None,
    });
    let (Some(kind), [into, from, lane, clamp, members]) = (kind, operands) else {
        return decoder.fault("expected a mode and five operands");
    };
    let (into, inside) = match into {
        Operand::Pair(into, inside) => (into.as_ref(), Some(decoder.predicate_result(inside)?)),
        into => (into, None),
    };
    let op = Op::Shuffle {
        kind,
        into: decoder.place_of(into)?,
        inside,
        from: decoder.register32(from)?,
        lane: decoder.register32(lane)?,
        clamp: decoder.register32(clamp)?,
        members: decoder.register32(members)?,
    };
    decoder.emit(op);
    Ok(())
}

fn vote<'a>(decoder: &mut Decoder<'a>, modifiers: &mut Modifiers<'_>, operands: &'a [Operand<'a>]) -> Result<()> {
    modifiers.take("sync");
    modifiers.find(Type::of);
    let kind = modifiers.find(|word| match word {
        "all" => Some(Vote::All),
        "any" => Some(Vote::Any),
        "uni" => Some(Vote::Uniform),
        "ballot" => Some(Vote::Ballot),
        _ => None,
    });
    let (Some(kind), [into, from, members]) = (kind, operands) else {
        return decoder.fault("expected a mode and three operands");
    };
    let into = if kind == Vote::Ballot { Err(decoder.register32(into)?) } else { Ok(decoder.predicate_result(into)?) };
    let op = Op::Vote { kind, into, from: decoder.condition(from)?, members: decoder.register32(members)? };
    decoder.emit(op);
    Ok(())
}

fn matching<'a>(decoder: &mut Decoder<'a>, modifiers: &mut Modifiers<'_>, operands: &'a [Operand<'a>]) -> Result<()> {
    modifiers.take("sync");
    let all = modifiers.take("all");
    modifiers.take("any");
    let Some(ty) = modifiers.find(Type::of) else { return decoder.fault("expected a type") };
    let [into, from, members] = operands else { return decoder.fault("expected three operands") };
    let (into, agree) = match into {
        Operand::Pair(into, agree) => (into.as_ref(), Some(decoder.predicate_result(agree)?)),
        into => (into, None),
    };
    let op = Op::Match {
        all,
        into: decoder.register32(into)?,
        agree,
        from: decoder.register_of(from, ty)?,
        members: decoder.register32(members)?,
    };
    decoder.emit(op);
    Ok(())
}

fn redux<'a>(decoder: &mut Decoder<'a>, modifiers: &mut Modifiers<'_>, operands: &'a [Operand<'a>]) -> Result<()> {
    modifiers.take("sync");
    let Some(ty) = modifiers.find(Type::of) else { return decoder.fault("expected a type") };
    let signed = ty.is_signed();
    let combine = modifiers.find(|word| {
        let f: fn(u32, u32) -> u32 = match word {
            "add" => u32::wrapping_add,
            "min" if signed => |a, b| (a as i32).min(b as i32) as u32,
            "max" if signed => |a, b| (a as i32).max(b as i32) as u32,
            "min" => |a, b| a.min(b),
            "max" => |a, b| a.max(b),
            "and" => |a, b| a & b,
            "or" => |a, b| a | b,
            "xor" => |a, b| a ^ b,
            _ => return None,
        };
        Some(f)
    });
    let (Some(combine), [into, from, members]) = (combine, operands) else {
        return decoder.fault("expected an operation and three operands");
    };
    let op = Op::Redux {
        combine,
        into: decoder.register32(into)?,
        from: decoder.register32(from)?,
        members: decoder.register32(members)?,
    };
    decoder.emit(op);
    Ok(())
}
