//! Barriers of blocks and clusters, and mbarriers.

use super::access::{Does, Who, read, write};
use super::machine::Machine;
use super::registers::{LANES, lanes};
use super::warp::{Flow, Wait, Warp};
use super::{Fault, Kind};
use crate::decode::program::{Address, Arrive, BarrierReduction, Op, Register};
use crate::ptx::Space;
use crate::units::mbarrier::Mbarrier;

impl Machine<'_> {
    /// Ends the phases of barriers that wait for nobody any more.
    pub fn settle_barriers(&mut self, block: usize) {
        let block = &mut self.blocks[block];
        let all = 32 * block.live_warps;
        for barrier in &mut block.barriers {
            if barrier.arrived > 0 && barrier.arrived >= barrier.expected.unwrap_or(all) {
                barrier.arrived = 0;
                barrier.expected = None;
                barrier.generation += 1;
                barrier.reduced = std::mem::replace(&mut barrier.reduction, (0, true, false));
                self.progress += 1;
            }
        }
        if self.cluster_arrived > 0 && self.cluster_arrived >= self.live_threads {
            self.cluster_arrived = 0;
            self.cluster_phase += 1;
            self.progress += 1;
        }
    }

    /// Changes the barrier at an address.
    pub fn update_barrier(
        &mut self,
        who: Who,
        space: Space,
        address: u64,
        change: impl FnOnce(Mbarrier) -> Result<Mbarrier, String>,
    ) -> Result<u64, Fault> {
        let place = self.locate(who, space, address, 8, Does::Async)?;
        // SAFETY: `locate` found 8 bytes.
        let word = unsafe { read(place, 8) };
        let new = Mbarrier::from_word(word).and_then(change);
        let new = new.map_err(|reason| Fault::misuse(format!("mbarrier at {address:#x}: {reason}")))?;
        // SAFETY: as above.
        unsafe { write(place, 8, new.word()) };
        self.progress += 1;
        Ok(word)
    }
}

impl Warp {
    pub(super) fn barrier(&mut self, machine: &mut Machine<'_>, op: &Op, active: u32) -> Result<Flow, Fault> {
        match op {
            Op::Barrier { id, threads, waits, aligned, reduction } => {
                if *aligned && active != self.live {
                    return Ok(Flow::Stay(Wait::Lanes(u32::MAX)));
                }
                let lane = active.trailing_zeros() as usize;
                let id = self.value(*id, lane) as usize;
                let threads = threads.map(|threads| self.value(threads, lane) as u32);
                if let Some((kind, guard, _)) = reduction {
                    let holds = self.holds(*guard, active);
                    let _ = kind;
                    let barrier = self.block_barrier(machine, id)?;
                    barrier.reduction.0 += holds.count_ones();
                    barrier.reduction.1 &= holds == active;
                    barrier.reduction.2 |= holds != 0;
                }
                self.arrive(machine, id, threads, active, *waits)
            }
            Op::ClusterArrive => {
                let lanes_here = active;
                if self.cluster_phase == machine.cluster_phase && self.cluster_arrived & lanes_here != 0 {
                    return Err(Fault::misuse("barrier.cluster.arrive for the second time without a wait"));
                }
                if self.cluster_phase != machine.cluster_phase {
                    (self.cluster_phase, self.cluster_arrived) = (machine.cluster_phase, 0);
                }
                self.cluster_arrived |= lanes_here;
                machine.cluster_arrived += lanes_here.count_ones();
                machine.progress += 1;
                machine.settle_barriers(self.block);
                Ok(Flow::Next)
            }
            Op::ClusterWait => {
                if self.cluster_arrived & active != active {
                    return Err(Fault::misuse("barrier.cluster.wait without an arrival"));
                }
                if machine.cluster_phase > self.cluster_phase {
                    return Ok(Flow::Next);
                }
                Ok(Flow::Stay(Wait::Cluster(self.cluster_phase)))
            }
            Op::ProxyFence => {
                let block = &mut machine.blocks[self.block];
                block.fences += 1;
                block.last_fence[self.index] = block.fences;
                Ok(Flow::Next)
            }
            _ => self.shared_barrier(machine, op, active),
        }
    }

