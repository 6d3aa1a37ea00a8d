//! CUDA graphs: recorded work that is queued as one.

use super::error::{DriverError, check};
use super::{GpuContext, GpuStream};
use std::ffi::c_void;

/// An executable graph. `Send + Sync`; two launches of one graph do not overlap.
#[derive(Debug)]
pub struct Graph {
    context: GpuContext,
    exec: *mut c_void,
}

// SAFETY: the driver allows graph launches from any thread.
unsafe impl Send for Graph {}
// SAFETY: as above.
unsafe impl Sync for Graph {}

/// `CU_STREAM_CAPTURE_MODE_THREAD_LOCAL`: other threads may go on with what capture would forbid.
const THREAD_LOCAL: u32 = 1;

impl Graph {
    /// Records what `work` queues on `stream`.
    ///
    /// The memory that the recorded work uses must be alive whenever the graph is launched.
    ///
    /// # Errors
    /// Those of `work`, and from the driver, also when `work` did what cannot be recorded.
    pub fn capture<E: From<DriverError>>(stream: &GpuStream, work: impl FnOnce() -> Result<(), E>) -> Result<Self, E> {
        let _bound = stream.context().bind()?;
        // SAFETY: the stream is alive.
        let status = unsafe { cuda_loader::driver::stream_begin_capture(stream.raw(), THREAD_LOCAL) };
        check(status, || "cuStreamBeginCapture".to_owned())?;
        let outcome = work();
        let mut graph = std::ptr::null_mut();
        // SAFETY: the stream is alive; `graph` is a place for a handle. Capture ends also where `work` failed.
        let status = unsafe { cuda_loader::driver::stream_end_capture(stream.raw(), &mut graph) };
        let ended = check(status, || "cuStreamEndCapture".to_owned());
        let mut exec = std::ptr::null_mut();
        let made = outcome.and_then(|()| Ok(ended?)).and_then(|()| {
            // SAFETY: the graph was just made; `exec` is a place for a handle.
            let status = unsafe { cuda_loader::driver::graph_instantiate(&mut exec, graph, 0) };
            Ok(check(status, || "cuGraphInstantiate".to_owned())?)
        });
        if !graph.is_null() {
            // SAFETY: nobody else has the graph; the executable one is a copy.
            let _ = unsafe { cuda_loader::driver::graph_destroy(graph) };
        }
        made.map(|()| Graph { context: stream.context().clone(), exec })
    }

    /// Queues the recorded work.
    ///
    /// # Errors
    /// From the driver.
    pub fn launch(&self, stream: &GpuStream) -> Result<(), DriverError> {
        let _bound = self.context.bind()?;
        // SAFETY: both handles are alive.
        let status = unsafe { cuda_loader::driver::graph_launch(self.exec, stream.raw()) };
        check(status, || "cuGraphLaunch".to_owned())
    }
}

impl Drop for Graph {
    fn drop(&mut self) {
        if let Ok(_bound) = self.context.bind() {
            // SAFETY: nobody else has the handle; launches under way keep their own reference.
            let _ = unsafe { cuda_loader::driver::graph_exec_destroy(self.exec) };
        }
    }
}
