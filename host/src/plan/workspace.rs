//! Scratch memory.

use crate::tensor::{Memory, RegionMut};
use crate::{Context, Error, Stream};

/// Scratch memory of one device. Plans may share one, as long as their runs do not overlap in time.
#[derive(Debug)]
pub struct Workspace {
    context: Context,
    memory: Memory,
}

impl Workspace {
    /// Allocates `bytes`.
    ///
    /// # Errors
    /// `OutOfMemory`, `Driver`.
    pub fn new(context: &Context, bytes: u64) -> Result<Self, Error> {
        Ok(Workspace { context: context.clone(), memory: context.alloc(bytes)? })
    }

    /// No memory at all, for plans that need none.
    ///
    /// # Errors
    /// `Driver`.
    pub fn none(context: &Context) -> Result<Self, Error> {
        Self::new(context, 0)
    }

    /// Its size.
    pub fn len_bytes(&self) -> u64 {
        self.memory.len_bytes()
    }

    /// Grows to at least `bytes`, losing the content.
    ///
    /// # Errors
    /// `OutOfMemory`, `Driver`.
    pub fn grow(&mut self, bytes: u64) -> Result<(), Error> {
        if self.len_bytes() < bytes {
            self.memory = self.context.alloc(bytes)?;
        }
        Ok(())
    }

    /// Overwrites it with `bytes` from its start: lets a test see what a run leaves alone.
    ///
    /// # Errors
    /// `BadDescriptor` for more bytes than it has; `Driver`.
    pub fn write_bytes(&mut self, stream: &Stream, bytes: &[u8]) -> Result<(), Error> {
        if bytes.len() as u64 > self.len_bytes() {
            let reason = format!("expected at most {} bytes, given {}", self.len_bytes(), bytes.len());
            return Err(Error::bad("workspace", "bytes", reason));
        }
        self.memory.region_mut().write_bytes(stream, bytes)
    }

    /// Its bytes. Waits for `stream` first.
    ///
    /// # Errors
    /// `Driver`.
    pub fn to_bytes(&self, stream: &Stream) -> Result<Vec<u8>, Error> {
        let mut bytes = vec![0; self.len_bytes() as usize];
        self.memory.region().read_bytes(stream, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn context(&self) -> &Context {
        &self.context
    }

    pub(crate) fn region_mut(&mut self) -> RegionMut<'_> {
        self.memory.region_mut()
    }
}
