//! Barriers of blocks, clusters and in shared memory.

use super::program::{Arrive, BarrierReduction, Op, Register};
use super::{Decoder, Modifiers};
use crate::ptx::{Operand, Result, Space, Type};

/// Translates an instruction of this kind; false for others.
pub(super) fn decode<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    match name {
        "bar" if modifiers.take("warp") => {
            modifiers.take("sync");
            let [members] = operands else { return decoder.fault("expected a mask") };
            let members = decoder.register32(members)?;
            decoder.emit(Op::WarpBarrier(members));
            Ok(true)
        }
        "barrier" if modifiers.take("cluster") => {
            let op = if modifiers.take("arrive") { Op::ClusterArrive } else { Op::ClusterWait };
            modifiers.drop(|word| matches!(word, "wait" | "acquire" | "release" | "relaxed" | "aligned"));
            decoder.emit(op);
            Ok(true)
        }
        "bar" | "barrier" => block(decoder, name == "bar", modifiers, operands),
        "mbarrier" => shared(decoder, modifiers, operands),
        _ => Ok(false),
    }
}

fn block<'a>(
    decoder: &mut Decoder<'a>,
    mut aligned: bool,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    aligned |= modifiers.take("aligned");
    modifiers.take("cta");
    let waits = !modifiers.take("arrive");
    modifiers.take("sync");
    let mut reduction = None;
    let mut numbers = operands;
    if modifiers.take("red") {
        modifiers.find(Type::of);
        let kind = modifiers.find(|word| match word {
            "popc" => Some(BarrierReduction::Popc),
            "and" => Some(BarrierReduction::And),
            "or" => Some(BarrierReduction::Or),
            _ => None,
        });
        let (Some(kind), [into, rest @ .., condition]) = (kind, operands) else {
            return decoder.fault("expected a reduction and operands");
        };
        let into = match kind {
            BarrierReduction::Popc => Err(decoder.register32(into)?),
            _ => Ok(decoder.predicate_result(into)?),
        };
        reduction = Some((kind, decoder.condition(condition)?, into));
        numbers = rest;
    }
    let [id, rest @ ..] = numbers else { return decoder.fault("expected a barrier") };
    let id = decoder.register32(id)?;
    let threads = rest.first().map(|threads| decoder.register32(threads)).transpose()?;
    decoder.emit(Op::Barrier { id, threads, waits, aligned, reduction });
    Ok(true)
}

fn shared<'a>(decoder: &mut Decoder<'a>, modifiers: &mut Modifiers<'_>, operands: &'a [Operand<'a>]) -> Result<bool> {
    let space = modifiers.find(Space::of).unwrap_or(Space::Generic);
    modifiers.drop(|word| matches!(word, "release" | "acquire" | "relaxed" | "cta" | "cluster"));
    if modifiers.find(Type::of) != Some(Type::B64) && !modifiers.words.contains(&"expect_tx") {
        return decoder.fault("barriers have 64 bits");
    }
    let Some(word) = modifiers.find(|word| Some(word.to_owned())) else { return Ok(false) };
    let op = match (word.as_str(), operands) {
        ("init", [address, count]) => Op::BarrierInit(decoder.address(address, space)?, decoder.register32(count)?),
        ("inval", [address]) => Op::BarrierInvalidate(decoder.address(address, space)?),
        ("pending_count", [into, state]) => {
            Op::BarrierPending { into: decoder.register32(into)?, state: decoder.register_of(state, Type::B64)? }
        }
        ("expect_tx", [address, bytes]) => Op::BarrierArrive {
            address: decoder.address(address, space)?,
            kind: Arrive::OnlyExpectBytes,
            count: Some(decoder.register32(bytes)?),
            state: None,
        },
        ("arrive" | "arrive_drop", _) => {
            let kind = match (modifiers.take("expect_tx"), modifiers.take("noComplete")) {
                (true, _) if word == "arrive" => Arrive::ExpectBytes,
                (false, true) if word == "arrive" => Arrive::NoComplete,
                (false, false) if word == "arrive" => Arrive::Plain,
                (false, false) => Arrive::Drop,
                _ => return decoder.fault("this kind of arrival is not supported"),
            };
            let (state, rest): (Option<Register>, _) = match operands {
                [Operand::Address(..), ..] => (None, operands),
                [state, rest @ ..] => (decoder.place_of(state)?, rest),
                [] => return decoder.fault("expected operands"),
            };
            let [address, rest @ ..] = rest else { return decoder.fault("expected an address") };
            let count = rest.first().map(|count| decoder.register32(count)).transpose()?;
            Op::BarrierArrive { address: decoder.address(address, space)?, kind, count, state }
        }
        ("test_wait" | "try_wait", [into, address, state, ..]) => {
            let is_parity = modifiers.take("parity");
            let into = decoder.predicate_result(into)?;
            let state = if is_parity { decoder.register32(state)? } else { decoder.register_of(state, Type::B64)? };
            Op::BarrierTest { address: decoder.address(address, space)?, state, is_parity, into }
        }
        _ => return Ok(false),
    };
    decoder.emit(op);
    Ok(true)
}
