//! Owned and borrowed memory of either device.

use crate::driver::{DeviceMemory, DeviceSpan};
use crate::{Error, Stream};

/// Zeroed host memory aligned to 16 bytes.
#[derive(Debug)]
pub(crate) struct HostMemory {
    words: Vec<u128>,
    len_bytes: usize,
}

impl HostMemory {
    /// None when the host has no such amount.
    pub(crate) fn zeroed(bytes: u64) -> Option<Self> {
        let len_bytes = usize::try_from(bytes).ok()?;
        let n_words = len_bytes.div_ceil(size_of::<u128>());
        let mut words = Vec::new();
        words.try_reserve_exact(n_words).ok()?;
        words.resize(n_words, 0);
        Some(HostMemory { words, len_bytes })
    }

    pub(crate) fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.words)[..self.len_bytes]
    }

    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.words)[..self.len_bytes]
    }
}

/// Owned memory.
#[derive(Debug)]
pub(crate) enum Memory {
    Host(HostMemory),
    Device(DeviceMemory),
}

impl Memory {
    pub(crate) fn len_bytes(&self) -> u64 {
        match self {
            Memory::Host(memory) => memory.len_bytes as u64,
            Memory::Device(memory) => memory.len_bytes() as u64,
        }
    }

    pub(crate) fn region(&self) -> Region<'_> {
        match self {
            Memory::Host(memory) => Region::Host(memory.bytes()),
            Memory::Device(memory) => Region::Device(memory.span()),
        }
    }

    pub(crate) fn region_mut(&mut self) -> RegionMut<'_> {
        match self {
            Memory::Device(memory) => RegionMut::Device(memory.span()),
            Memory::Host(memory) => RegionMut::Host(memory.bytes_mut()),
        }
    }
}

/// Memory to be read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Region<'a> {
    Host(&'a [u8]),
    Device(DeviceSpan<'a>),
}

/// Memory to be written.
#[derive(Debug)]
pub(crate) enum RegionMut<'a> {
    Host(&'a mut [u8]),
    Device(DeviceSpan<'a>),
}

impl<'a> Region<'a> {
    /// Address of the first byte and number of bytes.
    pub(crate) fn range(&self) -> (u64, u64) {
        match self {
            Region::Host(bytes) => (bytes.as_ptr() as u64, bytes.len() as u64),
            Region::Device(span) => (span.address(), span.len_bytes()),
        }
    }

    /// Bytes `start..end`, which must lie inside.
    pub(crate) fn part(self, start: u64, end: u64) -> Region<'a> {
        match self {
            Region::Host(bytes) => Region::Host(&bytes[start as usize..end as usize]),
            Region::Device(span) => Region::Device(span.part(start, end)),
        }
    }

    /// Copies out what the stream has written so far.
    pub(crate) fn read_bytes(&self, stream: &Stream, into: &mut [u8]) -> Result<(), Error> {
        match self {
            Region::Host(bytes) => into.copy_from_slice(&bytes[..into.len()]),
            Region::Device(span) => span.read(stream_of(stream)?, into)?,
        }
        Ok(())
    }
}

impl<'a> RegionMut<'a> {
    /// The same memory for a while.
    pub(crate) fn reborrow(&mut self) -> RegionMut<'_> {
        match self {
            RegionMut::Host(bytes) => RegionMut::Host(bytes),
            RegionMut::Device(span) => RegionMut::Device(*span),
        }
    }

    /// Bytes `start..end`, which must lie inside.
    pub(crate) fn part(self, start: u64, end: u64) -> RegionMut<'a> {
        match self {
            RegionMut::Host(bytes) => RegionMut::Host(&mut bytes[start as usize..end as usize]),
            RegionMut::Device(span) => RegionMut::Device(span.part(start, end)),
        }
    }

    pub(crate) fn range(&self) -> (u64, u64) {
        self.as_region().range()
    }

    pub(crate) fn as_region(&self) -> Region<'_> {
        match self {
            RegionMut::Host(bytes) => Region::Host(bytes),
            RegionMut::Device(span) => Region::Device(*span),
        }
    }

    /// Fills it with repetitions of `pattern`, and returns when it is done.
    pub(crate) fn fill_repeating(&mut self, stream: &Stream, pattern: &[u8]) -> Result<(), Error> {
        match self {
            RegionMut::Host(bytes) => {
                for chunk in bytes.chunks_mut(pattern.len().max(1)) {
                    chunk.copy_from_slice(&pattern[..chunk.len()]);
                }
            }
            RegionMut::Device(span) => {
                let stream = stream_of(stream)?;
                let start = &pattern[..pattern.len().min(span.len_bytes() as usize)];
                span.write(stream, start)?;
                span.repeat_start(stream, start.len())?;
            }
        }
        Ok(())
    }

    /// Copies in, and returns when it is done.
    pub(crate) fn write_bytes(&mut self, stream: &Stream, from: &[u8]) -> Result<(), Error> {
        match self {
            RegionMut::Host(bytes) => bytes[..from.len()].copy_from_slice(from),
            RegionMut::Device(span) => span.write(stream_of(stream)?, from)?,
        }
        Ok(())
    }
}

fn stream_of(stream: &Stream) -> Result<&crate::driver::GpuStream, Error> {
    stream.gpu_stream().ok_or_else(|| Error::WrongDevice {
        what: "stream".to_owned(),
        expected: "a GPU".to_owned(),
        given: stream.context().info().name.clone(),
    })
}
