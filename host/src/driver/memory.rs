//! Device memory.

use super::error::{DriverError, check, from_cust};
use super::{GpuContext, GpuStream};
use cust::memory::DeviceBuffer;
use cust::sys;
use std::marker::PhantomData;

/// Zeroed device memory, freed when dropped.
#[derive(Debug)]
pub struct DeviceMemory {
    context: GpuContext,
    /// None for no bytes at all, which the driver refuses to allocate. Taken when dropped.
    buffer: Option<DeviceBuffer<u8>>,
}

// SAFETY: device memory belongs to a context and not to a thread; the buffer is only an address and a length.
unsafe impl Send for DeviceMemory {}
// SAFETY: as above; shared access only reads those two.
unsafe impl Sync for DeviceMemory {}

impl DeviceMemory {
    /// Allocates `bytes` and fills them with zeros.
    ///
    /// # Errors
    /// [`DriverError::is_out_of_memory`], or another from the driver.
    pub fn alloc(context: &GpuContext, bytes: usize) -> Result<Self, DriverError> {
        if bytes == 0 {
            return Ok(DeviceMemory { context: context.clone(), buffer: None });
        }
        let _bound = context.bind()?;
        // SAFETY: any bytes are a `u8`, and they are zeroed below before anybody sees them.
        let buffer = unsafe { DeviceBuffer::<u8>::uninitialized(bytes) }
            .map_err(from_cust(format!("cuMemAlloc of {bytes} bytes")))?;
        let stream = context.fill_stream()?;
        // SAFETY: the buffer was just allocated with this size, and the stream is the context's own.
        let status = unsafe { cuda_loader::driver::memset_async(buffer.as_device_ptr().as_raw(), 0, bytes, stream) };
        check(status, || format!("cuMemsetD8 of {bytes} bytes"))?;
        // SAFETY: the stream is alive as long as the context.
        let status = unsafe { sys::cuStreamSynchronize(stream.cast()) };
        check(status as u32, || "cuStreamSynchronize".to_owned())?;
        Ok(DeviceMemory { context: context.clone(), buffer: Some(buffer) })
    }

    /// Its size.
    pub fn len_bytes(&self) -> usize {
        self.buffer.as_ref().map_or(0, |buffer| buffer.len())
    }

    /// Its context.
    pub fn context(&self) -> &GpuContext {
        &self.context
    }

    /// All of it.
    pub fn span(&self) -> DeviceSpan<'_> {
        let address = self.buffer.as_ref().map_or(0, |buffer| buffer.as_device_ptr().as_raw());
        DeviceSpan { address, len_bytes: self.len_bytes() as u64, memory: PhantomData }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        match self.context.bind() {
            // Freeing waits for work that still uses the memory.
            Ok(_bound) => drop(self.buffer.take()),
            // Without its context the memory is gone already.
            Err(_) => std::mem::forget(self.buffer.take()),
        }
    }
}

/// Borrowed device memory: an address and a length that are known to be good.
#[derive(Clone, Copy, Debug)]
pub struct DeviceSpan<'a> {
    address: u64,
    len_bytes: u64,
    memory: PhantomData<&'a DeviceMemory>,
}

impl<'a> DeviceSpan<'a> {
    pub(super) fn new(address: u64, len_bytes: u64) -> Self {
        DeviceSpan { address, len_bytes, memory: PhantomData }
    }

    /// Address of the first byte.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its size.
    pub fn len_bytes(&self) -> u64 {
        self.len_bytes
    }

    /// Bytes `start..end`, cut to what there is.
    pub fn part(self, start: u64, end: u64) -> DeviceSpan<'a> {
        let end = end.min(self.len_bytes);
        let start = start.min(end);
        DeviceSpan { address: self.address + start, len_bytes: end - start, memory: PhantomData }
    }

    /// Copies its first bytes out, after the work queued so far, and waits.
    ///
    /// # Errors
    /// When there are fewer bytes than asked for, and from the driver.
    pub fn read(&self, stream: &GpuStream, into: &mut [u8]) -> Result<(), DriverError> {
        self.holds(into.len())?;
        if into.is_empty() {
            return Ok(());
        }
        let _bound = stream.context().bind()?;
        // SAFETY: the span is good for `into.len()` bytes, checked above; the host slice outlives the copy, which
        // the synchronization below ends.
        let status = unsafe {
            sys::cuMemcpyDtoHAsync_v2(into.as_mut_ptr().cast(), self.address, into.len(), stream.raw().cast())
        };
        check(status as u32, || format!("cuMemcpyDtoH of {} bytes", into.len()))?;
        stream.synchronize()
    }

    /// Copies bytes to its start, after the work queued so far, and waits.
    ///
    /// # Errors
    /// When there are fewer bytes than given, and from the driver.
    pub fn write(&self, stream: &GpuStream, from: &[u8]) -> Result<(), DriverError> {
        self.holds(from.len())?;
        if from.is_empty() {
            return Ok(());
        }
        let _bound = stream.context().bind()?;
        // SAFETY: as in `read`.
        let status =
            unsafe { sys::cuMemcpyHtoDAsync_v2(self.address, from.as_ptr().cast(), from.len(), stream.raw().cast()) };
        check(status as u32, || format!("cuMemcpyHtoD of {} bytes", from.len()))?;
        stream.synchronize()
    }

    /// Fills the rest of it with repetitions of its first bytes, after the work queued so far, and waits.
    ///
    /// # Errors
    /// When there are fewer bytes than those, and from the driver.
    pub fn repeat_start(&self, stream: &GpuStream, period_bytes: usize) -> Result<(), DriverError> {
        self.holds(period_bytes)?;
        if period_bytes == 0 {
            return Ok(());
        }
        let _bound = stream.context().bind()?;
        let mut filled = period_bytes as u64;
        while filled < self.len_bytes {
            // What is filled is a whole number of periods, but for the last copy's.
            let bytes = filled.min(self.len_bytes - filled);
            // SAFETY: source and destination lie side by side within the span.
            let status = unsafe {
                cuda_loader::driver::memcpy_device_to_device_async(
                    self.address + filled,
                    self.address,
                    bytes as usize,
                    stream.raw(),
                )
            };
            check(status, || format!("cuMemcpyDtoD of {bytes} bytes"))?;
            filled += bytes;
        }
        stream.synchronize()
    }

    fn holds(&self, bytes: usize) -> Result<(), DriverError> {
        if bytes as u64 <= self.len_bytes {
            return Ok(());
        }
        Err(DriverError::invalid(format!("copy of {bytes} bytes in a span of {}", self.len_bytes)))
    }
}
