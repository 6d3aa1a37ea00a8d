//! Contexts and what their devices are.

use super::error::{DriverError, check, from_cust};
use cust::device::{Device, DeviceAttribute};
use cust::sys;
use std::ffi::c_void;
use std::sync::{Arc, OnceLock};

/// A CUDA context: a device's primary one, retained, or one of the caller's. Cheap to clone; `Send + Sync`.
#[derive(Clone, Debug)]
pub struct GpuContext(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    raw: *mut c_void,
    /// Keeps the primary context retained; None for a caller's.
    _primary: Option<cust::context::Context>,
    ordinal: usize,
    name: String,
    compute_capability: (u32, u32),
    sm_count: usize,
    l2_bytes: usize,
    max_shared_bytes: usize,
    total_bytes: u64,
    /// Where new memory is zeroed: never the legacy default stream, which a capture in another thread forbids.
    fill_stream: OnceLock<FillStream>,
}

#[derive(Debug)]
struct FillStream(*mut c_void);

// SAFETY: a CUDA context may be made current on any thread, on several at a time; the rest of `Inner` is plain data
// that never changes.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// The driver's version, as 1000 · major + 10 · minor.
///
/// # Errors
/// Without a driver.
pub fn driver_version() -> Result<u32, DriverError> {
    let mut version = 0;
    // SAFETY: `version` is a place for an int.
    let status = unsafe { sys::cuDriverGetVersion(&mut version) };
    check(status as u32, || "cuDriverGetVersion".to_owned())?;
    Ok(version as u32)
}

fn initialize() -> Result<(), DriverError> {
    // The flags argument has no bit defined.
    cust::init(cust::CudaFlags::empty()).map_err(from_cust("cuInit"))
}

impl GpuContext {
    /// How many GPUs there are.
    ///
    /// # Errors
    /// Without a driver.
    pub fn count() -> Result<usize, DriverError> {
        initialize()?;
        Ok(Device::num_devices().map_err(from_cust("cuDeviceGetCount"))? as usize)
    }

    /// The primary context of a GPU, which other CUDA libraries in the process share.
    ///
    /// # Errors
    /// Without a driver or such a GPU.
    pub fn primary(ordinal: usize) -> Result<Self, DriverError> {
        initialize()?;
        let call = || format!("cuDeviceGet of gpu:{ordinal}");
        let number = u32::try_from(ordinal).map_err(|_| DriverError::new(call(), 101))?;
        let device = Device::get_device(number).map_err(from_cust(call()))?;
        let previous = current();
        let primary = cust::context::Context::new(device).map_err(from_cust("cuDevicePrimaryCtxRetain"))?;
        let raw = primary.as_raw().cast();
        // Retaining makes it current, which is no business of this call.
        set_current(previous)?;
        Self::new(raw, Some(primary), device, ordinal)
    }

    pub(super) fn of_caller(raw: *mut c_void) -> Result<Self, DriverError> {
        initialize()?;
        if raw.is_null() {
            return Err(DriverError::invalid("expected a CUDA context, given null"));
        }
        let _bound = Bound::new(raw)?;
        let mut number = 0;
        // SAFETY: `number` is a place for an int, and the context is current.
        let status = unsafe { cuda_loader::driver::ctx_get_device(&mut number) };
        check(status, || "cuCtxGetDevice".to_owned())?;
        let device = Device::get_device(number as u32).map_err(from_cust("cuDeviceGet"))?;
        Self::new(raw, None, device, number as usize)
    }

    fn new(
        raw: *mut c_void,
        primary: Option<cust::context::Context>,
        device: Device,
        ordinal: usize,
    ) -> Result<Self, DriverError> {
        let attribute = |attribute: DeviceAttribute| {
            device
                .get_attribute(attribute)
                .map(|value| value.max(0) as usize)
                .map_err(from_cust("cuDeviceGetAttribute"))
        };
        let inner = Inner {
            raw,
            ordinal,
            name: device.name().map_err(from_cust("cuDeviceGetName"))?,
            compute_capability: (
                attribute(DeviceAttribute::ComputeCapabilityMajor)? as u32,
                attribute(DeviceAttribute::ComputeCapabilityMinor)? as u32,
            ),
            sm_count: attribute(DeviceAttribute::MultiprocessorCount)?,
            l2_bytes: attribute(DeviceAttribute::L2CacheSize)?,
            max_shared_bytes: max_shared_bytes(device)?,
            total_bytes: device.total_memory().map_err(from_cust("cuDeviceTotalMem"))? as u64,
            fill_stream: OnceLock::new(),
            _primary: primary,
        };
        Ok(GpuContext(Arc::new(inner)))
    }

