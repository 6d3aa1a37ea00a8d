//! Copies that go on beside the program.
//!
//! A copy lands at a time that the seed chooses, at the latest when the program has waited for it; only then does it
//! read what it copies. Where a program does not wait, it sees old data for some seeds.

use super::access::{Does, Who, read, write};
use super::machine::Machine;
use super::registers::{LANES, lanes};
use super::warp::{Flow, Warp};
use super::{Fault, Kind, spaces};
use crate::decode::program::{Bulk, Combine, Op, Reduction, Register};
use crate::ptx::Space;
use crate::units::reduction::{self, Operation};
use crate::units::tensor_map::TensorMap;
use crate::units::tma::{self, Plan, Request};
use std::collections::VecDeque;

/// What a copy to shared memory reads.
#[derive(Debug)]
pub(super) enum Source {
    /// Device memory.
    Device(u64, usize),
    /// Shared memory of a block.
    Shared(usize, usize, usize),
    /// A tensor.
    Tensor(Plan),
    /// What a store had in its registers.
    Words { words: Vec<u64>, bytes: usize, combine: Option<ShownCombine> },
}

/// A reduction.
pub(super) struct ShownCombine(Combine);

impl std::fmt::Debug for ShownCombine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("reduction")
    }
}

/// A copy to shared memory on its way.
#[derive(Debug)]
pub(super) struct Pending {
    source: Source,
    /// Blocks that it goes to, each with the address of the data and of the barrier's block and address.
    targets: Vec<(usize, u64, usize, u64)>,
    who: Who,
    bytes: u32,
}

impl Machine<'_> {
    /// Lands a copy.
    pub fn land(&mut self, at: usize) -> Result<(), Fault> {
        let copy = self.pending.swap_remove(at);
        for &(block, to, barrier_block, barrier) in &copy.targets {
            let who = Who { block, ..copy.who };
            match &copy.source {
                Source::Device(from, bytes) => {
                    let from = self.device(*from, *bytes)?;
                    let to = self.locate(who, Space::Shared, to, *bytes, Does::Async)?;
                    // SAFETY: both were found with so many bytes, and one is shared memory, the other device memory.
                    unsafe { std::ptr::copy_nonoverlapping(from, to, *bytes) };
                }
                Source::Shared(from_block, from, bytes) => {
                    self.fenced(*from_block, copy.who, *from as u32..(*from + *bytes) as u32)?;
                    let data = self.blocks[*from_block].shared[*from..*from + *bytes].to_vec();
                    let to = self.locate(who, Space::Shared, to, *bytes, Does::Async)?;
                    // SAFETY: so many bytes were found.
                    unsafe { std::ptr::copy_nonoverlapping(data.as_ptr(), to, *bytes) };
                }
                Source::Tensor(plan) => self.land_tensor(block, plan)?,
                Source::Words { words, bytes, combine } => {
                    for (i, &word) in words.iter().enumerate() {
                        let to = self.locate(who, Space::Shared, to + (i * bytes) as u64, *bytes, Does::Async)?;
                        // SAFETY: so many bytes were found.
                        unsafe {
                            let value = combine.as_ref().map_or(word, |combine| combine.0(read(to, *bytes), word, 0));
                            write(to, *bytes, value);
                        }
                    }
                }
            }
            let chunks = to as usize / 16..(to as usize + copy.bytes as usize).div_ceil(16);
            self.blocks[block].writers[chunks].fill(0);
            let who = Who { block: barrier_block, ..copy.who };
            self.update_barrier(who, Space::Shared, barrier, |state| state.complete_bytes(copy.bytes))?;
        }
        self.progress += 1;
        Ok(())
    }

    fn land_tensor(&mut self, block: usize, plan: &Plan) -> Result<(), Fault> {
        for row in &plan.rows {
            let bytes = row.inside.len();
            let from: &[u8] = if bytes == 0 {
                &[]
            } else {
                let from = self.device(row.global, bytes)?;
                // SAFETY: so many bytes of an allocation were found, which lives as long as the launch.
                unsafe { std::slice::from_raw_parts(from, bytes) }
            };
            plan.put(row, from, &mut self.blocks[block].shared);
        }
        Ok(())
    }

    /// Refuses what the copy engine or a tensor core would read before ordinary stores to it are seen there.
    pub fn fenced(&self, block: usize, reader: Who, range: std::ops::Range<u32>) -> Result<(), Fault> {
        let there = &self.blocks[block];
        let own = if block == reader.block { there.last_fence[reader.warp] } else { 0 };
        for chunk in range.start as usize / 16..(range.end as usize).div_ceil(16) {
            let mark = there.writers[chunk];
            if mark == 0 {
                continue;
            }
            let (writer, time) = (mark as usize & 0xFF, mark >> 8);
            if there.last_fence[writer - 1] <= time && own <= time && self.launch.checks_fences {
                return Err(Fault::misuse(format!(
                    "shared memory at {:#x} was written by warp {} and is read by the async proxy without fence.proxy.async between",
                    16 * chunk,
                    writer - 1
                )));
            }
        }
        Ok(())
    }
}

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

