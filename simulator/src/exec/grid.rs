//! A launch: clusters of blocks, their warps taking turns.
//!
//! Clusters run one after another. When one cannot go on, the next ones are started beside it, as many as the device
//! would hold, since blocks may wait for one another. The order of turns, their length, and when copies land come from
//! a seed.

use super::machine::Machine;
use super::tensor::{WARPS, advance};
use super::warp::{Turn, Wait, Warp};
use super::{Fault, Kind, Random, Table};
use crate::decode::program::Kernel;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

/// A kernel with everything it needs.
#[derive(Debug)]
pub struct Launch {
    /// The kernel.
    pub kernel: Arc<Kernel>,
    /// Its parameters, as they lie in memory.
    pub params: Vec<u8>,
    /// Blocks.
    pub grid: [u32; 3],
    /// Threads of a block.
    pub block: [u32; 3],
    /// Blocks of a cluster.
    pub cluster: [u32; 3],
    /// Whether the launch or kernel asked for clusters.
    pub explicit_cluster: bool,
    /// Shared memory beside the kernel's own.
    pub dynamic_shared: usize,
    /// Device memory at the launch.
    pub memory: Arc<Table>,
    /// Multiprocessors.
    pub sms: u32,
    /// Clusters that the device holds at a time.
    pub resident: usize,
    /// Determines all that hardware leaves open.
    pub seed: u64,
    /// When to give up.
    pub deadline: Instant,
    /// Whether reads of the async proxy without a fence stop the kernel.
    pub checks_fences: bool,
}

impl Launch {
    /// Threads of a block.
    pub fn threads(&self) -> usize {
        self.block.iter().product::<u32>() as usize
    }

    /// Warps of a block.
    pub fn warps(&self) -> usize {
        self.threads().div_ceil(32)
    }

    /// A block's number.
    pub fn number_of(&self, [x, y, z]: [u32; 3]) -> u32 {
        x.wrapping_add(self.grid[0].wrapping_mul(y.wrapping_add(self.grid[1].wrapping_mul(z))))
    }

    /// The blocks of a cluster by its number.
    fn blocks_of(&self, number: u64) -> Vec<[u32; 3]> {
        let counts: [u64; 3] = std::array::from_fn(|i| u64::from(self.grid[i] / self.cluster[i]));
        let at = [number % counts[0], number / counts[0] % counts[1], number / (counts[0] * counts[1])];
        let [dx, dy, dz] = self.cluster;
        let block = |x, y, z| {
            let inner = [x, y, z];
            std::array::from_fn(|i| at[i] as u32 * self.cluster[i] + inner[i])
        };
        (0..dz).flat_map(|z| (0..dy).flat_map(move |y| (0..dx).map(move |x| block(x, y, z)))).collect()
    }
}

/// So many rounds without anything happening are a deadlock.
const MOST_IDLE_ROUNDS: u32 = 3000;
/// Turns are at least and at most so long.
const TURN: (u32, usize) = (100, 1900);

struct Cluster<'l> {
    machine: Machine<'l>,
    warps: Vec<Warp>,
    ended: Vec<bool>,
    order: Vec<usize>,
    idle: u32,
}

/// Runs a kernel to its end and gives the instructions that its warps executed.
///
/// # Errors
/// What stopped it.
pub fn run(launch: &Launch) -> Result<u64, Fault> {
    let total: u64 = (0..3).map(|i| u64::from(launch.grid[i] / launch.cluster[i])).product();
    let mut random = Random::new(launch.seed);
    let (mut next, mut executed) = (0, 0);
    let mut running: Vec<Cluster<'_>> = Vec::new();
    loop {
        let stalled = running.iter().all(|cluster| cluster.idle > 0);
        if stalled && next < total && running.len() < launch.resident.max(1) {
            running.push(Cluster::new(launch, next, random.next()));
            next += 1;
        }
        if running.is_empty() {
            return Ok(executed);
        }
        for cluster in &mut running {
            cluster.round()?;
            executed += std::mem::take(&mut cluster.machine.executed);
        }
        running.retain(|cluster| !cluster.ended.iter().all(|&ended| ended));
        let started_all = next == total || running.len() >= launch.resident.max(1);
        if !running.is_empty() && started_all && running.iter().all(|cluster| cluster.idle > MOST_IDLE_ROUNDS) {
            let reports: String = running.iter().map(Cluster::report).collect();
            return Err(Fault::new(Kind::Timeout, format!("deadlock of {}: {reports}", launch.kernel.name)));
        }
        if Instant::now() > launch.deadline {
            let reports: String = running.iter().map(Cluster::report).collect();
            return Err(Fault::new(Kind::Timeout, format!("{} takes too long: {reports}", launch.kernel.name)));
        }
    }
}

impl<'l> Cluster<'l> {
    fn new(launch: &'l Launch, number: u64, seed: u64) -> Self {
        let machine = Machine::new(launch, launch.blocks_of(number), seed);
        let places = (0..machine.blocks.len()).flat_map(|block| (0..launch.warps()).map(move |warp| (block, warp)));
        let warps: Vec<Warp> = places.map(|(block, warp)| Warp::new(&machine, block, warp)).collect();
        Cluster { ended: vec![false; warps.len()], order: (0..warps.len()).collect(), machine, warps, idle: 0 }
    }

