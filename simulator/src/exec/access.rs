//! Addresses: which memory they mean, and whether it is there.

use super::machine::Machine;
use super::registers::{LANES, lanes};
use super::{Fault, Kind, spaces};
use crate::decode::SHARED_START;
use crate::ptx::Space;

/// Who accesses memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Who {
    /// The block in the cluster.
    pub block: usize,
    /// The warp in the block.
    pub warp: usize,
    /// The lane in the warp.
    pub lane: usize,
}

/// What an access does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Does {
    Read,
    Write,
    /// By the async proxy, or at a barrier: no mark is left.
    Async,
}

impl Machine<'_> {
    /// The bytes behind an address, which are all there and aligned to their number, or to 16 for more.
    #[inline]
    pub fn locate(&mut self, who: Who, space: Space, address: u64, bytes: usize, does: Does) -> Result<*mut u8, Fault> {
        let (space, address) = if space == Space::Generic { spaces::split(address) } else { (space, address) };
        if bytes.is_power_of_two() && address & (bytes as u64 - 1) != 0 && bytes <= 16 {
            let reason = format!("{bytes} bytes at {address:#x} of {space:?} memory");
            return Err(Fault::new(Kind::Misaligned, reason));
        }
        match space {
            Space::Global | Space::Const | Space::Generic => self.device(address, bytes),
            Space::Shared | Space::SharedCluster => self.shared(who, address, bytes, does),
            Space::Local => {
                let size = self.launch.kernel.local_bytes as u64;
                if address > size || bytes as u64 > size - address {
                    let reason = format!("{bytes} bytes at {address:#x} of {size} bytes of local memory");
                    return Err(Fault::new(Kind::IllegalAddress, reason));
                }
                let thread = (32 * who.warp + who.lane) as u64;
                let local = &mut self.blocks[who.block].local;
                Ok(&raw mut local[(thread * size + address) as usize])
            }
            Space::Param => {
                let size = self.launch.params.len();
                if does != Does::Read {
                    return Err(Fault::new(Kind::IllegalAddress, "parameters are not written".to_owned()));
                }
                if address as usize > size || bytes > size - address as usize {
                    let reason = format!("{bytes} bytes at {address} of {size} bytes of parameters");
                    return Err(Fault::new(Kind::IllegalAddress, reason));
                }
                Ok(self.launch.params[address as usize..].as_ptr().cast_mut())
            }
        }
    }

    /// The bytes behind the addresses of several lanes, where all of them are at once found to be good: what is added
    /// to an address to make it a pointer. None when each has to be looked at.
    #[inline]
    pub fn locate_all(
        &mut self,
        who: Who,
        space: Space,
        addresses: &[u64; LANES],
        active: u32,
        bytes: usize,
        does: Does,
    ) -> Option<*mut u8> {
        let (base, start, end) = match space {
            Space::Global | Space::Generic | Space::Const => {
                let first = addresses[active.trailing_zeros() as usize];
                if !(self.last_hit.0..self.last_hit.1).contains(&first) {
                    self.device(first, 1).ok()?;
                }
                (std::ptr::null_mut(), self.last_hit.0, self.last_hit.1)
            }
            Space::Shared => {
                let shared = &mut self.blocks[who.block].shared;
                (shared.as_mut_ptr(), SHARED_START as u64, shared.len() as u64)
            }
            Space::Param if does == Does::Read => {
                (self.launch.params.as_ptr().cast_mut(), 0, self.launch.params.len() as u64)
            }
            _ => return None,
        };
        let (last, unaligned) = (end.checked_sub(bytes as u64)?, bytes as u64 - 1);
        if !bytes.is_power_of_two() || bytes > 16 {
            return None;
        }
        let mut bad = 0;
        for (lane, &address) in addresses.iter().enumerate() {
            let wrong = address < start || address > last || address & unaligned != 0;
            bad |= u32::from(wrong) << lane;
        }
        if bad & active != 0 {
            return None;
        }
        if space == Space::Shared && does == Does::Write {
            let block = &mut self.blocks[who.block];
            let mark = (who.warp as u32 + 1) | block.fences << 8;
            for lane in lanes(active) {
                block.writers[addresses[lane] as usize / 16] = mark;
            }
        }
        Some(base)
    }

    /// Device memory.
    #[inline]
    pub fn device(&mut self, address: u64, bytes: usize) -> Result<*mut u8, Fault> {
        let (start, end) = self.last_hit;
        if address >= start && address <= end && bytes as u64 <= end - address {
            return Ok(address as *mut u8);
        }
        match self.memory.find(address) {
            Some(found) if self.memory.holds(address, bytes) => {
                self.last_hit = (found.address(), found.address() + found.bytes() as u64);
                Ok(address as *mut u8)
            }
            _ => {
                let near = self.memory.neighbourhood(address);
                Err(Fault::new(Kind::IllegalAddress, format!("{bytes} bytes at {address:#x}, {near}")))
            }
        }
    }

    #[inline]
    fn shared(&mut self, who: Who, address: u64, bytes: usize, does: Does) -> Result<*mut u8, Fault> {
        let (owner, inner) = self.owner(who.block, address)?;
        let block = &mut self.blocks[owner];
        let size = block.shared.len() as u64;
        if inner < SHARED_START as u64 || inner > size || bytes as u64 > size - inner {
            let reason = format!("{bytes} bytes at {address:#x} of shared memory, which ends at {size:#x}");
            return Err(Fault::new(Kind::IllegalAddress, reason));
        }
        if owner != who.block && block.live_warps == 0 {
            let reason =
                format!("{bytes} bytes at {address:#x} in the shared memory of block {owner}, which has ended");
            return Err(Fault::new(Kind::IllegalAddress, reason));
        }
        if does == Does::Write {
            // Which warp wrote and after how many fences: a copy engine that reads this later needs a fence between.
            let warp = (owner == who.block) as u32 * (who.warp as u32 + 1);
            let mark = if warp == 0 { 0 } else { warp | block.fences << 8 };
            for chunk in inner as usize / 16..(inner as usize + bytes).div_ceil(16) {
                block.writers[chunk] = mark;
            }
        }
        Ok(&raw mut block.shared[inner as usize])
    }
}

/// Reads up to 8 bytes.
///
/// # Safety
/// So many bytes are there.
#[inline(always)]
pub(super) unsafe fn read(from: *const u8, bytes: usize) -> u64 {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => u64::from(*from),
            2 => u64::from(from.cast::<u16>().read_unaligned()),
            4 => u64::from(from.cast::<u32>().read_unaligned()),
            _ => from.cast::<u64>().read_unaligned(),
        }
    }
}

/// Writes up to 8 bytes.
///
/// # Safety
/// So many bytes are there.
#[inline(always)]
pub(super) unsafe fn write(to: *mut u8, bytes: usize, value: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        match bytes {
            1 => *to = value as u8,
            2 => to.cast::<u16>().write_unaligned(value as u16),
            4 => to.cast::<u32>().write_unaligned(value as u32),
            _ => to.cast::<u64>().write_unaligned(value),
        }
    }
}
