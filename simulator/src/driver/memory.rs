//! Allocation, copies and fills.

use super::errors::{INVALID_VALUE, NOT_SUPPORTED};
use super::graphs::Recorded;
use super::{Outcome, api, contexts, driver, lock, put, settings, streams};
use std::ffi::c_void;

/// An address that must be good for so many bytes of device memory.
fn checked(address: u64, bytes: usize) -> Outcome<*mut u8> {
    if driver().table().holds(address, bytes) || bytes == 0 {
        return Ok(address as *mut u8);
    }
    eprintln!(
        "cuda-simulator: a copy or fill of {bytes} bytes at {address:#x}, {}",
        driver().table().neighbourhood(address)
    );
    Err(INVALID_VALUE)
}

/// An end of a copy.
#[derive(Clone, Copy)]
pub(super) enum End {
    Device(u64),
    Host(usize),
}

impl End {
    fn checked(self, bytes: usize) -> Outcome<*mut u8> {
        match self {
            End::Device(address) => checked(address, bytes),
            End::Host(0) if bytes > 0 => Err(INVALID_VALUE),
            End::Host(address) => Ok(address as *mut u8),
        }
    }
}

/// Copies.
///
/// # Safety
/// Host ends are good for so many bytes.
pub(super) unsafe fn copy(to: End, from: End, bytes: usize) -> Outcome {
    let (to, from) = (to.checked(bytes)?, from.checked(bytes)?);
    // SAFETY: device ends were checked, host ends are the caller's promise.
    unsafe { std::ptr::copy(from, to, bytes) };
    Ok(())
}

/// Fills memory with a value of 1, 2 or 4 bytes.
pub(super) fn fill(at: u64, value: u32, size: usize, count: usize) -> Outcome {
    let place = checked(at, size.checked_mul(count).ok_or(INVALID_VALUE)?)?;
    if !at.is_multiple_of(size as u64) {
        return Err(INVALID_VALUE);
    }
    for i in 0..count {
        // SAFETY: all bytes were checked to be in an allocation, and the address to be aligned.
        unsafe {
            match size {
                1 => {
                    place.write_bytes(value as u8, count);
                    return Ok(());
                }
                2 => place.cast::<u16>().add(i).write(value as u16),
                _ => place.cast::<u32>().add(i).write(value),
            }
        }
    }
    Ok(())
}

/// Copies now, or when the graph is launched that the stream records.
///
/// # Safety
/// As [`copy`].
unsafe fn copy_in_stream(to: End, from: End, bytes: usize, stream: *mut c_void) -> Outcome {
    if streams::record(stream, || Ok(Recorded::Copy(to, from, bytes)))? {
        return Ok(());
    }
    // SAFETY: the caller's promise.
    unsafe { copy(to, from, bytes) }
}

fn fill_in_stream(at: u64, value: u32, size: usize, count: usize, stream: *mut c_void) -> Outcome {
    if streams::record(stream, || Ok(Recorded::Fill(at, value, size, count)))? {
        return Ok(());
    }
    fill(at, value, size, count)
}

fn allocate(place: *mut u64, bytes: usize) -> Outcome {
    contexts::needed()?;
    if bytes == 0 || place.is_null() {
        return Err(INVALID_VALUE);
    }
    let address = driver().allocate(bytes)?;
    // SAFETY: the caller of the API gave a place for an address.
    unsafe { put(place, address) }
}

fn free(address: u64) -> Outcome {
    if address == 0 { Ok(()) } else { driver().free(address) }
}

api! {
    fn cuMemAlloc_v2(address: *mut u64, bytes: usize) { allocate(address, bytes) }

    fn cuMemAllocAsync(address: *mut u64, bytes: usize, stream: *mut c_void) {
        let _ = stream;
        allocate(address, bytes)
    }

    fn cuMemAllocManaged(address: *mut u64, bytes: usize, flags: u32) {
        let _ = (address, bytes, flags);
        Err(NOT_SUPPORTED)
    }

    fn cuMemFree_v2(address: u64) { free(address) }

    fn cuMemFreeAsync(address: u64, stream: *mut c_void) {
        let _ = stream;
        free(address)
    }

    fn cuMemAllocHost_v2(place: *mut *mut c_void, bytes: usize) {
        // Device memory is the host's own.
        let address = driver().allocate(bytes.max(1))?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(place, address as *mut c_void) }
    }

    fn cuMemFreeHost(place: *mut c_void) { free(place as u64) }

    fn cuMemGetInfo_v2(free: *mut usize, total: *mut usize) {
        let all = settings::memory_bytes();
        let used = lock(&driver().memory).used;
        // SAFETY: the caller gives a place for the result.
        unsafe {
            put(free, all.saturating_sub(used))?;
            put(total, all)
        }
    }

    fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, bytes: usize) {
        // SAFETY: the caller's promise is this call's.
        unsafe { copy(End::Device(to), End::Host(from as usize), bytes) }
    }

    fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, bytes: usize) {
        // SAFETY: the caller's promise is this call's.
        unsafe { copy(End::Host(to as usize), End::Device(from), bytes) }
    }

    fn cuMemcpyDtoD_v2(to: u64, from: u64, bytes: usize) {
        // SAFETY: the caller's promise is this call's.
        unsafe { copy(End::Device(to), End::Device(from), bytes) }
    }

    fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, bytes: usize, stream: *mut c_void) {
        // SAFETY: the caller's promise is this call's.
        unsafe { copy_in_stream(End::Device(to), End::Host(from as usize), bytes, stream) }
    }

    fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, bytes: usize, stream: *mut c_void) {
        // SAFETY: the caller's promise is this call's.
        unsafe { copy_in_stream(End::Host(to as usize), End::Device(from), bytes, stream) }
    }

    fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, bytes: usize, stream: *mut c_void) {
        // SAFETY: the caller's promise is this call's.
        unsafe { copy_in_stream(End::Device(to), End::Device(from), bytes, stream) }
    }

    fn cuMemsetD8_v2(at: u64, value: u8, count: usize) { fill(at, value.into(), 1, count) }

    fn cuMemsetD16_v2(at: u64, value: u16, count: usize) { fill(at, value.into(), 2, count) }

    fn cuMemsetD32_v2(at: u64, value: u32, count: usize) { fill(at, value, 4, count) }

    fn cuMemsetD8Async(at: u64, value: u8, count: usize, stream: *mut c_void) {
        fill_in_stream(at, value.into(), 1, count, stream)
    }

    fn cuMemsetD16Async(at: u64, value: u16, count: usize, stream: *mut c_void) {
        fill_in_stream(at, value.into(), 2, count, stream)
    }

    fn cuMemsetD32Async(at: u64, value: u32, count: usize, stream: *mut c_void) {
        fill_in_stream(at, value, 4, count, stream)
    }

    fn cuPointerGetAttribute(data: *mut c_void, attribute: u32, address: u64) {
        let table = driver().table();
        let found = table.find(address).ok_or(INVALID_VALUE)?;
        // SAFETY: the caller's promise is this call's.
        unsafe {
            match attribute {
                // The kind of memory: the device's.
                2 => put(data.cast(), 2u32),
                3 | 4 => put(data.cast(), address),
                9 => put(data.cast(), 0i32),
                11 => put(data.cast(), found.address()),
                12 => put(data.cast(), found.bytes()),
                _ => Err(NOT_SUPPORTED),
            }
        }
    }
}
