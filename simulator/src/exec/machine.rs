//! The state of a cluster that its warps share.

use super::pending::Pending;
use super::{Fault, Launch, Random, Table};
use crate::decode::SHARED_START;
use std::sync::Arc;

/// What shared memory holds before it is written: NaN, and no address.
const PATTERN: u8 = 0xF9;

/// A barrier of a block.
#[derive(Clone, Debug, Default)]
pub(super) struct BlockBarrier {
    /// Threads that arrived in this generation.
    pub arrived: u32,
    /// How many are waited for; None for the whole block.
    pub expected: Option<u32>,
    /// How often it was passed.
    pub generation: u64,
    /// What the generation's reduction has so far: a count, and a conjunction and disjunction.
    pub reduction: (u32, bool, bool),
    /// What the last generation's reduction gave.
    pub reduced: (u32, bool, bool),
}

/// A block.
#[derive(Debug)]
pub(super) struct Block {
    pub index: [u32; 3],
    /// From address 0 on; the first KiB is nobody's.
    pub shared: Vec<u8>,
    pub local: Vec<u8>,
    pub barriers: Vec<BlockBarrier>,
    pub live_warps: u32,
    /// For every 16 bytes of shared memory who wrote them last with an ordinary store, and when; 0 for nobody.
    pub writers: Vec<u32>,
    /// Counts the fences of the async proxy.
    pub fences: u32,
    /// When each warp had its last one.
    pub last_fence: Vec<u32>,
}

/// The state of a cluster that its warps share.
pub(super) struct Machine<'l> {
    pub launch: &'l Launch,
    pub memory: Arc<Table>,
    /// Bounds of the allocation that was found last.
    pub last_hit: (u64, u64),
    pub blocks: Vec<Block>,
    pub pending: Vec<Pending>,
    pub random: Random,
    /// Counts what others may wait for.
    pub progress: u64,
    /// The cluster's barrier: threads that arrived and its phase.
    pub cluster_arrived: u32,
    pub cluster_phase: u64,
    pub live_threads: u32,
    /// Instructions of all warps.
    pub executed: u64,
    /// Time for `%clock`.
    pub clock: u64,
}

impl<'l> Machine<'l> {
    pub fn new(launch: &'l Launch, blocks: Vec<[u32; 3]>, seed: u64) -> Self {
        let n_warps = launch.warps() as u32;
        let shared = SHARED_START + launch.kernel.shared_bytes + launch.dynamic_shared;
        let local = launch.kernel.local_bytes * launch.threads();
        let new = |index| Block {
            index,
            shared: vec![PATTERN; shared],
            local: vec![PATTERN; local],
            barriers: vec![BlockBarrier { reduction: (0, true, false), ..BlockBarrier::default() }; 16],
            live_warps: n_warps,
            writers: vec![0; shared.div_ceil(16)],
            fences: 0,
            last_fence: vec![0; n_warps as usize],
        };
        let blocks: Vec<Block> = blocks.into_iter().map(new).collect();
        Machine {
            launch,
            memory: launch.memory.clone(),
            last_hit: (1, 0),
            pending: Vec::new(),
            random: Random::new(seed),
            progress: 0,
            cluster_arrived: 0,
            cluster_phase: 0,
            live_threads: (blocks.len() * launch.threads()) as u32,
            executed: 0,
            clock: 0,
            blocks,
        }
    }

    /// The block that an address in shared memory of the cluster belongs to, and the address there.
    pub fn owner(&self, own: usize, address: u64) -> Result<(usize, u64), Fault> {
        let rank = (address >> super::spaces::RANK_SHIFT) as usize;
        let inner = address & ((1 << super::spaces::RANK_SHIFT) - 1);
        match rank {
            0 => Ok((own, inner)),
            rank if rank <= self.blocks.len() => Ok((rank - 1, inner)),
            _ => Err(Fault::new(
                super::Kind::IllegalAddress,
                format!("address {address:#x} in shared memory names block {} of {}", rank - 1, self.blocks.len()),
            )),
        }
    }
}