    /// The GPU's number.
    pub fn ordinal(&self) -> usize {
        self.0.ordinal
    }

    /// The GPU's name.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Major and minor.
    pub fn compute_capability(&self) -> (u32, u32) {
        self.0.compute_capability
    }

    /// Streaming multiprocessors.
    pub fn sm_count(&self) -> usize {
        self.0.sm_count
    }

    /// Size of the second-level cache.
    pub fn l2_bytes(&self) -> usize {
        self.0.l2_bytes
    }

    /// The most dynamic shared memory that a block may ask for.
    pub fn max_shared_bytes(&self) -> usize {
        self.0.max_shared_bytes
    }

    /// Size of the device's memory.
    pub fn total_bytes(&self) -> u64 {
        self.0.total_bytes
    }

    /// Free and total memory at the moment.
    ///
    /// # Errors
    /// From the driver.
    pub fn memory_info(&self) -> Result<(usize, usize), DriverError> {
        let _bound = self.bind()?;
        cust::memory::mem_get_info().map_err(from_cust("cuMemGetInfo"))
    }

    /// The driver's handle.
    pub fn raw(&self) -> *mut c_void {
        self.0.raw
    }

    /// A stream of the context's own, for zeroing memory.
    pub(super) fn fill_stream(&self) -> Result<*mut c_void, DriverError> {
        if let Some(FillStream(raw)) = self.0.fill_stream.get() {
            return Ok(*raw);
        }
        let raw = super::stream::create(self)?;
        if let Err(FillStream(surplus)) = self.0.fill_stream.set(FillStream(raw)) {
            // Another thread was first.
            super::stream::destroy(surplus);
        }
        self.0.fill_stream.get().map(|stream| stream.0).ok_or_else(|| DriverError::invalid("expected a stream"))
    }

    /// Makes the context current on this thread until the guard is dropped.
    pub(crate) fn bind(&self) -> Result<Bound, DriverError> {
        Bound::new(self.0.raw)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let Some(FillStream(raw)) = self.fill_stream.take()
            && let Ok(_bound) = Bound::new(self.raw)
        {
            super::stream::destroy(raw);
        }
    }
}

/// `CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN`.
fn max_shared_bytes(device: Device) -> Result<usize, DriverError> {
    let attribute = sys::CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
    let mut value = 0;
    // SAFETY: `value` is a place for an int.
    let status = unsafe { sys::cuDeviceGetAttribute(&mut value, attribute, device.as_raw()) };
    check(status as u32, || "cuDeviceGetAttribute".to_owned())?;
    Ok(value as usize)
}

/// Restores the thread's previous context when dropped.
#[derive(Debug)]
pub(crate) struct Bound {
    previous: Option<*mut c_void>,
}

impl Bound {
    fn new(raw: *mut c_void) -> Result<Self, DriverError> {
        let previous = current();
        if previous == raw {
            return Ok(Bound { previous: None });
        }
        set_current(raw)?;
        Ok(Bound { previous: Some(previous) })
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(previous) = self.previous {
            // A context that its owner destroyed meanwhile cannot be restored, and nobody misses it.
            let _ = set_current(previous);
        }
    }
}

/// The thread's current context; null for none.
fn current() -> *mut c_void {
    let mut raw = std::ptr::null_mut();
    // SAFETY: `raw` is a place for a handle.
    let status = unsafe { sys::cuCtxGetCurrent(&mut raw) };
    if status as u32 == 0 { raw.cast() } else { std::ptr::null_mut() }
}

fn set_current(raw: *mut c_void) -> Result<(), DriverError> {
    // SAFETY: `raw` is null or a context that is alive: ours are retained, and whoever wraps a caller's promised it.
    let status = unsafe { sys::cuCtxSetCurrent(raw.cast()) };
    check(status as u32, || "cuCtxSetCurrent".to_owned())
}
