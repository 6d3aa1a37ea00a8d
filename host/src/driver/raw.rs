//! A caller's own contexts, streams and memory.

use super::{DeviceSpan, GpuContext, GpuStream};
use crate::tensor::{Region, RegionMut};
use crate::{Context, Error, Stream, TensorDesc, TensorView, TensorViewMut};
use std::ffi::c_void;

impl Context {
    /// Wraps a caller's CUDA context (`CUcontext`), which is not destroyed.
    ///
    /// # Errors
    /// `BadDescriptor` for null; as [`Context::gpu`].
    ///
    /// # Safety
    /// `raw` is a CUDA context, or null, and outlives everything made of the result.
    pub unsafe fn from_raw_cuda(raw: *mut c_void) -> Result<Self, Error> {
        if raw.is_null() {
            return Err(Error::bad("context", "raw", "expected a CUDA context, given null"));
        }
        Self::from_gpu_context(GpuContext::of_caller(raw)?)
    }
}

impl Stream {
    /// Wraps a caller's stream (`CUstream`), which is not destroyed; null is the legacy default stream.
    ///
    /// # Errors
    /// `NoDevice` when `context` is the CPU.
    ///
    /// # Safety
    /// `raw` is a stream of this context, or null, and outlives the result and its clones.
    pub unsafe fn from_raw_cuda(context: &Context, raw: *mut c_void) -> Result<Self, Error> {
        let gpu = context.gpu_context().ok_or_else(|| Error::NoDevice {
            reason: format!("a CUDA stream belongs to a GPU, given {}", context.info().name),
        })?;
        Ok(Stream::from_gpu_stream(context, GpuStream::of_caller(gpu, raw)))
    }
}

impl<'a> TensorView<'a> {
    /// Wraps a caller's memory on the context's device: an address of device memory on a GPU, a host pointer on the
    /// CPU.
    ///
    /// # Errors
    /// `BadDescriptor` for null, a misaligned address, and, on a GPU, memory that the driver does not know or that
    /// is too small.
    ///
    /// # Safety
    /// `address` points to `desc.span_bytes()` initialized bytes that outlive `'a`, and nobody writes them while a
    /// run reads them.
    pub unsafe fn from_raw(context: &'a Context, desc: TensorDesc, address: u64) -> Result<Self, Error> {
        check_raw(context, &desc, address)?;
        let region = if context.is_gpu() {
            Region::Device(DeviceSpan::new(address, desc.span_bytes()))
        } else {
            // SAFETY: the caller promises initialized bytes that live and are not written for `'a`.
            Region::Host(unsafe { std::slice::from_raw_parts(address as *const u8, desc.span_bytes() as usize) })
        };
        Ok(TensorView::new(context, desc, region))
    }
}

impl<'a> TensorViewMut<'a> {
    /// Wraps a caller's memory on the context's device, to be written. See [`TensorView::from_raw`].
    ///
    /// # Errors
    /// As there.
    ///
    /// # Safety
    /// As there, and nobody else reads or writes the memory while a run writes it.
    pub unsafe fn from_raw(context: &'a Context, desc: TensorDesc, address: u64) -> Result<Self, Error> {
        check_raw(context, &desc, address)?;
        let region = if context.is_gpu() {
            RegionMut::Device(DeviceSpan::new(address, desc.span_bytes()))
        } else {
            // SAFETY: the caller promises initialized bytes that live for `'a` and that nobody else touches.
            RegionMut::Host(unsafe { std::slice::from_raw_parts_mut(address as *mut u8, desc.span_bytes() as usize) })
        };
        Ok(TensorViewMut::new(context, desc, region))
    }
}

/// Everything about a caller's address that can be told.
fn check_raw(context: &Context, desc: &TensorDesc, address: u64) -> Result<(), Error> {
    let align = desc.dtype().size_bytes() as u64;
    if address == 0 || !address.is_multiple_of(align) {
        let reason = format!("expected an address that is not null and a multiple of {align}, given {address:#x}");
        return Err(Error::bad("tensor", "address", reason));
    }
    let Some(gpu) = context.gpu_context() else { return Ok(()) };
    let Some((start, len_bytes)) = range_of(gpu, address)? else {
        let reason = format!("expected device memory, given {address:#x}, which the driver does not know");
        return Err(Error::bad("tensor", "address", reason));
    };
    let there = (start + len_bytes).saturating_sub(address);
    if there < desc.span_bytes() {
        let reason = format!("expected {} bytes for {desc}, given {there} from {address:#x} on", desc.span_bytes());
        return Err(Error::bad("tensor", "address", reason));
    }
    Ok(())
}

/// Start and size of the allocation that an address lies in; None for memory unknown to the driver.
fn range_of(gpu: &GpuContext, address: u64) -> Result<Option<(u64, u64)>, Error> {
    /// `CU_POINTER_ATTRIBUTE_RANGE_START_ADDR` and `CU_POINTER_ATTRIBUTE_RANGE_SIZE`.
    const ATTRIBUTES: [u32; 2] = [11, 12];
    let _bound = gpu.bind()?;
    let mut values = [0u64; 2];
    for (attribute, value) in ATTRIBUTES.into_iter().zip(&mut values) {
        // SAFETY: both attributes are eight bytes, and `value` is a place for them.
        let status =
            unsafe { cuda_loader::driver::pointer_get_attribute((&raw mut *value).cast(), attribute, address) };
        if status != 0 {
            return Ok(None);
        }
    }
    Ok((values[1] > 0).then_some((values[0], values[1])))
}
