//! Loads, stores and atomics of a warp.

use super::access::{Does, read, write};
use super::machine::Machine;
use super::registers::{LANES, lanes};
use super::warp::{Flow, Warp};
use super::{Fault, Kind};
use crate::decode::program::{Address, Op, Register};

/// The most elements of an instruction.
const MOST_ELEMENTS: usize = 8;

impl Warp {
    /// The lanes' addresses.
    #[inline]
    pub fn addresses(&self, address: &Address) -> [u64; LANES] {
        let offset = address.offset;
        match address.base {
            None => [offset as u64; LANES],
            // Addresses of 32 bits wrap at 32 bits.
            Some(Register::W32(at)) => self.registers.w32(at).map(|base| u64::from(base.wrapping_add(offset as u32))),
            Some(Register::W64(at)) => self.registers.w64(at).map(|base| base.wrapping_add_signed(offset)),
        }
    }

    /// A lane of a register, extended with zeros.
    #[inline]
    pub fn value(&self, register: Register, lane: usize) -> u64 {
        match register {
            Register::W32(at) => u64::from(self.registers.w32(at)[lane]),
            Register::W64(at) => self.registers.w64(at)[lane],
        }
    }

    /// Sets a lane of a register.
    #[inline]
    pub fn set(&mut self, register: Register, lane: usize, value: u64) {
        match register {
            Register::W32(at) => self.registers.w32_mut(at)[lane] = value as u32,
            Register::W64(at) => self.registers.w64_mut(at)[lane] = value,
        }
    }

    pub(super) fn memory(&mut self, machine: &mut Machine<'_>, op: &Op, active: u32) -> Result<Flow, Fault> {
        match op {
            Op::Load { address, element, into, polls } => {
                let places = self.addresses(address);
                let total = element.bytes * into.len();
                let unused = 64 - 8 * element.bytes as u32;
                for lane in lanes(active) {
                    let from = machine
                        .locate(self.who(lane), address.space, places[lane], total, Does::Read)
                        .map_err(|fault| in_lane(fault, "a load of", lane))?;
                    for (i, into) in into.iter().enumerate() {
                        let Some(into) = *into else { continue };
                        // SAFETY: `locate` found all bytes of the vector.
                        let mut value = unsafe { read(from.add(i * element.bytes), element.bytes) };
                        if element.signed {
                            value = ((value << unused) as i64 >> unused) as u64;
                        }
                        self.set(into, lane, value);
                    }
                }
                Ok(if *polls { self.polls() } else { Flow::Next })
            }
            Op::Store { address, element, from } => {
                let places = self.addresses(address);
                let total = element.bytes * from.len();
                machine.progress += 1;
                for lane in lanes(active) {
                    let to = machine
                        .locate(self.who(lane), address.space, places[lane], total, Does::Write)
                        .map_err(|fault| in_lane(fault, "a store of", lane))?;
                    for (i, &from) in from.iter().enumerate() {
                        let value = self.value(from, lane);
                        // SAFETY: `locate` found all bytes of the vector.
                        unsafe { write(to.add(i * element.bytes), element.bytes, value) };
                    }
                }
                Ok(Flow::Next)
            }
            Op::Atomic { address, bytes, combine, into, a, b } => {
                let places = self.addresses(address);
                let total = bytes * a.len();
                machine.progress += 1;
                for lane in lanes(active) {
                    let place = machine
                        .locate(self.who(lane), address.space, places[lane], total, Does::Write)
                        .map_err(|fault| in_lane(fault, "an atomic operation on", lane))?;
                    let b = b.map_or(0, |b| self.value(b, lane));
                    let mut old = [0; MOST_ELEMENTS];
                    for (i, &a) in a.iter().enumerate() {
                        let a = self.value(a, lane);
                        // SAFETY: `locate` found all bytes of the vector.
                        unsafe {
                            let place = place.add(i * bytes);
                            old[i] = read(place, *bytes);
                            write(place, *bytes, combine(old[i], a, b));
                        }
                    }
                    for (&into, old) in into.iter().zip(old) {
                        self.set(into, lane, old);
                    }
                }
                Ok(if into.is_empty() { Flow::Next } else { self.polls() })
            }
            _ => Err(Fault::new(Kind::IllegalInstruction, "no access to memory")),
        }
    }
}

fn in_lane(fault: Fault, what: &str, lane: usize) -> Fault {
    Fault { reason: format!("{what} {} in lane {lane}", fault.reason), ..fault }
}
