//! Copies that land later, and the addresses of other blocks.

use super::program::{Bulk, Op, Reduction};
use super::{Decoder, Modifiers, memory};
use crate::ptx::{Operand, Result, Space, Type};

/// Translates an instruction of this kind; false for others.
pub(super) fn decode<'a>(
    decoder: &mut Decoder<'a>,
    name: &str,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    match name {
        "cp" => {
            let reduces = modifiers.take("reduce");
            if !modifiers.take("async") {
                return Ok(false);
            }
            if modifiers.take("bulk") {
                return bulk(decoder, reduces, modifiers, operands);
            }
            cp_async(decoder, modifiers, operands)
        }
        "st" | "red" if modifiers.take("async") => {
            modifiers.drop(|word| matches!(word, "weak" | "relaxed" | "cluster" | "mbarrier::complete_tx::bytes"));
            let Some(space) = modifiers.find(Space::of) else { return Ok(false) };
            let lanes =
                modifiers.find(|word| ["v2", "v4"].iter().position(|&other| other == word)).map_or(1, |log| 2 << log);
            let Some(ty) = modifiers.find(Type::of) else { return decoder.fault("expected a type") };
            let combine = modifiers.find(|word| memory::operation(word, ty));
            let [address, from, barrier] = operands else { return decoder.fault("expected three operands") };
            let from = match from {
                Operand::Vector(parts) => {
                    parts.iter().map(|part| decoder.register_of(part, ty)).collect::<Result<Vec<_>>>()?
                }
                from => vec![decoder.register_of(from, ty)?],
            };
            if from.len() != lanes || (name == "red") != combine.is_some() {
                return decoder.fault("the operands do not fit the opcode");
            }
            let op = Op::AsyncStore {
                address: decoder.address(address, space)?,
                barrier: decoder.address(barrier, space)?,
                bytes: ty.bytes(),
                from,
                combine,
            };
            decoder.emit(op);
            Ok(true)
        }
        "mapa" => {
            let is_generic = modifiers.find(Space::of).is_none();
            let Some(ty) = modifiers.find(Type::of) else { return Ok(false) };
            let [into, from, block] = operands else { return decoder.fault("expected three operands") };
            let into = decoder.result(into, ty)?;
            let into =
                if ty.bytes() == 8 { super::program::Register::W64(into) } else { super::program::Register::W32(into) };
            let op =
                Op::Map { into, from: decoder.register_of(from, ty)?, block: decoder.register32(block)?, is_generic };
            decoder.emit(op);
            Ok(true)
        }
        "getctarank" => {
            modifiers.find(Space::of);
            let Some(ty) = modifiers.find(Type::of) else { return Ok(false) };
            let [into, from] = operands else { return decoder.fault("expected two operands") };
            let (into, from) = (decoder.result(into, Type::U32)?, decoder.source(from, ty)?);
            // A block's own addresses have no rank in them.
            let own = decoder.special("%cluster_ctarank").map_or(0, |register| register.index());
            let rank = |from: u32, own: u32| match from >> crate::exec::spaces::RANK_SHIFT {
                0 => own,
                rank => rank - 1,
            };
            let compute = if ty.bytes() == 8 {
                crate::exec::registers::binary(move |from: u64, own: u32| rank(from as u32, own))
            } else {
                crate::exec::registers::binary(rank)
            };
            decoder.compute(compute, &[into, from, own]);
            Ok(true)
        }
        _ => Ok(false),
    }
}

fn cp_async<'a>(decoder: &mut Decoder<'a>, modifiers: &mut Modifiers<'_>, operands: &'a [Operand<'a>]) -> Result<bool> {
    if modifiers.take("commit_group") {
        decoder.emit(Op::CopyCommit);
        return Ok(true);
    }
    if modifiers.take("wait_all") {
        decoder.emit(Op::CopyWait(None));
        return Ok(true);
    }
    if modifiers.take("wait_group") {
        let [Operand::Int(n)] = operands else { return decoder.fault("expected a number") };
        decoder.emit(Op::CopyWait(Some(*n as u32)));
        return Ok(true);
    }
    if modifiers.take("mbarrier") {
        modifiers.take("arrive");
        let counted = !modifiers.take("noinc");
        let space = modifiers.find(Space::of).unwrap_or(Space::Generic);
        modifiers.find(Type::of);
        let [address] = operands else { return decoder.fault("expected an address") };
        let address = decoder.address(address, space)?;
        decoder.emit(Op::CopyArrive { address, counted });
        return Ok(true);
    }
    modifiers.drop(|word| matches!(word, "ca" | "cg" | "L2::64B" | "L2::128B" | "L2::256B" | "L2::cache_hint"));
    if !modifiers.take("shared") && !modifiers.take("shared::cta") || !modifiers.take("global") {
        return Ok(false);
    }
    let [to, from, Operand::Int(bytes), more @ ..] = operands else { return decoder.fault("expected three operands") };
    let (mut read, mut ignore) = (None, None);
    match more.first() {
        Some(Operand::Not(_)) => ignore = Some(decoder.condition(&more[0])?),
        Some(Operand::Name(name)) if decoder.is_predicate(name) => ignore = Some(decoder.condition(&more[0])?),
        // Hints to the cache have 64 bits.
        Some(size) => {
            if let super::program::Register::W32(at) = decoder.register(size)? {
                read = Some(super::program::Register::W32(at));
            }
        }
        None => {}
    }
    let (to, from) = (decoder.address(to, Space::Shared)?, decoder.address(from, Space::Global)?);
    decoder.emit(Op::Copy { to, from, bytes: *bytes as usize, read, ignore });
    Ok(true)
}

