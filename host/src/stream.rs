//! Streams: in-order queues of work.

use crate::driver::{Event, GpuStream};
use crate::{Context, Error};
use std::time::Instant;

/// An in-order queue of work on a device. Cheap to clone; `Send + Sync`.
///
/// On the CPU, work is done when the call that asked for it returns.
#[derive(Clone, Debug)]
pub struct Stream {
    context: Context,
    gpu: Option<GpuStream>,
}

impl Stream {
    pub(crate) fn new(context: &Context) -> Result<Self, Error> {
        context.check_present()?;
        let gpu = context.gpu_context().map(GpuStream::new).transpose()?;
        Ok(Stream { context: context.clone(), gpu })
    }

    pub(crate) fn from_gpu_stream(context: &Context, gpu: GpuStream) -> Self {
        Stream { context: context.clone(), gpu: Some(gpu) }
    }

    /// The device.
    pub fn context(&self) -> &Context {
        &self.context
    }

    /// The driver's stream, on a GPU.
    pub fn gpu_stream(&self) -> Option<&GpuStream> {
        self.gpu.as_ref()
    }

    /// The driver's stream, which a kernel or an algorithm of this name needs.
    pub(crate) fn gpu_stream_for(&self, name: &str) -> Result<&GpuStream, Error> {
        self.gpu.as_ref().ok_or_else(|| Error::NoDevice { reason: format!("{name} needs a GPU's stream") })
    }

    /// Waits until everything queued so far is done, and reports what went wrong in it.
    ///
    /// # Errors
    /// `Driver`.
    pub fn synchronize(&self) -> Result<(), Error> {
        self.gpu.as_ref().map_or(Ok(()), |stream| Ok(stream.synchronize()?))
    }

    /// Starts measuring the time that work queued from here on takes on the device.
    ///
    /// # Errors
    /// `Driver`.
    pub fn timer(&self) -> Result<Timer, Error> {
        let Some(stream) = &self.gpu else {
            return Ok(Timer(Clock::Host(Instant::now())));
        };
        let start = Event::new(stream.context())?;
        start.record(stream)?;
        Ok(Timer(Clock::Gpu { stream: stream.clone(), start }))
    }
}

/// A running measurement, made by [`Stream::timer`].
#[derive(Debug)]
pub struct Timer(Clock);

#[derive(Debug)]
enum Clock {
    Host(Instant),
    Gpu { stream: GpuStream, start: Event },
}

impl Timer {
    /// Waits for the work queued so far and tells how long it took, in microseconds.
    ///
    /// # Errors
    /// `Driver`.
    pub fn stop_us(self) -> Result<f64, Error> {
        match self.0 {
            Clock::Host(start) => Ok(start.elapsed().as_secs_f64() * 1e6),
            Clock::Gpu { stream, start } => {
                let end = Event::new(stream.context())?;
                end.record(&stream)?;
                end.synchronize()?;
                Ok(f64::from(Event::elapsed_us(&start, &end)?))
            }
        }
    }
}
