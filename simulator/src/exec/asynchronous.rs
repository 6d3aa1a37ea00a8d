//! Copies that go on beside the program.
//!
//! A copy lands at a time that the seed chooses, at the latest when the program has waited for it; only then does it
//! read what it copies. Where a program does not wait, it sees old data for some seeds.

use super::access::Does;
use super::machine::Machine;
use super::pending::{ShownCombine, Source};
use super::registers::{LANES, lanes};
use super::warp::{Flow, Warp};
use super::{Fault, Kind, spaces};
use crate::decode::program::Op;
use crate::ptx::Space;
use std::collections::VecDeque;

/// `cp.async` of a warp.
#[derive(Debug, Default)]
pub(super) struct Copies {
    entries: VecDeque<CopyEntry>,
    /// Groups that each lane committed.
    committed: [u32; LANES],
    /// A later group stands before an earlier one, of another lane.
    mixed: bool,
}

#[derive(Debug)]
struct CopyEntry {
    lane: usize,
    group: u32,
    does: CopyDoes,
}

#[derive(Debug)]
enum CopyDoes {
    Copy { to: u64, from: u64, bytes: usize, read: usize },
    Arrive { space: Space, address: u64, counted: bool },
}

impl Copies {
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn push(&mut self, lane: usize, does: CopyDoes) {
        let group = self.committed[lane];
        self.mixed = match self.entries.back() {
            None => false,
            Some(last) => self.mixed || last.group > group,
        };
        self.entries.push_back(CopyEntry { lane, group, does });
    }
}

impl Warp {
    /// Lands the first so many `cp.async`.
    pub fn land_copies(&mut self, machine: &mut Machine<'_>, count: usize) -> Result<(), Fault> {
        for _ in 0..count {
            let Some(entry) = self.copies.entries.pop_front() else { break };
            self.land_copy(machine, &entry)?;
        }
        Ok(())
    }

    fn land_copy(&mut self, machine: &mut Machine<'_>, entry: &CopyEntry) -> Result<(), Fault> {
        machine.progress += 1;
        let who = self.who(entry.lane);
        match entry.does {
            CopyDoes::Copy { to, from, bytes, read } => {
                let block = &mut machine.blocks[self.block];
                let to = to as usize;
                block.writers[to / 16] = (self.index as u32 + 1) | block.fences << 8;
                let place = &mut block.shared[to..to + bytes];
                place[read..].fill(0);
                // SAFETY: so many bytes were found when the copy was issued, in memory that lives as long as the launch.
                place[..read].copy_from_slice(unsafe { std::slice::from_raw_parts(from as *const u8, read) });
            }
            CopyDoes::Arrive { space, address, counted } => {
                let _ = counted;
                machine.update_barrier(who, space, address, |barrier| barrier.arrive(1))?;
            }
        }
        Ok(())
    }

    /// Lands copies of these lanes, of the groups that `is_due` accepts.
    fn land_due(
        &mut self,
        machine: &mut Machine<'_>,
        active: u32,
        is_due: impl Fn(usize, u32) -> bool,
    ) -> Result<(), Fault> {
        let committed = self.copies.committed;
        let together = lanes(self.live).all(|lane| committed[lane] == committed[active.trailing_zeros() as usize]);
        if active == self.live && together && !self.copies.mixed {
            // Then groups are in order.
            while let Some(entry) = self.copies.entries.front() {
                if !is_due(entry.lane, entry.group) {
                    break;
                }
                self.land_copies(machine, 1)?;
            }
            return Ok(());
        }
        let entries = std::mem::take(&mut self.copies.entries);
        for entry in entries {
            if active >> entry.lane & 1 == 1 && is_due(entry.lane, entry.group) {
                self.land_copy(machine, &entry)?;
            } else {
                self.copies.entries.push_back(entry);
            }
        }
        Ok(())
    }

