//! A warp: lanes that go together as long as they go the same way.
//!
//! Lanes at the same place in the code are a group. The group with the least place goes first, so that groups meet
//! again where their ways do. A group that waits, or that asks in vain for something others have to do, is put back
//! until these have had their turn.

use super::access::Who;
use super::asynchronous::Copies;
use super::bulk::Stores;
use super::machine::Machine;
use super::registers::{LANES, Registers};
use super::tensor::Products;
use super::{Fault, Kind};
use crate::decode::holding;
use crate::decode::program::{Guard, Inst, Op, Special};
use std::sync::Arc;

/// Why a group does not go on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// It can.
    No,
    /// These lanes have to come to the same instruction.
    Lanes(u32),
    /// These lanes have to come to a `bar.warp.sync`.
    WarpBarrier(u32),
    /// A barrier of the block in this generation.
    Barrier(usize, u64),
    /// The cluster's barrier in this phase.
    Cluster(u64),
    /// So many groups of products of the warpgroup have to be done.
    Products(u32),
}

/// Lanes at one place.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub pc: u32,
    pub mask: u32,
    pub wait: Wait,
    /// It asked in vain in this turn.
    pub polled: bool,
}

/// How a turn ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Turn {
    /// It may go on.
    Over,
    /// It asked in vain.
    Polled,
    /// It waits.
    Waits,
    /// All its lanes have ended.
    Ended,
}

/// What follows an instruction.
pub(super) enum Flow {
    Next,
    /// The group stays where it is until something happened.
    Stay(Wait),
    /// The group goes on, after others had their turn.
    Yield,
}

/// A warp.
pub(super) struct Warp {
    pub block: usize,
    /// Its number in the block.
    pub index: usize,
    pub registers: Registers,
    pub live: u32,
    pub groups: Vec<Group>,
    pub copies: Copies,
    pub stores: Stores,
    pub products: Products,
    /// The phase of the cluster's barrier in which the lanes last arrived, and which of them.
    pub cluster_phase: u64,
    pub cluster_arrived: u32,
    /// Loads that may wait for other threads in this turn.
    polls: u32,
}

/// So many loads that may wait for somebody end a turn.
const MOST_POLLS: u32 = 16;

impl Warp {
    pub fn new(machine: &Machine<'_>, block: usize, index: usize) -> Self {
        let launch = machine.launch;
        let kernel = &launch.kernel;
        let [n32, n64, n_predicates] = kernel.n_registers;
        let mut registers = Registers::new(n32, n64, n_predicates, Arc::clone(&kernel.constants));
        let threads = launch.threads();
        let live = match threads - (32 * index).min(threads) {
            left @ 0..LANES => (1u32 << left) - 1,
            _ => u32::MAX,
        };
        let ctaid = machine.blocks[block].index;
        for &(special, register) in &kernel.specials {
            for lane in 0..LANES {
                let value = value_of(machine, special, ctaid, block, index, lane);
                match register {
                    crate::decode::program::Register::W32(at) => registers.w32_mut(at)[lane] = value,
                    crate::decode::program::Register::W64(at) => registers.w64_mut(at)[lane] = u64::from(value),
                }
            }
        }
        for &(_, predicate) in &kernel.special_predicates {
            registers.set_predicate(predicate, u32::MAX, if launch.explicit_cluster { u32::MAX } else { 0 });
        }
        Warp {
            block,
            index,
            registers,
            live,
            groups: vec![Group { pc: 0, mask: live, wait: Wait::No, polled: false }],
            copies: Copies::default(),
            stores: Stores::default(),
            products: Products::default(),
            cluster_phase: 0,
            cluster_arrived: 0,
            polls: 0,
        }
    }

    pub fn who(&self, lane: usize) -> Who {
        Who { block: self.block, warp: self.index, lane }
    }

    /// Executes up to `budget` instructions.
    pub fn run(&mut self, machine: &mut Machine<'_>, most: u32) -> Result<Turn, Fault> {
        let mut budget = most;
        let outcome = self.go_on(machine, &mut budget);
        machine.executed += u64::from(most - budget);
        outcome
    }