/// Bulk stores of a warp.
#[derive(Debug, Default)]
pub(super) struct Stores {
    entries: Vec<StoreEntry>,
    committed: [u32; LANES],
}

#[derive(Debug)]
struct StoreEntry {
    lane: usize,
    group: u32,
    does: StoreDoes,
}

#[derive(Debug)]
enum StoreDoes {
    Plain {
        to: u64,
        from: u64,
        bytes: usize,
        combine: Option<Reduction>,
    },
    Tensor {
        plan: Plan,
        map: TensorMap,
        combine: Option<Operation>,
    },
    /// Read, not yet written.
    Read {
        rows: Vec<(u64, Vec<u8>)>,
        combine: ReadCombine,
    },
}

#[derive(Debug)]
enum ReadCombine {
    No,
    Plain(Reduction),
    Tensor(TensorMap, Operation),
}

impl Stores {
    pub fn len(&self) -> usize {
        self.entries.len()
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

    /// Lands the first so many bulk stores.
    pub fn land_stores(&mut self, machine: &mut Machine<'_>, count: usize) -> Result<(), Fault> {
        for entry in self.stores.entries.drain(..count).collect::<Vec<_>>() {
            self.write_store(machine, entry)?;
        }
        Ok(())
    }

    fn read_store(&self, machine: &mut Machine<'_>, entry: StoreEntry) -> Result<StoreEntry, Fault> {
        let who = self.who(entry.lane);
        let (rows, combine) = match entry.does {
            StoreDoes::Plain { to, from, bytes, combine } => {
                machine.fenced(self.block, who, from as u32..from as u32 + bytes as u32)?;
                let place = machine.locate(who, Space::Shared, from, bytes, Does::Read)?;
                // SAFETY: so many bytes were found.
                let data = unsafe { std::slice::from_raw_parts(place, bytes) }.to_vec();
                (vec![(to, data)], combine.map_or(ReadCombine::No, ReadCombine::Plain))
            }
            StoreDoes::Tensor { plan, map, combine } => {
                machine.fenced(self.block, who, plan.shared_range())?;
                let mut rows = Vec::with_capacity(plan.rows.len());
                for row in plan.rows.iter().filter(|row| !row.inside.is_empty()) {
                    let mut data = vec![0; row.inside.len()];
                    plan.take(row, &machine.blocks[self.block].shared, &mut data);
                    rows.push((row.global, data));
                }
                (rows, combine.map_or(ReadCombine::No, |operation| ReadCombine::Tensor(map, operation)))
            }
            does @ StoreDoes::Read { .. } => return Ok(StoreEntry { does, ..entry }),
        };
        machine.progress += 1;
        Ok(StoreEntry { does: StoreDoes::Read { rows, combine }, ..entry })
    }

    fn write_store(&self, machine: &mut Machine<'_>, entry: StoreEntry) -> Result<(), Fault> {
        let StoreDoes::Read { rows, combine } = self.read_store(machine, entry)?.does else { return Ok(()) };
        machine.progress += 1;
        for (to, data) in rows {
            let place = machine.device(to, data.len())?;
            // SAFETY: so many bytes were found.
            let memory = unsafe { std::slice::from_raw_parts_mut(place, data.len()) };
            match &combine {
                ReadCombine::No => memory.copy_from_slice(&data),
                ReadCombine::Plain(Reduction { combine, bytes }) => {
                    for (old, new) in memory.chunks_exact_mut(*bytes).zip(data.chunks_exact(*bytes)) {
                        // SAFETY: both chunks have so many bytes.
                        unsafe {
                            let value = combine(read(old.as_ptr(), *bytes), read(new.as_ptr(), *bytes), 0);
                            write(old.as_mut_ptr(), *bytes, value);
                        }
                    }
                }
                ReadCombine::Tensor(map, operation) => {
                    reduction::combine(*operation, map.element, memory, &data)
                        .map_err(|reason| Fault::new(Kind::IllegalInstruction, reason))?;
                }
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
            Op::BulkCommit => lanes(active).for_each(|lane| self.stores.committed[lane] += 1),
            Op::BulkWait { pending, only_read } => {
                let committed = self.stores.committed;
                let entries = std::mem::take(&mut self.stores.entries);
                for entry in entries {
                    let due = active >> entry.lane & 1 == 1 && entry.group + pending < committed[entry.lane];
                    match (due, only_read) {
                        (true, true) => {
                            let entry = self.read_store(machine, entry)?;
                            self.stores.entries.push(entry);
                        }
                        (true, false) => self.write_store(machine, entry)?,
                        (false, _) => self.stores.entries.push(entry),
                    }
                }
            }
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
                    machine.pending.push(Pending {
                        source: Source::Words { words, bytes: *bytes, combine },
                        targets: vec![(block, inner, barrier_block, barrier)],
                        who,
                        bytes: total as u32,
                    });
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

    /// Starts a bulk copy of a lane.
    fn issue(&mut self, machine: &mut Machine<'_>, bulk: &Bulk, lane: usize) -> Result<(), Fault> {
        let who = self.who(lane);
        let value = |warp: &Self, register: Register| warp.value(register, lane);
        match bulk {
            Bulk::Load { to, from, bytes, barrier, blocks } => {
                let bytes = value(self, *bytes) as usize;
                let place = self.shared_of(to, lane)?;
                let (block, inner) = machine.owner(self.block, place)?;
                let source = match from.space {
                    Space::Shared | Space::SharedCluster => {
                        let from = self.addresses(from)[lane];
                        machine.locate(who, Space::Shared, from, bytes, Does::Read)?;
                        multiple_of_16(from, bytes)?;
                        let (block, inner) = machine.owner(self.block, from)?;
                        Source::Shared(block, inner as usize, bytes)
                    }
                    _ => {
                        let from = self.addresses(from)[lane];
                        multiple_of_16(from, bytes)?;
                        machine.device(from, bytes)?;
                        Source::Device(from, bytes)
                    }
                };
                multiple_of_16(inner, bytes)?;
                machine.locate(who, Space::SharedCluster, place, bytes, Does::Async)?;
                let targets = self.targets(machine, (block, inner), barrier, *blocks, lane)?;
                machine.pending.push(Pending { source, targets, who, bytes: bytes as u32 });
            }
            Bulk::TensorLoad { to, map, coordinates, offsets, im2col, barrier, blocks } => {
                let map = self.tensor_map(machine, map, lane)?;
                let place = self.shared_of(to, lane)?;
                let (block, inner) = machine.owner(self.block, place)?;
                let at: Vec<i32> = coordinates.iter().map(|&c| value(self, c) as i32).collect();
                let offsets: Vec<u16> = offsets.iter().map(|&o| value(self, o) as u16).collect();
                let request = Request { shared: inner as u32, at: &at, offsets: im2col.then_some(&offsets) };
                let plan = tma::load(&map, &request).map_err(refused)?;
                check_plan(machine, block, &plan)?;
                let targets = self.targets(machine, (block, inner), barrier, *blocks, lane)?;
                let bytes = plan.bytes;
                machine.pending.push(Pending { source: Source::Tensor(plan), targets, who, bytes });
            }
            Bulk::Store { to, from, bytes, combine } => {
                let bytes = value(self, *bytes) as usize;
                let (to, from) = (self.addresses(to)[lane], self.shared_of(from, lane)?);
                multiple_of_16(to, bytes)?;
                multiple_of_16(from, bytes)?;
                machine.locate(who, Space::Shared, from, bytes, Does::Read)?;
                machine.device(to, bytes)?;
                let does = StoreDoes::Plain { to, from, bytes, combine: combine.clone() };
                let group = self.stores.committed[lane];
                self.stores.entries.push(StoreEntry { lane, group, does });
            }
            Bulk::TensorStore { from, map, coordinates, im2col, combine } => {
                let map = self.tensor_map(machine, map, lane)?;
                let from = self.shared_of(from, lane)?;
                let at: Vec<i32> = coordinates.iter().map(|&c| value(self, c) as i32).collect();
                let none = [0u16; 3];
                let offsets = im2col.then(|| &none[..at.len().saturating_sub(2)]);
                let plan = tma::store(&map, &Request { shared: from as u32, at: &at, offsets }).map_err(refused)?;
                check_plan(machine, self.block, &plan)?;
                let combine = combine.as_deref().map(|name| match name {
                    "min" => Operation::Min,
                    "max" => Operation::Max,
                    "inc" => Operation::Inc,
                    "dec" => Operation::Dec,
                    "and" => Operation::And,
                    "or" => Operation::Or,
                    "xor" => Operation::Xor,
                    _ => Operation::Add,
                });
                let group = self.stores.committed[lane];
                self.stores.entries.push(StoreEntry { lane, group, does: StoreDoes::Tensor { plan, map, combine } });
            }
        }
        Ok(())
    }

    /// A lane's address in shared memory of the cluster.
    fn shared_of(&self, address: &crate::decode::program::Address, lane: usize) -> Result<u64, Fault> {
        let place = self.addresses(address)[lane];
        match address.space {
            Space::Generic => match spaces::split(place) {
                (Space::SharedCluster, place) => Ok(place),
                _ => Err(Fault::new(Kind::IllegalAddress, format!("{place:#x} is not in shared memory"))),
            },
            _ => Ok(place),
        }
    }

    fn targets(
        &self,
        machine: &Machine<'_>,
        (block, inner): (usize, u64),
        barrier: &crate::decode::program::Address,
        blocks: Option<Register>,
        lane: usize,
    ) -> Result<Vec<(usize, u64, usize, u64)>, Fault> {
        let (barrier_block, barrier) = machine.owner(self.block, self.shared_of(barrier, lane)?)?;
        let Some(blocks) = blocks else { return Ok(vec![(block, inner, barrier_block, barrier)]) };
        let mask = self.value(blocks, lane) as u32 & 0xFFFF;
        if mask >> machine.blocks.len() != 0 {
            let reason = format!("multicast to the blocks {mask:#x} of a cluster of {}", machine.blocks.len());
            return Err(Fault::new(Kind::IllegalInstruction, reason));
        }
        Ok(lanes(mask).map(|block| (block, inner, block, barrier)).collect())
    }

    fn tensor_map(
        &self,
        machine: &mut Machine<'_>,
        map: &crate::decode::program::Address,
        lane: usize,
    ) -> Result<TensorMap, Fault> {
        let place = self.addresses(map)[lane];
        if place % 64 != 0 {
            return Err(Fault::new(Kind::Misaligned, format!("a tensor map at {place:#x}")));
        }
        let from = machine.locate(self.who(lane), Space::Generic, place, 128, Does::Read)?;
        // SAFETY: so many bytes were found.
        let bytes = unsafe { from.cast::<[u8; 128]>().read() };
        TensorMap::decode(&bytes).map_err(|reason| Fault::new(Kind::IllegalInstruction, reason))
    }
}

fn refused(fault: tma::Fault) -> Fault {
    match fault {
        tma::Fault::IllegalInstruction(reason) => Fault::new(Kind::IllegalInstruction, reason),
        tma::Fault::Misaligned(reason) => Fault::new(Kind::Misaligned, reason),
    }
}

fn multiple_of_16(address: u64, bytes: usize) -> Result<(), Fault> {
    if address % 16 == 0 && bytes % 16 == 0 {
        return Ok(());
    }
    let reason = format!("a bulk copy of {bytes} bytes at {address:#x}; both are multiples of 16");
    Err(Fault::new(Kind::Misaligned, reason))
}

/// Looks at all memory that a tensor's copy will touch, while the instruction is at hand.
fn check_plan(machine: &mut Machine<'_>, block: usize, plan: &Plan) -> Result<(), Fault> {
    let range = plan.shared_range();
    let size = machine.blocks[block].shared.len();
    if range.end as usize > size {
        let reason = format!("a box at {range:#x?} of shared memory, which ends at {size:#x}");
        return Err(Fault::new(Kind::IllegalAddress, reason));
    }
    for row in plan.rows.iter().filter(|row| !row.inside.is_empty()) {
        machine.device(row.global, row.inside.len())?;
    }
    Ok(())
}
