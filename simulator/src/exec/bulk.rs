//! Bulk copies: what starts them, and stores to device memory until they are written.

use super::access::{Does, read, write};
use super::machine::Machine;
use super::pending::Source;
use super::registers::{LANES, lanes};
use super::warp::Warp;
use super::{Fault, Kind, spaces};
use crate::decode::program::{Address, Bulk, Reduction, Register};
use crate::ptx::Space;
use crate::units::reduction::{self, Operation};
use crate::units::tensor_map::TensorMap;
use crate::units::tma::{self, Plan, Request};

/// Bulk stores of a warp.
#[derive(Debug, Default)]
pub(super) struct Stores {
    entries: Vec<StoreEntry>,
    /// Groups that each lane committed.
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

    /// Ends a group in these lanes.
    pub fn commit(&mut self, active: u32) {
        lanes(active).for_each(|lane| self.committed[lane] += 1);
    }
}

impl Warp {
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

    /// Waits until only so many groups are left, or only read.
    pub(super) fn wait_stores(
        &mut self,
        machine: &mut Machine<'_>,
        pending: u32,
        only_read: bool,
        active: u32,
    ) -> Result<(), Fault> {
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
        Ok(())
    }

    /// Starts a bulk copy of a lane.
    pub(super) fn issue(&mut self, machine: &mut Machine<'_>, bulk: &Bulk, lane: usize) -> Result<(), Fault> {
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
                machine.start_copy(source, targets, who, bytes as u32);
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
                machine.start_copy(Source::Tensor(plan), targets, who, bytes);
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
    fn shared_of(&self, address: &Address, lane: usize) -> Result<u64, Fault> {
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
        barrier: &Address,
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

    fn tensor_map(&self, machine: &mut Machine<'_>, map: &Address, lane: usize) -> Result<TensorMap, Fault> {
        let place = self.addresses(map)[lane];
        if !place.is_multiple_of(64) {
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
    if address.is_multiple_of(16) && bytes.is_multiple_of(16) {
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
