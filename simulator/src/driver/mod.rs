//! The driver API: what programs call under the names of `cuda.h`.
//!
//! Work is done when it is asked for: streams only keep it in order, events tell the time of the host. A kernel that
//! faults leaves the device in the error's state, as a driver does: every later call answers with it.

mod contexts;
mod device;
mod errors;
mod graphs;
mod handles;
mod launches;
mod memory;
mod modules;
mod settings;
mod streams;
mod tensor_maps;

use crate::exec::Table;
use errors::{OUT_OF_MEMORY, UNKNOWN};
use handles::Handles;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

/// The result of a call: an error's code, as `CUresult`.
type Outcome<T = ()> = Result<T, u32>;

/// Everything there is.
#[derive(Default)]
struct Driver {
    memory: Mutex<Memory>,
    /// The error of the kernel that faulted, or 0.
    broken: AtomicU32,
    contexts: Handles<contexts::Context>,
    modules: Handles<modules::Module>,
    functions: Handles<modules::Function>,
    streams: Handles<streams::Stream>,
    events: Handles<streams::Event>,
    graphs: Handles<graphs::Graph>,
    parsed: Mutex<modules::Parsed>,
    launches: std::sync::atomic::AtomicU64,
}

/// Device memory.
#[derive(Default)]
struct Memory {
    table: Arc<Table>,
    used: usize,
}

fn driver() -> &'static Driver {
    static DRIVER: OnceLock<Driver> = OnceLock::new();
    DRIVER.get_or_init(Driver::default)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Driver {
    /// The allocations at the moment.
    fn table(&self) -> Arc<Table> {
        Arc::clone(&lock(&self.memory).table)
    }

    fn allocate(&self, bytes: usize) -> Outcome<u64> {
        let mut memory = lock(&self.memory);
        if bytes > settings::memory_bytes() - memory.used.min(settings::memory_bytes()) {
            return Err(OUT_OF_MEMORY);
        }
        let allocation = crate::exec::Allocation::new(bytes).ok_or(OUT_OF_MEMORY)?;
        let address = allocation.address();
        memory.used += bytes;
        Arc::make_mut(&mut memory.table).insert(allocation);
        Ok(address)
    }

    /// Frees memory; kernels that run keep theirs until they have ended.
    fn free(&self, address: u64) -> Outcome {
        let mut memory = lock(&self.memory);
        let freed = Arc::make_mut(&mut memory.table).remove(address).ok_or(errors::INVALID_VALUE)?;
        memory.used -= freed.bytes();
        Ok(())
    }
}

/// Runs a call; nothing unwinds into the caller.
fn guarded(call: impl FnOnce() -> Outcome) -> u32 {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(call)) {
        Ok(Ok(())) => 0,
        Ok(Err(code)) => code,
        Err(_) => UNKNOWN,
    }
}

/// As [`guarded`], where a device that a kernel broke answers with its error.
fn guarded_by_device(call: impl FnOnce() -> Outcome) -> u32 {
    match driver().broken.load(Ordering::Relaxed) {
        0 => guarded(call),
        broken => broken,
    }
}

/// Writes a result where the caller wants it.
///
/// # Safety
/// The address is null or a place for the value.
unsafe fn put<T>(place: *mut T, value: T) -> Outcome {
    if place.is_null() {
        return Err(errors::INVALID_VALUE);
    }
    // SAFETY: the caller's promise; callers of the API need not align.
    unsafe { place.write_unaligned(value) };
    Ok(())
}

/// Defines functions of the API. With `always` they answer also when a kernel broke the device.
macro_rules! api {
    ($($(#[$mode:ident])? fn $name:ident($($arg:ident: $ty:ty),* $(,)?) $body:block)*) => { $(
        #[doc = concat!("`", stringify!($name), "` of `cuda.h`.")]
        ///
        /// # Safety
        /// As NVIDIA's documentation of the function says.
        // Comments within a macro do not survive its expansion.
        #[allow(non_snake_case, clippy::too_many_arguments, clippy::undocumented_unsafe_blocks)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $ty),*) -> u32 {
            let call = move || -> $crate::driver::Outcome { $body };
            $crate::driver::api!(@run $($mode)? call)
        }
    )* };
    (@run always $call:ident) => { $crate::driver::guarded($call) };
    (@run $call:ident) => { $crate::driver::guarded_by_device($call) };
}
use api;