fn bulk<'a>(
    decoder: &mut Decoder<'a>,
    reduces: bool,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    if modifiers.take("commit_group") {
        decoder.emit(Op::BulkCommit);
        return Ok(true);
    }
    if modifiers.take("wait_group") {
        let only_read = modifiers.take("read");
        let [Operand::Int(n)] = operands else { return decoder.fault("expected a number") };
        decoder.emit(Op::BulkWait { pending: *n as u32, only_read });
        return Ok(true);
    }
    if modifiers.take("prefetch") {
        modifiers.words.clear();
        decoder.emit(Op::Nothing);
        return Ok(true);
    }
    modifiers.drop(|word| word == "L2::cache_hint" || word == "noftz");
    if modifiers.take("tensor") {
        return tensor(decoder, reduces, modifiers, operands);
    }
    let [Some(to_space), Some(from_space)] = [modifiers.find(Space::of), modifiers.find(Space::of)] else {
        return Ok(false);
    };
    let bulk = if modifiers.take("mbarrier::complete_tx::bytes") {
        if reduces {
            return decoder.fault("bulk reductions to shared memory are not supported");
        }
        let multicast = modifiers.take("multicast::cluster");
        let [to, from, bytes, barrier, more @ ..] = operands else { return decoder.fault("expected four operands") };
        let blocks =
            if multicast { more.first().map(|mask| decoder.source(mask, Type::B16)).transpose()? } else { None };
        Bulk::Load {
            to: decoder.address(to, to_space)?,
            from: decoder.address(from, from_space)?,
            bytes: decoder.register32(bytes)?,
            barrier: decoder.address(barrier, to_space)?,
            blocks: blocks.map(super::program::Register::W32),
        }
    } else if modifiers.take("bulk_group") {
        let [to, from, bytes, ..] = operands else { return decoder.fault("expected three operands") };
        let combine = if reduces {
            let Some(ty) = modifiers.find(Type::of) else { return decoder.fault("expected a type") };
            let Some(combine) = modifiers.find(|word| memory::operation(word, ty)) else {
                return decoder.fault("there is no such reduction");
            };
            Some(Reduction { combine, bytes: ty.bytes() })
        } else {
            None
        };
        Bulk::Store {
            to: decoder.address(to, to_space)?,
            from: decoder.address(from, from_space)?,
            bytes: decoder.register32(bytes)?,
            combine,
        }
    } else {
        return Ok(false);
    };
    decoder.emit(Op::Bulk(Box::new(bulk)));
    Ok(true)
}

fn tensor<'a>(
    decoder: &mut Decoder<'a>,
    reduces: bool,
    modifiers: &mut Modifiers<'_>,
    operands: &'a [Operand<'a>],
) -> Result<bool> {
    let rank = modifiers.find(|word| ["1d", "2d", "3d", "4d", "5d"].iter().position(|&other| other == word));
    let Some(rank) = rank.map(|index| index + 1) else { return Ok(false) };
    let im2col = modifiers.take("im2col") | modifiers.take("im2col_no_offs");
    modifiers.take("tile");
    let [Some(to_space), Some(_)] = [modifiers.find(Space::of), modifiers.find(Space::of)] else { return Ok(false) };
    let parts = |decoder: &mut Decoder<'a>, tensor: &'a Operand<'a>| match tensor {
        Operand::Address(base, offset, more) => {
            let [Operand::Vector(coordinates)] = more.as_slice() else { return decoder.fault("expected coordinates") };
            if coordinates.len() != rank {
                return decoder.fault(format!("expected {rank} coordinates, given {}", coordinates.len()));
            }
            let coordinates = coordinates.iter().map(|c| decoder.register32(c)).collect::<Result<Vec<_>>>()?;
            Ok((decoder.base(base, *offset, Space::Generic)?, coordinates))
        }
        _ => decoder.fault("expected a tensor map"),
    };
    let bulk = if modifiers.take("mbarrier::complete_tx::bytes") && !reduces {
        let multicast = modifiers.take("multicast::cluster");
        let [to, tensor, barrier, more @ ..] = operands else { return decoder.fault("expected three operands") };
        let (map, coordinates) = parts(decoder, tensor)?;
        let mut more = more.iter();
        let offsets = match (im2col, more.as_slice().first()) {
            (true, Some(Operand::Vector(offsets))) => {
                more.next();
                offsets
                    .iter()
                    .map(|o| decoder.source(o, Type::B16).map(super::program::Register::W32))
                    .collect::<Result<_>>()?
            }
            (true, _) => return decoder.fault("expected im2col offsets"),
            _ => Vec::new(),
        };
        let blocks = match (multicast, more.next()) {
            (true, Some(mask)) => Some(super::program::Register::W32(decoder.source(mask, Type::B16)?)),
            (true, None) => return decoder.fault("expected a mask of blocks"),
            _ => None,
        };
        let (to, barrier) = (decoder.address(to, to_space)?, decoder.address(barrier, to_space)?);
        Bulk::TensorLoad { to, map, coordinates, offsets, im2col, barrier, blocks }
    } else if modifiers.take("bulk_group") {
        let combine = modifiers.find(|word| {
            ["add", "min", "max", "inc", "dec", "and", "or", "xor"].contains(&word).then(|| word.to_owned())
        });
        let [tensor, from, ..] = operands else { return decoder.fault("expected two operands") };
        let (map, coordinates) = parts(decoder, tensor)?;
        if reduces != combine.is_some() {
            return decoder.fault("the operands do not fit the opcode");
        }
        Bulk::TensorStore { from: decoder.address(from, Space::Shared)?, map, coordinates, im2col, combine }
    } else {
        return Ok(false);
    };
    decoder.emit(Op::Bulk(Box::new(bulk)));
    Ok(true)
}