    pub(super) fn asynchronous(&mut self, machine: &mut Machine<'_>, op: &Op, active: u32) -> Result<Flow, Fault> {
        match op {
            Op::Copy { to, from, bytes, read, ignore } => {
                let (to, from) = (self.addresses(to), self.addresses(from));
                let ignored = ignore.map_or(0, |guard| self.holds(guard, active));
                let all_to = machine.locate_all(self.who(0), Space::Shared, &to, active, *bytes, Does::Async);
                let all_from = machine.locate_all(self.who(0), Space::Global, &from, active, *bytes, Does::Read);
                for lane in lanes(active) {
                    let who = self.who(lane);
                    let size = read.map_or(*bytes, |read| self.value(read, lane) as usize);
                    if size > *bytes {
                        return Err(Fault::misuse(format!("cp.async reads {size} of {bytes} bytes")));
                    }
                    let size = if ignored >> lane & 1 == 1 { 0 } else { size };
                    if all_to.is_none() {
                        machine.locate(who, Space::Shared, to[lane], *bytes, Does::Async)?;
                        if machine.owner(self.block, to[lane])? != (self.block, to[lane]) {
                            return Err(Fault::new(Kind::IllegalAddress, "cp.async to another block".to_owned()));
                        }
                    }
                    if from[lane] & (*bytes as u64 - 1) != 0 {
                        let reason = format!("cp.async of {bytes} bytes from {:#x}", from[lane]);
                        return Err(Fault::new(Kind::Misaligned, reason));
                    }
                    // A copy of nothing is of no memory.
                    let from = if size > 0 { from[lane] } else { 16 };
                    if size > 0 && all_from.is_none() {
                        machine.device(from, size)?;
                    }
                    let does = CopyDoes::Copy { to: to[lane], from, bytes: *bytes, read: size };
                    self.copies.push(lane, does);
                }
            }
            Op::CopyCommit => lanes(active).for_each(|lane| self.copies.committed[lane] += 1),
            Op::CopyWait(pending) => {
                let committed = self.copies.committed;
                self.land_due(machine, active, |lane, group| pending.is_none_or(|n| group + n < committed[lane]))?;
            }
            Op::CopyArrive { address, counted } => {
                let places = self.addresses(address);
                for lane in lanes(active) {
                    if *counted {
                        machine.update_barrier(self.who(lane), address.space, places[lane], |b| b.await_one_more())?;
                    }
                    let does = CopyDoes::Arrive { space: address.space, address: places[lane], counted: *counted };
                    self.copies.push(lane, does);
                }
            }
            Op::Bulk(bulk) => {
                for lane in lanes(active) {
                    self.issue(machine, bulk, lane)?;
                }
            }
            Op::BulkCommit => self.stores.commit(active),
            Op::BulkWait { pending, only_read } => self.wait_stores(machine, *pending, *only_read, active)?,
            Op::AsyncStore { address, barrier, bytes, from, combine } => {
                let (places, barriers) = (self.addresses(address), self.addresses(barrier));
                for lane in lanes(active) {
                    let who = self.who(lane);
                    let total = bytes * from.len();
                    machine.locate(who, address.space, places[lane], total, Does::Async)?;
                    let (block, inner) = machine.owner(self.block, places[lane])?;
                    let (barrier_block, barrier) = machine.owner(self.block, barriers[lane])?;
                    if block != barrier_block {
                        return Err(Fault::misuse("st.async to a block with a barrier in another one"));
                    }
                    let words = from.iter().map(|&from| self.value(from, lane)).collect();
                    let combine = combine.clone().map(ShownCombine);
                    let source = Source::Words { words, bytes: *bytes, combine };
                    machine.start_copy(source, vec![(block, inner, barrier_block, barrier)], who, total as u32);
                }
            }
            Op::Map { into, from, block, is_generic } => {
                for lane in lanes(active) {
                    let (from, rank) = (self.value(*from, lane), self.value(*block, lane));
                    if rank >= machine.blocks.len() as u64 {
                        let reason = format!("mapa to block {rank} of a cluster of {}", machine.blocks.len());
                        return Err(Fault::new(Kind::IllegalInstruction, reason));
                    }
                    let (window, address) = if *is_generic {
                        (spaces::window(Space::Shared), from - spaces::window(Space::Shared))
                    } else {
                        (0, from)
                    };
                    let (_, inner) = machine.owner(self.block, address)?;
                    self.set(*into, lane, window | (rank + 1) << spaces::RANK_SHIFT | inner);
                }
            }
            Op::IsSpace { into, from, space } => {
                let mut is = 0;
                for lane in lanes(active) {
                    let (found, address) = spaces::split(self.value(*from, lane));
                    let own = machine.owner(self.block, address).is_ok_and(|(block, _)| block == self.block);
                    let same = match (space, found) {
                        (Space::Shared, Space::SharedCluster) => own,
                        (space, found) => *space == found,
                    };
                    is |= u32::from(same) << lane;
                }
                self.registers.set_predicate(*into, active, is);
            }
            _ => return Err(Fault::new(Kind::IllegalInstruction, "this instruction is not executed here")),
        }
        Ok(Flow::Next)
    }
}
