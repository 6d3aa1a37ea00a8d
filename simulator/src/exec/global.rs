//! Device memory: allocations of the host, at their own addresses.

use std::alloc::{Layout, alloc, dealloc};
use std::sync::Arc;

/// Where allocations begin, as a driver's do.
const ALIGN: usize = 512;
/// Allocations keep this distance, so that small overruns hit nothing.
const GUARD: usize = 512;
/// What fresh memory holds: NaN in most types.
const PATTERN: u8 = 0xFF;

/// A piece of device memory.
#[derive(Debug)]
pub struct Allocation {
    start: *mut u8,
    bytes: usize,
}

// SAFETY: it is only an address and a size; who reads and writes the memory is the simulated program's business, as on
// a device.
unsafe impl Send for Allocation {}
// SAFETY: as above.
unsafe impl Sync for Allocation {}

impl Allocation {
    fn layout(bytes: usize) -> Option<Layout> {
        Layout::from_size_align(bytes.checked_add(GUARD)?, ALIGN).ok()
    }

    /// Fresh memory; None when the host has none left.
    pub fn new(bytes: usize) -> Option<Self> {
        let layout = Self::layout(bytes)?;
        // SAFETY: the layout has a size.
        let start = unsafe { alloc(layout) };
        if start.is_null() {
            return None;
        }
        // SAFETY: so many bytes were just allocated.
        unsafe { start.write_bytes(PATTERN, layout.size()) };
        Some(Allocation { start, bytes })
    }

    /// Its address.
    pub fn address(&self) -> u64 {
        self.start as u64
    }

    /// Its size.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Some(layout) = Self::layout(self.bytes) {
            // SAFETY: it was allocated with this layout.
            unsafe { dealloc(self.start, layout) };
        }
    }
}

/// All allocations at a moment, by address.
#[derive(Clone, Debug, Default)]
pub struct Table {
    entries: Vec<Arc<Allocation>>,
}

impl Table {
    /// With one more.
    pub fn insert(&mut self, allocation: Allocation) {
        let at = self.entries.partition_point(|entry| entry.address() < allocation.address());
        self.entries.insert(at, Arc::new(allocation));
    }

    /// Without the one that begins there; None when there is none.
    pub fn remove(&mut self, address: u64) -> Option<Arc<Allocation>> {
        let at = self.entries.binary_search_by_key(&address, |entry| entry.address()).ok()?;
        Some(self.entries.remove(at))
    }

    /// The allocation with this address in it.
    pub fn find(&self, address: u64) -> Option<&Allocation> {
        let at = self.entries.partition_point(|entry| entry.address() <= address);
        let entry = self.entries.get(at.checked_sub(1)?)?;
        (address - entry.address() < entry.bytes as u64).then_some(entry)
    }

    /// Whether all these bytes lie in one allocation.
    pub fn holds(&self, address: u64, bytes: usize) -> bool {
        self.find(address).is_some_and(|entry| (address - entry.address()) as usize + bytes <= entry.bytes)
    }

    /// Words about what lies near an address.
    pub fn neighbourhood(&self, address: u64) -> String {
        let at = self.entries.partition_point(|entry| entry.address() <= address);
        let below = at.checked_sub(1).and_then(|at| self.entries.get(at));
        match (below, self.entries.get(at)) {
            (Some(entry), _) if address - entry.address() < 1 << 40 => {
                let offset = address - entry.address();
                format!("{offset} bytes behind the start of an allocation of {} bytes", entry.bytes)
            }
            (_, Some(entry)) => {
                format!("{} bytes before an allocation of {} bytes", entry.address() - address, entry.bytes)
            }
            _ => "far from any allocation".to_owned(),
        }
    }
}