    /// Every warp has a turn.
    fn round(&mut self) -> Result<(), Fault> {
        let before = self.machine.progress;
        let mut works = false;
        self.order.retain(|&i| !self.ended[i]);
        let n = self.order.len();
        let mut order = std::mem::take(&mut self.order);
        for i in (1..n).rev() {
            order.swap(i, self.machine.random.below(i + 1));
        }
        for &i in &order {
            let budget = TURN.0 + self.machine.random.below(TURN.1) as u32;
            let turn = self.warps[i].run(&mut self.machine, budget)?;
            works |= turn == Turn::Over;
            if turn == Turn::Ended {
                self.ended[i] = true;
                self.finish(i)?;
            }
            self.beside(i)?;
        }
        self.order = order;
        let happened = works || self.machine.progress != before;
        if happened || self.force()? {
            self.idle = 0;
        } else {
            self.idle += 1;
        }
        Ok(())
    }

    /// What goes on beside a warp's turn, or does not, as the seed has it.
    fn beside(&mut self, i: usize) -> Result<(), Fault> {
        let machine = &mut self.machine;
        while !machine.pending.is_empty() && machine.random.one_in(3) {
            machine.land_any()?;
        }
        let warp = &mut self.warps[i];
        if warp.copies.len() > 0 && machine.random.one_in(4) {
            let count = machine.random.below(warp.copies.len() + 1);
            warp.land_copies(machine, count)?;
        }
        if warp.stores.len() > 0 && machine.random.one_in(4) {
            let count = machine.random.below(warp.stores.len() + 1);
            warp.land_stores(machine, count)?;
        }
        if machine.random.one_in(3) {
            self.products(i)?;
        }
        Ok(())
    }

    /// Does the products that the warpgroup of a warp has committed.
    fn products(&mut self, i: usize) -> Result<bool, Fault> {
        if self.warps[i].products.committed.is_empty() {
            return Ok(false);
        }
        let per_block = self.machine.launch.warps();
        let first = i - i % per_block % WARPS;
        let end = (first + WARPS).min(i - i % per_block + per_block);
        advance(&mut self.machine, &mut self.warps[first..end])
    }

    /// Does what all wait for; whether there was anything.
    fn force(&mut self) -> Result<bool, Fault> {
        let mut did = false;
        for i in (0..self.warps.len()).step_by(1) {
            let waits = self.warps[i].groups.iter().any(|group| matches!(group.wait, Wait::Products(_)));
            did |= waits && self.products(i)?;
        }
        if did {
            return Ok(true);
        }
        let machine = &mut self.machine;
        if !machine.pending.is_empty() {
            let at = machine.random.below(machine.pending.len());
            machine.land(at)?;
            return Ok(true);
        }
        for warp in &mut self.warps {
            if warp.copies.len() + warp.stores.len() > 0 {
                let (copies, stores) = (warp.copies.len(), warp.stores.len());
                warp.land_copies(machine, copies)?;
                warp.land_stores(machine, stores)?;
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// A warp's stores are done at the latest when it has ended.
    fn finish(&mut self, i: usize) -> Result<(), Fault> {
        let count = self.warps[i].stores.len();
        self.warps[i].land_stores(&mut self.machine, count)?;
        let count = self.warps[i].copies.len();
        self.warps[i].land_copies(&mut self.machine, count)?;
        let block = self.warps[i].block;
        if self.machine.blocks[block].live_warps == 0 { self.machine.refuse_pending(block) } else { Ok(()) }
    }

    /// Which warps wait for what.
    fn report(&self) -> String {
        let code = &self.machine.launch.kernel.code;
        let mut text = String::new();
        for warp in self.warps.iter().filter(|warp| warp.live != 0) {
            for group in &warp.groups {
                let line = code.get(group.pc as usize).map_or(0, |inst| inst.line);
                let what = match group.wait {
                    Wait::No => "asks in vain".to_owned(),
                    Wait::Lanes(lanes) => format!("waits for the lanes {lanes:#010x}"),
                    Wait::WarpBarrier(lanes) => format!("waits at bar.warp.sync for the lanes {lanes:#010x}"),
                    Wait::Barrier(id, _) => {
                        let barrier = &self.machine.blocks[warp.block].barriers[id];
                        format!("waits at barrier {id}, {} of {:?} threads there", barrier.arrived, barrier.expected)
                    }
                    Wait::Cluster(_) => {
                        format!("waits at the cluster's barrier, {} there", self.machine.cluster_arrived)
                    }
                    Wait::Products(n) => format!("waits for {n} groups of products"),
                };
                let block = self.machine.blocks[warp.block].index;
                // Writing to a string does not fail.
                let _ = write!(
                    text,
                    "\n  block {block:?} warp {} lanes {:#010x} at PTX line {line} {what}",
                    warp.index, group.mask
                );
            }
        }
        text
    }
}
