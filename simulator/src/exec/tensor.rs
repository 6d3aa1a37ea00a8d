//! Tensor cores: the registers of warps and warpgroups, and the units that compute with them.

use super::access::Does;
use super::machine::Machine;
use super::registers::LANES;
use super::warp::{Flow, Wait, Warp};
use super::{Fault, Kind};
use crate::decode::program::{Mma, Op, Register, Wgmma, WgmmaA};
use crate::ptx::Type;
use crate::units::formats::Element;
use crate::units::{mma, wgmma};
use std::collections::VecDeque;
use std::sync::Arc;

/// Warps of a warpgroup.
pub(super) const WARPS: usize = 4;

/// Products of a warpgroup on their way, as one of its warps sees them.
#[derive(Debug, Default)]
pub(super) struct Products {
    open: Vec<Issued>,
    pub committed: VecDeque<Vec<Issued>>,
    n_committed: u32,
    /// Groups whose results are there.
    pub done: u32,
}

/// One product.
#[derive(Clone, Debug)]
pub(super) struct Issued {
    instruction: Arc<Wgmma>,
    a: u64,
    b: u64,
    accumulates: bool,
}

/// A type by its PTX name.
fn element(name: &str) -> Option<Element> {
    Some(match name {
        "f16" => Element::F16,
        "bf16" => Element::Bf16,
        "tf32" => Element::Tf32,
        "e4m3" => Element::E4m3,
        "e5m2" => Element::E5m2,
        "s8" => Element::S8,
        "u8" => Element::U8,
        "s4" => Element::S4,
        "u4" => Element::U4,
        _ => return None,
    })
}

fn illegal(reason: String) -> Fault {
    Fault::new(Kind::IllegalInstruction, reason)
}

impl Warp {
    pub(super) fn tensor(&mut self, machine: &mut Machine<'_>, op: &Op) -> Result<Flow, Fault> {
        match op {
            Op::MatrixLoad { into, address, transposed } => {
                for (i, &into) in into.iter().enumerate() {
                    let mut rows = [[0; 16]; 8];
                    for (row, bytes) in rows.iter_mut().enumerate() {
                        let lane = 8 * i + row;
                        let place = self.addresses(address)[lane];
                        let from = machine.locate(self.who(lane), address.space, place, 16, Does::Read)?;
                        // SAFETY: 16 bytes were found.
                        *bytes = unsafe { from.cast::<[u8; 16]>().read() };
                    }
                    *self.registers.w32_mut(into.index()) = mma::load_matrix(&rows, *transposed);
                }
            }
            Op::MatrixStore { from, address, transposed } => {
                machine.progress += 1;
                for (i, &from) in from.iter().enumerate() {
                    let rows = mma::store_matrix(self.registers.w32(from.index()), *transposed);
                    for (row, bytes) in rows.iter().enumerate() {
                        let lane = 8 * i + row;
                        let place = self.addresses(address)[lane];
                        let to = machine.locate(self.who(lane), address.space, place, 16, Does::Write)?;
                        // SAFETY: 16 bytes were found.
                        unsafe { to.cast::<[u8; 16]>().write(*bytes) };
                    }
                }
            }
            Op::Mma(mma) => self.mma(mma)?,
            Op::WgmmaFence => {}
            Op::Wgmma(wgmma) => {
                // The operands are the same in all lanes.
                let a = match &wgmma.a {
                    WgmmaA::Descriptor(register) => self.value(*register, 0),
                    WgmmaA::Registers(_) => 0,
                };
                let accumulates = wgmma.accumulate.is_none_or(|guard| self.holds(guard, 1) == 1);
                let b = self.value(wgmma.b, 0);
                self.products.open.push(Issued { instruction: Arc::clone(wgmma), a, b, accumulates });
            }
            Op::WgmmaCommit => {
                let group = std::mem::take(&mut self.products.open);
                self.products.committed.push_back(group);
                self.products.n_committed += 1;
                machine.progress += 1;
            }
            Op::WgmmaWait(pending) => {
                let wanted = self.products.n_committed.saturating_sub(*pending);
                if self.products.done < wanted {
                    return Ok(Flow::Stay(Wait::Products(wanted)));
                }
            }
            _ => {}
        }
        Ok(Flow::Next)
    }

    fn lanes_of(&self, registers: &[Register]) -> Vec<[u32; LANES]> {
        registers.iter().map(|register| *self.registers.w32(register.index())).collect()
    }

