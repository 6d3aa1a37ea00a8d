//! Loads, stores and atomics of a warp.

use super::access::{Does, read, write};
use super::machine::Machine;
use super::registers::{LANES, Lane as _, lanes};
use super::warp::{Flow, Warp};
use super::{Fault, Kind};
use crate::decode::program::{Address, Op, Register};
use crate::ptx::Space;

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

    /// Loads an element of each lane.
    ///
    /// # Safety
    /// The bytes behind all of them are there.
    #[inline(always)]
    unsafe fn load_all<const BYTES: usize>(
        &mut self,
        base: *mut u8,
        places: &[u64; LANES],
        active: u32,
        into: Register,
    ) {
        match into {
            Register::W32(at) => {
                let registers = self.registers.w32_mut(at);
                for lane in lanes(active) {
                    // SAFETY: the caller's promise.
                    registers[lane] = unsafe { read(base.wrapping_add(places[lane] as usize), BYTES) } as u32;
                }
            }
            Register::W64(at) => {
                let registers = self.registers.w64_mut(at);
                for lane in lanes(active) {
                    // SAFETY: the caller's promise.
                    registers[lane] = unsafe { read(base.wrapping_add(places[lane] as usize), BYTES) };
                }
            }
        }
    }

    /// Stores an element of each lane.
    ///
    /// # Safety
    /// As [`load_all`](Warp::load_all).
    #[inline(always)]
    unsafe fn store_all<const BYTES: usize>(&self, base: *mut u8, places: &[u64; LANES], active: u32, from: Register) {
        for lane in lanes(active) {
            let value = self.value(from, lane);
            // SAFETY: the caller's promise.
            unsafe { write(base.wrapping_add(places[lane] as usize), BYTES, value) };
        }
    }

    pub(super) fn memory(&mut self, machine: &mut Machine<'_>, op: &Op, active: u32) -> Result<Flow, Fault> {
        match op {
            // What is the same for all lanes is read once: parameters.
            Op::Load {
                address: address @ Address { base: None, space: Space::Param, offset }, element, into, ..
            } => {
                let total = element.bytes * into.len();
                let from = machine.locate(self.who(0), address.space, *offset as u64, total, Does::Read)?;
                for (i, into) in into.iter().enumerate() {
                    let Some(into) = *into else { continue };
                    // SAFETY: `locate` found all bytes of the vector.
                    let value = unsafe { read(from.add(i * element.bytes), element.bytes) };
                    let value = element.extend(value);
                    match into {
                        Register::W32(at) => u32::write(&mut self.registers, at, active, [value as u32; LANES]),
                        Register::W64(at) => u64::write(&mut self.registers, at, active, [value; LANES]),
                    }
                }
                Ok(Flow::Next)
            }
            Op::Load { address, element, into, polls } => {
                let places = self.addresses(address);
                let total = element.bytes * into.len();
                let all = machine.locate_all(self.who(0), address.space, &places, active, total, Does::Read);
                if let (Some(base), false) = (all, element.signed) {
                    for (i, into) in into.iter().enumerate() {
                        let Some(into) = *into else { continue };
                        // SAFETY: all lanes' bytes were found.
                        unsafe {
                            match element.bytes {
                                1 => self.load_all::<1>(base.wrapping_add(i), &places, active, into),
                                2 => self.load_all::<2>(base.wrapping_add(2 * i), &places, active, into),
                                4 => self.load_all::<4>(base.wrapping_add(4 * i), &places, active, into),
                                _ => self.load_all::<8>(base.wrapping_add(8 * i), &places, active, into),
                            }
                        }
                    }
                    return Ok(if *polls { self.polls() } else { Flow::Next });
                }
                for lane in lanes(active) {
                    let from = machine
                        .locate(self.who(lane), address.space, places[lane], total, Does::Read)
                        .map_err(|fault| in_lane(fault, "a load of", lane))?;
                    for (i, into) in into.iter().enumerate() {
                        let Some(into) = *into else { continue };
                        // SAFETY: `locate` found all bytes of the vector.
                        let value = unsafe { read(from.add(i * element.bytes), element.bytes) };
                        self.set(into, lane, element.extend(value));
                    }
                }
                Ok(if *polls { self.polls() } else { Flow::Next })
            }
            Op::Store { address, element, from } => {
                let places = self.addresses(address);
                let total = element.bytes * from.len();
                machine.progress += 1;
                let all = machine.locate_all(self.who(0), address.space, &places, active, total, Does::Write);
                if let Some(base) = all {
                    for (i, &from) in from.iter().enumerate() {
                        let base = base.wrapping_add(i * element.bytes);
                        // SAFETY: all lanes' bytes were found.
                        unsafe {
                            match element.bytes {
                                1 => self.store_all::<1>(base, &places, active, from),
                                2 => self.store_all::<2>(base, &places, active, from),
                                4 => self.store_all::<4>(base, &places, active, from),
                                _ => self.store_all::<8>(base, &places, active, from),
                            }
                        }
                    }
                    return Ok(Flow::Next);
                }
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