    fn go_on(&mut self, machine: &mut Machine<'_>, budget: &mut u32) -> Result<Turn, Fault> {
        let launch = machine.launch;
        let code = &launch.kernel.code;
        self.groups.iter_mut().for_each(|group| group.polled = false);
        self.polls = 0;
        loop {
            let chosen = match self.choose(machine) {
                Ok(chosen) => chosen,
                Err(turn) => return Ok(turn),
            };
            let Group { mut pc, mut mask, .. } = self.groups[chosen];
            let others = self.groups.iter().enumerate().filter(|&(i, other)| i != chosen && other.pc > pc);
            let limit = others.map(|(_, other)| other.pc).min().unwrap_or(u32::MAX);
            let end;
            (pc, mask, end) = self.straight(machine, code, pc, mask, limit, budget);
            let group = &mut self.groups[chosen];
            (group.pc, group.mask) = (pc, mask);
            match end {
                End::Choose => {}
                End::Budget => return Ok(Turn::Over),
                End::Wait(wait) => group.wait = wait,
                End::Yield => group.polled = true,
                End::Fault(fault) => return Err(self.located(machine, code[pc as usize].line, fault)),
            }
        }
    }

    fn located(&self, machine: &Machine<'_>, line: u32, fault: Fault) -> Fault {
        let block = machine.blocks[self.block].index;
        let name = &machine.launch.kernel.name;
        let reason = format!("{} (kernel {name}, block {block:?}, warp {}, PTX line {line})", fault.reason, self.index);
        Fault { reason, ..fault }
    }

    /// Merges groups that met, ends waits that are over, and gives the group that goes next.
    fn choose(&mut self, machine: &mut Machine<'_>) -> Result<usize, Turn> {
        self.groups.retain(|group| group.mask != 0);
        if self.groups.is_empty() {
            return Err(Turn::Ended);
        }
        if self.groups.len() > 1 {
            self.groups.sort_by_key(|group| group.pc);
            let is_here = |wait| matches!(wait, Wait::No | Wait::Lanes(_));
            self.groups.dedup_by(|later, earlier| {
                let meet = later.pc == earlier.pc && is_here(later.wait) && is_here(earlier.wait);
                if meet {
                    earlier.mask |= later.mask;
                    earlier.wait = Wait::No;
                    earlier.polled &= later.polled;
                }
                meet
            });
        }
        for i in 0..self.groups.len() {
            self.end_wait(machine, i);
        }
        let ready = |group: &&Group| group.wait == Wait::No;
        match self.groups.iter().position(|group| group.wait == Wait::No && !group.polled) {
            Some(chosen) => Ok(chosen),
            None if self.groups.iter().find(ready).is_some() => Err(Turn::Polled),
            None => Err(Turn::Waits),
        }
    }

    /// Lets a group go on whose wait is over.
    fn end_wait(&mut self, machine: &mut Machine<'_>, i: usize) {
        let Group { wait, mask, .. } = self.groups[i];
        let over = match wait {
            Wait::No => return,
            // The instruction is executed again, now by all.
            Wait::Lanes(lanes) => {
                if lanes & self.live & !mask == 0 {
                    self.groups[i].wait = Wait::No;
                }
                return;
            }
            Wait::WarpBarrier(lanes) => {
                let here = |group: &&mut Group| group.wait == Wait::WarpBarrier(lanes);
                let there: u32 = self.groups.iter_mut().filter(here).map(|group| group.mask).fold(0, |a, b| a | b);
                if lanes & self.live & !there == 0 {
                    for group in self.groups.iter_mut().filter(here) {
                        group.wait = Wait::No;
                        group.pc += 1;
                    }
                }
                return;
            }
            Wait::Barrier(id, generation) => machine.blocks[self.block].barriers[id].generation > generation,
            Wait::Cluster(phase) => machine.cluster_phase > phase,
            Wait::Products(done) => self.products.done >= done,
        };
        if over {
            if let Wait::Barrier(id, _) = wait {
                self.take_reduction(machine, i, id);
            }
            self.groups[i].wait = Wait::No;
            self.groups[i].pc += 1;
        }
    }

