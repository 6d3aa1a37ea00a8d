//! Copies to shared memory on their way.

use super::Fault;
use super::access::{Does, Who, read, write};
use super::machine::Machine;
use crate::decode::program::Combine;
use crate::ptx::Space;
use crate::units::tma::Plan;

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
pub(super) struct ShownCombine(pub Combine);

impl std::fmt::Debug for ShownCombine {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("reduction")
    }
}

/// A copy to shared memory on its way.
#[derive(Debug)]
pub(super) struct Pending {
    pub source: Source,
    /// Blocks that it goes to, each with the address of the data and of the barrier's block and address.
    pub targets: Vec<(usize, u64, usize, u64)>,
    pub who: Who,
    pub bytes: u32,
    /// Whether others overtake it: it seldom lands before all wait for it.
    pub is_late: bool,
}

/// One copy in so many is late.
const LATE: usize = 6;
/// One time in so many a late copy lands all the same: a kernel that asks memory in a loop never waits.
const LATE_LANDS: usize = 60;

impl Machine<'_> {
    /// Starts a copy from what it reads to its targets.
    pub fn start_copy(&mut self, source: Source, targets: Vec<(usize, u64, usize, u64)>, who: Who, bytes: u32) {
        let is_late = self.random.one_in(LATE);
        self.pending.push(Pending { source, targets, who, bytes, is_late });
    }

    /// Lands any copy, unless it is late.
    pub fn land_any(&mut self) -> Result<(), Fault> {
        let at = self.random.below(self.pending.len());
        if self.pending[at].is_late && !self.random.one_in(LATE_LANDS) {
            return Ok(());
        }
        self.land(at)
    }

    /// Refuses copies to a block that has ended: another one's shared memory may be there by now.
    pub fn refuse_pending(&self, block: usize) -> Result<(), Fault> {
        let Some(copy) = self.pending.iter().find(|copy| copy.targets.iter().any(|target| target.0 == block)) else {
            return Ok(());
        };
        let (bytes, warp) = (copy.bytes, copy.who.warp);
        let reason = format!("the block ends while {bytes} bytes that warp {warp} copies to it are under way");
        Err(Fault::misuse(reason))
    }

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
