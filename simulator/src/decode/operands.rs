//! Operands of instructions.

use super::Decoder;
use super::program::{Address, Guard, Register};
use crate::exec::registers::{CONSTANT, unary};
use crate::ptx::{Operand, Result, Space, Type};

impl<'a> Decoder<'a> {
    /// The place of a constant.
    pub(super) fn constant(&mut self, bits: u64, wide: bool) -> u32 {
        let bits = if wide { bits } else { bits & 0xFFFF_FFFF };
        let constants = &mut self.constants;
        let place = self.constant_places[usize::from(wide)].entry(bits).or_insert_with(|| {
            if wide {
                constants.w64.push([bits; 32]);
                constants.w64.len() as u32 - 1
            } else {
                constants.w32.push([bits as u32; 32]);
                constants.w32.len() as u32 - 1
            }
        });
        *place | CONSTANT
    }

    /// A register, or a constant for a number, of its own width; a number's is 32 bits.
    pub(super) fn register(&mut self, operand: &Operand<'a>) -> Result<Register> {
        match operand {
            Operand::Name(name) => {
                if let Some((_, register)) = self.find_register(name) {
                    return Ok(register);
                }
                if let Some(register) = self.special(name) {
                    return Ok(register);
                }
                match self.find_variable(name) {
                    Some(symbol) => Ok(Register::W64(self.constant(symbol.address, true))),
                    None => self.fault(format!("there is no register {name}")),
                }
            }
            Operand::Int(value) => Ok(Register::W32(self.constant(*value, false))),
            _ => self.fault(format!("expected a register or number, given {operand:?}")),
        }
    }

    /// A register of 32 bits, or a constant.
    pub(super) fn register32(&mut self, operand: &Operand<'a>) -> Result<Register> {
        self.source(operand, Type::B32).map(Register::W32)
    }

    /// A register of this type's width, or a constant.
    pub(super) fn register_of(&mut self, operand: &Operand<'a>, ty: Type) -> Result<Register> {
        let at = self.source(operand, ty)?;
        Ok(if ty.bytes() == 8 { Register::W64(at) } else { Register::W32(at) })
    }

    /// The index of an operand that is read as this type, among the registers of the type's width.
    pub(super) fn source(&mut self, operand: &Operand<'a>, ty: Type) -> Result<u32> {
        let wide = ty.bytes() == 8;
        let name = match operand {
            Operand::Name(name) => name,
            Operand::Int(value) => {
                let bits = match ty {
                    Type::F32 => u64::from((*value as i64 as f32).to_bits()),
                    Type::F64 => (*value as i64 as f64).to_bits(),
                    _ => *value,
                };
                return Ok(self.constant(bits, wide));
            }
            Operand::F32(bits) if wide => return Ok(self.constant(f64::from(f32::from_bits(*bits)).to_bits(), true)),
            Operand::F32(bits) => return Ok(self.constant(u64::from(*bits), false)),
            Operand::F64(bits) if wide => return Ok(self.constant(*bits, true)),
            Operand::F64(bits) => {
                return Ok(self.constant(u64::from((f64::from_bits(*bits) as f32).to_bits()), false));
            }
            Operand::Sum(name, offset) => {
                let Some(symbol) = self.find_variable(name) else {
                    return self.fault(format!("there is no variable {name}"));
                };
                return Ok(self.constant(symbol.address.wrapping_add_signed(*offset), wide));
            }
            _ => return self.fault(format!("expected a register or number, given {operand:?}")),
        };
        let register = match self.find_register(name) {
            Some((_, register)) => register,
            None => match self.special(name) {
                Some(register) => register,
                None => match self.find_variable(name) {
                    Some(symbol) => return Ok(self.constant(symbol.address, wide)),
                    None => return self.fault(format!("there is no register {name}")),
                },
            },
        };
        match (register, wide) {
            (Register::W32(at), false) | (Register::W64(at), true) => Ok(at),
            (Register::W64(at), false) => {
                let narrow = self.fresh(Type::U32).index();
                let guard = self.guard.take();
                self.compute(unary(|a: u64| a as u32), &[narrow, at]);
                self.guard = guard;
                Ok(narrow)
            }
            (Register::W32(at), true) => {
                // Special registers of 32 bits may be read as 64.
                let wide = self.fresh(Type::U64).index();
                let guard = self.guard.take();
                self.compute(unary(|a: u32| u64::from(a)), &[wide, at]);
                self.guard = guard;
                Ok(wide)
            }
        }
    }

