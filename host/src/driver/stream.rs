//! Streams and events.

use super::GpuContext;
use super::error::{DriverError, check};
use cust::sys;
use std::ffi::c_void;
use std::sync::Arc;

/// A CUDA stream. Cheap to clone; `Send + Sync`.
#[derive(Clone, Debug)]
pub struct GpuStream(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    context: GpuContext,
    raw: *mut c_void,
    owned: bool,
}

// SAFETY: the driver allows every stream operation from any thread, also at the same time.
unsafe impl Send for Inner {}
// SAFETY: as above.
unsafe impl Sync for Inner {}

/// `CU_STREAM_NON_BLOCKING`: does not wait for the legacy default stream.
const NON_BLOCKING: u32 = 1;

impl GpuStream {
    /// A new stream that does not wait for the legacy default stream.
    ///
    /// # Errors
    /// From the driver.
    pub fn new(context: &GpuContext) -> Result<Self, DriverError> {
        let raw = create(context)?;
        Ok(GpuStream(Arc::new(Inner { context: context.clone(), raw, owned: true })))
    }

    pub(super) fn of_caller(context: &GpuContext, raw: *mut c_void) -> Self {
        GpuStream(Arc::new(Inner { context: context.clone(), raw, owned: false }))
    }

    /// Its context.
    pub fn context(&self) -> &GpuContext {
        &self.0.context
    }

    /// The driver's handle.
    pub fn raw(&self) -> *mut c_void {
        self.0.raw
    }

    /// Waits until all work is done.
    ///
    /// # Errors
    /// Whatever went wrong in that work.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        let _bound = self.0.context.bind()?;
        // SAFETY: the handle is alive as long as `self`.
        let status = unsafe { sys::cuStreamSynchronize(self.0.raw.cast()) };
        check(status as u32, || "cuStreamSynchronize".to_owned())
    }

    /// Whether work is being recorded into a graph instead of being done.
    ///
    /// # Errors
    /// From the driver.
    pub fn is_capturing(&self) -> Result<bool, DriverError> {
        let mut state = 0;
        // SAFETY: the handle is alive; `state` is a place for an enum.
        let status = unsafe { cuda_loader::driver::stream_is_capturing(self.0.raw, &mut state) };
        check(status, || "cuStreamIsCapturing".to_owned())?;
        Ok(state != 0)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.owned
            && let Ok(_bound) = self.context.bind()
        {
            destroy(self.raw);
        }
    }
}

/// A stream that does not wait for the legacy default stream.
pub(super) fn create(context: &GpuContext) -> Result<*mut c_void, DriverError> {
    let _bound = context.bind()?;
    let mut raw = std::ptr::null_mut();
    // SAFETY: `raw` is a place for a handle. `cust` drops the flag, so this is the driver's own call.
    let status = unsafe { cuda_loader::driver::stream_create(&mut raw, NON_BLOCKING) };
    check(status, || "cuStreamCreate".to_owned())?;
    Ok(raw)
}

/// Ends a stream that [`create`] made; its context is current.
pub(super) fn destroy(raw: *mut c_void) {
    // SAFETY: whoever calls has the handle for itself; the driver lets queued work finish. A failure at this point
    // would repeat an error already reported.
    let _ = unsafe { sys::cuStreamDestroy_v2(raw.cast()) };
}

/// A point in a stream's work, with its time.
#[derive(Debug)]
pub struct Event {
    context: GpuContext,
    raw: *mut c_void,
}

// SAFETY: the driver allows event operations from any thread.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// An event that keeps time.
    ///
    /// # Errors
    /// From the driver.
    pub fn new(context: &GpuContext) -> Result<Self, DriverError> {
        let _bound = context.bind()?;
        let mut raw = std::ptr::null_mut();
        // SAFETY: `raw` is a place for a handle; 0 is the default, timing included.
        let status = unsafe { sys::cuEventCreate(&mut raw, 0) };
        check(status as u32, || "cuEventCreate".to_owned())?;
        Ok(Event { context: context.clone(), raw: raw.cast() })
    }

    /// Marks the end of the work queued so far.
    ///
    /// # Errors
    /// From the driver.
    pub fn record(&self, stream: &GpuStream) -> Result<(), DriverError> {
        let _bound = self.context.bind()?;
        // SAFETY: both handles are alive.
        let status = unsafe { sys::cuEventRecord(self.raw.cast(), stream.raw().cast()) };
        check(status as u32, || "cuEventRecord".to_owned())
    }

    /// Waits until the stream has reached it.
    ///
    /// # Errors
    /// Whatever went wrong before it.
    pub fn synchronize(&self) -> Result<(), DriverError> {
        let _bound = self.context.bind()?;
        // SAFETY: the handle is alive.
        let status = unsafe { sys::cuEventSynchronize(self.raw.cast()) };
        check(status as u32, || "cuEventSynchronize".to_owned())
    }

    /// Time between two events that were reached.
    ///
    /// # Errors
    /// From the driver, also when one was not reached yet.
    pub fn elapsed_us(start: &Event, end: &Event) -> Result<f32, DriverError> {
        let _bound = start.context.bind()?;
        let mut ms = 0.0;
        // SAFETY: both handles are alive; `ms` is a place for a float.
        let status = unsafe { sys::cuEventElapsedTime(&mut ms, start.raw.cast(), end.raw.cast()) };
        check(status as u32, || "cuEventElapsedTime".to_owned())?;
        Ok(ms * 1e3)
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: nobody else has the handle; as with streams, a failure here is no news.
            let _ = unsafe { sys::cuEventDestroy_v2(self.raw.cast()) };
        }
    }
}