    /// Executes one group until it jumps back, meets another place, or stops.
    fn straight(
        &mut self,
        machine: &mut Machine<'_>,
        code: &[Inst],
        mut pc: u32,
        mut mask: u32,
        limit: u32,
        budget: &mut u32,
    ) -> (u32, u32, End) {
        loop {
            if pc >= limit {
                return (pc, mask, End::Choose);
            }
            if *budget == 0 {
                return (pc, mask, End::Budget);
            }
            *budget -= 1;
            let inst = &code[pc as usize];
            let active = match inst.guard {
                None => mask,
                Some(guard) => mask & holding(&self.registers, guard),
            };
            match &inst.op {
                Op::Compute(compute, at) => {
                    if active != 0 {
                        compute(&mut self.registers, active, at);
                    }
                    pc += 1;
                }
                _ if active == 0 => pc += 1,
                Op::Jump(target) => {
                    if active != mask {
                        self.split(*target, active);
                        return (pc + 1, mask & !active, End::Choose);
                    }
                    let backwards = *target <= pc;
                    pc = *target;
                    if backwards && self.groups.len() > 1 {
                        return (pc, mask, End::Choose);
                    }
                }
                Op::Nothing => pc += 1,
                Op::Table(index, targets) => {
                    let index = *self.registers.w32(index.index());
                    for (i, &target) in targets.iter().enumerate() {
                        let lanes = super::registers::lanes(active).filter(|&lane| index[lane] as usize == i);
                        let lanes = lanes.fold(0, |mask, lane| mask | 1 << lane);
                        if lanes != 0 {
                            self.split(target, lanes);
                        }
                    }
                    let beyond = super::registers::lanes(active).find(|&lane| index[lane] as usize >= targets.len());
                    if let Some(lane) = beyond {
                        let reason = format!("entry {} of a table of {} jumps", index[lane], targets.len());
                        return (pc, mask, End::Fault(Fault::new(Kind::IllegalInstruction, reason)));
                    }
                    return (pc + 1, mask & !active, End::Choose);
                }
                Op::Exit => {
                    self.end_lanes(machine, active);
                    return (pc + 1, mask & !active, End::Choose);
                }
                Op::Trap => {
                    let lane = active.trailing_zeros();
                    let fault = Fault::misuse(format!("trap in lane {lane}: the program gave up"));
                    return (pc, mask, End::Fault(fault));
                }
                op => {
                    // Those that do not take part go on, and are met behind the instruction.
                    let splits = active != mask && is_collective(op);
                    if splits {
                        self.split(pc + 1, mask & !active);
                        mask = active;
                    }
                    match self.execute(machine, op, active, mask) {
                        Ok(Flow::Next) => pc += 1,
                        Ok(Flow::Stay(wait)) => return (pc, mask, End::Wait(wait)),
                        Ok(Flow::Yield) => return (pc + 1, mask, End::Yield),
                        Err(fault) => return (pc, mask, End::Fault(fault)),
                    }
                    if splits {
                        return (pc, mask, End::Choose);
                    }
                }
            }
        }
    }

    fn split(&mut self, pc: u32, mask: u32) {
        self.groups.push(Group { pc, mask, wait: Wait::No, polled: false });
    }

    /// Counts a load that may wait for somebody.
    pub fn polls(&mut self) -> Flow {
        self.polls += 1;
        if self.polls.is_multiple_of(MOST_POLLS) { Flow::Yield } else { Flow::Next }
    }

    fn end_lanes(&mut self, machine: &mut Machine<'_>, lanes: u32) {
        self.live &= !lanes;
        machine.live_threads -= lanes.count_ones();
        if self.cluster_phase == machine.cluster_phase {
            machine.cluster_arrived -= (self.cluster_arrived & lanes).count_ones();
        }
        self.cluster_arrived &= !lanes;
        machine.progress += 1;
        if self.live == 0 {
            machine.blocks[self.block].live_warps -= 1;
        }
        machine.settle_barriers(self.block);
    }

    /// The value of a condition in the lanes of a mask.
    pub fn holds(&self, guard: Guard, mask: u32) -> u32 {
        holding(&self.registers, guard) & mask
    }

