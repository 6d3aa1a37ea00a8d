//! Instructions between the lanes of a warp.

use super::Fault;
use super::registers::{LANES, lanes};
use super::warp::{Flow, Wait, Warp};
use crate::decode::program::{Op, Register, Shuffle, Vote};

impl Warp {
    /// The lanes that an instruction is for. Ready when all of them are here, or have ended.
    fn members(&self, register: Register, here: u32) -> Result<Result<u32, Flow>, Fault> {
        let masks = self.registers.w32(register.index());
        let members = masks[here.trailing_zeros() as usize];
        if lanes(here).any(|lane| masks[lane] >> lane & 1 == 0) {
            return Err(Fault::misuse(format!(
                "lanes {here:#010x} execute an instruction for the lanes {members:#010x}"
            )));
        }
        if members & self.live & !here != 0 {
            return Ok(Err(Flow::Stay(Wait::Lanes(members))));
        }
        Ok(Ok(here))
    }

    pub(super) fn collective(&mut self, op: &Op, active: u32) -> Result<Flow, Fault> {
        macro_rules! members {
            ($register:expr) => {
                match self.members($register, active)? {
                    Ok(here) => here,
                    Err(wait) => return Ok(wait),
                }
            };
        }
        match op {
            Op::ActiveMask(into) => {
                for lane in lanes(active) {
                    self.set(*into, lane, active.into());
                }
            }
            Op::WarpBarrier(members) => {
                let wanted = self.registers.w32(members.index())[active.trailing_zeros() as usize];
                if active & !wanted != 0 {
                    return Err(Fault::misuse(format!(
                        "lanes {active:#010x} wait at a barrier of the lanes {wanted:#010x}"
                    )));
                }
                if wanted & self.live & !active != 0 {
                    return Ok(Flow::Stay(Wait::WarpBarrier(wanted)));
                }
            }
            Op::Shuffle { kind, into, inside, from, lane, clamp, members } => {
                let here = members!(*members);
                self.shuffle(*kind, *into, *inside, [*from, *lane, *clamp], here);
            }
            Op::Vote { kind, into, from, members } => {
                let here = members!(*members);
                let holds = self.holds(*from, here);
                let value = match kind {
                    Vote::All => holds == here,
                    Vote::Any => holds != 0,
                    Vote::Uniform => holds == here || holds == 0,
                    Vote::Ballot => false,
                };
                match into {
                    Ok(predicate) => self.registers.set_predicate(*predicate, here, if value { u32::MAX } else { 0 }),
                    Err(register) => lanes(here).for_each(|lane| self.set(*register, lane, holds.into())),
                }
            }
            Op::Match { all, into, agree, from, members } => {
                let here = members!(*members);
                let values: [u64; LANES] = std::array::from_fn(|lane| self.value(*from, lane));
                let first = values[here.trailing_zeros() as usize];
                let same =
                    |value: u64| lanes(here).filter(|&other| values[other] == value).fold(0u32, |m, l| m | 1 << l);
                let everyone = same(first) == here;
                for lane in lanes(here) {
                    let mask = if *all { if everyone { here } else { 0 } } else { same(values[lane]) };
                    self.set(*into, lane, mask.into());
                }
                if let Some(agree) = agree {
                    self.registers.set_predicate(*agree, here, if everyone { u32::MAX } else { 0 });
                }
            }
            Op::Redux { combine, into, from, members } => {
                let here = members!(*members);
                let values = *self.registers.w32(from.index());
                let result = lanes(here).map(|lane| values[lane]).reduce(combine).unwrap_or_default();
                lanes(here).for_each(|lane| self.set(*into, lane, result.into()));
            }
            Op::Elect { leader, into, members } => {
                let here = members!(*members);
                let first = here.trailing_zeros();
                if let Some(leader) = leader {
                    lanes(here).for_each(|lane| self.set(*leader, lane, first.into()));
                }
                self.registers.set_predicate(*into, here, 1 << first);
            }
            _ => {}
        }
        Ok(Flow::Next)
    }

    fn shuffle(&mut self, kind: Shuffle, into: Option<Register>, inside: Option<u32>, from: [Register; 3], here: u32) {
        let [values, steps, clamps] = from.map(|register| *self.registers.w32(register.index()));
        let mut in_range = 0;
        for lane in lanes(here) {
            let (step, own) = (steps[lane] & 31, lane as u32);
            let (segment, clamp) = (clamps[lane] >> 8 & 31, clamps[lane] & 31);
            let last = own & segment | clamp & !segment;
            let first = own & segment;
            let (source, found) = match kind {
                Shuffle::Up => (own.wrapping_sub(step), own as i32 - step as i32 >= last as i32),
                Shuffle::Down => (own + step, own + step <= last),
                Shuffle::Butterfly => (own ^ step, own ^ step <= last),
                Shuffle::Index => {
                    let source = first | step & !segment;
                    (source, source <= last)
                }
            };
            let source = if found { source } else { own } as usize;
            in_range |= u32::from(found) << lane;
            // A lane that does not take part gives nothing that can be relied on.
            let value = if here >> source & 1 == 1 { values[source] } else { 0x7FBA_DBAD };
            if let Some(into) = into {
                self.set(into, lane, value.into());
            }
        }
        if let Some(inside) = inside {
            self.registers.set_predicate(inside, here, in_range);
        }
    }
}
