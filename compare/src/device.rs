//! Memory and contexts as both sides see them, where the library's public interface has no words.

use anyhow::{Result, bail};
use oxidnn::driver::{DeviceSpan, GpuContext, GpuStream};
use std::ffi::c_void;

/// Makes the context current on this thread for good: the peers' libraries work in the current one.
///
/// # Errors
/// From the driver.
pub fn make_current(context: &GpuContext) -> Result<()> {
    // SAFETY: the context is alive, and primary, so it stays for the process's life.
    checked("cuCtxSetCurrent", unsafe { cuda_loader::forwards::cuCtxSetCurrent(context.raw()) })
}

/// Copies all of `from` to the start of `to`, queued on the stream.
///
/// # Errors
/// For spans of unequal length; from the driver.
pub fn copy(to: DeviceSpan<'_>, from: DeviceSpan<'_>, stream: &GpuStream) -> Result<()> {
    if to.len_bytes() != from.len_bytes() {
        bail!("expected spans of one length, given {} and {}", to.len_bytes(), from.len_bytes());
    }
    let bytes = from.len_bytes() as usize;
    // SAFETY: both spans are good for so many bytes and outlive the queued work: callers synchronize before they
    // free memory, and freeing waits besides.
    let status = unsafe {
        cuda_loader::driver::memcpy_device_to_device_async(to.address(), from.address(), bytes, stream.raw())
    };
    checked("cuMemcpyDtoD", status)
}

/// Sets every byte, queued on the stream. Bytes of 0xff are a NaN in every floating-point type.
///
/// # Errors
/// From the driver.
pub fn set(span: DeviceSpan<'_>, byte: u8, stream: &GpuStream) -> Result<()> {
    // SAFETY: as in `copy`.
    let status =
        unsafe { cuda_loader::driver::memset_async(span.address(), byte, span.len_bytes() as usize, stream.raw()) };
    checked("cuMemsetD8", status)
}

/// Host memory that the device copies to at full speed.
#[derive(Debug)]
pub struct PinnedBytes {
    start: *mut c_void,
    len: usize,
}

impl PinnedBytes {
    /// Allocates; a context is current.
    ///
    /// # Errors
    /// From the driver.
    pub fn new(len: usize) -> Result<Self> {
        let mut start: *mut c_void = std::ptr::null_mut();
        // SAFETY: `start` is a place for a pointer.
        let status = unsafe { cuda_loader::forwards::cuMemAllocHost_v2((&raw mut start).cast(), len.max(1)) };
        checked("cuMemAllocHost", status)?;
        // SAFETY: the memory was just allocated with this size.
        unsafe { std::ptr::write_bytes(start.cast::<u8>(), 0, len) };
        Ok(PinnedBytes { start, len })
    }

    /// The bytes.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        // SAFETY: the memory is `len` initialized bytes that nobody else has.
        unsafe { std::slice::from_raw_parts_mut(self.start.cast(), self.len) }
    }
}

impl Drop for PinnedBytes {
    fn drop(&mut self) {
        // SAFETY: nobody else has the memory. A failure at this point is no news.
        let _ = unsafe { cuda_loader::forwards::cuMemFreeHost(self.start) };
    }
}

fn checked(call: &str, status: u32) -> Result<()> {
    if status == 0 { Ok(()) } else { bail!("{call} failed with status {status}") }
}