    /// Several of them.
    pub(super) fn sources(&mut self, operands: &[Operand<'a>], ty: Type) -> Result<Vec<u32>> {
        operands.iter().map(|operand| self.source(operand, ty)).collect()
    }

    /// The index of a result of this type; a wider register gets it extended afterwards.
    pub(super) fn result(&mut self, operand: &Operand<'a>, ty: Type) -> Result<u32> {
        let name = match operand {
            Operand::Name(name) => name,
            Operand::Sink => return Ok(self.fresh(ty).index()),
            _ => return self.fault(format!("expected a register for the result, given {operand:?}")),
        };
        let Some((declared, register)) = self.find_register(name) else {
            return self.fault(format!("there is no register {name}"));
        };
        match (register, ty.bytes()) {
            (Register::W64(at), 8) => Ok(at),
            (Register::W32(_), 8) => self.fault(format!("{name} is too narrow for a result of 64 bits")),
            (Register::W32(at), _) => {
                match ty {
                    Type::S8 if declared.bytes() > 1 => {
                        self.after.push((unary(|a: i8| i32::from(a)), [at, at, 0, 0, 0, 0]));
                    }
                    Type::S16 if declared.bytes() > 2 => {
                        self.after.push((unary(|a: i16| i32::from(a)), [at, at, 0, 0, 0, 0]));
                    }
                    _ => {}
                }
                Ok(at)
            }
            (Register::W64(at), _) => {
                let narrow = self.fresh(Type::U32).index();
                let widen = match ty {
                    Type::S8 => unary(|a: i8| i64::from(a)),
                    Type::S16 => unary(|a: i16| i64::from(a)),
                    Type::S32 => unary(|a: i32| i64::from(a)),
                    _ => unary(|a: u32| u64::from(a)),
                };
                self.after.push((widen, [at, narrow, 0, 0, 0, 0]));
                Ok(narrow)
            }
        }
    }

    /// A register to be written, of the width that it has.
    pub(super) fn place_of(&mut self, operand: &Operand<'a>) -> Result<Option<Register>> {
        match operand {
            Operand::Sink => Ok(None),
            Operand::Name(name) => match self.find_register(name) {
                Some((_, register)) => Ok(Some(register)),
                None => self.fault(format!("there is no register {name}")),
            },
            _ => self.fault(format!("expected a register, given {operand:?}")),
        }
    }

    /// A predicate operand, perhaps negated, perhaps a constant.
    pub(super) fn condition(&mut self, operand: &Operand<'a>) -> Result<Guard> {
        match operand {
            Operand::Name(name) => Ok(Guard { predicate: self.predicate(name)?, negated: false }),
            Operand::Not(name) => Ok(Guard { predicate: self.predicate(name)?, negated: true }),
            // Predicates that nobody writes are false.
            Operand::Int(value) => Ok(Guard { predicate: self.fresh_predicate(), negated: *value != 0 }),
            _ => self.fault(format!("expected a predicate, given {operand:?}")),
        }
    }

    /// A predicate to be written.
    pub(super) fn predicate_result(&mut self, operand: &Operand<'a>) -> Result<u32> {
        match operand {
            Operand::Name(name) => self.predicate(name),
            Operand::Sink => Ok(self.fresh_predicate()),
            _ => self.fault(format!("expected a predicate, given {operand:?}")),
        }
    }

    /// `[base+offset]` without anything behind a comma.
    pub(super) fn address(&mut self, operand: &Operand<'a>, space: Space) -> Result<Address> {
        match operand {
            Operand::Address(base, offset, more) if more.is_empty() => self.base(base, *offset, space),
            _ => self.fault(format!("expected an address, given {operand:?}")),
        }
    }

    pub(super) fn base(&mut self, base: &Operand<'a>, offset: i64, space: Space) -> Result<Address> {
        match base {
            Operand::Int(value) => Ok(Address { base: None, offset: (*value as i64).wrapping_add(offset), space }),
            Operand::Name(name) => {
                if let Some((_, register)) = self.find_register(name) {
                    return Ok(Address { base: Some(register), offset, space });
                }
                match self.find_variable(name) {
                    Some(symbol) => {
                        // Arguments of calls are spelled as parameters; a name needs no space to be found.
                        Ok(Address {
                            base: None,
                            offset: (symbol.address as i64).wrapping_add(offset),
                            space: symbol.space,
                        })
                    }
                    None => self.fault(format!("there is no register or variable {name}")),
                }
            }
            _ => self.fault(format!("expected a register or variable, given {base:?}")),
        }
    }
}