    fn execute(&mut self, machine: &mut Machine<'_>, op: &Op, active: u32, mask: u32) -> Result<Flow, Fault> {
        match op {
            Op::Load { .. } | Op::Store { .. } | Op::Atomic { .. } => self.memory(machine, op, active),
            Op::Sleep => Ok(Flow::Yield),
            Op::Clock(into) => {
                machine.clock += 20;
                let now = machine.clock;
                for lane in super::registers::lanes(active) {
                    match *into {
                        crate::decode::program::Register::W32(at) => self.registers.w32_mut(at)[lane] = now as u32,
                        crate::decode::program::Register::W64(at) => self.registers.w64_mut(at)[lane] = now,
                    }
                }
                Ok(Flow::Next)
            }
            Op::Shuffle { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Redux { .. }
            | Op::ActiveMask(_)
            | Op::Elect { .. }
            | Op::WarpBarrier(_) => self.collective(op, active),
            Op::Barrier { .. }
            | Op::ClusterArrive
            | Op::ClusterWait
            | Op::ProxyFence
            | Op::BarrierInit(..)
            | Op::BarrierInvalidate(_)
            | Op::BarrierArrive { .. }
            | Op::BarrierTest { .. }
            | Op::BarrierPending { .. } => self.barrier(machine, op, active),
            Op::MatrixLoad { .. }
            | Op::MatrixStore { .. }
            | Op::Mma(_)
            | Op::WgmmaFence
            | Op::Wgmma(_)
            | Op::WgmmaCommit
            | Op::WgmmaWait(_) => {
                if mask != self.live {
                    return Ok(Flow::Stay(Wait::Lanes(u32::MAX)));
                }
                self.tensor(machine, op)
            }
            _ => self.asynchronous(machine, op, active),
        }
    }
}

/// How [`Warp::straight`] ended.
enum End {
    Choose,
    Budget,
    Wait(Wait),
    Yield,
    Fault(Fault),
}

/// Whether lanes execute an instruction together.
fn is_collective(op: &Op) -> bool {
    matches!(
        op,
        Op::Shuffle { .. }
            | Op::Vote { .. }
            | Op::Match { .. }
            | Op::Redux { .. }
            | Op::Elect { .. }
            | Op::WarpBarrier(_)
            | Op::Barrier { .. }
            | Op::ClusterArrive
            | Op::ClusterWait
            | Op::BarrierTest { .. }
            | Op::MatrixLoad { .. }
            | Op::MatrixStore { .. }
            | Op::Mma(_)
            | Op::WgmmaFence
            | Op::Wgmma(_)
            | Op::WgmmaCommit
            | Op::WgmmaWait(_)
    )
}

fn value_of(machine: &Machine<'_>, special: Special, ctaid: [u32; 3], block: usize, warp: usize, lane: usize) -> u32 {
    let launch = machine.launch;
    let [x, y, _] = launch.block;
    let thread = (32 * warp + lane) as u32;
    let within =
        |extents: [u32; 3], at: u32| [at % extents[0], at / extents[0] % extents[1], at / (extents[0] * extents[1])];
    match special {
        Special::Tid(axis) => [thread % x, thread / x % y, thread / (x * y)][axis],
        Special::Ntid(axis) => launch.block[axis],
        Special::Ctaid(axis) => ctaid[axis],
        Special::Nctaid(axis) => launch.grid[axis],
        Special::Laneid => lane as u32,
        Special::Warpid => warp as u32,
        Special::Nwarpid => launch.warps() as u32,
        Special::Smid => launch.number_of(ctaid) % launch.sms,
        Special::Nsmid => launch.sms,
        Special::Gridid | Special::Zero => 0,
        Special::LanemaskEq => 1 << lane,
        Special::LanemaskLt => (1 << lane) - 1,
        Special::LanemaskLe => u32::MAX >> (31 - lane),
        Special::LanemaskGe => u32::MAX << lane,
        Special::LanemaskGt => (u64::from(u32::MAX) << (lane + 1)) as u32,
        Special::Clusterid(axis) => ctaid[axis] / launch.cluster[axis],
        Special::Nclusterid(axis) => launch.grid[axis] / launch.cluster[axis],
        Special::ClusterCtaid(axis) => within(launch.cluster, block as u32)[axis],
        Special::ClusterNctaid(axis) => launch.cluster[axis],
        Special::ClusterCtarank => block as u32,
        Special::ClusterNctarank => launch.cluster.iter().product(),
        Special::IsExplicitCluster => launch.explicit_cluster.into(),
        Special::DynamicSmemSize => launch.dynamic_shared as u32,
        Special::TotalSmemSize => (launch.dynamic_shared + launch.kernel.shared_bytes) as u32,
    }
}
