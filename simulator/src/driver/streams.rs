//! Streams, which do their work at once or record it, and events.

use super::errors::{CAPTURE_UNSUPPORTED, ILLEGAL_STATE, INVALID_HANDLE, INVALID_VALUE};
use super::graphs::{Graph, Recorded};
use super::{Outcome, api, contexts, driver, lock, put};
use std::ffi::{c_int, c_void};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A stream.
#[derive(Default)]
pub(super) struct Stream {
    /// What was recorded so far; None when it does its work.
    recording: Mutex<Option<Recording>>,
    flags: u32,
    priority: c_int,
}

#[derive(Default)]
struct Recording {
    work: Vec<Recorded>,
    /// Something was done that can not be recorded.
    spoilt: bool,
}

/// When it was recorded.
#[derive(Default)]
pub(super) struct Event(Mutex<Option<Instant>>);

/// The default streams have fixed numbers instead of handles.
fn is_default(stream: *mut c_void) -> bool {
    matches!(stream as usize, 0..=2)
}

/// Records work if the stream does so; whether it does.
pub(super) fn record(stream: *mut c_void, work: impl FnOnce() -> Outcome<Recorded>) -> Outcome<bool> {
    contexts::needed()?;
    if is_default(stream) {
        return Ok(false);
    }
    let stream = driver().streams.get(stream)?;
    match &mut *lock(&stream.recording) {
        Some(recording) => {
            recording.work.push(work()?);
            Ok(true)
        }
        None => Ok(false),
    }
}

/// Waiting for a stream spoils what it records.
fn wait(stream: *mut c_void) -> Outcome {
    contexts::needed()?;
    if is_default(stream) {
        return Ok(());
    }
    let stream = driver().streams.get(stream)?;
    match &mut *lock(&stream.recording) {
        Some(recording) => {
            recording.spoilt = true;
            Err(CAPTURE_UNSUPPORTED)
        }
        None => Ok(()),
    }
}

fn create(stream: *mut *mut c_void, flags: u32, priority: c_int) -> Outcome {
    contexts::needed()?;
    if flags > 1 {
        return Err(INVALID_VALUE);
    }
    let new = Stream { flags, priority, ..Stream::default() };
    // SAFETY: the caller of the API gave a place for a handle.
    unsafe { put(stream, driver().streams.add(Arc::new(new))) }
}

api! {
    fn cuStreamCreate(stream: *mut *mut c_void, flags: u32) { create(stream, flags, 0) }

    fn cuStreamCreateWithPriority(stream: *mut *mut c_void, flags: u32, priority: c_int) {
        create(stream, flags, priority)
    }

    #[always]
    fn cuStreamDestroy_v2(stream: *mut c_void) { driver().streams.remove(stream).map(drop) }

    fn cuStreamGetFlags(stream: *mut c_void, flags: *mut u32) {
        let value = if is_default(stream) { 0 } else { driver().streams.get(stream)?.flags };
        // SAFETY: the caller gives a place for the result.
        unsafe { put(flags, value) }
    }

    fn cuStreamGetPriority(stream: *mut c_void, priority: *mut c_int) {
        let value = if is_default(stream) { 0 } else { driver().streams.get(stream)?.priority };
        // SAFETY: the caller gives a place for the result.
        unsafe { put(priority, value) }
    }

    fn cuStreamSynchronize(stream: *mut c_void) { wait(stream) }

    fn cuStreamQuery(stream: *mut c_void) { wait(stream) }

    fn cuStreamWaitEvent(stream: *mut c_void, event: *mut c_void, flags: u32) {
        let _ = flags;
        driver().events.get(event)?;
        record(stream, || Ok(Recorded::Nothing)).map(drop)
    }

    fn cuStreamBeginCapture_v2(stream: *mut c_void, mode: u32) {
        if mode > 2 || is_default(stream) {
            return Err(if mode > 2 { INVALID_VALUE } else { CAPTURE_UNSUPPORTED });
        }
        let stream = driver().streams.get(stream)?;
        let mut recording = lock(&stream.recording);
        if recording.is_some() {
            return Err(ILLEGAL_STATE);
        }
        *recording = Some(Recording::default());
        Ok(())
    }

    fn cuStreamEndCapture(stream: *mut c_void, graph: *mut *mut c_void) {
        let stream = driver().streams.get(stream)?;
        let recording = lock(&stream.recording).take().ok_or(ILLEGAL_STATE)?;
        if recording.spoilt {
            // SAFETY: the caller gives a place for the result.
            unsafe { put(graph, std::ptr::null_mut()) }?;
            return Err(super::errors::CAPTURE_INVALIDATED);
        }
        // SAFETY: the caller gives a place for the result.
        unsafe { put(graph, driver().graphs.add(Arc::new(Graph::new(recording.work)))) }
    }

    fn cuStreamIsCapturing(stream: *mut c_void, status: *mut u32) {
        let value = if is_default(stream) {
            0
        } else {
            match &*lock(&driver().streams.get(stream)?.recording) {
                None => 0,
                Some(recording) => if recording.spoilt { 2 } else { 1 },
            }
        };
        // SAFETY: the caller gives a place for the result.
        unsafe { put(status, value) }
    }

    fn cuLaunchHostFunc(stream: *mut c_void, function: Option<unsafe extern "C" fn(*mut c_void)>, data: *mut c_void) {
        let function = function.ok_or(INVALID_VALUE)?;
        if !record(stream, || Ok(Recorded::Host(function, data as usize)))? {
            // SAFETY: the caller's promise is this call's.
            unsafe { function(data) };
        }
        Ok(())
    }

    fn cuEventCreate(event: *mut *mut c_void, flags: u32) {
        let _ = flags;
        contexts::needed()?;
        // SAFETY: the caller gives a place for the result.
        unsafe { put(event, driver().events.add(Arc::new(Event::default()))) }
    }

    #[always]
    fn cuEventDestroy_v2(event: *mut c_void) { driver().events.remove(event).map(drop) }

    fn cuEventRecord(event: *mut c_void, stream: *mut c_void) {
        let event = driver().events.get(event)?;
        if !record(stream, || Ok(Recorded::Event(Arc::clone(&event))))? {
            event.now();
        }
        Ok(())
    }

    fn cuEventQuery(event: *mut c_void) { driver().events.get(event).map(drop) }

    fn cuEventSynchronize(event: *mut c_void) { driver().events.get(event).map(drop) }

    fn cuEventElapsedTime(ms: *mut f32, start: *mut c_void, end: *mut c_void) {
        let at = |event| -> Outcome<Instant> { lock(&driver().events.get(event)?.0).ok_or(INVALID_HANDLE) };
        let (start, end) = (at(start)?, at(end)?);
        let seconds = if end >= start { (end - start).as_secs_f32() } else { -(start - end).as_secs_f32() };
        // SAFETY: the caller gives a place for the result.
        unsafe { put(ms, seconds * 1e3) }
    }
}

impl Event {
    /// Records the time.
    pub fn now(&self) {
        *lock(&self.0) = Some(Instant::now());
    }
}