    fn block_barrier<'m>(
        &self,
        machine: &'m mut Machine<'_>,
        id: usize,
    ) -> Result<&'m mut super::machine::BlockBarrier, Fault> {
        let barrier = machine.blocks[self.block].barriers.get_mut(id);
        barrier.ok_or_else(|| Fault::new(Kind::IllegalInstruction, format!("barrier {id} of 16")))
    }

    fn arrive(
        &mut self,
        machine: &mut Machine<'_>,
        id: usize,
        threads: Option<u32>,
        active: u32,
        waits: bool,
    ) -> Result<Flow, Fault> {
        // The hardware counts warps, also the last one of a block that is not full.
        let count = if active == self.live { LANES as u32 } else { active.count_ones() };
        let most = 32 * machine.launch.warps() as u32;
        let barrier = self.block_barrier(machine, id)?;
        if let Some(threads) = threads {
            if threads == 0 || threads % 32 != 0 || threads > most {
                return Err(Fault::new(
                    Kind::IllegalInstruction,
                    format!("barrier {id} for {threads} threads; a multiple of 32 up to {most} is expected"),
                ));
            }
            if barrier.expected.is_some_and(|expected| expected != threads) {
                return Err(Fault::misuse(format!(
                    "barrier {id} for {threads} threads, which others wait at for {:?}",
                    barrier.expected
                )));
            }
            barrier.expected = Some(threads);
        }
        barrier.arrived += count;
        if let Some(expected) = barrier.expected
            && barrier.arrived > expected
        {
            return Err(Fault::misuse(format!("{} threads arrive at barrier {id} of {expected}", barrier.arrived)));
        }
        let generation = barrier.generation;
        machine.progress += 1;
        machine.settle_barriers(self.block);
        if waits { Ok(Flow::Stay(Wait::Barrier(id, generation))) } else { Ok(Flow::Next) }
    }

    /// Gives a group that waited at a barrier the result of the reduction there.
    pub(super) fn take_reduction(&mut self, machine: &Machine<'_>, group: usize, id: usize) {
        let (pc, mask) = (self.groups[group].pc, self.groups[group].mask);
        let Op::Barrier { reduction: Some((kind, _, into)), .. } = &machine.launch.kernel.code[pc as usize].op else {
            return;
        };
        let (count, all, any) = machine.blocks[self.block].barriers[id].reduced;
        match (kind, into) {
            (BarrierReduction::Popc, Err(register)) => {
                lanes(mask).for_each(|lane| self.set(*register, lane, count.into()))
            }
            (kind, Ok(predicate)) => {
                let value = if *kind == BarrierReduction::And { all } else { any };
                self.registers.set_predicate(*predicate, mask, if value { u32::MAX } else { 0 });
            }
            _ => {}
        }
    }

    fn shared_barrier(&mut self, machine: &mut Machine<'_>, op: &Op, active: u32) -> Result<Flow, Fault> {
        match op {
            Op::BarrierInit(address, count) => {
                let places = self.addresses(address);
                for lane in lanes(active) {
                    let count = self.value(*count, lane) as u32;
                    let place = machine.locate(self.who(lane), address.space, places[lane], 8, Does::Async)?;
                    let barrier = Mbarrier::new(count).map_err(Fault::misuse)?;
                    // SAFETY: `locate` found 8 bytes.
                    unsafe { write(place, 8, barrier.word()) };
                    machine.progress += 1;
                }
            }
            Op::BarrierInvalidate(address) => {
                let places = self.addresses(address);
                for lane in lanes(active) {
                    machine.update_barrier(self.who(lane), address.space, places[lane], Ok)?;
                    let place = machine.locate(self.who(lane), address.space, places[lane], 8, Does::Async)?;
                    // SAFETY: `locate` found 8 bytes.
                    unsafe { write(place, 8, Mbarrier::INVALIDATED) };
                }
            }
            Op::BarrierArrive { address, kind, count, state } => {
                self.arrive_shared(machine, address, *kind, *count, *state, active)?;
            }
            Op::BarrierTest { address, state, is_parity, into } => {
                let places = self.addresses(address);
                let mut done = 0;
                for lane in lanes(active) {
                    let place = machine.locate(self.who(lane), address.space, places[lane], 8, Does::Read)?;
                    // SAFETY: `locate` found 8 bytes.
                    let word = unsafe { read(place, 8) };
                    let state = self.value(*state, lane);
                    let ended = Mbarrier::from_word(word).and_then(|barrier| {
                        if *is_parity {
                            Ok(barrier.phase_has_ended(state as u32))
                        } else {
                            barrier.phase_of_state_has_ended(state)
                        }
                    });
                    let ended =
                        ended.map_err(|reason| Fault::misuse(format!("mbarrier at {:#x}: {reason}", places[lane])))?;
                    done |= u32::from(ended) << lane;
                }
                self.registers.set_predicate(*into, active, done);
                if done != active {
                    return Ok(Flow::Yield);
                }
            }
            Op::BarrierPending { into, state } => {
                for lane in lanes(active) {
                    let pending = Mbarrier::from_word(self.value(*state, lane)).map_err(Fault::misuse)?.pending();
                    self.set(*into, lane, pending.into());
                }
            }
            _ => {}
        }
        Ok(Flow::Next)
    }

    fn arrive_shared(
        &mut self,
        machine: &mut Machine<'_>,
        address: &Address,
        kind: Arrive,
        count: Option<Register>,
        state: Option<Register>,
        active: u32,
    ) -> Result<(), Fault> {
        let places = self.addresses(address);
        for lane in lanes(active) {
            let number = count.map(|count| self.value(count, lane) as u32);
            let count = number.unwrap_or(1);
            let old = machine.update_barrier(self.who(lane), address.space, places[lane], |barrier| match kind {
                Arrive::Plain => barrier.arrive(count),
                Arrive::ExpectBytes => barrier.expect_bytes(count)?.arrive(1),
                Arrive::OnlyExpectBytes => barrier.expect_bytes(count),
                Arrive::Drop => barrier.arrive_drop(count),
                Arrive::NoComplete => barrier.arrive_without_completing(count),
            })?;
            if let Some(state) = state {
                self.set(state, lane, old);
            }
        }
        Ok(())
    }
}