    fn mma(&mut self, op: &Mma) -> Result<(), Fault> {
        let numbers: Vec<usize> =
            op.shape.split(|c: char| !c.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect();
        let [m, _, k] = numbers[..] else { return Err(illegal(format!("mma of shape {}", op.shape))) };
        let [d, a, b, c] = &op.registers;
        if op.types[0] == "f64" {
            let wide = |registers: &[Register]| -> Vec<[f64; LANES]> {
                registers.iter().map(|register| self.registers.w64(register.index()).map(f64::from_bits)).collect()
            };
            let (a, b, c) = (wide(a), wide(b), wide(c));
            let mut result = vec![[0.0; LANES]; d.len()];
            mma::multiply_f64(m, k, &a, &b, &c, &mut result).map_err(illegal)?;
            for (register, values) in d.iter().zip(result) {
                *self.registers.w64_mut(register.index()) = values.map(f64::to_bits);
            }
            return Ok(());
        }
        let sum = |name: &str| match name {
            "f16" => Some(mma::Sum::F16),
            "f32" => Some(mma::Sum::F32),
            "s32" => Some(mma::Sum::S32),
            _ => None,
        };
        let [d_type, a_type, b_type, c_type] = &op.types;
        let (Some(d_type), Some(a_type), Some(b_type), Some(c_type)) =
            (sum(d_type), element(a_type), element(b_type), sum(c_type))
        else {
            return Err(illegal(format!("mma of {:?}", op.types)));
        };
        let instruction = mma::Instruction { m, k, a: a_type, b: b_type, c: c_type, d: d_type, saturates: op.saturate };
        let mut result = vec![[0; LANES]; d.len()];
        let (a, b, c) = (self.lanes_of(a), self.lanes_of(b), self.lanes_of(c));
        mma::multiply(&instruction, &a, &b, &c, &mut result).map_err(illegal)?;
        for (register, values) in d.iter().zip(result) {
            *self.registers.w32_mut(register.index()) = values;
        }
        Ok(())
    }
}

/// Does the oldest group of products of a warpgroup, if all of its warps have committed it; whether they had.
pub(super) fn advance(machine: &mut Machine<'_>, warps: &mut [Warp]) -> Result<bool, Fault> {
    if warps.len() != WARPS || warps.iter().any(|warp| warp.products.committed.is_empty()) {
        return Ok(false);
    }
    let groups: Vec<Vec<Issued>> = warps.iter_mut().filter_map(|warp| warp.products.committed.pop_front()).collect();
    let first = &groups[0];
    let same = |issued: &Issued, other: &Issued| {
        Arc::ptr_eq(&issued.instruction, &other.instruction)
            && (issued.a, issued.b, issued.accumulates) == (other.a, other.b, other.accumulates)
    };
    let agree = |group: &Vec<Issued>| group.len() == first.len() && group.iter().zip(first).all(|(a, b)| same(a, b));
    if !groups.iter().all(agree) {
        return Err(Fault::misuse("the warps of a warpgroup execute different wgmma instructions"));
    }
    for issued in first {
        multiply(machine, warps, issued)?;
    }
    for warp in warps {
        warp.products.done += 1;
    }
    machine.progress += 1;
    Ok(true)
}

fn multiply(machine: &mut Machine<'_>, warps: &mut [Warp], issued: &Issued) -> Result<(), Fault> {
    let op = &*issued.instruction;
    let (Some(a), Some(b)) = (element(&op.names[0]), element(&op.names[1])) else {
        return Err(illegal(format!("wgmma of {:?}", op.names)));
    };
    let d = match op.result {
        Type::F16 => wgmma::Accumulator::F16,
        Type::F32 => wgmma::Accumulator::F32,
        _ => wgmma::Accumulator::S32 { saturates: op.saturate },
    };
    let instruction = wgmma::Instruction { n: op.n, a, b, d, negates: op.negate, transposes: op.transposed };
    let mut sums: Vec<Vec<[u32; LANES]>> = warps.iter().map(|warp| warp.lanes_of(&op.d)).collect();
    let fragments: Vec<[[u32; LANES]; 4]> = match &op.a {
        WgmmaA::Registers(registers) => {
            warps.iter().filter_map(|warp| warp.lanes_of(registers).try_into().ok()).collect()
        }
        WgmmaA::Descriptor(_) => Vec::new(),
    };
    let fragments: Option<&[[[u32; LANES]; 4]; WARPS]> = fragments.as_slice().try_into().ok();
    let operand = match (&op.a, fragments) {
        (WgmmaA::Descriptor(_), _) => wgmma::Operand::Shared(issued.a),
        (_, Some(fragments)) => wgmma::Operand::Registers(fragments),
        _ => return Err(illegal("wgmma with a in other than four registers".to_owned())),
    };
    let shared = &machine.blocks[warps[0].block].shared;
    let [d0, d1, d2, d3] = &mut sums[..] else { return Ok(()) };
    wgmma::multiply(&instruction, shared, operand, issued.b, issued.accumulates, [d0, d1, d2, d3]).map_err(illegal)?;
    for (warp, sums) in warps.iter_mut().zip(&sums) {
        for (register, values) in op.d.iter().zip(sums) {
            *warp.registers.w32_mut(register.index()) = *values;
        }
    }
    Ok(())
}
